"""group_mode COMPLETE (V19): a group waits until it is whole, and is delivered in the order of its sequences."""

from __future__ import annotations

import random
from typing import Any

import pytest

from replica.machine.plan.lock import LockCall, plan_lock
from replica.machine.state.gathering import UNGATHERED
from replica.machine.state.limits import Limits
from replica.machine.state.state import REASONS_MAX
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2, queue_service_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1.queue_service_pb2 import Settlement
from tests.unit.replica.machine.driver import REJECT, RELEASE, Driver, batch_of, ranges_of

COMPLETE, ORDERED = admin_pb2.GROUP_MODE_COMPLETE, admin_pb2.GROUP_MODE_ORDERED
UPDATE = record_pb2.QUEUE_ACTION_UPDATE
MISMATCH, QUOTA = common_pb2.REASON_GROUP_MISMATCH, common_pb2.REASON_QUOTA_EXCEEDED


def complete(limits: Limits | None = None, **attributes: Any) -> Driver:
    driver = Driver(limits=limits) if limits is not None else Driver()
    driver.create(group_mode=COMPLETE, **attributes)
    return driver


def send(driver: Driver, words: str, **columns: Any) -> Any:
    """Words as a2, or a3! for the last of its group; a dot has no group, and a alone no sequence."""
    rows = [(word[0].strip("."), word.rstrip("!")[1:] or 0, word.endswith("!")) for word in words.split()]
    return driver.enqueue(
        batch_of(
            [1] * len(rows),
            group_ids=[group for group, _, _ in rows],
            group_sequences=[int(sequence) for _, sequence, _ in rows],
            lasts_in_group=[last for _, _, last in rows],
            **columns,
        )
    )


def refused(op: Any) -> list[tuple[int, int]]:
    return [(refusal.ordinal, refusal.reason) for refusal in op.refusals]


def in_order(driver: Driver) -> list[int]:
    """Indexes as they are delivered when each is acknowledged before the next is taken."""
    found = []
    while True:
        lease_id, indexes = driver.lease(1)
        if not indexes:
            return found
        found += indexes
        driver.ack(lease_id, (indexes[0], indexes[0]))


def test_v19_nothing_is_delivered_before_the_group_is_whole():
    driver = complete()
    send(driver, "a2 a3! .")
    assert driver.lease()[1] == [3]
    assert (driver.info().blocked, driver.info().groups_gathering) == (2, 1)
    send(driver, "b1! a1")
    assert driver.info().groups_gathering == 0
    assert driver.lease()[1] == [4, 5]


def test_v19_a_whole_group_is_delivered_by_sequence_one_at_a_time():
    driver = complete()
    send(driver, "a3 a1 a5! a4 a2")
    assert in_order(driver) == [2, 5, 1, 4, 3]
    assert driver.info().length == 0


def test_v19_one_that_is_given_back_comes_first_again():
    driver = complete()
    send(driver, "a2! a1")
    lease_id, indexes = driver.lease()
    assert indexes == [2]
    driver.outcome(RELEASE, lease_id, (2, 2))
    assert in_order(driver) == [2, 1]


@pytest.mark.parametrize(
    ("there", "sent", "out"),
    [
        ("a1", "a1", [0]),  # there already
        ("a1 a3!", "a4", [0]),  # beyond the last
        ("a1 a3!", "a2!", [0]),  # a second last one
        ("a3", "a2!", [0]),  # the last, below one that is there
        ("a1!", "a2", [0]),  # the group is whole
        ("a1", "a", [0]),  # no place
        ("a1", ".1", [0]),  # a place in no group
        ("a1", ".! .", [0]),  # the last of no group
        ("a1", "b2 b2 b1! b3 b", [1, 2, 4]),  # each against those before it in its batch
        ("a1", "a3 a2! a4! a5", [1, 3]),
    ],
)
def test_v19_what_does_not_fit_its_group_is_refused_by_name(there: str, sent: str, out: list[int]):
    driver = complete()
    assert refused(send(driver, there)) == []
    assert refused(send(driver, sent)) == [(ordinal, MISMATCH) for ordinal in out]


def test_v19_a_group_that_was_delivered_may_come_again_under_its_name():
    driver = complete()
    send(driver, "a1 a2!")
    assert in_order(driver) == [1, 2]
    assert refused(send(driver, "a1!")) == []
    assert in_order(driver) == [3]


def test_v19_a_sequence_that_no_queue_of_that_length_could_hold_is_refused():
    driver = complete(max_length=3)
    assert refused(send(driver, "a4! a3! a1")) == [(0, MISMATCH)]
    assert refused(send(driver, "a2")) == []
    assert in_order(driver) == [2, 3, 1]


def test_v19_limits_are_named():
    driver = complete(Limits(groups_max=2, group_members_max=3, group_bytes_max=2))
    assert refused(send(driver, "a1 b1 c1")) == [(2, QUOTA)]
    assert refused(send(driver, "a4")) == [(0, MISMATCH)]
    assert refused(send(driver, "a2 a3")) == [(1, MISMATCH)]
    assert refused(send(driver, "c1 a2")) == [(0, QUOTA), (1, MISMATCH)]


def test_v19_an_incomplete_group_goes_to_the_dead_letters_in_time():
    driver = complete(group_timeout={"seconds": 10})
    send(driver, "a1")
    driver.now_ms += 5_000
    send(driver, "a3! b1!")
    driver.now_ms += 4_999
    assert driver.expire() == 0
    driver.now_ms += 1
    driver.expire()
    info = driver.info()
    assert (info.dying, info.ready, info.blocked, info.groups_gathering) == (2, 1, 0, 0)
    assert driver.master.state.named("q").reasons == [UNGATHERED]
    assert refused(send(driver, "a1")) == [], "another one under its name"


def test_v19_without_a_dead_letter_queue_it_expires():
    driver = complete(group_timeout={"seconds": 10}, dead_letter_queue="")
    send(driver, "a1 a3")
    driver.now_ms += 10_000
    driver.expire()
    assert (driver.info().length, driver.info().expired_total) == (0, 2)


def test_v19_what_leaves_a_group_that_gathers_is_missing_again():
    driver = complete()
    send(driver, "a1 a3!", ttls_ms=[1_000, 0])
    driver.now_ms += 1_000
    driver.expire()
    assert refused(send(driver, "a2")) == []
    assert driver.lease()[1] == []
    assert refused(send(driver, "a1")) == []
    assert in_order(driver) == [4, 3, 2]


def remove(driver: Driver, *indexes: int) -> None:
    ranges = [common_pb2.IndexRange(first=index, count=1) for index in indexes]
    op = record_pb2.RemoveOp(queue_id=1, ranges=ranges, final_state=queue_service_pb2.FINAL_STATE_REACTED)
    driver.order(record_pb2.RecordHeader(time_ms=driver.now_ms, remove=op))


@pytest.mark.parametrize("gone", [[1], [2], [3], [1, 2], [2, 3]])
def test_v19_a_whole_group_that_nobody_has_begun_waits_again_for_what_leaves_it(gone: list[int]):
    driver = complete(group_timeout={"seconds": 10})
    send(driver, "a2 a1 a3!")
    assert driver.info().ready == 1
    driver.now_ms += 60_000
    remove(driver, *gone)
    info = driver.info()
    assert (info.ready, info.blocked, info.groups_gathering) == (0, 3 - len(gone), 1)
    assert driver.lease()[1] == []
    driver.now_ms += 9_999
    assert driver.expire() == 0, "its time begins anew"
    words = {1: "a2", 2: "a1", 3: "a3!"}
    assert refused(send(driver, " ".join(words[index] for index in gone))) == []
    assert len(in_order(driver)) == 3


def test_v19_one_that_waits_again_is_given_up_in_time():
    driver = complete(group_timeout={"seconds": 10})
    send(driver, "a1 a2!")
    driver.now_ms += 60_000
    remove(driver, 1)
    driver.now_ms += 10_000
    driver.expire()
    assert driver.info().dying == 1


def test_v19_a_group_that_has_begun_goes_on_without_what_leaves_it():
    driver = complete(group_timeout={"seconds": 10})
    send(driver, "a1 a2 a3!")
    lease_id, _ = driver.lease()
    remove(driver, 2)
    driver.outcome(RELEASE, lease_id, (1, 1))
    driver.now_ms += 60_000
    assert driver.expire() == 0
    assert refused(send(driver, "a2")) == [(0, MISMATCH)]
    assert in_order(driver) == [1, 3]


def test_v19_immediate_delivery_begins_a_group_too():
    driver = complete()
    send(driver, "a1 a2 a3!")
    assert driver.lease(immediate=True)[1] == [1]
    assert driver.lease(immediate=True)[1] == [2]
    remove(driver, 3)
    assert driver.info().length == 0


def test_v19_a_group_that_is_scheduled_twice_for_one_time_dies_once():
    driver = complete(group_timeout={"seconds": 10})
    send(driver, "a1 a3!")
    driver.queue(UPDATE, config=admin_pb2.QueueConfig(group_timeout={"seconds": 10}))
    driver.now_ms += 10_000
    driver.expire()
    assert driver.info().dying == 2


def test_v19_a_request_whose_answer_is_due_when_its_group_is_dies_with_its_group():
    driver = complete(
        group_timeout={"seconds": 10}, reply_timeout={"seconds": 10}, queue_type=admin_pb2.QUEUE_TYPE_TWO_WAY
    )
    send(driver, "a1 a3!")
    driver.now_ms += 10_000
    driver.expire()
    assert driver.info().dying + driver.info().reply_timeouts_total == 2


def test_v15_v19_what_a_unit_has_locked_is_given_up_when_it_is_back():
    driver = complete(group_timeout={"seconds": 10})
    send(driver, "a1 a3!")
    call = LockCall([1], b"a unit".rjust(16), b"client", driver.now_ms + 60_000)
    driver.order(plan_lock(driver.master.state, driver.now_ms, driver.master.state.named("q"), call))
    driver.now_ms += 10_000
    driver.expire()
    assert (driver.info().dying, driver.info().leased) == (1, 1)
    driver.now_ms += 60_000
    driver.expire()
    assert (driver.info().dying, driver.info().leased) == (2, 0)


def test_v15_v19_a_lock_begins_no_group():
    driver = complete()
    send(driver, "a1 a2!")
    call = LockCall([1], b"a unit".rjust(16), b"client", driver.now_ms + 60_000)
    driver.order(plan_lock(driver.master.state, driver.now_ms, driver.master.state.named("q"), call))
    remove(driver, 2)
    driver.now_ms += 60_001
    driver.expire()
    assert (driver.info().ready, driver.info().blocked) == (0, 1)


def test_v19_a_delayed_member_does_not_mature_in_the_record_that_gives_its_group_up():
    driver = complete(group_timeout={"seconds": 10})
    send(driver, "a1 a3!", delays_ms=[9_999, 0])
    driver.now_ms += 10_000
    driver.expire()
    assert (driver.info().dying, driver.info().delayed) == (2, 0)


def test_v19_the_reason_of_a_group_has_its_place_whatever_consumers_have_said():
    driver = complete(group_timeout={"seconds": 10})
    for number in range(REASONS_MAX):
        send(driver, ".")
        lease_id, indexes = driver.lease()
        settlement = Settlement(
            lease_id=lease_id, ranges=ranges_of((indexes[0], indexes[0])), outcome=REJECT, reason=f"reason {number}"
        )
        driver.settle(settlement)
    send(driver, "a1")
    driver.now_ms += 10_000
    driver.expire()
    queue = driver.master.state.named("q")
    assert queue.reasons[list(queue.dying)[-1][2] - 1] == UNGATHERED


def test_v19_what_is_dropped_from_a_group_is_missing_again():
    driver = complete(max_length=2, overflow=admin_pb2.OVERFLOW_DROP_HEAD)
    send(driver, "a1 a2!")
    send(driver, ".")
    info = driver.info()
    assert (info.length, info.ready, info.blocked, info.dropped_total) == (2, 1, 1, 1)
    assert driver.lease()[1] == [3]


def test_v19_a_purge_ends_all_groups():
    driver = complete()
    send(driver, "a2! b1 c1 c2! a1 .")
    driver.queue(record_pb2.QUEUE_ACTION_PURGE)
    assert (driver.info().length, driver.info().groups_gathering) == (0, 0)
    assert driver.master.state.named("q").groups.by_hash == {}  # type: ignore[union-attr]  # the queue's mode
    assert refused(send(driver, "a1 a2!")) == []


def test_v19_priorities_rank_groups_and_not_members():
    driver = complete()
    send(driver, "a1 a2! b1 b2!", priorities=[1, 9, 4, 4])
    assert in_order(driver) == [3, 4, 1, 2]


def test_v19_a_delay_holds_back_those_behind_it():
    driver = complete()
    send(driver, "a1 a2!", delays_ms=[1_000, 0])
    assert driver.lease()[1] == []
    driver.now_ms += 1_001
    driver.expire()
    assert in_order(driver) == [1, 2]


def test_v19_the_mode_changes_only_while_the_queue_is_empty():
    driver = complete()
    driver.queue(UPDATE, config=admin_pb2.QueueConfig(group_mode=ORDERED))
    send(driver, "a1 a1")
    assert in_order(driver) == [1, 2]


@pytest.mark.parametrize("seed", range(10))
def test_v19_whatever_happens_a_snapshot_says_the_same_and_a_member_waits_for_its_group(seed: int):
    drawn = random.Random(seed)
    driver = complete(Limits(groups_max=4), group_timeout={"seconds": 3})
    for _ in range(150):
        match drawn.randrange(7):
            case 0 | 1 | 2:
                words = [
                    f"{drawn.choice('abc')}{drawn.randint(1, 4)}{drawn.choice(('', '', '!'))}"
                    for _ in range(drawn.randint(1, 3))
                ]
                more = {}
                if drawn.random() < 0.3:
                    more["delays_ms"] = [drawn.choice((0, 500)) for _ in words]
                if drawn.random() < 0.3:
                    more["ttls_ms"] = [drawn.choice((0, 900)) for _ in words]
                send(driver, " ".join(words), **more)
            case 6:
                queue = driver.master.state.named("q")
                waiting = [index for run in queue.waiting_in(0, queue.next_index) for index in range(*run)]
                if waiting:
                    remove(driver, *sorted(drawn.sample(waiting, min(len(waiting), drawn.choice((1, 1, 2))))))
            case 3:
                lease_id, indexes = driver.lease(drawn.randint(1, 3))
                for index in indexes:
                    if drawn.random() < 0.7:
                        driver.ack(lease_id, (index, index))
                    else:
                        driver.outcome(RELEASE, lease_id, (index, index))
            case 4:
                driver.now_ms += drawn.randint(1, 1_500)
                driver.expire()
            case 5:
                again = driver.restored()
                again.commit(driver.log_index)
                assert again.digest() == driver.master.digest()
                driver.master = again
        info = driver.info()
        assert info.ready + info.blocked + info.leased + info.delayed + info.dying == info.length
        queue = driver.master.state.named("q")
        for found in queue.groups.by_hash.values():  # type: ignore[union-attr]  # the queue's mode
            blocked = {low for level in queue.groups.blocked for run in level for low in range(*run)}  # type: ignore[union-attr]
            out = found.members.keys() - blocked
            delayed = {index for index in out if any(queue.delayed.runs(index, index + 1))}
            assert out - delayed <= {found.first}, "of a group that gathers nothing, of a whole one the first"


def test_a_group_that_its_queue_could_never_hold_is_refused() -> None:
    """V19: with two of its members in, the third found no room for as long as they stayed, and they stayed for it."""
    driver = complete(max_bytes=2000, max_message_bytes=1000)
    for sequence in (1, 2):
        plan = driver.enqueue(batch_of([900], group_ids=["a"], group_sequences=[sequence]))
        assert refused(plan) == []
    plan = driver.enqueue(batch_of([900], group_ids=["a"], group_sequences=[3], lasts_in_group=[True]))
    assert refused(plan) == [(0, MISMATCH)]
