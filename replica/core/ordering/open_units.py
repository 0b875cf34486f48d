"""The units of work that are open at the serving master: what they got, and what they are to settle, answer and put.
Server state, never replicated; the machine decides what a unit may do.

What a unit got is under leases that are records. Its puts, answers and settlements are here alone: nobody sees them,
and they are gone with the mastership, as every ROLE record ends those leases (U10). So whoever does not know a unit,
and has no record of its commit, says that nothing of it happened, and it never will: its id is given once (U11).
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from enum import Enum
from itertools import islice
from typing import TYPE_CHECKING

from replica.core.ordering.open_unit import Got, OpenUnit, Put
from replica.core.ordering.unit_reactions import check_enters, with_reactions
from replica.core.ordering.units import order_unit
from replica.core.state.calls import (
    BeginUnit,
    CommitUnit,
    PendingCall,
    PutInUnit,
    ReplyInUnit,
    RollbackUnit,
    SettleInUnit,
    Transact,
)
from replica.core.state.outcomes import Moved, UnitBegun, UnitEnded, UnitKept
from replica.machine import QueuePut, QueueSettling, Refused, UnitCall, lease_id_of, ranges_of
from replica.machine.plan.lock import LockCall, plan_lock
from replica.machine.plan.open_unit import check_put, check_reply, check_settles, plan_end
from replica.machine.plan.time import GRACE_MS
from replica.machine.plan.unit import QUEUES_MAX
from replica.machine.sets.ranges import RangeSet
from replica.machine.sets.schedule import Due, Schedule
from tandemq.v1.common_pb2 import IndexRange, Reason
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK, EnqueueRequest, Settlement

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from replica.core.ordering.desk import Desk
    from replica.core.ordering.held_reaction import HeldReaction
    from replica.core.ordering.reaction import Reaction
    from replica.core.state.calls import Call, OpenUnitCall, Waiter
    from replica.core.state.shared import Shared
    from tandemq.peer.v1.record_pb2 import LeaseOp

UNITS_MAX = 10_000
"""Open in one domain (U3); the next one is refused QUOTA_EXCEEDED."""
BYTES_MAX = 256 << 20
"""Of the puts of all open units of one domain; beyond it as above."""
TIMEOUT_MS, TIMEOUT_MS_MAX = 30_000, 3_600_000
"""How long a unit is open, where its client does not say, and at most (U5)."""
GETS_MAX = 100_000
"""Of all open units of one domain: the next ROLE record names each. Beyond it as above."""
CALL_BYTES = 512
"""What a kept call takes beside its bytes."""
MESSAGE_BYTES = 32
"""What a message may need more in the body of the record than in its request."""
ID_BYTES = 16
_EPOCHS = 0xFFFFFFFF


class UnitEnding(Enum):
    """How a unit has ended, for whoever counts them."""

    COMMITTED = "committed"
    ROLLED_BACK = "rolled_back"
    """By its client, by the end of its stream, or because a lease of it was lost."""
    EXPIRED = "expired"
    ABORTED = "aborted"
    """With the mastership."""


class OpenUnits:
    """Those of one domain."""

    def __init__(self, shared: Shared, orders: Desk) -> None:
        self.shared = shared
        self.orders = orders
        self._units: dict[bytes, OpenUnit] = {}
        self._by_number: dict[int, OpenUnit] = {}
        self._ends = Schedule(self._is_live)
        self._begun = 0
        """Ever, by this process: with the epoch it makes an id that no other unit has."""
        self.bytes = 0
        self.gets = 0
        self.ended: dict[UnitEnding, int] = dict.fromkeys(UnitEnding, 0)
        """Since this process began, of those that had something in them."""

    def __len__(self) -> int:
        return len(self._units)

    def oldest(self, most: int) -> list[OpenUnit]:
        """In the order in which they were begun."""
        return list(islice(self._units.values(), most))

    def _is_live(self, due: Due) -> bool:
        return due.ident in self._by_number

    # -- calls -----------------------------------------------------------------------------------------------------

    def execute(self, waiter: Waiter, call: OpenUnitCall, lines: Collection[int]) -> None:
        """Raises Refused with nothing done, but for a commit whose leases are lost: its unit is rolled back."""
        match call:
            case BeginUnit():
                self.orders.reply(waiter, self._begin(call))
            case PutInUnit():
                self.orders.reply(waiter, UnitKept(duplicate=not self._put(call)))
            case SettleInUnit():
                self.orders.reply(waiter, UnitKept(duplicate=not self._settle(call)))
            case ReplyInUnit():
                self.orders.reply(waiter, UnitKept(duplicate=not self._reply(call)))
            case CommitUnit():
                self._commit(waiter, call, lines)
            case RollbackUnit():
                self._roll_back(waiter, call.unit_id)

    def _begin(self, call: BeginUnit) -> UnitBegun:
        if len(self._units) >= UNITS_MAX:
            text = f"{UNITS_MAX} units of work are open already; repeat it later"
            raise Refused(Reason.REASON_QUOTA_EXCEEDED, text, {"limit": str(UNITS_MAX)}, 1000)
        timeout_ms = call.timeout_ms or TIMEOUT_MS
        if timeout_ms > TIMEOUT_MS_MAX:
            text = f"a unit of work may be open for {TIMEOUT_MS_MAX // 1000} s at most"
            raise Refused(Reason.REASON_BAD_REQUEST, text)
        self._begun += 1
        name = (self.shared.state.epoch & _EPOCHS).to_bytes(4, "big") + (self._begun & _EPOCHS).to_bytes(4, "big")
        begun_ms = self.orders.time_ms
        unit_id = prefix_of(self.shared) + name
        unit = OpenUnit(unit_id, self._begun, call.client_id, begun_ms, begun_ms + timeout_ms, call.who)
        self._units[unit.unit_id] = self._by_number[unit.number] = unit
        self._ends.push(unit.ends_ms, 0, unit.number)
        return UnitBegun(unit.unit_id, timeout_ms)

    def _put(self, call: PutInUnit) -> bool:
        """False: it is there already."""
        unit = self._open(call.unit_id)
        if _is_repeated(unit, call.request_id, call.request_hash):
            return False
        queue = self.orders.machine.state.named(call.queue)
        check_put(queue, call.columns, call.member)
        check_enters(self.orders.machine, unit, (queue.queue_id,), puts=True)
        count, size = call.columns.count, len(call.request)
        self._check_room(unit, queue.queue_id, messages=count, size=size + count * MESSAGE_BYTES)
        self._check_bytes(size)
        unit.puts.setdefault(queue.queue_id, []).append(Put(count, call.request))
        unit.messages += count
        unit.bytes += size + count * MESSAGE_BYTES
        self._keep(unit, call.request_id, call.request_hash, size)
        return True

    def _settle(self, call: SettleInUnit) -> bool:
        """False: it is there already."""
        unit = self._open(call.unit_id)
        if _is_repeated(unit, call.request_id, call.request_hash):
            return False
        machine = self.orders.machine
        queue = machine.state.named(call.queue)
        ranges = sum(len(each.ranges) for each in call.settlements)
        self._check_room(unit, queue.queue_id, ranges=ranges)
        size = sum(each.ByteSize() for each in call.settlements)
        self._check_bytes(size)
        settlements = [*unit.settles.get(queue.queue_id, ()), *call.settlements]
        replies = [each.call for each in unit.replies.get(queue.queue_id, ())]
        check_settles(machine.state, self.orders.time_ms, queue, settlements, replies, unit.unit_id)
        unit.settles[queue.queue_id] = settlements
        unit.ranges += ranges
        self._keep(unit, call.request_id, call.request_hash, size)
        return True

    def _reply(self, asked: ReplyInUnit) -> bool:
        """False: it is there already."""
        call = asked.call
        unit = self._open(call.unit)
        if _is_repeated(unit, call.request_id, call.request_hash):
            return False
        queue = self.orders.machine.state.named(call.queue)
        before = unit.replies.get(queue.queue_id, [])
        check_reply(queue, unit.settles.get(queue.queue_id, ()), [each.call for each in before], call)
        size = len(asked.answer)
        self._check_room(unit, queue.queue_id, messages=1, size=size + MESSAGE_BYTES)
        self._check_bytes(size)
        unit.replies.setdefault(queue.queue_id, []).append(asked)
        unit.messages += 1
        unit.bytes += size + MESSAGE_BYTES
        self._keep(unit, call.request_id, call.request_hash, size)
        return True

    def _keep(self, unit: OpenUnit, request_id: bytes, request_hash: int, size: int) -> None:
        unit.asked[request_id] = request_hash
        unit.changes += 1
        self.bytes += size + CALL_BYTES

    def _check_room(self, unit: OpenUnit, queue_id: int, *, messages: int = 0, size: int = 0, ranges: int = 0) -> None:
        """U3: before anything is kept."""
        limits = self.shared.limits
        for what, count, most in (
            ("messages", unit.messages + messages, limits.batch_messages_max),
            ("bytes", unit.bytes + size, limits.batch_bytes_max),
            ("ranges", unit.ranges + ranges, limits.settlement_ranges_max),
            ("calls", len(unit.asked) + 1, limits.batch_messages_max),
            ("queues", len(unit.queue_ids | {queue_id}), QUEUES_MAX),
        ):
            if count > most:
                text = f"a unit of work of {count} {what}; it may have {most}: make it smaller, or stage its messages"
                raise Refused(Reason.REASON_TXN_TOO_LARGE, text, {"limit": str(most)})

    def _check_bytes(self, size: int) -> None:
        if self.bytes + size > BYTES_MAX:
            text = f"open units of work hold {self.bytes} bytes; the limit is {BYTES_MAX}, repeat it later"
            raise Refused(Reason.REASON_QUOTA_EXCEEDED, text, {"limit": str(BYTES_MAX)}, 1000)

    def reaction(self, asked: Reaction) -> HeldReaction | None:
        """The first answer to one that is repeated. Refused where its unit is not open."""
        unit = self._open(asked.unit)
        _is_repeated(unit, asked.request_id, asked.request_hash)
        return unit.reactions.get(asked.request_id)

    def hold(self, held: HeldReaction) -> None:
        """It belongs to its unit from now on, and what it acts on is locked. Raises Refused with nothing done."""
        reaction, orders = held.reaction, self.orders
        unit, machine, targets = self._open(reaction.unit), self.orders.machine, held.making.targets
        check_enters(machine, unit, held.enters)
        size = held.size + held.entries * MESSAGE_BYTES
        self._check_room(unit, reaction.queue_id, messages=held.entries, size=size, ranges=len(targets))
        self._check_bytes(size)
        if targets:
            self._check_gets()
            call = LockCall(targets, unit.unit_id, unit.client_id, unit.ends_ms)
            header = plan_lock(machine.state, orders.time_ms, machine.queue(reaction.queue_id), call)
            held.lease_id = lease_id_of(self.shared.state.epoch, orders.order(header))
            self.gets += 1
        unit.reactions[reaction.request_id] = held
        unit.messages += held.entries
        unit.bytes += size
        unit.ranges += len(targets)
        held.kept_bytes = held.size
        self._keep(unit, reaction.request_id, reaction.request_hash, held.kept_bytes)

    # -- gets ------------------------------------------------------------------------------------------------------

    def aborted(self, unit_id: bytes) -> Refused:
        """Why nothing may be asked of a unit that is not open. Whoever is of an earlier epoch than the unit cannot know
        what became of it.
        """
        if int.from_bytes(unit_id[8:12], "big") > self.shared.state.epoch & _EPOCHS:
            text = "the unit of work was begun in an epoch that this member does not know; repeat the call"
            return Refused(Reason.REASON_STALE_EPOCH, text, {"epoch": str(self.shared.state.epoch)}, 100)
        if self.orders.machine.request_hash(unit_id) is not None:
            return self._committed(unit_id)
        text = (
            f"unit of work {unit_id.hex()} is not open: it has ended, or its master has; nothing of it happened, "
            "and never will: begin another one"
        )
        return Refused(Reason.REASON_TXN_ABORTED, text)

    def _committed(self, unit_id: bytes) -> Refused:
        """Said before that is on every copy, too."""
        text = f"unit of work {unit_id.hex()} is committed, or is being committed: repeat Commit to hear which"
        return Refused(Reason.REASON_INVALID_STATE, text)

    def room_for_gets(self, unit_id: bytes, queue_id: int) -> int:
        """Messages that the unit may still get of that queue; Refused when it is not open, or there are none."""
        unit = self.find(unit_id)
        if unit is None:
            raise self.aborted(unit_id)
        self._check_room(unit, queue_id, ranges=1)
        self._check_gets()
        return self.shared.limits.settlement_ranges_max - unit.ranges

    def _check_gets(self) -> None:
        if self.gets >= GETS_MAX:
            text = f"open units of work have {self.gets} gets; the limit is {GETS_MAX}, repeat it later"
            raise Refused(Reason.REASON_QUOTA_EXCEEDED, text, {"limit": str(GETS_MAX)}, 1000)

    def problem_of(self, unit_id: bytes) -> Refused | None:
        """Why nothing may be asked of the unit any more."""
        return None if self.find(unit_id) is not None else self.aborted(unit_id)

    def ends_ms(self, unit_id: bytes) -> int:
        """Deadline of one that is open, in domain time."""
        return self._units[unit_id].ends_ms

    def on_got(self, lease_id: int, op: LeaseOp) -> None:
        """A record has locked messages for a unit."""
        unit = self._units[op.unit]
        ranges = RangeSet((part.first, part.first + part.count) for part in op.ranges)
        unit.got[lease_id] = Got(op.queue_id, ranges)
        unit.ranges += ranges.size
        unit.changes += 1
        self.gets += 1

    # -- drains ----------------------------------------------------------------------------------------------------

    def ends_one(self, call: Call) -> bool:
        """It is a part of a unit that is open: served while a handoff drains, whose end is the unit's end (U10). No
        drain is held up for long: none begins then, and each is committed once.
        """
        match call:
            case PendingCall(
                call=PutInUnit() | SettleInUnit() | ReplyInUnit() | CommitUnit() | RollbackUnit() as asked
            ):
                return self.find(asked.unit_id) is not None
            case _:
                return False

    # -- ends ------------------------------------------------------------------------------------------------------

    def find(self, unit_id: bytes) -> OpenUnit | None:
        """None: it is not open, or its deadline has passed. It changes nothing."""
        unit = self._units.get(unit_id)
        return unit if unit is not None and self.orders.time_ms < unit.ends_ms + GRACE_MS else None

    def _open(self, unit_id: bytes) -> OpenUnit:
        """Refused (TXN_ABORTED) when it is not. One whose deadline has passed is ended, whatever the clock says next:
        what is refused so is never done.
        """
        unit = self.find(unit_id)
        if unit is not None:
            return unit
        if unit_id in self._units:
            self._end(self._units[unit_id], UnitEnding.EXPIRED)
        raise self.aborted(unit_id)

    def _commit(self, waiter: Waiter, call: CommitUnit, lines: Collection[int]) -> None:
        first = self.orders.machine.request_hash(call.unit_id)
        if first is not None:
            if call.digest and hash_of(call.unit_id, call.digest) != first:
                raise _other_puts(call.unit_id)
            asked = UnitCall((), (), call.member, call.unit_id, first, unit_id=call.unit_id)
            order_unit(self.orders, waiter, Transact(asked, b"", call.min_copies), lines)
            return
        unit = self._open(call.unit_id)
        if unit.changes != call.changes:
            self.orders.reply(waiter, Moved("the unit was changed while its commit was under way; repeat it"))
            return
        unit.digest = call.digest or unit.digest
        try:
            asked, body = self._call_of(unit, call), call.body
            if unit.reactions:
                self._check_locked(unit)
                asked, body = with_reactions(self.orders.machine, self.orders.time_ms, unit, asked, call.rows, lines)
            # Ended before anything is handed out for it: a get of its own that waits would be given a message that
            # nothing of the unit ends any more.
            transact = Transact(asked, body, call.min_copies)
            order_unit(self.orders, waiter, transact, lines, lambda: self._on_committed(unit))
        except Refused as refused:
            if refused.reason == Reason.REASON_LEASE_LOST:
                self._end(unit, UnitEnding.ROLLED_BACK)
            raise

    def _on_committed(self, unit: OpenUnit) -> None:
        self._forget(unit, UnitEnding.COMMITTED)
        for held in unit.reactions.values():
            if held.counts.kept:  # it has looked at what was there when it was asked for, and not at what came since
                self.orders.parts.kept.on_kept(held.reaction.queue_id, 0)

    def _check_locked(self, unit: OpenUnit) -> None:
        for held in unit.reactions.values():
            if held.lease_id:
                self._check_held(held.reaction.queue_id, held.lease_id, RangeSet(ranges_of(held.making.targets)))

    def _call_of(self, unit: OpenUnit, call: CommitUnit) -> UnitCall:
        settles = {queue_id: list(settlements) for queue_id, settlements in unit.settles.items()}
        for lease_id, got in unit.got.items():
            self._check_held(got.queue_id, lease_id, got.ranges)
            left = RangeSet(got.ranges)
            for settlement in unit.settles.get(got.queue_id, ()):
                for part in settlement.ranges if settlement.lease_id == lease_id else ():
                    left.discard(part.first, part.first + part.count)
            for reply in unit.replies.get(got.queue_id, ()):
                if reply.call.lease_id == lease_id:
                    left.discard(reply.call.index, reply.call.index + 1)
            if left:
                self._check_answered(got.queue_id, left)
                ranges = [IndexRange(first=start, count=end - start) for start, end in left]
                ack = Settlement(lease_id=lease_id, ranges=ranges, outcome=OUTCOME_ACK)
                settles.setdefault(got.queue_id, []).append(ack)
        puts, start = [], 0
        for queue_id, each in unit.puts.items():
            assert call.columns is not None, "they were made of these puts"
            count = sum(put.count for put in each)
            puts.append(QueuePut(self._name(queue_id, each), call.columns.part(start, count)))
            start += count
        settling = [QueueSettling(self._name(queue_id), each) for queue_id, each in settles.items()]
        replies = [
            replace(each.call, queue=self._name(queue_id))
            for queue_id, answers in unit.replies.items()
            for each in answers
        ]
        mark = hash_of(unit.unit_id, unit.digest)
        return UnitCall(settling, puts, call.member, unit.unit_id, mark, unit_id=unit.unit_id, replies=replies)

    def _check_answered(self, queue_id: int, left: RangeSet) -> None:
        """A request that the unit got is not acknowledged by its commit."""
        machine = self.orders.machine
        if machine.has_queue(queue_id) and machine.queue(queue_id).config.queue_type == QUEUE_TYPE_TWO_WAY:
            name, index = machine.queue(queue_id).name, next(iter(left))[0]
            text = f"request {index} of queue {name} has no answer in the unit of work: answer, release or reject it"
            raise Refused(Reason.REASON_REPLY_REQUIRED, text, {"queue": name, "index": str(index)})

    def _check_held(self, queue_id: int, lease_id: int, ranges: RangeSet) -> None:
        """Time, an administrator, or the deletion of the queue may have taken some."""
        machine = self.orders.machine
        lease = machine.state.leases.get(lease_id)
        for start, end in ranges:
            for low, _ in lease.ranges.gaps(start, end) if lease is not None else ((start, end),):
                name = machine.queue(queue_id).name if machine.has_queue(queue_id) else ""
                of = f"queue {name}" if name else "a queue that was deleted"
                text = f"message {low} of {of}, which the unit holds, is not there any more; the unit is rolled back"
                raise Refused(Reason.REASON_LEASE_LOST, text, {"queue": name, "index": str(low)})

    def _name(self, queue_id: int, puts: Sequence[Put] = ()) -> str:
        """`puts`: into that queue; without any the unit holds something of it."""
        machine = self.orders.machine
        if machine.has_queue(queue_id):
            return machine.queue(queue_id).name
        if not puts:
            raise Refused(Reason.REASON_LEASE_LOST, "a queue of the unit was deleted; nothing of the unit was done")
        name = EnqueueRequest.FromString(puts[0].request).queue
        text = f"queue {name} was deleted, and the unit puts something into it; nothing was done: roll it back"
        raise Refused(Reason.REASON_QUEUE_NOT_FOUND, text, {"queue": name})

    def _roll_back(self, waiter: Waiter, unit_id: bytes) -> None:
        orders, unit = self.orders, self._units.get(unit_id)
        if unit is None and (why := self.aborted(unit_id)).reason != Reason.REASON_TXN_ABORTED:
            raise why
        returned = self._end(unit, UnitEnding.ROLLED_BACK) if unit is not None else 0
        last = self.shared.log.last_index
        orders.when_committed(last, lambda: orders.reply(waiter, UnitEnded(returned)), orders.moved(waiter))

    def _end(self, unit: OpenUnit, how: UnitEnding) -> int:
        """Give back what it got; says how many messages that are."""
        self._forget(unit, how)
        header = plan_end(self.orders.machine.state, self.orders.time_ms, unit.unit_id, unit.lease_ids)
        if header is None:
            return 0
        self.orders.order(header)
        self.orders.parts.consumers.pump(settle.queue_id for settle in header.txn.settles)
        effects = [effect for settle in header.txn.settles for effect in settle.effects]
        return sum(part.count for effect in effects for part in effect.ranges)

    def _forget(self, unit: OpenUnit, how: UnitEnding) -> None:
        self.ended[how] += unit.changes > 0
        del self._units[unit.unit_id], self._by_number[unit.number]
        kept = sum(len(put.request) for each in unit.puts.values() for put in each)
        kept += sum(each.ByteSize() for settlements in unit.settles.values() for each in settlements)
        kept += sum(len(each.answer) for answers in unit.replies.values() for each in answers)
        kept += sum(each.kept_bytes for each in unit.reactions.values())
        self.bytes -= kept + CALL_BYTES * len(unit.asked)
        self.gets -= len(unit.lease_ids)

    def look(self) -> None:
        """Time passes, at the serving master: end the units whose deadline has passed."""
        due_ms = self.orders.time_ms - GRACE_MS
        if self._ends.may_be_due(due_ms) and self._ends.next_ms() is not None:
            for due in list(self._ends.due(due_ms)):
                self._end(self._by_number[due.ident], UnitEnding.EXPIRED)

    def forget_all(self) -> None:
        """The mastership ends, or its next epoch begins: the ROLE record gives back what they got."""
        self.ended[UnitEnding.ABORTED] += sum(unit.changes > 0 for unit in self._units.values())
        self._units.clear()
        self._by_number.clear()
        self.bytes = self.gets = 0


def prefix_of(shared: Shared) -> bytes:
    """What the ids of a domain's units begin with: whose they are. Each member has a domain `local` of its own."""
    owner = hashlib.blake2b(shared.member.encode(), digest_size=4).digest() if not shared.peer else bytes(4)
    return shared.domain.to_bytes(4, "big") + owner


def hash_of(unit_id: bytes, digest: int) -> int:
    """Of the request that its commit is remembered as. `digest`: of the puts that came with it."""
    return int.from_bytes(unit_id[-8:], "big") ^ digest


def _other_puts(unit_id: bytes) -> Refused:
    text = (
        f"unit of work {unit_id.hex()} was committed with other puts than these, which are nowhere: repeat Commit as "
        "it was, or without puts, to hear what came of it"
    )
    return Refused(Reason.REASON_REQUEST_MISMATCH, text)


def _is_repeated(unit: OpenUnit, request_id: bytes, request_hash: int) -> bool:
    known = unit.asked.get(request_id)
    if known is not None and known != request_hash:
        text = f"request id {request_id.hex()} was used for a different request; choose a new id for each request"
        raise Refused(Reason.REASON_REQUEST_MISMATCH, text)
    return known is not None
