"""Queues: names, attributes, instances, removal."""

from __future__ import annotations

import pytest

from replica.machine import Limits
from replica.machine.plan.time import next_due_ms
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1 import queue_service_pb2 as service_pb2
from tests.unit.replica.machine.driver import ACK, Driver, batch_of

CREATE, UPDATE = record_pb2.QUEUE_ACTION_CREATE, record_pb2.QUEUE_ACTION_UPDATE
DELETE, PURGE = record_pb2.QUEUE_ACTION_DELETE, record_pb2.QUEUE_ACTION_PURGE
OPEN, CLOSE = record_pb2.QUEUE_ACTION_OPEN, record_pb2.QUEUE_ACTION_CLOSE
DESTROY = record_pb2.QUEUE_ACTION_DESTROY


@pytest.mark.requirement("R142")
@pytest.mark.parametrize("name", ["a", "cf/hotline", "A-Z_0.9", "a/b/c", "system.x", "...", "x" * 255])
def test_r142_good_names(name):
    driver = Driver()
    driver.create(name)
    assert driver.master.names() == [name]


@pytest.mark.parametrize(
    "name",
    ["", "/", "a//b", "/a", "a/", ".", "..", "a/../b", "./a", "a b", "ü", "a\n", "SYSTEM.x", "x" * 256, "*", "a\\b"],
)
def test_bad_names(name):
    refused = Driver().refusal(lambda: Driver().create(name))
    assert refused.reason == common_pb2.REASON_BAD_NAME


@pytest.mark.requirement("R156")
def test_r156_unset_attributes_become_the_profiles(driver):
    config = driver.info().config
    assert config.persistence == admin_pb2.PERSISTENCE_PERSISTENT
    assert (config.max_length, config.max_bytes, config.max_message_bytes) == (10_000_000, 8 << 30, 1 << 20)
    assert (config.lease_duration.seconds, config.max_deliveries) == (30, 20)
    assert (config.enqueue_enabled, config.dequeue_enabled, config.require_two) == (True, True, False)
    assert (config.replication, config.domain) == (admin_pb2.REPLICATION_FULL, "main")
    assert driver.info().state == admin_pb2.QUEUE_STATE_OPEN
    assert list(driver.info().open_members) == ["a", "b"]


@pytest.mark.requirement("R164")
@pytest.mark.parametrize(
    "text", ["über 'alles'\n\t{}", "%s ${HOME} {{x}} <b>&amp;</b>", '{"a": 1}', "\x00", " ", "x" * 4096], ids=repr
)
def test_r164_the_annotation_of_a_queue_is_kept_as_it_is(text: str) -> None:
    """At both members and after a restart; a queue beside it has its own, and each may be changed and taken away."""
    driver = Driver()
    driver.create(annotation=text)
    driver.create("r", annotation="other")
    for machine in (driver.master, driver.replica, driver.restored()):
        assert machine.queue_info("q", "a").config.annotation == text
        assert machine.queue_info("r", "a").config.annotation == "other"
    for changed in ("now " + text[:100], ""):
        driver.order(driver.queue(UPDATE, config=admin_pb2.QueueConfig(annotation=changed), mask=["annotation"]))
        for machine in (driver.master, driver.replica, driver.restored()):
            assert machine.queue_info("q", "a").config.annotation == changed
            assert machine.queue_info("r", "a").config.annotation == "other"


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"max_length": 0}, common_pb2.REASON_BAD_ATTRIBUTE),
        ({"max_message_bytes": 0}, common_pb2.REASON_BAD_ATTRIBUTE),
        ({"max_message_bytes": 5 << 20}, common_pb2.REASON_BAD_ATTRIBUTE),
        ({"max_bytes": 10}, common_pb2.REASON_BAD_ATTRIBUTE),
        ({"persistence": 9}, common_pb2.REASON_BAD_ATTRIBUTE),
        ({"lease_duration": {"seconds": -1}}, common_pb2.REASON_BAD_ATTRIBUTE),
        ({"default_ttl": {"seconds": -1}}, common_pb2.REASON_BAD_ATTRIBUTE),
        ({"annotation": "x" * 5_000}, common_pb2.REASON_BAD_ATTRIBUTE),
        ({"dead_letter_queue": "no name"}, common_pb2.REASON_BAD_ATTRIBUTE),
        ({"queue_type": 9}, common_pb2.REASON_BAD_ATTRIBUTE),
        ({"overflow": 9}, common_pb2.REASON_BAD_ATTRIBUTE),
        ({"reply_timeout": {"seconds": -1}}, common_pb2.REASON_BAD_ATTRIBUTE),
        ({"retry_delay_min": {"seconds": 2}, "retry_delay_max": {"seconds": 1}}, common_pb2.REASON_BAD_ATTRIBUTE),
        ({"labels": {"": "x"}}, common_pb2.REASON_BAD_ATTRIBUTE),
        ({"labels": {"x": "x" * 256}}, common_pb2.REASON_BAD_ATTRIBUTE),
        ({"labels": {str(n): "" for n in range(65)}}, common_pb2.REASON_BAD_ATTRIBUTE),
        ({"dedup_max": 1_000_001}, common_pb2.REASON_BAD_ATTRIBUTE),
        (
            {"queue_type": admin_pb2.QUEUE_TYPE_TWO_WAY, "default_settle": service_pb2.SETTLE_MODE_IMMEDIATE},
            common_pb2.REASON_BAD_ATTRIBUTE,
        ),
        ({"lockstep": 9}, common_pb2.REASON_BAD_ATTRIBUTE),
    ],
)
def test_bad_attributes(attributes, reason):
    driver = Driver()
    assert driver.refusal(lambda: driver.create(**attributes)).reason == reason
    assert driver.log_index == 0


def test_a_name_is_taken_once_and_the_number_of_queues_is_bounded():
    driver = Driver(Limits(queues_max=2))
    driver.create("one")
    assert driver.refusal(lambda: driver.create("one")).reason == common_pb2.REASON_QUEUE_EXISTS
    driver.create("two")
    assert driver.refusal(lambda: driver.create("three")).reason == common_pb2.REASON_QUOTA_EXCEEDED


@pytest.mark.requirement("R156")
def test_an_update_changes_what_the_mask_names_and_raises_the_version(driver):
    new = admin_pb2.QueueConfig(max_length=5, annotation="ignored")
    driver.queue(UPDATE, config=new, mask=["max_length"], expected_version=1)
    info = driver.info()
    assert (info.version, info.config.max_length, info.config.annotation) == (2, 5, "")
    driver.queue(UPDATE, config=admin_pb2.QueueConfig(), mask=["max_length"])  # back to the default
    assert driver.info().config.max_length == 10_000_000
    driver.queue(UPDATE, config=admin_pb2.QueueConfig(annotation="all that is set"))
    assert (driver.info().version, driver.info().config.annotation) == (4, "all that is set")


@pytest.mark.requirement("R160")
@pytest.mark.parametrize(
    ("mask", "version", "reason"),
    [
        (["replication"], 0, common_pb2.REASON_READ_ONLY),
        (["length"], 0, common_pb2.REASON_READ_ONLY),  # R160
        (["no_such"], 0, common_pb2.REASON_BAD_ATTRIBUTE),
        ([], 0, common_pb2.REASON_BAD_REQUEST),
        (["annotation"], 7, common_pb2.REASON_VERSION_MISMATCH),
    ],
)
def test_refused_updates_change_nothing(driver, mask, version, reason):
    config = admin_pb2.QueueConfig()
    refused = driver.refusal(lambda: driver.queue(UPDATE, config=config, mask=mask, expected_version=version))
    assert refused.reason == reason
    assert driver.info().version == 1


@pytest.mark.requirement("R160")
def test_r160_the_current_length_is_not_the_maximum(driver):
    driver.send(3)
    assert (driver.info().length, driver.info().config.max_length) == (3, 10_000_000)


def test_purge_leaves_what_is_leased(driver):
    driver.send(5)
    lease_id, _ = driver.lease(2)
    assert driver.queue(PURGE).queue.removed == 3
    assert driver.browse() == [1, 2]
    assert driver.outcome(ACK, lease_id, (1, 2)).settled == 2


@pytest.mark.requirement("R014", "R037")
def test_delete_takes_everything_and_a_new_queue_of_that_name_begins_anew(driver):
    driver.send(3)
    driver.lease(1)
    refused = driver.refusal(lambda: driver.queue(DELETE, if_empty=True))
    assert refused.reason == common_pb2.REASON_NOT_EMPTY
    assert driver.queue(DELETE).queue.removed == 3
    assert (driver.freed, driver.master.names(), next_due_ms(driver.master.state)) == ([2], [], None)
    assert driver.create() == 2  # ids are never used again
    assert driver.send(1).first_index == 1
    assert driver.master.last_sequence("q", b"producer") == 1


@pytest.mark.requirement("R042", "R125")
def test_r125_volatile_messages_go_with_the_last_open_instance():
    driver = Driver()
    driver.create(persistence=admin_pb2.PERSISTENCE_CONDITIONAL)
    driver.enqueue(batch_of([1] * 3, persistence=[1, 2, 1]))
    driver.queue(CLOSE, member="a")
    assert driver.info().state == admin_pb2.QUEUE_STATE_CLOSED
    assert driver.info(member="b").state == admin_pb2.QUEUE_STATE_OPEN
    assert driver.browse() == [1, 2, 3]
    driver.queue(CLOSE, member="b")
    assert driver.browse() == [2]
    assert driver.refusal(driver.lease).reason == common_pb2.REASON_INVALID_STATE
    driver.queue(OPEN, member="b")
    assert driver.lease()[1] == [2]


@pytest.mark.requirement("R045")
def test_r045_destroying_the_last_instance_deletes_the_queue(driver):
    driver.send(2)
    driver.queue(DESTROY, member="a")
    assert driver.info().state == admin_pb2.QUEUE_STATE_UNSPECIFIED
    assert driver.browse() == [1, 2]
    assert driver.queue(DESTROY, member="b").queue.removed == 2
    assert driver.master.names() == []


@pytest.mark.requirement("R095")
@pytest.mark.parametrize(
    ("action", "member"), [(OPEN, "a"), (CLOSE, "c"), (OPEN, ""), (DESTROY, ""), (DESTROY, "c"), (OPEN, "c")]
)
def test_any_other_event_is_invalid_and_changes_nothing(driver, action, member):
    refused = driver.refusal(lambda: driver.queue(action, member=member))
    assert refused.reason == common_pb2.REASON_INVALID_STATE


@pytest.mark.requirement("R095")
def test_an_instance_that_was_never_opened_is_configured():
    driver = Driver()
    driver.queue(CREATE, open_members=["a"])
    assert driver.info(member="b").state == admin_pb2.QUEUE_STATE_CONFIGURED
    driver.queue(OPEN, member="b")
    assert driver.info(member="b").state == admin_pb2.QUEUE_STATE_OPEN


def test_a_repeated_administration_call_is_known_by_its_id(driver):
    driver.send(2)
    header = driver.queue(UPDATE, config=admin_pb2.QueueConfig(annotation="x"), request_id=b"u" * 16, request_hash=3)
    answer = driver.master.find_request(b"u" * 16, 3)
    assert answer is not None
    assert (answer.kind, answer.action, answer.name, answer.version) == ("queue", UPDATE, "q", 2)
    driver.queue(DELETE, request_id=b"d" * 16)
    answer = driver.master.find_request(b"d" * 16, 0)
    assert answer is not None
    assert (answer.action, answer.name, answer.removed) == (DELETE, "q", 2)
    assert header.queue.queue_id == answer.queue_id


def test_browse_begins_where_asked_and_ends_where_asked(driver):
    driver.send(10)
    driver.enqueue(batch_of([1] * 5, priorities=[9, 0, 9, 0, 9]))
    driver.lease(4)
    assert driver.browse(from_index=8) == [8, 9, 10, 11, 12, 13, 14, 15]
    assert driver.browse(from_index=8, limit=4) == [8, 9, 10, 11]
    assert driver.browse(from_index=99) == []
