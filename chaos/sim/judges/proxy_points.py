"""Names what a campaign over proxies must meet, and what clients and judges of them both speak of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import NamedTuple

SHARED, SECOND = "shared", "second"
"""Queues of the other pair."""

FOUND_AGAIN = "a call through a proxy found its first answer"
GAVE = "a macro queue gave what another pair has"
SETTLED = "settled here, and done at the other pair"
RETURNED = "a head of another pair went back"
PASSED = "a member elsewhere was late or away while somebody waited"
REOPENED = "a proxy opened again by itself"
STRANGER = "another manager answered at the address of a proxy's"
TAKEOVER_HERE = "a takeover here with heads of the other pair"
TAKEOVER_THERE = "a takeover at the other pair with heads of it here"
POINTS: Mapping[str, str] = MappingProxyType(
    {
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
