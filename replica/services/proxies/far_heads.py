"""Sees to the members of macro queues that are at other managers, at the serving master of a domain: which of them are
asked, and when (M7). Chooses nobody.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING

from replica.services.proxies.far_tap import LATE_MS, FarTap
from tandemq.ambient import monotonic_ms

if TYPE_CHECKING:
    from replica.core.delivery.far_heads import FarMember
    from replica.core.domain import Domain
    from replica.core.state.calls import Consumer
    from replica.machine.state.macros import MacroQueue
    from replica.node.members import Members
    from replica.services.proxies.far_acks import AckGatherer
    from replica.services.proxies.kept import KeptProxies

LOOK_ALL_MS = 250
"""Those that are away are looked at so often; the others whenever somebody waits."""

HEARD_S = 2 * LATE_MS / 1000
"""No call waits longer for the word of a member, whatever becomes of that."""


class FarMembers:
    """Of the macro queues of one domain."""

    def __init__(self, members: Members, domain: Domain, keeper: KeptProxies) -> None:
        self.members, self.domain, self.keeper = members, domain, keeper
        self.taps: dict[tuple[int, int], FarTap] = {}
        self._leaving: list[FarTap] = []
        """Of members that are none any more, and have something to settle still."""
        self._heard = asyncio.Event()
        self._epoch = 0
        self._looks = False
        self._all_ms = 0
        domain.consumers.fan_in.far.shell = self

    def wake(self) -> None:
        """See FarShell. Called while the core decides, so nothing is looked at before it is done."""
        if not self._looks:
            self._looks = True
            asyncio.get_running_loop().call_soon(self._look_soon)

    def look(self, now_ms: int) -> None:
        """At each tick."""
        if self.taps or self._leaving or self.domain.consumers.fan_in.far.macros:
            is_due = now_ms - self._all_ms >= LOOK_ALL_MS
            self._all_ms = now_ms if is_due else self._all_ms
            self._look(now_ms, every=is_due)

    def refresh(self, macro: MacroQueue) -> dict[int, FarMember]:
        """Its members at other managers, by proxy, as they stand now, though nobody waits."""
        machine, far = self.domain.shared.machine, self.domain.consumers.fan_in.far
        if machine is None or not self.domain.shared.serving:
            return {}
        found = dict(far.of(machine.state, macro))
        self._look(monotonic_ms(), every=True)
        return found

    def _look_soon(self) -> None:
        self._looks = False
        self._look(monotonic_ms(), every=False)

    def _look(self, now_ms: int, *, every: bool) -> None:
        shared, far = self.domain.shared, self.domain.consumers.fan_in.far
        serves = shared.serving and shared.machine is not None
        if not serves or self._epoch != shared.state.epoch:
            for tap in (*self.taps.values(), *self._leaving):
                tap.close()
            self.taps.clear()
            self._leaving.clear()
            self._epoch = shared.state.epoch
        if not serves or shared.machine is None:
            return
        state, there = shared.machine.state, set[tuple[int, int]]()
        for macro_id in tuple(far.macros):
            macro = state.macros.by_id.get(macro_id)
            if macro is None:
                far.drop(macro_id)
                continue
            for proxy_id, member in far.of(state, macro).items():
                there.add(key := (macro_id, proxy_id))
                if key not in self.taps:
                    self.taps[key] = FarTap(self, macro, member)
        for key in self.taps.keys() - there:
            self._leaving.append(self.taps.pop(key))
            self._leaving[-1].leave(now_ms)
        self._leaving = [tap for tap in self._leaving if tap.is_leaving(now_ms)]
        changed = {tap.macro.queue_id for tap in self.taps.values() if (every or tap.is_able) and tap.look(now_ms)}
        if changed:
            self.pump(changed)

    def gatherer(self, macro: str, proxy: str) -> AckGatherer | None:
        """Of a member at another manager, by both names; None: nothing is leased there for that macro queue now."""
        found = (tap for tap in self.taps.values() if tap.macro.name == macro and tap.member.name == proxy)
        return next(found, None)

    async def heard(self, consumer: Consumer) -> None:
        """Until each member of its macro queue has said whether it has something, or is late. A call that does not wait
        finds what is there all the same.
        """
        far = self.domain.consumers.fan_in.far
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(HEARD_S):
                while consumer.attached:
                    if not any(each.is_awaited for each in far.macros.get(consumer.queue_id, {}).values()):
                        return
                    self._heard.clear()
                    await self._heard.wait()

    def pump(self, macro_ids: set[int]) -> None:
        """Some of their members have something, or stand otherwise than before."""
        self._heard.set()
        self.domain.consumers.pump(macro_ids)
        self.members.node.dispatch(self.domain)
