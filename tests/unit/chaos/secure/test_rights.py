"""The demo's own model of rights: each call of the contract is in it, and it says what the page about security says."""

from __future__ import annotations

import pytest
from google.protobuf import descriptor_pool

import replica.manager  # noqa: F401 - registers the descriptors of all that is served
from chaos.secure.asking import method_of, questions, request_of
from chaos.secure.calls import CALLS, Call, Verb
from chaos.secure.rights import GRANTS, NOWHERE, PRINCIPALS, QUEUES, Answer, Granted, covers, expected, fits
from replica.services.needs import NEEDS

BY_NAME = {call.name: call for call in CALLS}
ENQUEUE, PURGE = BY_NAME["QueueService/Enqueue"], BY_NAME["QueueAdminService/PurgeQueue"]


def test_each_call_of_the_contract_is_asked() -> None:
    assert {call.path for call in CALLS} == set(NEEDS), "a new call needs a row of its own here"
    assert len(BY_NAME) == len(CALLS), "names are unique"


def test_each_request_is_of_its_kind() -> None:
    for call in CALLS:
        request_of(method_of(call.path), call.fields, "orders")
    descriptor_pool.Default().FindServiceByName("tandemq.v1.QueueService")


def test_the_table_is_principal_by_call_by_queue() -> None:
    asked = list(questions(PRINCIPALS, QUEUES))
    alone = sum(not call.names_queue for call in CALLS)
    distinct = {(each.call.name, each.principal, each.queue) for each in asked}
    assert len(asked) == len(distinct) == len(PRINCIPALS) * (alone + (len(CALLS) - alone) * len(QUEUES))


@pytest.mark.parametrize(
    ("pattern", "queue", "covered"),
    [
        ("orders", "orders", True),
        ("orders", "orders/eu", False),
        ("orders/*", "orders/eu", True),
        ("orders/*", "orders", False),
        ("orders/*", "orders/eu/north", False),
        ("orders/**", "orders/eu/north", True),
        ("orders/**", "orders", False),
        ("*", "secret", True),
        ("*", "orders/eu", False),
        ("**", "orders/eu/north", True),
        ("or.ers", "orders", False),
    ],
)
def test_what_a_pattern_covers(pattern: str, queue: str, covered: bool) -> None:
    assert covers(pattern, queue) is covered


@pytest.mark.parametrize(
    ("call", "who", "queue", "answer"),
    [
        (ENQUEUE, "ops", "secret", Answer.ALLOWED),
        (ENQUEUE, "billing", "orders/eu", Answer.ALLOWED),
        (ENQUEUE, "shop", "orders/eu", Answer.DENIED),
        (ENQUEUE, "billing", "secret", Answer.HIDDEN),
        (ENQUEUE, "night", "secret", Answer.DENIED),
        (PURGE, "keeper", "stock/paris", Answer.ALLOWED),
        (PURGE, "keeper", "orders", Answer.DENIED),
        (BY_NAME["QueueAdminService/CreateQueue"], "billing", "secret", Answer.DENIED),
        (BY_NAME["QueueAdminService/RestoreQueue"], "keeper", "stock/paris", Answer.DENIED),
        (BY_NAME["RightsService/GrantRight"], "night", "", Answer.DENIED),
        (BY_NAME["JournalService/RegisterReader"], "night", "", Answer.ALLOWED),
        (BY_NAME["JournalService/RegisterReader"], "shop", "", Answer.DENIED),
        (BY_NAME["PairService/Handoff"], "shop", "", Answer.DENIED),
        (BY_NAME["PairService/GetPairStatus"], "shop", "", Answer.ALLOWED),
    ],
)
def test_what_must_come_of_a_call(call: Call, who: str, queue: str, answer: Answer) -> None:
    assert expected(call, who, queue, GRANTS) is answer


def test_nobody_but_an_administrator_may_anything_without_a_grant() -> None:
    for question in questions(PRINCIPALS, QUEUES):
        found = expected(question.call, question.principal, question.queue, ())
        if question.principal == "ops" or question.call.verbs == (Verb.ANYBODY,):
            assert found is Answer.ALLOWED
        else:
            assert found is not Answer.ALLOWED


def test_whoever_may_call_for_a_queue_that_is_not_there_may_hear_so() -> None:
    assert fits(Answer.ALLOWED, Answer.HIDDEN, NOWHERE)
    assert not fits(Answer.ALLOWED, Answer.HIDDEN, "orders")
    assert not fits(Answer.ALLOWED, Answer.DENIED, NOWHERE)
    assert not fits(Answer.HIDDEN, Answer.ALLOWED, NOWHERE)


def test_a_second_right_of_a_call_is_asked_about_too() -> None:
    move = BY_NAME["QueueAdminService/MoveMessages"]
    own = [Granted("x", Verb.ADMINISTER, "orders")]
    assert expected(move, "x", "orders", own) is Answer.DENIED
    assert expected(move, "x", "orders", [*own, Granted("x", Verb.PRODUCE, "*")]) is Answer.ALLOWED
