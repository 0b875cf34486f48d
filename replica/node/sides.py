"""This member's own sides of queues with PRODUCER replication: gives them what the pair has committed, and says how far
they have come (K1, K2, K6). Between two cores of one member: it decides nothing for either, and orders in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from replica.core.delivery.rounds import Rounds
from replica.core.state.effects import Note
from replica.machine import SettleCall
from replica.machine.plan.settle import plan_settle
from replica.machine.plan.sides import (
    PORTIONS_MAX,
    SideLimits,
    last_rejected,
    late_sides,
    next_given,
    passed_by,
    plan_given,
    plan_like,
    plan_lost,
    plan_passed,
    plan_side,
    side_lost,
    side_over,
)
from replica.machine.state.lockstep import SideOf
from replica.machine.state.selection import SelectedRun
from replica.machine.state.system_names import shown, side_queue
from replica.machine.views import side_segments
from replica.node.asking import Asks
from tandemq.peer.v1.peer_service_pb2 import SidePassed
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_DELETE, QueueOp, RecordHeader
from tandemq.v1.common_pb2 import IndexRange
from tandemq.v1.pair_service_pb2 import PairEventKind
from tandemq.v1.queue_service_pb2 import OUTCOME_RELEASE, Settlement

if TYPE_CHECKING:
    from collections.abc import Iterable

    from replica.core.domain import Domain
    from replica.machine import Machine, QueueState, Refused, SegmentSlice
    from replica.node.asking import Dispatching
    from tandemq.v1.queue_admin_service_pb2 import QueueConfig

LOOK_MS = 100
"""Between two looks at how far the sides have come."""
MARK_MESSAGES, MARK_MS = 1_000, 1_000
"""Of a queue's sides together: a record of their progress once so many messages more are settled, or so much later."""
SWEEP_MS = 10_000
"""Between two walks over all sides here, whatever is known of them; see `Sides.moving`."""
BEAT_SIDES_MAX = 1_000
"""In one heartbeat; the others follow with the next ones, once the log says how far these are."""


class _Sample(NamedTuple):
    """How far a side was in a state that may not be durable."""

    passed: int
    log_index: int
    """Of that state, in the member's own domain."""


class Sides:
    """Of one member."""

    def __init__(self, node: Dispatching) -> None:
        self._node = node
        self.asks = Asks(node)
        self.own: Domain | None = None
        """The member's own domain; None: not yet there."""
        self.served: dict[int, SideOf] = {}
        """Sides here that have a consumer, by their number."""
        self.moving: dict[int, SideOf] = {}
        """Sides here, by their number, of which the pair's log may not say yet how far they are; no other one is looked
        at. All of them after a start, and where a copy of the pair's state is another: what its log said may be gone.
        """
        self._like: dict[int, tuple[QueueConfig, bool]] = {}
        """By side: the attributes of the pair's queue that it has, and whether that is open here."""
        self._samples: dict[int, _Sample] = {}
        self._settled: dict[int, int] = {}
        """By side: how far it is for certain."""
        self._peer: dict[tuple[int, int], SidePassed] = {}
        """By domain and queue: how far the peer's side is, as it said in this session."""
        self._recorded_ms: dict[tuple[int, int], int] = {}
        self._committed: dict[int, int] = {}
        """By domain: up to where its state was committed when its sides were last looked at after a step."""
        self._rejected: dict[int, int] = {}
        """By side that is served, or was: messages that its process has ever rejected, as operators know."""
        self._limits = SideLimits()
        self._rounds: dict[int, Rounds] = {}
        """By domain: which queues with sides are looked at next, for one that is too far behind."""
        self._look_ms = self._sweep_ms = 0
        self._machines: list[Machine | None] = []
        """At the last walk over all sides: the member's own state, and those of the pair."""

    def connect(self, own: Domain, limits: SideLimits) -> None:
        """The member's domains are there; before the first of them starts."""
        self.own, self._limits = own, limits

    # -- a consumer ------------------------------------------------------------------------------------------------

    def open(
        self, domain: Domain, queue: QueueState, *, anew: bool, client_id: bytes, connection: str = ""
    ) -> str | Refused | None:
        """The side of that queue, begun where it is not there; its name. None: its domain serves nobody yet.

        There is one consumer a side (K4): what another one holds, or this one before it was started `anew`, comes back,
        so that its next message is the first one that is not settled. `Consumers.make_way`: of its own older stream.
        """
        own = self._serving()
        if own is None:
            return None
        of, name = self.key(domain, queue), side_queue(queue.name)
        side = self._side(of, name)
        member = domain.shared.member
        if side is None or passed_by(side) < (queue.passed or {}).get(member, 0):
            self._order(own, plan_side(own.orders.machine.state, own.orders.time_ms, of, queue, member))
            side = self._side(of, name)
            assert side is not None, "a side has begun"
        self._follow(own, side, queue, member)
        if (refused := own.consumers.make_way(side.queue_id, client_id, connection, anew=anew)) is not None:
            return refused
        if side.queue_id not in own.consumers.turns:
            self._take_back(own, name, side, None if anew else client_id)
        self.served[side.queue_id] = self.moving[side.queue_id] = of
        self._rejected.setdefault(side.queue_id, side.totals.rejected)
        self._give(side.queue_id, of)
        return name

    def _take_back(self, own: Domain, name: str, side: QueueState, client_id: bytes | None) -> None:
        settlements = [
            Settlement(
                lease_id=lease.lease_id,
                ranges=[IndexRange(first=low, count=high - low) for low, high in lease.ranges],
                outcome=OUTCOME_RELEASE,
            )
            for lease in side.leases.values()
            if lease.client_id != client_id
        ]
        if settlements:
            plan = plan_settle(own.orders.machine.state, own.orders.time_ms, SettleCall(name, settlements))
            if plan.header is not None:
                self._order(own, plan.header)

    def _follow(self, own: Domain, side: QueueState, queue: QueueState, member: str) -> None:
        """A side has the attributes of its queue, and is open where that is; whoever may not consume it now is sent
        away.
        """
        known, is_open = self._like.get(side.queue_id), member in queue.open_members
        if known is not None and known[0] is queue.config and known[1] == is_open:
            return
        self._like[side.queue_id] = queue.config, is_open
        state = own.orders.machine.state
        while (header := plan_like(state, own.orders.time_ms, side, queue, member)) is not None:
            self._order(own, header)
        own.consumers.on_queue(side.queue_id)
        self._node.dispatch(own)

    def is_whole(self, queue_id: int) -> bool:
        """Whether this member's copy holds what the side was given. A copy that is being taken anew does not."""
        own = self.own
        side = own.orders.machine.state.queues.get(queue_id) if own is not None else None
        if side is None or side.side is None:
            return True
        of = self._queue_of(side.side)
        return of is not None and of.given_end >= side.next_index

    def slices(self, of: SideOf, slices: Iterable[SegmentSlice]) -> list[SegmentSlice]:
        """Where the bodies are of messages that a side hands out."""
        queue = self._queue_of(of)
        assert queue is not None, "nothing is handed out while the copy is not whole"
        runs_by_part = ((part, _runs_of(queue, part.first_index, part.count)) for part in slices)
        return [each for part, runs in runs_by_part for each in side_segments(queue, part, runs)]

    # -- what the pair has committed ---------------------------------------------------------------------------------

    def on_step(self, domain: Domain) -> None:
        """A domain has taken a step: where more is committed in one of the pair's since, its sides are looked at.
        Whatever else a step does to them is seen at the next tick. In the own one a consumer may have credit again.
        """
        if not domain.shared.peer:
            self._on_own_step()
            return
        machine = domain.shared.machine
        committed = machine.state.commit_index if machine is not None else 0
        if committed != self._committed.get(domain.shared.domain):
            self._committed[domain.shared.domain] = committed
            self.on_moved()

    def _on_own_step(self) -> None:
        if not self.asks.own:
            return
        asked = dict(self.asks.own)
        for queue_id, of in self.served.items():
            self._ask(queue_id, of)
        if self.asks.own != asked:
            self.asks.select()

    def on_moved(self) -> None:
        """More may be committed in the pair's domains."""
        own = self.own
        for queue_id, of in list(self.served.items()):
            if own is not None and queue_id in own.consumers.turns:
                self._give(queue_id, of)
            if own is None or queue_id not in own.consumers.turns:
                self.served.pop(queue_id, None)  # its consumer has left
                self.asks.drop(of)
            else:
                self._ask(queue_id, of)
        self.asks.select()

    def _ask(self, queue_id: int, of: SideOf) -> None:
        """For what its consumer has credit."""
        own, queue = self._serving(), self._queue_of(of)
        if own is None or queue is None or queue.selection is None or queue_id not in own.consumers.turns:
            return
        side = own.orders.machine.state.queues.get(queue_id)
        if side is not None:
            self.asks.note(of, queue, side, own.consumers.turns[queue_id][0].credit_messages)

    def _give(self, queue_id: int, of: SideOf) -> None:
        own = self._serving()
        side = own.orders.machine.state.queues.get(queue_id) if own is not None else None
        if own is None or side is None:
            return
        queue = self._queue_of(of)
        member = self._node.domains[of.domain].shared.member
        if queue is None or not _is_side(queue, member, of):
            if self._is_gone(of):
                if queue is not None and (refused := _why_over(queue, member, of)) is not None:
                    own.consumers.send_away(queue_id, refused)
                self._drop(own, side)
            return
        self._follow(own, side, queue, member)
        before = side.next_index
        for _ in range(PORTIONS_MAX):
            given = next_given(queue, side)
            if given is None:
                break
            own.orders.order(plan_given(own.orders.machine.state, own.orders.time_ms, side, given))
        if side.next_index > before:
            own.consumers.pump([queue_id])
            self._node.dispatch(own)

    # -- how far they have come --------------------------------------------------------------------------------------

    def look(self, now_ms: int) -> None:
        """At each tick."""
        if self.served:
            self.on_moved()
            own = self._serving()
            if own is not None:
                own.consumers.pump(list(self.served))
                self._node.dispatch(own)
        if now_ms - self._look_ms < LOOK_MS:
            return
        self._look_ms = now_ms
        self._report_rejected()
        self._sweep(now_ms)
        for domain in self._node.paired():
            self._look_at(domain, now_ms)
            self._lose(domain)
        self._rest()

    def _report_rejected(self) -> None:
        """K4: one process could not do what its twin may have done; that is harmless here, and no business of ours to
        decide, and somebody must know it.
        """
        own = self._serving()
        if own is None:
            return
        for side_id in self.moving:  # served, or left just now
            side = own.orders.machine.state.queues.get(side_id)
            count = side.totals.rejected if side is not None else 0
            known = self._rejected.setdefault(side_id, count)
            if side is None or count == known:
                continue
            self._rejected[side_id] = count
            queue, last = shown(side.name), last_rejected(side)
            text = (
                f"the side of queue {queue} at {own.shared.member} has rejected {count - known} of its messages, one "
                f"of them {last}: they are gone there alone, and its twin may have acted on them"
            )
            facts = {"queue": queue, "member": own.shared.member, "rejected": str(count), "index": str(last)}
            own.shared.outbox.add(Note(PairEventKind.PAIR_EVENT_KIND_FAULT, text, facts))
            self._node.dispatch(own)

    def _sweep(self, now_ms: int) -> None:
        """All sides here, where anything may be known of them that is not so, and now and then."""
        own = self._serving()
        if own is None:
            return
        machines = [domain.shared.machine for domain in (own, *self._node.paired())]
        if machines == self._machines and now_ms - self._sweep_ms < SWEEP_MS:
            return
        self._machines, self._sweep_ms = machines, now_ms
        for side in list(own.orders.machine.state.own_sides.values()):
            assert side.side is not None, "kept by that"
            if self._is_gone(side.side):
                self._drop(own, side)
            else:
                self.moving[side.queue_id] = side.side

    def _rest(self) -> None:
        """The pair's log says of these how far they are, and nobody is served there."""
        own = self._serving()
        if own is None:
            return
        for queue_id, of in list(self.moving.items()):
            side = own.orders.machine.state.queues.get(queue_id)
            queue = self._queue_of(of)
            if queue_id in self.served or (side is not None and queue is None):
                continue
            member = self._node.domains[of.domain].shared.member
            if side is None or queue is None or (queue.passed or {}).get(member, 0) >= passed_by(side):
                del self.moving[queue_id]

    def _look_at(self, domain: Domain, now_ms: int) -> None:
        if not domain.shared.serving or domain.shared.draining or not domain.mastership.commit.can_commit:
            return
        shared = domain.shared
        sided = domain.orders.machine.state.sided
        numbers = {of.queue_id for of in self.moving.values() if of.domain == shared.domain}
        numbers |= {queue_id for number, queue_id in self._peer if number == shared.domain}
        for queue_id in sorted(numbers):
            queue, key = sided.get(queue_id), (shared.domain, queue_id)
            if queue is None or self._peer_passed(key, queue, shared.peer) <= (queue.passed or {}).get(shared.peer, 0):
                self._peer.pop(key, None)  # the log says it
            if queue is None:
                self._recorded_ms.pop(key, None)
                continue
            known = queue.passed or {}
            marks = {
                shared.member: self._passed(domain, queue),
                shared.peer: self._peer_passed(key, queue, shared.peer),
            }
            more = sum(max(0, marks.get(member, 0) - index) for member, index in known.items())
            if not more or (more < MARK_MESSAGES and now_ms - self._recorded_ms.get(key, 0) < MARK_MS):
                continue
            header = plan_passed(domain.orders.machine.state, domain.orders.time_ms, queue, marks)
            if header is not None:
                self._recorded_ms[key] = now_ms
                self._order(domain, header)

    def _lose(self, domain: Domain) -> None:
        """Some queues in turn: sides that are further behind another one than the limits allow lose their place."""
        if not domain.shared.serving or domain.shared.draining or not domain.mastership.commit.can_commit:
            return
        orders = domain.orders
        state = orders.machine.state
        for queue_id in self._rounds.setdefault(domain.shared.domain, Rounds()).some(state.sided):
            queue = state.sided.get(queue_id)
            if queue is None or not queue.behind:
                continue
            late = late_sides(queue, state.at(orders.time_ms), self._limits, no_room=orders.is_full)
            if not late:
                continue
            self._order(domain, plan_lost(state, orders.time_ms, queue, late))
            for member in late:
                lost = side_lost(queue, member)
                note = Note(PairEventKind.PAIR_EVENT_KIND_FAULT, lost.message, dict(lost.metadata))
                domain.shared.outbox.add(note)
            self._node.dispatch(domain)

    def lost(self, of: SideOf) -> Refused | None:
        """Why the own side is served nothing more; None: it has its place, as far as this member knows."""
        queue = self._queue_of(of)
        member = self._node.domains[of.domain].shared.member
        return _why_over(queue, member, of) if queue is not None else None

    def beat(self, domain: Domain) -> list[SidePassed]:
        """What the peer is told: how far this member's sides are, where its log does not say so."""
        machine = domain.shared.machine
        if machine is None or not self.moving:
            return []
        member, sided = domain.shared.member, machine.state.sided
        queues = [sided.get(of.queue_id) for of in self.moving.values() if of.domain == domain.shared.domain]
        found = [(queue, self._passed(domain, queue)) for queue in queues if queue is not None]
        return [
            SidePassed(queue_id=queue.queue_id, index=index, restarted_ms=queue.restarted_ms.get(member, 0))
            for queue, index in found
            if index > (queue.passed or {}).get(member, index)
        ][:BEAT_SIDES_MAX]

    def on_beat(self, domain: int, passed: Iterable[SidePassed]) -> None:
        """What the peer says of its own."""
        for each in passed:
            self._peer[domain, each.queue_id] = each
            self._node.domains[domain].source.on_side_moved()

    def _peer_passed(self, key: tuple[int, int], queue: QueueState, peer: str) -> int:
        """0: it has said nothing of the side that it has now. What the one before had settled, which has lost its
        place, says nothing of this one: its process goes on behind another index.
        """
        said = self._peer.get(key)
        return said.index if said is not None and said.restarted_ms == queue.restarted_ms.get(peer, 0) else 0

    def forget_peer(self) -> None:
        """Another session: the peer may have lost its disk meanwhile, and goes on from what the log says of it."""
        self._peer.clear()
        self.asks.forget_peer()

    def _passed(self, domain: Domain, queue: QueueState) -> int:
        """How far the own side is on this member's disk; 0: it has none, or that is not known yet."""
        own = self._serving()
        side = self._side(self.key(domain, queue), side_queue(queue.name)) if own is not None else None
        if own is None or side is None:
            return 0
        shared = own.shared
        sample = self._samples.get(side.queue_id)
        if sample is None:
            sample = self._samples[side.queue_id] = _Sample(passed_by(side), own.orders.machine.applied_index)
        if sample.log_index <= shared.progress.commit_index:
            self._settled[side.queue_id] = sample.passed
            del self._samples[side.queue_id]
        return self._settled.get(side.queue_id, 0)

    # -- queues that are gone ----------------------------------------------------------------------------------------

    def _drop(self, own: Domain, side: QueueState) -> None:
        for number_of in (self.served, self.moving):
            number_of.pop(side.queue_id, None)
        if side.side is not None:
            self.asks.drop(side.side)
        self._settled.pop(side.queue_id, None)
        self._samples.pop(side.queue_id, None)
        self._like.pop(side.queue_id, None)
        self._rejected.pop(side.queue_id, None)
        op = QueueOp(action=QUEUE_ACTION_DELETE, queue_id=side.queue_id, removed=side.length)
        self._order(own, RecordHeader(time_ms=own.orders.machine.state.at(own.orders.time_ms), queue=op))

    def _is_gone(self, of: SideOf) -> bool:
        """For certain: in the same history, in a state that is committed, there is no such queue, or none here, or this
        side has lost its place.
        """
        domain = self._node.domains.get(of.domain)
        machine = domain.shared.machine if domain is not None else None
        if domain is None or machine is None or machine.history_id != of.history_id:
            return False
        queue, committed = machine.state.sided.get(of.queue_id), domain.shared.progress.commit_index
        if queue is not None and (loss := queue.lost.get(domain.shared.member)) is not None:
            return loss.log_index <= committed
        is_here = queue is not None and _is_side(queue, domain.shared.member, of)
        return not is_here and machine.applied_index <= committed

    # -- finding -----------------------------------------------------------------------------------------------------

    def _serving(self) -> Domain | None:
        own = self.own
        return own if own is not None and own.shared.serving and own.mastership.commit.can_commit else None

    def key(self, domain: Domain, queue: QueueState) -> SideOf:
        """What a side of that queue stands for."""
        restarted_ms = queue.restarted_ms.get(domain.shared.member, 0)
        return SideOf(domain.shared.domain, domain.orders.machine.history_id, queue.queue_id, restarted_ms)

    def _side(self, of: SideOf, name: str) -> QueueState | None:
        """None: there is none, or that of another queue has its name."""
        assert self.own is not None, "asked for while it serves"
        machine = self.own.orders.machine
        number = machine.queue_id(name)
        side = machine.queue(number) if number is not None else None
        return side if side is not None and side.side == of else None

    def _queue_of(self, of: SideOf) -> QueueState | None:
        """The pair's queue in this member's copy; None: it is not there, or of another history."""
        domain = self._node.domains.get(of.domain)
        machine = domain.shared.machine if domain is not None else None
        if machine is None or machine.history_id != of.history_id:
            return None
        return machine.state.sided.get(of.queue_id)

    def _order(self, domain: Domain, header: RecordHeader) -> None:
        domain.orders.order(header)
        self._node.dispatch(domain)


def _runs_of(queue: QueueState, first: int, count: int) -> Iterable[SelectedRun]:
    """Which messages of the pair's queue those of a side are, by rising index of the side."""
    if queue.selection is not None:
        return queue.selection.runs(first, first + count)
    return (SelectedRun(first, first, first + count),)


def _is_side(queue: QueueState, member: str, of: SideOf) -> bool:
    """Whether the queue has that side of the member, in the place that it has now."""
    return member in (queue.passed or {}) and queue.restarted_ms.get(member, 0) == of.restarted_ms


def _why_over(queue: QueueState, member: str, of: SideOf) -> Refused | None:
    """What its process hears of a side that has lost its place; None: it has not."""
    if member in queue.lost:
        return side_lost(queue, member)
    return side_over(queue, member) if queue.restarted_ms.get(member, 0) != of.restarted_ms else None
