"""What a target gets of a message in a transmission queue, and which refusals put it among the dead letters there."""

from __future__ import annotations

from datetime import timedelta

import pytest

from replica.core.messages.copies import ORIGIN_QUEUE, TO
from replica.machine.state.system_names import DEAD, Destination
from replica.services.elsewhere import HOPS_MAX, Onward, stamp
from replica.services.links.leaving import (
    Bound,
    by_queue,
    dead_here,
    has_no_place_there,
    is_final,
    is_of_one_of_many,
    leaving_of,
    without_place,
)
from tandemq.errors import error_of
from tandemq.v1.message_pb2 import DeliveredMessage, Message

ONWARD = Onward("west", "//west/orders")


def stored(message: Message, *, enqueued_ms: int = 1_000) -> DeliveredMessage:
    """As it is read from the transmission queue."""
    row = DeliveredMessage(id=b"i" * 16, message=message)
    row.enqueue_time.FromMilliseconds(enqueued_ms)
    return row


def test_what_the_manager_wrote_on_the_way_in_is_gone_on_the_way_out() -> None:
    message = Message(payload=b"x", dedup_id="d", correlation_id="c", priority=9)
    assert stamp(message, ONWARD) == "SYSTEM.XMIT/west"
    assert message.dedup_id == "", "it would meet those of messages for other queues"
    left = leaving_of(stored(message), 1_000, "east/main")
    assert (left.queue, left.message.dedup_id, left.message.correlation_id, left.message.priority) == (
        "orders",
        "d",
        "c",
        9,
    )
    assert dict(left.message.properties.items()).keys() == {"tq_source_id", "tq_source", "tq_hops"}
    assert left.message.properties["tq_source"].text == "east/main"
    assert left.message.properties["tq_source_id"].data == b"i" * 16


def test_x2_the_first_id_is_kept_over_all_hops() -> None:
    message = Message(payload=b"x")
    for hop in range(1, HOPS_MAX + 1):
        assert stamp(message, ONWARD) == "SYSTEM.XMIT/west"
        message = leaving_of(DeliveredMessage(id=b"%d" % hop, message=message), 0, f"{hop}/main").message
        assert (message.properties["tq_source_id"].data, message.properties["tq_hops"].integer) == (b"1", hop)
        assert message.properties["tq_source"].text == "1/main", "two managers give the same ids"
    assert stamp(message, ONWARD) == DEAD, "X5"
    assert message.properties["tq_dead_letter_reason"].text == "LOOP_LIMIT"


def test_what_is_left_of_a_time_to_live_is_what_it_gets() -> None:
    message = Message(payload=b"x")
    message.ttl.FromMilliseconds(5_000)
    message.delay.FromMilliseconds(100)
    stamp(message, ONWARD)
    left = leaving_of(stored(message), 2_500, "east/main").message
    assert left.ttl.ToMilliseconds() == 3_500
    assert not left.HasField("delay"), "it was waited for here"
    assert leaving_of(stored(message), 9_000, "east/main").message.ttl.ToMilliseconds() == 1, "not for ever"


def rows(*queues: str) -> list[Bound]:
    return [Bound(queue, Message(payload=b"%d" % at)) for at, queue in enumerate(queues)]


def put_out(found: list[Bound] | None) -> list[bytes]:
    assert found is not None
    return [row.message.payload for row in found if row.queue == DEAD]


def test_x5_the_queue_that_is_refused_for_ever_is_put_out_and_no_other() -> None:
    found = without_place(rows("a", "b", "a"), error_of("QUEUE_NOT_FOUND", "", {"queue": "a"}))
    assert put_out(found) == [b"0", b"2"]
    assert found is not None
    assert found[0].message.properties["tq_origin_queue"].text == "a"
    found = without_place(rows("a", "b", "a"), error_of("MESSAGE_TOO_LARGE", "", {"queue": "a", "entry": "1"}))
    assert put_out(found) == [b"2"]
    assert found is not None
    assert list(by_queue(found)) == ["a", "b", DEAD]


def test_x5_what_is_more_than_the_owner_of_its_queue_may_ever_store_is_put_out() -> None:
    """Else all that goes to that manager would wait behind it. Of several together one after the other is asked about,
    and what may find room is waited for.
    """
    never = error_of("QUOTA_EXCEEDED", "", {"quota": "stored", "limit": "100", "principal": "principal/shop"})
    soon = error_of("QUOTA_EXCEEDED", "", never.metadata, timedelta(seconds=1))
    assert put_out(without_place(rows("a"), never)) == [b"0"]
    assert without_place(rows("a"), soon) is None
    assert is_of_one_of_many(rows("a", "a"), never)
    assert is_of_one_of_many(rows("a", "b"), soon), "there may be room for the first one"
    assert (is_final(never), is_final(soon)) == (True, False)
    assert is_final(error_of("QUOTA_EXCEEDED", "", {"queue": "a"})), "V17: kept reactions"


@pytest.mark.parametrize("reason", ["QUEUE_FULL", "ENQUEUE_DISABLED", "NO_MASTER", "NOT_ENOUGH_COPIES", "WRITER_TAKEN"])
def test_x5_what_may_pass_is_waited_for(reason: str) -> None:
    assert without_place(rows("a"), error_of(reason, "", {"queue": "a"})) is None


def test_a_refusal_that_names_nothing_is_waited_for_unless_there_is_one_queue() -> None:
    assert without_place(rows("a", "b"), error_of("BAD_REQUEST", "")) is None
    assert put_out(without_place(rows("a", "a"), error_of("BAD_REQUEST", ""))) == [b"0", b"1"]
    assert without_place(rows(DEAD), error_of("BAD_REQUEST", "")) is None, "what is put out already"
    behind_an_alias = error_of("MESSAGE_TOO_LARGE", "", {"queue": "b", "entry": "0"})
    assert put_out(without_place(rows("a"), behind_an_alias)) == [b"0"]
    assert without_place(rows("a", "a"), behind_an_alias) is None, "it may be either"


@pytest.mark.parametrize(
    ("reason", "facts", "wanted"),
    [
        ("BAD_REQUEST", {}, True),
        ("BAD_REQUEST", {"queue": "a"}, True),  # an alias of it is in the unit, too
        ("BAD_REQUEST", {"queue": "a", "entry": "1"}, False),
        ("REMOTE_NOT_ALLOWED", {}, True),
        ("QUEUE_NOT_FOUND", {"queue": "a"}, False),
        ("MESSAGE_TOO_LARGE", {"queue": "behind an alias", "entry": "1"}, True),
        ("NO_MASTER", {}, False),
    ],
)
def test_a_refusal_of_nothing_in_particular_is_of_one_of_many(reason: str, facts: dict[str, str], wanted: bool) -> None:
    assert is_of_one_of_many(rows("a", "b"), error_of(reason, "", facts)) is wanted


@pytest.mark.parametrize(
    ("queue", "reason", "facts", "wanted"),
    [
        ("a", "TXN_TOO_LARGE", {}, True),  # a letter would be as large
        ("a", "MESSAGE_TOO_LARGE", {"queue": "a"}, False),
        (DEAD, "MESSAGE_TOO_LARGE", {"queue": DEAD}, True),
        (DEAD, "MESSAGE_TOO_LARGE", {}, True),
        (DEAD, "QUEUE_FULL", {"queue": DEAD}, False),
    ],
)
def test_what_is_refused_as_a_dead_letter_too_has_no_place_there(
    queue: str, reason: str, facts: dict[str, str], wanted: bool
) -> None:
    assert has_no_place_there(rows(queue), error_of(reason, "", facts)) is wanted


def test_v19_a_member_that_does_not_fit_its_group_there_stops_no_link() -> None:
    found = without_place(rows("a", "b", "a"), error_of("GROUP_MISMATCH", "", {"queue": "a", "entry": "1"}))
    assert put_out(found) == [b"2"]
    assert without_place(rows("a"), error_of("QUOTA_EXCEEDED", "", {"queue": "a", "entry": "0"})) is None


@pytest.mark.parametrize(("sent_on", "wanted"), [(False, "orders"), (True, "//west:billing/orders")])
def test_m4_what_waits_for_one_queue_goes_there_and_keeps_its_dedup_id(wanted: str, *, sent_on: bool) -> None:
    """The transmission queue says where to, and no message need."""
    target = Destination("west", "billing", "orders")
    row = stored(Message(payload=b"x", dedup_id="d"))
    left = leaving_of(row, 1_000, "east/main", sent_on=sent_on, way=target.full_name)
    assert (left.queue, left.message.dedup_id, TO in left.message.properties) == (wanted, "d", False)
    letter = dead_here(left, target, "MESSAGE_TOO_LARGE")
    assert letter.properties[ORIGIN_QUEUE].text == "//west:billing/orders"
