"""How messages ended, for those who sent them (R016-R018, R025, R028): on both members alike, until it is forgotten."""

from __future__ import annotations

import random
from types import SimpleNamespace

import pytest

from replica.machine import CopyCall, Limits, Machine, ReplyCall, columns_of, handle_of
from replica.machine.plan.copies import plan_copies
from replica.machine.plan.reply import plan_reply
from replica.machine.plan.reply_copies import is_addressed, owed_of
from replica.machine.plan.time import next_due_ms, plan_expire, plan_volatile_lost
from replica.machine.sets.ranges import RangeSet
from replica.machine.state import completions
from replica.machine.state.completions import REPLIED, Completions, Deadlines
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.fuzz.cost import assert_within
from tests.unit.replica.machine.driver import ACK, EXTEND, MEMBERS, REJECT, RELEASE, Driver, batch_of

ONE_WAY_ACK, TWO_WAY = admin_pb2.QUEUE_TYPE_ONE_WAY_ACK, admin_pb2.QUEUE_TYPE_TWO_WAY
MINUTE = 60_000


def made(kind: admin_pb2.QueueType = ONE_WAY_ACK, **attributes) -> Driver:
    driver = Driver()
    driver.create(queue_type=kind, **{"dead_letter_queue": "", **attributes})
    return driver


@pytest.fixture
def driver() -> Driver:
    return made()


@pytest.mark.requirement("R016")
def test_a_handle_completes_when_a_consumer_has_acknowledged_the_message(driver):
    driver.send(3)
    lease_id, _ = driver.lease(2)
    assert driver.finals(1, 2, 3) == ["pending"] * 3  # delivered is not received
    driver.outcome(ACK, lease_id, (1, 1))
    assert driver.finals(1, 2, 3) == ["consumed", "pending", "pending"]
    first, second = driver.progress(1, 2)
    assert (first.completion, first.completed) == (common_pb2.COMPLETION_RECEIVED, True)
    assert (second.completion, second.completed) == (common_pb2.COMPLETION_STORED, False)


@pytest.mark.requirement("R016")
def test_removal_at_delivery_is_receipt(driver):
    driver.send(2)
    driver.lease(1, immediate=True)
    assert driver.finals(1, 2) == ["consumed", "pending"]


@pytest.mark.requirement("R016")
def test_a_released_or_extended_message_is_pending(driver):
    driver.send(2)
    lease_id, _ = driver.lease(2)
    driver.outcome(EXTEND, lease_id, (1, 1), extension_ms=1_000)
    driver.outcome(RELEASE, lease_id, (1, 2))
    assert driver.finals(1, 2) == ["pending"] * 2


@pytest.mark.requirement("R017")
def test_a_queue_that_completes_at_stored_remembers_nothing():
    driver = made(admin_pb2.QUEUE_TYPE_ONE_WAY_QUEUED_ACK)
    driver.send(2)
    (told,) = driver.progress(1)
    assert (told.completion, told.completed, told.final) == (common_pb2.COMPLETION_STORED, True, 0)
    queue_id = driver.master.queue_id("q")
    assert driver.master.queue(queue_id).completions is None
    assert driver.master.handle_prefix(queue_id) == b""


def test_each_other_end_is_named():
    driver = made(max_deliveries=0, dead_letter_queue="")
    driver.enqueue(batch_of([1] * 4, ttls_ms=[0, 50, 0, 0], persistence=[2, 2, 1, 2]))
    lease_id, _ = driver.lease(1)
    driver.outcome(REJECT, lease_id, (1, 1))
    driver.now_ms += 60
    driver.expire()
    header = plan_volatile_lost(driver.master.state, driver.now_ms, lambda _index: False)
    if header is not None:
        driver.order(header)
    driver.queue(record_pb2.QUEUE_ACTION_PURGE)
    assert driver.finals(1, 2, 4) == ["rejected", "expired", "purged"]


def test_lost_volatile_messages_are_named():
    driver = made(persistence=admin_pb2.PERSISTENCE_VOLATILE)
    driver.send(2)
    driver.lease(1)
    header = plan_volatile_lost(driver.master.state, driver.now_ms, lambda _index: False)
    assert header is not None
    driver.order(header)
    assert driver.finals(1, 2) == ["lost", "lost"]


@pytest.mark.requirement("R025")
def test_what_ended_is_known_for_the_retention_and_no_longer(driver):
    driver.send(3)
    lease_id, _ = driver.lease(2)
    driver.outcome(ACK, lease_id, (1, 1))
    ended = driver.now_ms
    driver.now_ms += 2_000
    driver.outcome(REJECT, lease_id, (2, 2))
    driver.now_ms = ended + 5 * MINUTE - 1
    driver.expire()
    assert driver.finals(1, 2, 3) == ["consumed", "rejected", "pending"]
    driver.now_ms = ended + 5 * MINUTE + 1_000
    driver.expire()
    assert driver.finals(1, 2, 3) == ["unknown", "rejected", "pending"]
    driver.now_ms += 2_000
    driver.expire()
    assert driver.finals(1, 2, 3) == ["unknown", "unknown", "pending"]


@pytest.mark.requirement("R025")
def test_a_change_of_the_retention_counts_for_what_ended_before(driver):
    driver.send(1)
    driver.lease(1, immediate=True)
    config = admin_pb2.QueueConfig()
    config.completion_retention.FromSeconds(10)
    driver.queue(record_pb2.QUEUE_ACTION_UPDATE, config=config)
    driver.now_ms += 11_000
    driver.expire()
    assert driver.finals(1) == ["unknown"]


@pytest.mark.requirement("R025")
@pytest.mark.parametrize(
    "handle",
    [
        b"",
        b"x" * 16,
        (7).to_bytes(4, "big") + (1).to_bytes(4, "big") + (0).to_bytes(8, "big"),
        (7).to_bytes(4, "big") + (1).to_bytes(4, "big") + (4).to_bytes(8, "big"),
        (7).to_bytes(4, "big") + (2).to_bytes(4, "big") + (1).to_bytes(8, "big"),
        (8).to_bytes(4, "big") + (1).to_bytes(4, "big") + (1).to_bytes(8, "big"),
    ],
)
def test_a_handle_of_something_else_is_not_known(driver, handle):
    driver.send(3)
    assert not driver.master.progress(1, [handle])[0].known


@pytest.mark.requirement("R018", "R027")
def test_a_reply_settles_the_request_and_keeps_the_answer():
    driver = made(TWO_WAY)
    driver.send(2)
    lease_id, _ = driver.lease(2)
    assert driver.reply(lease_id, 1) is not None
    assert driver.finals(1, 2) == ["replied", "pending"]
    told = driver.progress(1)[0]
    assert (told.completion, told.answer) == (common_pb2.COMPLETION_REPLIED, driver.log_index)
    assert (driver.info().length, driver.info().replied_total) == (1, 1)


@pytest.mark.requirement("R018")
def test_the_answers_record_is_live_until_it_is_forgotten():
    driver = made(TWO_WAY)
    driver.send(1)
    lease_id, _ = driver.lease(1)
    driver.reply(lease_id, 1)
    answer = driver.log_index
    assert driver.freed == [answer - 2]
    assert list(driver.master.live_log_indexes()) == [(1, answer)]
    assert driver.master.live(answer, 1)
    assert driver.master.live(answer)
    assert not driver.master.live(answer - 1, 1)
    driver.now_ms += 5 * MINUTE + 1_000
    driver.expire()
    assert (driver.freed, list(driver.master.live_log_indexes())) == ([answer - 2, answer], [])
    assert not driver.master.live(answer, 1)


def test_records_that_hold_messages_or_answers_are_found_one_after_the_other():
    """From any place, over the seconds in which the answers came, among messages that nobody has answered yet."""
    driver = made(TWO_WAY)
    left, answers = {}, []
    for _ in range(4):
        first = driver.send(3).first_index
        left |= dict.fromkeys(range(first, first + 3), driver.log_index)
        lease_id, indexes = driver.lease(2)
        for index in indexes:
            driver.reply(lease_id, index)
            answers.append(driver.log_index)
            del left[index]
            driver.now_ms += 600
    wanted = sorted({*left.values(), *answers})
    for above in range(driver.log_index + 2):
        following = min((log_index for log_index in wanted if log_index > above), default=None)
        assert driver.master.next_record(1, above) == following
        assert driver.restored().next_record(1, above) == following
    assert list(driver.master.live_log_indexes()) == [(1, log_index) for log_index in wanted]
    assert [log_index for log_index in range(driver.log_index + 2) if driver.master.live(log_index)] == wanted
    assert driver.master.next_record(2, 0) is None


@pytest.mark.requirement("R018")
def test_a_deleted_queue_frees_its_answers():
    driver = made(TWO_WAY)
    driver.send(1)
    lease_id, _ = driver.lease(1)
    driver.reply(lease_id, 1)
    driver.queue(record_pb2.QUEUE_ACTION_DELETE)
    assert driver.log_index - 1 in driver.freed
    driver.now_ms += 10 * MINUTE
    assert driver.expire() == 0


@pytest.mark.requirement("R018")
def test_a_request_is_delivered_under_a_lease_only():
    driver = made(TWO_WAY)
    driver.send(1)
    refused = driver.refusal(lambda: driver.lease(1, immediate=True))
    assert refused.reason == common_pb2.REASON_REPLY_REQUIRED


@pytest.mark.requirement("R018")
def test_a_request_is_not_acknowledged():
    driver = made(TWO_WAY)
    driver.send(1)
    lease_id, _ = driver.lease(1)
    result = driver.outcome(ACK, lease_id, (1, 1))
    assert (result.error.reason, result.settled) == (common_pb2.REASON_REPLY_REQUIRED, 0)
    assert driver.finals(1) == ["pending"]
    driver.outcome(REJECT, lease_id, (1, 1))
    assert driver.finals(1) == ["rejected"]


@pytest.mark.requirement("R027")
@pytest.mark.parametrize("kind", [ONE_WAY_ACK, admin_pb2.QUEUE_TYPE_ONE_WAY, admin_pb2.QUEUE_TYPE_ONE_WAY_QUEUED_ACK])
def test_only_a_two_way_queue_takes_replies(kind):
    driver = made(kind)
    driver.send(1)
    lease_id, _ = driver.lease(1)
    assert driver.refusal(lambda: driver.reply(lease_id, 1)).reason == common_pb2.REASON_NOT_TWO_WAY


@pytest.mark.requirement("R027")
def test_the_first_answer_counts_and_is_the_only_one():
    driver = made(TWO_WAY)
    driver.send(2)
    lease_id, _ = driver.lease(2)
    driver.reply(lease_id, 1, request_hash=1)
    assert driver.reply(lease_id, 1, request_hash=1) is None  # the same again
    refused = driver.refusal(lambda: driver.reply(lease_id, 1, request_hash=2))
    assert refused.reason == common_pb2.REASON_ALREADY_REPLIED
    refused = driver.refusal(lambda: driver.reply(lease_id + 1, 1, request_hash=1))
    assert refused.reason == common_pb2.REASON_ALREADY_REPLIED


@pytest.mark.requirement("R018")
def test_a_lease_that_ends_delivers_again_and_the_older_consumer_answers_no_more():
    driver = made(TWO_WAY, lease_duration={"seconds": 1})
    driver.send(1)
    older, _ = driver.lease(1)
    driver.now_ms += 1_001
    driver.expire()
    newer, indexes = driver.lease(1)
    assert indexes == [1]
    assert driver.refusal(lambda: driver.reply(older, 1)).reason == common_pb2.REASON_LEASE_LOST
    assert driver.reply(newer, 1) is not None


def test_an_answer_counts_while_nobody_holds_the_request():
    driver = made(TWO_WAY, lease_duration={"seconds": 1})
    driver.send(1)
    lease_id, _ = driver.lease(1)
    driver.now_ms += 1_001
    driver.expire()
    assert driver.reply(lease_id, 1) is not None
    assert driver.finals(1) == ["replied"]


def test_an_answer_to_what_is_not_visible_yet_is_refused():
    driver = made(TWO_WAY)
    driver.commits = False
    driver.send(1)
    assert driver.refusal(lambda: driver.reply(5, 1)).reason == common_pb2.REASON_LEASE_LOST


def test_an_answer_has_the_limit_of_the_queue():
    driver = made(TWO_WAY, max_message_bytes=100)
    driver.send(1)
    lease_id, _ = driver.lease(1)
    refused = driver.refusal(lambda: driver.reply(lease_id, 1, body_bytes=101))
    assert refused.reason == common_pb2.REASON_MESSAGE_TOO_LARGE
    assert driver.reply(lease_id, 1, body_bytes=100) is not None


@pytest.mark.requirement("R018")
def test_a_request_that_nobody_answers_ends_by_time_leased_or_not():
    driver = made(TWO_WAY, reply_timeout={"seconds": 60}, lease_duration={"seconds": 600})
    driver.send(3)
    lease_id, _ = driver.lease(2)
    driver.reply(lease_id, 1)
    driver.now_ms += 60_000 - 1
    driver.expire()
    assert driver.finals(1, 2, 3) == ["replied", "pending", "pending"]
    driver.now_ms += 1
    driver.expire()
    assert driver.finals(1, 2, 3) == ["replied", "reply_timeout", "reply_timeout"]
    assert driver.info().length == 0
    assert driver.refusal(lambda: driver.reply(lease_id, 2)).reason == common_pb2.REASON_LEASE_LOST


def test_each_batch_of_requests_has_its_own_time():
    driver = made(TWO_WAY, reply_timeout={"seconds": 60})
    driver.send(1)
    driver.now_ms += 10
    driver.send(1)
    driver.now_ms += 60_000 - 10
    driver.expire()
    assert driver.finals(1, 2) == ["reply_timeout", "pending"]
    driver.now_ms += 10
    driver.expire()
    assert driver.finals(1, 2) == ["reply_timeout", "reply_timeout"]


def test_requests_that_expire_in_the_record_of_their_timeout_end_once():
    driver = made(TWO_WAY, reply_timeout={"seconds": 60})
    driver.enqueue(batch_of([1] * 3, ttls_ms=[0, 60_000, 0]))
    driver.now_ms += 60_000
    driver.expire()
    assert driver.finals(1, 2, 3) == ["reply_timeout", "expired", "reply_timeout"]


def test_a_record_ends_a_bounded_number_of_requests():
    driver = Driver(Limits(expire_max=10))
    driver.create(queue_type=TWO_WAY, reply_timeout={"seconds": 60})
    driver.send(25)
    driver.now_ms += 60_000
    assert driver.expire() == 3
    assert driver.finals(1, 25) == ["reply_timeout"] * 2


@pytest.mark.requirement("R025")
def test_a_snapshot_knows_what_the_machine_knows():
    driver = made(TWO_WAY)
    for _ in range(4):
        driver.send(3)
        driver.now_ms += 700
    lease_id, _ = driver.lease(6)
    for index in (2, 1, 5):
        driver.reply(lease_id, index, request_hash=index)
        driver.now_ms += 700
    driver.outcome(REJECT, lease_id, (3, 3))
    restored = Machine.restore(driver.master.snapshot(), MEMBERS, driver.limits)
    assert restored.digest() == driver.master.digest()
    driver.replica = restored
    assert driver.finals(1, 2, 3, 4, 5) == ["replied", "replied", "rejected", "pending", "replied"]
    assert driver.reply(lease_id, 5, request_hash=5) is None
    assert next_due_ms(restored.state) == next_due_ms(driver.master.state)
    assert list(restored.live_log_indexes()) == list(driver.master.live_log_indexes())
    while next_due_ms(driver.master.state) is not None:  # both forget all of it alike: the driver compares
        driver.now_ms = next_due_ms(driver.master.state)
        driver.expire()
    assert driver.finals(1, 2, 3, 4) == ["unknown"] * 4


def test_a_unary_reply_is_remembered_by_its_request_id():
    driver = made(TWO_WAY)
    driver.send(1)
    lease_id, _ = driver.lease(1)
    driver.reply(lease_id, 1, request_id=b"r" * 16, request_hash=9)
    found = driver.master.find_request(b"r" * 16, 9)
    assert found is not None
    assert (found.kind, found.log_index) == ("reply", driver.log_index)


@pytest.mark.requirement("R028")
def test_a_handle_is_found_among_a_million_without_looking_at_them():
    driver = made()
    count = 10_000
    for _ in range(100):
        driver.send(count)
    lease_id, _ = driver.lease(count)
    for index in range(1, 1_000, 2):  # as scattered as it can be
        driver.outcome(ACK, lease_id, (index, index))
    prefix = driver.master.handle_prefix(1)
    handles = [handle_of(prefix, index) for index in range(1, 1_000_000, 1_009)]
    told = driver.master.progress(1, handles)
    assert sum(each.completed for each in told) == sum(1 for index in range(1, 1_000, 2) if index % 1_009 == 1)
    assert_within(0.000_5 * len(handles), lambda: driver.master.progress(1, handles))


def addressed_to(*reply_tos):
    batch = batch_of([1] * max(2, len(reply_tos)))
    batch.messages.reply_tos.extend(reply_tos)
    return batch


def test_a_request_names_another_queue_for_its_answer_and_not_its_own():
    driver = made(TWO_WAY)
    driver.order(record_pb2.RecordHeader(time_ms=driver.now_ms, alias=record_pb2.AliasOp(alias="other", queue_id=1)))
    for name in ("q", "other"):
        refused = driver.refusal(lambda name=name: driver.plan_enqueue(addressed_to("r", name)))
        assert refused.reason == common_pb2.REASON_BAD_REQUEST
        assert "would be a request again" in refused.message
    refused = driver.refusal(lambda: driver.plan_enqueue(addressed_to("x" * 256)))
    assert refused.reason == common_pb2.REASON_BAD_NAME
    driver.enqueue(addressed_to("r"))
    driver.enqueue(addressed_to("", ""))
    driver.enqueue(addressed_to("", "r"))
    assert [is_addressed(driver.master.queue(1), index) for index in range(1, 7)] == [
        True,
        True,
        False,
        False,
        False,
        True,
    ]
    # What the other member reads, of whichever version: one for all, nobody asked for it, one each.
    assert [list(header.enqueue.addressed) for _, header in driver.headers[-3:]] == [[1], [], [0, 1]]


def test_elsewhere_it_is_for_the_eyes_of_the_consumer():
    driver = made(admin_pb2.QUEUE_TYPE_ONE_WAY_ACK)
    driver.enqueue(addressed_to("q"))
    assert not is_addressed(driver.master.queue(1), 1)
    assert not driver.headers[-1][1].enqueue.addressed


def test_a_copy_is_owed_until_it_is_made_or_the_answer_is_forgotten():
    driver = made(TWO_WAY, completion_retention={"seconds": 2})
    driver.create("r")
    driver.enqueue(addressed_to("r"))
    lease_id, _ = driver.lease(2)
    for index in (1, 2):
        header = plan_reply(driver.master.state, driver.now_ms, ReplyCall("q", lease_id, index, 1))
        header.reply.reply_to, header.reply.correlation_id = "r", f"c{index}"
        driver.order(header)
    assert tuple(driver.master.state.owing) == (1,)
    assert owed_of(driver.master.state, 1) == {"r": {1: "c1", 2: "c2"}}
    restored = Machine.restore(driver.master.snapshot(), MEMBERS, driver.limits)
    assert (owed_of(restored.state, 1), tuple(restored.state.owing)) == (owed_of(driver.master.state, 1), (1,))
    assert restored.digest() == driver.master.digest()
    call = CopyCall(1, "r", [2], columns_of(batch_of([1], queue="r")))
    driver.order(driver.plan(lambda: plan_copies(driver.master.state, driver.now_ms, call)))
    assert owed_of(driver.master.state, 1) == {"r": {1: "c1"}}
    assert driver.browse("r") == [1]
    driver.now_ms += 5_000
    while (header := driver.plan(lambda: plan_expire(driver.master.state, driver.now_ms))) is not None:
        driver.order(header)
    assert (owed_of(driver.master.state, 1), tuple(driver.master.state.owing)) == ({}, ())


def test_a_copy_enters_a_queue_whose_groups_it_does_not_fit():
    """V19: it held up every answer behind it, with a reason that was not true."""
    driver = made(TWO_WAY)
    driver.create("r", group_mode=admin_pb2.GROUP_MODE_COMPLETE)
    driver.enqueue(addressed_to("r"))
    lease_id, _ = driver.lease(1)
    header = plan_reply(driver.master.state, driver.now_ms, ReplyCall("q", lease_id, 1, 1))
    header.reply.reply_to, header.reply.correlation_id = "r", "c1"
    driver.order(header)
    call = CopyCall(1, "r", [1], columns_of(batch_of([1], queue="r", group_ids=["g"])))
    driver.order(driver.plan(lambda: plan_copies(driver.master.state, driver.now_ms, call)))
    assert driver.browse("r") == [1]


def test_a_request_that_ends_otherwise_owes_nothing():
    driver = made(TWO_WAY)
    driver.enqueue(addressed_to("r"))
    lease_id, _ = driver.lease(1)
    driver.outcome(REJECT, lease_id, (1, 1))
    driver.queue(record_pb2.QUEUE_ACTION_PURGE)
    assert not driver.master.queue(1).completions.addressed


def test_an_answer_that_is_forgotten_is_not_looked_for_among_all_names():
    class Names(dict):
        def items(self):
            pytest.fail("a client names as many queues as it likes")

    owner = SimpleNamespace(time_ms=1_000, on_bucket=lambda _queue_id, _second: None)
    kept = Completions(owner, 1)
    kept.owed = Names()
    kept.begin(1, 9)
    for index in range(8, 0, -1):
        kept.end(index, index + 1, REPLIED)
        kept.answer(index, index, 0)
        kept.owe(index, f"r{index}", "")
    assert kept.settle_owed(3)
    assert not kept.settle_owed(3)
    kept.forget(MINUTE, [])
    assert not kept.owed


@pytest.mark.parametrize("slack", [0, 3])
@pytest.mark.parametrize("seed", range(4))
def test_deadlines_are_rows_that_go_from_the_front(monkeypatch, slack, seed):
    """Against a list; a row goes once none of its requests is open, and a row before it neither."""
    monkeypatch.setattr(completions, "_SLACK", slack)
    chance = random.Random(seed)
    deadlines, unended, rows = Deadlines(), RangeSet(), []
    end, when_ms = 1, 100
    for _ in range(80):
        start, when_ms = end + (chance.random() < 0.2), when_ms + chance.choice((0, 0, 5))
        end = start + chance.randrange(1, 4)
        unended.add(start, end)
        known = bool(rows) and rows[-1][1] == start and rows[-1][2] == when_ms
        assert deadlines.add(start, end, when_ms) != known
        rows = [*rows[:-1], (rows[-1][0], end, when_ms)] if known else [*rows, (start, end, when_ms)]
        for low, high in list(unended.runs(0, chance.randrange(start - 3, end))):
            if chance.random() < 0.8:
                unended.remove(low, high)
        deadlines.prune(unended)
        while rows and not unended.count(rows[0][0], rows[0][1]):
            del rows[0]
        assert list(zip(*deadlines.columns(), strict=True)) == rows
        assert list(deadlines.rows()) == [(first, when) for first, _, when in rows]
        for first in range(end + 2):
            wanted = next(((until, when) for at, until, when in rows if at == first), None)
            assert deadlines.find(first) == wanted
        if chance.random() < 0.1:
            deadlines = Deadlines.from_columns(deadlines.columns())
        assert len(deadlines.firsts) <= 2 * max(len(rows), slack) + 2
