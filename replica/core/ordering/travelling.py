"""What a reaction to a queue of another manager is: a message among those that it follows; and which messages it means,
on their way and there (V17). Orders nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from replica.core.messages.copies import HOPS, REACTION, SOURCE, SOURCE_ID, TO
from replica.core.selection.filters import properties_of
from replica.machine.state.system_names import xmit_queue
from tandemq.v1.message_pb2 import Message

if TYPE_CHECKING:
    from replica.core.selection.filters import Read

CONTENT_TYPE = "application/x-protobuf; messageType=tandemq.v1.Reaction"
"""Of a reaction that is a message."""
FULL = "//"
"""With which a full name begins."""
LOWEST = 0
"""The priority under which it passes nothing that was sent before it."""


class GoesOn(NamedTuple):
    """To a queue of another manager."""

    full_name: str
    body: bytes
    """The reaction as it acts there, serialized."""
    hops: int = 0
    """Managers that it has come through."""
    source: str = ""
    """Where it was first sent; empty: here."""


class SourceIds(NamedTuple):
    """Ids that messages had where they were first put: those of a reaction that came from there."""

    source: str
    ids: frozenset[bytes]


def means(to: GoesOn | None, named: SourceIds | None, row: Read, ordinal: int) -> bool:
    """Whether a message that the filter of a reaction takes is one of those that it is for."""
    if to is None and named is None:
        return True
    said = properties_of(row, ordinal)
    if to is not None and (REACTION in said or TO not in said or said[TO].text != to.full_name):
        return False
    if named is None:
        return True
    return SOURCE in said and said[SOURCE].text == named.source and said[SOURCE_ID].data in named.ids


def message_of(to: GoesOn) -> Message:
    """As which it goes on. No other reaction acts on it."""
    message = Message(payload=to.body, content_type=CONTENT_TYPE, persistent=True, priority=LOWEST, inert=True)
    message.properties[REACTION].flag = True
    message.properties[TO].text = to.full_name
    if to.hops:
        message.properties[HOPS].integer = to.hops
    if to.source:
        message.properties[SOURCE].text = to.source
    return message


def report_place(name: str) -> tuple[str, str]:
    """The queue here that a report enters, and its full name where that is the way to another manager, else empty."""
    if not name.startswith(FULL):
        return name, ""
    return xmit_queue(name.removeprefix(FULL).partition("/")[0]), name
