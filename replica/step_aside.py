"""Carries out an order against this copy: give way to the other history, take the master's state anew, be outdated.
Never makes this member master.

Each returns why it was not done; empty: done here, and durable once what it asked for is written. None of them takes a
record away: that is for the SYNC that follows, which copies what it cuts as ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.marks import DataMark, Role
from replica.divergence import salvage_above
from replica.effects import Note
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from replica.replication import Replication

K = PairEventKind
WORTHLESS = (DataMark.EMPTY, DataMark.SYNCING, DataMark.STALE, DataMark.DAMAGED)
"""Marks with which no copy is promoted."""


def give_way(replication: Replication, reason: str) -> str:
    """The other member's history stands: copy what only this one has, and take part again as an outdated copy."""
    shared = replication.shared
    state, log = shared.state, shared.log
    hello = replication.hello
    if shared.role is Role.DIVERGED:
        common = state.diverged_at
    elif replication.serving and hello is not None and hello.role == Role.DIVERGED.value and state.solo_since:
        common = state.solo_since - 1
    else:
        return f"{shared.member} is {shared.role.name} in {shared.name}, and no other history is known here"
    if replication.claim is not None:
        return "a claim of this member is under way: ask again in a second"
    salvage_above(shared, common, f"an operator kept the history of {shared.peer}: {reason}")
    replication.to_probe(f"an operator kept the history of {shared.peer}")
    state.salvaged = (common + 1, log.last_index)
    state.diverged, state.diverged_at, state.solo_since = "", 0, 0
    state.owner = shared.peer  # of the epoch too, where both had its number
    shared.mark(DataMark.STALE)
    # Committed here, perhaps, but not there: nothing stands in the way of the cut (`divergence.cut_above`).
    shared.commit_index = min(shared.commit_index, common)
    shared.persist_state()
    facts = {"common": str(common), "last_index": str(log.last_index), "reason": reason}
    text = f"gives way to the history of {shared.peer}, from {common + 1} to {log.last_index}: {reason}"
    shared.effects.append(Note(K.PAIR_EVENT_KIND_DIVERGENCE, text, facts))
    return ""


def resync(replication: Replication, reason: str, *, full: bool) -> str:
    """Take the master's state anew; the caller ends the connection, so that the master begins from a new HELLO."""
    shared = replication.shared
    if shared.role not in (Role.REPLICA, Role.PROBE):
        whom = f"; ask {shared.peer}" if replication.serving else ""
        return f"{shared.member} is {shared.role.name} in {shared.name}, and only a replica takes a transfer{whom}"
    if replication.claim is not None:
        return "a claim of this member is under way: ask again in a second"
    shared.wants_full = shared.wants_full or full
    replication.to_probe("an operator asked for a new transfer")
    text = f"an operator asked for a {'full ' if full else ''}transfer: {reason}"
    shared.effects.append(Note(K.PAIR_EVENT_KIND_TRANSFER, text))
    return ""


def outdate(replication: Replication, reason: str, *, by_member: str, epoch: int) -> str:
    """Count as outdated, until a transfer. By an operator (`by_member` empty), or by a master that cannot reach us."""
    shared = replication.shared
    state = shared.state
    known = max(state.epoch, state.promised_epoch)
    if not shared.peer:
        return f"{shared.member} has no peer in {shared.name}: its copy is the only one"
    if by_member not in ("", shared.peer):
        return f"{by_member!r} is not the peer of {shared.member}, which is {shared.peer!r}"
    if (by_member or epoch) and epoch < known:
        return f"{shared.member} knows epoch {known}, the caller {epoch}: the caller is the outdated one"
    if replication.serving:
        return f"{shared.member} serves {shared.name} in epoch {state.epoch}"
    if replication.claim is not None:
        return f"{shared.member} is claiming epoch {replication.claim.epoch}"
    if state.data is DataMark.SOLE and (not by_member or epoch == known):
        return f"the copy at {shared.member} may be the only current one: force the other member first"
    if shared.role is not Role.DIVERGED and state.data not in WORTHLESS:
        shared.mark(DataMark.STALE)
        replication.to_probe(f"outdated by {by_member or 'an operator'}")
    shared.persist_state()
    text = f"counts as outdated until a transfer, by the word of {by_member or 'an operator'}: {reason}"
    shared.effects.append(Note(K.PAIR_EVENT_KIND_OPERATOR, text, {"epoch": str(epoch)}))
    return ""


def distrust(replication: Replication, why: str) -> None:
    """This copy is not what the master has: no vote, and a full transfer, over restarts too."""
    shared = replication.shared
    shared.mark(DataMark.DAMAGED)
    shared.persist_state()
    replication.to_probe(why)
    shared.effects.append(Note(K.PAIR_EVENT_KIND_VERIFY, why))


def leave_out(replication: Replication, why: str) -> str:
    """Go on without a replica whose copy is no good, where a register can say so; it is added again when it has all.

    Else its full transfer would hold everybody up, for it stays required until the register has removed it (P2).
    """
    shared = replication.shared
    if not replication.serving or replication.claim is not None or replication.publishing:
        return f"{shared.member} is not in a steady state"
    if not replication.readable or shared.told_register or shared.peer not in replication.required:
        return "there is no authority, or it cannot be read"
    if spent := replication.is_spent():
        return spent
    shared.become(Role.MASTER_SUSPENDED, f"{why}: going on without it")
    replication.begin_claim(frozenset({shared.member}), why)
    return ""
