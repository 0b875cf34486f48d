"""Carries out an order against this copy: give up its history, take the master's state anew, be outdated. Never makes
this member master.

Each returns why it was not done; empty: done here, and durable once what it asked for is written. None of them takes a
record away: that is for the SYNC that follows, which copies what it cuts as ever.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.marks import DataMark, Role
from replica.core.replication.divergence import salvage_above
from replica.core.state.effects import Note
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.mastership.following import Following
    from replica.core.mastership.peer import Peer
    from replica.core.mastership.register_view import RegisterView
    from replica.core.mastership.role import MemberRole
    from replica.core.replication.sync_target import SyncTarget
    from replica.core.state.shared import Shared

K = PairEventKind
WORTHLESS = (DataMark.EMPTY, DataMark.SYNCING, DataMark.STALE, DataMark.DAMAGED)
"""Marks with which no copy is promoted."""
CLAIMING = "a claim of this member is under way: ask again in a second"


class CopyOrders:
    """What an operator, or the peer, may ask of the copy of one domain at this member."""

    def __init__(
        self,
        shared: Shared,
        target: SyncTarget,
        view: RegisterView,
        peer: Peer,
        role: MemberRole,
        following: Following,
        say_hello: Callable[[], None],
    ) -> None:
        self.shared = shared
        self.target = target
        self.view = view
        self.peer = peer
        self.role = role
        self.following = following
        self._say_hello = say_hello

    def give_up_history(self, reason: str) -> str:
        """The other member's history stands: copy what only this one has, and take part again as an outdated copy."""
        shared = self.shared
        state, log, hello = shared.state, shared.log, self.peer.hello
        if shared.role is Role.DIVERGED:
            common = state.diverged_at
        elif shared.serving and hello is not None and hello.role == Role.DIVERGED.value and state.solo_since:
            common = state.solo_since - 1
        else:
            return f"{shared.member} is {shared.role.name} in {shared.name}, and no other history is known here"
        if self.role.claim is not None:
            return CLAIMING
        salvage_above(shared, common, f"an operator kept the history of {shared.peer}: {reason}")
        self.role.become_probe(f"an operator kept the history of {shared.peer}")
        state.yield_to(shared.peer, common + 1, log.last_index)
        shared.mark(DataMark.STALE)
        # Committed here, perhaps, but not there: nothing stands in the way of the cut (`divergence.cut_above`).
        shared.progress.uncommit(common)
        shared.outbox.persist_state()
        facts = {"common": str(common), "last_index": str(log.last_index), "reason": reason}
        text = f"gives way to the history of {shared.peer}, from {common + 1} to {log.last_index}: {reason}"
        shared.outbox.add(Note(K.PAIR_EVENT_KIND_DIVERGENCE, text, facts))
        return ""

    def resync(self, reason: str, *, full: bool) -> str:
        """Take the master's state anew. A member in PROBE then needs a new connection: the master begins from a new
        HELLO.

        A member that stays REPLICA is in step, and to take everything: it has asked its master to leave it out first,
        for else everybody would wait for the transfer (P22). The master answers with a new epoch, or not at all.
        """
        shared = self.shared
        if shared.role not in (Role.REPLICA, Role.PROBE):
            other = f"; ask {shared.peer}" if shared.serving else ""
            return f"{shared.member} is {shared.role.name} in {shared.name}, and only a replica takes a transfer{other}"
        if self.role.claim is not None:
            return CLAIMING
        if full and self.takes_everything():
            return ""
        if full and (why_not := self.would_be_waited_for()):
            return why_not
        shared.want_full(wanted=shared.wants_full or full)
        if full and self.target.opened:
            self._say_hello()
        else:
            self.role.become_probe("an operator asked for a new transfer")
        text = f"an operator asked for a {'full ' if full else ''}transfer: {reason}"
        shared.outbox.add(Note(K.PAIR_EVENT_KIND_TRANSFER, text))
        return ""

    def takes_everything(self) -> bool:
        """A full transfer to this member is under way, or its master looks at what it will send."""
        shared = self.shared
        waits = self.following.waits_for_sync and (shared.wants_full or shared.state.data is DataMark.DAMAGED)
        return (self.target.active and shared.state.data is DataMark.SYNCING) or waits

    def would_be_waited_for(self) -> str:
        """Why sends would wait for a full transfer that nobody needs; empty: they do not."""
        shared, register = self.shared, self.view.known
        if not shared.state.data.is_good:
            return ""
        if register is None:
            return (
                "the authority cannot be asked: the master could not go on alone, and everybody would wait for the "
                "transfer; ask again when it answers"
            )
        if shared.hello_register and (self.target.opened or shared.member in register.in_sync_set):
            return (
                f"this pair has no authority: {shared.peer} could not go on alone while {shared.member} is connected, "
                f"and everybody would wait for the transfer. Stop {shared.member}; start it with an empty data "
                f"directory once {shared.peer} goes on alone"
            )
        return ""

    def forget_resync(self) -> None:
        """The master has not left this member out: it stays as it is, in step."""
        if self.shared.wants_full:
            self.shared.want_full(wanted=False)
            self._say_hello()

    def outdate(self, reason: str, *, by_member: str, epoch: int) -> str:
        """Count as outdated, until a transfer. By an operator (`by_member` empty), or by a master that cannot reach
        us.
        """
        shared = self.shared
        state = shared.state
        known = max(state.epoch, state.promised_epoch)
        if not shared.peer:
            return f"{shared.member} has no peer in {shared.name}: its copy is the only one"
        if by_member not in ("", shared.peer):
            return f"{by_member!r} is not the peer of {shared.member}, which is {shared.peer!r}"
        if (by_member or epoch) and epoch < known:
            return f"{shared.member} knows epoch {known}, the caller {epoch}: the caller is the outdated one"
        if shared.serving:
            return f"{shared.member} serves {shared.name} in epoch {state.epoch}"
        if self.role.claim is not None:
            return f"{shared.member} is claiming epoch {self.role.claim.epoch}"
        if state.data is DataMark.SOLE and (not by_member or epoch == known):
            return f"the copy at {shared.member} may be the only current one: force the other member first"
        if shared.role is not Role.DIVERGED and state.data not in WORTHLESS:
            shared.mark(DataMark.STALE)
            self.role.become_probe(f"outdated by {by_member or 'an operator'}")
        shared.outbox.persist_state()
        text = f"counts as outdated until a transfer, by the word of {by_member or 'an operator'}: {reason}"
        shared.outbox.add(Note(K.PAIR_EVENT_KIND_OPERATOR, text, {"epoch": str(epoch)}))
        return ""

    def mark_damaged(self, why: str) -> None:
        """This copy is not what the master has: no vote, and a full transfer, over restarts too."""
        shared = self.shared
        shared.mark(DataMark.DAMAGED)
        shared.outbox.persist_state()
        self.role.become_probe(why)
        shared.outbox.add(Note(K.PAIR_EVENT_KIND_VERIFY, why))
