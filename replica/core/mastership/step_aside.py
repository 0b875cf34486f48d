"""Carries out an order against this copy: give way to the other history, take the master's state anew, be outdated.
Never makes this member master.

Each returns why it was not done; empty: done here, and durable once what it asked for is written. None of them takes a
record away: that is for the SYNC that follows, which copies what it cuts as ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from failover.marks import DataMark, Role
from replica.core.replication.divergence import salvage_above
from replica.core.state.effects import Note
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from replica.core.mastership.mastership import Mastership

K = PairEventKind
WORTHLESS = (DataMark.EMPTY, DataMark.SYNCING, DataMark.STALE, DataMark.DAMAGED)
"""Marks with which no copy is promoted."""


class Copy(Protocol):
    """A domain at this member, as far as an order against its copy goes."""

    replication: Mastership

    def say_hello(self) -> None:
        """Tell the peer where this member stands now."""


def give_way(replication: Mastership, reason: str) -> str:
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
    shared.progress.uncommit(common)
    shared.persist_state()
    facts = {"common": str(common), "last_index": str(log.last_index), "reason": reason}
    text = f"gives way to the history of {shared.peer}, from {common + 1} to {log.last_index}: {reason}"
    shared.effects.append(Note(K.PAIR_EVENT_KIND_DIVERGENCE, text, facts))
    return ""


def resync(domain: Copy, reason: str, *, full: bool) -> str:
    """Take the master's state anew. A member in PROBE then needs a new connection: the master begins from a new HELLO.

    A member that stays REPLICA is in step, and to take everything: it has asked its master to leave it out first, for
    else everybody would wait for the transfer (P22). The master answers with a new epoch, or not at all.
    """
    replication, shared = domain.replication, domain.replication.shared
    if shared.role not in (Role.REPLICA, Role.PROBE):
        whom = f"; ask {shared.peer}" if replication.serving else ""
        return f"{shared.member} is {shared.role.name} in {shared.name}, and only a replica takes a transfer{whom}"
    if replication.claim is not None:
        return "a claim of this member is under way: ask again in a second"
    if full and takes_everything(domain):
        return ""
    if full and (why_not := _would_be_waited_for(replication)):
        return why_not
    shared.wants_full = shared.wants_full or full
    if full and replication.target.opened:
        domain.say_hello()
    else:
        replication.to_probe("an operator asked for a new transfer")
    text = f"an operator asked for a {'full ' if full else ''}transfer: {reason}"
    shared.effects.append(Note(K.PAIR_EVENT_KIND_TRANSFER, text))
    return ""


def takes_everything(domain: Copy) -> bool:
    """A full transfer to this member is under way, or its master looks at what it will send."""
    shared, target = domain.replication.shared, domain.replication.target
    waits = domain.replication.waits_for_sync and (shared.wants_full or shared.state.data is DataMark.DAMAGED)
    return (target.active and shared.state.data is DataMark.SYNCING) or waits


def _would_be_waited_for(replication: Mastership) -> str:
    """Why sends would wait for a full transfer that nobody needs; empty: they do not."""
    shared, register = replication.shared, replication.register
    if not shared.state.data.is_good:
        return ""
    if not replication.readable or register is None:
        return (
            "the authority cannot be asked: the master could not go on alone, and everybody would wait for the "
            "transfer; ask again when it answers"
        )
    if shared.told_register and (replication.target.opened or shared.member in register.in_sync_set):
        return (
            f"this pair has no authority: {shared.peer} could not go on alone while {shared.member} is connected, and "
            f"everybody would wait for the transfer. Stop {shared.member}; start it with an empty data directory once "
            f"{shared.peer} goes on alone"
        )
    return ""


def forget_resync(domain: Copy) -> None:
    """The master has not left this member out: it stays as it is, in step."""
    shared = domain.replication.shared
    if shared.wants_full:
        shared.wants_full = False
        domain.say_hello()


def outdate(replication: Mastership, reason: str, *, by_member: str, epoch: int) -> str:
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


def distrust(replication: Mastership, why: str) -> None:
    """This copy is not what the master has: no vote, and a full transfer, over restarts too."""
    shared = replication.shared
    shared.mark(DataMark.DAMAGED)
    shared.persist_state()
    replication.to_probe(why)
    shared.effects.append(Note(K.PAIR_EVENT_KIND_VERIFY, why))


def leave_out(replication: Mastership, why: str) -> str:
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
