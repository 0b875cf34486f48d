"""Options that an instance brings when it is opened, and the address of a queue."""

from __future__ import annotations

import pytest

from replica.machine.state.profiles import limits_of
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.unit.replica.machine.driver import Driver

CREATE, UPDATE = record_pb2.QUEUE_ACTION_CREATE, record_pb2.QUEUE_ACTION_UPDATE
OPEN, CLOSE = record_pb2.QUEUE_ACTION_OPEN, record_pb2.QUEUE_ACTION_CLOSE
TWO_WAY = admin_pb2.QUEUE_TYPE_TWO_WAY


@pytest.fixture
def driver() -> Driver:
    """A queue that is open nowhere, as CreateReplicatedQueue leaves it."""
    made = Driver(limits=limits_of("classic"))
    made.queue(CREATE, open_members=())
    return made


def opened(driver: Driver, member: str, **options: object) -> None:
    driver.queue(OPEN, member=member, config=admin_pb2.QueueConfig(**options))


def refusal(driver: Driver, member: str, **options: object):
    before = driver.master.digest()
    refused = driver.refusal(lambda: opened(driver, member, **options))
    assert driver.master.digest() == before
    return refused


@pytest.mark.requirement("R049")
def test_r049_the_first_instance_brings_its_options_and_the_second_agrees(driver):
    version = driver.info().version
    opened(driver, "a", max_length=5, queue_type=TWO_WAY, annotation="ours")
    config = driver.info().config
    assert (config.max_length, config.queue_type, config.annotation) == (5, TWO_WAY, "ours")
    assert driver.info().version == version + 1
    opened(driver, "b", max_length=5, queue_type=TWO_WAY)
    assert driver.info().version == version + 1, "nothing was changed"
    assert driver.restored().digest() == driver.master.digest()


@pytest.mark.requirement("R049")
def test_r049_an_instance_that_differs_does_not_open(driver):
    opened(driver, "a", max_length=5)
    for name, value, words in (
        ("max_length", 6, "max_length is 5 at the members where it is open, not 6"),
        ("queue_type", TWO_WAY, "queue_type is QUEUE_TYPE_ONE_WAY"),
        ("domain", "elsewhere", "domain is"),
    ):
        refused = refusal(driver, "b", **{name: value})
        assert (refused.reason, refused.metadata) == (common_pb2.REASON_CONFIG_MISMATCH, {"attribute": name})
        assert words in refused.message
    assert driver.info(member="b").state == admin_pb2.QUEUE_STATE_CONFIGURED
    opened(driver, "b", max_length=5, address="b:7600", remote_clients_allowed=False)
    config = driver.info().config
    assert (config.address, config.remote_clients_allowed) == ("", True), "a member's own; the first one's stand"


@pytest.mark.requirement("R049")
def test_r049_options_take_effect_anew_once_all_instances_are_closed(driver):
    opened(driver, "a", max_length=5)
    driver.send(1)
    driver.queue(CLOSE, member="a")
    opened(driver, "b", max_length=6)
    assert driver.info().config.max_length == 6
    assert refusal(driver, "a", max_length=5).reason == common_pb2.REASON_CONFIG_MISMATCH
    driver.queue(CLOSE, member="b")
    frozen = refusal(driver, "a", queue_type=TWO_WAY)
    assert frozen.reason == common_pb2.REASON_READ_ONLY, "it has had messages"


@pytest.mark.requirement("R049")
def test_r049_options_that_cannot_be_are_refused(driver):
    assert refusal(driver, "a", max_length=0).reason == common_pb2.REASON_BAD_ATTRIBUTE
    assert refusal(driver, "a", replication=admin_pb2.REPLICATION_PRODUCER).reason == common_pb2.REASON_CONFIG_MISMATCH
    opened(driver, "a")
    assert driver.info().config.max_length == 1000


@pytest.mark.requirement("R011")
@pytest.mark.parametrize("address", ["host:1", "10.0.0.1:65535", "[::1]:7600", "queues.example.org:7600"])
def test_a_queue_may_have_an_address_of_its_own(driver, address):
    driver.queue(UPDATE, config=admin_pb2.QueueConfig(address=address), mask=["address"])
    assert driver.info().config.address == address
    driver.queue(UPDATE, config=admin_pb2.QueueConfig(), mask=["address"])
    assert driver.info().config.address == ""


@pytest.mark.parametrize(
    "address", ["host", ":1", "host:0", "host:65536", "a b:1", "host:1/x", "::1:7600", "h" * 300 + ":1"]
)
def test_an_address_that_cannot_be_is_refused(driver, address):
    change = admin_pb2.QueueConfig(address=address)
    refused = driver.refusal(lambda: driver.queue(UPDATE, config=change, mask=["address"]))
    assert refused.reason == common_pb2.REASON_BAD_ATTRIBUTE
    assert "host:port" in refused.message
