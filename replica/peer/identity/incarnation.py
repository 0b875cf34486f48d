"""Tells a data directory that was put back from an older copy: each start is counted on disk and at the witness.

An old copy believes in good faith that it holds everything acknowledged; only somebody else can know better
(reliability.md 6, rule 11). Until the witness has confirmed the start, no domain of this member claims by the register;
one that has met its peer may go on without a record where a verdict is proven (`failover/gate.py`). A copy
that is found to be old is STALE: it follows, and becomes current again by a transfer. Not seen: a copy that is made and
put back within one start. Where the witness has lost its count the peer's memory stands in for it, as long as that
process lives: it says which start was there already, as it refuses a caller, and in its HELLO.

It is the process that counts and not its number alone (`replica.peer.identity.starts`): starts of an older copy that
end before anybody has counted them run the number up.

A copy that is started beside the original may take its place at the peer, once the original was frozen or cut off for
so long that it counts as lost. The original hears of it when the peer refuses it: the witness has counted a later
start, so it is the older copy now.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Protocol

from failover.authority import CasDone
from failover.marks import DataMark
from failover.register import STARTS, Register, RegisterState, claim, commit
from replica.core.mastership.register_view import short
from replica.peer.identity import starts
from replica.peer.identity.starts import Start, Starts
from storage.seal import seal, unseal

if TYPE_CHECKING:
    from failover.authority import Authority
    from replica.node.loop import Node

log = logging.getLogger("tandemq.incarnation")

INCARNATION = "incarnation"
KNOWN = "starts"
"""Named value beside the number: the processes that had it."""
RETRY_S = 0.15


def register_name(member: str) -> str:
    """Where a member's starts are counted at the witness; no domain has a slash in its name."""
    return f"{STARTS}{member}"


class StartListener(Protocol):
    """Who hears that this process is another start than it was taken for."""

    def on_old(self, text: str) -> None:
        """In a sentence, once the copy is marked; the connection must begin anew, so that the peer hears of it."""

    def on_number(self, number: int) -> None:
        """It has another number, which is durable."""


class Own:
    """This process's start, and those before it, as they are on disk."""

    def __init__(self, node: Node, known: Starts, listener: StartListener) -> None:
        self.node, self.starts = node, known
        self._listener = listener
        self._reported = known.number
        self._writing = 0

    @property
    def is_durable(self) -> bool:
        """Whether the disk says so too. Until then nobody may take this process in the place of another one: should it
        end, the next one would not know what this one was told.
        """
        return not self._writing

    async def give_way(self, seen: Start, by: str) -> None:
        """If that start was on another state of the directory, mark the copy as an older one, and count on from it."""
        if not self.starts.is_others(seen):
            return
        log.error(
            "this data directory says start %d, %s has seen start %d of another state of it: an older copy was put "
            "back; nothing in it counts as current until the other member has transferred what is missing",
            self.starts.number,
            by,
            seen.number,
        )
        _mark_stale(self.node)
        await self.write(self.starts.after(seen))
        self._listener.on_old("this member's copy is an older one: what is missing comes anew")

    async def write(self, known: Starts) -> None:
        """They count from here on, and are durable afterwards."""
        self.starts = known
        self._writing += 1
        try:
            await _write(self.node, known)
        finally:
            self._writing -= 1
        if self.is_durable and self._reported != self.starts.number:
            self._reported = self.starts.number
            self._listener.on_number(self._reported)


async def begin(node: Node, process: bytes) -> Starts:
    """Count this start on disk. Raises CorruptRecord when what is there of the last ones is damaged."""
    number, known = node.store.get_meta(INCARNATION), node.store.get_meta(KNOWN)
    last = unseal(number, "number of the last start") if number is not None else b""
    before = unseal(known, "list of the last starts") if known is not None else b""
    begun = starts.begin(int.from_bytes(last, "big"), before, process)
    await _write(node, begun)
    return begun


async def _write(node: Node, known: Starts) -> None:
    written = {INCARNATION: seal(known.number.to_bytes(8, "big")), KNOWN: seal(known.encode())}
    await node.write(lambda batch: batch.meta.update(written))


async def prove(own: Own, authority: Authority, member: str) -> None:
    """Count this start at the witness too, however long that takes; an older copy gives way."""
    head = f"{short(member)}/".encode()
    # Nobody else's, not even that of the same start of a copy: by it a claim is known again whose answer was lost.
    nonce = head + f"{own.starts.number}/".encode() + own.starts.process
    while True:
        found = await authority.get(register_name(member))
        if isinstance(found, Register):
            if found.nonce != nonce:
                rest = found.nonce.removeprefix(f"{member}/".encode()).removeprefix(head)
                await own.give_way(Start.of(found.epoch, rest.partition(b"/")[2]), "the witness")
            number = own.starts.number
            # What is counted before it is written is a stranger's to the next process, should this one end.
            if own.is_durable and await _count(authority, member, number, found, nonce) and own.starts.number == number:
                await own.write(own.starts.counted())
                if own.starts.number == number:  # the peer may have told of another one meanwhile
                    return
        await asyncio.sleep(RETRY_S)


async def is_replaced(authority: Authority, member: str, incarnation: int) -> bool:
    """Whether the witness has counted a later start of this member, which may have everything by now."""
    found = await authority.get(register_name(member))
    return isinstance(found, Register) and found.epoch > incarnation


def step_back(node: Node) -> None:
    """No vote until `prove` has come to its end again."""
    for domain in node.paired():
        domain.mastership.claims.let_claim(allowed=False)
        domain.mastership.role.become_probe(
            "another start of this member has taken its place: was its data directory copied?"
        )
        node.dispatch(domain)


async def _count(authority: Authority, member: str, incarnation: int, found: Register, nonce: bytes) -> bool:
    name = register_name(member)
    claimed = found
    if found.nonce == nonce and found.epoch == incarnation:
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
            domain.shared.outbox.persist_state()
            node.dispatch(domain)
