"""The execution environment of the first design, as a twin: an input queue, a script for each kind of message,
contextual objects as state, outputs to queues (R137-R139): a board of departures and delays by carrier, of flights.

    tandemq twin run board --name board --inputs flights --side a.example:7400 --directory /var/lib/board

Twice, one at each member. The queue `flights` has replication PRODUCER; departures, delays and faults are ordinary.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tandemq.twin import Output, TwinInput

BOARD_LINES = 10  # of each airport
SUMMARY_EACH = 100  # flights of a carrier

Context = dict[str, Any]


def initial() -> Context:
    """The contextual objects: what scripts know of the messages before theirs."""
    return {"board": {}, "carriers": {}, "cancelled": 0}


def handler(context: Context, message: TwinInput) -> tuple[Context, list[Output]]:
    """Chooses the script by the kind of message, and runs it."""
    kind = str(message.properties.get("kind", "flight"))
    script = SCRIPTS.get(kind)
    if script is None:
        return context, [Output("faults", f"{message.index}: no script for {kind}".encode())]
    return context, script(context, message)


def flight(context: Context, message: TwinInput) -> list[Output]:
    """A flight has left, or will not."""
    row = message.payload.decode().split(",")
    scheduled, delay, carrier, number, origin, destination = row[4], row[5], row[9], row[10], row[12], row[13]
    name = f"{carrier}{number} {origin}-{destination}"
    if not delay.lstrip("-").isdigit():
        context["cancelled"] += 1
        return [Output("departures", f"{message.index} {name} {scheduled} cancelled".encode())]
    board = context["board"].setdefault(origin, [])
    board.append(f"{scheduled} {name} {int(delay):+d}")
    del board[:-BOARD_LINES]
    known = context["carriers"].setdefault(carrier, {"flights": 0, "minutes": 0, "worst": 0})
    known["flights"] += 1
    known["minutes"] += int(delay)
    known["worst"] = max(known["worst"], int(delay))
    outputs = [Output("departures", f"{message.index} {name} {scheduled} {int(delay):+d}".encode())]
    if known["flights"] % SUMMARY_EACH == 0:
        text = f"{carrier} {known['flights']} flights, {known['minutes']} minutes, worst {known['worst']}"
        outputs.append(Output("delays", text.encode(), {"correlation_id": carrier}))
    return outputs


def show(context: Context, message: TwinInput) -> list[Output]:
    """Somebody asks for the board of an airport."""
    lines = context["board"].get(message.payload.decode(), [])
    return [Output("departures", "\n".join([f"{message.index} board", *lines]).encode())]


SCRIPTS: dict[str, Callable[[Context, TwinInput], list[Output]]] = {"flight": flight, "show": show}
