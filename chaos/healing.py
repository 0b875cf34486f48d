"""Takes back whatever faults may have left at a pair; it does not know which there were."""

from __future__ import annotations

import asyncio

from chaos.pair import Hands, Pair
from tandemq.cli.view import PairView


async def heal(pair: Pair, hands: Hands, within_s: float) -> tuple[list[str], bool]:
    """What could not be undone, a sentence each, and whether the pair is whole again. Never raises what a deed does."""
    left: list[str] = []
    try:
        if hands.network is not None:
            await asyncio.to_thread(hands.network.heal)
    except RuntimeError as error:
        left.append(str(error))
    for name in pair.members:
        try:
            if hands.preload is not None:
                hands.preload.calm(name)
            await asyncio.to_thread(hands.thaw, name)
        except RuntimeError as error:
            left.append(str(error))
    for name in pair.members:
        try:
            await hands.start(name)
        except RuntimeError as error:
            left.append(str(error))
    try:
        await pair.wait_for(PairView.whole, "whole after all was healed", within_s)
    except RuntimeError as error:
        return [*left, str(error)], False
    return left, True
