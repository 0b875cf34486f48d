"""Reactions that are kept, over a pair in one process: what arrives and what comes back is asked about before anybody
is given it (V11 to V14).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import google_crc32c
import pytest

from replica.core.messages.bodies import message_id
from replica.core.ordering import kept_reactions
from replica.core.ordering.reaction import ToKeep
from replica.core.selection.filters import filter_of
from replica.core.selection.selecting import Exact, Matcher
from replica.core.state.calls import PendingCall, PendingEnqueue, Publish, StageRows
from replica.core.state.outcomes import Failed
from replica.machine import AliasCall, EnqueueCall, Limits, PublishCall, SettleCall, StageCall, columns_of
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_DELETE, QUEUE_ACTION_PURGE
from tandemq.v1 import reaction_service_pb2 as pb
from tandemq.v1.common_pb2 import IndexRange, Reason
from tandemq.v1.message_pb2 import MessageBatch, MessageFilter, Properties, PropertyValue
from tandemq.v1.queue_admin_service_pb2 import OVERFLOW_REJECT, QUEUE_TYPE_ONE_WAY
from tandemq.v1.queue_service_pb2 import OUTCOME_RELEASE, EnqueueBatch, Settlement
from tests.support.clients import Reader, Waiter, create
from tests.unit.replica.core.ordering.test_dying import contents, info, payloads, reject, take
from tests.unit.replica.core.ordering.test_reacting import Call, counts, filled, taken_over
from tests.unit.replica.core.ordering.test_sweeps import act, send, update

if TYPE_CHECKING:
    from tests.support.member import Member
    from tests.support.pair import Pair

STORE = "SYSTEM.REACTIVE/q"
MINUTE = 60_000
ALL, FIRST = pb.REACTION_SCOPE_ALL, pb.REACTION_SCOPE_FIRST
DELETE = pb.ReactionDelete()


def begin(count: int = 0, **config: Any) -> tuple[Pair, Member]:
    pair, master = filled(count, **config)
    store(pair)
    return pair, master


def store(pair: Pair, queue: str = "q") -> None:
    """As the service makes it."""
    create(
        pair,
        f"SYSTEM.REACTIVE/{queue}",
        enqueue_enabled=False,
        dequeue_enabled=False,
        overflow=OVERFLOW_REJECT,
        queue_type=QUEUE_TYPE_ONE_WAY,
        dead_letter_queue="",
    )


def call_of(member: Member, scope: Any, ttl_ms: int, number: int, more: dict[str, Any], asked: dict[str, Any]) -> Call:
    more = {"delete": DELETE} if not more.keys() & {"move", "update", "delete"} else more
    asked_for = pb.Reaction(target=MessageFilter(**asked), scope=scope, **more)
    asked_for.ttl.FromMilliseconds(ttl_ms)
    found = filter_of(asked_for.target)
    assert found is not None
    call = Call(member, found, first=scope == FIRST, request_id=number.to_bytes(16, "big"))
    reaction = call.reaction
    reaction.keep = ToKeep(ttl_ms, asked_for.SerializeToString(deterministic=True))
    reaction.to, reaction.report_to = asked_for.move.queue, asked_for.report_to
    reaction.update = asked_for.update if asked_for.HasField("update") else None
    return call


def keep(pair: Pair, *, scope: Any = ALL, ttl_ms: int = MINUTE, number: int = 1, more: Any = None, **asked: Any) -> Any:
    assert pair.master is not None
    return call_of(pair.master, scope, ttl_ms, number, more or {}, asked).run()


def groups(*names: str) -> dict[str, Any]:
    return {"group_ids": names}


def release(pair: Pair, reader: Reader, *wanted: bytes) -> None:
    chosen = [each for each in reader.delivered if not wanted or each[2] in wanted]
    settlements = [
        Settlement(lease_id=lease_id, ranges=[IndexRange(first=index, count=1)], outcome=OUTCOME_RELEASE)
        for lease_id, index, _ in chosen
    ]
    assert pair.master is not None
    pair.master.submit(PendingCall(Waiter(), SettleCall("q", settlements)))
    pair.settle(20)


def got(reader: Reader) -> list[bytes]:
    return [payload for _, _, payload in reader.delivered]


def alike(pair: Pair) -> None:
    """Both members, once the replica has heard what is committed."""
    assert pair.master is not None
    one, other = pair.master.shared, pair.master.peer.shared
    for _ in range(100):
        if one.machine.applied_index == other.machine.applied_index:
            break
        pair.settle(20)
    assert one.machine.digest() == other.machine.digest()


# -- arrival -----------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R197", "R205", "R206")
def test_v11_v12_what_has_not_come_yet_is_cancelled_when_it_comes() -> None:
    """Not found and sticky: kept. Nobody is given the message; its index is used, and the next one goes on."""
    pair, master = begin()
    done = keep(pair, scope=FIRST, correlation_id="order-17")
    assert counts(done) == {"kept": True}
    assert len(contents(master, STORE)) == 1
    reader = take(pair)
    send(pair, "q", b"other", correlation_ids=["order-18"])
    send(pair, "q", b"timer", correlation_ids=["order-17"])
    pair.quiesce()
    assert got(reader) == [b"other"]
    assert contents(master, STORE) == [], "FIRST is used up by its hit"
    assert master.shared.machine.queue(1).totals.reacted == 1
    send(pair, "q", b"again", correlation_ids=["order-17"])
    pair.quiesce()
    assert got(reader) == [b"other", b"again"]
    assert reader.indexes == {b"other": 1, b"again": 3}
    assert master.shared.machine.state.kept == {}, "and nobody looks any more"
    alike(pair)


def test_v12_its_record_stands_directly_behind_that_of_the_messages() -> None:
    """In the same step: no tick of the clock passes, and nothing has been written or sent."""
    pair, master = begin()
    keep(pair, group_id="g")
    log = master.shared.log
    before = log.last_index
    rows = EnqueueBatch(queue="q", messages=MessageBatch(payloads=[b"1", b"2"], group_ids=["g", "h"]))
    call = EnqueueCall("q", b"", 0, columns_of(rows), master.name, request_id=b"of the sender".rjust(16))
    master.submit(PendingEnqueue(Waiter(), call, rows.SerializeToString()))
    assert [log.header_at(at).WhichOneof("op") for at in range(before + 1, log.last_index + 1)] == ["enqueue", "txn"]
    pair.settle(200)
    assert payloads(master, "q") == [b"2"]


@pytest.mark.requirement("R201", "R215")
def test_v12_a_whole_group_is_cancelled_those_that_come_later_too() -> None:
    """Worked example 7: 3 of 5 are there, one leased, one delayed; the leased one is released, 4 and 5 arrive."""
    pair, master = begin()
    send(pair, "q", b"1", group_ids=["g"])
    reader = take(pair, 1)
    send(pair, "q", b"2", b"3", group_ids=["g"], delays_ms=[0, 3_600_000])
    done = keep(pair, group_id="g")
    assert counts(done) == {"applied": 2, "locked": 1, "kept": True}
    release(pair, reader)
    pair.settle(20)
    reader.delivered.clear()
    reader.attach(master, 10)
    send(pair, "q", b"4", b"x", group_ids=["g", "h"])
    send(pair, "q", b"5", group_ids=["g"], delays_ms=[1_000])
    pair.settle(2_000)
    assert set(got(reader)) == {b"x"}
    assert info(master).length == 1
    assert len(contents(master, STORE)) == 1, "it is not discarded after a hit"
    alike(pair)


@pytest.mark.requirement("R199")
def test_v11_it_lives_until_its_expiry() -> None:
    pair, master = begin()
    assert counts(keep(pair, ttl_ms=5_000, group_id="g")) == {"kept": True}
    send(pair, "q", b"1", group_ids=["g"])
    pair.settle(6_000)
    assert contents(master, STORE) == []
    send(pair, "q", b"6", group_ids=["g"])
    assert payloads(master, "q") == [b"6"]
    refused = keep(pair, ttl_ms=3_600_001, number=2, group_id="g")
    assert isinstance(refused, Failed)
    assert refused.reason == Reason.REASON_BAD_REQUEST
    assert counts(keep(pair, ttl_ms=0, number=3, group_id="h")) == {"kept": True}
    (row,) = master.shared.machine.state.queues[3].segments.parts(0, 99)
    assert 3_590_000 < row.expires_at_ms - pair.wall_ms <= 3_600_000, "as long as it may"


def test_v11_one_that_found_its_message_is_not_kept() -> None:
    pair, master = begin()
    send(pair, "q", b"1", b"2", correlation_ids=["c"])
    assert counts(keep(pair, scope=FIRST, correlation_id="c")) == {"applied": 1}
    assert contents(master, STORE) == []
    assert payloads(master, "q") == [b"2"]


def test_v12_what_is_published_is_given_out_without_another_record() -> None:
    """It is seen by the commit of its last record alone."""
    pair, master = begin()
    keep(pair, group_id="g")
    reader = take(pair)
    rows = EnqueueBatch(queue="q", messages=MessageBatch(payloads=[b"1", b"2"], group_ids=["g", "h"]))
    body, columns, stage_id = rows.SerializeToString(), columns_of(rows), b"a stage".rjust(16)
    call = StageCall(stage_id, 1, "q", columns, 0, google_crc32c.value(body), master.name)
    master.submit(PendingCall(Waiter(), StageRows(call, body)))
    pair.settle(100)
    master.submit(PendingCall(Waiter(), Publish(PublishCall("w", "query", 1, (stage_id,), master.name), 0)))
    pair.settle(200)
    assert (got(reader), payloads(master, "q")) == ([b"2"], [b"2"])
    pair.quiesce()


# -- what comes back ---------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R200", "R202")
@pytest.mark.parametrize("how", ["released", "ended by time", "rejected back", "taken over"])
def test_v13_what_comes_back_is_asked_about_before_anybody_has_it(how: str) -> None:
    """Worked example 6, second half: LOCKED, with ttl kept; what is given back is gone before anybody has it."""
    pair, master = begin()
    send(pair, "q", b"held", b"other", correlation_ids=["c", "d"])
    reader = take(pair, 1)
    assert got(reader) == [b"held"]
    assert counts(keep(pair, scope=FIRST, correlation_id="c")) == {"locked": 1, "kept": True}
    now = taken_over(pair) if how == "taken over" else master
    if how == "released":
        release(pair, reader)
    elif how == "rejected back":
        reject(pair, reader)
    other = Reader(pair, "q")
    other.attach(now, 10)
    pair.settle(3_000)
    assert set(got(other)) == {b"other"}
    if how != "rejected back":  # that one goes to the dead letters, as without a reaction
        assert contents(now, STORE) == []
        assert info(now).length == 1


def test_v13_what_was_looked_at_stays_with_its_consumer() -> None:
    """Given back and taken again: no reaction fits it."""
    pair, master = begin()
    send(pair, "q", b"1", b"2", correlation_ids=["c", "d"])
    reader = take(pair, 1)
    keep(pair, correlation_id="x")
    release(pair, reader)
    reader.delivered.clear()
    reader.attach(master, 2)
    pair.quiesce()
    assert sorted(got(reader)) == [b"1", b"2"]


def test_v13_what_is_behind_waits_too_for_the_order_holds(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, master = begin()
    keep(pair, group_id="g")
    send(pair, "q", b"1")
    send(pair, "q", b"2")  # by another record
    holder = take(pair, 1)
    monkeypatch.setattr(kept_reactions, "LOOKS_MAX", 0)
    pair.settle(1_000)
    release(pair, holder)
    waits = Reader(pair, "q")
    waits.attach(master, 10)
    pair.settle(1_000)
    assert got(waits) == [], "nobody has asked about the first one"
    monkeypatch.setattr(kept_reactions, "LOOKS_MAX", 8_000)
    pair.settle(1_000)
    assert got(waits) == [b"1", b"2"]


def test_v13_what_comes_back_together_is_kept_from_who_waits_until_each_was_acted_on() -> None:
    """The record of the first reaction serves consumers: the second one's message is not for them."""
    pair, master = begin()
    send(pair, "q", b"1", b"2", b"3", group_ids=["g", "h", "i"])
    holder = take(pair, 3)
    keep(pair, group_id="g")
    keep(pair, number=2, group_id="h")
    waiting = Reader(pair, "q")
    waiting.attach(master, 10)
    release(pair, holder)
    pair.quiesce()
    assert got(waiting) == [b"3"]


def test_v13_what_is_moved_by_many_records_is_kept_from_who_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_reactions, "COPIES_MAX", 2)
    pair, master = begin()
    send(pair, "q", b"1", b"2", b"3", b"4", b"5", group_ids=["g"] * 5)
    holder = take(pair, 5)
    keep(pair, more={"move": pb.ReactionMove(queue="r")}, group_id="g")
    waiting = Reader(pair, "q")
    waiting.attach(master, 10)
    release(pair, holder)
    pair.quiesce()
    assert (got(waiting), len(payloads(master, "r"))) == ([], 5)


class Free:
    """Turns without end."""

    def begin(self) -> bool:
        return True

    def is_over(self) -> bool:
        return False

    def end(self) -> None: ...


def test_v13_who_waits_with_a_filter_gets_what_comes_back_and_no_reaction_fits() -> None:
    pair, master = begin()
    send(pair, "q", b"1", b"2", group_ids=["y", "z"])
    holder = take(pair, 1)
    keep(pair, group_id="x")
    core, looks = master.core, master.core.kept.looks
    asked = filter_of(MessageFilter(group_id="y"))
    assert asked is not None
    waiting = Reader(pair, "q")
    waiting.attach(master, 0)
    assert waiting.at is not None
    waiting.at[2].wanted = Matcher(asked, looks.messages, Exact(), core.shared.domain, Free())
    waiting.attach(master, 1)
    release(pair, holder)
    assert got(waiting) == [b"1"]


def test_v9_one_whose_message_finds_no_place_is_not_used_up() -> None:
    pair, master = begin()
    update(pair, "r", max_bytes=2, max_message_bytes=2)
    keep(pair, scope=FIRST, more={"move": pb.ReactionMove(queue="r")}, group_id="g")
    send(pair, "q", b"large", group_ids=["g"])
    assert payloads(master, "q") == [b"large"]
    send(pair, "q", b"1", group_ids=["g"])
    assert (payloads(master, "q"), payloads(master, "r")) == ([b"large"], [b"1"])
    assert contents(master, STORE) == []


@pytest.mark.parametrize(
    ("more", "now", "left"),
    [
        ({"delete": DELETE}, "q", ([], [])),
        ({"update": pb.ReactionUpdate(payload=b"2")}, "q", ([b"2"], [])),
        ({"move": pb.ReactionMove(queue="r")}, "r", ([], [b"1"])),
        ({"move": pb.ReactionMove(queue="r")}, "q", ([], [b"1"])),
    ],
)
def test_v14_a_report_whose_queue_is_another_one_by_now_is_left_out(more: Any, now: str, left: Any) -> None:
    """A record has one entry a queue: that of the messages."""
    pair, master = begin()
    create(pair, "reports")
    keep(pair, more={**more, "report_to": "reports"}, group_id="g")
    act(pair, QUEUE_ACTION_DELETE, "reports")
    master.submit(PendingCall(Waiter(), AliasCall("reports", now, b"an alias".rjust(16), 7)))
    pair.settle()
    send(pair, "q", b"1", group_ids=["g"])
    assert (payloads(master, "q"), payloads(master, "r")) == left
    alike(pair)


def test_v12_what_was_changed_is_acted_on_by_those_of_a_queue_that_is_made_anew() -> None:
    """Their indexes begin with 1 again."""
    pair, master = begin()
    keep(pair, group_id="other")
    keep(pair, number=2, more={"update": pb.ReactionUpdate(payload=b"2")}, group_id="g")
    send(pair, "q", b"1", group_ids=["g"])
    holder = take(pair, 1)
    assert got(holder) == [b"2"]
    act(pair, QUEUE_ACTION_DELETE, STORE)
    store(pair)
    assert counts(keep(pair, number=3, group_id="g")) == {"locked": 1, "kept": True}
    release(pair, holder)
    pair.settle(200)
    assert payloads(master, "q") == []


# -- takeover, restart -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("unasked", [False, True])
def test_v12_the_next_master_asks_about_what_its_predecessor_did_not(
    unasked: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The master dies between the record of the messages and that of the reaction."""
    pair, master = begin()
    keep(pair, group_id="g")
    with monkeypatch.context() as patch:
        if unasked:
            patch.setattr(kept_reactions.KeptReactions, "ask", lambda _: None)
        send(pair, "q", b"1", b"2", group_ids=["g", "h"])
        pair.settle(200)
        assert payloads(master, "q") == ([b"1", b"2"] if unasked else [b"2"])
        reader = take(pair)
        assert got(reader) == ([] if unasked else [b"2"]), "nothing that has not been asked about"
        now = master.peer
        pair.crash(master)
    now.lost()
    pair.settle(3_000)
    assert pair.master is now
    other = Reader(pair, "q")
    other.attach(now, 10)
    pair.settle(3_000)
    assert set(got(other)) <= {b"2"}
    assert payloads(now, "q") == [b"2"]


def test_v11_it_is_there_after_a_restart_and_after_a_full_transfer() -> None:
    pair, _ = begin()
    keep(pair, group_id="g")
    now = taken_over(pair)
    pair.heal()
    alike(pair)
    assert len(now.shared.machine.state.kept) == 1
    send(pair, "q", b"1", group_ids=["g"])
    pair.settle(200)
    assert payloads(now, "q") == []
    alike(pair)


# -- which ones --------------------------------------------------------------------------------------------------------


def test_v12_the_oldest_acts_first_and_each_message_uses_one() -> None:
    pair, master = begin()
    for number in (1, 2):
        keep(pair, scope=FIRST, number=number, correlation_id="c")
    oldest = [row.index for row in contents(master, STORE)]
    send(pair, "q", b"1", correlation_ids=["c"])
    assert [row.index for row in contents(master, STORE)] == oldest[1:]
    send(pair, "q", b"2", b"3", correlation_ids=["c"])
    assert contents(master, STORE) == []
    assert payloads(master, "q") == [b"3"]


def test_v3_by_ids_also_by_that_of_another_manager() -> None:
    pair, master = begin()
    send(pair, "q", b"1")
    reader = take(pair)
    machine = master.shared.machine
    log_index, ordinal = machine.locate(1, 1)
    name = message_id(master.shared.domain, 1, log_index, ordinal)
    elsewhere = b"\7\7\7\7" + name[4:]
    assert counts(keep(pair, scope=FIRST, ids=[name])) == {"locked": 1, "kept": True}
    assert counts(keep(pair, scope=FIRST, number=2, ids=[elsewhere])) == {"kept": True}
    release(pair, reader)
    assert payloads(master, "q") == []
    entries = Properties(entries={"tq_source_id": PropertyValue(data=elsewhere)})
    send(pair, "q", b"2", properties=[entries])
    assert payloads(master, "q") == []
    assert contents(master, STORE) == []


def test_v12_selectors_are_looked_at_for_each_message_step_by_step(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kept_reactions, "LOOKS_MAX", 3)
    pair, master = begin()
    keep(pair, selector="n > 2")
    keep(pair, number=2, selector="n = 1")
    reader = take(pair)
    rows = [b"%d" % number for number in range(1, 9)]
    columns = [Properties(entries={"n": PropertyValue(integer=number)}) for number in range(1, 9)]
    send(pair, "q", *rows, properties=columns)
    pair.settle(2_000)
    assert set(got(reader)) == {b"2"}
    assert info(master).length == 1


@pytest.mark.requirement("R202")
def test_v4_inert_messages_are_left_alone() -> None:
    pair, master = begin()
    keep(pair, group_id="g")
    send(pair, "q", b"1", b"2", group_ids=["g"], inerts=[True, False])
    assert payloads(master, "q") == [b"1"]


# -- change, move, report ----------------------------------------------------------------------------------------------


def test_v12_update_goes_on_to_the_next_one_and_acts_once() -> None:
    pair, master = begin()
    change = {"update": pb.ReactionUpdate(payload=b"new", set_properties={"n": PropertyValue(integer=7)})}
    keep(pair, more=change, group_id="g")
    keep(pair, number=2, more={"update": pb.ReactionUpdate(priority=9)}, selector="n = 7")
    send(pair, "q", b"old", group_ids=["g"])
    pair.settle(200)
    (row,) = contents(master, "q")
    assert (row.message.payload, row.message.priority) == (b"new", 9)
    assert row.message.properties["tq_version"].integer == 3
    now = taken_over(pair)
    pair.settle(3_000)
    (same,) = contents(now, "q")
    assert same.index == row.index, "the next master changes nothing again"


def test_v12_move_ends_it_and_a_circle_of_moves_ends() -> None:
    pair, master = begin()
    update(pair, "r", reactions_enabled=True)
    store(pair, "r")
    keep(pair, more={"move": pb.ReactionMove(queue="r")}, group_id="g")
    call = call_of(master, ALL, MINUTE, 5, {"move": pb.ReactionMove(queue="q")}, {"group_id": "g"})
    call.reaction.queue = "r"
    assert counts(call.run()) == {"kept": True}
    send(pair, "q", b"1", group_ids=["g"])
    pair.settle(2_000)
    assert payloads(master, "q") + payloads(master, "r") == [b"1"]
    moved = sum(master.shared.machine.queue(queue_id).totals.reacted for queue_id in (1, 2))
    assert moved == kept_reactions.HITS_MAX


def test_v9_what_finds_no_place_there_stays() -> None:
    pair, master = begin()
    update(pair, "r", max_length=1)
    send(pair, "r", b"full")
    keep(pair, more={"move": pb.ReactionMove(queue="r")}, group_id="g")
    send(pair, "q", b"1", group_ids=["g"])
    reader = take(pair)
    assert got(reader) == [b"1"]
    assert payloads(master, "r") == [b"full"]


@pytest.mark.requirement("R198")
def test_v14_each_hit_is_reported() -> None:
    pair, master = begin()
    keep(pair, more={"report_to": "r", "delete": DELETE}, group_id="g")
    send(pair, "q", b"1", b"2", group_ids=["g"])
    send(pair, "q", b"3", group_ids=["g"])
    reports = [row.message.properties for row in contents(master, "r")]
    assert [each["tq_outcome"].text for each in reports] == ["STORED", "APPLIED", "APPLIED"]
    assert [each["tq_applied"].integer for each in reports] == [0, 2, 1]
    update(pair, "r", max_length=3)
    send(pair, "q", b"4", group_ids=["g"])
    assert payloads(master, "q") == [], "a report without room holds up nothing"


def test_v14_where_the_store_is_full_it_acts_and_reports_nothing() -> None:
    pair, master = begin()
    send(pair, "q", b"1", group_ids=["g"], reply_tos=["r"])
    holder = take(pair, 1)
    action = {"exception_report": pb.EXCEPTION_REPORT_FULL, "delete": DELETE}
    call = call_of(master, ALL, MINUTE, 1, action, {"group_id": "g"})
    assert counts(call.run()) == {"locked": 1, "kept": True}
    master.core.orders.room_bytes = 0
    release(pair, holder)
    assert (payloads(master, "q"), payloads(master, "r")) == ([], [])


# -- limits, ends ------------------------------------------------------------------------------------------------------


def test_v11_limits_are_named_and_nothing_is_half_done(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, master = begin()
    limits = Limits(dedup_sequences=1000, kept_max=2, kept_selectors_max=1)
    master.shared.machine.state.limits = limits
    assert counts(keep(pair, selector="a = 1")) == {"kept": True}
    refused = keep(pair, number=2, selector="a = 2")
    assert isinstance(refused, Failed)
    assert refused.reason == Reason.REASON_QUOTA_EXCEEDED
    assert counts(keep(pair, number=3, group_id="g")) == {"kept": True}
    send(pair, "q", b"1", group_ids=["h"])
    refused = keep(pair, number=4, group_id="h")
    assert isinstance(refused, Failed)
    assert refused.reason == Reason.REASON_QUOTA_EXCEEDED
    assert payloads(master, "q") == [b"1"], "what it would have cancelled is there"


@pytest.mark.parametrize("how", ["purged", "its queue deleted", "deleted"])
def test_v11_entries_end_with_their_queues(how: str) -> None:
    pair, master = begin()
    keep(pair, group_id="g")
    if how == "purged":
        act(pair, QUEUE_ACTION_PURGE, STORE)
    else:
        act(pair, QUEUE_ACTION_DELETE, STORE if how == "deleted" else "q")
        if how != "deleted":
            assert contents(master, STORE) == []
            create(pair, "q", reactions_enabled=True)
    assert master.shared.machine.state.kept == {}
    alike(pair)
    send(pair, "q", b"1", group_ids=["g"])
    assert payloads(master, "q") == [b"1"]


@pytest.mark.requirement("R206")
def test_v12_a_queue_that_nothing_is_kept_for_is_not_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    pair, master = begin()
    keep(pair, group_id="g")
    looked = []
    original = kept_reactions.KeptReactions._ask_queue
    monkeypatch.setattr(
        kept_reactions.KeptReactions,
        "_ask_queue",
        lambda self, queue_id, looks: looked.append(queue_id) or original(self, queue_id, looks),
    )
    send(pair, "r", b"1", group_ids=["g"])
    assert looked == []
    assert payloads(master, "r") == [b"1"]
