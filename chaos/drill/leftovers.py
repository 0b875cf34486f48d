"""Heals what a drill that was killed has left at a pair of `tandemq dev`, before the next one begins, and names it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from chaos.cluster import STOPPED
from chaos.healing import whole_again
from chaos.pair import Hands, Pair

if TYPE_CHECKING:
    from chaos.toxic_relays import FoundRelays

WITHIN_S = 20.0  # as long as the steady state is waited for


class Watched(Hands, Protocol):
    """Hands that know how every process does."""

    def states(self) -> dict[str, str]:
        """By name, the witness too."""
        ...


async def heal_leftovers(pair: Pair, hands: Watched, relays: FoundRelays | None) -> list[str]:
    """What was healed, a sentence each; then the pair is whole again. Raises RuntimeError."""
    healed: list[str] = []
    if relays is not None:
        for name, what in (await asyncio.to_thread(relays.heal_what_is_left)).items():
            healed.append(f"{name} was hurt in Toxiproxy ({what}): taken away")
    for name, state in (await asyncio.to_thread(hands.states)).items():
        if state == STOPPED:
            await asyncio.to_thread(hands.thaw, name)
            healed.append(f"{name} was stopped (SIGSTOP): it goes on")
    for name in pair.members:
        if await hands.ended(name):
            await hands.start(name)
            healed.append(f"{name} did not run: started again")
    if healed:
        ended = await whole_again(pair, hands, "whole after what was left was healed", WITHIN_S, pair.members)
        healed += [f"{name} ended by itself when it went on: started again" for name in ended]
    return healed
