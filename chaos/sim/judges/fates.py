"""Follows every message of a log through all queues, by what the records say alone: where it is, and how it left.

A second opinion: it shares no code with the queue machine, has a row for each message, and looks into the bodies. What
a record does that the rules of its queue forbid is a problem. Only persistent messages can be followed.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, TypeVar

from chaos.sim.judges import gathering, locks, logs
from chaos.sim.judges.invariants import Name
from chaos.sim.judges.kept import KeptOnes, changed_by
from chaos.sim.judges.shelves import PRIORITY, Copy, Reacted, Shelf, name_of
from tandemq.peer.v1 import record_pb2 as pb
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as service
from tandemq.v1.common_pb2 import REASON_QUEUE_FULL
from tandemq.v1.message_pb2 import Message, Properties

if TYPE_CHECKING:
    from collections.abc import Sequence

    from google.protobuf.duration_pb2 import Duration

    from chaos.sim.kernel.disk import Disk
    from tandemq.v1.common_pb2 import IndexRange
    from tandemq.v1.message_pb2 import MessageBatch

Value = TypeVar("Value")

PLACE = "a message is in one queue"
WAITS = "a delayed message waits for its time"
DIES = "a dead letter has died"
ANSWER = "a request is answered once"
DROPS = "the oldest of the least are dropped"
FULL = "a queue holds what it may"
DEDUP = "a dedup id is stored once"
ENDS = "what ends by time had its time"
LINES = "nothing overtakes in its group"


def _turn(copy: Copy) -> tuple[int, int, int]:
    return (copy.not_before_ms, 0, copy.index) if copy.waits else (0, -copy.priority, copy.index)


class Fates:
    """All of one domain. `add` its records in their order."""

    def __init__(self) -> None:
        self.shelves: dict[int, Shelf] = {}
        self.problems: list[tuple[str, str]] = []
        """Rule, and what broke it."""
        self.counts: Counter[str] = Counter()
        self.moved: Counter[bytes] = Counter()
        """By the request id of a record: messages that an administrator moved by it."""
        self.epochs: dict[bytes, int] = {}
        """In which each of these records was made."""
        self.reactions: dict[tuple[bytes, str], Reacted] = {}
        """By the request id of its record, and the queue where it acted."""
        self.kept = KeptOnes()
        self.payloads: dict[bytes, Copy] = {}
        """Where each is, or was last."""
        self._leases: dict[int, list[Copy]] = {}
        self._name = Name(0, 0)
        self._time_ms = 0

    def add(self, name: Name, header: pb.RecordHeader, body: bytes) -> None:
        """The next record."""
        self._name, self._time_ms = name, header.time_ms
        match header.WhichOneof("op"):
            case "enqueue":
                self._enqueue(header, header.enqueue, service.EnqueueBatch.FromString(body).messages)
            case "txn":
                self._unit(header, service.EnqueueBatch.FromString(body).messages)
            case "lease":
                self._lease(header.lease)
            case "settle":
                for effect in header.settle.effects:
                    self._settle(header.settle.queue_id, effect)
            case "expire" | "role":
                self._end_units(header.role)
                self._expire(header.expire)
            case "reply":
                self._reply(header.reply, Message.FromString(body).payload)
            case "queue":
                self._queue(header.queue)
            case "remove":
                self._remove(header.remove)

    def _unit(self, header: pb.RecordHeader, batch: MessageBatch) -> None:
        """What leaves, then what enters."""
        for settle in header.txn.settles:
            for effect in settle.effects:
                self._settle(settle.queue_id, effect)
        for reply in header.txn.replies:
            self._reply(reply, batch.payloads[reply.ordinal])
        self._note_reaction(header)
        if header.txn.unit_id:
            self.problems += locks.on_end(self._name, header)
        for remove in header.txn.removes:
            self._remove(remove)
        for op in header.txn.enqueues:
            self._enqueue(header, op, batch)

    def _note_reaction(self, header: pb.RecordHeader) -> None:
        """Before anything of it has happened."""
        for removed in (each for each in header.txn.removes if each.HasField("reaction")):
            if not header.request_id:
                self.problems += self.kept.on_record(self._name, header, removed, self.shelves)
                continue
            shelf = self.shelves[removed.queue_id]
            ranges = [*removed.ranges]
            for op in header.txn.enqueues:
                for left in (op.moved_from, *op.more_moved_from):
                    if left.queue_id == removed.queue_id:
                        ranges += left.ranges
            here = [copy for copy in shelf.here() if copy.died is None]
            self.reactions[header.request_id, shelf.name] = Reacted(
                self._name,
                shelf.name,
                {index for part in ranges for index in range(part.first, part.first + part.count)},
                sorted((copy for copy in here if not copy.lease_id), key=_turn),
                [copy for copy in here if copy.lease_id],
                removed.reaction,
            )
            self.counts["reactions"] += 1

    def _remove(self, op: pb.RemoveOp) -> None:
        for copy in self._found(op.queue_id, op.ranges):
            self._require(not copy.lease_id, PLACE, copy, "is removed, and somebody holds it")
            self._leave(copy, op.final_state)

    def _require(self, holds: object, rule: str, copy: Copy, text: str) -> None:
        if not holds:
            self.problems.append((rule, f"{self._name}: {name_of(copy)} {text}"))

    def _found(self, queue_id: int, ranges: Iterable[IndexRange]) -> Iterator[Copy]:
        shelf = self.shelves[queue_id]
        for part in ranges:
            for index in range(part.first, part.first + part.count):
                copy = shelf.copies.get(index)
                if copy is None:
                    self.problems.append((PLACE, f"{self._name}: {index} of {shelf.name} was never stored"))
                else:
                    if copy.final:
                        how = service.FinalState.Name(copy.final).removeprefix("FINAL_STATE_")
                        self._require(False, PLACE, copy, f"is touched, and left as {how} by {copy.left}")
                    yield copy

    def _leave(self, copy: Copy, final: int) -> None:
        if not copy.final:
            copy.shelf.length -= 1
        copy.final, copy.left, copy.left_ms, copy.lease_id = final, self._name, self._time_ms, 0

    # -- what enters ---------------------------------------------------------------------------------------------------

    def _enqueue(self, header: pb.RecordHeader, op: pb.EnqueueOp, batch: MessageBatch) -> None:
        shelf = self.shelves[op.queue_id]
        refused = {each.ordinal: each.reason for each in op.refusals}
        doubles = {each.ordinal: each.index for each in op.duplicates}
        accepted = [n for n in range(op.count) if n not in refused and n not in doubles]
        is_full = REASON_QUEUE_FULL in refused.values() and (accepted or not op.macro_id)
        self._check_room(shelf, op.dropped, len(accepted), bool(is_full))
        entered: list[Copy] = []
        for ordinal in range(op.count):
            place = op.ordinals[ordinal] if op.ordinals else op.first_ordinal + ordinal
            name = _at(batch.dedup_ids, place, "") if not op.internal else ""
            if ordinal in doubles:
                self._double(shelf, name, doubles[ordinal])
            elif ordinal not in refused:
                copy = self._enter(shelf, op.first_index + len(entered), batch, place)
                self.problems += gathering.on_entry(self._name, copy, op, ordinal, self._time_ms)
                entered.append(copy)
                self._note_id(shelf, name, copy)
        if op.moved_from.queue_id:
            lefts = (op.moved_from, *op.more_moved_from)
            sources = [source for left in lefts for source in self._found(left.queue_id, left.ranges)]
            for ordinal, (source, copy) in enumerate(zip(sources, entered, strict=True)):
                self._move(source, copy, op.moved_final, changed=op.updated)
                self._check_notes(source, copy, op.moved_final, _at(batch.properties, ordinal, Properties()))
            if op.moved_final == service.FINAL_STATE_PURGED:
                self.moved[header.request_id] += len(entered)
                self.epochs[header.request_id] = self._name.epoch
        if op.answers.queue_id:
            for request, copy in zip(_each(self.shelves[op.answers.queue_id], op.answers.ranges), entered, strict=True):
                self._pay(request, copy)
        if op.HasField("kept"):
            self.kept.add(entered[0], self.shelves[op.kept.queue_id])
            return
        for copy in entered:
            known = self.payloads.get(copy.payload)
            if known is not None and not op.moved_from.queue_id and not (op.ordinals and known.entered == self._name):
                self._require(False, PLACE, copy, f"is stored once more, as {name_of(known)} was")
            self.payloads[copy.payload] = copy
        if shelf.length > shelf.config.max_length:
            rule = DROPS if shelf.config.overflow == admin.OVERFLOW_DROP_HEAD else FULL
            self.problems.append((rule, f"{self._name}: {shelf.name} holds {shelf.length}, more than it may"))

    def _enter(self, shelf: Shelf, index: int, batch: MessageBatch, ordinal: int) -> Copy:
        time_ms = self._time_ms
        delay_ms, at_ms = _at(batch.delays_ms, ordinal, 0), _at(batch.deliver_at_ms, ordinal, 0)
        ttl_ms = _at(batch.ttls_ms, ordinal, 0) or _ms(shelf.config.default_ttl)
        copy = Copy(
            shelf,
            index,
            batch.payloads[ordinal],
            _at(batch.priorities, ordinal, PRIORITY),
            _at(batch.reply_tos, ordinal, ""),
            _at(batch.group_ids, ordinal, ""),
            self._name,
            time_ms,
            max(time_ms + delay_ms, at_ms) if delay_ms or at_ms else 0,
            time_ms + ttl_ms if ttl_ms else 0,
        )
        copy.inert = _at(batch.inerts, ordinal, False)
        copy.changed_by = changed_by(_at(batch.properties, ordinal, Properties()))
        copy.waits = copy.not_before_ms > time_ms
        self.counts["delayed messages"] += copy.waits
        shelf.copies[index] = copy
        shelf.length += 1
        return copy

    def _note_id(self, shelf: Shelf, name: str, copy: Copy) -> None:
        if name:
            known = self._known(shelf, name)
            self._require(not known, DEDUP, copy, f"is stored, and {known} was, with the id {name!r}")
            shelf.ids[name] = copy.index, self._time_ms

    def _double(self, shelf: Shelf, name: str, index: int) -> None:
        self.counts["doubles"] += 1
        shelf.counts["duplicates"] += 1
        if (known := self._known(shelf, name)) != index:
            text = f"the id {name!r} is said to be that of {index} of {shelf.name}, and is that of {known}"
            self.problems.append((DEDUP, f"{self._name}: {text}"))

    def _known(self, shelf: Shelf, name: str) -> int:
        """Index of what was stored with it within the window; 0: nothing."""
        index, at_ms = shelf.ids.get(name, (0, 0))
        return index if index and self._time_ms - at_ms < _ms(shelf.config.dedup_window) else 0

    def _check_room(self, shelf: Shelf, ranges: Iterable[IndexRange], count: int, is_full: bool) -> None:
        """Makes room for so many, or has none for others. Limits are exact."""
        if shelf.config.overflow == admin.OVERFLOW_DROP_HEAD:
            self._drop(shelf, ranges, count, is_full)
        elif is_full:
            self.counts["refused as full"] += 1
            left = shelf.config.max_length - shelf.length - count
            if left > 0:
                self.problems.append((FULL, f"{self._name}: {shelf.name} refuses, and has room for {left}"))

    def _drop(self, shelf: Shelf, ranges: Iterable[IndexRange], count: int, is_full: bool) -> None:
        """Makes room for so many. `is_full`: others found none."""
        ready = sorted((copy for copy in shelf.here() if copy.is_ready), key=lambda copy: (copy.priority, copy.index))
        room = shelf.config.max_length - shelf.length
        wanted = ready[: max(0, count - room)]
        dropped = list(_each(shelf, ranges))
        if sorted(copy.index for copy in wanted) != sorted(copy.index for copy in dropped):
            text = f"{shelf.name} drops {[c.index for c in dropped]} for {count}, not {[c.index for c in wanted]}"
            self.problems.append((DROPS, f"{self._name}: {text}"))
        if is_full and count < room + len(ready):
            self.problems.append((DROPS, f"{self._name}: {shelf.name} takes {count}, and could {room + len(ready)}"))
        for copy in dropped:
            self._leave(copy, service.FINAL_STATE_DROPPED)
        self.counts["dropped"] += len(dropped)

    def _move(self, source: Copy, copy: Copy, final: int, *, changed: bool) -> None:
        """From one queue into another: by the manager when it has died, else by an administrator or a reaction, which
        may put it into the same one, as something else.
        """
        self._require(changed or source.payload == copy.payload, PLACE, copy, f"is a copy of {name_of(source)}")
        self._require(not source.lease_id, PLACE, source, "is moved, and somebody holds it")
        if final == service.FINAL_STATE_DEAD_LETTERED:
            self._require(source.died is not None, DIES, source, f"goes to {copy.shelf.name}, and has not died")
            fits = copy.shelf.name == source.shelf.letters
            self._require(fits, DIES, source, f"goes to {copy.shelf.name}, not to {source.shelf.letters}")
            self.counts["dead letters"] += 1
        elif not self._is_for_letters(source.shelf):
            copy.not_before_ms, copy.waits = source.not_before_ms, source.waits
            copy.expires_ms = source.expires_ms
        else:
            self.counts["redriven"] += 1
        source.became, source.moved_to = (copy, "") if changed else (None, copy.shelf.name)
        self._leave(source, final)

    def _check_notes(self, source: Copy, copy: Copy, final: int, notes: Properties) -> None:
        """What a dead letter says of its death; what was moved back says nothing of it."""
        entries = notes.entries
        if final == service.FINAL_STATE_DEAD_LETTERED:
            said = (
                entries["tq_origin_queue"].text,
                entries["tq_dead_letter_reason"].text,
                entries["tq_deliveries"].integer,
            )
            wanted = source.shelf.name, source.reason, source.failures
            self._require(said == wanted, DIES, copy, f"says {said} of its death, which was {wanted}")
        elif self._is_for_letters(source.shelf):
            left = [name for name in entries if name.startswith("tq_")]
            self._require(not left, DIES, copy, f"is moved back, and keeps {left}")

    def _is_for_letters(self, shelf: Shelf) -> bool:
        return shelf.name in {each.letters for each in self.shelves.values()}

    def _pay(self, request: Copy, copy: Copy) -> None:
        self._require(request.owes == copy.shelf.name, ANSWER, request, f"owes no answer to {copy.shelf.name}")
        self._require(request.answer == copy.payload, ANSWER, copy, f"is no copy of the answer to {name_of(request)}")
        request.owes = ""
        self.counts["answers copied"] += 1

    # -- what happens to it --------------------------------------------------------------------------------------------

    def _lease(self, op: pb.LeaseOp) -> None:
        lease_id = self._name.epoch << 40 | self._name.log_index
        time_ms, taken = self._time_ms, list(self._found(op.queue_id, op.ranges))
        if op.reaction:
            self._leases[lease_id] = taken
            self.problems += locks.on_lock(self._name, taken, lease_id)
            return
        for copy in taken:
            self._require(not copy.lease_id, PLACE, copy, f"is leased, and held under {copy.lease_id}")
            early_ms = copy.not_before_ms - time_ms
            self._require(early_ms <= 0 and not copy.waits, WAITS, copy, f"is delivered {early_ms} ms before its time")
            self._require(copy.died is None, DIES, copy, f"is delivered, and died by {copy.died}")
            first = copy.shelf.first_of(copy)
            self._require(first is copy, LINES, copy, f"is delivered before {name_of(first)}")
            late = 0 < copy.expires_ms <= time_ms
            self._require(not late, ENDS, copy, "is delivered, and its time is over")
            self.problems += [*gathering.on_lease(self._name, copy), *self.kept.on_lease(self._name, copy, time_ms)]
            if op.immediate:
                self._leave(copy, service.FINAL_STATE_CONSUMED)
            else:
                copy.lease_id = lease_id
        self._leases[lease_id] = taken
        self.shelves[op.queue_id].counts["delivered"] += len(taken)

    def _settle(self, queue_id: int, effect: pb.SettleEffect) -> None:
        for copy in self._found(queue_id, effect.ranges):
            held = copy.lease_id
            self._require(held in (0, effect.lease_id), PLACE, copy, f"is settled, and held under {held}")
            match effect.outcome:
                case service.OUTCOME_ACK:
                    asks = copy.shelf.config.queue_type == admin.QUEUE_TYPE_TWO_WAY
                    self._require(not asks, ANSWER, copy, "is acknowledged, and nobody has answered it")
                    self._require(copy.died is None, DIES, copy, "is acknowledged, and has died")
                    self._leave(copy, service.FINAL_STATE_CONSUMED)
                case service.OUTCOME_REJECT:
                    self._reject(copy, effect)
                case service.OUTCOME_RELEASE if effect.unlock:
                    self.problems += locks.on_unlock(self._name, copy)
                case service.OUTCOME_RELEASE:
                    self._require(not copy.is_locked, locks.UNDONE, copy, "is released as if a consumer had had it")
                    copy.shelf.counts["released"] += 1
                    if effect.backout:
                        self._fail(copy)
                    else:
                        self._return(copy, effect.deliver_at_ms)

    def _reject(self, copy: Copy, effect: pb.SettleEffect) -> None:
        has_place = bool(copy.shelf.letters)
        copy.shelf.counts["rejected"] += 1
        self._require(effect.dead_letter == has_place, DIES, copy, "is rejected, and does not go where its queue says")
        if not effect.dead_letter:
            self._leave(copy, service.FINAL_STATE_REJECTED)
            return
        copy.failures += copy.lease_id == effect.lease_id
        copy.lease_id, copy.died, copy.rejected = 0, self._name, True
        copy.not_before_ms, copy.waits = 0, False  # of a late rejection; an administrator may move it as it is
        self.counts["rejected"] += 1

    def _return(self, copy: Copy, when_ms: int) -> None:
        copy.lease_id = 0
        if when_ms:
            copy.not_before_ms, copy.waits = when_ms, True

    def _end_units(self, op: pb.RoleOp) -> None:
        """Those that were open with the master before: no delivery counts."""
        for lease_id in op.unit_leases:
            for copy in self._leases.pop(lease_id, ()):
                if copy.lease_id == lease_id and not copy.final:
                    copy.is_locked = False
                    self._return(copy, 0)

    def _expire(self, op: pb.ExpireOp) -> None:
        for gone in op.messages:
            for copy in self._found(gone.queue_id, gone.ranges):
                over = 0 < copy.expires_ms <= self._time_ms and not copy.lease_id
                self._require(over, ENDS, copy, f"expires at {self._time_ms}, not at {copy.expires_ms}")
                self._leave(copy, service.FINAL_STATE_EXPIRED)
                self.counts["expired"] += 1
        for lease_id in op.lease_ids:
            for copy in self._leases.pop(lease_id, ()):
                if copy.lease_id == lease_id and not copy.final and copy.is_locked:
                    self.problems += locks.on_unlock(self._name, copy)
                elif copy.lease_id == lease_id and not copy.final:
                    copy.shelf.counts["redelivered"] += 1
                    self._fail(copy)
        for ripe in op.matured:
            for copy in self._found(ripe.queue_id, ripe.ranges):
                self._require(copy.waits, WAITS, copy, "has its time, and does not wait for it")
                self._require(not copy.is_locked, WAITS, copy, "has its time, and is locked")
                copy.waits = False
        for lost in op.volatile_lost:
            for copy in self._found(lost.queue_id, lost.ranges):
                self._leave(copy, service.FINAL_STATE_LOST)
        self.problems += gathering.on_late(self._name, op.ungathered, self.shelves, self._time_ms)
        for late in op.reply_timeouts:
            for copy in self._found(late.queue_id, late.ranges):
                due_ms = copy.entered_ms + _ms(copy.shelf.config.reply_timeout)
                self._require(self._time_ms >= due_ms, ENDS, copy, f"is given up at {self._time_ms}, before {due_ms}")
                self._leave(copy, service.FINAL_STATE_REPLY_TIMEOUT)
                self.counts["requests unanswered"] += 1
        for before in op.forgotten:
            self._forget(self.shelves[before.queue_id], before.time_ms)

    def _forget(self, shelf: Shelf, before_ms: int) -> None:
        """How messages ended, and with it what is owed of their answers."""
        due_ms = before_ms + _ms(shelf.config.completion_retention)
        if self._time_ms < due_ms:
            self.problems.append((ENDS, f"{self._name}: {shelf.name} forgets at {self._time_ms}, before {due_ms}"))
        for copy in shelf.copies.values():
            if copy.final and copy.left_ms < before_ms:
                copy.owes = ""

    def _fail(self, copy: Copy) -> None:
        """Its lease has ended, and nobody had settled it."""
        config = copy.shelf.config
        copy.lease_id, copy.failures = 0, copy.failures + 1
        if config.max_deliveries and copy.shelf.letters and copy.failures >= config.max_deliveries:
            copy.died = self._name
            return
        least_ms = _ms(config.retry_delay_min) if config.HasField("retry_delay_min") else 0
        most_ms = max(least_ms, _ms(config.retry_delay_max))
        self._return(copy, self._time_ms + min(least_ms * copy.failures, most_ms) if least_ms else 0)

    def _reply(self, op: pb.ReplyOp, answer: bytes) -> None:
        copy = self.shelves[op.queue_id].copies[op.index]
        self._require(not copy.final, ANSWER, copy, f"is answered, and left by {copy.left}")
        self._require(copy.lease_id in (0, op.lease_id), ANSWER, copy, f"is answered, and held under {copy.lease_id}")
        wanted = op.reply_to == copy.reply_to
        self._require(wanted, ANSWER, copy, f"is answered to {op.reply_to!r}, not to {copy.reply_to!r}")
        self._leave(copy, service.FINAL_STATE_REPLIED)
        copy.answer, copy.owes = answer, copy.reply_to
        self.counts["requests answered"] += 1

    def _queue(self, op: pb.QueueOp) -> None:
        if op.action == pb.QUEUE_ACTION_CREATE:
            self.shelves[op.queue_id] = Shelf(op.queue_id, op.name, op.config)
            return
        shelf = self.shelves[op.queue_id]
        if op.action == pb.QUEUE_ACTION_UPDATE or (op.action == pb.QUEUE_ACTION_OPEN and op.HasField("config")):
            shelf.config = op.config
        for copy in list(shelf.here()) if op.action in (pb.QUEUE_ACTION_PURGE, pb.QUEUE_ACTION_DELETE) else ():
            if op.action == pb.QUEUE_ACTION_DELETE or not copy.lease_id:
                self._leave(copy, service.FINAL_STATE_PURGED)

    # -- at the end ----------------------------------------------------------------------------------------------------

    def at_rest(self) -> Iterator[tuple[str, str]]:
        """What no record has done, and some should have: asked when everything was given out."""
        for shelf in self.shelves.values():
            for copy in shelf.copies.values():
                if copy.died is not None and not copy.final:
                    yield DIES, f"{name_of(copy)} died by {copy.died}, and went nowhere"
                if copy.owes:
                    yield ANSWER, f"{name_of(copy)} was answered by {copy.left}, and {copy.owes} has no copy of it"

    def all(self) -> Iterator[Copy]:
        """Every copy that ever was."""
        return (copy for shelf in self.shelves.values() for copy in shelf.copies.values())


def read(disk: Disk, spare: Disk | None = None) -> Fates | None:
    """What is on that disk (see `logs`); None also when the body of a record is not there any more."""
    log = logs.read(disk, spare)
    if log is None or any(not body and _has_body(header) for _, header, body in log):
        return None
    fates = Fates()
    for name, header, body in log:
        fates.add(name, header, body)
    return fates


def _has_body(header: pb.RecordHeader) -> bool:
    return header.WhichOneof("op") in ("enqueue", "reply") or bool(header.txn.enqueues or header.txn.replies)


def _each(shelf: Shelf, ranges: Iterable[IndexRange]) -> Iterator[Copy]:
    return (shelf.copies[index] for part in ranges for index in range(part.first, part.first + part.count))


def _at(column: Sequence[Value], ordinal: int, default: Value) -> Value:
    if not column:
        return default
    return column[ordinal if len(column) > 1 else 0]


def _ms(duration: Duration) -> int:
    return duration.seconds * 1000 + duration.nanos // 1_000_000
