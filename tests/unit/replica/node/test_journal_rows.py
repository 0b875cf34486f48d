"""Records become rows of the journal: every kind, cut at any row, with what was left out counted all the same."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest

from replica.core.messages.bodies import message_id
from replica.node.journal_counts import rows_of as counts_of
from replica.node.journal_rows import JournalRows, Wanted, facts_of
from storage.records import Prefix
from tandemq.cli.queue_journal import KINDS
from tandemq.client.journal import JournalKind, JournalPage, JournalRow
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import journal_service_pb2 as pb
from tandemq.v1.common_pb2 import REASON_QUEUE_FULL, IndexRange
from tandemq.v1.message_pb2 import MessageBatch, Properties, PropertyValue
from tandemq.v1.queue_service_pb2 import (
    FINAL_STATE_DEAD_LETTERED,
    FINAL_STATE_REACTED,
    OUTCOME_ACK,
    OUTCOME_EXTEND,
    OUTCOME_REJECT,
    OUTCOME_RELEASE,
    EnqueueBatch,
)

DOMAIN, EPOCH, LOG_INDEX, TIME_MS = 0x01020304, 5, 77, 1_700_000_000_123
ALL = Wanted()


def prefix_of(body: bytes) -> Prefix:
    return Prefix(0, DOMAIN, EPOCH, LOG_INDEX, 0, len(body), 0, 0, bytes(16))


def header_of(**op: Any) -> record_pb2.RecordHeader:
    return record_pb2.RecordHeader(time_ms=TIME_MS, **op)


def sent(*payloads: bytes, **columns: Any) -> bytes:
    return EnqueueBatch(queue="q", messages=MessageBatch(payloads=payloads, **columns)).SerializeToString()


def read(rows: JournalRows) -> list[JournalRow]:
    reply = pb.ReadJournalPageResponse(columns=rows.columns())
    return list(JournalPage(pb.ReadJournalPageResponse.FromString(reply.SerializeToString())).rows())


def rows_of(
    header: record_pb2.RecordHeader,
    body: bytes = b"",
    wanted: Wanted = ALL,
    *,
    first: int = 0,
    rows_max: int = 100,
    bytes_max: int = 1 << 20,
) -> tuple[list[JournalRow], int | None]:
    rows = JournalRows(DOMAIN, wanted, rows_max=rows_max, bytes_max=bytes_max)
    end = rows.take(prefix_of(body), header, body, first)
    return read(rows), end


def test_a_message_is_a_row_with_everything_that_names_it() -> None:
    op = record_pb2.EnqueueOp(queue_id=3, client_id=b"me", first_sequence=40, count=2, first_index=9)
    body = sent(b"one", b"", correlation_ids=["c1", "c2"])
    rows, end = rows_of(header_of(enqueue=op), body, Wanted(attributes=True))
    assert end is None
    assert [(row.first, row.messages, row.sequence, row.producer, row.payload) for row in rows] == [
        (9, 1, 40, b"me", b"one"),
        (10, 1, 41, b"me", b""),
    ]
    assert [row.id for row in rows] == [message_id(DOMAIN, EPOCH, LOG_INDEX, ordinal) for ordinal in (0, 1)]
    assert {(row.kind, row.log_index, row.epoch, row.queue_id) for row in rows} == {(JournalKind.ENQUEUED, 77, 5, 3)}
    assert [row.attributes.correlation_id for row in rows if row.attributes] == ["c1", "c2"]
    assert rows[0].time.timestamp() * 1000 == TIME_MS


def test_what_stands_beside_a_body_is_the_same_bytes_however_it_was_sent() -> None:
    """One entry for all or one each, and maps in whatever order: members are compared by what they give."""
    op = record_pb2.EnqueueOp(queue_id=3, count=2, first_index=9)
    one = Properties(entries={name: PropertyValue(text=name) for name in "abcdefgh"})
    other = Properties(entries={name: PropertyValue(text=name) for name in "hgfedcba"})
    found = []
    for properties, priorities in (([one], [7]), ([other, one], [7, 7])):
        page = JournalRows(DOMAIN, Wanted(attributes=True), rows_max=9, bytes_max=1 << 20)
        body = sent(b"x", b"y", properties=properties, priorities=priorities)
        page.take(prefix_of(body), header_of(enqueue=op), body, 0)
        found.append(page.columns())
    assert found[0].attributes == found[1].attributes
    assert found[0].attribute_offsets == found[1].attribute_offsets


def test_a_page_without_attributes_has_no_column_of_them() -> None:
    op = record_pb2.EnqueueOp(queue_id=3, count=2, first_index=9)
    page = JournalRows(DOMAIN, Wanted(attributes=True), rows_max=9, bytes_max=1 << 20)
    body = sent(b"x", b"y")
    page.take(prefix_of(body), header_of(enqueue=op), body, 0)
    assert (page.columns().attribute_offsets, page.columns().attributes) == (b"", b"")


def test_ids_of_high_ordinals_are_those_of_the_contract() -> None:
    op = record_pb2.EnqueueOp(queue_id=3, count=300, first_index=1)
    rows, _ = rows_of(header_of(enqueue=op), sent(*[b"x"] * 300), rows_max=1000)
    assert [row.id for row in rows] == [message_id(DOMAIN, EPOCH, LOG_INDEX, ordinal) for ordinal in range(300)]


def test_refused_and_doubled_entries_are_no_rows() -> None:
    op = record_pb2.EnqueueOp(
        queue_id=3,
        client_id=b"me",
        first_sequence=1,
        count=4,
        first_index=7,
        refusals=[record_pb2.Refusal(ordinal=1, reason=REASON_QUEUE_FULL)],
        duplicates=[{"ordinal": 2, "index": 5}],
    )
    rows, _ = rows_of(header_of(enqueue=op), sent(b"a", b"b", b"c", b"d"))
    assert [(row.first, row.sequence, row.payload, row.id[-1]) for row in rows] == [(7, 1, b"a", 0), (8, 4, b"d", 3)]


def test_a_unary_call_is_named_by_its_request() -> None:
    op = record_pb2.EnqueueOp(queue_id=3, count=1, first_index=1)
    rows, _ = rows_of(header_of(enqueue=op, request_id=b"r" * 16), sent(b"a"))
    assert (rows[0].producer, rows[0].sequence) == (b"r" * 16, 0)


def test_a_body_that_is_on_no_disk_is_said_to_be_so() -> None:
    op = record_pb2.EnqueueOp(queue_id=3, count=2, first_index=1)
    rows, _ = rows_of(header_of(enqueue=op), b"")
    assert [(row.first, row.payload) for row in rows] == [(1, None), (2, None)]
    page = JournalRows(DOMAIN, ALL, rows_max=9, bytes_max=9)
    page.take(prefix_of(b""), header_of(enqueue=op), b"", 0)
    assert set(page.columns().payload_states) == {pb.JOURNAL_PAYLOAD_VOLATILE}


@pytest.mark.parametrize("rows_max", [1, 2, 3, 100])
@pytest.mark.parametrize("bytes_max", [1, 4, 1000])
def test_pages_of_any_size_give_the_same_rows(rows_max: int, bytes_max: int) -> None:
    """Also over the end of the messages, where what else the record did begins."""
    op = record_pb2.EnqueueOp(
        queue_id=3,
        count=5,
        first_index=1,
        dropped=[IndexRange(first=1, count=2)],
        moved_from={"queue_id": 4, "ranges": [{"first": 30, "count": 5}]},
        moved_final=FINAL_STATE_DEAD_LETTERED,
    )
    header, body = header_of(enqueue=op), sent(b"a", b"bcd", b"", b"efgh", b"i")
    whole, _ = rows_of(header, body)
    found, row, pages = [], 0, 0
    while row is not None:
        part, row = rows_of(header, body, first=row, rows_max=rows_max, bytes_max=bytes_max)  # type: ignore[assignment]
        assert 0 < len(part) <= rows_max
        found += part
        pages += 1
    assert found == whole
    assert [each.kind.name for each in whole[5:]] == ["DEAD_LETTERED", "DROPPED"]
    assert pages > 1 or rows_max == 100


def test_what_is_left_out_is_counted() -> None:
    """So that a position means the same whatever its reader wants."""
    op = record_pb2.EnqueueOp(queue_id=3, count=2, first_index=1, dropped=[IndexRange(first=8, count=1)])
    header, body = header_of(enqueue=op), sent(b"a", b"b")
    only = Wanted(kinds=frozenset((pb.JOURNAL_KIND_DROPPED,)))
    assert [row.kind.name for row in rows_of(header, body, only)[0]] == ["DROPPED"]
    assert [row.kind.name for row in rows_of(header, body, only, first=2)[0]] == ["DROPPED"]
    assert rows_of(header, body, only, first=3)[0] == []
    assert rows_of(header, body, Wanted(frozenset((9,))))[0] == []


@pytest.mark.parametrize(
    "op",
    [
        {"reader": {"name": "lake"}},
        {"weights": {"name": "w"}},
        {"enqueue": {"queue_id": 3, "count": 1, "duplicates": [{"ordinal": 0, "index": 5}]}},
        {"settle": {"queue_id": 3}},
    ],
    ids=lambda op: next(iter(op)),
)
def test_what_did_nothing_to_a_queue_is_told_to_who_asks_for_every_record(op: dict[str, Any]) -> None:
    header = header_of(**op)
    assert rows_of(header) == ([], None)
    every = Wanted(every_record=True)
    (row,), end = rows_of(header, wanted=every)
    assert (row.kind, row.log_index, row.epoch, row.queue_id, row.first, row.messages, end) == (
        *(JournalKind.NOTHING, LOG_INDEX, EPOCH, 0, 0, 0),
        None,
    )
    assert rows_of(header, wanted=every, rows_max=0) == ([], 0), "no room: the next page begins with it"
    assert rows_of(header, wanted=Wanted(frozenset((3,)), every_record=True)) == ([], None), "it is of no queue"
    only = frozenset((pb.JOURNAL_KIND_ACKED,))
    assert rows_of(header, wanted=Wanted(kinds=only, every_record=True)) == ([], None)


def test_what_did_something_has_no_other_row_for_who_asks_for_every_record() -> None:
    header = header_of(**settle(OUTCOME_ACK))
    assert rows_of(header, wanted=Wanted(every_record=True)) == rows_of(header)


def settle(outcome: Any, **more: Any) -> dict[str, Any]:
    effect = record_pb2.SettleEffect(lease_id=6, ranges=[IndexRange(first=2, count=3)], outcome=outcome, **more)
    return {"settle": record_pb2.SettleOp(queue_id=3, effects=[effect])}


RANGE = [IndexRange(first=2, count=3)]
LEASE_ID = EPOCH << 40 | LOG_INDEX
EXPIRED = {"queue_id": 3, "ranges": RANGE}


@pytest.mark.parametrize(
    ("op", "rows"),
    [
        ({"lease": {"queue_id": 3, "ranges": RANGE}}, [("LEASED", 3, 2, 3, LEASE_ID)]),
        ({"lease": {"queue_id": 3, "ranges": RANGE, "immediate": True}}, [("TAKEN", 3, 2, 3, LEASE_ID)]),
        (settle(OUTCOME_ACK), [("ACKED", 3, 2, 3, 6)]),
        (settle(OUTCOME_RELEASE), [("RELEASED", 3, 2, 3, 6)]),
        (settle(OUTCOME_REJECT, dead_letter=True), [("REJECTED", 3, 2, 3, 6)]),
        (
            {"settle": {"queue_id": 3, "effects": [{"lease_id": 6, "outcome": OUTCOME_EXTEND}]}},
            [("EXTENDED", 3, 0, 0, 6)],
        ),
        ({"expire": {"messages": [EXPIRED], "lease_ids": [6]}}, [("EXPIRED", 3, 2, 3, 0), ("LEASE_ENDED", 0, 0, 0, 6)]),
        ({"expire": {"volatile_lost": [EXPIRED]}}, [("LOST", 3, 2, 3, 0)]),
        ({"expire": {"matured": [EXPIRED]}}, [("MATURED", 3, 2, 3, 0)]),
        ({"expire": {"reply_timeouts": [EXPIRED]}}, [("REPLY_TIMED_OUT", 3, 2, 3, 0)]),
        (
            {"expire": {"idle_queue_ids": [3], "enabled_queue_ids": [4]}},
            [("QUEUE_DELETED", 3, 0, 0, 0), ("CONFIGURED", 4, 0, 0, 0)],
        ),
        ({"queue": {"action": record_pb2.QUEUE_ACTION_CREATE, "queue_id": 3}}, [("QUEUE_CREATED", 3, 0, 0, 0)]),
        ({"queue": {"action": record_pb2.QUEUE_ACTION_PURGE, "queue_id": 3, "removed": 8}}, [("PURGED", 3, 0, 8, 0)]),
        ({"queue": {"action": record_pb2.QUEUE_ACTION_DELETE, "queue_id": 3}}, [("QUEUE_DELETED", 3, 0, 0, 0)]),
        ({"queue": {"action": record_pb2.QUEUE_ACTION_OPEN, "queue_id": 3}}, [("CONFIGURED", 3, 0, 0, 0)]),
        ({"reply": {"queue_id": 3, "lease_id": 6, "index": 2}}, [("REPLIED", 3, 2, 1, 6)]),
        ({"remove": {"queue_id": 3, "ranges": RANGE}}, [("REMOVED", 3, 2, 3, 0)]),
        (
            {"select": {"queue_id": 3, "first": 9, "ranges": [*RANGE, IndexRange(first=1, count=1)]}},
            [("SELECTED", 3, 2, 3, 0), ("SELECTED", 3, 1, 1, 0)],
        ),
        ({"passed": {"queue_id": 3, "gone_selected": RANGE}}, [("ACKED", 3, 2, 3, 0)]),
        ({"save": {"queue_id": 3, "ranges": RANGE}}, [("SAVED", 3, 2, 3, 0)]),
        ({"alias": {"alias": "x", "queue_id": 3}}, [("CONFIGURED", 3, 0, 0, 0)]),
        ({"defaults": {}}, [("CONFIGURED", 0, 0, 0, 0)]),
        ({"role": {"owner": "a"}}, [("EPOCH_BEGAN", 0, 0, 0, 0)]),
        (
            {"role": {"owner": "a", "unit_leases": [7, 9]}},
            [("EPOCH_BEGAN", 0, 0, 0, 0), ("LEASE_ENDED", 0, 0, 0, 7), ("LEASE_ENDED", 0, 0, 0, 9)],
        ),
        ({"stage": {"queue_id": 3, "count": 7}}, [("STAGED", 3, 0, 7, 0)]),
        ({"publish": {"stage_ids": [b"s"]}}, [("PUBLISHED", 0, 0, 0, 0)]),
        ({"publish": {"stage_ids": [b"s", b"t"], "duplicate": True}}, [("UNSTAGED", 0, 0, 0, 0)] * 2),
        ({"unstage": {"stage_ids": [b"s"]}}, [("UNSTAGED", 0, 0, 0, 0)]),
        ({"expire": {"stage_ids": [b"s"]}}, [("UNSTAGED", 0, 0, 0, 0)]),
        ({"release": {"writer": "w"}}, [("CONFIGURED", 0, 0, 0, 0)]),
    ],
    ids=lambda value: value[0][0] if isinstance(value, list) else "",
)
def test_every_operation_is_told(op: dict[str, Any], rows: list[tuple[Any, ...]]) -> None:
    found, end = rows_of(header_of(**op))
    assert end is None
    assert [(row.kind.name, row.queue_id, row.first, row.messages, row.lease_id) for row in found] == rows


def test_every_operation_of_the_log_is_known() -> None:
    """A new one must be told too: it stops here, not at a reader."""
    for field in record_pb2.RecordHeader.DESCRIPTOR.oneofs_by_name["op"].fields:
        header = record_pb2.RecordHeader()
        getattr(header, field.name).SetInParent()
        rows_of(header)


def test_the_words_of_the_client_and_the_command_are_those_of_the_contract() -> None:
    named = {name.removeprefix("JOURNAL_KIND_"): number for name, number in pb.JournalKind.items() if number}
    assert {kind.name: kind.value for kind in JournalKind} == named
    assert set(KINDS) == {name.lower() for name in named}


def unit_header() -> record_pb2.RecordHeader:
    """A message of queue 3 is settled and one answered; two enter queue 4, and two of three enter queue 5."""
    settle = record_pb2.SettleEffect(lease_id=8, ranges=[IndexRange(first=2, count=1)], outcome=OUTCOME_ACK)
    double = {"ordinal": 1, "index": 1}
    op = record_pb2.TxnOp(
        settles=[record_pb2.SettleOp(queue_id=3, effects=[settle])],
        replies=[record_pb2.ReplyOp(queue_id=3, lease_id=9, index=4, ordinal=5)],
        enqueues=[
            record_pb2.EnqueueOp(queue_id=4, count=2, first_index=10),
            record_pb2.EnqueueOp(queue_id=5, count=3, first_index=7, first_ordinal=2, duplicates=[double]),
        ],
    )
    return header_of(txn=op, request_id=bytes(15) + b"u")


UNIT_BODY = sent(b"a", b"b", b"c", b"double", b"d", b"answer")


def test_u2_a_unit_is_a_row_for_each_message_of_each_queue_and_then_for_each_settlement() -> None:
    rows, end = rows_of(unit_header(), UNIT_BODY)
    assert end is None
    assert [(row.kind, row.queue_id, row.first, row.payload) for row in rows] == [
        (JournalKind.ENQUEUED, 4, 10, b"a"),
        (JournalKind.ENQUEUED, 4, 11, b"b"),
        (JournalKind.ENQUEUED, 5, 7, b"c"),
        (JournalKind.ENQUEUED, 5, 8, b"d"),
        (JournalKind.ACKED, 3, 2, None),
        (JournalKind.REPLIED, 3, 4, None),
    ]
    assert [row.id for row in rows[:4]] == [message_id(DOMAIN, EPOCH, LOG_INDEX, place) for place in (0, 1, 2, 4)]
    assert {row.producer for row in rows[:4]} == {bytes(15) + b"u"}


@pytest.mark.parametrize("queue_id", [0, 3, 4, 5])
def test_a_unit_that_is_cut_at_any_row_goes_on_there(queue_id: int) -> None:
    wanted = Wanted(frozenset({queue_id} - {0}))
    whole, _ = rows_of(unit_header(), UNIT_BODY, wanted)
    assert len(whole) == {0: 6, 3: 2, 4: 2, 5: 2}[queue_id]
    found: list[JournalRow] = []
    row: int | None = 0
    while row is not None:
        rows, row = rows_of(unit_header(), UNIT_BODY, wanted, first=row, rows_max=1)
        found += rows
    assert found == whole


@pytest.mark.parametrize("first", range(7))
def test_the_index_counts_the_rows_of_a_unit_as_they_are_given(first: int) -> None:
    rows, _ = rows_of(unit_header(), UNIT_BODY, first=first)
    counted = counts_of(unit_header(), first)
    assert Counter((int(row.kind), row.queue_id) for row in rows) == Counter(counted)


def test_v6_a_reaction_is_rows_of_what_enters_and_then_of_what_it_removed_and_moved() -> None:
    op = record_pb2.TxnOp(
        removes=[record_pb2.RemoveOp(queue_id=3, ranges=[IndexRange(first=2, count=2), IndexRange(first=9, count=1)])],
        enqueues=[
            record_pb2.EnqueueOp(
                queue_id=3,
                count=1,
                first_index=10,
                updated=True,
                moved_from={"queue_id": 3, "ranges": [{"first": 5, "count": 1}]},
                moved_final=FINAL_STATE_REACTED,
            ),
            record_pb2.EnqueueOp(queue_id=4, count=1, first_index=7, first_ordinal=1),
        ],
    )
    header, body = header_of(txn=op, request_id=bytes(16)), sent(b"new", b"report")
    rows, end = rows_of(header, body)
    assert end is None
    assert [(row.kind, row.queue_id, row.first, row.messages, row.payload) for row in rows] == [
        (JournalKind.ENQUEUED, 3, 10, 1, b"new"),
        (JournalKind.ENQUEUED, 4, 7, 1, b"report"),
        (JournalKind.REMOVED, 3, 2, 2, None),
        (JournalKind.REMOVED, 3, 9, 1, None),
        (JournalKind.MOVED, 3, 5, 1, None),
    ]
    for first in range(6):
        later, _ = rows_of(header, body, first=first)
        assert Counter((int(row.kind), row.queue_id) for row in later) == Counter(counts_of(header, first))


def test_v18_what_leaves_several_queues_by_one_entry_has_a_row_for_each() -> None:
    moved = record_pb2.EnqueueOp(queue_id=3, count=3, moved_final=FINAL_STATE_REACTED)
    moved.moved_from.queue_id = 1
    moved.moved_from.ranges.add(first=1, count=2)
    moved.more_moved_from.add(queue_id=2, ranges=[IndexRange(first=4, count=1)])
    facts = facts_of(prefix_of(b""), header_of(txn=record_pb2.TxnOp(enqueues=[moved])))
    assert [(each.kind, each.queue_id, each.first, each.messages) for each in facts] == [
        (pb.JournalKind.JOURNAL_KIND_MOVED, 1, 1, 2),
        (pb.JournalKind.JOURNAL_KIND_MOVED, 2, 4, 1),
    ]


@pytest.mark.parametrize("op", [{"reply": {"queue_id": 3, "index": 2}}, {"expire": {"unanswered": [EXPIRED]}}])
def test_a_request_of_a_queue_with_sides_leaves_once_by_what_both_have_passed(op):
    """K11: what ends it for its sender is no row."""
    assert facts_of(Prefix(*[0] * len(Prefix._fields)), record_pb2.RecordHeader(**op)) == []
