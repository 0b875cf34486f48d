"""Named readers of the journal: where they may go, how long they are kept, and what it means to have lost a place."""

from __future__ import annotations

from typing import Any

import pytest

from replica.machine import AdvanceCall, ForgetCall, Limits, ReaderPlace, Refused, RegisterCall
from replica.machine.features import readers
from replica.machine.features.readers import (
    RENEW_SHARE,
    TTL_MS,
    TTL_MS_MAX,
    TTL_MS_MIN,
    all_readers,
    lowest_place,
    plan_advance,
    plan_forget,
    plan_lose,
    plan_register,
)
from replica.machine.plan.time import next_due_ms
from tandemq.v1 import common_pb2
from tests.unit.replica.machine.driver import Driver

ID = b"i" * 16


def register(driver: Driver, at: int = 1, name: str = "lake", **more: Any) -> Any:
    call = {"place": ReaderPlace(at, 1), "ttl_ms": 0, "restart": False, "request_id": b"", "request_hash": 0} | more
    made = RegisterCall(name, **call)
    return driver.order(driver.plan(lambda: plan_register(driver.master.state, driver.now_ms, made)))


def advance(driver: Driver, at: int | None, name: str = "lake", request_id: bytes = b"") -> bool:
    """Whether it was worth a record."""
    place = None if at is None else ReaderPlace(at, 1)
    call = AdvanceCall(name, place, request_id, 7 if request_id else 0)
    header = driver.plan(lambda: plan_advance(driver.master.state, driver.now_ms, call))
    if header is not None:
        driver.order(header)
    return header is not None


def lose(driver: Driver, until: int = 5, name: str = "lake") -> None:
    driver.order(driver.plan(lambda: plan_lose(driver.master.state, driver.now_ms, name, until, "of a test")))


def at(driver: Driver, name: str = "lake") -> int:
    return readers.named_reader(driver.master.state, name).place.log_index


def test_a_reader_moves_forward_and_never_back(driver: Driver) -> None:
    assert lowest_place(driver.master.state) is None
    register(driver, 1)
    driver.send(1)
    assert advance(driver, 2)
    driver.send(1)
    advance(driver, 1)
    assert at(driver) == 2
    register(driver, 1, "other")
    assert lowest_place(driver.master.state) == 1
    driver.order(plan_forget(driver.master.state, driver.now_ms, ForgetCall("other", b"", 0)))
    assert lowest_place(driver.master.state) == 2


def test_one_that_is_there_keeps_its_place_unless_it_begins_anew(driver: Driver) -> None:
    register(driver, 3, ttl_ms=5_000)
    driver.now_ms += 1_000
    register(driver, 9)
    reader = readers.named_reader(driver.master.state, "lake")
    assert (reader.place.log_index, reader.ttl_ms, reader.expires_ms) == (3, 5_000, driver.now_ms + 5_000)
    register(driver, 9, restart=True, ttl_ms=8_000)
    reader = readers.named_reader(driver.master.state, "lake")
    assert (reader.place.log_index, reader.ttl_ms, reader.registered_ms) == (9, 8_000, driver.now_ms)
    register(driver, 2, restart=True)
    assert (at(driver), readers.named_reader(driver.master.state, "lake").ttl_ms) == (2, 8_000)


def test_who_has_lost_its_place_is_told_so_until_it_begins_anew(driver: Driver) -> None:
    register(driver, 2)
    lose(driver, 5)
    assert (lowest_place(driver.master.state), driver.master.state.readers_lost) == (None, 1)
    for refusal in (
        driver.refusal(lambda: readers.named_reader(driver.master.state, "lake")),
        driver.refusal(lambda: advance(driver, 7)),
        driver.refusal(lambda: register(driver, 7)),
    ):
        assert refusal.reason == common_pb2.REASON_READER_LOST
        assert refusal.metadata["lost_from_log_index"] == "2"
        assert refusal.metadata["lost_until_log_index"] == "5"
        assert refusal.metadata["because"] == "of a test"
    register(driver, 7, restart=True)
    assert (at(driver), lowest_place(driver.master.state), driver.master.state.readers_lost) == (7, 7, 1)


def test_nobody_of_that_name(driver: Driver) -> None:
    for make in (
        lambda: readers.named_reader(driver.master.state, "lake"),
        lambda: advance(driver, 1),
        lambda: plan_forget(driver.master.state, driver.now_ms, ForgetCall("lake", b"", 0)),
    ):
        assert driver.refusal(make).reason == common_pb2.REASON_READER_NOT_FOUND


@pytest.mark.parametrize(
    ("name", "more", "reason"),
    [
        ("", {}, common_pb2.REASON_BAD_NAME),
        ("a" * 65, {}, common_pb2.REASON_BAD_NAME),
        ("a/b", {}, common_pb2.REASON_BAD_NAME),
        ("a\n", {}, common_pb2.REASON_BAD_NAME),
        ("lake", {"ttl_ms": TTL_MS_MIN - 1}, common_pb2.REASON_BAD_REQUEST),
        ("lake", {"ttl_ms": TTL_MS_MAX + 1}, common_pb2.REASON_BAD_REQUEST),
    ],
)
def test_what_a_reader_may_not_be(driver: Driver, name: str, more: dict[str, int], reason: int) -> None:
    assert driver.refusal(lambda: register(driver, 1, name, **more)).reason == reason


def test_readers_are_limited_in_number() -> None:
    driver = Driver(Limits(readers_max=2))
    for name in ("one", "two", "two"):
        register(driver, 1, name)
    assert driver.refusal(lambda: register(driver, 1, "three")).reason == common_pb2.REASON_QUOTA_EXCEEDED
    driver.order(plan_forget(driver.master.state, driver.now_ms, ForgetCall("one", b"", 0)))
    register(driver, 1, "three")


def test_one_that_nobody_renews_expires(driver: Driver) -> None:
    register(driver, 1, ttl_ms=10_000)
    register(driver, 1, "other")
    assert next_due_ms(driver.master.state) == driver.now_ms + 10_000
    driver.now_ms += 9_999
    assert driver.expire() == 0
    assert advance(driver, None)
    driver.now_ms += 9_999
    assert driver.expire() == 0
    driver.now_ms += 1
    assert driver.expire() == 1
    assert [each.name for each in all_readers(driver.master.state)] == ["other"]
    driver.now_ms += TTL_MS
    assert driver.expire() == 1
    assert all_readers(driver.master.state) == []
    assert next_due_ms(driver.master.state) is None


def test_a_reader_at_the_end_does_not_answer_its_own_records_with_more_of_them(driver: Driver) -> None:
    driver.send(1)
    register(driver, driver.log_index + 1)
    register(driver, driver.log_index + 1, "other")
    assert not advance(driver, driver.log_index + 1)
    assert not advance(driver, driver.log_index + 1, "other")
    driver.send(1)
    assert advance(driver, driver.log_index + 1)
    assert not advance(driver, driver.log_index + 1)
    driver.now_ms += TTL_MS // RENEW_SHARE
    assert advance(driver, driver.log_index + 1), "it must not expire while it is used"
    place = at(driver)
    assert not advance(driver, place)


def test_readers_outlive_a_restart(driver: Driver) -> None:
    register(driver, 2)
    register(driver, 3, "other", ttl_ms=5_000)
    lose(driver, 9)
    restored = driver.restored()
    assert restored.digest() == driver.master.digest()
    assert all_readers(restored.state) == all_readers(driver.master.state)
    assert (restored.state.readers_lost, lowest_place(restored.state)) == (1, 3)
    empty = Driver().restored()
    assert (all_readers(empty.state), empty.state.readers_lost) == ([], 0)


def test_a_repeated_call_finds_its_first_answer(driver: Driver) -> None:
    register(driver, 2, request_id=ID, request_hash=3)
    found = driver.master.find_request(ID, 3)
    assert found is not None
    assert found.kind == "reader"
    driver.send(1)
    assert advance(driver, 3, request_id=b"j" * 16)
    assert driver.master.find_request(b"j" * 16, 7) is not None


def test_a_place_that_cannot_be_is_refused_as_whoever_looked_for_it_says(driver: Driver) -> None:
    no = Refused(common_pb2.REASON_BAD_REQUEST, "no such place")
    assert driver.refusal(lambda: register(driver, place=no)) is no
    register(driver)
    call = AdvanceCall("lake", no, b"", 0)
    refused = driver.refusal(lambda: driver.plan(lambda: plan_advance(driver.master.state, driver.now_ms, call)))
    assert (refused, at(driver)) == (no, 1)
