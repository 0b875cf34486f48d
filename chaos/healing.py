"""Takes back whatever faults may have left at a pair; it does not know which there were."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Sequence

from chaos.cluster import describe
from chaos.pair import Hands, Pair

POLL_S = 0.1


async def heal(pair: Pair, hands: Hands, within_s: float) -> tuple[list[str], bool]:
    """What could not be undone, a sentence each, and whether the pair is whole again. Never raises what a deed does."""
    left: list[str] = []

    async def undo(deed: Awaitable[object]) -> None:
        try:
            await deed
        except (RuntimeError, OSError) as error:  # a control file may be gone, or a port taken meanwhile
            left.append(str(error))

    if hands.network is not None:
        await undo(asyncio.to_thread(hands.network.heal))
    for name in pair.members:
        if hands.preload is not None:
            await undo(asyncio.to_thread(hands.preload.calm, name))
        await undo(asyncio.to_thread(hands.thaw, name))
    for name in pair.members:
        await undo(hands.start(name))
    try:
        await whole_again(pair, hands, "whole after all was healed", within_s, pair.members)
    except (RuntimeError, OSError) as error:
        return [*left, str(error)], False
    return left, True


async def whole_again(pair: Pair, hands: Hands, what: str, within_s: float, may_end: Sequence[str]) -> list[str]:
    """Returns when the pair is whole; who of `may_end` ends meanwhile is started again. Those who were, in order.

    A member that was frozen for long may find, when it goes on, that it must not: it ends itself. Raises RuntimeError
    at the deadline, saying what was seen, when a member cannot be started, or when somebody else is known to be gone.
    """
    started: list[str] = []
    deadline = time.monotonic() + within_s
    while True:
        for name in may_end:
            if await hands.ended(name):
                await hands.start(name)
                started.append(name)
        view = await pair.status()
        if view.whole():
            return started
        hands.check_alive(may_end)
        if time.monotonic() > deadline:
            raise RuntimeError(f"not {what} within {within_s:g} s; seen: {describe(view)}")
        await asyncio.sleep(POLL_S)
