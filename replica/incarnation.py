"""Tells a data directory that was put back from an older copy: each start is counted on disk and at the witness.

An old copy believes in good faith that it holds everything acknowledged; only somebody else can know better
(reliability.md 6, rule 11). Until the witness has confirmed the start, no domain of this member claims. A copy
that is found to be old is STALE: it follows, and becomes current again by a transfer. Not seen: a copy that is made and
put back within one start. Where the witness has lost its count the peer's memory stands in for it, as long as that
process lives: it says which start was there already, as it refuses a caller, and in the HELLO with which it calls.

A copy that is started beside the original may take its place at the peer, once the original was frozen or cut off for
so long that it counts as lost. The original hears of it when the peer refuses it: the witness has counted a later
start, so it is the older copy now.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from failover.authority import CasDone
from failover.marks import DataMark
from failover.register import STARTS, Register, RegisterState, claim, commit
from storage.seal import seal, unseal
from tandemq.ambient import random_bytes

if TYPE_CHECKING:
    from collections.abc import Callable

    from failover.authority import Authority
    from replica.node import Node

log = logging.getLogger("tandemq.incarnation")

INCARNATION = "incarnation"
RETRY_S = 0.15


def register_name(member: str) -> str:
    """Where a member's starts are counted at the witness; no domain has a slash in its name."""
    return f"{STARTS}{member}"


async def begin(node: Node) -> int:
    """Count this start on disk. Raises CorruptRecord when the last one's number is damaged."""
    stored = node.store.get_meta(INCARNATION)
    last = unseal(stored, "number of the last start") if stored is not None else b""
    return await _write(node, int.from_bytes(last, "big") + 1)


async def _write(node: Node, incarnation: int) -> int:
    sealed = seal(incarnation.to_bytes(8, "big"))
    await node.write(lambda batch: batch.meta.__setitem__(INCARNATION, sealed))
    return incarnation


async def prove(node: Node, authority: Authority, member: str, incarnation: int, on_old: Callable[[str], None]) -> int:
    """Count this start at the witness too, however long that takes; marks an old copy. Returns the start's number.

    `on_old`: told in a sentence once the copy is marked; the connection must begin anew, so that the peer hears of it.
    """
    # Nobody else's, not even that of the same start of a copy: by it a claim is known again whose answer was lost.
    nonce = f"{member}/{incarnation}/".encode() + random_bytes(8)
    while True:
        found = await authority.get(register_name(member))
        if isinstance(found, Register):
            if found.epoch >= incarnation and found.nonce != nonce:
                incarnation = await give_way(node, incarnation, found.epoch, "the witness", on_old)
            if await _count(authority, member, incarnation, found, nonce):
                return incarnation
        await asyncio.sleep(RETRY_S)


async def give_way(node: Node, incarnation: int, seen: int, by: str, on_old: Callable[[str], None]) -> int:
    """Another process has had that start or a later one: mark the copy as an older one, and count on from there."""
    log.error(
        "this data directory says start %d, %s has seen start %d: an older copy was put back; "
        "nothing in it counts as current until the other member has transferred what is missing",
        incarnation,
        by,
        seen,
    )
    _mark_stale(node)
    incarnation = await _write(node, seen + 1)
    on_old("this member's copy is an older one: what is missing comes anew")
    return incarnation


async def is_replaced(authority: Authority, member: str, incarnation: int) -> bool:
    """Whether the witness has counted a later start of this member, which may have everything by now."""
    found = await authority.get(register_name(member))
    return isinstance(found, Register) and found.epoch > incarnation


def step_back(node: Node) -> None:
    """No vote until `prove` has come to its end again."""
    for domain in node.paired():
        domain.replication.may_claim = False
        domain.replication.to_probe("another start of this member has taken its place: was its data directory copied?")
        node.dispatch(domain)


async def _count(authority: Authority, member: str, incarnation: int, found: Register, nonce: bytes) -> bool:
    name = register_name(member)
    claimed = found
    if found.nonce == nonce:
        if found.state is RegisterState.COMMITTED:
            return True  # it was, and the answer was lost
    else:
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
