"""Starts handoffs that this member wants, and waits for their end; decides nothing about them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from replica.core.domain import Domain
    from replica.core.handoff.attempt import HandoffOutcome
    from replica.node.members import Members

LOOK_S = 0.02


async def hand_over(domain: Domain, members: Members, reason: str, **options: Any) -> HandoffOutcome:
    """Start a handoff and wait for its end."""
    ended: asyncio.Future[HandoffOutcome] = asyncio.get_running_loop().create_future()

    def note(outcome: HandoffOutcome) -> None:
        if not ended.done():
            ended.set_result(outcome)

    domain.start_handoff(members.node.clock.now_ms(), reason, on_end=note, **options)
    members.node.dispatch(domain)
    return await ended


async def hand_over_all(members: Members, domains: Sequence[Domain], timeout_s: float) -> None:
    """An orderly stop: give away what the peer can take (R132), and wait a bounded time. No handoff comes in any more.

    Calls of this member's clients that were parked meanwhile are answered by the new master before the doors close.
    """
    loop = asyncio.get_running_loop()
    until = loop.time() + timeout_s
    served = [domain for domain in domains if domain.shared.serving and domain.handoff.is_paired]
    started = [asyncio.ensure_future(hand_over(domain, members, "orderly stop")) for domain in served]
    await asyncio.sleep(0)  # each has begun before the bar goes up
    for domain in domains:
        domain.handoff.bars.add("BUSY")
    if not started:
        return
    done, late = await asyncio.wait(started, timeout=timeout_s)
    for start in late:
        start.cancel()
    if any(start.result().done for start in done):
        await wait_until(lambda: not any(len(domain.holding) for domain in served), until)


async def wait_until(condition: Callable[[], bool], until: float) -> bool:
    """Look now and then; False at the deadline."""
    while True:
        if condition():
            return True
        if asyncio.get_running_loop().time() >= until:
            return False
        await asyncio.sleep(LOOK_S)
