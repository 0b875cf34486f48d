"""Decides which queue here each message of a unit enters: the one it is for, or the transmission queue on its way
there. Orders nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from replica.machine import Refused
from replica.machine.plan.content import check_message
from replica.machine.state.system_names import target_of
from replica.services.elsewhere import Onward, onward_of, stamp
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from replica.machine import Limits
    from replica.machine.state.system_names import Destination
    from replica.node.members import Members
    from tandemq.v1.message_pb2 import Message
    from tandemq.v1.transaction_service_pb2 import TransactRequest

BYTES_ADDED_MAX = 1_024
"""By managers to one message: where it came from and goes to, and why it is a dead letter."""


@dataclass(slots=True)
class Entering:
    """What enters one queue, in the order of the calls."""

    queue: str
    rows: list[Message] = field(default_factory=list)
    places: list[int] = field(default_factory=list)
    """Of each row: which put of the request it stood in."""
    onward: bool = False
    """They are for a queue of another manager."""
    target: Destination | None = None
    """Where that is."""


def entering_of(members: Members, request: TransactRequest) -> list[Entering]:
    """Changes the messages of the request that go on. Raises Refused."""
    found: list[Entering] = []
    going: dict[str, Entering] = {}
    places = [onward_of(members, put.queue) for put in request.puts]
    if not request.forwarder and any(isinstance(each, Onward) for each in places):
        for put in request.puts:
            for row in put.messages:
                check_message(row)  # before it gets names that no client may set
                check_size(row, members.node.limits)
    for place, (where, put) in enumerate(zip(places, request.puts, strict=True)):
        if isinstance(where, str):
            # A transmission queue that is named itself is made for a manager that somebody knows, too.
            rows = list(put.messages)
            found.append(Entering(where, rows, [place] * len(rows), target=target_of(where)))
            continue
        for row in put.messages:
            name = stamp(row, where)
            if name not in going:
                going[name] = Entering(name, onward=True, target=where.target if name == where.through else None)
                found.append(going[name])
            going[name].rows.append(row)
            going[name].places.append(place)
    return found


def check_size(row: Message, limits: Limits) -> None:
    """It goes on alone if need be, and gets longer on its way. Raises Refused (MESSAGE_TOO_LARGE)."""
    if (size := row.ByteSize()) > limits.batch_bytes_max - BYTES_ADDED_MAX:
        text = (
            f"a message of {size} bytes for a queue of another manager; it may have "
            f"{limits.batch_bytes_max - BYTES_ADDED_MAX} with its properties: managers add some on its way"
        )
        raise Refused(Reason.REASON_MESSAGE_TOO_LARGE, text)


def here(members: Members, queue: str) -> str:
    """The name of a queue that is spoken of here alone. Raises Refused (BAD_NAME)."""
    where = onward_of(members, queue)
    if isinstance(where, str):
        return where
    text = f"{queue} is a queue of another manager: what was taken there is settled there"
    raise Refused(Reason.REASON_BAD_NAME, text, {"queue": queue})
