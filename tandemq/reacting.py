"""What a custom reaction is asked about a message, and what it may answer; see docs/REACTIVE.md. It decides nothing.

A package offers one in the entry point group `tandemq.reactions`: a class, or another callable without arguments, whose
result is a `CustomReaction`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from tandemq.client.outgoing import Value
from tandemq.client.reactions import Cancel, Change, MoveTo

GROUP = "tandemq.reactions"


@dataclass(frozen=True, slots=True)
class Leave:
    """The message stays as it is."""


@dataclass(frozen=True, slots=True)
class Input:
    """What the caller of the reaction has sent along (`Custom`)."""

    payload: bytes = b""
    content_type: str = ""
    properties: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Question:
    """What is to become of this message?"""

    reaction: str
    """Name under which the reaction is asked."""
    queue: str
    id: bytes
    """Of the message, 16 bytes."""
    index: int
    deliveries: int
    """That ended without a settlement."""
    payload: bytes
    content_type: str = ""
    correlation_id: str = ""
    group_id: str = ""
    reply_to: str = ""
    priority: int = 4
    properties: Mapping[str, Value] = field(default_factory=dict)
    input: Input = Input()


Answer: TypeAlias = Leave | Cancel | MoveTo | Change


class CustomReaction(Protocol):
    """Says what becomes of messages that a reaction has found."""

    async def decide(self, question: Question) -> Answer:
        """Within 100 ms (`custom.call_ms`); it is cancelled then. One call at a time, in a thread and on an event loop
        of its own. Whatever else it does, raising included, leaves the message as it is, and is counted as failed.

        It may be asked again about the same message: by another member, after a takeover, and where the call that it
        was asked for came to nothing. So it must have no effect of its own.
        """
        ...


__all__ = ["GROUP", "Answer", "Cancel", "Change", "CustomReaction", "Input", "Leave", "MoveTo", "Question"]
