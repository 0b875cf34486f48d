"""R153: a change of the persistence reaches the messages that are there, in bounded parts, the same on both members."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest

from replica.machine import Bodies, SaveLimits, SavePlan
from replica.machine.plan.save import plan_save
from replica.machine.state.queue import QueueState
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_DELETE, QUEUE_ACTION_PURGE, QUEUE_ACTION_UPDATE, RecordHeader
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.unit.replica.machine.driver import Driver, batch_of, indexes_of, ranges_of

PERSISTENT, VOLATILE = admin_pb2.PERSISTENCE_PERSISTENT, admin_pb2.PERSISTENCE_VOLATILE
CONDITIONAL = admin_pb2.PERSISTENCE_CONDITIONAL
WIDE = SaveLimits(1_000, 1 << 20)


class Queue:
    """One queue, and the bodies that its master has in memory: those of records with no persistent message."""

    def __init__(self, persistence: admin_pb2.Persistence) -> None:
        self.driver = Driver()
        self.driver.create(persistence=persistence)
        self.bodies: dict[int, Sequence[int]] = {}
        self.stored: set[int] = set()
        self.marks: dict[int, Sequence[int]] = {}
        self.read = 0
        """Bodies, for their marks."""
        self.saves: list[SavePlan] = []

    def send(self, *marks: int, count: int = 1) -> int:
        """A batch with these marks, or so many messages without any; says its log index."""
        op = self.driver.enqueue(batch_of([10] * (len(marks) or count), persistence=marks))
        log_index = self.driver.log_index
        self.marks[log_index] = marks
        if op.volatiles and min(op.volatiles) == 1:
            self.bodies[log_index] = marks
        else:
            self.stored.add(log_index)
        return log_index

    def change(self, persistence: admin_pb2.Persistence) -> RecordHeader:
        config = admin_pb2.QueueConfig(persistence=persistence)
        return self.driver.queue(QUEUE_ACTION_UPDATE, config=config, mask=["persistence"])

    def plan(self, limits: SaveLimits = WIDE) -> SavePlan | None:
        def size_of(log_index: int) -> int | None:
            return 100 if log_index in self.bodies else None

        def marks_of(log_index: int) -> Sequence[int]:
            self.read += 1
            return self.marks[log_index]

        asked = Bodies(size_of, self.stored.__contains__, marks_of)
        driver = self.driver
        plan: SavePlan | None = driver.plan(lambda: plan_save(driver.master.state, 1, driver.now_ms, asked, limits))
        return plan

    def save(self, limits: SaveLimits = WIDE) -> SavePlan | None:
        plan = self.plan(limits)
        if plan is not None:
            self.driver.order(plan.header)
            self.saves.append(plan)
            for log_index in plan.log_indexes:
                self.stored.add(log_index)
                del self.bodies[log_index]
        return plan

    def save_all(self, limits: SaveLimits = WIDE) -> list[list[int]]:
        """Log indexes that each record names."""
        found = []
        while (plan := self.save(limits)) is not None:
            assert plan.log_indexes == indexes_of(plan.header.save.bodies)
            found.append(plan.log_indexes)
        return found

    @property
    def state(self) -> QueueState:
        return self.driver.master.queue(1)

    @property
    def volatile(self) -> list[int]:
        return [index for start, end in self.state.volatile for index in range(start, end)]


@pytest.mark.requirement("R153")
def test_r153_what_is_volatile_becomes_persistent() -> None:
    queue = Queue(VOLATILE)
    logs = [queue.send(count=3), queue.send(count=2)]
    header = queue.change(PERSISTENT)
    assert (header.queue.save_below, header.queue.save_marked) == (6, False)
    assert queue.driver.info().config.persistence == PERSISTENT
    assert queue.volatile == [1, 2, 3, 4, 5]
    assert queue.driver.info().saving
    assert queue.driver.info().volatile_length == 5
    queue.send(count=1)
    assert queue.save_all() == [logs]
    assert queue.volatile == []
    assert not queue.driver.info().saving
    assert not queue.driver.master.state.saving


@pytest.mark.requirement("R153")
@pytest.mark.parametrize(
    ("before", "after", "saved"),
    [
        (VOLATILE, PERSISTENT, [1, 2, 3]),
        (VOLATILE, CONDITIONAL, [2]),
        (CONDITIONAL, PERSISTENT, [1, 3]),
        (CONDITIONAL, VOLATILE, []),
        (PERSISTENT, VOLATILE, []),
        (PERSISTENT, CONDITIONAL, []),
    ],
    ids=["V-P", "V-C", "C-P", "C-V", "P-V", "P-C"],
)
def test_r153_each_direction_saves_what_its_new_rule_saves(
    before: admin_pb2.Persistence, after: admin_pb2.Persistence, saved: list[int]
) -> None:
    queue = Queue(before)
    for mark in (0, 2, 1):
        queue.send(mark)
    volatile = queue.volatile
    assert bool(queue.change(after).queue.save_below) is bool(saved)
    queue.save_all()
    assert sorted(index for plan in queue.saves for index in indexes_of(plan.header.save.ranges)) == saved
    assert queue.volatile == [index for index in volatile if index not in saved]
    queue.send(0)
    assert (4 in queue.volatile) is (after != PERSISTENT)


def test_of_a_batch_with_both_only_the_marked_ones_are_saved() -> None:
    queue = Queue(VOLATILE)
    log_index = queue.send(2, 1, 0, 2)
    queue.change(CONDITIONAL)
    assert queue.save_all() == [[log_index]]
    assert queue.volatile == [2, 3]


def test_a_mixed_batch_is_on_disk_already() -> None:
    queue = Queue(CONDITIONAL)
    queue.send(2, 1)
    queue.change(PERSISTENT)
    assert queue.save_all() == [[]]
    assert queue.volatile == []


def test_a_part_is_bounded_by_records_and_by_bytes() -> None:
    queue = Queue(VOLATILE)
    logs = [queue.send() for _ in range(7)]
    queue.change(PERSISTENT)
    assert queue.save(SaveLimits(3, 1 << 20)).log_indexes == logs[:3]  # type: ignore[union-attr]
    assert queue.state.unsaved == (4, 8, False)
    assert queue.volatile == [4, 5, 6, 7]
    assert queue.save_all(SaveLimits(1_000, 250)) == [logs[3:5], logs[5:]]


def test_a_body_larger_than_a_part_is_a_part() -> None:
    queue = Queue(VOLATILE)
    logs = [queue.send() for _ in range(2)]
    queue.change(PERSISTENT)
    assert queue.save_all(SaveLimits(10, 1)) == [[log] for log in logs]


def test_a_record_of_several_runs_is_written_once() -> None:
    queue = Queue(VOLATILE)
    log_index = queue.send(count=5)
    lease_id, _ = queue.driver.lease(5)
    queue.driver.ack(lease_id, (2, 2), (4, 4))
    queue.change(PERSISTENT)
    assert queue.save_all(SaveLimits(1, 1)) == [[log_index]]
    assert queue.volatile == []


def test_a_part_is_bounded_by_its_ranges_and_ends_in_the_middle_of_a_record() -> None:
    """A batch with both marks is on disk: it adds no bytes, and each of its messages is a range of its own."""
    queue = Queue(CONDITIONAL)
    for _ in range(2):
        queue.send(*[2, 1] * 5)
    queue.change(PERSISTENT)
    assert queue.save_all(SaveLimits(1_000, 1 << 20, 4)) == [[], [], []]
    assert [indexes_of(plan.header.save.ranges) for plan in queue.saves] == [[2, 4, 6, 8], [10, 12, 14, 16], [18, 20]]
    assert queue.volatile == []


def test_messages_that_are_looked_at_one_by_one_are_bounded_too() -> None:
    queue = Queue(VOLATILE)
    log_index = queue.send(1, 1, 1, 2, 2, 1, 2)
    queue.change(CONDITIONAL)
    assert queue.save_all(SaveLimits(1_000, 1 << 20, 2)) == [[], [log_index], [], []], "written once"
    assert [plan.header.save.next_index for plan in queue.saves] == [3, 5, 7, 8]
    assert queue.volatile == [1, 2, 3, 6]


def test_the_marks_of_a_batch_are_read_once_however_much_of_it_is_gone() -> None:
    queue = Queue(VOLATILE)
    queue.send(*[2] * 9)
    lease_id, _ = queue.driver.lease(9)
    queue.driver.ack(lease_id, (2, 2), (4, 4), (6, 6), (8, 8))
    queue.change(CONDITIONAL)
    queue.save()
    assert queue.read == 1
    assert queue.volatile == []


def test_bodies_on_disk_that_are_read_for_their_marks_count_as_bytes() -> None:
    queue = Queue(CONDITIONAL)
    for _ in range(4):
        queue.send(2, 1, count=2)
    queue.change(VOLATILE)
    queue.change(CONDITIONAL)
    queue.save_all(SaveLimits(1_000, 40))
    assert [plan.header.save.next_index for plan in queue.saves] == [6, 9], "two of 20 bytes each"


def test_what_is_consumed_meanwhile_needs_no_saving() -> None:
    queue = Queue(VOLATILE)
    logs = [queue.send() for _ in range(4)]
    queue.change(PERSISTENT)
    queue.save(SaveLimits(1, 1))
    lease_id, _ = queue.driver.lease(3)
    queue.driver.ack(lease_id, (1, 3))
    assert queue.save_all() == [[logs[3]]]


def test_a_copy_of_what_is_to_become_persistent_is_persistent() -> None:
    """Of a move: it takes the promise along."""
    queue = Queue(VOLATILE)
    for _ in range(3):
        queue.send(1)
    queue.change(CONDITIONAL)
    queue.save(SaveLimits(1, 1))
    found = [[queue.state.copy_is_volatile(index, marked=marked) for index in (1, 2)] for marked in (False, True)]
    assert found == [[True, True], [True, False]], "the first one was looked at: its mark is known"
    queue.change(PERSISTENT)
    queue.send(1)
    queue.change(VOLATILE)
    queue.send(1)
    assert [queue.state.copy_is_volatile(index, marked=False) for index in (1, 2, 4, 5)] == [False, False, False, True]


def test_purged_and_deleted_queues_are_done() -> None:
    queue = Queue(VOLATILE)
    queue.send(count=3)
    queue.change(PERSISTENT)
    queue.driver.queue(QUEUE_ACTION_PURGE)
    assert queue.save_all() == [[]]
    queue.change(VOLATILE)
    queue.send()
    queue.change(PERSISTENT)
    queue.driver.queue(QUEUE_ACTION_DELETE)
    assert tuple(queue.driver.master.state.saving) == tuple(queue.driver.replica.state.saving) == ()
    assert queue.plan() is None


def test_a_later_change_takes_nothing_back_from_an_earlier_one() -> None:
    queue = Queue(VOLATILE)
    queue.send(count=2)
    queue.change(PERSISTENT)
    queue.change(VOLATILE)
    queue.send(2)
    assert queue.state.unsaved == (1, 3, False)
    queue.change(CONDITIONAL)
    assert queue.state.unsaved == (1, 4, False), "all of it, for that was promised first"
    queue.save_all()
    assert queue.volatile == []


def test_a_restart_goes_on_where_the_records_end() -> None:
    queue = Queue(VOLATILE)
    for _ in range(3):
        queue.send()
    queue.change(PERSISTENT)
    queue.save(SaveLimits(1, 1))
    again = queue.driver.restored()
    assert tuple(again.state.saving) == (1,)
    assert again.queue(1).unsaved == queue.state.unsaved == (2, 4, False)
    assert again.digest() == queue.driver.master.digest()


def test_a_body_that_is_nowhere_is_named_and_stays_volatile() -> None:
    queue = Queue(VOLATILE)
    logs = [queue.send() for _ in range(3)]
    queue.change(PERSISTENT)
    del queue.bodies[logs[1]]
    plan = queue.save()
    assert plan is not None
    assert plan.lost == [logs[1]]
    assert queue.volatile == [2]
    assert queue.state.unsaved is None


def test_an_update_of_something_else_saves_nothing() -> None:
    queue = Queue(VOLATILE)
    queue.send()
    config = admin_pb2.QueueConfig(annotation="x")
    assert not queue.driver.queue(QUEUE_ACTION_UPDATE, config=config, mask=["annotation"]).queue.save_below


def test_ordinals_of_a_batch_with_refused_entries() -> None:
    """The marks stand by their place in the batch, of which a full queue took a part."""
    queue = Queue(VOLATILE)
    config = admin_pb2.QueueConfig(max_message_bytes=15)
    queue.driver.queue(QUEUE_ACTION_UPDATE, config=config, mask=["max_message_bytes"])
    queue.driver.enqueue(batch_of([10, 20, 10, 10], persistence=[1, 1, 2, 1]))
    queue.bodies[queue.driver.log_index] = queue.marks[queue.driver.log_index] = array("B", [1, 1, 2, 1])
    queue.change(CONDITIONAL)
    queue.save_all()
    assert queue.saves[0].header.save.ranges == ranges_of((2, 2))
