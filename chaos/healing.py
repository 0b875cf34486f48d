"""Takes back whatever faults may have left at a pair; it does not know which there were."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from chaos.pair import Hands, Pair
from tandemq.cli.view import PairView


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
        await pair.wait_for(PairView.whole, "whole after all was healed", within_s)
    except RuntimeError as error:
        return [*left, str(error)], False
    return left, True
