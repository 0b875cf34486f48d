"""Each call that brings messages is counted by them, in whatever they are wrapped."""

from __future__ import annotations

from replica.services.guard import row_of
from replica.services.needs import NEEDS
from replica.services.quoted import SENT, _count
from tandemq.v1 import transaction_service_pb2 as pb

BY_BYTES = {"StageService/Stage"}
"""Their messages are in columns, and count as bytes."""


def test_no_call_brings_messages_that_are_not_counted() -> None:
    bringing = {path for path, needs in NEEDS.items() if any("messages." in need.path for need in needs)}
    assert bringing == set(SENT) | BY_BYTES


def test_the_messages_of_all_units_of_a_call_are_counted() -> None:
    put = {"queue": "q", "messages": [{"payload": b"x"}, {"payload": b"y"}]}
    request = pb.TransactManyRequest(units=[{"puts": [put, put]}, {"puts": [put]}, {}])
    path = "TransactionService/TransactMany"
    assert _count(row_of(f"/tandemq.v1.{path}").skim.read(request.SerializeToString()), *SENT[path]) == 6
