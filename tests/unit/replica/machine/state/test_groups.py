"""group_mode ORDERED: of each group one message at a time, in order, whatever happens to the one before it."""

from __future__ import annotations

import random
from typing import Any

import pytest

from replica.machine import Machine, MoveCall, columns_of
from replica.machine.plan.move import plan_move
from replica.machine.plan.time import plan_volatile_lost
from replica.machine.state.groups import Groups, hashes_of
from replica.machine.statistics import Sums
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1.queue_service_pb2 import FINAL_STATE_PURGED
from tests.unit.replica.machine.driver import ACK, MEMBERS, REJECT, RELEASE, Driver, batch_of, indexes_of

NONE, ORDERED = admin_pb2.GROUP_MODE_NONE, admin_pb2.GROUP_MODE_ORDERED
UPDATE, PURGE, CLOSE = record_pb2.QUEUE_ACTION_UPDATE, record_pb2.QUEUE_ACTION_PURGE, record_pb2.QUEUE_ACTION_CLOSE
LEASE_MS = 1_000


def ordered(**attributes: Any) -> Driver:
    driver = Driver()
    driver.create(group_mode=ORDERED, lease_duration={"seconds": 1}, **attributes)
    return driver


def send(driver: Driver, groups: str, **columns: Any) -> Any:
    """One letter a message; a dot has no group."""
    return driver.enqueue(
        batch_of([1] * len(groups), group_ids=["" if name == "." else name for name in groups], **columns)
    )


def counts(driver: Driver) -> tuple[int, int, int, int, int]:
    """Ready, blocked, leased, delayed, dying; that they are all is asserted."""
    info = driver.info()
    found = info.ready, info.blocked, info.leased, info.delayed, info.dying
    assert sum(found) == info.length
    return found


def test_one_of_each_group_at_a_time_and_those_without_a_group_are_free():
    driver = ordered()
    send(driver, "aab.a.b")
    assert counts(driver) == (4, 3, 0, 0, 0)
    lease_id, indexes = driver.lease()
    assert indexes == [1, 3, 4, 6]
    assert driver.lease() == (0, [])
    driver.ack(lease_id, (3, 4))
    assert driver.lease()[1] == [7], "b goes on, a does not"
    driver.ack(lease_id, (1, 1))
    assert driver.lease()[1] == [2]
    assert driver.lease() == (0, [])


def test_what_comes_while_one_is_held_waits():
    driver = ordered()
    send(driver, "a")
    lease_id, _ = driver.lease()
    send(driver, "ab")
    assert driver.lease()[1] == [3]
    driver.ack(lease_id, (1, 1))
    assert driver.lease()[1] == [2]


def test_one_group_for_a_whole_batch_and_a_batch_of_which_some_is_refused():
    driver = ordered(max_message_bytes=5)
    op = driver.enqueue(batch_of([1, 9, 1], group_ids=["a"]))
    assert len(op.groups) == 3
    op = driver.enqueue(batch_of([1, 9, 1], group_ids=["b", "a", "c"]))
    assert [refusal.ordinal for refusal in op.refusals] == [1]
    assert driver.lease()[1] == [1, 3, 4]


def test_a_queue_without_groups_keeps_none_in_its_records():
    driver = Driver()
    driver.create(group_mode=NONE)
    assert not send(driver, "aa").groups
    assert driver.lease()[1] == [1, 2]
    driver = ordered()
    assert not send(driver, "..").groups, "nobody used one"
    assert driver.lease()[1] == [1, 2]


@pytest.mark.parametrize("outcome", ["release", "release with a delay", "end of the lease", "retry delay"])
def test_a_message_that_comes_back_stays_the_first_of_its_group(outcome: str):
    driver = ordered(retry_delay_min={"seconds": 2}) if outcome == "retry delay" else ordered()
    send(driver, "aab")
    lease_id, indexes = driver.lease()
    assert indexes == [1, 3]
    waits = outcome in ("release with a delay", "retry delay")
    if outcome.startswith("release"):
        driver.outcome(RELEASE, lease_id, (1, 1), delay_ms=2_000 if waits else 0)
    else:
        driver.now_ms += LEASE_MS + 1
        driver.expire()
    if waits:
        assert driver.lease(1) == (0, []), "those behind it wait with it"
        driver.now_ms += 2_001
        driver.expire()
    assert driver.lease(1)[1] == [1]


def test_neither_priority_nor_delay_lets_a_message_overtake_another_of_its_group():
    driver = ordered()
    send(driver, "aab", priorities=[1, 9, 4])
    lease_id, indexes = driver.lease()
    assert indexes == [3, 1], "groups go by the priority of their first messages"
    driver.ack(lease_id, (1, 1))
    driver.ack(lease_id, (3, 3))
    send(driver, "bb", delays_ms=[500, 0])
    lease_id, indexes = driver.lease()
    assert indexes == [2], "the delayed one holds back the one behind it"
    assert counts(driver) == (0, 1, 1, 1, 0)
    driver.now_ms += 501
    driver.expire()
    assert driver.lease()[1] == [4]


def test_a_delayed_message_matures_behind_the_first_of_its_group():
    driver = ordered()
    send(driver, "aa", delays_ms=[0, 500])
    lease_id, _ = driver.lease()
    driver.now_ms += 501
    driver.expire()
    assert counts(driver) == (0, 1, 1, 0, 0)
    driver.ack(lease_id, (1, 1))
    assert driver.lease()[1] == [2]


def test_a_delayed_message_whose_turn_comes_first_keeps_its_time():
    driver = ordered()
    send(driver, "aaa", delays_ms=[0, 500, 0])
    lease_id, _ = driver.lease()
    driver.ack(lease_id, (1, 1))
    assert driver.lease() == (0, [])
    driver.now_ms += 501
    driver.expire()
    assert driver.lease()[1] == [2]


def test_a_group_goes_on_when_its_first_message_dies_and_does_not_wait_for_the_move():
    driver = ordered(max_deliveries=1)
    send(driver, "aaa")
    driver.lease()
    driver.now_ms += LEASE_MS + 1
    driver.expire()
    assert counts(driver) == (1, 1, 0, 0, 1)
    lease_id, indexes = driver.lease()
    assert indexes == [2]
    driver.outcome(REJECT, lease_id, (2, 2))
    assert counts(driver) == (1, 0, 0, 0, 2)
    driver.create("q.dead", dead_letter_queue="")
    call = MoveCall(1, "q.dead", (1, 2), columns_of(batch_of([1, 1], queue="q.dead")), FINAL_STATE_PURGED)
    driver.order(driver.plan(lambda: plan_move(driver.master.state, driver.now_ms, call)))
    assert driver.lease()[1] == [3]


def test_a_dying_message_stands_in_one_place_after_a_restart():
    """It was counted as blocked too, so that fewer than none were leased."""
    driver = ordered(max_deliveries=1)
    send(driver, "." * 10)
    send(driver, "a..a")
    driver.lease(14)
    driver.now_ms += LEASE_MS + 1
    driver.expire()
    driver.master = Machine.restore(driver.master.snapshot(), MEMBERS, driver.limits)
    assert counts(driver) == (1, 0, 0, 0, 13)


@pytest.mark.parametrize("way", ["expiry", "purge", "removal", "ack of what nobody holds", "loss of its body"])
def test_a_group_goes_on_when_its_first_message_is_gone(way: str):
    driver = ordered(persistence=admin_pb2.PERSISTENCE_CONDITIONAL)
    persistence = [1 if way == "loss of its body" else 2, 2, 2]
    ttls_ms = [100, 0, 0] if way == "expiry" else []
    send(driver, "aab", ttls_ms=ttls_ms, persistence=persistence)
    match way:
        case "expiry":
            driver.now_ms += 101
            driver.expire()
        case "purge":
            lease_id, _ = driver.lease()
            driver.queue(PURGE)
            driver.outcome(RELEASE, lease_id, (1, 1))
            driver.ack(lease_id, (1, 1))
            send(driver, "a")
            assert driver.lease()[1] == [4]
            return
        case "removal":
            call = MoveCall(1, "r", (1,), columns_of(batch_of([1], queue="r")), FINAL_STATE_PURGED)
            driver.create("r")
            driver.order(driver.plan(lambda: plan_move(driver.master.state, driver.now_ms, call)))
        case "ack of what nobody holds":
            assert driver.outcome(ACK, 77, (1, 1)).settled == 1
        case _:
            header = driver.plan(lambda: plan_volatile_lost(driver.master.state, driver.now_ms, lambda _: False))
            driver.order(header)
    assert driver.lease()[1] == [2, 3]


def test_what_waits_in_a_group_can_go_before_its_turn():
    driver = ordered()
    send(driver, "aaaa", ttls_ms=[0, 100, 0, 0])
    lease_id, _ = driver.lease()
    driver.now_ms += 101
    driver.expire()
    assert driver.outcome(ACK, 77, (3, 3)).settled == 1
    assert counts(driver) == (0, 1, 1, 0, 0)
    driver.ack(lease_id, (1, 1))
    assert driver.lease()[1] == [4]
    assert driver.info().blocked == 0


def test_what_waits_in_a_group_is_browsed_and_makes_room_where_heads_drop():
    driver = ordered(max_length=4, overflow=admin_pb2.OVERFLOW_DROP_HEAD)
    send(driver, "aaab", priorities=[4, 4, 1, 4])
    assert driver.browse() == [1, 2, 3, 4]
    lease_id, _ = driver.lease(1)
    op = send(driver, "cc")
    assert indexes_of(op.dropped) == [3, 2], "the lowest priority first, of those the oldest; 1 is leased"
    driver.ack(lease_id, (1, 1))
    assert driver.lease()[1] == [4, 5]


def test_closing_loses_volatile_messages_of_a_line_and_the_others_keep_their_order():
    driver = ordered(persistence=admin_pb2.PERSISTENCE_CONDITIONAL)
    send(driver, "aaa", persistence=[2, 1, 2])
    lease_id, _ = driver.lease()
    driver.queue(CLOSE)
    assert counts(driver) == (0, 1, 1, 0, 0)
    driver.ack(lease_id, (1, 1))
    driver.queue(record_pb2.QUEUE_ACTION_OPEN)
    assert driver.lease()[1] == [3]


def test_what_waits_in_a_group_is_counted_apart_for_the_whole_manager_too():
    driver = ordered()
    send(driver, "aaab")
    driver.lease(1)
    sums = Sums("a")
    sums.add(driver.master.state)
    assert (sums.length, sums.ready, sums.blocked, sums.leased) == (4, 1, 2, 1)


def test_lines_are_the_same_after_a_restart():
    driver = ordered()
    send(driver, "aabbc.ac", delays_ms=[0, 0, 500, 0, 0, 0, 0, 0])
    lease_id, indexes = driver.lease(2)
    assert indexes == [1, 5]
    data = driver.master.snapshot()
    driver.master = Machine.restore(data, MEMBERS, driver.limits)
    assert driver.master.snapshot() == data
    driver.ack(lease_id, (1, 1))
    driver.ack(lease_id, (5, 5))
    lease_id, indexes = driver.lease()
    assert indexes == [2, 6, 8]
    driver.ack(lease_id, (2, 2))
    driver.now_ms += 501
    driver.expire()
    assert driver.lease()[1] == [3, 7]


def test_a_takeover_changes_no_line():
    driver = ordered()
    send(driver, "aa")
    lease_id, _ = driver.lease()
    driver.epoch += 1
    driver.order(record_pb2.RecordHeader(time_ms=driver.now_ms, role=record_pb2.RoleOp(owner="b")))
    assert driver.lease() == (0, [])
    driver.ack(lease_id, (1, 1))
    assert driver.lease()[1] == [2]


def test_the_mode_changes_only_while_the_queue_is_empty():
    driver = ordered()

    def change(mode: admin_pb2.GroupMode) -> Any:
        return driver.queue(UPDATE, config=admin_pb2.QueueConfig(group_mode=mode))

    change(NONE)
    send(driver, "aa")
    refused = driver.refusal(lambda: change(ORDERED))
    assert refused.reason == common_pb2.REASON_NOT_EMPTY
    assert "purge" in refused.message
    change(NONE)
    lease_id, indexes = driver.lease()
    assert indexes == [1, 2]
    assert driver.refusal(lambda: change(ORDERED)).reason == common_pb2.REASON_NOT_EMPTY, "leased messages are there"
    driver.ack(lease_id, (1, 2))
    change(ORDERED)
    send(driver, "aa")
    assert driver.lease()[1] == [3]
    assert driver.refusal(lambda: change(NONE)).reason == common_pb2.REASON_NOT_EMPTY


def test_a_line_of_one_and_of_many():
    groups = Groups()
    assert [groups.enter(7, index) for index in (1, 2, 5)] == [True, False, False]
    assert [groups.is_first(7, index) for index in (1, 2, 5)] == [True, False, False]
    assert groups.leave(7, 2) == 0, "not the first"
    assert groups.leave(7, 2) == 0, "it is in no line"
    assert groups.leave(7, 1) == 5
    assert groups.leave(7, 5) == 0
    assert len(groups) == 0
    assert groups.leave(7, 5) == 0
    assert groups.enter(7, 9)


def test_hashes_are_the_same_everywhere_and_never_that_of_no_group():
    assert hashes_of(["a", "", "a"], 3) == [0x40F89E395B66422F, 0, 0x40F89E395B66422F]
    assert hashes_of(["a"], 2) == [0x40F89E395B66422F] * 2
    assert hashes_of([""], 2) == []


@pytest.mark.parametrize("seed", range(5))
def test_lines_are_as_lists_would_be(seed):
    chance = random.Random(seed)
    groups, lines = Groups(), {group: [] for group in (7, 8, 9)}
    for index in range(1, 200):
        group = chance.choice((7, 8, 9))
        line = lines[group]
        assert groups.enter(group, index) == (not line)
        line.append(index)
        for _ in range(chance.randrange(3)):
            group, gone = chance.choice((7, 8, 9)), chance.randrange(1, index + 1)
            line = lines[group]
            following = line[1] if len(line) > 1 and line[0] == gone else 0
            assert groups.leave(group, gone) == following
            lines[group] = [each for each in line if each != gone]
        assert len(groups) == sum(map(bool, lines.values()))
        for group, line in lines.items():
            assert [groups.is_first(group, each) for each in line] == [each == line[0] for each in line]
