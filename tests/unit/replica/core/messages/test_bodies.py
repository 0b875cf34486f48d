"""What is delivered comes from the record as it is stored; one that is damaged is said to be damaged."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from replica.core.messages.bodies import batch_of as columns_of_rows
from replica.core.messages.bodies import fill_segments, is_whole, message_id, read_answer, read_stored, row_of, rows_of
from replica.core.messages.copies import stored_messages
from replica.core.selection.filters import filter_of
from replica.core.selection.selecting import Exact
from replica.core.state.effects import Note
from replica.core.state.outcomes import ProgressDone
from replica.core.state.shared import Shared
from replica.machine import Limits, Machine
from replica.machine.state.handles import MessageProgress
from replica.machine.views import SegmentSlice
from replica.node.recovery import open_shared
from replica.services.filters import matcher_of
from replica.services.messages.completion import statuses_of
from storage.errors import CorruptRecord
from storage.memory import MemoryStore
from storage.records import ZERO_DIGEST, assemble, build_head, split
from storage.store import Append, Store, WriteBatch
from tandemq.peer.v1.record_pb2 import EnqueueOp, RecordHeader
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import Message, MessageBatch, MessageFilter, PropertyValue
from tandemq.v1.queue_service_pb2 import Deliveries, EnqueueBatch
from tests.unit.replica.node.test_salvage import DOMAIN, filled


@pytest.fixture
def store() -> MemoryStore:
    return filled("enqueue", "enqueue")


def shared_of(store: MemoryStore) -> Shared:
    return open_shared(store, DOMAIN, "main", "a", "b", 1, Limits())


def test_a_stored_body_is_read(store: MemoryStore) -> None:
    stored = read_stored(store, shared_of(store), 1)
    assert stored is not None
    assert (stored.body, stored.epoch, stored.count) == (b"body 1", 3, 1)


@pytest.mark.parametrize("read", [read_stored, read_answer])
def test_a_flipped_format_byte_is_said_as_damage(
    store: MemoryStore, read: Callable[[Store, Shared, int], object]
) -> None:
    """No later version wrote it: the directory's own format says so. Whoever is told to upgrade looks for nothing."""
    record = store.read(DOMAIN, 1)
    assert record is not None
    store.commit(WriteBatch(inserts=[Append(DOMAIN, 1, record[:2] + bytes([record[2] ^ 4]) + record[3:])]))
    with pytest.raises(CorruptRecord, match=r"format 5.*Do not use this copy"):
        read(store, shared_of(store), 1)


@pytest.mark.parametrize("at", [0, 2, 5, 15, 23, 33, 37, 50, 57, -1])
@pytest.mark.parametrize("read", [read_stored, read_answer])
def test_a_flipped_bit_is_said_as_damage_wherever_it_is(
    store: MemoryStore, read: Callable[[Store, Shared, int], object], at: int
) -> None:
    record = bytearray(store.read(DOMAIN, 2) or b"")
    record[at] ^= 16
    store.commit(WriteBatch(inserts=[Append(DOMAIN, 2, bytes(record))]))
    shared = shared_of(store)
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="record 2 of domain main, at a"):
            read(store, shared, 2)
    assert not is_whole(store, shared, 2)
    (note,) = shared.outbox.take()
    assert isinstance(note, Note)
    assert note.text.startswith("record 2 is damaged at a: it is kept")
    assert is_whole(store, shared, 1)


@pytest.mark.parametrize("read", [read_stored, read_answer])
def test_a_record_in_the_place_of_another_is_damage(
    store: MemoryStore, read: Callable[[Store, Shared, int], object]
) -> None:
    store.commit(WriteBatch(inserts=[Append(DOMAIN, 1, store.read(DOMAIN, 2) or b"")]))
    with pytest.raises(CorruptRecord, match="record 1 of domain main"):
        read(store, shared_of(store), 1)


def test_an_answer_that_is_damaged_is_said_and_the_others_are_told(store: MemoryStore) -> None:
    message = Message(payload=b"yes")
    header = RecordHeader(enqueue=EnqueueOp(queue_id=1, count=1, first_index=3)).SerializeToString()
    last = split(store.read(DOMAIN, 2) or b"")[0]
    body = message.SerializeToString()
    head, _ = build_head(
        flags=0, domain=DOMAIN, epoch=3, log_index=3, header=header, body=body, previous_digest=last.digest
    )
    store.commit(WriteBatch(appends=[Append(DOMAIN, 3, assemble(head, body))]))
    damaged = (store.read(DOMAIN, 2) or b"")[:-1] + b"?"
    store.commit(WriteBatch(inserts=[Append(DOMAIN, 2, damaged)]))
    members: Any = SimpleNamespace(node=SimpleNamespace(store=store))
    domain: Any = SimpleNamespace(shared=shared_of(store))
    done = ProgressDone([b"2", b"3"], [MessageProgress(known=True, answer=2), MessageProgress(known=True, answer=3)])
    first, second = statuses_of(members, domain, done)
    assert first.error.reason == Reason.REASON_CORRUPT_STORE
    assert not first.HasField("reply")
    assert second.reply == message


def test_what_is_damaged_fits_no_filter(store: MemoryStore) -> None:
    damaged = (store.read(DOMAIN, 2) or b"")[:-1] + b"?"
    store.commit(WriteBatch(inserts=[Append(DOMAIN, 2, damaged)]))
    asked = filter_of(MessageFilter(correlation_id="c"))
    exact = Exact()
    members: Any = SimpleNamespace(node=SimpleNamespace(store=store), pace=None)
    consumers = SimpleNamespace(exact_of=lambda _queue: exact)
    shared = shared_of(store)
    shared.machine = Machine(DOMAIN, ("a", "b"))
    domain: Any = SimpleNamespace(shared=shared, consumers=consumers)
    matcher = matcher_of(members, domain, "q", asked)
    assert matcher is not None
    assert matcher._read(2) is None
    assert shared.damaged == {2}


UNKNOWN = b"\xfa\x3f\x03new"
"""A field of a later version, as it stands in a batch."""
EACH: dict[str, list[Any]] = {
    "priorities": [1, 2, 3, 9],
    "persistence": [1, 2, 1, 2],
    "ttls_ms": [10, 20, 30, 40],
    "delays_ms": [0, 1, 0, 2],
    "deliver_at_ms": [5, 0, 6, 0],
    "dedup_ids": [b"a", b"b", b"c", b"d"],
    "content_types": ["t/0", "t/1", "", "t/3"],
    "correlation_ids": ["c0", "c1", "c2", "c3"],
    "reply_tos": ["r0", "", "r2", "r3"],
    "group_ids": ["", "g1", "g2", "g3"],
}


def batch_of(*ordinals: int, each: bool) -> EnqueueBatch:
    """Those of four messages that differ in every column; or whose columns have one entry, which is for all."""
    columns = {name: [of[at] for at in ordinals] if each else of[1:2] for name, of in EACH.items()}
    batch = MessageBatch(payloads=[b"payload %d" % at for at in ordinals], **columns)
    for at in ordinals if each else (7,):
        batch.properties.add().entries["n"].CopyFrom(PropertyValue(integer=at))
    return EnqueueBatch(queue="q", first_sequence=8, messages=batch)


@pytest.mark.parametrize("each", [True, False])
@pytest.mark.parametrize(
    ("first", "count", "ordinals"), [(0, 4, None), (0, 3, None), (1, 3, None), (3, 1, None), (0, 2, [0, 3])]
)
def test_a_segment_is_the_stored_batch_or_what_is_wanted_of_it(
    first: int, count: int, ordinals: list[int] | None, each: bool
) -> None:
    """The whole of it is the bytes as their sender wrote them, with what this version knows nothing of."""
    store = MemoryStore(member="a", instance=b"a" * 16)
    header = RecordHeader(time_ms=99, enqueue=EnqueueOp(queue_id=1, count=4, first_index=21)).SerializeToString()
    body = batch_of(0, 1, 2, 3, each=each).SerializeToString() + UNKNOWN
    head, _ = build_head(
        flags=0, domain=DOMAIN, epoch=3, log_index=1, header=header, body=body, previous_digest=ZERO_DIGEST
    )
    store.commit(WriteBatch(appends=[Append(DOMAIN, 1, assemble(head, body))]))
    shared, into = shared_of(store), Deliveries()
    for counts in (None, [2] * count):
        part = SegmentSlice(1, 21 + first, first, count, ordinals, counts)
        del into.segments[:]
        size = fill_segments(store, shared, [part, part], into)
        segment, again = into.segments
        assert segment == again
        assert size == 2 * len(segment.batch)
        if count == 4:
            assert segment.batch == body
        else:
            wanted = ordinals or range(first, first + count)
            assert EnqueueBatch.FromString(segment.batch) == batch_of(*wanted, each=each)
        assert (segment.first_index, segment.first_ordinal, list(segment.indexes)) == (21 + first, first, [])
        assert (segment.epoch, segment.log_index, segment.enqueue_time_ms) == (3, 1, 99)
        assert (list(segment.ordinals), list(segment.delivery_counts)) == (ordinals or [], counts or [])


@pytest.mark.parametrize("each", [True, False])
def test_rows_are_the_same_one_by_one_and_many_at_once(each: bool) -> None:
    """Many have the columns read off their batch once: all that a batch may have."""
    batch = batch_of(0, 1, 2, 3, each=each)
    more = {"inerts": [True, False, True, False], "group_sequences": [4, 3, 2, 1], "lasts_in_group": [True, False] * 2}
    for name, column in more.items():
        getattr(batch.messages, name).extend(column if each else column[:1])
    assert {field.name for field, _ in batch.messages.ListFields()} == set(MessageBatch.DESCRIPTOR.fields_by_name)
    store = MemoryStore(member="a", instance=b"a" * 16)
    header = RecordHeader(time_ms=99, enqueue=EnqueueOp(queue_id=1, count=4, first_index=21)).SerializeToString()
    body = batch.SerializeToString()
    head, _ = build_head(
        flags=0, domain=DOMAIN, epoch=3, log_index=1, header=header, body=body, previous_digest=ZERO_DIGEST
    )
    store.commit(WriteBatch(appends=[Append(DOMAIN, 1, assemble(head, body))]))
    shared = shared_of(store)
    together = list(rows_of(store, shared, "q", 5, [SegmentSlice(1, 21, 0, 4, None, None)]))
    apart = [
        row for at in range(4) for row in rows_of(store, shared, "q", 5, [SegmentSlice(1, 21 + at, at, 1, None, None)])
    ]
    assert together == apart
    assert [row.message for row in together] == [row_of(batch.messages, at) for at in range(4)]


def test_a_segment_whose_record_is_gone_is_left_out() -> None:
    into = Deliveries()
    store = filled("enqueue")
    parts = [SegmentSlice(at, at, 0, 1, None, None) for at in (2, 1)]
    assert fill_segments(store, shared_of(store), parts, into) == len(b"body 1")
    assert [each.log_index for each in into.segments] == [1]


SAID: dict[str, tuple[Any, Any]] = {
    "priority": (9, 0),
    "persistent": (True, False),
    "ttl": ({"nanos": 7_000_000}, {"seconds": 60}),
    "delay": ({"seconds": 2}, {"nanos": 1_000_000}),
    "deliver_at": ({"seconds": 1_800_000_000}, {"seconds": 1_900_000_000, "nanos": 5_000_000}),
    "dedup_id": (b"d1", b"d2"),
    "content_type": ("text/plain", "x"),
    "correlation_id": ("c1", "c2"),
    "reply_to": ("r1", "r2"),
    "group_id": ("g1", "g2"),
    "properties": ({"n": PropertyValue(integer=1)}, {"t": PropertyValue(text="x")}),
}
SILENT = {"priority": 4}
"""What a column says of a message that says nothing, where others of its batch do."""


@pytest.mark.parametrize("name", SAID)
def test_what_each_message_says_goes_into_its_column_and_comes_back(name: str) -> None:
    one, other = SAID[name]
    for said in ([one], [one, other], [None, one, other], [other, None]):
        rows = [
            Message(payload=b"%d" % at, **({} if value is None else {name: value})) for at, value in enumerate(said)
        ]
        batch = columns_of_rows(rows)
        assert {each.name for each, _ in batch.ListFields()} - {"payloads"} == {COLUMNS.get(name, f"{name}s")}
        for at, row in enumerate(rows):
            if said[at] is None and name in SILENT:
                setattr(row, name, SILENT[name])
            assert row_of(batch, at) == row
    assert columns_of_rows([Message(payload=b"x")]) == MessageBatch(payloads=[b"x"]), "nothing is said: no columns"


COLUMNS = {
    "priority": "priorities",
    "persistent": "persistence",
    "ttl": "ttls_ms",
    "delay": "delays_ms",
    "deliver_at": "deliver_at_ms",
    "properties": "properties",
}


@pytest.mark.parametrize("first", [1, 2])
def test_neighbouring_slices_of_a_record_read_it_once_whichever_is_the_first(first: int) -> None:
    reads: list[int] = []
    bodies = {at: EnqueueBatch(messages=MessageBatch(payloads=[b"%d.%d" % (at, n) for n in range(3)])) for at in (1, 2)}

    def read(log_index: int) -> Any:
        reads.append(log_index)
        body = bodies.get(log_index)
        return None if body is None else SimpleNamespace(body=body.SerializeToString(), epoch=3)

    parts = [SegmentSlice(first, 5, 0, 1, None, None), SegmentSlice(first, 6, 0, 2, [1, 2], [4, 5])]
    parts += [SegmentSlice(9, 8, 0, 1, None, None), SegmentSlice(3 - first, 9, 2, 1, None, None)]
    found = list(stored_messages(DOMAIN, parts, read))
    assert [each.index for each in found] == [5, 6, 7, 8, 9]
    payloads = [each.message.payload if each.message is not None else None for each in found]
    assert payloads == [b"%d.%d" % (first, n) for n in range(3)] + [None, b"%d.2" % (3 - first)]
    assert [each.id for each in found] == [
        *(message_id(DOMAIN, 3, first, n) for n in range(3)),
        b"",
        message_id(DOMAIN, 3, 3 - first, 2),
    ]
    assert reads == [first, 9, 3 - first]
