"""Bounds in bytes count bytes and not characters, and numbers are let in up to the last one that is allowed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from replica.machine import (
    AliasCall,
    BatchCall,
    Limits,
    PublishCall,
    PublishWeightsCall,
    Refused,
    RegisterCall,
    ReplyCall,
    SettleCall,
    StageCall,
    Window,
    columns_of,
)
from replica.machine.features.batches import NUMBER_MAX, plan_batch
from replica.machine.features.readers import TTL_MS_MAX, TTL_MS_MIN, plan_register
from replica.machine.features.weights import VALID_MS_MAX, plan_publish_weights
from replica.machine.plan.columns import DURATION_MS_MAX, TIMESTAMP_MS_MAX
from replica.machine.plan.delays import DELAY_MS_MAX
from replica.machine.plan.move import check_copy
from replica.machine.plan.names import plan_alias
from replica.machine.plan.reply import plan_reply
from replica.machine.plan.reply_copies import check_reply_tos
from replica.machine.plan.settle import plan_settle
from replica.machine.plan.stage import STAGES_OF_CALL_MAX, plan_publish, plan_stage, plan_unstage
from replica.machine.state.feature_rows import ReaderPlace
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2, queue_service_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.unit.replica.machine.driver import ACK, EXTEND, REJECT, RELEASE, Driver, batch_of, ranges_of

BAD_NAME, BAD_ATTRIBUTE = common_pb2.REASON_BAD_NAME, common_pb2.REASON_BAD_ATTRIBUTE
BAD_REQUEST, TOO_LARGE = common_pb2.REASON_BAD_REQUEST, common_pb2.REASON_MESSAGE_TOO_LARGE
Try = Callable[[Driver, Any], object]
TWO_WAY = admin_pb2.QUEUE_TYPE_TWO_WAY
LIMITS = Limits()


def text_of(size: int) -> str:
    """So many bytes, half as many characters."""
    return "ü" * (size // 2) + "x" * (size % 2)


def planned(driver: Driver, plan: Callable[..., Any], call: object) -> Any:
    return driver.plan(lambda: plan(driver.master.state, driver.now_ms, call))


def create(driver: Driver, **attributes: Any) -> None:
    driver.create(f"made{driver.log_index}", **attributes)


def register(driver: Driver, name: str = "r", ttl_ms: int = 0) -> None:
    planned(driver, plan_register, RegisterCall(name, ReaderPlace(1, 1), ttl_ms, False, b"", 0))


def publish(driver: Driver, writer: str = "w", query_id: str = "q") -> None:
    planned(driver, plan_publish, PublishCall(writer, query_id, 1, [], "a"))


def publish_weights(driver: Driver, published_by: str = "", valid_ms: int = 1, until_ms: int | None = None) -> None:
    ends = 0 if until_ms is None else driver.now_ms + until_ms
    call = PublishWeightsCall("t", [("q", 1.0)], ends, valid_ms, None, published_by, Window(), b"", 0)
    planned(driver, plan_publish_weights, call)


def settle(driver: Driver, outcome: int = ACK, **more: Any) -> None:
    lease_id = next(iter(driver.master.queue(1).leases), 0) or driver.lease(1)[0]
    settlement = queue_service_pb2.Settlement(lease_id=lease_id, outcome=outcome, ranges=ranges_of((1, 1)))  # type: ignore[arg-type]
    for name, value in more.items():
        if name == "reason":
            settlement.reason = value
        elif name == "ranges":
            del settlement.ranges[:]
            settlement.ranges.extend(common_pb2.IndexRange(first=first, count=count) for first, count in value)
        elif name == "lease_id":
            settlement.lease_id = value
        else:
            getattr(settlement, name).FromMilliseconds(value)
    result = planned(driver, plan_settle, SettleCall("q", [settlement])).results[0]
    if result.error.reason == BAD_REQUEST:
        raise Refused(result.error.reason, result.error.message)


def take_batch(driver: Driver, number: int) -> None:
    planned(driver, plan_batch, BatchCall("q", "c", number, 1, 1, 0))


BYTES: dict[str, tuple[Try, int, int]] = {
    "queue name": (lambda driver, size: driver.create("x" * size), 255, BAD_NAME),
    "alias": (lambda driver, size: planned(driver, plan_alias, AliasCall("x" * size, "q", b"", 0)), 255, BAD_NAME),
    "annotation": (lambda driver, size: create(driver, annotation=text_of(size)), 4_096, BAD_ATTRIBUTE),
    "key of a label": (lambda driver, size: create(driver, labels={text_of(size): ""}), 63, BAD_ATTRIBUTE),
    "value of a label": (lambda driver, size: create(driver, labels={"x": text_of(size)}), 255, BAD_ATTRIBUTE),
    "dead-letter queue": (lambda driver, size: create(driver, dead_letter_queue="x" * size), 255, BAD_ATTRIBUTE),
    "address": (lambda driver, size: create(driver, address="x" * (size - 2) + ":1"), 300, BAD_ATTRIBUTE),
    "dedup id": (lambda _, size: columns_of(batch_of([1], dedup_ids=[text_of(size)])), 255, BAD_ATTRIBUTE),
    "client id": (lambda driver, size: driver.plan_enqueue(batch_of([1]), client_id=bytes(size)), 64, BAD_REQUEST),
    "reply_to": (lambda driver, size: check_reply_tos(driver.master.queue(2), [text_of(size)]), 255, BAD_NAME),
    "reader": (lambda driver, size: register(driver, "x" * size), 64, BAD_NAME),
    "writer": (lambda driver, size: publish(driver, writer=text_of(size)), 255, BAD_REQUEST),
    "query id": (lambda driver, size: publish(driver, query_id=text_of(size)), 255, BAD_REQUEST),
    "reason": (lambda driver, size: settle(driver, REJECT, reason=text_of(size)), 1_024, BAD_REQUEST),
    "publisher": (
        lambda driver, size: publish_weights(driver, published_by=text_of(size)),
        255,
        common_pb2.REASON_BAD_WEIGHTS,
    ),
    "answer": (
        lambda driver, size: planned(driver, plan_reply, ReplyCall("requests", 1, 1, size)),
        LIMITS.message_bytes_max,
        TOO_LARGE,
    ),
    "row": (
        lambda driver, size: planned(
            driver, plan_stage, StageCall(bytes(16), 1, "q", columns_of(batch_of([size])), 0, 1, "a")
        ),
        LIMITS.message_bytes_max,
        TOO_LARGE,
    ),
    "copy": (lambda driver, size: check_copy(driver.master.state, "small", size, ""), 100, TOO_LARGE),
}


@pytest.fixture
def driver() -> Driver:
    made = Driver()
    made.create()
    made.create("requests", queue_type=TWO_WAY)
    made.create("small", max_bytes=100, max_message_bytes=50)
    made.send(1)
    made.enqueue(batch_of([1], queue="requests"))
    made.lease(1, name="requests")
    return made


@pytest.mark.parametrize("what", BYTES)
def test_the_last_byte_is_let_in_and_the_next_one_is_refused(driver: Driver, what: str) -> None:
    attempt, most, reason = BYTES[what]
    if what == "answer":
        lease_id = next(iter(driver.master.queue(2).leases))
        planned(driver, plan_reply, ReplyCall("requests", lease_id, 1, most))
    else:
        attempt(driver, most)
    assert driver.refusal(lambda: attempt(driver, most + 1)).reason == reason


def column(name: str) -> Try:
    return lambda _, value: columns_of(batch_of([1, 1], **{name: [0, value]}))


def configured(name: str) -> Try:
    return lambda driver, value: driver.create(f"made{driver.log_index}", **{name: value})


def lasting(name: str, **more: Any) -> Try:
    """An attribute that is a time, in milliseconds."""

    def attempt(driver: Driver, value: int) -> None:
        config = admin_pb2.QueueConfig(**more)
        seconds, rest_ms = divmod(value, 1_000)
        getattr(config, name).seconds, getattr(config, name).nanos = seconds, rest_ms * 1_000_000
        driver.queue(record_pb2.QUEUE_ACTION_CREATE, f"made{driver.log_index}", config=config)

    return attempt


TEN_YEARS_MS = 10 * 366 * 86_400_000
NUMBERS: dict[str, tuple[Try, int | None, int, int]] = {
    "max_message_bytes": (configured("max_message_bytes"), 1, LIMITS.batch_bytes_max, BAD_ATTRIBUTE),
    "dedup_max": (configured("dedup_max"), 1, LIMITS.dedup_ids_max, BAD_ATTRIBUTE),
    "lease_duration": (lasting("lease_duration"), 0, LIMITS.lease_ms_max, BAD_ATTRIBUTE),
    **{
        name: (lasting(name), 0, TEN_YEARS_MS, BAD_ATTRIBUTE)
        for name in ("default_ttl", "empty_idle_expiry", "retry_delay_min", "reply_timeout", "dedup_window")
    },
    "completion_retention": (lasting("completion_retention"), 0, TEN_YEARS_MS, BAD_ATTRIBUTE),
    "retry_delay_max": (lasting("retry_delay_max"), 0, TEN_YEARS_MS, BAD_ATTRIBUTE),
    "retry_delay_max over its least": (
        lasting("retry_delay_max", retry_delay_min={"seconds": 2}),
        2_000,
        TEN_YEARS_MS,
        BAD_ATTRIBUTE,
    ),
    "enqueue_enabled_at": (
        lasting("enqueue_enabled_at", enqueue_enabled=False),
        1,
        253_402_300_799_999,
        BAD_ATTRIBUTE,
    ),
    "priority": (column("priorities"), None, 9, BAD_ATTRIBUTE),
    "persistence": (column("persistence"), None, 2, BAD_ATTRIBUTE),
    "ttl": (column("ttls_ms"), None, DURATION_MS_MAX, BAD_ATTRIBUTE),
    "delay": (column("delays_ms"), None, DURATION_MS_MAX, BAD_ATTRIBUTE),
    "deliver_at": (column("deliver_at_ms"), None, TIMESTAMP_MS_MAX, BAD_ATTRIBUTE),
    "messages of a batch": (
        lambda driver, count: driver.plan_enqueue(batch_of([0] * count)),
        1,
        LIMITS.batch_messages_max,
        BAD_REQUEST,
    ),
    "rows of a part": (
        lambda driver, count: planned(
            driver, plan_stage, StageCall(bytes(16), 1, "q", columns_of(batch_of([0] * count)), 0, 1, "a")
        ),
        1,
        LIMITS.batch_messages_max,
        BAD_REQUEST,
    ),
    "id of a stage": (
        lambda driver, size: planned(
            driver, plan_stage, StageCall(bytes(size), 1, "q", columns_of(batch_of([1])), 0, 1, "a")
        ),
        16,
        16,
        BAD_REQUEST,
    ),
    "stages to drop": (
        lambda driver, count: planned(driver, plan_unstage, [bytes(16)] * count),
        None,
        STAGES_OF_CALL_MAX,
        BAD_REQUEST,
    ),
    "lease": (lambda driver, ms: driver.plan_lease(1, duration_ms=ms), None, LIMITS.lease_ms_max, BAD_REQUEST),
    "extension": (lambda driver, ms: settle(driver, EXTEND, extension=ms), 0, LIMITS.lease_ms_max, BAD_REQUEST),
    "delay of a release": (lambda driver, ms: settle(driver, RELEASE, delay=ms), 0, DELAY_MS_MAX, BAD_REQUEST),
    "ranges of a settlement": (
        lambda driver, count: settle(driver, ranges=[(1, 1)] * count),
        1,
        LIMITS.settlement_ranges_max,
        BAD_REQUEST,
    ),
    "first of a range": (lambda driver, first: settle(driver, ranges=[(first, 1)]), 1, (1 << 63) - 1, BAD_REQUEST),
    "count of a range": (lambda driver, count: settle(driver, ranges=[(1, count)]), 1, (1 << 63) - 1, BAD_REQUEST),
    "lease of a settlement": (lambda driver, key: settle(driver, lease_id=key), 1, (1 << 63) - 1, BAD_REQUEST),
    "number of a batch": (take_batch, 1, NUMBER_MAX, BAD_REQUEST),
    "life of a reader": (lambda driver, ms: register(driver, ttl_ms=ms), TTL_MS_MIN, TTL_MS_MAX, BAD_REQUEST),
    "validity of weights": (
        lambda driver, ms: publish_weights(driver, valid_ms=ms),
        1,
        VALID_MS_MAX,
        common_pb2.REASON_BAD_WEIGHTS,
    ),
    "end of weights": (
        lambda driver, ms: publish_weights(driver, until_ms=ms),
        1,
        VALID_MS_MAX,
        common_pb2.REASON_BAD_WEIGHTS,
    ),
}


@pytest.mark.parametrize("what", NUMBERS)
def test_numbers_are_let_in_from_the_first_to_the_last(driver: Driver, what: str) -> None:
    attempt, first, last, reason = NUMBERS[what]
    attempt(driver, last)
    assert driver.refusal(lambda: attempt(driver, last + 1)).reason == reason
    if first is not None:
        attempt(driver, first)
        assert driver.refusal(lambda: attempt(driver, first - 1)).reason == reason


def test_a_queue_has_so_many_aliases_labels_and_messages() -> None:
    driver = Driver(Limits(aliases_max=2, labels_max=2))
    driver.create(max_length=1)
    assert driver.refusal(lambda: create(driver, max_length=0)).reason == BAD_ATTRIBUTE
    create(driver, labels={"one": "", "two": ""})
    with_three = {"one": "", "two": "", "three": ""}
    assert driver.refusal(lambda: driver.create("more", labels=with_three)).reason == BAD_ATTRIBUTE
    for alias in ("one", "two"):
        driver.order(planned(driver, plan_alias, AliasCall(alias, "q", b"", 0)))
    refused = driver.refusal(lambda: planned(driver, plan_alias, AliasCall("three", "q", b"", 0)))
    assert refused.reason == common_pb2.REASON_QUOTA_EXCEEDED


def test_a_queue_may_hold_as_many_bytes_as_its_largest_message_has() -> None:
    driver = Driver()
    driver.create(max_bytes=50, max_message_bytes=50)
    refused = driver.refusal(lambda: create(driver, max_bytes=49, max_message_bytes=50))
    assert refused.reason == BAD_ATTRIBUTE
    driver.create("boundless", max_bytes=0, max_message_bytes=50)
    assert not driver.send(9, queue="boundless").refusals


@pytest.mark.parametrize(
    ("address", "good"),
    [
        ("h:1", True),
        ("h:65535", True),
        ("h:65536", False),
        ("h:0", False),
        ("[::1]:80", True),
        ("h", False),
        ("", True),
    ],
)
def test_an_address_is_a_host_and_a_port(address: str, good: bool) -> None:
    driver = Driver()
    if good:
        driver.create(address=address)
        assert driver.info().config.address == address
    else:
        assert driver.refusal(lambda: driver.create(address=address)).reason == BAD_ATTRIBUTE
