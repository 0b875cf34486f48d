"""Names what a campaign over proxies must meet, and what clients and judges of them both speak of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

SHARED, SECOND, LANDED = "shared", "second", "landed"
"""Queues of the other pair; the last one is a member of a macro queue that is sent to here."""

FOUND_AGAIN = "a call through a proxy found its first answer"
GAVE = "a macro queue gave what another pair has"
SETTLED = "settled here, and done at the other pair"
RETURNED = "a head of another pair went back"
PASSED = "a member elsewhere was late or away while somebody waited"
REOPENED = "a proxy opened again by itself"
STRANGER = "another manager answered at the address of a proxy's"
TAKEOVER_HERE = "a takeover here with heads of the other pair"
TAKEOVER_THERE = "a takeover at the other pair with heads of it here"
DEALT = "a macro queue dealt to a queue of another pair"
PASSED_AWAY = "a member elsewhere was dealt nothing while others took it"
TAKEOVER_DEALT = "a takeover with messages on their way to a member elsewhere"
POINTS: Mapping[str, str] = MappingProxyType(
    {
        DEALT: "M4: it arrived there once, in its order",
        PASSED_AWAY: "0102: its proxy had failed, or it was the longer one",
        TAKEOVER_DEALT: "M4: of either pair; the link found what had arrived",
        FOUND_AGAIN: "the other pair answered a repetition of a call that came through a proxy (M11)",
        GAVE: "M7: to a consumer of the macro queue",
        SETTLED: "M7: by the name of the macro queue, or of the proxy",
        RETURNED: "M7: nobody took it",
        PASSED: "M7: the others gave",
        REOPENED: "M11: it had failed",
        STRANGER: "M11: and got nothing of what was meant for the other pair",
        TAKEOVER_HERE: "M7: the next master takes heads of its own",
        TAKEOVER_THERE: "M7: what the next master there does not know nobody is given",
    }
)


class Given(NamedTuple):
    """What one call, or one delivery of a stream, brought of a queue of the other pair."""

    at_s: float
    consumer: str
    call: int
    """Of those that one consumer makes one by one; 0: it has a stream."""
    lease_id: int
    """As the other pair has it."""
    indexes: tuple[int, ...]
    asked_ms: int


@dataclass(slots=True)
class Elsewhere:
    """What consumers of macro queues report."""

    given: list[Given] = field(default_factory=list)
