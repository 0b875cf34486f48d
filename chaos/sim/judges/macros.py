"""Judges macro queues: by the log, without the queue machine. What was sent entered the members that the policy says,
once; what was given was what the policy says of what was there; a duplicate is at all members or at none.

A second opinion: it keeps the turn, the members and what is open by the records alone, and has a row for each message.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chaos.sim.judges import logs
from chaos.sim.judges.fates import PLACE, Fates
from chaos.sim.judges.macro_points import (
    CHANGED,
    COPIES,
    MACRO,
    OVER_TAKEOVER,
    PASSED_CLOSED,
    PASSED_FULL,
    SERVED_BESIDE_CLOSED,
    UNWEIGHED,
    WEIGHED,
    used,
)
from chaos.sim.judges.proxy_points import PASSED_AWAY
from chaos.sim.judges.shelves import Copy, Shelf, name_of
from chaos.sim.pair.books import payload_of
from replica.machine.state.system_names import XMIT
from tandemq.peer.v1 import record_pb2 as pb
from tandemq.v1 import macro_service_pb2 as macro
from tandemq.v1.queue_service_pb2 import EnqueueBatch

if TYPE_CHECKING:
    from chaos.sim.pair.members import Pair

SENT = "a batch is dealt as the policy says"
ONCE = "a batch is dealt once"
WHOLE = "a duplicate is at all members, or at none"
GIVEN = "what is received is what the policy says"
BY_WEIGHT = "a batch is dealt by a table of weights while it is valid, and no longer"
LOST = "nothing sent to a macro queue is lost"

IN_ORDER = (macro.MACRO_POLICY_FIRST_AVAILABLE, macro.MACRO_POLICY_PRIORITIZED)
STEERED = (
    macro.MACRO_POLICY_FIRST_AVAILABLE,
    macro.MACRO_POLICY_ROUND_ROBIN,
    macro.MACRO_POLICY_SHORTEST_QUEUE,
    macro.MACRO_POLICY_FASTEST_RESPONSE,
)
"""Policies that a table overrides."""
COPYING = (macro.MACRO_POLICY_DUPLICATE, macro.MACRO_POLICY_DUPLICATE_BEST_EFFORT)


@dataclass(slots=True)
class _Macro:
    """One macro queue, as the records have made it so far."""

    name: str
    policy: int
    is_producer: bool
    members: dict[int, int] = field(default_factory=dict)
    """Member priority by queue, in the order of adding."""
    last: int = 0
    """Whose turn it was."""
    last_epoch: int = 0
    """In which that was."""
    groups: dict[str, int] = field(default_factory=dict)
    """The member of each group, since the members changed last."""
    has_far: bool = False
    """Members at another pair: whose turn is behind one of them the master alone knows."""
    ways: set[int] = field(default_factory=set)
    """Members that lead to queues of another pair: the master alone knows whether those are away, and how long."""
    weighed: int = 0
    """Version of the table that the last batch was dealt by."""

    def by_priority(self) -> list[int]:
        return sorted(self.members, key=lambda each: -self.members[each])

    def in_turn(self) -> list[int]:
        ids = list(self.members)
        at = ids.index(self.last) + 1 if self.last in ids else 0
        return ids[at:] + ids[:at]

    def leave(self, queue_id: int) -> None:
        ids = list(self.members)
        if self.last == queue_id:
            self.last = ids[ids.index(queue_id) - 1] if len(ids) > 1 else 0
        del self.members[queue_id]
        self.ways.discard(queue_id)
        self.groups.clear()


class Macros:
    """Follows those of one log. `add` its records in their order."""

    def __init__(self, places: Collection[str]) -> None:
        """`places`: the members of the pair."""
        self.fates = Fates()
        self.problems: list[tuple[str, str]] = []
        self.points: set[str] = set()
        self._places = places
        self._macros: dict[int, _Macro] = {}
        self._open: dict[int, set[str]] = {}
        self._tables: dict[str, pb.WeightsOp] = {}
        """Of routing weights, by name."""
        self._dealt: set[tuple[int, bytes, int]] = set()
        self._requests: set[bytes] = set()
        self._used = False

    def add(self, stored: logs.Stored) -> None:
        """The next record."""
        header, op = stored.header, stored.header.WhichOneof("op")
        if op == "macro":
            self._change(header.macro)
        elif op == "weights":
            self._tables.pop(header.weights.name, None)
            if header.weights.action == pb.WEIGHTS_ACTION_PUBLISH:
                self._tables[header.weights.name] = header.weights
        elif op == "queue":
            self._note_queue(header.queue)
        elif op == "enqueue" and header.enqueue.macro_id:
            self._batch(stored, header.enqueue.macro_id, [header.enqueue])
        elif op == "txn" and header.txn.deal.macro_id:
            self._batch(stored, header.txn.deal.macro_id, header.txn.enqueues)
        elif op == "lease" and header.lease.macro_id:
            self._lease(stored, header.lease)
        self.fates.add(*stored)

    def _change(self, op: pb.MacroOp) -> None:
        if op.action == pb.MACRO_ACTION_CREATE:
            is_producer = op.relationship == macro.RELATIONSHIP_PRODUCER
            self._tables.pop(op.name, None)  # one that is older is none of its
            self._macros[op.macro_id] = _Macro(op.name, op.policy, is_producer)
            return
        found = self._macros[op.macro_id]
        if self._used:
            self.points.add(CHANGED)
        if op.action == pb.MACRO_ACTION_ADD_PROXY:
            found.has_far = True
        elif op.action == pb.MACRO_ACTION_ADD:
            found.members[op.queue_id] = op.priority
            found.groups.clear()
            if self.fates.shelves[op.queue_id].name.startswith(XMIT):
                found.ways.add(op.queue_id)
        elif op.action == pb.MACRO_ACTION_REMOVE:
            found.leave(op.queue_id)

    def _note_queue(self, op: pb.QueueOp) -> None:
        match op.action:
            case pb.QUEUE_ACTION_CREATE:
                self._open[op.queue_id] = set(op.open_members)
            case pb.QUEUE_ACTION_OPEN:
                self._open[op.queue_id].update([op.member] if op.member else self._places)
            case pb.QUEUE_ACTION_CLOSE:
                self._open[op.queue_id].difference_update([op.member] if op.member else self._places)

    def _state_of(self, queue_id: int) -> bool | None:
        """Whether it is open; None: at one member alone, and nobody knows where a call came."""
        count = len(self._open[queue_id])
        return None if 0 < count < len(self._places) else count > 0

    def _report(self, rule: str, stored: logs.Stored, of: _Macro, text: str) -> None:
        self.problems.append((rule, f"{stored.name}: {of.name} {text}"))

    # -- what is sent --------------------------------------------------------------------------------------------------

    def _batch(self, stored: logs.Stored, macro_id: int, ops: Sequence[pb.EnqueueOp]) -> None:
        of, batch, self._used = self._macros[macro_id], EnqueueBatch.FromString(stored.body), True
        self._note_identity(stored, macro_id, of)
        strange = [op.queue_id for op in ops if op.queue_id not in of.members]
        if strange:
            self._report(SENT, stored, of, f"deals to {strange}, which are no members")
            return
        self.points.add(used(macro.MacroPolicy.Name(of.policy).removeprefix("MACRO_POLICY_"), producer=True))
        if of.policy in COPYING:
            self._copies(stored, of, ops)
        elif self._is_weighed(stored, of):
            self._by_weight(stored, of, ops)
        elif of.policy == macro.MACRO_POLICY_BY_GROUP:
            self._by_group(stored, of, ops, batch.messages.group_ids)
        elif of.policy == macro.MACRO_POLICY_ROUND_ROBIN:
            self._in_turn(stored, of, ops, len(batch.messages.payloads))
        else:
            self._whole_batch(stored, of, ops)
        for op in ops:
            if op.first_index and of.policy != macro.MACRO_POLICY_ROUND_ROBIN and not of.weighed:
                self._turn_to(of, op.queue_id, stored.name.epoch)

    def _note_identity(self, stored: logs.Stored, macro_id: int, of: _Macro) -> None:
        header = stored.header
        op = header.enqueue if header.HasField("enqueue") else header.txn.deal
        key = macro_id, op.client_id, op.first_sequence
        is_known = key in self._dealt if op.client_id else header.request_id in self._requests
        if is_known:
            self._report(ONCE, stored, of, f"deals what {op.client_id!r} had sent before once more")
        if op.client_id:
            self._dealt.add(key)
        else:
            self._requests.add(header.request_id)

    def _is_weighed(self, stored: logs.Stored, of: _Macro) -> bool:
        """Whether a table of its name decided, as the record says; and whether one was to."""
        header, table = stored.header, self._tables.get(of.name)
        version = header.txn.deal.weighed if header.HasField("txn") else header.enqueue.weighed
        wanted = 0
        if table is not None and of.policy in STEERED and header.time_ms < table.valid_until_ms:
            weights = zip(table.queue_ids, table.weights, strict=True)
            wanted = table.version if any(weight and each in of.members for each, weight in weights) else 0
        if version != wanted:
            self._report(BY_WEIGHT, stored, of, f"deals by version {version} of its table, and {wanted} is valid")
        if of.weighed and table is not None and table.version == of.weighed and not wanted:
            self.points.add(UNWEIGHED)
        of.weighed = version
        return bool(version)

    def _by_weight(self, stored: logs.Stored, of: _Macro, ops: Sequence[pb.EnqueueOp]) -> None:
        """To members that are open and have room; the shares themselves are judged by the product's own tests."""
        self.points.add(WEIGHED)
        for op in ops:
            if (count := len(_entered(op))) and (
                self._state_of(op.queue_id) is False or self._room(op.queue_id) < count
            ):
                self._report(SENT, stored, of, f"deals {count} to {self._name_of(op.queue_id)}, which takes no more")
            if op.first_index:
                self._turn_to(of, op.queue_id, stored.name.epoch)

    def _whole_batch(self, stored: logs.Stored, of: _Macro, ops: Sequence[pb.EnqueueOp]) -> None:
        """FIRST_AVAILABLE, SHORTEST_QUEUE, FASTEST_RESPONSE: one member has all of it."""
        states = {each: self._state_of(each) for each in of.members}
        if None in states.values():
            return
        op = ops[0]
        orders = [[each for each in order if states[each]] for order in self._orders(of)]
        order = orders[0]
        room = {each: self._room(each) for each in order}
        passed = order[: order.index(op.queue_id)] if op.queue_id in order else []
        wanted = [_first_of(each, room, op.count) for each in orders]
        if of.policy == macro.MACRO_POLICY_FASTEST_RESPONSE:  # nobody but the master knows who was the fastest
            fits = any(free >= op.count for free in room.values())
            wanted += [op.queue_id] if op.queue_id in order and (not fits or room[op.queue_id] >= op.count) else []
        if len(ops) > 1 or op.queue_id not in wanted:
            names = [self._name_of(each.queue_id) for each in ops]
            self._report(SENT, stored, of, f"deals {op.count} to {names}, not to {self._name_of(wanted[0])}")
        if not room.get(op.queue_id) and any(room.values()):
            self._report(SENT, stored, of, f"chooses {self._name_of(op.queue_id)}, which is full, and others are not")
        if of.ways & {*passed, *wanted} and op.queue_id not in of.ways:
            self.points.add(PASSED_AWAY)
        elif passed:
            self.points.add(PASSED_FULL)
        if not all(states.values()) and op.first_index:
            self.points.add(PASSED_CLOSED)

    def _in_turn(self, stored: logs.Stored, of: _Macro, ops: Sequence[pb.EnqueueOp], count: int) -> None:
        """Message by message. Where nobody knows who was open the turn is where the record leaves it."""
        states = {each: self._state_of(each) for each in of.members}
        room = {each: self._room(each) for each in of.members if states[each]}
        homes = {place: op.queue_id for op in ops for place in _entered(op)}
        for place in range(count):
            turn = of.in_turn()
            able = [each for each in turn if room.get(each, 0) > 0]
            wanted, home = next(iter(able), 0), homes.get(place, 0)
            if None in states.values():
                wanted = home
            elif (
                home != wanted and wanted in of.ways and home == next((each for each in able if each not in of.ways), 0)
            ):
                self.points.add(PASSED_AWAY)
                wanted = home
            elif home != wanted:
                names = self._name_of(home), self._name_of(wanted)
                self._report(SENT, stored, of, f"deals {place} of {count} to {names[0]}, not to {names[1]}")
                wanted = home
            if not wanted:
                return
            before = [each for each in turn[: turn.index(wanted)] if each not in of.ways]
            self.points |= {PASSED_FULL if states[each] else PASSED_CLOSED for each in before}
            room[wanted] = room.get(wanted, 0) - 1
            self._turn_to(of, wanted, stored.name.epoch)

    def _orders(self, of: _Macro) -> list[list[int]]:
        """Those that may be, whatever the master knew of members elsewhere: they are behind the others where they are
        away, and where they are longer than what waits for them here.
        """
        order = self._order(of)
        near, far = [each for each in order if each not in of.ways], [each for each in order if each in of.ways]
        return [order, near + far] if far else [order]

    def _order(self, of: _Macro) -> list[int]:
        if of.policy == macro.MACRO_POLICY_SHORTEST_QUEUE:
            return sorted(of.members, key=lambda each: self.fates.shelves[each].length)
        return of.by_priority()

    def _room(self, queue_id: int) -> int:
        shelf = self.fates.shelves[queue_id]
        return shelf.config.max_length - shelf.length

    def _by_group(self, stored: logs.Stored, of: _Macro, ops: Sequence[pb.EnqueueOp], groups: Sequence[str]) -> None:
        for op in ops:
            for place in op.ordinals or range(op.count):
                group = groups[place if len(groups) > 1 else 0] if groups else ""
                if group and of.groups.setdefault(group, op.queue_id) != op.queue_id:
                    names = self._name_of(op.queue_id), self._name_of(of.groups[group])
                    self._report(SENT, stored, of, f"deals {group} to {names[0]}, and to {names[1]} before")

    def _copies(self, stored: logs.Stored, of: _Macro, ops: Sequence[pb.EnqueueOp]) -> None:
        entered = {op.queue_id: _entered(op) for op in ops}
        if not any(entered.values()):
            return
        if of.policy == macro.MACRO_POLICY_DUPLICATE:
            whole = set.union(*entered.values())
            for queue_id in of.members:
                if lacking := whole - entered.get(queue_id, set()):
                    self._report(
                        WHOLE, stored, of, f"has {sorted(lacking)} of the batch not in {self._name_of(queue_id)}"
                    )
                    return
            self.points.add(COPIES)
            return
        count = stored.header.txn.deal.count
        for queue_id in of.members:
            left_out = count - len(entered.get(queue_id, ()))
            if self._state_of(queue_id) and left_out and self._room(queue_id) >= count:
                text = f"leaves {left_out} of {count} out at {self._name_of(queue_id)}, which has room"
                self._report(WHOLE, stored, of, text)

    def _turn_to(self, of: _Macro, queue_id: int, epoch: int) -> None:
        turns = of.policy == macro.MACRO_POLICY_ROUND_ROBIN and len(of.members) > 1
        if turns and of.last_epoch and of.last_epoch != epoch:
            self.points.add(OVER_TAKEOVER)
        of.last, of.last_epoch = queue_id, epoch

    def _name_of(self, queue_id: int) -> str:
        return self.fates.shelves[queue_id].name if queue_id else "nobody"

    # -- what is received ----------------------------------------------------------------------------------------------

    def _lease(self, stored: logs.Stored, op: pb.LeaseOp) -> None:
        of, self._used = self._macros[op.macro_id], True
        if op.queue_id not in of.members:
            self._report(GIVEN, stored, of, f"gives of {self._name_of(op.queue_id)}, which is no member")
            return
        self.points.add(used(macro.MacroPolicy.Name(of.policy).removeprefix("MACRO_POLICY_"), producer=False))
        shelf = self.fates.shelves[op.queue_id]
        taken = [shelf.copies[index] for part in op.ranges for index in range(part.first, part.first + part.count)]
        states = {each: self._state_of(each) for each in of.members}
        if states[op.queue_id] is False:
            self._report(GIVEN, stored, of, f"gives of {shelf.name}, which is closed")
        if False in states.values():
            self.points.add(SERVED_BESIDE_CLOSED)
        others = [self.fates.shelves[each] for each in of.members if states[each] and each != op.queue_id]
        if problem := self._overtaken(of, shelf, taken, others):
            self._report(GIVEN, stored, of, f"gives {name_of(taken[0])}, {problem}")
        self._turn_to(of, op.queue_id, stored.name.epoch)

    def _overtaken(self, of: _Macro, shelf: Shelf, taken: Sequence[Copy], others: Sequence[Shelf]) -> str:
        """Why something else was to be given; empty: nothing was. What came before the first one was committed as it
        was, and could be given; nobody knows that of what came after it.
        """
        first = taken[0]
        if of.has_far and of.policy == macro.MACRO_POLICY_ROUND_ROBIN:
            return ""
        if of.policy in IN_ORDER or of.policy == macro.MACRO_POLICY_ROUND_ROBIN:
            order = of.by_priority() if of.policy in IN_ORDER else of.in_turn()
            before = order[: order.index(shelf.queue_id)]
            waiting = next((copy for each in others if each.queue_id in before for copy in _there(each, first)), None)
            return f"and {name_of(waiting)} was there" if waiting is not None else ""
        if any(copy.entered != first.entered for copy in taken):
            return "and with it messages of other records"
        for each in others:
            if of.policy == macro.MACRO_POLICY_MESSAGE_PRIORITY:
                better = [c for c in _there(each, first) if (-c.priority, c.entered.log_index) < _age(first)]
            else:
                ready = [copy for copy in each.here() if copy.is_ready]
                head = min(ready, key=lambda copy: (-copy.priority, copy.index), default=None)
                better = [head] if head is not None and head.entered.log_index < first.entered.log_index else []
            if better:
                return f"and {name_of(better[0])} was there"
        return ""


def _first_of(order: Sequence[int], room: Mapping[int, int], count: int) -> int:
    """Who takes all of it, or some, or refuses it; 0: there is nobody."""
    fits = next((each for each in order if room[each] >= count), 0)
    return fits or next((each for each in order if room[each] > 0), 0) or next(iter(order), 0)


def _age(copy: Copy) -> tuple[int, int]:
    return -copy.priority, copy.entered.log_index


def _there(shelf: Shelf, than: Copy) -> Iterator[Copy]:
    """What was ready and had come before that one."""
    return (copy for copy in shelf.here() if copy.is_ready and copy.entered.log_index < than.entered.log_index)


def _entered(op: pb.EnqueueOp) -> set[int]:
    """Places in the batch."""
    out = {each.ordinal for each in op.refusals} | {each.ordinal for each in op.duplicates}
    places = op.ordinals or range(op.count)
    return {places[ordinal] for ordinal in range(op.count) if ordinal not in out}


def broken(pair: Pair) -> Iterator[tuple[str, str]]:
    """At the end of a run, when everything was taken; of each rule the first finding."""
    books = [book for book in pair.run.books if book.kind == MACRO]
    found = _follow(pair) if books else None
    if found is None:
        return
    pair.run.count("macro queues followed")
    for point in sorted(found.points):
        pair.run.sometimes(point)
    problems = [*found.problems, *found.fates.problems, *found.fates.at_rest()]
    for book in books:
        for ack in book.history.acked:
            copy = found.fates.payloads.get(payload_of(ack.message))
            if copy is None:
                problems.append((LOST, f"{ack.message} was acknowledged at {ack.index} of {book.name}, and is nowhere"))
        for message, reason in book.refused.items():
            if (copy := found.fates.payloads.get(payload_of(message))) is not None:
                problems.append((PLACE, f"{name_of(copy)} was refused with {reason}"))
    problems += ((LOST, f"{name_of(copy)} was taken by nobody") for copy in found.fates.all() if not copy.final)
    seen: set[str] = set()
    for rule, text in problems:
        if rule not in seen:
            seen.add(rule)
            yield rule, text


def _follow(pair: Pair) -> Macros | None:
    """The master's log; where its own does not go back to the beginning, its replica's, if that is the same."""
    members = [member for member in pair.members.values() if member.domain is not None]
    for master in (each for each in members if each.is_serving):
        assert master.domain is not None
        digest = master.domain.shared.log.digest
        for member in (master, *(each for each in members if each is not master)):
            assert member.domain is not None
            if member.domain.shared.log.digest != digest:
                continue
            stored = logs.read(member.machine.disk, pair.members[member.peer].machine.disk)
            if stored is not None and all(each.body or not _has_body(each.header) for each in stored):
                found = Macros(pair.members)
                for each in stored:
                    found.add(each)
                return found
    return None


def _has_body(header: pb.RecordHeader) -> bool:
    return header.WhichOneof("op") in ("enqueue", "reply") or bool(header.txn.enqueues or header.txn.replies)
