"""Answers that both of two processes give to the requests of a queue with PRODUCER replication (K11): the first one
counts, an equal one is a duplicate, another one is a divergence, and no side misses the request by it.
"""

from __future__ import annotations

from typing import Any

import pytest

from replica.core.messages.bodies import read_answer
from replica.core.ordering.divergences import Between
from replica.core.state.calls import SendReply
from replica.core.state.outcomes import Failed, ReplyDone
from replica.machine import ReplyCall
from replica.machine.plan.sides import next_given, plan_passed, plan_side
from replica.machine.state.lockstep import SideOf
from tandemq.v1.message_pb2 import Message
from tandemq.v1.queue_admin_service_pb2 import (
    QUEUE_TYPE_TWO_WAY,
    REPLICATION_PRODUCER,
)
from tandemq.v1.queue_service_pb2 import FINAL_STATE_REJECTED, FINAL_STATE_REPLIED, FINAL_STATE_REPLY_TIMEOUT
from tests.support.clients import create
from tests.support.pair import Pair
from tests.unit.replica.core.ordering.test_open_units import asked, begun, new_id, payloads, queue_of, takeover, why
from tests.unit.replica.core.ordering.test_sweeps import send
from tests.unit.replica.core.ordering.test_unit_replies import answer as answer_in_unit
from tests.unit.replica.core.ordering.test_unit_replies import progress
from tests.unit.replica.machine.driver import Driver

TIMEOUT_MS = 60_000


@pytest.fixture
def pair() -> Pair:
    """Requests 1 to 3, of which the first one names r for a copy of its answer."""
    made = Pair().start()
    create(made, "r")
    attributes = {"queue_type": QUEUE_TYPE_TWO_WAY, "reply_timeout": {"seconds": TIMEOUT_MS // 1_000}}
    create(made, "q", replication=REPLICATION_PRODUCER, **attributes)
    send(made, "q", b"one?", b"two?", b"three?", reply_tos=["r", "", ""])
    return made


def answer(pair: Pair, index: int, text: bytes, *, lease_id: int = 0, queue: str = "q") -> Any:
    """As the process of one side sends it, under a lease that the pair does not know."""
    body = Message(payload=text).SerializeToString()
    return asked(pair, SendReply(ReplyCall(queue, lease_id, index, len(text), new_id(), 1), body))


def finals(pair: Pair) -> list[int]:
    return [progress(pair, index).final for index in (1, 2, 3)]


def pass_all(pair: Pair) -> None:
    """Both processes have settled everything."""
    assert pair.master is not None
    orders = pair.master.core.orders
    header = plan_passed(orders.machine.state, orders.time_ms, queue_of(pair), {"a": 3, "b": 3})
    assert header is not None
    orders.order(header)
    pair.settle()


def test_k11_the_first_answer_counts_and_an_equal_one_is_a_duplicate(pair: Pair) -> None:
    """Whatever lease each side has it under, whoever is master when the second one comes."""
    assert answer(pair, 2, b"yes", lease_id=7) == ReplyDone(duplicate=False)
    assert answer(pair, 2, b"yes", lease_id=1) == ReplyDone(duplicate=True)
    assert finals(pair) == [0, FINAL_STATE_REPLIED, 0]
    takeover(pair)
    assert answer(pair, 2, b"yes") == ReplyDone(duplicate=True)
    found = progress(pair, 2)
    for member in pair.up:
        kept = read_answer(member.store, member.core.shared, found.answer, found.request)
        assert kept is not None
        assert kept.payload == b"yes"


def test_k11_an_alias_of_the_queue_makes_no_other_answer(pair: Pair) -> None:
    answer(pair, 2, b"yes")
    assert pair.master is not None
    pair.master.core.orders.machine.state.ids["other"] = queue_of(pair).queue_id
    assert answer(pair, 2, b"yes", queue="other") == ReplyDone(duplicate=True)


def test_k11_another_answer_is_a_divergence(pair: Pair) -> None:
    """Refused with both digests, and an operator hears of it once a queue; the first one stands."""
    answer(pair, 2, b"yes")
    answer(pair, 3, b"yes")
    assert pair.master is not None
    for index in (2, 3):
        refused = answer(pair, index, b"no")
        assert isinstance(refused, Failed)
        assert why(refused) == "ALREADY_REPLIED"
        assert refused.metadata["digest"] != refused.metadata["first_digest"]
    notes = [note for note in pair.master.notes if "was answered twice" in note]
    assert len(notes) == 1
    assert "request 2 of queue q" in notes[0]
    assert pair.master.core.orders.divergences.counts == {Between.OUTPUTS: 0, Between.ANSWERS: 2}
    assert answer(pair, 2, b"yes") == ReplyDone(duplicate=True)


def test_k11_an_answered_request_stays_for_the_sides(pair: Pair) -> None:
    for index in (1, 2, 3):
        answer(pair, index, b"yes")
    queue = queue_of(pair)
    assert (queue.length, queue.totals.replied) == (3, 3)
    own = Driver()
    own.order(plan_side(own.master.state, own.now_ms, SideOf(1, b"h", queue.queue_id), queue, "a"))
    given = next_given(queue, own.master.state.named("SYSTEM.SIDE/q"))
    assert given is not None
    assert (given.first, given.count) == (1, 3)
    pass_all(pair)
    assert queue_of(pair).length == 0
    assert finals(pair) == [FINAL_STATE_REPLIED] * 3
    assert answer(pair, 1, b"yes") == ReplyDone(duplicate=True)


def test_k11_the_copy_of_an_answer_is_made_once(pair: Pair) -> None:
    answer(pair, 1, b"yes")
    answer(pair, 1, b"yes")
    assert payloads(pair, "r") == [b"yes"]


def test_k11_answers_may_go_to_a_queue_with_sides(pair: Pair) -> None:
    """Twins that ask others get the answers as inputs. One with what no input may have, as a priority, waits, and holds
    up none behind it.
    """
    create(pair, "inputs", replication=REPLICATION_PRODUCER)
    send(pair, "q", b"four?", b"five?", reply_tos=["inputs", "inputs"])
    for index, asks in ((4, {"priority": 9}), (5, {})):
        body = Message(payload=b"yes", **asks).SerializeToString()
        asked(pair, SendReply(ReplyCall("q", 0, index, 3, new_id(), 1), body))
    assert payloads(pair, "inputs") == [b"yes"]
    pair.settle(3_000)
    assert pair.master is not None
    assert any("lockstep PLAIN" in note and "leave out priority" in note for note in pair.master.notes)


def test_k11_a_request_that_nobody_answers_ends_for_its_sender_alone(pair: Pair) -> None:
    """The sides still get it; an answer that comes later is too late, and says so."""
    pair.settle(TIMEOUT_MS + 1_000)
    assert finals(pair) == [FINAL_STATE_REPLY_TIMEOUT] * 3
    assert queue_of(pair).length == 3
    assert why(answer(pair, 1, b"yes")) == "LEASE_LOST"
    pass_all(pair)
    assert queue_of(pair).length == 0


def test_k11_a_request_that_both_settle_without_an_answer_ends(pair: Pair) -> None:
    answer(pair, 1, b"yes")
    pass_all(pair)
    assert finals(pair) == [FINAL_STATE_REPLIED, FINAL_STATE_REJECTED, FINAL_STATE_REJECTED]
    assert why(answer(pair, 2, b"yes")) == "LEASE_LOST"


def test_k11_what_is_no_answer_of_a_side_is_refused_by_name(pair: Pair) -> None:
    unit = begun(pair)
    lease = type("Lease", (), {"lease_id": 1})
    assert why(answer_in_unit(pair, unit, lease, 1)) == "CONFIG_ERROR"
    assert why(answer(pair, 4, b"yes")) == "LEASE_LOST", "there is no such request yet"
    create(pair, "plain", replication=REPLICATION_PRODUCER)
    assert why(answer(pair, 1, b"yes", queue="plain")) == "NOT_TWO_WAY"
    assert finals(pair) == [0, 0, 0]


def test_k11_a_restored_copy_knows_the_answers(pair: Pair) -> None:
    """A snapshot has them, and with them which second answer is another one."""
    answer(pair, 2, b"yes")
    assert pair.master is not None
    machine = pair.master.core.orders.machine
    restored = type(machine).restore(machine.snapshot(), ["a", "b"], pair.limits).state.named("q").completions
    known = queue_of(pair).completions
    assert restored is not None
    assert known is not None
    assert restored.answer_of(2) == known.answer_of(2)
