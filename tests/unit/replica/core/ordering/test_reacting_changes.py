"""Reactions that change messages, and their reports, over a pair in one process (V7, V8, V14)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from replica.core.ordering import reacting
from replica.machine import handle_of
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import PropertyValue
from tandemq.v1.queue_admin_service_pb2 import (
    GROUP_MODE_ORDERED,
    OVERFLOW_DROP_HEAD,
    QUEUE_TYPE_ONE_WAY_ACK,
    QUEUE_TYPE_TWO_WAY,
)
from tandemq.v1.queue_service_pb2 import FinalState
from tandemq.v1.reaction_service_pb2 import (
    EXCEPTION_REPORT_FULL,
    EXCEPTION_REPORT_HEADERS,
    ReactionUpdate,
)
from tests.support.clients import create
from tests.unit.replica.core.ordering.test_dying import contents, info, payloads, take
from tests.unit.replica.core.ordering.test_reacting import Call, counts, filled, run, taken_over, where
from tests.unit.replica.core.ordering.test_sweeps import numbered, send, update

if TYPE_CHECKING:
    from tests.support.member import Member
    from tests.support.pair import Pair

ANY = where(selector="tq_index > 0")


def change(pair: Pair, asked: Any = ANY, *, number: int = 1, first: bool = True, **fields: Any) -> Any:
    return run(pair, asked, first=first, update=ReactionUpdate(**fields), request_id=bytes([number]) * 16)


def progress(member: Member, index: int) -> tuple[int, bool]:
    """Of the message that entered q at that index: how it ended, and whether it has."""
    machine = member.shared.machine
    queue_id = machine.queue_id("q")
    (found,) = machine.progress(queue_id, [handle_of(machine.handle_prefix(queue_id), index)])
    assert found.known
    return found.final, found.completed


@pytest.mark.requirement("R211", "R207")
def test_v8_what_is_named_changes_and_the_rest_stays() -> None:
    pair, master = filled()
    properties = [{"entries": {"price": {"integer": 1}, "colour": {"text": "red"}}}]
    send(pair, "q", b"old", properties=properties, correlation_ids=["c"], content_types=["t"], priorities=[9])
    send(pair, "q", b"other")
    (first_id, _) = (row.id for row in contents(master, "q"))
    before = master.shared.log.last_index
    done = change(pair, where(correlation_id="c"), payload=b"new", set_properties={"price": {"integer": 2}})
    assert counts(done) == {"applied": 1}
    assert master.shared.log.last_index == before + 1
    for member in (master, master.peer):
        assert payloads(member, "q") == [b"other", b"new"], "its place is lost"
    row = contents(master, "q")[1]
    assert (row.index, row.message.priority, row.message.correlation_id, row.message.content_type) == (3, 9, "c", "t")
    found = row.message.properties
    assert (found["price"].integer, found["colour"].text) == (2, "red")
    assert (found["tq_first_id"].data, found["tq_version"].integer) == (first_id, 2)
    assert row.id != first_id
    change(pair, where(correlation_id="c"), number=2, remove_properties=["colour"], content_type="u", priority=0)
    row = contents(master, "q")[1]
    assert (row.message.payload, row.message.priority, row.message.content_type) == (b"new", 0, "u")
    assert sorted(row.message.properties) == ["price", "tq_first_id", "tq_version"]
    assert (row.message.properties["tq_first_id"].data, row.message.properties["tq_version"].integer) == (first_id, 3)
    assert (info(master).reacted_total, info(master).length) == (2, 2)


def test_v3_v8_every_earlier_id_names_it_until_it_is_gone() -> None:
    pair, master = filled(2)
    ids = [contents(master, "q")[0].id]
    for number in range(1, 20):
        assert counts(change(pair, where(ids=[ids[-1]]), number=number, payload=b"%d" % number)) == {"applied": 1}
        ids.append(contents(master, "q")[-1].id)
    known = master.shared.machine.queue(1).versions
    assert known is not None
    assert [len(places) for _, places in known.rows()] == [16]
    for number, name in enumerate((ids[0], ids[-2], ids[-10], ids[-1]), 100):
        assert counts(change(pair, where(ids=[name]), number=number, payload=name)) == {"applied": 1}
        assert payloads(master, "q") == [b"z/2", name]
    assert counts(change(pair, where(ids=[ids[2]]), number=200, payload=b"x")) == {}, "too many versions ago"
    now = taken_over(pair)
    assert counts(run(pair, where(ids=[ids[0]]))) == {"applied": 1}
    assert payloads(now, "q") == [b"z/2"]
    assert len(now.shared.machine.queue(1).versions) == 0
    assert counts(run(pair, where(ids=[ids[0]]), request_id=b"2" * 16)) == {}


def test_v8_the_first_handle_ends_when_the_last_version_does() -> None:
    pair, master = filled(queue_type=QUEUE_TYPE_ONE_WAY_ACK, completion_retention={"seconds": 60})
    send(pair, "q", b"1", b"2", correlation_ids=["a", "b"])
    for number in (1, 2):
        assert counts(change(pair, where(correlation_id="a"), number=number, payload=b"v")) == {"applied": 1}
    assert progress(master, 1) == progress(master.peer, 1) == (0, False)
    now = taken_over(pair)
    assert progress(now, 1) == (0, False), "also after a takeover"
    assert counts(run(pair, where(correlation_id="a"), request_id=b"3" * 16)) == {"applied": 1}
    for index in (1, 4):
        assert progress(now, index) == (FinalState.FINAL_STATE_REACTED, True)
    assert progress(now, 2) == (0, False)
    pair.settle(63_000)
    completions = now.shared.machine.queue(1).completions
    assert completions is not None
    assert (completions.firsts, completions.latest) == ({}, {})


def test_v8_a_changed_request_has_its_time_and_its_answer_anew() -> None:
    pair, master = filled(queue_type=QUEUE_TYPE_TWO_WAY, reply_timeout={"seconds": 20})
    send(pair, "q", b"1", reply_tos=["r"])
    pair.settle(15_000)
    assert counts(change(pair, payload=b"2")) == {"applied": 1}
    pair.settle(10_000)
    assert progress(master, 1) == (0, False)
    pair.settle(15_000)
    assert progress(master, 1) == (FinalState.FINAL_STATE_REPLY_TIMEOUT, True)
    assert payloads(master, "q") == []


def test_v8_times_begin_anew_where_they_are_named_and_go_on_where_not() -> None:
    pair, master = filled()
    send(
        pair, "q", b"1", b"2", b"3",
        ttls_ms=[60_000, 60_000, 0], delays_ms=[0, 30_000, 30_000], correlation_ids=["1", "2", "3"],
    )  # fmt: skip
    pair.settle(20_000)
    assert counts(change(pair, where(correlation_id="1"), number=1, ttl={"seconds": 60})) == {"applied": 1}
    assert counts(change(pair, where(correlation_id="2"), number=2, payload=b"2b")) == {"applied": 1}
    assert counts(change(pair, where(correlation_id="3"), number=3, delay={"seconds": 100})) == {"applied": 1}
    assert info(master).delayed == 2
    pair.settle(11_000)
    assert info(master).delayed == 1, "the second goes on waiting as it did"
    pair.settle(30_000)
    assert payloads(master, "q") == [b"1", b"3"], "and ends as it would have"
    assert counts(change(pair, where(correlation_id="3"), number=4, delay={"seconds": 0})) == {"applied": 1}
    assert info(master).delayed == 0
    pair.settle(25_000)
    assert payloads(master, "q") == [b"3"]


def test_v8_all_of_a_group_change_at_once_and_keep_their_order() -> None:
    pair, master = filled(group_mode=GROUP_MODE_ORDERED)
    send(pair, "q", *numbered(1, 2, 3, 4), group_ids=["g", "h", "g", "g"])
    take(pair, 1)
    done = change(pair, where(group_id="g"), first=False, set_properties={"k": {"integer": 1}})
    assert counts(done) == {"applied": 2, "locked": 1}
    assert payloads(master, "q") == payloads(master.peer, "q") == numbered(1, 2, 3, 4)
    assert [row.index for row in contents(master, "q")] == [1, 2, 5, 6]
    assert (info(master).ready, info(master).blocked) == (1, 2)


@pytest.mark.parametrize(
    ("config", "fields", "reason"),
    [
        ({"max_message_bytes": 100}, {"payload": b"x" * 101}, Reason.REASON_MESSAGE_TOO_LARGE),
        ({"max_message_bytes": 100, "max_bytes": 100}, {"payload": b"x" * 99}, Reason.REASON_QUEUE_FULL),
        (
            {"max_message_bytes": 100, "max_bytes": 100, "overflow": OVERFLOW_DROP_HEAD},
            {"payload": b"x" * 99},
            Reason.REASON_QUEUE_FULL,
        ),
        ({"enqueue_enabled": False}, {"payload": b"x"}, Reason.REASON_ENQUEUE_DISABLED),
    ],
)
def test_v8_beyond_the_queues_limits_nothing_changes(config: Any, fields: Any, reason: Reason) -> None:
    pair, master = filled(3)
    update(pair, "q", **config)
    assert change(pair, where(selector="tq_index = 1"), **fields).reason == reason
    assert payloads(master, "q") == numbered(1, 2, 3)


def test_v8_a_full_queue_takes_what_takes_its_own_place() -> None:
    pair, master = filled(3)
    update(pair, "q", max_length=3)
    assert counts(change(pair, payload=b"new")) == {"applied": 1}
    assert payloads(master, "q") == [b"z/2", b"z/3", b"new"]


def test_v8_one_with_too_many_properties_stays_and_is_counted() -> None:
    pair, master = filled()
    full = {f"p{number}": {"integer": 1} for number in range(254)}
    send(pair, "q", b"1", b"2", properties=[{"entries": full}, {"entries": {}}])
    done = change(pair, first=False, set_properties={"one": {"flag": True}})
    assert counts(done) == {"applied": 1, "refused": 1}
    assert payloads(master, "q") == [b"1", b"2"]


@pytest.mark.requirement("R198")
def test_v14_the_report_comes_by_the_record_of_the_reaction() -> None:
    pair, master = filled(3)
    take(pair, 1)
    before = master.shared.log.last_index
    done = run(pair, ANY, report_to="r", correlation_id="my order")
    assert counts(done) == {"applied": 2, "locked": 1}
    assert master.shared.log.last_index == before + 1
    for member in (master, master.peer):
        (row,) = contents(member, "r")
        assert row.message.correlation_id == "my order"
        found = row.message.properties
        assert (found["tq_report"].text, found["tq_outcome"].text) == ("reaction", "APPLIED")
        assert (found["tq_applied"].integer, found["tq_locked"].integer) == (2, 1)
    assert run(pair, ANY, report_to="r", request_id=b"2" * 16).counts.applied == 0
    assert [row.message.properties["tq_outcome"].text for row in contents(master, "r")] == ["APPLIED", "LOCKED"]
    assert run(pair, ANY, report_to="r", request_id=b"2" * 16).duplicate
    assert len(contents(master, "r")) == 2


def test_v14_without_room_for_the_report_nothing_is_done() -> None:
    pair, master = filled(3)
    create(pair, "s")
    for number, (report_to, to, reason) in enumerate(
        (
            ("none", "", Reason.REASON_QUEUE_NOT_FOUND),
            ("q", "", Reason.REASON_BAD_REQUEST),
            ("r", "r", Reason.REASON_BAD_REQUEST),
        )
    ):
        assert run(pair, ANY, report_to=report_to, to=to, request_id=bytes([number]) * 16).reason == reason
    send(pair, "r", b"full")
    update(pair, "r", max_length=1)
    assert run(pair, ANY, report_to="r").reason == Reason.REASON_QUEUE_FULL
    assert payloads(master, "q") == numbered(1, 2, 3)
    done = run(pair, ANY, report_to="s", to="r", request_id=b"2" * 16, first=True)
    assert done.reason == Reason.REASON_QUEUE_FULL
    update(pair, "r", max_length=9)
    assert counts(run(pair, ANY, report_to="s", to="r")) == {"applied": 3}
    assert (payloads(master, "r"), payloads(master, "s")) == ([b"full", *numbered(1, 2, 3)], [b""])


@pytest.mark.parametrize("content", [EXCEPTION_REPORT_HEADERS, EXCEPTION_REPORT_FULL])
@pytest.mark.requirement("R207")
def test_v7_the_senders_of_what_is_cancelled_are_told(content: Any) -> None:
    pair, master = filled()
    create(pair, "s")
    send(
        pair, "q", *numbered(1, 2, 3, 4, 5),
        reply_tos=["r", "s", "", "gone", "r"], correlation_ids=["a", "b", "c", "d", "e"],
        properties=[{"entries": {"k": PropertyValue(integer=at)}} for at in range(5)],
    )  # fmt: skip
    send(pair, "s", b"there")
    update(pair, "s", max_length=1)
    ids = [row.id for row in contents(master, "q")]
    before = master.shared.log.last_index
    done = run(pair, ANY, exceptions=content, report_to="r", correlation_id="x")
    assert counts(done) == {"applied": 5, "unreported": 2}
    assert master.shared.log.last_index == before + 1
    for member in (master, master.peer):
        assert (payloads(member, "q"), payloads(member, "s")) == ([], [b"there"])
        rows = contents(member, "r")
        body = numbered(1, 5) if content == EXCEPTION_REPORT_FULL else [b"", b""]
        assert [row.message.payload for row in rows] == [*body, b""]
        assert [row.message.correlation_id for row in rows] == ["a", "e", "x"]
        found = [row.message.properties for row in rows]
        assert [each["tq_report"].text for each in found] == ["reacted", "reacted", "reaction"]
        assert [each["tq_origin_id"].data for each in found[:2]] == [ids[0], ids[4]]
        assert [each["k"].integer for each in found[:2]] == [0, 4]
        assert found[2]["tq_unreported"].integer == 2


def test_v7_reports_that_nobody_takes_are_counted_without_another_report_too() -> None:
    pair, master = filled()
    send(pair, "q", b"1", b"2", b"3", reply_tos=["gone", "q", "r"])
    update(pair, "r", enqueue_enabled=False)
    assert counts(run(pair, ANY, exceptions=EXCEPTION_REPORT_FULL)) == {"applied": 3, "unreported": 3}
    assert (payloads(master, "q"), payloads(master, "r")) == ([], [])


def test_v6_what_one_record_does_not_hold_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reacting, "BYTES_MAX", 250)
    pair, master = filled()
    send(pair, "q", b"1", b"2", b"3")
    assert change(pair, first=False, payload=b"x" * 100).reason == Reason.REASON_TXN_TOO_LARGE
    assert payloads(master, "q") == [b"1", b"2", b"3"]
    assert counts(change(pair, number=2, payload=b"x" * 100)) == {"applied": 1}


@pytest.mark.parametrize("steps", range(0, 24, 3))
def test_v6_v8_all_of_it_or_nothing_whoever_stops_when(steps: int) -> None:
    pair, master = filled(3)
    call = Call(master, ANY, update=ReactionUpdate(payload=b"new"), report_to="r")
    assert call.turn()
    pair.tick()
    for _ in range(steps):
        if not pair.one():
            pair.tick()
    pair.crash(master, written=steps % 2 == 0)
    pair.heal()
    pair.settle(3_000)
    now = pair.master
    assert now is not None
    done = run(pair, ANY, update=ReactionUpdate(payload=b"new"), report_to="r")
    assert counts(done) == {"applied": 3}
    for member in (now, now.peer):
        assert (payloads(member, "q"), len(contents(member, "r"))) == ([b"new"] * 3, 1)
