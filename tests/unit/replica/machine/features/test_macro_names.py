"""What is said of a name that is no macro queue's, and what one stands for where a member is meant."""

from __future__ import annotations

import pytest

from replica.machine import MacroCall
from replica.machine.features.macros import ADD, CREATE, named_macro, plan_macro, shown_macro
from replica.machine.plan.reply import ReplyCall
from replica.machine.plan.settle_macro import at_member
from replica.machine.state.handles import handle_of, queue_asked
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_CLOSE, QUEUE_ACTION_OPEN, QUEUE_ACTION_UPDATE
from tandemq.v1.common_pb2 import REASON_BAD_REQUEST, REASON_LEASE_LOST, REASON_QUEUE_NOT_FOUND
from tandemq.v1.macro_service_pb2 import (
    MEMBER_STATE_CLOSED,
    MEMBER_STATE_DISABLED,
    MEMBER_STATE_OPEN_IN_PART,
    MEMBER_STATE_UNSPECIFIED,
    MemberState,
)
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY, QueueConfig
from tests.unit.replica.machine.driver import Driver, batch_of


@pytest.mark.parametrize(("name", "what"), [("q", "a queue and no macro queue"), ("nowhere", "not there; create it")])
def test_a_name_that_no_macro_queue_has_says_what_it_is(name: str, what: str) -> None:
    driver = Driver()
    driver.create("q")
    why = driver.refusal(lambda: named_macro(driver.master.state, name))
    assert (why.reason, why.metadata) == (REASON_QUEUE_NOT_FOUND, {"queue": name})
    assert f"there is no macro queue {name!r}: it is {what}" in why.message


def macro_over(*names: str) -> Driver:
    """A macro queue `m` that is received from, over those of three queues."""
    driver = Driver()
    call = MacroCall(CREATE, "m", b"", 0)
    driver.order(plan_macro(driver.master.state, driver.now_ms, call))
    for name in ("one", "two", "other"):
        driver.create(name, queue_type=QUEUE_TYPE_TWO_WAY)
        driver.enqueue(batch_of([1], queue=name))
        if name in names:
            call = MacroCall(ADD, "m", b"", 0, queue=name)
            driver.order(plan_macro(driver.master.state, driver.now_ms, call))
    return driver


def test_an_answer_by_its_name_is_one_at_the_member_that_holds_the_request() -> None:
    """M6; and no word in queues that are no members."""
    driver = macro_over("one", "two")
    leases = {name: driver.lease(1, name=name)[0] for name in ("one", "two", "other")}
    state = driver.master.state
    for name in ("one", "two"):
        assert at_member(state, ReplyCall("m", leases[name], 1, 1)).queue == name
    direct = ReplyCall("other", leases["other"], 1, 1)
    assert at_member(state, direct) is direct
    for lease_id in (leases["other"], 99):
        why = driver.refusal(lambda lease_id=lease_id: at_member(state, ReplyCall("m", lease_id, 1, 1)))
        assert why.reason == REASON_LEASE_LOST


@pytest.mark.requirement("R054")
def test_handles_are_asked_about_by_its_name_one_member_at_a_time() -> None:
    """R054: what became of a message is asked as at a queue."""
    driver = macro_over("one", "two")
    machine, state = driver.master, driver.master.state
    numbers = {name: machine.queue_id(name) or 0 for name in ("one", "two", "other")}
    handles = {name: handle_of(machine.handle_prefix(each), 1) for name, each in numbers.items()}
    assert [queue_asked(state, name, handles.values()) for name in numbers] == list(numbers.values())
    for name in ("one", "two"):
        assert queue_asked(state, "m", [handles[name]] * 2) == numbers[name]
    for asked in ([handles["one"], handles["two"]], [handles["other"]], [], [b"short"]):
        why = driver.refusal(lambda asked=asked: queue_asked(state, "m", asked))
        assert why.reason == REASON_BAD_REQUEST
    assert driver.refusal(lambda: queue_asked(state, "nowhere", [])).reason == REASON_QUEUE_NOT_FOUND


def states(driver: Driver) -> list[MemberState]:
    return [each.state for each in shown_macro(driver.master.state, "m").members]


@pytest.mark.requirement("R077")
def test_each_member_says_whether_it_is_open() -> None:
    driver = macro_over("one", "two")
    assert states(driver) == [MEMBER_STATE_UNSPECIFIED] * 2
    driver.queue(QUEUE_ACTION_CLOSE, "one")
    driver.queue(QUEUE_ACTION_CLOSE, "two", member="b")
    assert states(driver) == [MEMBER_STATE_CLOSED, MEMBER_STATE_OPEN_IN_PART]
    driver.queue(QUEUE_ACTION_OPEN, "one")
    driver.queue(QUEUE_ACTION_UPDATE, "one", config=QueueConfig(enqueue_enabled=False))
    assert states(driver)[0] == MEMBER_STATE_UNSPECIFIED, "nothing is sent to this macro queue"
    driver.queue(QUEUE_ACTION_UPDATE, "one", config=QueueConfig(dequeue_enabled=False))
    assert states(driver)[0] == MEMBER_STATE_DISABLED
