"""Who is master of one domain, and in which epoch: takes events and returns effects. Never orders a client's call.

Order on every way to mastership (P6; each step waits for the one before it): claim in the register, own epoch and its
first record durable here, commit in the register, serve. A call that ends without an answer is unknown: back to PROBE,
read again, start over (P1).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.marks import DataMark, Link, Role
from failover.promotion import Claim, Follow, decide, next_epoch
from failover.register import RegisterState, claim, commit
from replica.claims import ClaimUnderWay, facts_of, nonce_of, pause_after
from replica.commit import Commit
from replica.effects import SetRegister
from replica.sync_source import Phase, SyncSource

if TYPE_CHECKING:
    from failover.register import Register
    from replica.claims import Mastership
    from replica.shared import Shared
    from replica.sync_target import SyncTarget
    from tandemq.peer.v1.peer_service_pb2 import DomainHello

REGISTER_RETRY_MS = 150
"""Between two reads of an unreadable register: two tries inside the suspect time."""
REGISTER_WATCH_MS = 1000
"""A master reads its register this often: a left-over claim is found within it (P7)."""


class Replication(Commit):
    """Role and epoch of one domain at one member."""

    def __init__(
        self, shared: Shared, source: SyncSource, target: SyncTarget, mastership: Mastership, bias_ms: int
    ) -> None:
        super().__init__(shared, source, mastership)
        self.target = target
        self.bias_ms = bias_ms
        self.read_at_ms = -REGISTER_WATCH_MS
        self.claim: ClaimUnderWay | None = None
        self.connected = False
        self.hello: DomainHello | None = None
        self.hello_is_new = False
        """No SYNC was made from it yet."""
        self.lost_at_ms: int | None = None
        self.refused = False
        self.was_master = False
        self.failures = 0
        self.not_before_ms = 0
        self.young_since_ms: int | None = None
        self.sync_when_read = False
        self.may_claim = True
        """False until the shell knows that the directory is not an older copy of itself."""

    # -- start -----------------------------------------------------------------------------------------------------

    def start(self, now_ms: int) -> None:
        """Disk is read and the queues are rebuilt."""
        shared = self.shared
        if shared.peer:
            shared.become(Role.PROBE, "started: looking for the peer and the register")
            self._read_register(now_ms)
            return
        # A restarted master never resumes its epoch: records it shipped or lost must not share a number with new ones.
        epoch = next_epoch(None, shared.state.epoch, shared.state.promised_epoch, 0)
        self._store_epoch(epoch, frozenset({shared.member}), "unpaired manager starts")
        self._serve(frozenset({shared.member}), "unpaired")

    # -- the register ----------------------------------------------------------------------------------------------

    def distrust(self, now_ms: int) -> None:
        """Somebody knows of a higher epoch: ask the register before its time."""
        self._read_register(now_ms)

    def on_register(self, register: Register | None, now_ms: int) -> None:
        """The register as it is; None when it cannot be read now."""
        self.reading = False
        self.readable = register is not None
        if register is not None:
            if register != self.register:
                self.young_since_ms = now_ms if register.state is RegisterState.CLAIMED else None
            self.register = register
        if self.serving:
            self._check_own(register)
        if self.sync_when_read and self.serving:
            self._begin_sync()
        if register is not None:
            self._decide(now_ms)

    def _check_own(self, register: Register | None) -> None:
        # P7: anything but our own committed record means that somebody claimed; unreadable changes nothing while
        # paired.
        if register is None or self.publishing:
            return
        own = register.holder == self.shared.member and register.epoch == self.shared.state.epoch
        if not (own and register.state is RegisterState.COMMITTED):
            self.to_probe("the register holds another record than ours")
        elif self._is_synced() and self.shared.peer not in register.in_sync_set:
            self._publish(register)
        elif self._is_synced() and self.shared.link is not Link.PAIRED:
            self._paired()  # the add that went unanswered has landed

    def on_set_result(self, purpose: str, outcome: str, register: Register | None, now_ms: int) -> None:
        """A compare-and-set ended: "done", "refused" or "unknown"."""
        if register is not None:
            self.register = register
        if purpose == "add":
            self._on_add_result(outcome, now_ms)
            return
        under_way = self.claim
        if under_way is None or purpose != f"{under_way.step}:{under_way.epoch}":
            return  # of a claim that was given up; if it landed, P7 finds it
        if outcome != "done":
            self.claim = None
            self._back_off(now_ms)
            self.to_probe(f"claim of epoch {under_way.epoch} was {outcome}")
            self._read_register(now_ms)
        elif under_way.step == "claiming":
            under_way.step = "storing"
            self._store_epoch(under_way.epoch, under_way.members, under_way.reason)
        else:
            self.claim = None
            self.failures = 0
            self._serve(under_way.members, under_way.reason)

    def _back_off(self, now_ms: int) -> None:
        self.failures += 1
        pause_ms = pause_after(self.failures, self.shared.member, was_master=self.was_master, bias_ms=self.bias_ms)
        self.not_before_ms = now_ms + pause_ms

    # -- claim, store, serve ---------------------------------------------------------------------------------------

    def _decide(self, now_ms: int) -> None:
        shared = self.shared
        wants = shared.role is Role.PROBE or (self.serving and shared.role is Role.MASTER_SUSPENDED)
        if not wants or self.claim is not None or self.publishing or shared.machine is None or not shared.peer:
            return
        if not self.may_claim:
            shared.last_change = "waiting for the witness to confirm this start"
            return
        decision = decide(facts_of(self, now_ms))
        shared.last_change = str(decision.reason) if shared.role is Role.PROBE else shared.last_change
        if not isinstance(decision, Claim):
            if isinstance(decision, Follow):
                self.failures = 0
            return
        if now_ms < self.not_before_ms:
            return
        register = self.register
        assert register is not None
        peer_epoch = max(self.hello.epoch, self.hello.promised_epoch) if self.hello is not None else 0
        epoch = next_epoch(register, shared.state.epoch, shared.state.promised_epoch, peer_epoch)
        desired = claim(
            register, member=shared.member, epoch=epoch, members=decision.members, nonce=nonce_of(self.shared, epoch)
        )
        self.claim = ClaimUnderWay("claiming", decision.members, epoch, desired, str(decision.reason))
        if self.serving:
            self.serving = False
            self.mastership.on_not_serving()
        shared.effects.append(SetRegister(register, desired, f"claiming:{epoch}"))

    def _store_epoch(self, epoch: int, members: frozenset[str], reason: str) -> None:
        shared = self.shared
        self.target.stop()
        shared.state.epoch = epoch
        shared.state.owner = shared.member
        shared.mark(DataMark.IN_SYNC if len(members) > 1 else DataMark.SOLE)
        shared.state.in_sync_set = sorted(members)
        shared.apply_up_to(shared.log.last_index, tell=False)
        self.epoch_first = self.mastership.on_epoch_begin(epoch, members, reason)

    def on_epoch_durable(self, epoch: int) -> None:
        """The first record of the epoch is durable here."""
        under_way = self.claim
        if under_way is None or under_way.step != "storing" or under_way.epoch != epoch:
            return
        under_way.step = "committing"
        desired = commit(under_way.desired, nonce=nonce_of(self.shared, epoch))
        self.shared.effects.append(SetRegister(under_way.desired, desired, f"committing:{epoch}"))

    def _serve(self, members: frozenset[str], reason: str) -> None:
        shared = self.shared
        self.required = members
        self.alone_up_to = 0
        self.serving = True
        self.was_master = True
        shared.master = shared.member
        shared.link = Link.HANDSHAKE if self.connected else Link.DOWN
        shared.become(Role.MASTER, reason)
        self.lost_at_ms = None if self.connected else self.lost_at_ms
        self.source.stop()
        self._begin_sync()
        self.advance()
        self.mastership.on_serving()

    def _begin_sync(self) -> None:
        # P12: one HELLO, one SYNC. The peer's log goes on with what we send; a second SYNC from the same HELLO would
        # cut what it has acknowledged since. The peer sends a new HELLO when it hears that we stepped down.
        self.sync_when_read = False
        if self.connected and self.hello is not None and self.hello_is_new:
            self.hello_is_new = False
            self.source.begin(self.hello)

    def to_probe(self, reason: str) -> None:
        """Stop: no effect of ours is visible until the register and the peer have spoken again (P6, P7)."""
        shared = self.shared
        was_serving = self.serving
        self.serving = False
        self.publishing = False
        self.sync_when_read = False
        self.claim = None
        self.required = frozenset()
        self.source.stop()
        self.target.stop()
        shared.master = ""
        shared.link = Link.HANDSHAKE if self.connected else Link.DOWN
        shared.become(Role.PROBE, reason)
        if was_serving:
            self.mastership.on_not_serving()

    # -- the peer --------------------------------------------------------------------------------------------------

    def on_connected(self) -> None:
        """The Data stream is open; HELLOs cross."""
        self.connected = True
        self.hello = None
        self.lost_at_ms = None
        self.refused = False
        self.shared.link = Link.HANDSHAKE
        if self.shared.role is Role.MASTER_SUSPENDED and self.serving:
            self.shared.become(Role.MASTER, "the peer is back")

    def on_disconnected(self, now_ms: int) -> None:
        """The connection is gone, for whatever reason; the peer is not lost yet."""
        shared = self.shared
        self.connected = False
        self.hello = None
        self.source.stop()
        self.target.stop()
        shared.link = Link.DOWN
        if shared.role is Role.REPLICA:
            self.was_master = False
            self.to_probe("the connection to the master was lost")  # P9
        self._read_register(now_ms)

    def on_lost(self, now_ms: int, *, refused: bool) -> None:
        """The peer counts as lost: silent for longer than the lost time, or the link was reset and the reconnect
        refused.
        """
        if self.lost_at_ms is None:
            self.lost_at_ms = now_ms
        self.refused = self.refused or refused
        if self.serving and self.shared.peer in self.required:
            self.shared.become(
                Role.MASTER_SUSPENDED, "the peer is lost; nothing is acknowledged until the register agrees"
            )
            # Read before the claim: a claim that nobody answers costs the mastership (P6), an unreadable register does
            # not.
            self._read_register(now_ms)
        else:
            self._decide(now_ms)

    def on_hello(self, hello: DomainHello, now_ms: int) -> None:
        """Where the peer stands now (P12)."""
        shared = self.shared
        self.hello = hello
        self.hello_is_new = self.source.phase is Phase.IDLE
        peer_is_master = hello.role in (Role.MASTER.value, Role.MASTER_SUSPENDED.value)
        if shared.role is Role.REPLICA and hello.role == Role.PROBE.value:
            self.to_probe("the master has stepped down")  # else both would wait: we for its SYNC, it for our claim (P8)
        if self.serving:
            if hello.epoch > shared.state.epoch or hello.promised_epoch > shared.state.epoch:
                self.to_probe("the peer has a higher epoch")
            elif peer_is_master or hello.role == Role.DIVERGED.value or self.source.phase is not Phase.IDLE:
                return  # it will step down on our HELLO; a SYNC already sent stands against an older HELLO (P12)
            else:
                self.sync_when_read = True
        self._read_register(now_ms)
        self._decide(now_ms)

    def may_follow(self, epoch: int) -> bool:
        """Whether a SYNC of this epoch is taken (P13); a claim of ours is given up for it (P12)."""
        shared = self.shared
        if epoch < max(shared.state.epoch, shared.state.promised_epoch) or (
            self.serving and epoch == shared.state.epoch
        ):
            return False
        if epoch == shared.state.epoch and shared.state.owner == shared.member:
            # Two owners of one number: a register that was put back from an older copy gave it out again. Following
            # would
            # wipe what was acknowledged under our ownership, leading would do so to the peer: an operator must choose.
            self.to_probe("diverged")
            shared.become(
                Role.DIVERGED, f"both members owned epoch {epoch}; keep both directories, an operator must choose"
            )
            return False
        if self.claim is not None and self.claim.step != "claiming" and epoch <= self.claim.epoch:
            return False
        if self.serving:
            self.to_probe(f"the peer is master of epoch {epoch}")
        self.claim = None
        self.was_master = False
        shared.become(Role.REPLICA, f"follows epoch {epoch}")
        shared.master = shared.peer
        return True

    def on_tick(self, now_ms: int) -> None:
        """Time passes: read the register again when it is due, and decide."""
        shared = self.shared
        if not shared.peer:
            return
        if shared.role in (Role.PROBE, Role.MASTER_SUSPENDED):
            if now_ms - self.read_at_ms >= REGISTER_RETRY_MS:
                self._read_register(now_ms)
            self._decide(now_ms)
        elif now_ms - self.read_at_ms >= REGISTER_WATCH_MS:
            # A replica reads too: it decides faster when its master goes, and status shows whether the witness answers.
            self._read_register(now_ms)
