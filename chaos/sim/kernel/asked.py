"""The program that simulated reactions ask (V10): a pure function of a message's body, which takes its time.

What it says once it says at the other member, and at the next attempt.
"""

from __future__ import annotations

import asyncio
import hashlib
from typing import TYPE_CHECKING

from replica.core.ordering.reaction import Effect
from tandemq.v1.reaction_service_pb2 import ReactionUpdate

if TYPE_CHECKING:
    from replica.core.messages.copies import FoundMessage
    from replica.services.messages.custom_advisers import Said
    from tandemq.v1.reaction_service_pb2 import ReactionCustom

NAME, ASIDE = "simulated", "m"
LEAVE, DELETE, MOVE, CHANGE, FAIL = "leave", "delete", "move", "change", "fail"
WORDS = (LEAVE, DELETE, MOVE, CHANGE, FAIL)
DOES = (DELETE, MOVE, CHANGE)


def word_about(payload: bytes) -> str:
    """What it says of a message with that body."""
    return WORDS[hashlib.blake2b(payload, digest_size=1).digest()[0] % len(WORDS)]


class Asked:
    """At one member."""

    async def ask(self, custom: ReactionCustom, queue: str, found: FoundMessage, limit_s: float) -> Said:  # noqa: ARG002
        """Within the limit."""
        assert found.message is not None, "asked about what is not here"
        await asyncio.sleep(limit_s / 20)
        match word_about(found.message.payload):
            case "delete":
                return Effect()
            case "move":
                return Effect(ASIDE)
            case "change":
                update = ReactionUpdate(priority=9)
                update.set_properties["changed"].flag = True
                return Effect(update=update)
            case "fail":
                return "it has no answer"
            case _:
                return None

    def close(self) -> None:
        """Nothing runs."""
