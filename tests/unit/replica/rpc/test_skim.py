"""Names are read out of requests without what stands beside them, and what a parser would refuse is refused."""

from __future__ import annotations

from replica.rpc.skim import Skim, is_set, names_at
from tandemq.v1.queue_service_pb2 import EnqueueRequest
from tandemq.v1.transaction_service_pb2 import TransactRequest

SKIM = Skim(EnqueueRequest.DESCRIPTOR, ["queue", "messages.reply_to", "reaction.update", "reaction.move.queue", ""])


def request() -> EnqueueRequest:
    made = EnqueueRequest(queue="orders")
    for answers in ("", "answers", ""):
        made.messages.add(payload=b"x" * 100, reply_to=answers).properties["colour"].text = "red"
    made.reaction.move.queue = "elsewhere"
    return made


def test_names_are_read_through_repeated_fields() -> None:
    found = SKIM.read(request().SerializeToString())
    assert list(names_at(found, "queue")) == ["orders"]
    assert list(names_at(found, "messages.reply_to")) == ["", "answers", ""]
    assert list(names_at(found, "reaction.move.queue")) == ["elsewhere"]
    assert not is_set(found, "reaction.update")
    assert is_set(found, "reaction.move")


def test_a_message_that_is_not_there_names_nothing_and_a_text_that_is_not_there_an_empty_name() -> None:
    found = SKIM.read(b"")
    assert list(names_at(found, "reaction.move.queue")) == []
    assert list(names_at(found, "queue")) == [""]
    assert not is_set(found, "reaction.move")


def test_a_kind_of_which_nothing_is_asked_is_seen_all_the_same() -> None:
    made = EnqueueRequest()
    made.reaction.update.payload = b""
    made.reaction.update.SetInParent()
    assert is_set(SKIM.read(made.SerializeToString()), "reaction.update")


def test_the_same_field_of_two_parts_is_told_apart() -> None:
    skim = Skim(TransactRequest.DESCRIPTOR, ["settles.queue", "puts.queue"])
    made = TransactRequest()
    made.settles.add(queue="from")
    made.puts.add(queue="to")
    found = skim.read(made.SerializeToString())
    assert (list(names_at(found, "settles.queue")), list(names_at(found, "puts.queue"))) == (["from"], ["to"])


def test_bytes_that_are_no_request_are_none() -> None:
    assert SKIM.read(b"\xff\xff\xff") is None
    assert SKIM.read(b"\x0a\x02\xff\xfe") is None, "a name that is no text"
