"""How a role is given away and taken over between two members that agree: ceded, then claimed by the ordinary steps.
Never decides that it should be.

P15: the ceded epoch is durable as *promised* before the other member hears of it, so no claim of the old master can
take the same number. From `cede` on it acknowledges, delivers and orders nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.marks import Link, Role
from failover.promotion import next_epoch
from failover.steps import Step
from replica.claims import ClaimUnderWay

if TYPE_CHECKING:
    from failover.register import Register
    from replica.replication import Replication


def ceded_epoch(replication: Replication) -> int:
    """The number that the other member may take: above everything that either of them has seen (P4)."""
    state, hello = replication.shared.state, replication.hello
    peer_epoch = max(hello.epoch, hello.promised_epoch) if hello is not None else 0
    return next_epoch(replication.register, state.epoch, state.promised_epoch, peer_epoch)


def cede(replication: Replication, epoch: int, token: object) -> None:
    """Role CEDING, with the promise on its way to the disk; `token` comes back when it is durable."""
    shared = replication.shared
    shared.state.promised_epoch = epoch
    replication.serving = False
    replication.publishing = False
    replication.sync_when_read = False
    replication.required = frozenset()
    replication.source.stop()
    shared.master = ""
    shared.link = Link.HANDSHAKE
    shared.become(Role.CEDING, f"cedes epoch {epoch} to {shared.peer}")
    shared.persist_state(token=token)
    replication.mastership.on_not_serving()


def may_take(replication: Replication, epoch: int) -> bool:
    """Whether the ceded epoch is above all that this member has stored."""
    state = replication.shared.state
    return epoch > state.epoch and epoch >= state.promised_epoch


def take_over(replication: Replication, epoch: int, now_ms: int) -> None:
    """Claim the ceded epoch for both members: read, claim, store, commit, serve (P6)."""
    shared = replication.shared
    members = frozenset({shared.member, shared.peer})
    replication.to_probe(f"{shared.peer} hands over: claiming epoch {epoch}")
    replication.claim = ClaimUnderWay(Step.READING, members, epoch, None, f"{shared.peer} handed over", ceded=True)
    if replication.readable:
        replication.distrust(now_ms)  # what was read a second ago may lack this member's own addition to the set
    else:
        on_read(replication, None)


def on_read(replication: Replication, register: Register | None) -> None:
    """The register as it is, for a claim that waited for it.

    P18: while the register cannot be asked the epoch is served unrecorded. Both members stay required, so nothing is
    acknowledged that the other one does not hold, whatever it does meanwhile.
    """
    under_way = replication.claim
    assert under_way is not None
    epoch, members, reason = under_way.epoch, under_way.members, under_way.reason
    if register is None:
        replication.begin_unrecorded(members, reason, epoch=epoch)
    elif register.epoch < epoch and members <= register.eligible_set:
        replication.begin_claim(members, reason, epoch=epoch, ceded=True)
    else:
        replication.to_probe(f"the register does not let epoch {epoch} in")
