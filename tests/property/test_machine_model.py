"""The queue machine against a model made of dicts, under any sequence of operations, commits and restarts."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import deepcopy
from datetime import timedelta
from itertools import takewhile
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule

from replica.machine import (
    Bodies,
    DuplicateRun,
    Machine,
    MoveCall,
    QueuePut,
    QueueSettling,
    Repeated,
    SaveLimits,
    UnitCall,
    columns_of,
)
from replica.machine.plan.move import dying_of, plan_move
from replica.machine.plan.save import plan_save
from replica.machine.plan.time import next_due_ms, plan_expire, plan_volatile_lost
from replica.machine.plan.unit import plan_unit
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2, queue_service_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.property.model import Lease, Message, Queue
from tests.support import profiles
from tests.unit.replica.machine.driver import MEMBERS, Driver, batch_of, indexes_of
from tests.unit.replica.machine.everything import state_of

NAMES = ("q", "r")
DELIVERIES = {"q": 3, "r": 0}  # r is where the dead letters of q go
CLIENTS = (b"one", b"two")
REASONS = {"large": common_pb2.REASON_MESSAGE_TOO_LARGE, "full": common_pb2.REASON_QUEUE_FULL}
GROUPS = ("", "red", "blue")
DEFAULTS: dict[str, Any] = {"priorities": 4, "persistence": 0, "ttls_ms": 0, "delays_ms": 0, "group_ids": ""}
names = st.sampled_from(("q", "q", "q", "r"))


def column(draw: Any, values: st.SearchStrategy[Any], count: int) -> list[Any]:
    length = draw(st.sampled_from([0, 0, 1, count]))
    return draw(st.lists(values, min_size=length, max_size=length))


@st.composite
def batches(draw: Any) -> dict[str, list[Any]]:
    """Columns. Messages of one batch that can enter have one size: the machine
    counts bytes by the mean of a batch."""
    count = draw(st.integers(1, 6))
    size = draw(st.integers(0, 50))
    sizes = [101 if large else size for large in draw(st.lists(st.integers(0, 9), min_size=count, max_size=count))]
    sizes = [entry if draw(st.integers(0, 7)) == 0 else size for entry in sizes]
    return {
        "sizes": sizes,
        "priorities": column(draw, st.integers(0, 9), count),
        "persistence": column(draw, st.integers(0, 2), count),
        "ttls_ms": column(draw, st.sampled_from([0, 50, 1_000]), count),
        "delays_ms": column(draw, st.sampled_from([0, 0, 40, 300]), count) if draw(st.booleans()) else [],
        "group_ids": column(draw, st.sampled_from(GROUPS), count),
    }


def entry(values: list[Any], ordinal: int, default: Any) -> Any:
    return default if not values else values[ordinal if len(values) > 1 else 0]


# What happens, how often, and with what.
OPERATIONS: dict[str, tuple[int, dict[str, st.SearchStrategy[Any]]]] = {
    "enqueue": (
        6,
        {
            "name": names,
            "batch": batches(),
            "client": st.sampled_from(CLIENTS),
            "unary": st.booleans(),
            "at_once": st.integers(0, 3),
        },
    ),
    "repeat": (1, {"data": st.data()}),
    "skip_a_sequence": (1, {"name": names, "client": st.sampled_from(CLIENTS), "ahead": st.integers(2, 4)}),
    "lease": (
        5,
        {
            "name": names,
            "count": st.integers(1, 8),
            "max_bytes": st.sampled_from([0, 30, 100, 10_000]),
            "duration_ms": st.sampled_from([20, 500]),
            "immediate": st.booleans(),
        },
    ),
    "settle": (4, {"name": names, "data": st.data(), "outcomes": st.lists(st.integers(1, 4), min_size=1, max_size=3)}),
    "unit": (
        3,
        {
            "data": st.data(),
            "settles": st.lists(names, max_size=2, unique=True),
            "outcome": st.integers(1, 3),
            "puts": st.lists(st.tuples(names, batches()), max_size=2, unique_by=lambda put: put[0]),
        },
    ),
    "time_passes": (3, {"passed_ms": st.sampled_from([10, 60, 600])}),
    "expire": (3, {}),
    "commit_all": (1, {}),
    "take_over": (1, {"new_epoch": st.booleans()}),
    "restart_the_master": (1, {}),
    "move_the_dying": (2, {"count": st.integers(1, 4)}),
    "purge": (1, {"name": names}),
    "delete_and_create": (
        1,
        {"name": names, "mode": st.integers(1, 3), "drops": st.booleans(), "ordered": st.booleans()},
    ),
    "lose_volatile_bodies": (1, {"data": st.data()}),
    "change_persistence": (1, {"name": names, "mode": st.integers(1, 3)}),
    "save": (2, {"name": names, "records": st.integers(1, 3), "pieces": st.integers(1, 6)}),
}


def whole_of(parts: Sequence[Any]) -> queue_service_pb2.EnqueueBatch:
    """The messages of some batches as one."""
    rows = [(batch, ordinal) for batch in parts for ordinal in range(len(batch["sizes"]))]
    columns = {name: [entry(batch[name], at, default) for batch, at in rows] for name, default in DEFAULTS.items()}
    return batch_of([batch["sizes"][at] for batch, at in rows], **columns)


def puts_some(header: record_pb2.RecordHeader) -> bool:
    return header.HasField("enqueue") or bool(header.txn.enqueues)


def places_of(driver: Driver, name: str) -> list[int]:
    """Indexes that are ready, blocked, delayed, dying or leased: each as often as it is."""
    queue_id = driver.master.queue_id(name)
    assert queue_id is not None
    queue = driver.master.queue(queue_id)
    blocked = queue.groups.blocked if queue.groups is not None else []
    sources = [*queue.ready, *blocked, *(lease.ranges for lease in queue.leases.values())]
    runs = [run for source in sources for run in source]
    runs += [(start, end) for spans in (queue.delayed, queue.dying) for start, end, _ in spans]
    return sorted(index for start, end in runs for index in range(start, end))


class Comparison(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.driver = Driver()
        self.driver.commits = False
        self.queues: dict[str, Queue] = {}
        self.sent: list[tuple[str, Any, int, dict[str, Any], DuplicateRun]] = []
        self.lease_ids: list[int] = [99]  # one that never was
        self.requests = 0
        self.marks: dict[int, Sequence[int]] = {}
        self.stored: set[int] = set()

    @initialize(mode=st.integers(1, 3), ordered=st.booleans())
    def begin(self, mode: int, ordered: bool) -> None:
        for name in NAMES:
            self.create(name, mode, 12, 400, (30, 70), ordered=ordered)

    @rule(
        data=st.data(), kind=st.sampled_from([kind for kind, (weight, _) in OPERATIONS.items() for _ in range(weight)])
    )
    def step(self, data: Any, kind: str) -> None:
        """One rule, as Hypothesis would leave some of many out of whole runs, sending among them."""
        getattr(self, kind)(**{name: data.draw(values) for name, values in OPERATIONS[kind][1].items()})

    def create(
        self,
        name: str,
        mode: int,
        max_length: int,
        max_bytes: int,
        retry_ms: tuple[int, int] = (0, 0),
        *,
        drops: bool = False,
        ordered: bool = False,
    ) -> None:
        least, most = (timedelta(milliseconds=each) for each in retry_ms)
        self.driver.create(
            name,
            persistence=mode,
            max_length=max_length,
            max_bytes=max_bytes,
            max_message_bytes=100,
            retry_delay_min=least,
            retry_delay_max=most,
            max_deliveries=DELIVERIES[name],
            dead_letter_queue="r" if DELIVERIES[name] else "",
            overflow=admin_pb2.OVERFLOW_DROP_HEAD if drops else admin_pb2.OVERFLOW_REJECT,
            group_mode=admin_pb2.GROUP_MODE_ORDERED if ordered else admin_pb2.GROUP_MODE_NONE,
        )
        limits = max_length, max_bytes, 100, mode, retry_ms, DELIVERIES[name]
        self.queues[name] = Queue(*limits, drops=drops, ordered=ordered)

    def enqueue(self, name: str, batch: Any, client: bytes, unary: bool, at_once: int) -> None:
        sizes, persistence = batch["sizes"], batch["persistence"]
        model = self.queues[name]
        first_sequence = 0 if unary else model.last_sequence.get(client, 0) + 1
        self.requests += unary
        identity = {"request_id": self.requests.to_bytes(16, "big")} if unary else {"client_id": client}
        made = batch_of(**batch, queue=name)
        op = self.driver.enqueue(made, **identity)

        refused = dict(model.refusals(sizes))
        assert [(refusal.ordinal, refusal.reason) for refusal in op.refusals] == [
            (ordinal, REASONS[why]) for ordinal, why in refused.items()
        ]
        entered = [size for ordinal, size in enumerate(sizes) if ordinal not in refused]
        assert indexes_of(op.dropped) == model.drop_for(len(entered), sum(entered))
        assert op.first_index == (model.next_index if len(refused) < len(sizes) else 0)
        assert op.downgraded == (model.mode == 2 and 2 in persistence)
        self.enter(model, batch, refused)
        if not unary:
            model.last_sequence[client] = first_sequence + len(sizes) - 1
        refusals = tuple((ordinal, REASONS[why]) for ordinal, why in refused.items())
        run = DuplicateRun(
            first_sequence, len(sizes), op.first_index, self.driver.log_index, 1, refusals, op.downgraded
        )
        self.note_body(op, persistence)
        self.sent.append((name, made, first_sequence, identity, run._replace(epoch=self.driver.epoch)))
        if at_once:
            self.commit()

    def enter(self, model: Queue, batch: Any, refused: Collection[int], first_ordinal: int = 0) -> None:
        """The messages of the last record for one queue, but for those that were refused."""
        for ordinal, size in enumerate(batch["sizes"]):
            if ordinal in refused:
                continue
            ttl_ms, mark = entry(batch["ttls_ms"], ordinal, 0), entry(batch["persistence"], ordinal, 0)
            delay_ms = entry(batch["delays_ms"], ordinal, 0)
            model.messages[model.next_index] = Message(
                entry(batch["priorities"], ordinal, 4),
                size,
                self.driver.now_ms + ttl_ms if ttl_ms else 0,
                model.mode == 2 or (model.mode == 3 and mark != 2),
                self.driver.log_index,
                first_ordinal + ordinal,
                delayed_until_ms=self.driver.now_ms + delay_ms if delay_ms else 0,
                marked=mark == 2,
                group=entry(batch["group_ids"], ordinal, ""),
            )
            model.next_index += 1

    def unit(self, data: Any, settles: list[str], outcome: int, puts: list[tuple[str, Any]]) -> None:
        """What is held goes and what is sent comes, by one record; or all of it is refused (U2, U7)."""
        driver, queues = self.driver, deepcopy(self.queues)
        settlings: list[QueueSettling] = []
        for name in [name for name in settles if queues[name].leases]:
            lease_id = data.draw(st.sampled_from(sorted(queues[name].leases)))
            held = [index for index, message in queues[name].messages.items() if message.lease_id == lease_id]
            some = sorted(data.draw(st.lists(st.sampled_from(held), min_size=1, unique=True)))
            assert not queues[name].settle(outcome, lease_id, some, (0, 0))
            settlement = queue_service_pb2.Settlement(lease_id=lease_id, outcome=outcome)  # type: ignore[arg-type]  # number
            settlement.ranges.extend(common_pb2.IndexRange(first=index, count=1) for index in some)
            settlings.append(QueueSettling(name, [settlement]))
        if not settlings and not puts:
            return
        whole = columns_of(whole_of([batch for _, batch in puts]))
        starts = [sum(len(batch["sizes"]) for _, batch in puts[:place]) for place in range(len(puts))]
        parts = [
            QueuePut(name, whole.part(start, len(batch["sizes"])))
            for (name, batch), start in zip(puts, starts, strict=True)
        ]
        self.requests += 1
        call = UnitCall(settlings, parts, "a", self.requests.to_bytes(16, "big"), 1)
        refusals = [why for name, batch in puts for why in queues[name].refusals(batch["sizes"])]
        if refusals:
            refused = driver.refusal(lambda: driver.plan(lambda: plan_unit(driver.master.state, driver.now_ms, call)))
            assert refused.reason == REASONS[refusals[0][1]]
            return
        header = driver.plan(lambda: plan_unit(driver.master.state, driver.now_ms, call))
        driver.order(header)
        self.queues = queues
        for (name, batch), start, op in zip(puts, starts, header.txn.enqueues, strict=True):
            dropped = queues[name].drop_for(len(batch["sizes"]), sum(batch["sizes"]))
            assert indexes_of(op.dropped) == dropped
            assert op.first_index == queues[name].next_index
            self.enter(queues[name], batch, (), start)
        self.marks[driver.log_index] = whole.persistence
        if not all(op.volatiles and min(op.volatiles) for op in header.txn.enqueues):
            self.stored.add(driver.log_index)

    def repeat(self, data: Any) -> None:
        if not self.sent:
            return
        _, batch, first_sequence, identity, run = data.draw(st.sampled_from(self.sent))
        plan = self.driver.plan_enqueue(batch, first_sequence=first_sequence, **identity)
        assert isinstance(plan, Repeated)
        assert plan.run == run

    def skip_a_sequence(self, name: str, client: bytes, ahead: int) -> None:
        last = self.queues[name].last_sequence.get(client, 0)
        refused = self.driver.refusal(
            lambda: self.driver.plan_enqueue(batch_of([1], queue=name), client_id=client, first_sequence=last + ahead)
        )
        assert refused.reason == (common_pb2.REASON_SEQUENCE_GAP if last else common_pb2.REASON_DEDUP_EXPIRED)
        assert refused.metadata["last_sequence"] == str(last)

    def lease(self, name: str, count: int, max_bytes: int, duration_ms: int, immediate: bool) -> None:
        model, driver = self.queues[name], self.driver
        expected = model.deliverable(driver.now_ms, count, max_bytes)
        header = driver.plan_lease(count, name=name, max_bytes=max_bytes, duration_ms=duration_ms, immediate=immediate)
        if header is None:
            assert expected == []
            return
        assert indexes_of(header.lease.ranges) == expected
        places = self.places(name, header.lease.ranges)
        assert places == [
            (model.messages[at].log_index, model.messages[at].ordinal, model.messages[at].deliveries + 1)
            for at in expected
        ]
        lease_id = driver.order(header).lease_id
        for index in expected:
            if immediate:
                del model.messages[index]
            else:
                model.messages[index].lease_id = lease_id
        if not immediate:
            model.leases[lease_id] = Lease(driver.now_ms + duration_ms, duration_ms)
            self.lease_ids.append(lease_id)

    def places(self, name: str, ranges: Any) -> list[tuple[int, int, int]]:
        """Log index, ordinal and delivery count of each message."""
        queue_id = self.driver.master.queue_id(name)
        assert queue_id is not None
        found = []
        for part in self.driver.master.segments_of(queue_id, ranges):
            for at in range(part.count):
                ordinal = part.ordinals[at] if part.ordinals else part.first_ordinal + at
                found.append((part.log_index, ordinal, part.delivery_counts[at] if part.delivery_counts else 1))
                assert self.driver.master.locate(queue_id, part.first_index + at) == (part.log_index, ordinal)
        return found

    def settle(self, name: str, data: Any, outcomes: list[int]) -> None:
        model, driver = self.queues[name], self.driver
        settlements, expected = [], []
        for outcome in outcomes:
            lease_id = data.draw(st.sampled_from(self.lease_ids[:1] + self.lease_ids[-3:]))
            held = [index for index, message in model.messages.items() if message.lease_id == lease_id]
            aimed = [(index, 1) for index in held] or [(1, 3)]
            runs = data.draw(
                st.just(aimed)
                | st.lists(st.tuples(st.integers(1, model.next_index), st.integers(1, 6)), min_size=1, max_size=3)
            )
            settlement = queue_service_pb2.Settlement(lease_id=lease_id, outcome=outcome)
            settlement.ranges.extend(common_pb2.IndexRange(first=first, count=count) for first, count in runs)
            settlement.extension.FromMilliseconds(700)
            delay_ms = data.draw(st.sampled_from([0, 80]))
            settlement.delay.FromMilliseconds(delay_ms)
            indexes = sorted(set(indexes_of(settlement.ranges)))
            until_ms = driver.now_ms + delay_ms if delay_ms else 0
            refused = model.settle(outcome, lease_id, indexes, (driver.now_ms + 700, 700), until_ms)
            settlements.append(settlement)
            expected.append((len(indexes) - len(refused), refused))
        results = driver.settle(*settlements, name=name)
        assert [(result.settled, set(indexes_of(result.refused))) for result in results] == expected
        for result in results:
            assert (result.error.reason == common_pb2.REASON_LEASE_LOST) == bool(result.refused)

    def time_passes(self, passed_ms: int) -> None:
        self.driver.now_ms += passed_ms

    def expire(self) -> None:
        self.driver.expire()
        for model in self.queues.values():
            model.expire(self.driver.now_ms)

    def commit_all(self) -> None:
        self.commit()

    def commit(self) -> None:
        shown = self.driver.commit()
        for name, model in self.queues.items():
            queue_id = self.driver.master.queue_id(name)
            new = [index for index in model.ready() if model.committed < model.messages[index].log_index]
            model.committed = self.driver.log_index
            # Something new is there: said for sure. Nothing new entered: not said.
            if new:
                assert queue_id in shown

    def take_over(self, new_epoch: bool) -> None:
        self.driver.epoch += new_epoch
        self.driver.order(record_pb2.RecordHeader(time_ms=self.driver.now_ms, role=record_pb2.RoleOp(owner="a")))
        for model in self.queues.values():
            for lease in model.leases.values():
                lease.expires_at_ms = self.driver.now_ms + lease.duration_ms

    def restart_the_master(self) -> None:
        digest = self.driver.master.digest()
        data, held = self.driver.master.snapshot(), state_of(self.driver.master)
        self.driver.master = Machine.restore(data, MEMBERS, self.driver.limits)
        assert state_of(self.driver.master) == held
        assert self.driver.master.digest() == digest
        assert self.driver.master.snapshot() == data

    def move_the_dying(self, count: int) -> None:
        """They leave one queue and enter the other in the same record, or stay where they are."""
        source, to, driver = self.queues["q"], self.queues["r"], self.driver
        indexes = sorted(source.dying())[:count]
        queue_id = driver.master.queue_id("q")
        assert queue_id is not None
        found = dying_of(driver.master.state, queue_id, 0, count)
        assert [index for low, high, _ in found.rows for index in range(low, high)] == indexes
        assert (queue_id in driver.master.state.dying) == bool(indexes)
        if not indexes:
            return
        # Of one size, as in `batches`.
        size = source.messages[indexes[0]].size
        indexes = list(takewhile(lambda index: source.messages[index].size == size, indexes))
        moved = [source.messages[index] for index in indexes]
        made = batch_of(
            [message.size for message in moved],
            [message.priority for message in moved],
            [1 if message.volatile else 2 for message in moved],
            queue="r",
            group_ids=[message.group for message in moved],
        )
        call = MoveCall(queue_id, "r", indexes, columns_of(made), queue_service_pb2.FINAL_STATE_DEAD_LETTERED)
        sizes = [message.size for message in moved]
        if to.refusals(sizes):
            refused = driver.refusal(lambda: driver.plan(lambda: plan_move(driver.master.state, driver.now_ms, call)))
            assert refused.reason == common_pb2.REASON_QUEUE_FULL
            return
        header = driver.plan(lambda: plan_move(driver.master.state, driver.now_ms, call))
        driver.order(header)
        assert sorted(indexes_of(header.enqueue.dropped)) == sorted(to.drop_for(len(sizes), sum(sizes)))
        for ordinal, index in enumerate(indexes):
            old = source.messages.pop(index)
            to.messages[to.next_index] = Message(
                old.priority,
                old.size,
                0,
                to.mode == 2 or (to.mode == 3 and old.volatile),
                driver.log_index,
                ordinal,
                marked=not old.volatile,
                group=old.group,
            )
            to.next_index += 1
        self.note_body(header.enqueue, made.messages.persistence)

    def purge(self, name: str) -> None:
        model = self.queues[name]
        header = self.driver.queue(record_pb2.QUEUE_ACTION_PURGE, name)
        assert header.queue.removed == len(model.unleased())
        for index in model.unleased():
            del model.messages[index]

    def delete_and_create(self, name: str, mode: int, drops: bool, ordered: bool) -> None:
        header = self.driver.queue(record_pb2.QUEUE_ACTION_DELETE, name)
        assert header.queue.removed == len(self.queues[name].messages)
        self.sent = [sent for sent in self.sent if sent[0] != name]
        committed = self.queues[name].committed
        self.create(name, mode, 8, 300, drops=drops, ordered=ordered)
        self.queues[name].committed = committed

    def lose_volatile_bodies(self, data: Any) -> None:
        volatile = {at.log_index for model in self.queues.values() for at in model.messages.values() if at.volatile}
        lost = data.draw(st.sets(st.sampled_from(sorted(volatile)))) if volatile else set()
        driver = self.driver
        header = driver.plan(
            lambda: plan_volatile_lost(driver.master.state, driver.now_ms, lambda log_index: log_index not in lost)
        )
        assert (header is None) == (not lost)
        if header:
            driver.order(header)
        for model in self.queues.values():
            gone = [index for index, at in model.messages.items() if at.volatile and at.log_index in lost]
            for index in gone:
                del model.messages[index]
            model.drop_empty_leases()

    def change_persistence(self, name: str, mode: int) -> None:
        """1 persistent, 2 volatile, 3 conditional. What it reaches becomes persistent by and by, in `save`."""
        config = admin_pb2.QueueConfig(persistence=mode)  # type: ignore[arg-type]  # by number
        self.driver.queue(record_pb2.QUEUE_ACTION_UPDATE, name, config=config, mask=["persistence"])
        self.queues[name].change(mode)

    def save(self, name: str, records: int, pieces: int) -> None:
        driver, model = self.driver, self.queues[name]
        queue_id = driver.master.queue_id(name)
        assert queue_id is not None
        stored, marks, limits = self.stored, self.marks, SaveLimits(records, 1_000, pieces)
        asked = Bodies(lambda log: None if log in stored else 10, stored.__contains__, marks.__getitem__)
        plan = driver.plan(lambda: plan_save(driver.master.state, queue_id, driver.now_ms, asked, limits))
        assert (plan is not None) == driver.info(name).saving == bool(model.save_below)
        if plan is None:
            return
        assert not plan.lost
        saved = model.save(plan.header.save.next_index)
        assert indexes_of(plan.header.save.ranges) == saved
        looked_at = {model.messages[index].log_index for index in saved}
        assert set(plan.log_indexes) == looked_at - stored
        assert len(looked_at) <= records
        assert len(plan.header.save.ranges) <= pieces
        stored.update(plan.log_indexes)
        driver.order(plan.header)

    def note_body(self, op: record_pb2.EnqueueOp, persistence: Sequence[int]) -> None:
        """Of the last record: its senders' marks, and whether its body is on disk."""
        self.marks[self.driver.log_index] = persistence
        if not op.volatiles or not min(op.volatiles):
            self.stored.add(self.driver.log_index)

    @invariant()
    def same_as_the_model(self) -> None:
        for name, model in self.queues.items():
            info = self.driver.info(name)
            assert (info.length, info.ready) == (len(model.messages), len(model.ready()))
            assert info.blocked == len(model.blocked())
            assert info.delayed == len(model.waiting()) - len(model.droppable())
            assert info.leased == len(model.messages) - len(model.unleased())
            assert info.dying == len(model.dying())
            assert info.volatile_length == sum(message.volatile for message in model.messages.values())
            assert (info.bytes, info.last_index) == (model.bytes(), model.next_index - 1)
            assert self.driver.browse(name) == [index for index in sorted(model.messages) if model.visible(index)]
            queue_id = self.driver.master.queue_id(name)
            assert queue_id is not None
            ready = any(model.visible(index) for index in model.ready())
            assert self.driver.master.has_ready(queue_id) == ready
            live = model.live()
            assert all(self.driver.master.live(log, queue_id) for log in live)
            for above in (0, *live):
                following = min((log for log in live if log > above), default=None)
                assert self.driver.master.next_record(queue_id, above) == following

    @invariant()
    def each_record_is_alive_in_one_place(self) -> None:
        """A transfer sends it once, among those of a queue that has messages of it."""
        given = list(self.driver.master.live_log_indexes())
        live = {log for model in self.queues.values() for log in model.live()}
        assert sorted(log for _, log in given) == sorted(live)
        of_queue = {self.driver.master.queue_id(name): model.live() for name, model in self.queues.items()}
        assert all(log in of_queue[queue_id] for queue_id, log in given)

    @invariant()
    def each_message_is_in_one_place(self) -> None:
        for name, model in self.queues.items():
            assert places_of(self.driver, name) == sorted(model.messages)

    @invariant()
    def records_are_freed_when_their_last_message_is_gone(self) -> None:
        live = set().union(*(model.live() for model in self.queues.values()))
        enqueues = {at for at, (_, header) in enumerate(self.driver.headers, 1) if puts_some(header)}
        assert len(self.driver.freed) == len(set(self.driver.freed))
        assert set(self.driver.freed) == enqueues - live

    @invariant()
    def the_next_end_is_known(self) -> None:
        ends = [end for model in self.queues.values() for end in model.next_due_ms()]
        assert next_due_ms(self.driver.master.state) == min(ends, default=None)
        assert not ends or plan_expire(self.driver.master.state, min(ends)) is not None

    def teardown(self) -> None:
        """Recovery: the records alone give the same state."""
        again = Machine(7, MEMBERS, self.driver.limits)
        for log_index, (epoch, header) in enumerate(self.driver.headers, 1):
            again.apply(log_index, epoch, header)
        assert again.digest() == self.driver.master.digest()


class More(Comparison):
    """The same, over more examples."""


Comparison.TestCase.settings = profiles.of(150, stateful_step_count=50)
More.TestCase.settings = profiles.of(500, stateful_step_count=50)
# A failure is worth the minutes that it takes to make it small.
TestMachineIsTheModel = pytest.mark.slow(pytest.mark.timeout(600)(Comparison.TestCase))
TestMachineIsTheModelInMoreExamples = pytest.mark.long(pytest.mark.slow(pytest.mark.timeout(900)(More.TestCase)))
