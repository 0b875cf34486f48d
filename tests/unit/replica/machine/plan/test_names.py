"""Other names of a queue, and what new queues get."""

from __future__ import annotations

import pytest

from replica.machine import Limits
from replica.machine.plan.names import AliasCall, DefaultsCall, defaults_of, plan_alias, plan_defaults
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1.queue_service_pb2 import SETTLE_MODE_IMMEDIATE, SETTLE_MODE_LEASE
from tests.unit.replica.machine.driver import Driver, batch_of

CREATE, DELETE = record_pb2.QUEUE_ACTION_CREATE, record_pb2.QUEUE_ACTION_DELETE


@pytest.fixture
def driver():
    driver = Driver()
    driver.create()
    return driver


def alias(driver, name, queue="q", request_id=b"", request_hash=0):
    call = AliasCall(name, queue, request_id, request_hash)
    return driver.order(driver.plan(lambda: plan_alias(driver.master.state, driver.now_ms, call)))


def defaults(driver, mask, expected_version=0, **attributes):
    config = admin_pb2.QueueConfig(**attributes)
    call = DefaultsCall(config, mask, expected_version, b"", 0)
    return driver.order(driver.plan(lambda: plan_defaults(driver.master.state, driver.now_ms, call)))


@pytest.mark.requirement("R143")
def test_r143_calls_through_an_alias_act_on_the_queue(driver):
    alias(driver, "other")
    alias(driver, "more/of/it")
    op = driver.enqueue(batch_of([1], queue="other"))
    assert op.queue_id == driver.master.queue_id("q") == driver.master.queue_id("other")
    assert driver.info("other").length == driver.info("q").length == 1
    assert list(driver.info().aliases) == ["more/of/it", "other"]
    assert driver.info("other").name == "q"
    assert driver.master.names() == ["q"]


@pytest.mark.requirement("R143")
def test_a_batch_repeated_through_the_other_name_is_known(driver):
    alias(driver, "other")
    driver.enqueue(batch_of([1]), first_sequence=1)
    again = driver.plan_enqueue(batch_of([1], queue="other"), first_sequence=1)
    assert again.run.first_index == 1
    assert driver.master.last_sequence("other", b"producer") == 1


@pytest.mark.requirement("R143")
@pytest.mark.parametrize(
    ("name", "queue", "reason"),
    [
        ("q", "q", common_pb2.REASON_QUEUE_EXISTS),
        ("taken", "q", common_pb2.REASON_ALIAS_EXISTS),
        ("new", "taken", common_pb2.REASON_BAD_NAME),
        ("new", "nothing", common_pb2.REASON_QUEUE_NOT_FOUND),
        ("a//b", "q", common_pb2.REASON_BAD_NAME),
        ("SYSTEM.x", "q", common_pb2.REASON_BAD_NAME),
        ("nothing", "", common_pb2.REASON_QUEUE_NOT_FOUND),
        ("q", "", common_pb2.REASON_BAD_NAME),
    ],
)
def test_r143_an_alias_is_refused(driver, name, queue, reason):
    alias(driver, "taken")
    assert driver.refusal(lambda: alias(driver, name, queue)).reason == reason


@pytest.mark.requirement("R143")
def test_a_queue_is_not_created_under_an_alias(driver):
    alias(driver, "other")
    assert driver.refusal(lambda: driver.create("other")).reason == common_pb2.REASON_ALIAS_EXISTS
    alias(driver, "other", queue="")
    assert driver.create("other") != driver.master.queue_id("q")


def test_aliases_have_a_limit():
    driver = Driver(Limits(aliases_max=1))
    driver.create()
    alias(driver, "one")
    assert driver.refusal(lambda: alias(driver, "two")).reason == common_pb2.REASON_QUOTA_EXCEEDED


@pytest.mark.requirement("R143")
def test_r143_aliases_go_with_their_queue(driver):
    alias(driver, "other")
    driver.queue(DELETE, "other")
    assert driver.master.queue_id("other") is driver.master.queue_id("q") is None
    driver.create("other")


def test_an_alias_outlives_a_restart(driver):
    alias(driver, "other")
    restored = driver.restored()
    assert restored.queue_id("other") == driver.master.queue_id("q")
    assert restored.digest() == driver.master.digest()


def test_a_repeated_call_finds_its_first_answer(driver):
    alias(driver, "other", request_id=b"i" * 16, request_hash=3)
    found = driver.master.find_request(b"i" * 16, 3)
    assert (found.kind, found.name, found.queue_id) == ("alias", "q", driver.master.queue_id("q"))


@pytest.mark.requirement("R046", "R047")
def test_r047_a_new_queue_gets_the_defaults_of_its_time(driver):
    assert driver.master.state.defaults_version == 1
    defaults(driver, ["max_length", "labels"], max_length=5, labels={"a": "1"})
    driver.create("late")
    driver.create("own", max_length=7, labels={"b": "2"})
    config, version = (defaults_of(driver.master.state), driver.master.state.defaults_version)
    assert (config.max_length, version) == (5, 2)
    assert driver.info("q").config.max_length == Limits().queue_length_max
    assert driver.info("late").config.max_length == 5
    assert dict(driver.info("late").config.labels) == {"a": "1"}
    assert (driver.info("own").config.max_length, dict(driver.info("own").config.labels)) == (7, {"b": "2"})
    assert driver.restored().digest() == driver.master.digest()


@pytest.mark.requirement("R047")
def test_a_duration_of_the_creator_takes_the_place_of_the_default(driver):
    config = admin_pb2.QueueConfig()
    config.lease_duration.FromMilliseconds(1_500)
    defaults(driver, ["lease_duration"], lease_duration=config.lease_duration)
    asked = admin_pb2.QueueConfig()
    asked.lease_duration.FromMilliseconds(2_000)
    driver.create("own", lease_duration=asked.lease_duration)
    assert driver.info("own").config.lease_duration.ToMilliseconds() == 2_000


@pytest.mark.requirement("R047")
def test_an_attribute_goes_back_to_the_managers_default(driver):
    defaults(driver, ["max_length"], max_length=5)
    driver.queue(record_pb2.QUEUE_ACTION_UPDATE, config=admin_pb2.QueueConfig(), mask=["max_length"])
    assert driver.info().config.max_length == 5
    defaults(driver, ["max_length"])
    assert (defaults_of(driver.master.state), driver.master.state.defaults_version)[
        0
    ].max_length == Limits().queue_length_max


@pytest.mark.parametrize(
    ("mask", "version", "attributes", "reason"),
    [
        (["max_length"], 2, {"max_length": 3}, common_pb2.REASON_VERSION_MISMATCH),
        (["max_length"], 1, {"max_length": 0}, common_pb2.REASON_BAD_ATTRIBUTE),
        (["replication"], 0, {}, common_pb2.REASON_READ_ONLY),
        (["nonsense"], 0, {}, common_pb2.REASON_BAD_ATTRIBUTE),
        ([], 0, {}, common_pb2.REASON_BAD_REQUEST),
    ],
)
def test_defaults_are_refused_as_a_queues_attributes_are(driver, mask, version, attributes, reason):
    refused = driver.refusal(lambda: defaults(driver, mask, version, **attributes))
    assert refused.reason == reason


def test_a_two_way_queue_is_leased_whatever_the_default():
    driver = Driver(Limits(default_settle=SETTLE_MODE_IMMEDIATE))
    driver.create("two", queue_type=admin_pb2.QUEUE_TYPE_TWO_WAY)
    driver.create("one")
    assert driver.info("two").config.default_settle == SETTLE_MODE_LEASE
    assert driver.info("one").config.default_settle == SETTLE_MODE_IMMEDIATE
