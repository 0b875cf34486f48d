"""Decides what consumers' settlements do, message by message; changes nothing.

(lease, index) is the identity of a settlement. A message settles under the lease that holds it, or, when nobody holds
it, under any lease: its record may have been lost with an old master. What is gone stays settled as it was.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from replica.machine.plan.dead_letters import REASON_BYTES_MAX, dead_letter_name
from replica.machine.plan.delays import DELAY_MS_MAX
from replica.machine.plan.sides import refuse_where_sides
from replica.machine.sets.ranges import RangeSet, Run
from replica.machine.state.config import milliseconds
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from replica.machine.state.system_names import shown
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_service_pb2 as service_pb2
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY

ACK, RELEASE = service_pb2.OUTCOME_ACK, service_pb2.OUTCOME_RELEASE
REJECT, EXTEND = service_pb2.OUTCOME_REJECT, service_pb2.OUTCOME_EXTEND
_INDEX_END_MAX = 1 << 63
_LEASE_END = 1 << 63  # what `settled_key` makes of it must fit a snapshot


@dataclass(frozen=True, slots=True)
class SettleCall:
    queue: str
    settlements: Sequence[service_pb2.Settlement]
    request_id: bytes = b""
    request_hash: int = 0
    unit: bytes = b""  # the open unit of work that settles


@dataclass(frozen=True, slots=True)
class SettlePlan:
    header: record_pb2.RecordHeader | None  # None: nothing changes, everything was a repetition or is refused
    results: list[service_pb2.SettleResult]  # one a settlement, in order


def settled_key(lease_id: int, outcome: service_pb2.Outcome) -> int:
    """Acks and rejects of a lease are remembered apart, so that an ack does not pass for a reject."""
    return lease_id * 2 + (outcome == REJECT)


def plan_settle(state: State, now_ms: int, call: SettleCall) -> SettlePlan:
    queue = state.named(call.queue)
    if queue.passed is not None:
        refuse_where_sides(queue, "what a side was given is settled on its own stream, at its member")
    assert call.request_id not in state.requests, "find_request comes first"
    time_ms = state.at(now_ms)
    desk = _Desk(state, queue, time_ms, call.unit, alone=len(call.settlements) == 1)
    results = [desk.settle(settlement) for settlement in call.settlements]
    if not desk.effects:
        return SettlePlan(None, results)
    op = record_pb2.SettleOp(queue_id=queue.queue_id, effects=desk.effects)
    if call.request_id:
        op.results.extend(results)
    header = record_pb2.RecordHeader(
        time_ms=time_ms, request_id=call.request_id, request_hash=call.request_hash, settle=op
    )
    return SettlePlan(header, results)


class _Desk:
    """One call. Later settlements of it see what earlier ones will have done."""

    def __init__(self, state: State, queue: QueueState, time_ms: int, unit: bytes, *, alone: bool) -> None:
        self._limits = state.limits
        self._queue = queue
        self._time_ms = time_ms
        self._unit = unit
        self._alone = alone  # nobody comes after it in this call
        self.effects: list[record_pb2.SettleEffect] = []
        self._gone = RangeSet()  # by this call
        self._returned = RangeSet()
        self._done: dict[tuple[int, service_pb2.Outcome], RangeSet] = {}

    def settle(self, settlement: service_pb2.Settlement) -> service_pb2.SettleResult:
        runs = [(part.first, part.first + part.count) for part in settlement.ranges]
        problem, reason = self._problem(settlement, runs), common_pb2.REASON_BAD_REQUEST
        if not problem and settlement.outcome == ACK and self._queue.config.queue_type == QUEUE_TYPE_TWO_WAY:
            reason = common_pb2.REASON_REPLY_REQUIRED
            problem = f"queue {self._queue.name} is TWO_WAY: a request is answered by a reply, or rejected"
        if problem:
            error = common_pb2.Error(reason=reason, message=problem)
            return service_pb2.SettleResult(error=error, refused=settlement.ranges)
        accepted, effect = self._sort(settlement.lease_id, settlement.outcome, runs)
        if effect:
            self.effects.append(self._effect(settlement, effect))
        result = service_pb2.SettleResult(settled=sum(end - start for start, end in accepted))
        if result.settled < sum(end - start for start, end in runs):
            merged = accepted if isinstance(accepted, RangeSet) else _union(accepted)
            refused = [gap for start, end in runs for gap in merged.gaps(start, end)]
            result.refused.extend(_ranges(refused))
            if refused:
                result.error.reason = common_pb2.REASON_LEASE_LOST
                where = f"message {refused[0][0]} of queue {shown(self._queue.name)}"
                result.error.message = f"the lease does not hold {where} any more: it ended, or was settled"
        return result

    def _problem(self, settlement: service_pb2.Settlement, runs: list[Run]) -> str:
        if settlement.outcome not in (ACK, RELEASE, REJECT, EXTEND):
            return "outcome must be ACK, RELEASE, REJECT or EXTEND"
        if settlement.queue and not self._is_named(settlement.queue):
            named, name = settlement.queue, shown(self._queue.name)
            return f"it names queue {named}, and the call is about queue {name}: settle it by its own name"
        if not 0 < settlement.lease_id < _LEASE_END:
            return "lease_id must be the one that the messages were delivered under"
        if not runs or len(runs) > self._limits.settlement_ranges_max:
            return f"a settlement names 1 to {self._limits.settlement_ranges_max} ranges"
        if any(start < 1 or end <= start or end > _INDEX_END_MAX for start, end in runs):
            return "a range begins at 1 or more and counts at least 1"
        if not 0 <= milliseconds(settlement.extension) <= self._limits.lease_ms_max:
            return f"extension must be from 0 to {self._limits.lease_ms_max // 1000} s"
        if settlement.HasField("delay") and not 0 <= milliseconds(settlement.delay) <= DELAY_MS_MAX:
            return f"delay must be from 0 to {DELAY_MS_MAX // 1000} s"
        if self._queue.side is not None and milliseconds(settlement.delay):
            return "a side of a queue with PRODUCER replication gives what is released at once, and nothing before it"
        if len(settlement.reason.encode()) > REASON_BYTES_MAX:
            return f"reason may have {REASON_BYTES_MAX} bytes"
        lease = self._queue.leases.get(settlement.lease_id)
        if lease is not None and lease.unit and lease.unit != self._unit:
            return "the lease is that of an open unit of work: settle it as a part of that, by its unit_id"
        if lease is not None and lease.locked is not None:
            return "the lease is a reaction's in the unit of work: its messages were delivered to nobody"
        return ""

    def _is_named(self, name: str) -> bool:
        return name == shown(self._queue.name) or name in self._queue.aliases

    def _sort(
        self, lease_id: int, outcome: service_pb2.Outcome, runs: list[Run]
    ) -> tuple[Iterable[Run], Iterable[Run]]:
        """What is answered OK, and what of it has an effect."""
        queue = self._queue
        lease = queue.leases.get(lease_id)
        first_of_call = not self._gone.size and not self._returned.size
        if first_of_call and lease and len(runs) == 1 and lease.ranges.covers(*runs[0]):
            self._note(lease_id, outcome, runs)  # the usual case: a consumer settles what it was given
            return runs, runs
        accepted, effect = RangeSet(), RangeSet()
        below = queue.visible_index + 1
        for start, end in runs:
            for held in lease.ranges.runs(start, end) if lease else ():
                _merge(effect, held, self._gone, self._returned)
            if outcome == EXTEND:
                continue
            for free in (*queue.waiting_in(start, min(end, below)), *self._returned.runs(start, end)):
                _merge(accepted if outcome == RELEASE else effect, free, self._gone)
            done = self._done.get((lease_id, outcome)), queue.was_settled(settled_key(lease_id, outcome))
            for repeated in done:
                for run in repeated.runs(start, end) if repeated and outcome != RELEASE else ():
                    _merge(accepted, run)
        self._note(lease_id, outcome, effect)
        for run in effect:
            _merge(accepted, run)
        return accepted, effect

    def _note(self, lease_id: int, outcome: service_pb2.Outcome, runs: Iterable[Run]) -> None:
        if self._alone or outcome == EXTEND:
            return
        done = self._done.setdefault((lease_id, outcome), RangeSet())
        for run in runs:
            if outcome == RELEASE:
                _merge(self._returned, run)
            else:
                _merge(self._gone, run)
                _merge(done, run)

    def _effect(self, settlement: service_pb2.Settlement, runs: Iterable[Run]) -> record_pb2.SettleEffect:
        effect = record_pb2.SettleEffect(lease_id=settlement.lease_id, ranges=_ranges(runs), outcome=settlement.outcome)
        if settlement.outcome == EXTEND:
            extension_ms = milliseconds(settlement.extension) or milliseconds(self._queue.config.lease_duration)
            effect.expires_at_ms = self._time_ms + extension_ms
            effect.duration_ms = extension_ms
        elif settlement.outcome == RELEASE and milliseconds(settlement.delay):
            effect.deliver_at_ms = self._time_ms + milliseconds(settlement.delay)
        elif settlement.outcome == REJECT and dead_letter_name(self._queue):
            effect.dead_letter, effect.reason = True, settlement.reason.lstrip("\0")  # the manager's own begin so
        return effect


def _merge(into: RangeSet, run: Run, *without: RangeSet) -> None:
    """Adds what is neither in it yet nor in the others."""
    runs = [run]
    for other in (*without, into):
        runs = [gap for start, end in runs for gap in other.gaps(start, end)]
    for start, end in runs:
        into.add(start, end)


def _union(runs: Iterable[Run]) -> RangeSet:
    union = RangeSet()
    for run in runs:
        _merge(union, run)
    return union


def _ranges(runs: Iterable[Run]) -> list[common_pb2.IndexRange]:
    return [common_pb2.IndexRange(first=start, count=end - start) for start, end in runs]
