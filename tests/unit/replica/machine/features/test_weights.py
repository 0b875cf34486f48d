"""Tables of routing weights: what may be published, over which version, and how long it may be used."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest

from replica.machine import DeleteWeightsCall, Limits, PublishWeightsCall, Window
from replica.machine.features.weights import (
    PUBLISHER_BYTES_MAX,
    TIME_MS_MAX,
    VALID_MS_MAX,
    WEIGHT_MAX,
    all_weights,
    plan_delete_weights,
    plan_publish_weights,
    table_as_of,
)
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tests.unit.replica.machine.driver import Driver

ID = b"i" * 16
BAD = common_pb2.REASON_BAD_WEIGHTS


@pytest.fixture
def driver() -> Driver:
    driver = Driver()
    for name in ("q", "r", "s"):
        driver.create(name)
    return driver


def publish(driver: Driver, *weights: tuple[str, float], name: str = "shares", **more: Any) -> int:
    """The version that it got."""
    given = {
        "valid_until_ms": 0,
        "valid_ms": 0 if "valid_until_ms" in more else 60_000,
        "expected_version": None,
        "published_by": "",
        "window": Window(),
        "request_id": b"",
        "request_hash": 0,
    } | more
    call = PublishWeightsCall(name, weights or (("q", 1.0),), **given)
    header = driver.plan(lambda: plan_publish_weights(driver.master.state, driver.now_ms, call))
    driver.order(header)
    return int(header.weights.version)


def delete(driver: Driver, expected: int | None = None, name: str = "shares") -> None:
    call = DeleteWeightsCall(name, expected, b"", 0)
    driver.order(driver.plan(lambda: plan_delete_weights(driver.master.state, driver.now_ms, call)))


def told(driver: Driver, name: str = "shares") -> Any:
    return table_as_of(driver.master.state, driver.now_ms, name)


def test_a_table_takes_the_place_of_the_one_before_it(driver: Driver) -> None:
    assert publish(driver, ("r", 0.25), ("q", 0.75), published_by="stats", window=Window(5, 9)) == 1
    found = told(driver)
    assert found.queues == (("q", 0.75), ("r", 0.25))
    assert (found.table.published_by, found.table.window) == ("stats", Window(5, 9))
    assert (found.table.published_ms, found.left_ms) == (driver.now_ms, 60_000)
    assert publish(driver, ("s", 3)) == 2
    assert told(driver).queues == (("s", 3.0),)
    assert publish(driver, name="other") == 3
    assert [each.table.name for each in all_weights(driver.master.state, driver.now_ms)] == ["other", "shares"]


def test_a_stale_publisher_is_refused_also_over_a_deletion(driver: Driver) -> None:
    """Two have read version 1; the slower one must not undo what the other one has said since."""
    assert publish(driver, expected_version=0) == 1
    assert publish(driver, expected_version=1) == 2
    refusals = [driver.refusal(partial(publish, driver, expected_version=old)) for old in (0, 1, 3)]
    assert {refusal.reason for refusal in refusals} == {common_pb2.REASON_VERSION_MISMATCH}
    assert {refusal.metadata["version"] for refusal in refusals} == {"2"}
    assert driver.refusal(lambda: delete(driver, 1)).reason == common_pb2.REASON_VERSION_MISMATCH
    delete(driver, 2)
    assert driver.refusal(lambda: publish(driver, expected_version=2)).metadata["version"] == "0"
    assert publish(driver, expected_version=0) == 3, "no version is given twice"
    assert driver.refusal(lambda: publish(driver, expected_version=1)).metadata["version"] == "3"


def test_nobody_of_that_name(driver: Driver) -> None:
    publish(driver)
    delete(driver)
    for make in (lambda: told(driver), lambda: delete(driver), lambda: delete(driver, 0)):
        refusal = driver.refusal(make)
        assert (refusal.reason, refusal.metadata) == (common_pb2.REASON_WEIGHTS_NOT_FOUND, {"table": "shares"})


def test_it_expires_and_stays(driver: Driver) -> None:
    publish(driver, valid_until_ms=driver.now_ms + 1_000)
    driver.now_ms += 999
    assert told(driver).left_ms == 1
    driver.now_ms += 1
    assert told(driver).left_ms == 0
    driver.now_ms += VALID_MS_MAX
    assert (told(driver).left_ms, driver.expire()) == (0, 0)
    assert publish(driver, expected_version=1) == 2


@pytest.mark.parametrize("weight", [-0.1, math.nan, math.inf, -math.inf, WEIGHT_MAX * 1.001])
def test_no_weight_at_all(driver: Driver, weight: float) -> None:
    refusal = driver.refusal(lambda: publish(driver, ("q", 1), ("r", weight)))
    assert (refusal.reason, refusal.metadata) == (BAD, {"table": "shares", "queue": "r"})
    assert str(weight) in refusal.message


@pytest.mark.parametrize(
    ("weights", "more", "reason", "text"),
    [
        ((("q", 0.0), ("r", -0.0)), {}, BAD, "all weights are 0"),
        ((("q", 1.0), ("q", 2.0)), {}, BAD, "stands in it twice"),
        ((("q", 1.0), ("gone", 1.0)), {}, common_pb2.REASON_QUEUE_NOT_FOUND, "no queue 'gone'"),
        ((), {"name": "a b"}, common_pb2.REASON_BAD_NAME, "name of a table of weights"),
        ((), {"name": ""}, common_pb2.REASON_BAD_NAME, "name of a table of weights"),
        ((), {"published_by": "p" * (PUBLISHER_BYTES_MAX + 1)}, BAD, "published_by"),
        ((), {"valid_ms": 0}, BAD, "for how long"),
        ((), {"valid_ms": -1}, BAD, "for how long"),
        ((), {"valid_ms": VALID_MS_MAX + 1}, BAD, "7 days"),
        ((), {"valid_until_ms": 1_000_000}, BAD, "0 ms ago"),
        ((), {"valid_until_ms": -1}, BAD, "ms ago"),
        ((), {"valid_until_ms": 1_000_001 + VALID_MS_MAX}, BAD, "7 days"),
        ((), {"window": Window(2, 1)}, BAD, "ends before it begins"),
        ((), {"window": Window(0, 1)}, BAD, "give both, or none"),
        ((), {"window": Window(-1, 1)}, BAD, "window"),
        ((), {"window": Window(1, TIME_MS_MAX + 1)}, BAD, "window"),
    ],
)
def test_what_nobody_could_route_by(driver: Driver, weights: Any, more: dict[str, Any], reason: int, text: str) -> None:
    refusal = driver.refusal(lambda: publish(driver, *weights, **more))
    assert refusal.reason == reason
    assert text in refusal.message


def test_there_must_be_weights() -> None:
    driver = Driver()
    call = PublishWeightsCall("shares", (), 0, 1, None, "", Window(), b"", 0)
    refusal = driver.refusal(lambda: plan_publish_weights(driver.master.state, driver.now_ms, call))
    assert (refusal.reason, "has 0 weights" in refusal.message) == (BAD, True)


def test_their_number_is_limited() -> None:
    driver = Driver(Limits(weight_tables_max=2, weights_max=1))
    for name in ("q", "r"):
        driver.create(name)
    assert "1 to 1" in driver.refusal(lambda: publish(driver, ("q", 1), ("r", 1))).message
    publish(driver, name="one")
    publish(driver, name="two")
    publish(driver, name="two")
    assert driver.refusal(lambda: publish(driver, name="three")).reason == common_pb2.REASON_QUOTA_EXCEEDED
    delete(driver, name="one")
    publish(driver, name="three")


def test_the_largest_are_accepted(driver: Driver) -> None:
    publish(driver, ("q", WEIGHT_MAX), ("r", WEIGHT_MAX), valid_ms=VALID_MS_MAX, published_by="p" * PUBLISHER_BYTES_MAX)
    publish(driver, valid_until_ms=driver.now_ms + VALID_MS_MAX)


def test_a_queue_that_was_deleted_has_no_weight_even_when_it_is_made_anew(driver: Driver) -> None:
    publish(driver, ("q", 1), ("r", 2))
    driver.queue(record_pb2.QUEUE_ACTION_DELETE)
    assert told(driver).queues == (("r", 2.0),)
    driver.create("q")
    assert told(driver).queues == (("r", 2.0),)


def test_tables_outlive_a_restart(driver: Driver) -> None:
    publish(driver, ("q", 0.1), ("r", 0.2), published_by="stats", window=Window(5, 9))
    publish(driver, name="other")
    delete(driver, name="other")
    restored = driver.restored()
    assert restored.digest() == driver.master.digest()
    assert table_as_of(restored.state, driver.now_ms, "shares") == told(driver)
    assert restored.state.weights_version == 2
    empty = Driver().restored()
    assert all_weights(empty.state, 0) == []


def test_a_repeated_call_finds_its_first_answer(driver: Driver) -> None:
    publish(driver, request_id=ID, request_hash=3)
    publish(driver)
    found = driver.master.find_request(ID, 3)
    assert found is not None
    assert (found.kind, found.version, found.valid_until_ms) == ("weights", 1, driver.now_ms + 60_000)
    assert driver.restored().find_request(ID, 3) == found
