"""Queues with lockstep SELECTED in the machine: what is the k-th (K3), what touches it (K5), and when it goes (K6)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from replica.core.replication.sync_source import FRAME_BYTES_MAX
from replica.machine import Machine, MoveCall, RemoveCall, columns_of
from replica.machine.plan.lease import deliverable
from replica.machine.plan.move import plan_move, plan_remove
from replica.machine.plan.selecting import PART_COST, RANGES_MAX, SELECTED_MAX, TIMED_MAX, plan_select
from replica.machine.plan.sides import READY_MAX, next_given, plan_given, plan_lost, plan_passed
from replica.machine.plan.sides import plan_side as side_of
from replica.machine.plan.time import plan_expire
from replica.machine.state.lockstep import SideOf
from replica.machine.state.queue import QueueState
from replica.machine.state.segments import Part
from replica.machine.state.selection import SideOrder
from replica.machine.views import queue_info
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1 import queue_service_pb2 as service_pb2
from tests.unit.replica.machine.driver import Driver, batch_of, indexes_of

PRODUCER, SELECTED = admin_pb2.REPLICATION_PRODUCER, admin_pb2.LOCKSTEP_SELECTED
BAD, CONFIG = common_pb2.REASON_BAD_ATTRIBUTE, common_pb2.REASON_CONFIG_ERROR
OF = SideOf(7, b"h" * 16, 1)
LOW, HIGH = 1, 9
FINAL = service_pb2.FINAL_STATE_PURGED


def pair(**attributes: Any) -> Driver:
    made = Driver()
    made.create(replication=PRODUCER, lockstep=SELECTED, **attributes)
    return made


@pytest.fixture
def driver() -> Driver:
    """The pair's domain, with a queue whose sides are given what the master selects."""
    return pair()


def queue_of(driver: Driver) -> QueueState:
    return driver.master.state.named("q")


def selection_of(driver: Driver) -> SideOrder:
    selection = queue_of(driver).selection
    assert selection is not None
    return selection


def select(driver: Driver, until: int) -> list[int]:
    """What a side that asks up to there brings about."""
    header = driver.plan(lambda: plan_select(driver.master.state, driver.now_ms, queue_of(driver), until, None))
    if header is None:
        return []
    driver.order(header)
    return indexes_of(header.select.ranges)


def sequence(driver: Driver) -> list[int]:
    """Indexes by k, of what no side has passed yet."""
    known = selection_of(driver)
    return [index for _, start, end in known.runs(1, known.following) for index in range(start, end)]


def begin(own: Driver, driver: Driver, member: str = "a") -> None:
    own.order(own.plan(lambda: side_of(own.master.state, own.now_ms, OF, queue_of(driver), member)))


def give(own: Driver, driver: Driver, of: Machine | None = None) -> int:
    """How many messages the side is given now, as that machine knows the pair's queue."""
    queue, side = (of or driver.master).state.named("q"), own.master.state.named("SYSTEM.SIDE/q")
    given = next_given(queue, side)
    if given is None:
        return 0
    own.order(own.plan(lambda: plan_given(own.master.state, own.now_ms, side, given)))
    return given.count


def mark(driver: Driver, **marks: int) -> None:
    header = driver.plan(lambda: plan_passed(driver.master.state, driver.now_ms, queue_of(driver), marks))
    assert header is not None
    driver.order(header)


def send(driver: Driver, *priorities: int, **more: Any) -> None:
    driver.enqueue(batch_of([10] * len(priorities), priorities, **more))


def test_k3_the_highest_priority_is_selected_first_and_stays_the_k_th(driver: Driver) -> None:
    """Example 12, without a takeover: L is k = 1; H arrives; whoever asks next is given H as k = 2."""
    send(driver, LOW)
    assert select(driver, 1) == [1]
    send(driver, HIGH, 4, HIGH)
    assert select(driver, 4) == [2, 4, 3]
    assert sequence(driver) == [1, 2, 4, 3]


def test_k3_a_question_that_comes_again_selects_nothing_twice(driver: Driver) -> None:
    send(driver, *[4] * 6)
    assert select(driver, 4) == [1, 2, 3, 4]
    assert select(driver, 4) == select(driver, 3) == []
    assert select(driver, 5) == [5]


@pytest.mark.parametrize("runs", [[(2, 1), (1, 1), (3, 1)], [(3, 1), (1, 2)], [(1, 3)]])
def test_a_record_takes_what_it_names_in_any_order(driver: Driver, runs: list[tuple[int, int]]) -> None:
    """Whatever another release made of it: neighbours of different priorities as one run, too."""
    send(driver, LOW, HIGH, 4)
    ranges = [common_pb2.IndexRange(first=first, count=count) for first, count in runs]
    op = record_pb2.SelectOp(queue_id=queue_of(driver).queue_id, first=1, ranges=ranges)
    driver.order(record_pb2.RecordHeader(time_ms=driver.now_ms, select=op))
    assert sequence(driver) == [index for first, count in runs for index in range(first, first + count)]
    assert not queue_of(driver).has_ready()


def test_the_number_that_may_wait_at_a_side_cuts_no_record_of_what_is_selected(driver: Driver) -> None:
    """It comes whole with the next ones."""
    own, third = Driver(), READY_MAX // 3
    begin(own, driver)
    for _ in range(4):
        driver.send(third)
    while select(driver, 4 * third):
        pass
    assert give(own, driver) == third * 3
    own.lease(third * 3, name="SYSTEM.SIDE/q")
    assert give(own, driver) == third


def test_k3_one_record_selects_several_up_to_a_limit(driver: Driver) -> None:
    for _ in range(SELECTED_MAX // 1_000 + 1):
        driver.send(1_000)
    assert len(select(driver, SELECTED_MAX + 500)) == SELECTED_MAX
    assert len(select(driver, SELECTED_MAX + 500)) == 500


def test_k3_a_selection_is_valid_when_it_is_committed(driver: Driver) -> None:
    """A member whose commit index is below the record gives its side nothing of it."""
    own = Driver()
    begin(own, driver)
    send(driver, 4, 4)
    driver.replica.commit(driver.log_index)
    driver.commits = False
    assert select(driver, 2) == [1, 2]
    assert give(own, driver) == 0
    driver.commit()
    assert give(own, driver, of=driver.replica) == 0, "it knows less"
    assert give(own, driver) == 2


def test_k3_what_is_not_committed_is_not_selected(driver: Driver) -> None:
    driver.commits = False
    send(driver, HIGH)
    assert select(driver, 5) == []
    driver.commit()
    assert select(driver, 5) == [1]


def test_k3_a_restored_state_knows_what_is_committed(driver: Driver) -> None:
    send(driver, 4, HIGH, LOW)
    select(driver, 1)
    driver.commits = False
    select(driver, 3)
    known = Machine.restore(driver.master.snapshot(), ("a", "b"))
    selection = known.state.named("q").selection
    assert selection is not None
    assert (selection.visible, selection.following) == (1, 4)
    known.commit(driver.log_index)
    assert selection.visible == 3


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"retry_delay_min": {"seconds": 1}}, BAD),
        ({"max_deliveries": 3}, BAD),
        ({"dead_letter_queue": "dead"}, BAD),
        ({"persistence": admin_pb2.PERSISTENCE_VOLATILE}, BAD),
        ({"queue_type": admin_pb2.QUEUE_TYPE_TWO_WAY}, BAD),
        ({"group_mode": admin_pb2.GROUP_MODE_ORDERED}, CONFIG),
        ({"group_mode": admin_pb2.GROUP_MODE_COMPLETE}, CONFIG),
        ({"default_settle": service_pb2.SETTLE_MODE_IMMEDIATE}, CONFIG),
        ({"max_consumers": 2}, CONFIG),
    ],
)
def test_k4_what_would_act_at_one_side_alone_is_refused(attributes: Any, reason: int) -> None:
    refused = Driver().refusal(lambda: pair(**attributes))
    assert (refused.reason, refused.metadata["attribute"]) == (reason, next(iter(attributes)))


def test_k3_lockstep_cannot_be_changed(driver: Driver) -> None:
    config = admin_pb2.QueueConfig(lockstep=admin_pb2.LOCKSTEP_PLAIN)
    changed = driver.refusal(lambda: driver.queue(record_pb2.QUEUE_ACTION_UPDATE, config=config, mask=["lockstep"]))
    assert changed.reason == common_pb2.REASON_READ_ONLY


def test_k5_expiry_touches_only_what_is_not_selected() -> None:
    driver = pair(default_ttl={"seconds": 1})
    send(driver, 4, 4, 4)
    select(driver, 1)
    driver.now_ms += 2_000
    header = driver.plan(lambda: plan_expire(driver.master.state, driver.now_ms))
    assert header is not None
    driver.order(header)
    assert sequence(driver) == [1]
    assert queue_of(driver).length == 1
    assert queue_of(driver).totals.expired == 2


def test_k5_what_has_expired_is_not_selected_before_its_record(driver: Driver) -> None:
    send(driver, 4, 4, ttls_ms=[1_000, 9_000])
    driver.now_ms += 2_000
    assert select(driver, 5) == [2]


def test_k5_a_delayed_message_is_selected_once_its_time_has_come(driver: Driver) -> None:
    send(driver, HIGH, LOW, delays_ms=[1_000, 0])
    assert select(driver, 5) == [2]
    driver.now_ms += 2_000
    driver.order(driver.plan(lambda: plan_expire(driver.master.state, driver.now_ms)))
    assert select(driver, 5) == [1]
    assert sequence(driver) == [2, 1]


def test_k5_drop_head_drops_only_what_is_not_selected() -> None:
    driver = pair(overflow=admin_pb2.OVERFLOW_DROP_HEAD, max_length=3)
    send(driver, LOW, LOW, LOW)
    select(driver, 1)
    send(driver, 4, 4)
    assert (queue_of(driver).totals.dropped, queue_of(driver).length) == (2, 3)
    select(driver, 3)
    assert sequence(driver) == [1, 4, 5]
    refused = driver.enqueue(batch_of([10]), client_id=b"another").refusals
    assert [each.reason for each in refused] == [common_pb2.REASON_QUEUE_FULL], "all of it is selected"


def test_k5_a_purge_leaves_what_is_selected(driver: Driver) -> None:
    send(driver, 4, HIGH, 4)
    select(driver, 1)
    driver.queue(record_pb2.QUEUE_ACTION_PURGE)
    assert sequence(driver) == [2]
    assert queue_of(driver).length == 1


def test_k5_an_operator_removes_and_moves_only_what_is_not_selected(driver: Driver) -> None:
    driver.create("to")
    send(driver, 4, 4, 4)
    select(driver, 1)
    state, number = driver.master.state, queue_of(driver).queue_id
    driver.order(driver.plan(lambda: plan_remove(state, driver.now_ms, RemoveCall(number, [2]))))
    columns = columns_of(batch_of([10]))
    driver.order(driver.plan(lambda: plan_move(state, driver.now_ms, MoveCall(number, "to", [3], columns, FINAL))))
    for call in (
        lambda: plan_remove(state, driver.now_ms, RemoveCall(number, [1])),
        lambda: plan_move(state, driver.now_ms, MoveCall(number, "to", [1], columns, FINAL)),
    ):
        assert driver.refusal(call).reason == common_pb2.REASON_MESSAGE_NOT_FOUND
    assert sequence(driver) == [1]


def test_k6_a_message_goes_when_both_sides_have_passed_its_number(driver: Driver) -> None:
    send(driver, LOW, 4, HIGH, 4)
    select(driver, 4)
    mark(driver, a=3, b=1)
    assert queue_of(driver).length == 3, "k = 1, which is index 3, is gone"
    assert sequence(driver) == [2, 4, 1]
    mark(driver, b=4, a=4)
    assert queue_of(driver).length == 0
    assert driver.freed
    assert not queue_of(driver).leases
    send(driver, 4)
    assert select(driver, 5) == [5]
    assert selection_of(driver).following == 6


def test_k6_a_mark_beyond_what_is_committed_counts_up_to_there(driver: Driver) -> None:
    send(driver, 4, 4)
    select(driver, 1)
    driver.commits = False
    select(driver, 2)
    mark(driver, a=2)
    assert queue_of(driver).passed == {"a": 1, "b": 0}


def test_k6_a_side_that_has_lost_its_place_holds_nothing_back_and_begins_behind_a_number(driver: Driver) -> None:
    send(driver, LOW, 4, HIGH, 4)
    select(driver, 3)
    mark(driver, a=2)
    queue = queue_of(driver)
    driver.order(driver.plan(lambda: plan_lost(driver.master.state, driver.now_ms, queue, {"b": "it was away"})))
    assert sequence(driver) == [4]
    assert queue.lost["b"].until == 2
    refused = driver.refusal(lambda: driver.queue(record_pb2.QUEUE_ACTION_RESTART_SIDE, member="b", after=4))
    assert (refused.metadata["first_index"], refused.metadata["last_index"]) == ("3", "3")
    driver.queue(record_pb2.QUEUE_ACTION_RESTART_SIDE, member="b")
    assert (queue.passed or {})["b"] == 2


def test_an_instance_that_is_destroyed_takes_what_it_alone_has_held_back(driver: Driver) -> None:
    send(driver, LOW, HIGH)
    select(driver, 2)
    mark(driver, a=1)
    driver.queue(record_pb2.QUEUE_ACTION_DESTROY, member="b")
    assert sequence(driver) == [1]


def test_a_side_is_given_numbers_and_the_sizes_of_its_messages(driver: Driver) -> None:
    own = Driver()
    begin(own, driver)
    driver.enqueue(batch_of([10, 20, 30], [LOW, 4, HIGH]))
    select(driver, 2)
    assert give(own, driver) == 2
    side = own.master.state.named("SYSTEM.SIDE/q")
    assert (side.next_index, side.length) == (3, 2)
    assert not side.config.HasField("default_ttl")


def test_what_is_selected_is_among_the_leased_ones_for_operators(driver: Driver) -> None:
    send(driver, LOW, 4, HIGH)
    select(driver, 2)
    info = queue_info(queue_of(driver), "a")
    assert (info.length, info.ready, info.leased, info.last_selected) == (3, 1, 2, 2)


def test_nothing_is_selected_where_nobody_may_receive(driver: Driver) -> None:
    send(driver, 4)
    driver.queue(record_pb2.QUEUE_ACTION_UPDATE, config=admin_pb2.QueueConfig(dequeue_enabled=False))
    assert select(driver, 5) == []


def test_a_takeover_leaves_the_selection_as_it_is(driver: Driver) -> None:
    send(driver, LOW, HIGH)
    select(driver, 1)
    role = record_pb2.RoleOp(owner="b")
    driver.order(record_pb2.RecordHeader(time_ms=driver.now_ms, role=role))
    assert sequence(driver) == [2]
    assert select(driver, 2) == [1]


def test_one_record_has_so_many_ranges_at_most_where_no_neighbours_have_the_same_priority(driver: Driver) -> None:
    """What a turn of each member looks at is bounded, and so is the record: the next one goes on behind it."""
    batches = RANGES_MAX // 1_000 + 1
    for _ in range(batches):
        driver.enqueue(batch_of([10] * 1_000, [number % 2 + 1 for number in range(1_000)]))
    high = [index for index in range(1, batches * 1_000 + 1) if index % 2 == 0]
    low = [index for index in range(1, batches * 1_000 + 1) if index % 2]
    assert select(driver, SELECTED_MAX) == (high + low)[:RANGES_MAX]
    assert select(driver, SELECTED_MAX) == (high + low)[RANGES_MAX:]


class Watched:
    """Everything that is ready, and how many parts of it were looked at."""

    def __init__(self) -> None:
        self.parts = 0

    def narrow(self, queue: QueueState, applied_index: int) -> Iterator[Part]:
        del applied_index
        for part in deliverable(queue):
            self.parts += 1
            yield part


def looked_at(driver: Driver) -> Watched:
    """In a turn."""
    watched = Watched()
    plan_select(driver.master.state, driver.now_ms, queue_of(driver), SELECTED_MAX, watched)
    return watched


def test_a_turn_looks_at_so_many_parts_of_the_queue_at_most(driver: Driver) -> None:
    for _ in range(2 * RANGES_MAX // 1_000):
        driver.enqueue(batch_of([10] * 1_000, [number % 2 + 1 for number in range(1_000)]))
    assert looked_at(driver).parts == RANGES_MAX


def test_a_turn_looks_at_so_much_where_all_of_it_has_expired_and_goes_on_once_that_has_ended(driver: Driver) -> None:
    cost = 1_000 + PART_COST
    for _ in range(TIMED_MAX // cost + 5):
        driver.enqueue(batch_of([10] * 1_000, ttls_ms=[1 + number % 2 for number in range(1_000)]))
    send(driver, LOW)
    driver.now_ms += 3
    assert TIMED_MAX <= looked_at(driver).parts * cost < TIMED_MAX + cost
    assert select(driver, SELECTED_MAX) == []
    while (header := driver.plan(lambda: plan_expire(driver.master.state, driver.now_ms))) is not None:
        driver.order(header)
    assert select(driver, SELECTED_MAX) == [queue_of(driver).next_index - 1]


def test_a_turn_looks_at_so_many_parts_where_all_of_them_have_expired() -> None:
    driver = pair(default_ttl={"seconds": 1})
    for _ in range(TIMED_MAX // PART_COST // 1_000 + 1):
        send(driver, *[number % 2 + 1 for number in range(1_000)])
    driver.now_ms += 2_000
    assert looked_at(driver).parts == TIMED_MAX // PART_COST


def test_one_record_has_so_many_ranges_at_most_where_every_other_message_has_expired(driver: Driver) -> None:
    """They are of few parts of the queue, which do not bound them."""
    count = RANGES_MAX * 2 + 1_000
    for _ in range(count // 1_000):
        driver.enqueue(batch_of([10] * 1_000, ttls_ms=[number % 2 for number in range(1_000)]))
    driver.now_ms += 2
    left = list(range(1, count, 2))
    assert select(driver, SELECTED_MAX) == left[:RANGES_MAX]
    assert select(driver, SELECTED_MAX) == left[RANGES_MAX:]


def test_a_record_of_the_most_ranges_is_far_below_a_frame_of_the_peer_hop(driver: Driver) -> None:
    """At the highest indexes too: what is sent there is gathered up to 2 MiB."""
    ranges = [common_pb2.IndexRange(first=(1 << 64) - 1, count=SELECTED_MAX)] * RANGES_MAX
    op = record_pb2.SelectOp(queue_id=(1 << 32) - 1, first=(1 << 63), ranges=ranges)
    assert len(record_pb2.RecordHeader(select=op).SerializeToString()) <= 40_000 < FRAME_BYTES_MAX
