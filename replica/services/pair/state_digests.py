"""Makes the digests of queues' states that a status shows, in a small share of the member's time."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from tandemq.ambient import monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.machine import Machine

RECORDS_MAX = 100_000
"""Above this many live messages a state has no digest here: making one walks over all of the state."""
QUICK_MS = 5
"""What takes no longer is made for each look."""
SHARE = 0.05
"""Of the member's time, for digests that take longer."""


class Made(NamedTuple):
    """The last one of a domain."""

    place: tuple[int, int]
    """Generation of its progress, and applied index."""
    digest: str
    next_ms: int
    """When another one may be made, by the clock that does not step."""


class StateDigests:
    """Those of one member's domains. Nobody is served while one is made."""

    def __init__(self, now_ms: Callable[[], int] = monotonic_ms) -> None:
        self._now_ms = now_ms
        self._made: dict[str, Made] = {}

    def look(self, domain: str, generation: int, machine: Machine) -> str | None:
        """In hex, of what is applied now; empty for a state that is too large. None: left out for now.

        Whoever looks at a busy pair again and again takes `SHARE` of its time and no more. Once nothing is applied any
        more, some look has it: it is kept until something is.
        """
        place = (generation, machine.applied_index)
        made = self._made.get(domain)
        if made is not None and made.place == place:
            return made.digest
        numbers = [machine.queue_id(queue) for queue in machine.names()]
        if sum(machine.queue(number).segments.rows for number in numbers if number is not None) > RECORDS_MAX:
            return ""
        began_ms = self._now_ms()
        if made is not None and began_ms < made.next_ms:
            return None
        digest = machine.digest().hex()
        ended_ms = self._now_ms()
        took_ms = ended_ms - began_ms
        next_ms = ended_ms + round(took_ms / SHARE) if took_ms > QUICK_MS else 0
        self._made[domain] = Made(place, digest, next_ms)
        return digest
