"""Looks at the peer by another network, and at targets that show whether this member is cut off; it proves nothing.

Safety class B: a peer that is silent on both paths is most likely dead, and may yet serve somebody on a third. Its
verdict needs no luck to be harmless: 24 and 22 promote nobody. What could not be probed is unknown, never "dead".

    the peer's second address  the reference targets          verdict
    -------------------------  -----------------------------  --------------------------------------------
    answers                    any                            24: only the link is broken
    blind or cut off           any                            none: nothing was seen of the peer
    silent or refuses          one answers or refuses         20 for a master, 21 for a good copy, else 23
    silent or refuses          all silent or cut off          22: this member is cut off
    silent or refuses          some blind, the others silent  none: nothing was seen of the network

A replica looks twice, the bias apart: a master that lives on answers first, and a loaded side wins the race.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from failover.classifier import Answer, Event, EventKind, Outcome, SafetyClass, Verdict, by_authority
from failover.probe import Looking, Seen, Sight, look

PROBE_S = 1.0
"""One look; less when the event leaves less time."""
SHARE = 0.9  # of the time that is left
REFERENCE_COUNT_MIN = 2  # one target may be down by itself
DEAD = (Sight.SILENT, Sight.REFUSES)
NOT_MINE = (EventKind.LOCAL_FAULT, EventKind.DIVERGENCE)
"""Events that are not about the network."""


def judge(event: Event, peer: Seen, references: Sequence[Seen]) -> tuple[Verdict | None, str]:
    """The table, and why in one sentence."""
    seen = f"peer: {peer}; references: {', '.join(map(str, references))}"
    if event.kind in NOT_MINE:
        return Verdict.WAIT, f"probes say nothing about {event.kind.value}"
    if peer.sight is Sight.ANSWERS:
        return Verdict.PEER_ALIVE, f"the peer lives, only the link is broken; {seen}"
    if peer.sight not in DEAD:
        return None, f"the peer could not be probed; {seen}"
    sights = {each.sight for each in references}
    if sights & {Sight.ANSWERS, Sight.REFUSES}:  # a refusal came from somewhere: this member has a network
        return by_authority(event), f"the peer is silent on both paths; {seen}"
    if Sight.BLIND in sights or not references:
        return None, f"no reference could be probed: this member may be the one that is cut off; {seen}"
    return Verdict.FAILED_INSTANCE, f"nothing answers: this member is cut off; {seen}"


class AltPath:
    """Shipped: `alt-path`."""

    name = "alt-path"
    safety = SafetyClass.B

    def __init__(
        self,
        address: str,
        references: Sequence[str],
        *,
        bias_s: float = 2.0,
        http: bool = False,
        looking: Looking = look,
    ) -> None:
        self.address, self.references, self.bias_s, self.http = address, tuple(references), bias_s, http
        self._looking = looking

    async def classify(self, event: Event) -> Answer:
        """See Classifier. The bias shrinks to half of the time that the event leaves."""
        clock = asyncio.get_running_loop().time
        began = clock()
        time_s = event.decide_by_ms / 1000 * SHARE
        bias_s = min(self.bias_s, time_s / 2)
        probe_s = min(PROBE_S, (time_s - bias_s) / 2)
        verdict, reason = judge(event, *await self._look(probe_s))
        if verdict is Verdict.ASSUME_MASTERSHIP:
            await asyncio.sleep(bias_s)
            verdict, reason = judge(event, *await self._look(probe_s))
        answer = Answer(event.event_id, event.link_generation, verdict, reason, by=self.name)
        return replace(answer, duration_ms=round((clock() - began) * 1000))

    async def preflight(self) -> list[str]:
        """Looks once at everything, and at what is configured."""
        peer, references = await self._look(PROBE_S)
        found = [] if peer.sight is Sight.ANSWERS else [f"the peer's second address: {peer}"]
        found += [f"reference: {each}" for each in references if each.sight not in (Sight.ANSWERS, Sight.REFUSES)]
        if len(set(self.references)) < REFERENCE_COUNT_MIN:
            found.append(f"it needs at least {REFERENCE_COUNT_MIN} different references")
        return found

    async def report(self, outcome: Outcome) -> None:
        """Nothing to learn."""

    async def _look(self, probe_s: float) -> tuple[Seen, list[Seen]]:
        """At everything at once. References are only connected to: a network is there when a kernel answers."""
        peer, *references = await asyncio.gather(
            self._looking(self.address, probe_s, http=self.http),
            *(self._looking(each, probe_s) for each in self.references),
        )
        return peer, references
