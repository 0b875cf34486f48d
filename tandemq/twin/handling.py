"""What a twin's handler is given and gives back; it decides nothing, and nothing in it differs between the twins."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from typing import NamedTuple, TypeVar, Unpack

from tandemq.client.delivery import RESERVED
from tandemq.client.outgoing import Attributes, Value
from tandemq.client.parts import Part

State = TypeVar("State")


class TwinInput:
    """One message, the same at both twins: what differs between two deliveries of it cannot be asked for."""

    __slots__ = ("_part", "_place", "index", "payload")

    def __init__(self, part: Part, place: int, index: int) -> None:
        self._part, self._place = part, place
        self.index = index
        """Its ordering index in the queue of inputs, dense from 1."""
        self.payload: bytes = part.payloads[place]

    @property
    def properties(self) -> dict[str, Value]:
        """What its sender gave, by name."""
        given = self._part.attributes(self._place).get("properties", {})
        return {name: value for name, value in given.items() if not name.startswith(RESERVED)}

    @property
    def correlation_id(self) -> str:
        return self._part.attributes(self._place).get("correlation_id", "")

    @property
    def content_type(self) -> str:
        return self._part.attributes(self._place).get("content_type", "")

    @property
    def reply_to(self) -> str:
        """The queue that its sender named for an answer; empty: none. Of a TWO_WAY queue the manager sends a copy of
        `Output.reply` there.
        """
        return self._part.attributes(self._place).get("reply_to", "")

    @property
    def sent_at(self) -> datetime:
        """When its master ordered it, UTC: the only clock that both twins read alike."""
        return datetime.fromtimestamp(self._part.enqueue_time_ms(self._place) / 1000, UTC)

    def __repr__(self) -> str:
        return f"TwinInput(index={self.index}, {len(self.payload)} bytes)"


class Output(NamedTuple):
    """One message that a handler sends. Its queue is one of the pair's, in the inputs' domain; see `reply` too."""

    queue: str
    payload: bytes
    attributes: Attributes = {}  # noqa: RUF012 - never written to

    @classmethod
    def reply(cls, payload: bytes, **attributes: Unpack[Attributes]) -> Output:
        """The answer to the input, of a TWO_WAY queue: whichever twin is first gives it, and an equal second one is
        nothing new (K11). At most one an input; one that comes behind the end of its request is left out.
        """
        return cls(REPLY, payload, attributes)


REPLY = ""
"""In the place of a queue: the output is the answer to its input."""


Handler = Callable[[State, TwinInput], tuple[State, Iterable[Output]]]
"""Deterministic: state and input alone decide what comes back. It may change the state that it is given. It never
waits, and what it raises stops the twin at that input."""
