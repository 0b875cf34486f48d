"""Tells a data directory that was put back from an older copy: each start is counted on disk and at the witness.

An old copy believes in good faith that it holds everything acknowledged; only somebody else can know better
(reliability.md 6, rule 11). Until the witness has confirmed the start, no domain of this member claims. A copy
that is found to be old is STALE: it follows, and becomes current again by a transfer. Not seen: a copy that is made and
put back within one start.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from failover.authority import CasDone
from failover.marks import DataMark
from failover.register import STARTS, Register, RegisterState, claim, commit

if TYPE_CHECKING:
    from failover.authority import Authority
    from replica.node import Node

log = logging.getLogger("tandemq.incarnation")

INCARNATION = "incarnation"
RETRY_S = 0.15


def register_name(member: str) -> str:
    """Where a member's starts are counted at the witness; no domain has a slash in its name."""
    return f"{STARTS}{member}"


async def begin(node: Node) -> int:
    """Count this start on disk."""
    stored = node.store.get_meta(INCARNATION)
    return await _write(node, int.from_bytes(stored or b"", "big") + 1)


async def _write(node: Node, incarnation: int) -> int:
    await node.write(lambda batch: batch.meta.__setitem__(INCARNATION, incarnation.to_bytes(8, "big")))
    return incarnation


async def prove(node: Node, authority: Authority, member: str, incarnation: int) -> int:
    """Count this start at the witness too, however long that takes; marks an old copy. Returns the start's number."""
    while True:
        found = await authority.get(register_name(member))
        if isinstance(found, Register):
            if found.epoch >= incarnation and not _is_own(found, member, incarnation):
                log.error(
                    "this data directory says start %d, the witness has seen start %d: an older copy was put back; "
                    "nothing in it counts as current until the other member has transferred what is missing",
                    incarnation,
                    found.epoch,
                )
                _mark_stale(node)
                incarnation = await _write(node, found.epoch + 1)
            if await _count(authority, member, incarnation, found):
                return incarnation
        await asyncio.sleep(RETRY_S)


def _is_own(found: Register, member: str, incarnation: int) -> bool:
    """Our own claim, whose answer was lost."""
    return (
        found.epoch == incarnation
        and found.state is RegisterState.CLAIMED
        and found.nonce == _nonce(member, incarnation)
    )


def _nonce(member: str, incarnation: int) -> bytes:
    return f"{member}/{incarnation}".encode()


async def _count(authority: Authority, member: str, incarnation: int, found: Register) -> bool:
    name, nonce = register_name(member), _nonce(member, incarnation)
    claimed = found
    if not _is_own(found, member, incarnation):
        desired = claim(found, member=member, epoch=incarnation, members=frozenset({member}), nonce=nonce)
        result = await authority.compare_and_set(name, found, desired)
        if not isinstance(result, CasDone):
            return False
        claimed = result.register
    result = await authority.compare_and_set(name, claimed, commit(claimed, nonce=nonce))
    return isinstance(result, CasDone)


def _mark_stale(node: Node) -> None:
    for domain in node.paired():
        if domain.shared.state.data.is_good:
            domain.shared.mark(DataMark.STALE)
            domain.shared.persist_state()
            node.dispatch(domain)
