"""States of a queue, and what changes it by time."""

from __future__ import annotations

import pytest

from replica.machine import Limits
from replica.machine.plan.time import next_due_ms, plan_expire
from replica.machine.state.profiles import limits_of
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tandemq.v1 import queue_service_pb2 as service_pb2
from tests.unit.replica.machine.driver import Driver, batch_of
from tests.unit.replica.machine.plan.test_names import alias

CREATE, UPDATE = record_pb2.QUEUE_ACTION_CREATE, record_pb2.QUEUE_ACTION_UPDATE
OPEN, CLOSE = record_pb2.QUEUE_ACTION_OPEN, record_pb2.QUEUE_ACTION_CLOSE
CONFIGURE, DELETE = record_pb2.QUEUE_ACTION_CONFIGURE, record_pb2.QUEUE_ACTION_DELETE
PURGE = record_pb2.QUEUE_ACTION_PURGE
DAY_MS = 86_400_000


def config_of(**attributes):
    """Durations and times in milliseconds."""
    config = admin_pb2.QueueConfig()
    for name, value in attributes.items():
        if config.DESCRIPTOR.fields_by_name[name].message_type is not None:
            getattr(config, name).FromMilliseconds(value)
        else:
            setattr(config, name, value)
    return config


def created(**attributes):
    driver = Driver()
    driver.queue(CREATE, config=config_of(**attributes))
    return driver


def expire(driver, after_ms):
    driver.now_ms += after_ms
    header = driver.plan(lambda: plan_expire(driver.master.state, driver.now_ms))
    if header is not None:
        driver.order(header)
    return header


def states(driver):
    return [driver.info(member=member).state for member in ("a", "b")]


@pytest.mark.requirement("R040", "R041", "R042", "R092", "R093", "R095")
def test_r095_configure_open_close_and_open_again_move_the_state_at_both_members():
    driver = Driver()
    driver.queue(CREATE, configuring=True)
    assert states(driver) == [admin_pb2.QUEUE_STATE_CONFIGURING] * 2
    driver.queue(CONFIGURE)
    assert states(driver) == [admin_pb2.QUEUE_STATE_CONFIGURED] * 2
    driver.queue(OPEN)
    assert states(driver) == [admin_pb2.QUEUE_STATE_OPEN] * 2
    driver.queue(CLOSE)
    assert states(driver) == [admin_pb2.QUEUE_STATE_CLOSED] * 2
    driver.queue(OPEN)
    assert states(driver) == [admin_pb2.QUEUE_STATE_OPEN] * 2


@pytest.mark.requirement("R009", "R095")
@pytest.mark.parametrize(
    ("steps", "illegal"),
    [
        ([], [OPEN, CLOSE]),
        ([CONFIGURE], [CONFIGURE, CLOSE]),
        ([CONFIGURE, OPEN], [CONFIGURE, OPEN]),
        ([CONFIGURE, OPEN, CLOSE], [CONFIGURE, CLOSE]),
    ],
)
def test_r095_an_illegal_move_is_refused_and_changes_nothing(steps, illegal):
    driver = Driver()
    driver.queue(CREATE, configuring=True)
    for step in steps:
        driver.queue(step)
    before = driver.master.digest()
    for step in illegal:
        assert driver.refusal(lambda step=step: driver.queue(step)).reason == common_pb2.REASON_INVALID_STATE
    if OPEN not in steps or CLOSE in steps:
        refused = driver.refusal(lambda: driver.plan_enqueue(batch_of([1])))
        assert refused.reason == common_pb2.REASON_INVALID_STATE
    assert driver.master.digest() == before
    assert driver.restored().digest() == before


@pytest.mark.requirement("R029")
def test_a_queue_that_becomes_two_way_delivers_under_a_lease():
    driver = Driver(limits=limits_of("classic"))
    driver.queue(CREATE, configuring=True)
    assert driver.info().config.default_settle == service_pb2.SETTLE_MODE_IMMEDIATE
    driver.queue(UPDATE, config=config_of(queue_type=admin_pb2.QUEUE_TYPE_TWO_WAY), mask=["queue_type"])
    assert driver.info().config.default_settle == service_pb2.SETTLE_MODE_LEASE
    change = config_of(queue_type=admin_pb2.QUEUE_TYPE_TWO_WAY, default_settle=service_pb2.SETTLE_MODE_IMMEDIATE)
    refused = driver.refusal(lambda: driver.queue(UPDATE, config=change, mask=["queue_type", "default_settle"]))
    assert refused.reason == common_pb2.REASON_BAD_ATTRIBUTE, "who asks for it by name is told"


@pytest.mark.requirement("R029", "R040")
def test_r040_configure_freezes_the_type_and_nothing_else():
    driver = Driver()
    driver.queue(CREATE, configuring=True)
    driver.queue(UPDATE, config=config_of(queue_type=admin_pb2.QUEUE_TYPE_TWO_WAY), mask=["queue_type"])
    assert driver.info().config.queue_type == admin_pb2.QUEUE_TYPE_TWO_WAY
    driver.queue(CONFIGURE)
    change = config_of(queue_type=admin_pb2.QUEUE_TYPE_ONE_WAY)
    refused = driver.refusal(lambda: driver.queue(UPDATE, config=change, mask=["queue_type"]))
    assert refused.reason == common_pb2.REASON_READ_ONLY
    driver.queue(UPDATE, config=config_of(max_length=5), mask=["max_length"])
    assert driver.info().config.max_length == 5


@pytest.mark.requirement("R042")
def test_r042_close_drops_volatile_messages_and_keeps_the_others():
    driver = created(persistence=admin_pb2.PERSISTENCE_CONDITIONAL)
    driver.enqueue(batch_of([1, 1, 1], persistence=[2, 1, 2]))
    driver.queue(CLOSE)
    assert driver.info().volatile_lost_total == 1
    driver.queue(OPEN)
    assert driver.browse() == [1, 3]


@pytest.mark.requirement("R041")
def test_open_opens_what_is_not_open_yet():
    driver = Driver()
    driver.queue(CREATE, open_members=["a"])
    driver.queue(OPEN)
    assert states(driver) == [admin_pb2.QUEUE_STATE_OPEN] * 2


@pytest.mark.requirement("R162")
def test_r162_an_empty_unused_queue_is_deleted_after_its_time():
    driver = created(empty_idle_expiry=DAY_MS)
    driver.create("stays")
    assert next_due_ms(driver.master.state) == driver.now_ms + DAY_MS
    assert expire(driver, DAY_MS - 1) is None
    assert list(expire(driver, 1).expire.idle_queue_ids) == [1]
    assert driver.master.names() == ["stays"]
    assert next_due_ms(driver.master.state) is None


@pytest.mark.requirement("R162")
def test_r162_the_clock_starts_when_it_becomes_empty():
    driver = created(empty_idle_expiry=1_000)
    driver.enqueue(batch_of([1, 1]))
    assert expire(driver, 5_000) is None
    assert next_due_ms(driver.master.state) is None
    lease_id = driver.lease(2)[0]
    driver.ack(lease_id, (1, 1))
    assert next_due_ms(driver.master.state) is not None  # its lease
    driver.ack(lease_id, (2, 2))
    assert next_due_ms(driver.master.state) == driver.now_ms + 1_000
    restored = driver.restored()
    assert next_due_ms(restored.state) == driver.now_ms + 1_000
    driver.now_ms += 600
    driver.queue(UPDATE, config=config_of(annotation="used"), mask=["annotation"])
    assert expire(driver, 900) is None
    assert expire(driver, 100) is not None


@pytest.mark.requirement("R162")
def test_a_time_that_is_set_later_counts_from_then():
    driver = created()
    driver.now_ms += DAY_MS
    driver.queue(UPDATE, config=config_of(empty_idle_expiry=1_000), mask=["empty_idle_expiry"])
    assert expire(driver, 999) is None
    driver.queue(UPDATE, config=config_of(empty_idle_expiry=0), mask=["empty_idle_expiry"])
    assert expire(driver, DAY_MS) is None
    assert next_due_ms(driver.master.state) is None


@pytest.mark.requirement("R162")
@pytest.mark.parametrize("named", ["", "graves", "other"])
def test_r162_where_a_living_queue_sends_its_dead_letters_stays(named):
    driver = Driver()
    driver.queue(CREATE, config=config_of(**({"dead_letter_queue": named} if named else {})))
    name = named if named and named != "other" else "q.dead"
    driver.queue(CREATE, name, config=config_of(empty_idle_expiry=1_000))
    if named == "other":
        alias(driver, "other", name)
    assert expire(driver, 1_000) is None
    assert next_due_ms(driver.master.state) == driver.now_ms + 1_000
    driver.queue(DELETE)
    assert expire(driver, 1_000) is not None
    assert driver.master.names() == []


@pytest.mark.requirement("R162")
def test_a_time_that_was_shorter_for_a_while_ends_the_queue_once():
    """The moment that was waited for first came up again: a record named the queue twice, and both members stopped."""
    driver = created(empty_idle_expiry=1_000)
    for idle_ms in (500, 1_000):
        driver.queue(UPDATE, config=config_of(empty_idle_expiry=idle_ms), mask=["empty_idle_expiry"])
    assert expire(driver, 500) is None
    assert list(expire(driver, 500).expire.idle_queue_ids) == [1]
    assert driver.master.names() == []


def test_idle_queues_end_in_bounded_records():
    driver = Driver(Limits(idle_max=2))
    for number in range(5):
        driver.queue(CREATE, f"q{number}", config=config_of(empty_idle_expiry=1_000))
    found = [len(expire(driver, step).expire.idle_queue_ids) for step in (1_000, 0, 0)]
    assert found == [2, 2, 1]
    assert expire(driver, DAY_MS) is None


def test_a_queue_that_is_used_all_the_time_costs_one_entry():
    driver = created(empty_idle_expiry=DAY_MS)
    for _ in range(50):
        driver.now_ms += 10
        driver.enqueue(batch_of([1]))
        driver.ack(driver.lease(1)[0], (driver.info().last_index, driver.info().last_index))
    assert len(driver.master.state.idle) == 1
    assert next_due_ms(driver.master.state) == driver.now_ms + DAY_MS


@pytest.mark.requirement("R163")
@pytest.mark.parametrize("way", ["enqueue", "dequeue"])
def test_r163_what_is_disabled_becomes_enabled_at_its_time(way):
    driver = created()
    change = config_of(**{f"{way}_enabled": False, f"{way}_enabled_at": driver.now_ms + 500})
    driver.queue(UPDATE, config=change, mask=[f"{way}_enabled", f"{way}_enabled_at"])
    version = driver.info().version
    assert next_due_ms(driver.restored().state) == next_due_ms(driver.master.state) == driver.now_ms + 500
    assert expire(driver, 499) is None
    assert list(expire(driver, 1).expire.enabled_queue_ids) == [1]
    config = driver.info().config
    assert getattr(config, f"{way}_enabled")
    assert not config.HasField(f"{way}_enabled_at")
    assert driver.info().version == version + 1
    assert next_due_ms(driver.master.state) is None


@pytest.mark.requirement("R163")
def test_r163_enabling_by_hand_takes_the_time_away():
    driver = created(enqueue_enabled=False, enqueue_enabled_at=2_000_000)
    driver.queue(UPDATE, config=config_of(enqueue_enabled=True), mask=["enqueue_enabled"])
    assert not driver.info().config.HasField("enqueue_enabled_at")
    assert next_due_ms(driver.master.state) is None


@pytest.mark.requirement("R163")
@pytest.mark.parametrize(
    "attributes",
    [
        {"enqueue_enabled_at": 2_000_000},
        {"dequeue_enabled": True, "dequeue_enabled_at": 2_000_000},
        {"dequeue_enabled": False, "dequeue_enabled_at": 0},
    ],
)
def test_a_time_of_enabling_needs_what_is_disabled(attributes):
    driver = Driver()
    refused = driver.refusal(lambda: driver.queue(CREATE, config=config_of(**attributes)))
    assert refused.reason == common_pb2.REASON_BAD_ATTRIBUTE


@pytest.mark.requirement("R048", "R126")
def test_r048_totals_say_what_happened():
    driver = created(lease_duration=1_000)
    driver.enqueue(batch_of([1, 1, 1, 1], priorities=[9, 4, 4, 0]))
    assert list(driver.info().ready_by_priority) == [1, 0, 0, 0, 2, 0, 0, 0, 0, 1]
    lease_id = driver.lease(3)[0]
    driver.now_ms += 300
    driver.ack(lease_id, (1, 1))
    driver.now_ms += 100
    driver.ack(lease_id, (2, 2))
    expire(driver, 2_000)
    info = driver.info()
    assert (info.delivered_total, info.redelivered_total, info.acked_total) == (3, 1, 2)
    assert info.mean_process_time.ToMilliseconds() == 350
    assert driver.restored().digest() == driver.master.digest()
