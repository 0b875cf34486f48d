"""The core of one domain: takes calls, peer frames, register answers and time; returns effects. No socket, clock,
thread or disk in here.

The same class runs in production, in recovery and in tests. A call is ordered here while this member serves as master,
held at the replica while it follows one, and parked while there is none; it is answered when every record that the
answer rests on is committed.
"""

from __future__ import annotations

from enum import Enum
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, assert_never

from failover.marks import Role
from replica.core.delivery.completing import Completing
from replica.core.delivery.consumers import Consumers
from replica.core.delivery.watching import Watching
from replica.core.handoff.handoff import Handoff
from replica.core.mastership.epoch_record import epoch_record
from replica.core.mastership.mastership import Mastership
from replica.core.ordering.dying import Dying
from replica.core.ordering.holding import Holding
from replica.core.ordering.kept_reactions import KeptReactions
from replica.core.ordering.orders import Orders
from replica.core.replication.op_frame import op_frame_of
from replica.core.replication.recall import answer_recall
from replica.core.replication.sync_source import SyncSource
from replica.core.replication.sync_target import SyncTarget
from replica.core.state.durable import state_key
from replica.core.state.effects import Persist
from replica.core.state.outcomes import Failed, Moved
from replica.core.state.write_tokens import BaseStored, CededStored, EpochStored, OpenStored, SoloStored
from replica.machine.plan.time import plan_volatile_lost
from tandemq.peer.v1.peer_service_pb2 import DomainHello, EpochBoundary, Hello
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from failover.classifier import Answer, EventKind
    from failover.gate import Ruling
    from failover.register import Register, SetOutcome
    from replica.core.handoff.attempt import HandoffOutcome
    from replica.core.mastership.role import ClaimUnderWay
    from replica.core.ports import Settings, ShellPorts
    from replica.core.state.calls import Call, Consumer, PendingEnqueue
    from replica.core.state.effects import Effect, Purpose
    from replica.core.state.shared import Shared
    from replica.core.state.write_tokens import WriteToken
    from replica.machine import Machine
    from tandemq.peer.v1.peer_service_pb2 import DomainHeartbeat, PeerFrame


class Domain:
    """One domain at one member. Every method takes the time it happens at; `take` gives the effects, in order."""

    def __init__(self, shared: Shared, ports: ShellPorts, settings: Settings) -> None:
        self.shared = shared
        # What the source asks is made below it.
        self.source: SyncSource = SyncSource(shared, lambda: self.mastership.leaving.aside())  # noqa: PLW0108 - as above
        self.target: SyncTarget = SyncTarget(shared, self)
        self.mastership: Mastership = Mastership(
            shared,
            self.source,
            self.target,
            self,
            bias_ms=settings.bias_ms,
            slow_peer_ms=settings.slow_peer_ms,
            meet_ms=settings.meet_ms,
        )
        self.orders: Orders = Orders(shared, self.mastership, self, ports.read, settings.volatile_bytes_max)
        self.holding: Holding = Holding(shared, self.orders, self.target, ports.held_call)
        self.consumers: Consumers = Consumers(shared, self.orders, self.mastership, ports.is_whole, ports.is_at_hand)
        self.completing: Completing = Completing(shared, self.orders)
        self.watching: Watching = Watching(shared, self.orders)
        self.handoff: Handoff = Handoff(
            shared,
            self.orders,
            self.mastership,
            self.target,
            self._resume,
            hold_ms=settings.hold_ms,
            cooldown_ms=settings.cooldown_ms,
        )
        self.dying: Dying = Dying(shared, self.orders, ports.read)
        self.kept: KeptReactions = KeptReactions(shared, self.orders, ports.read, ports.may)

    def take(self) -> list[Effect]:
        """The effects since the last call, in order."""
        if self.orders.room.woken and self.shared.serving and not self.shared.draining:
            self.orders.room.serve()
        if self.kept.unasked and self.shared.serving and not self.shared.draining:
            self.kept.ask()
        if self.handoff.open is not None:
            self.handoff.observe()
        return self.shared.outbox.take()

    # -- clients ---------------------------------------------------------------------------------------------------

    def submit(self, call: Call, domain_ms: int) -> None:
        """A client's call."""
        self.orders.set_now(domain_ms)
        if self.shared.draining and not self.orders.units.ends_one(call):
            self.holding.park(call)
        elif self.shared.serving:
            self.orders.execute(call)
        else:
            self.holding.submit(call)

    def withdraw(self, pending: PendingEnqueue, domain_ms: int) -> None:
        """The caller of an unanswered call has gone: it waits for room no longer. What is ordered stays ordered."""
        self.orders.set_now(domain_ms)
        if not self.orders.room.leave(pending):
            self.holding.withdraw(pending)

    def attach(self, consumer: Consumer, domain_ms: int, last_lease_id: int | None = None) -> None:
        """A consumer, perhaps one that was here before; only while serving (the shell sends others to the master)."""
        self.orders.set_now(domain_ms)
        if self.shared.draining:
            self.orders.reply(consumer.waiter, Moved("the mastership is being handed over; open the stream again"))
        elif self.shared.serving:
            if last_lease_id is not None:
                self.consumers.resume(consumer.queue, consumer.client_id, last_lease_id)
            self.consumers.attach(consumer)
        else:
            self.orders.reply(consumer.waiter, Failed(*self.no_master()))

    def no_master(self) -> tuple[Reason, str, dict[str, str], int]:
        """The refusal while nobody serves."""
        message = f"no master in domain {self.shared.name}: {self.shared.last_change}; repeat the call"
        return Reason.REASON_NO_MASTER, message, {"role": self.shared.role.name}, 200

    def start_handoff(
        self,
        domain_ms: int,
        reason: str,
        *,
        dry_run: bool = False,
        hold_ms: int = 0,
        automatic: bool = False,
        on_end: Callable[[HandoffOutcome], None] | None = None,
    ) -> None:
        """Give the role away, or ask for it. `on_end` is called once, with how it ended."""
        self.orders.set_now(domain_ms)
        self.handoff.start(reason, dry_run=dry_run, hold_ms=hold_ms, automatic=automatic, on_end=on_end)

    # -- what the mastership reports -------------------------------------------------------------------------------

    def on_epoch_begin(self, under_way: ClaimUnderWay) -> int:
        """Append the epoch's first record, with the domain's facts in the same transaction."""
        shared = self.shared
        machine = shared.machine
        assert machine is not None
        self.consumers.damage.forget()
        self.orders.units.forget_all()
        self.orders.set_time()
        header = epoch_record(shared, under_way, self.orders.time_ms)
        epoch = under_way.epoch
        entry = shared.log.build(header, b"", epoch, volatile_body=False, held=None)
        shared.state.note_history(shared.log.history)
        machine.apply(entry.log_index, epoch, header)
        self.watching.on_epoch()
        self.kept.begin()
        meta: dict[str, bytes | None] = {state_key(shared.domain): shared.state.encode()}
        shared.outbox.add(Persist(appends=(entry,), meta=meta, token=EpochStored(epoch)))
        return entry.log_index

    def on_serving(self) -> None:
        """The gate is open, or a second member has joined."""
        if self.shared.draining:
            return
        lost = plan_volatile_lost(self.orders.machine.state, self.orders.time_ms, self.shared.volatile.has)
        if lost is not None:
            self.orders.order(lost)
        self.holding.on_serving()
        self.consumers.pump_all()

    def on_not_serving(self) -> None:
        """Nothing is ordered now; answers wait until it is known who is master."""
        self.completing.on_following()
        self.watching.on_following()
        self.orders.units.forget_all()
        self.holding.park_first([call for call in self.orders.room.take_all() if call.waiter is not None])
        self.holding.forget_peers()

    def _resume(self) -> None:
        """A handoff came to nothing: order what was parked."""
        if self.shared.serving:
            self.on_serving()

    def on_committed(self) -> None:
        """The commit index has moved, at the master."""
        self.orders.on_committed()

    # -- the shell's reports ---------------------------------------------------------------------------------------

    def start(self, now_ms: int, domain_ms: int) -> None:
        """Disk is read, the queues' state is rebuilt."""
        self.orders.set_now(domain_ms)
        self.mastership.start(now_ms)

    def on_persisted(self, generation: int, last_index: int, tokens: list[WriteToken]) -> None:
        """A group commit is durable: the last log index in it (0 = none), and the tokens of its parts."""
        shared = self.shared
        if last_index and generation == shared.progress.generation:
            shared.progress.on_durable(last_index)
            if self.shared.serving:
                self.mastership.commit.advance()
            else:
                self.target.on_durable()
        for token in tokens:
            self._on_token(token)

    def _on_token(self, token: WriteToken) -> None:
        match token:
            case EpochStored():
                self.mastership.on_epoch_durable(token.epoch)
            case SoloStored():
                self.mastership.commit.on_solo_durable()
            case BaseStored():
                self.target.on_base_durable(token.sync_id, token.log_index)
                self.holding.on_following()
            case OpenStored():
                self.target.on_opened(token.sync_id)
                self.shared.outbox.note_transfer(f"is in step with {self.shared.peer}")
            case CededStored():
                self.handoff.on_ceded(token.handoff_id)
            case _:
                assert_never(token)

    def on_rebuilt(self, machine: Machine, now_ms: int) -> None:
        """The queues' state is made anew, up to where the log was cut or the snapshot stands."""
        shared = self.shared
        shared.set_machine(machine)
        shared.apply_up_to(shared.progress.commit_index, self.holding.on_applied)
        machine.commit(min(machine.applied_index, max(shared.progress.commit_index, shared.log.base_index)))
        self.mastership.recall.after_rebuild()
        self.target.maybe_open()
        self.holding.answer_repetitions()
        self.mastership.on_tick(now_ms)

    def on_register(self, register: Register | None, now_ms: int) -> None:
        """The register was read."""
        self.mastership.on_register(register, now_ms)

    def on_set_result(self, purpose: Purpose, outcome: SetOutcome, register: Register | None, now_ms: int) -> None:
        """A compare-and-set ended."""
        self.mastership.on_set_result(purpose, outcome, register, now_ms)

    def on_tick(self, now_ms: int, domain_ms: int) -> None:
        """Time passes."""
        self.orders.set_now(domain_ms)
        self.mastership.on_tick(now_ms)
        if self.handoff.open is not None:
            self.handoff.on_tick()
        if self.holding.parked:
            self.holding.expire(now_ms)
        if self.orders.room.lines and self.shared.serving and not self.shared.draining:
            self.orders.room.expire()
        if self.mastership.commit.can_commit:
            if self.consumers.ahead.under_way:
                self.consumers.ahead.look()
            self.orders.expire()
            self.kept.on_tick()
            self.dying.look(now_ms)
            self.orders.replying.look(now_ms)
            if self.consumers.turns:
                self.consumers.look()

    # -- the peer --------------------------------------------------------------------------------------------------

    def hello(self) -> DomainHello:
        """Where this member stands. What is not durable may be gone after a crash; it is compared by its digest."""
        shared, log = self.shared, self.shared.log
        return DomainHello(
            domain=shared.domain,
            name=shared.name,
            role=shared.role.value,  # type: ignore[arg-type]  # the enums share their numbers
            data_state=shared.state.data.value,  # type: ignore[arg-type]  # the enums share their numbers
            epoch=shared.state.epoch,
            promised_epoch=shared.state.promised_epoch,
            last_index=log.last_index,
            base_index=log.base_index,
            digest=log.digest,
            history=[EpochBoundary(epoch=b.epoch, first_index=b.first_index) for b in log.history],
            volatile_floor=shared.volatile.floor,
            owner=shared.state.owner,
            register=shared.hello_register,
            solo_since=shared.state.solo_since,
            wants_full=shared.wants_full,
            sends_sync_id=self.source.sync_id if self.source.filling else 0,
            stays_with_transfer=True,
        )

    def on_connected(self) -> None:
        """The Data stream is open."""
        self.mastership.on_connected()
        self.say_hello()  # P12: the one that opened the connection was written before a change could be said

    def say_hello(self) -> None:
        """Tell the peer where this member stands now."""
        shared = self.shared
        shared.outbox.send(hello=Hello(member=shared.member, incarnation=shared.incarnation, domains=[self.hello()]))

    def on_disconnected(self, now_ms: int) -> None:
        """The connection is gone."""
        self.mastership.on_disconnected(now_ms)
        self.orders.room.forget_peers()

    def on_lost(self, now_ms: int, *, refused: bool, cause: str = "") -> None:
        """The peer counts as lost."""
        self.mastership.on_lost(now_ms, refused=refused, cause=cause)

    def on_verdict(self, answer: Answer, kind: EventKind, now_ms: int) -> Ruling:
        """A classifier or an operator has answered."""
        return self.mastership.on_verdict(answer, kind, now_ms)

    def on_hello(self, hello: DomainHello, now_ms: int) -> None:
        """Where the peer stands."""
        self.mastership.on_hello(hello, now_ms)
        if hello.role == Role.MASTER.value and self.shared.role is Role.PROBE:
            # P12: the master makes one SYNC of one HELLO, and may have used up what we said when we met.
            self.say_hello()

    def on_heartbeat(self, beat: DomainHeartbeat) -> None:
        """The master's commit progress arrives with its heartbeats too."""
        if beat.epoch == self.shared.state.epoch and self.shared.role is Role.REPLICA:
            self.target.on_commit(beat.commit_index)
            self.holding.answer_repetitions()

    def on_frame(self, frame: PeerFrame, domain_ms: int) -> bool:
        """A frame of the Data stream. False: of a lower epoch (P13), the shell answers with a HELLO."""
        self.orders.set_now(domain_ms)
        kind = frame.WhichOneof("frame")
        row = FRAMES[kind] if kind is not None else UNKNOWN
        serving = self.shared.serving
        if row.epoch is Epochs.CURRENT or (serving and row.epoch is Epochs.CURRENT_AT_MASTER):
            epoch = self.shared.state.epoch
            if frame.epoch < epoch:
                return False
            if frame.epoch > epoch:
                if serving:
                    self.mastership.role.become_probe("the peer speaks in a higher epoch")
                return True
        return row.take(self, frame) is not False


class Epochs(Enum):
    """Of which epochs a kind of frame is taken."""

    CURRENT = "the one in force: a lower one has no effect (P13), by a higher one a master hears that it is none"
    CURRENT_AT_MASTER = "at a master, the one in force; elsewhere any: a body is known by its CRC"
    ANY = "any"
    JUDGED = "whichever its handler takes; False: it is a lower one"


class FrameRow(NamedTuple):
    """What is done with one kind of frame."""

    epoch: Epochs
    take: Callable[[Domain, PeerFrame], bool | None]


def _on_sync_begin(domain: Domain, frame: PeerFrame) -> bool:
    if not domain.mastership.following.may_follow(frame.epoch, frame.sync_begin):
        return False
    begin = frame.sync_begin
    what = "everything" if begin.full else f"what follows log index {begin.base_index}"
    domain.shared.outbox.note_transfer(f"takes {what} from {domain.shared.peer}", full=str(begin.full).lower())
    domain.target.begin(frame.epoch, begin)
    domain.orders.on_following()
    domain.consumers.on_following()
    domain.completing.on_following()
    domain.watching.on_following()
    domain.holding.on_following()
    return True


def _on_op(domain: Domain, frame: PeerFrame) -> None:
    domain.target.on_op(op_frame_of(frame))
    domain.holding.answer_repetitions()


def _on_fetch_body(domain: Domain, frame: PeerFrame) -> None:
    if domain.shared.serving:
        domain.source.on_fetch(list(frame.fetch_body.indexes))
    else:
        answer_recall(domain.shared, frame.fetch_body.indexes)


def _on_digest_reply(domain: Domain, frame: PeerFrame) -> None:
    if domain.shared.serving:
        domain.source.on_digest_reply(frame.digest_reply)


def _ignore(_domain: Domain, _frame: PeerFrame) -> None:
    """Not for a domain, or of a later version."""


UNKNOWN = FrameRow(Epochs.CURRENT, _ignore)
FRAMES: Mapping[str, FrameRow] = MappingProxyType(
    {
        # The log, from the master.
        "sync_begin": FrameRow(Epochs.JUDGED, _on_sync_begin),
        "op": FrameRow(Epochs.CURRENT, _on_op),
        "sync_end": FrameRow(Epochs.CURRENT, lambda domain, frame: domain.target.on_end(frame.sync_end)),
        "hold_reject": FrameRow(Epochs.CURRENT, lambda domain, frame: domain.holding.on_hold_reject(frame.hold_reject)),
        # What the replica says of it.
        "op_ack": FrameRow(Epochs.CURRENT, lambda domain, frame: domain.mastership.commit.on_op_ack(frame.op_ack)),
        "open_ack": FrameRow(Epochs.CURRENT, lambda domain, frame: domain.mastership.on_open_ack(frame.open_ack)),
        "hold": FrameRow(Epochs.CURRENT, lambda domain, frame: domain.holding.on_hold(frame)),
        # Questions of either side. A digest says nothing of who is master, and a body is taken by its CRC.
        "digest_query": FrameRow(
            Epochs.ANY, lambda domain, frame: domain.target.on_digest_query(frame.digest_query.index)
        ),
        "digest_reply": FrameRow(Epochs.ANY, _on_digest_reply),
        "fetch_body": FrameRow(Epochs.CURRENT_AT_MASTER, _on_fetch_body),
        "volatile_bodies": FrameRow(
            Epochs.ANY, lambda domain, frame: domain.mastership.recall.on_answer(frame.volatile_bodies)
        ),
        # Handoffs. Whoever took the role may refuse one in its new epoch.
        "handoff_request": FrameRow(
            Epochs.CURRENT, lambda domain, frame: domain.handoff.on_request(frame.handoff_request)
        ),
        "handoff_propose": FrameRow(
            Epochs.CURRENT, lambda domain, frame: domain.handoff.on_propose(frame.handoff_propose)
        ),
        "handoff_ready": FrameRow(Epochs.CURRENT, lambda domain, frame: domain.handoff.on_ready(frame.handoff_ready)),
        "handoff_nack": FrameRow(Epochs.ANY, lambda domain, frame: domain.handoff.on_nack(frame.handoff_nack)),
        "handoff_ack": FrameRow(Epochs.CURRENT, lambda domain, frame: domain.handoff.on_ack(frame.handoff_ack)),
        # Not of a domain: the session takes them, or nobody does.
        "hello": UNKNOWN,
        "error": UNKNOWN,
        "verify_query": UNKNOWN,
        "verify_reply": UNKNOWN,
        "verify_done": UNKNOWN,
    }
)
