"""Whether this member follows a SYNC of the peer, or stops at two histories; never what the SYNC then changes."""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.marks import Role
from failover.steps import Step
from replica.core.replication.divergence import judge, lacks_committed, point_before, refuse
from replica.core.state.effects import Send
from replica.core.state.write_tokens import OpenStored
from tandemq.peer.v1.peer_service_pb2 import OpenAck, PeerFrame

if TYPE_CHECKING:
    from collections.abc import Iterable

    from replica.core.mastership.peer import Peer
    from replica.core.mastership.role import MemberRole
    from replica.core.replication.sync_target import SyncTarget
    from replica.core.state.shared import Shared
    from tandemq.peer.v1.peer_service_pb2 import DomainHello, EpochBoundary, SyncBegin


OUT_OF_SERVICE = (Role.MAINTENANCE, Role.FAILED)
"""By an operator's word, or because it has the fault and its process ends: nothing is taken before it starts again."""


class Following:
    """The peer's mastership of one domain, as this member takes it."""

    def __init__(self, shared: Shared, target: SyncTarget, peer: Peer, role: MemberRole) -> None:
        self.shared = shared
        self.target = target
        self.peer = peer
        self.role = role

    @property
    def waits_for_sync(self) -> bool:
        """The peer is connected and master, and nothing here speaks against it. It may take its time: before everything
        is sent anew it is looked at.
        """
        shared, hello = self.shared, self.peer.hello
        if shared.role is not Role.PROBE or not self.peer.connected or hello is None or self.role.claim is not None:
            return False
        newest = max(shared.state.epoch, shared.state.promised_epoch)
        return hello.role == Role.MASTER.value and hello.epoch >= newest

    def on_hello(self, hello: DomainHello) -> None:
        """Where the peer stands now, as far as this member follows it (P12)."""
        shared = self.shared
        if shared.role is Role.REPLICA and hello.role == Role.PROBE.value:
            # Else both would wait: we for its SYNC, it for our claim (P8).
            self.role.become_probe("the master has stepped down")
        if (
            shared.role is Role.REPLICA
            and self.peer.is_master
            and hello.epoch > shared.state.epoch
            and not self.stays(hello)
        ):
            # It makes its SYNC from a new HELLO of ours.
            self.role.become_probe(f"the master has begun epoch {hello.epoch}")

    def stays(self, hello: DomainHello) -> bool:
        """P22: the master has started an epoch, and goes on with the full transfer that it sends us. It is followed
        into that epoch, durably; before it serves nothing is known, and nothing is given up.
        """
        shared, target = self.shared, self.target
        if not hello.sends_sync_id or hello.sends_sync_id != target.sync_id:
            return False
        if hello.role != Role.MASTER.value:
            return True
        if not target.active:  # it has refused the transfer, and was not heard
            refusal = OpenAck(sync_id=target.sync_id, refusal="this transfer was given up in the epoch before")
            shared.outbox.add(Send(PeerFrame(domain=shared.domain, epoch=hello.epoch, open_ack=refusal)))
            return False
        if hello.owner != shared.peer or hello.epoch < shared.state.promised_epoch:
            return False
        shared.follow(hello.epoch)
        # The open is acknowledged anew once the epoch in which that is said is durable (P10).
        shared.outbox.persist_state(token=OpenStored(target.sync_id) if target.opened else None)
        if not target.full:
            target.on_durable()  # what was said in the epoch before is not heard any more (P13)
        target.on_next_epoch()
        return True

    def may_follow(self, epoch: int, begin: SyncBegin) -> bool:
        """Whether a SYNC of this epoch is taken (P13); a claim of ours is given up for it (P12). Two histories end in
        DIVERGED instead, and stay there until an operator chooses.
        """
        shared, claim = self.shared, self.role.claim
        if shared.role is Role.DIVERGED:
            refuse(shared, epoch, begin)
            return False
        ours = shared.serving and epoch == shared.state.epoch
        if epoch < max(shared.state.epoch, shared.state.promised_epoch) or ours or shared.role in OUT_OF_SERVICE:
            return False
        if epoch == shared.state.epoch and shared.state.owner == shared.member:
            self.two_owners(epoch, begin.history)
            refuse(shared, epoch, begin)
            return False
        if claim is not None and claim.step is not Step.CLAIMING and epoch <= claim.epoch:
            return False
        loss, what = judge(shared, begin), "this member acknowledged alone"
        if loss is None:
            loss, what = lacks_committed(shared, begin), "both members had committed (its disk has lost writes)"
        if loss is not None:
            why = f"the peer's epoch {epoch} lacks what {what}, {loss.first} to {loss.last}"
            self.role.become_diverged(why, loss.common)
            refuse(shared, epoch, begin)
            return False
        if shared.serving:
            self.role.become_probe(f"the peer is master of epoch {epoch}")
        if shared.wants_full and not begin.full:
            shared.want_full(wanted=False)
            why = f"{shared.peer} cannot be without this copy now, or cannot send everything whole: its log says which"
            shared.outbox.note_transfer(f"the full transfer that was ordered is not made: {why}")
        self.role.become_replica(epoch)
        return True

    def two_owners(self, epoch: int, theirs: Iterable[EpochBoundary]) -> None:
        """Of one number: two histories, whoever has more of one."""
        self.role.become_diverged(f"both members owned epoch {epoch}", point_before(self.shared, epoch, theirs))
