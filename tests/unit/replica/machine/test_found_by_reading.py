"""What a reading of the code found before anybody met it; each of these lost messages or ended a member."""

from __future__ import annotations

import pytest

from replica.machine import Refused, ReplyCall, columns_of
from replica.machine.plan.reply import plan_reply
from replica.machine.plan.time import plan_expire
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.unit.replica.machine.driver import Driver, batch_of


def test_known_dedup_ids_drop_nothing():
    driver = Driver()
    driver.create(max_length=10, overflow=admin_pb2.OVERFLOW_DROP_HEAD)
    driver.enqueue(batch_of([1] * 10, dedup_ids=[str(n) for n in range(10)]))
    op = driver.enqueue(batch_of([1] * 10, dedup_ids=[*(str(n) for n in range(9)), "new"]))
    assert [(part.first, part.count) for part in op.dropped] == [(1, 1)]
    assert driver.info().length == 10


@pytest.mark.parametrize("column", ["ttls_ms", "delays_ms", "deliver_at_ms"])
def test_a_time_that_cannot_be_told_is_refused(column):
    with pytest.raises(Refused) as info:
        columns_of(batch_of([1], **{column: [1_763_000_000_000_000]}))
    assert info.value.reason == common_pb2.REASON_BAD_ATTRIBUTE
    assert column in info.value.message


def test_a_record_of_before_the_rules_of_leases_lets_messages_return_at_once():
    driver = Driver()
    driver.create(max_deliveries=1, retry_delay_min={"seconds": 5})
    driver.send(1)
    driver.lease()
    driver.now_ms += 60_000
    header = driver.plan(lambda: plan_expire(driver.master.state, driver.now_ms))
    assert header.expire.lease_rules
    header.expire.lease_rules = False
    driver.order(header)
    assert driver.lease()[1] == [1], "as the version did that wrote it"


def test_a_request_of_a_queue_from_before_answers_is_refused():
    driver = Driver()
    driver.create(queue_type=admin_pb2.QUEUE_TYPE_TWO_WAY)
    driver.send(1)
    lease_id, _ = driver.lease()
    driver.master.queue(1).completions = None  # as in a snapshot of a version that knew none
    with pytest.raises(Refused) as info:
        plan_reply(driver.master.state, driver.now_ms, ReplyCall("q", lease_id, 1, 1))
    assert info.value.reason == common_pb2.REASON_CONFIG_ERROR


def test_the_dead_letter_queue_of_an_alias_is_its_queue():
    driver = Driver()
    driver.create("q")
    driver.create("dead", dead_letter_queue="q")
    alias = record_pb2.RecordHeader(time_ms=driver.now_ms, alias=record_pb2.AliasOp(alias="other", queue_id=2))
    driver.order(alias)
    new = admin_pb2.QueueConfig(dead_letter_queue="other")
    refused = driver.refusal(lambda: driver.queue(record_pb2.QUEUE_ACTION_UPDATE, "q", config=new))
    assert refused.reason == common_pb2.REASON_CONFIG_ERROR
    assert "would come back" in refused.message


def test_an_idle_queue_keeps_its_answers_for_as_long_as_it_promised():
    driver = Driver()
    driver.create(
        queue_type=admin_pb2.QUEUE_TYPE_TWO_WAY,
        empty_idle_expiry={"seconds": 1},
        completion_retention={"seconds": 60},
    )
    driver.send(1)
    lease_id, _ = driver.lease()
    driver.order(plan_reply(driver.master.state, driver.now_ms, ReplyCall("q", lease_id, 1, 1)))
    driver.now_ms += 10_000
    while (header := driver.plan(lambda: plan_expire(driver.master.state, driver.now_ms))) is not None:
        driver.order(header)
    assert driver.master.queue_id("q") == 1
