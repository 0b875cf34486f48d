"""The role of this member in one domain, and whether it serves in it. Only `become_*` writes either; never decides
which role it ought to be.

Each move asserts that MOVES lets it, resets what ends with the role before, and reports the change. A claim under way
is part of it: it ends with the next role, whichever that is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING

from failover.marks import Link, Role
from failover.register import Change
from failover.steps import Step
from replica.core.state.effects import Fail, Note, Purpose, RoleChanged
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from failover.register import Register
    from replica.core.mastership.commit_rule import ClientCalls, CommitRule
    from replica.core.mastership.peer import Peer
    from replica.core.replication.sync_source import SyncSource
    from replica.core.replication.sync_target import SyncTarget
    from replica.core.state.shared import Shared
    from replica.core.state.write_tokens import WriteToken

R = Role
MOVES: Mapping[Role, frozenset[Role]] = MappingProxyType(
    {
        R.INIT: frozenset({R.PROBE, R.MASTER, R.DIVERGED}),  # MASTER: of a manager without a peer
        R.PROBE: frozenset({R.REPLICA, R.MASTER, R.DIVERGED, R.MAINTENANCE, R.FAILED}),
        R.REPLICA: frozenset({R.PROBE, R.MASTER, R.FAILED}),  # MASTER: by an operator's word, while the master cedes
        R.MASTER: frozenset({R.PROBE, R.MASTER_SUSPENDED, R.CEDING, R.FAILED}),
        # REPLICA: its claim is given up
        R.MASTER_SUSPENDED: frozenset({R.PROBE, R.REPLICA, R.MASTER, R.CEDING, R.FAILED}),
        R.CEDING: frozenset({R.PROBE, R.REPLICA, R.MASTER, R.FAILED}),
        R.DIVERGED: frozenset({R.PROBE, R.MASTER, R.FAILED}),  # only an operator's word leads out
        R.MAINTENANCE: frozenset({R.PROBE, R.MASTER, R.FAILED}),
        R.FAILED: frozenset({R.PROBE, R.REPLICA}),  # the process ends, but events that were under way still arrive
    }
)
"""Where each role may lead. MASTER leads to REPLICA over PROBE or CEDING only: what it served has ended before."""


@dataclass(slots=True)
class ClaimUnderWay:
    """A claim of ours: `claiming` -> `storing` -> `committing`."""

    step: Step
    members: frozenset[str]
    epoch: int
    desired: Register | None
    """As it was asked for; None: an unrecorded epoch, which asks nobody."""
    reason: str
    forced: bool = False
    ceded: bool = False
    """The old master has given this epoch to us, durably: it may be served although the register does not answer."""

    @property
    def purpose(self) -> Purpose | None:
        """Of the call to the register that this step waits for; None: it waits for none."""
        change = {Step.CLAIMING: Change.CLAIM, Step.COMMITTING: Change.COMMIT}.get(self.step)
        return Purpose(change, self.epoch) if change is not None else None


class MemberRole:
    """The one writer of role, `serving` and `master` of one domain at one member."""

    def __init__(
        self,
        shared: Shared,
        source: SyncSource,
        target: SyncTarget,
        peer: Peer,
        commit: CommitRule,
        calls: ClientCalls,
    ) -> None:
        self.shared = shared
        self.source = source
        self.target = target
        self.peer = peer
        self.commit = commit
        self.calls = calls
        self.claim: ClaimUnderWay | None = None
        self.unrecorded = False
        """The epoch served is not in the register yet."""
        self.forced = False
        """The epoch served was taken by an operator's word."""
        self.was_master = False
        """No other member was master since: this one goes first (P8)."""

    # -- no role ---------------------------------------------------------------------------------------------------

    def become_probe(self, reason: str) -> None:
        """Stop: no effect of ours is visible until the register and the peer have spoken again (P6, P7)."""
        shared = self.shared
        was_serving = shared.serving
        self._end_mastership()
        self.claim = None
        self.source.stop()
        self.target.stop()
        shared.set_link(Link.HANDSHAKE if self.peer.connected else Link.DOWN)
        self._move(Role.PROBE, reason)
        if was_serving:
            self.calls.on_not_serving()

    def become_maintenance(self, reason: str) -> None:
        """By an operator's word: neither follow nor lead until `become_probe`. The caller keeps the link down."""
        self.become_probe(reason)
        self._move(Role.MAINTENANCE, reason)

    def become_diverged(self, why: str, common: int) -> None:
        """Two histories, for good: neither claims nor serves, over restarts too. Following would wipe what was
        acknowledged under our ownership, leading would do so to the peer.
        """
        shared = self.shared
        self.become_probe("diverged")
        shared.state.diverge(f"{why}; both directories are kept, an operator must choose: tandemq pair resolve", common)
        shared.outbox.persist_state()
        self.become_diverged_again()
        facts = {"common": str(common), "last_index": str(shared.log.last_index)}
        shared.outbox.add(Note(PairEventKind.PAIR_EVENT_KIND_DIVERGENCE, shared.state.diverged, facts))

    def become_diverged_again(self) -> None:
        """As the facts on disk say."""
        self._move(Role.DIVERGED, self.shared.state.diverged)

    def become_failed(self, why: str) -> None:
        """This process ends; a restart begins at PROBE. A claim under way is given up, and the addition of a peer: were
        their answer still heard, the member would serve, or order what waits, as it ends. If it landed, the restart
        reads it.
        """
        self._stop_serving()
        self.commit.end()
        self.claim = None
        self._move(Role.FAILED, why)
        self.shared.outbox.add(Fail(f"domain {self.shared.name}: {why}"))

    # -- follow ----------------------------------------------------------------------------------------------------

    def become_replica(self, epoch: int) -> None:
        """A SYNC of the peer in this epoch is taken; a claim of ours is given up for it (P12)."""
        assert not self.shared.serving, "a master follows nobody"
        self._end_mastership()
        self.claim = None
        self.was_master = False
        self._move(Role.REPLICA, f"follows epoch {epoch}")
        self.shared.set_master(self.shared.peer)

    # -- claim -----------------------------------------------------------------------------------------------------

    def become_claimant(self, claim: ClaimUnderWay) -> None:
        """A claim is under way, and nothing is served meanwhile; the role it was made in stands until it ends."""
        if not self.shared.serving:  # who serves already knows more of the peer's copy
            self.source.trust_copy(is_good=self.shared.peer in claim.members)
        self.claim = claim
        self._stop_serving()

    def end_claim(self) -> None:
        """It is not made after all, and what it was made in stands."""
        self.claim = None

    # -- lead ------------------------------------------------------------------------------------------------------

    def become_master(
        self, members: frozenset[str], reason: str, now_ms: int, *, unrecorded: bool = False, forced: bool = False
    ) -> None:
        """Serve the epoch that is stored here, with these members required (P6: it is committed in the register, or
        `unrecorded`).
        """
        shared, peer, commit = self.shared, self.peer, self.commit
        self.claim = None
        commit.begin(members, now_ms)
        shared.set_serving(serving=True)
        self.unrecorded = unrecorded
        self.forced = forced
        self.was_master = True
        shared.progress.order_from_here()
        shared.set_master(shared.member)
        shared.want_full(wanted=False)  # a replica's order; what follows this one is another matter
        if not peer.keep_filling():
            self.source.stop()
            shared.set_link(Link.HANDSHAKE if peer.connected else Link.DOWN)
        self._move(Role.MASTER, reason)
        peer.forget_loss()
        if shared.peer not in members:
            commit.record_solo(max(shared.progress.commit_index, shared.log.base_index) + 1)
        peer.begin_sync(now_ms)
        commit.advance()
        self.calls.on_serving()

    def become_suspended(self, reason: str) -> None:
        """A master that acknowledges nothing until the register agrees to what comes next."""
        assert self.shared.serving, f"{self.shared.role.name} has nothing to suspend"
        self._move(Role.MASTER_SUSPENDED, reason)

    def become_master_again(self, reason: str) -> None:
        """The peer is back before anything was decided without it."""
        assert self.shared.serving, f"{self.shared.role.name} serves nothing"
        self._move(Role.MASTER, reason)

    def become_ceding(self, epoch: int, token: WriteToken) -> None:
        """Give the epoch to the peer, with the promise on its way to the disk; `token` comes back when it is durable.

        P15: the ceded epoch is durable as *promised* before the other member hears of it, so no claim of the old master
        can take the same number. From here on it acknowledges, delivers and orders nothing.
        """
        shared = self.shared
        assert shared.serving, "only who serves can give that away"
        shared.state.promise(epoch)
        self._end_mastership()
        self.source.stop()
        shared.set_link(Link.HANDSHAKE)
        self._move(Role.CEDING, f"cedes epoch {epoch} to {shared.peer}")
        shared.outbox.persist_state(token=token)
        self.calls.on_not_serving()

    # -- what ends -------------------------------------------------------------------------------------------------

    def _end_mastership(self) -> None:
        """All that is of a mastership alone; the sessions with the peer end as each move says."""
        self.shared.set_serving(serving=False)
        self.shared.set_master("")
        self.unrecorded = False
        self.forced = False
        self.commit.end()
        self.peer.forget_sync()

    def _stop_serving(self) -> None:
        if self.shared.serving:
            self.shared.set_serving(serving=False)
            if self.source.filling:
                self.source.hold()
            self.calls.on_not_serving()

    def _move(self, role: Role, reason: str) -> None:
        shared = self.shared
        if role is shared.role:
            return
        assert role in MOVES[shared.role], f"{shared.role.name} leads to no {role.name}: {reason}"
        shared.set_role(role, reason)
        shared.outbox.add(RoleChanged(role.value, shared.state.epoch, reason))
