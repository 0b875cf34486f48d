"""Writes a history down, an event a line in the order of time, for people and other checkers; draws no conclusion.

Operations are two lines, as they were: the invocation and the outcome.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from chaos.history import History, Struck


def write_history(path: Path, history: History, struck: Iterable[Struck]) -> None:
    """One JSON object a line; `t` is seconds since the run began, `event` says what it is."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for event in sorted(events(history, struck), key=lambda event: event["t"]):
            file.write(json.dumps(event, separators=(",", ":")) + "\n")


def events(history: History, struck: Iterable[Struck]) -> Iterator[dict[str, Any]]:
    """In no order."""
    facts: dict[str, Any]
    for operation in history.operations:
        facts = {
            "client": operation.client,
            "verb": operation.verb,
            "messages": [[*each] for each in operation.messages],
        }
        yield {"t": _at(operation.asked_s), "event": "invoke", **facts}
        detail = {"detail": operation.detail} if operation.detail else {}
        yield {"t": _at(operation.at_s), "event": operation.outcome, **facts, **detail}
    for ack in history.acked:
        facts = {"message": [*ack.message], "index": ack.index, "epoch": ack.epoch, "copies": ack.copies}
        yield {"t": _at(ack.at_s), "event": "acknowledged", **facts}
    for delivery in history.delivered:
        facts = {"message": [*delivery.message], "index": delivery.index, "count": delivery.delivery_count}
        yield {"t": _at(delivery.at_s), "event": "delivered", **facts}
    for settled in history.settled:
        yield {"t": _at(settled.at_s), "event": "settled", "index": settled.index}
    for fault in struck:
        facts = {"kind": fault.kind, "members": [*fault.members]}
        yield {"t": _at(fault.from_s), "event": "fault", **facts}
        if math.isfinite(fault.to_s):
            yield {"t": _at(fault.to_s), "event": "healed", **facts}
    yield from _views(history)


def _views(history: History) -> Iterator[dict[str, Any]]:
    """What members and register said, whenever it changed."""
    facts: dict[str, Any]
    last: dict[str, tuple[Any, ...]] = {}
    for seen in history.seen:
        state = (seen.incarnation, seen.role, seen.data, seen.epoch, seen.linked, seen.witnessed)
        if last.get(seen.member) != state:
            last[seen.member] = state
            names = ("incarnation", "role", "data", "epoch", "linked", "witnessed")
            yield {
                "t": _at(seen.at_s),
                "event": "member",
                "member": seen.member,
                **dict(zip(names, state, strict=True)),
            }
    version = -1
    for record in history.recorded:
        if record.version > version:
            version = record.version
            facts = {"epoch": record.epoch, "holder": record.holder, "in_sync": [*record.in_sync]}
            yield {"t": _at(record.at_s), "event": "register", "version": version, **facts}
    for handed in history.handed:
        facts = {"done": handed.done, "master": handed.master, "epoch": handed.epoch, "reasons": [*handed.reasons]}
        yield {"t": _at(handed.at_s), "event": "handoff", **facts}


def _at(at_s: float) -> float:
    return round(at_s, 4)
