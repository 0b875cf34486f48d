"""U15: units that are numbered by their writer, and what a number at or below his last one comes to."""

from __future__ import annotations

import pytest

from replica.machine import Limits, PublishCall, Refused, StageCall, UnitCall, UnitIdentity, columns_of
from replica.machine.plan.stage import plan_publish, plan_release, plan_stage, plan_staged
from replica.machine.plan.unit import plan_unit
from replica.machine.plan.unit_identity import RepeatedNumber, find_number
from replica.machine.state.unit_numbers import NUMBERS_KEPT, UnitNumbers
from tandemq.v1 import common_pb2
from tests.unit.replica.machine.driver import Driver, batch_of
from tests.unit.replica.machine.plan.test_unit import puts


def numbered(number: int, after: int, digest: int = 7, writer: str = "w", query_id: str = "") -> UnitIdentity:
    return UnitIdentity(writer, query_id, number, after, digest)


def unit(driver: Driver, identity: UnitIdentity) -> None:
    """One message for q under that number."""
    call = UnitCall((), puts(("q", [1])), "a", driver.log_index.to_bytes(16, "big"), 1, identity)
    driver.order(driver.plan(lambda: plan_unit(driver.master.state, driver.now_ms, call)))


def refused(driver: Driver, identity: UnitIdentity) -> Refused:
    return driver.refusal(lambda: unit(driver, identity))


def found(driver: Driver, identity: UnitIdentity) -> RepeatedNumber | None:
    """The same at either member, and at one that was begun anew from a snapshot."""
    answers = {find_number(each.state, identity) for each in (driver.master, driver.replica, driver.restored())}
    (answer,) = answers
    return answer


def test_u15_a_number_at_or_below_the_last_is_a_duplicate(driver: Driver) -> None:
    assert found(driver, numbered(1, 0)) is None
    unit(driver, numbered(1, 0))
    unit(driver, numbered(5, 1))  # gaps are allowed
    for number in (1, 5):
        assert found(driver, numbered(number, 0)) == RepeatedNumber(last=5, digest=7, known=7)
        assert found(driver, numbered(number, 0, digest=8)) == RepeatedNumber(last=5, digest=8, known=7)
    assert found(driver, numbered(3, 1)) == RepeatedNumber(5, 7, None), "passed over: nothing to compare with"
    same, other, unknown = RepeatedNumber(5, 7, 7), RepeatedNumber(5, 8, 7), RepeatedNumber(5, 7, None)
    assert (same.differs, other.differs, unknown.differs) == (False, True, False)
    assert found(driver, numbered(6, 5)) is None
    assert found(driver, numbered(1, 0, writer="another")) is None


def test_u15_a_unit_that_was_sent_ahead_does_not_pass_one_that_is_missing(driver: Driver) -> None:
    unit(driver, numbered(1, 0))
    why = refused(driver, numbered(3, 2))
    assert (why.reason, why.metadata["last_number"]) == (common_pb2.REASON_SEQUENCE_GAP, "1")
    assert driver.info().length == 1, "nothing was done"
    assert why.metadata["last_digest"] == f"{7:016x}", "K8: so that twins are compared where they meet"
    why = refused(driver, numbered(3, 2, writer="unheard of"))
    assert "last_digest" not in why.metadata
    assert (why.reason, why.metadata["last_number"]) == (common_pb2.REASON_SEQUENCE_GAP, "0")
    unit(driver, numbered(2, 1))
    unit(driver, numbered(3, 2))


def test_u15_the_last_1024_numbers_are_compared(driver: Driver) -> None:
    assert NUMBERS_KEPT == 1_024
    numbers = UnitNumbers()
    for number in range(1, NUMBERS_KEPT + 2):
        numbers.add(2 * number, number)
    assert numbers.digest_of(2) is None, "too old"
    assert (numbers.digest_of(4), numbers.digest_of(2 * (NUMBERS_KEPT + 1))) == (2, NUMBERS_KEPT + 1)
    assert (numbers.digest_of(5), numbers.digest_of(1 << 40)) == (None, None)


def test_a_writer_belongs_to_whose_numbers_came_first_until_it_is_released(driver: Driver) -> None:
    unit(driver, numbered(9, 0, query_id="one"))
    with pytest.raises(Refused, match="belongs to query 'one'") as caught:
        find_number(driver.master.state, numbered(1, 0, query_id="two"))
    assert caught.value.reason == common_pb2.REASON_WRITER_TAKEN
    release = plan_release(driver.master.state, driver.now_ms, "w")
    assert release is not None
    driver.order(release)
    unit(driver, numbered(1, 0, query_id="two"))


def test_no_more_writers_than_the_limit() -> None:
    driver = Driver(Limits(writers_max=1))
    driver.create()
    unit(driver, numbered(1, 0))
    assert refused(driver, numbered(1, 0, writer="another")).reason == common_pb2.REASON_QUOTA_EXCEEDED
    unit(driver, numbered(2, 1))


def test_units_and_publications_of_one_writer_have_one_row_of_numbers(driver: Driver) -> None:
    """What fits a unit goes as one, what does not is staged."""
    unit(driver, numbered(1, 0, query_id="q"))
    stage_id, rows = bytes(16), batch_of([1, 1])
    part = plan_stage(driver.master.state, driver.now_ms, StageCall(stage_id, 1, "q", columns_of(rows), 0, 3, "a"))
    assert part is not None
    driver.order(part)
    plan = plan_publish(driver.master.state, driver.now_ms, PublishCall("w", "q", 2, [stage_id], "a"))
    assert plan.header is not None
    driver.order(plan.header)
    why = refused(driver, numbered(3, 2, query_id="q"))
    assert (why.reason, why.retry_after_ms) == (common_pb2.REASON_SEQUENCE_GAP, 100), "it would pass the publication"
    driver.order(driver.plan(lambda: plan_staged(driver.master.state, driver.now_ms, columns_of(rows))))
    unit(driver, numbered(3, 2, query_id="q"))
    assert found(driver, numbered(1, 0, 8, query_id="q")) == RepeatedNumber(3, 8, 7), "kept over the publication"
    assert found(driver, numbered(2, 0, query_id="q")) == RepeatedNumber(3, 7, None), "of a publication"
    again = plan_publish(driver.master.state, driver.now_ms, PublishCall("w", "q", 3, [], "a"))
    assert again.duplicate
    (placed,) = driver.master.state.stages.writers["w"].placed
    assert placed == ("q", 4, 4, 1)
