"""The index of rows says of every place what reading says, out of heads alone, and reads each head once."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from replica.node import journal_counts
from replica.node.journal import Bounds, RowPlace, read_page
from replica.node.journal_counts import BLOCK, LOOK_RECORDS, Counted, RowCounts
from replica.node.journal_rows import JournalRows, Wanted
from storage.errors import CorruptRecord
from storage.memory import MemoryStore
from storage.records import PREFIX_SIZE, ZERO_DIGEST, assemble, build_head
from storage.store import Append, WriteBatch
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import journal_service_pb2 as pb
from tandemq.v1.common_pb2 import REASON_QUEUE_FULL, IndexRange
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK, EnqueueBatch

DOMAIN, RECORDS = 0x01020304, 5 * BLOCK + 7
EVERYTHING = 1 << 30
ALL = Wanted()
WANTED = [
    ALL,
    Wanted(frozenset((2,))),
    Wanted(kinds=frozenset((pb.JOURNAL_KIND_ENQUEUED,))),
    Wanted(frozenset((1, 3)), frozenset((pb.JOURNAL_KIND_ACKED, pb.JOURNAL_KIND_DROPPED))),
    Wanted(frozenset((9,))),
]


class Looked:
    """A store that tells how many records were looked at."""

    def __init__(self, store: MemoryStore) -> None:
        self._store, self.records = store, 0

    def scan_heads(self, *args: Any, **more: Any) -> list[tuple[int, bytes]]:
        found = self._store.scan_heads(*args, **more)
        self.records += len(found)
        return found


def op_of(random: Random, log_index: int) -> tuple[dict[str, Any], bytes]:
    queue_id = random.randint(1, 3)
    some = [IndexRange(first=1, count=2)] * random.randint(0, 2)
    match random.randint(0, 4):
        case 0 | 1:
            count = random.randint(1, 9)
            refusals = [record_pb2.Refusal(ordinal=at, reason=REASON_QUEUE_FULL) for at in range(count // 3)]
            op = {"queue_id": queue_id, "count": count, "first_index": log_index * 10, "refusals": refusals}
            body = EnqueueBatch(messages=MessageBatch(payloads=[b"x"] * count)).SerializeToString()
            return {"enqueue": record_pb2.EnqueueOp(**op, dropped=some)}, body
        case 2:
            effect = record_pb2.SettleEffect(lease_id=6, ranges=some, outcome=OUTCOME_ACK)
            return {"settle": record_pb2.SettleOp(queue_id=queue_id, effects=[effect])}, b""
        case 3:
            return {"lease": {"queue_id": queue_id, "ranges": some}}, b""
        case _:
            return {"reader": {}}, b""


def filled(seed: int = 1, records: int = RECORDS) -> MemoryStore:
    """Records of all sorts, some without a row, in a few epochs."""
    random, store, digest = Random(seed), MemoryStore(pair="p", member="a"), ZERO_DIGEST
    batch = WriteBatch()
    for log_index in range(1, records + 1):
        op, body = op_of(random, log_index)
        header = record_pb2.RecordHeader(time_ms=log_index, **op).SerializeToString()
        head, digest = build_head(
            flags=0,
            domain=DOMAIN,
            epoch=1 + log_index // 100,
            log_index=log_index,
            header=header,
            body=body,
            previous_digest=digest,
        )
        batch.appends.append(Append(DOMAIN, log_index, assemble(head, body)))
    store.commit(batch)
    return store


def read(
    store: Any, place: RowPlace, bounds: Bounds, until: int, wanted: Wanted, rows_max: int
) -> tuple[int, RowPlace]:
    """What reading says: rows, and where the record of the last one ends."""
    page = read_page(
        store, DOMAIN, place, bounds, until, JournalRows(DOMAIN, wanted, rows_max=rows_max, bytes_max=EVERYTHING)
    )
    count, at = page.rows.count, page.following
    if at.row:
        rest = JournalRows(DOMAIN, wanted, rows_max=EVERYTHING, bytes_max=EVERYTHING)
        last = read_page(store, DOMAIN, at, bounds, at.log_index + 1, rest)
        count, at = count + last.rows.count, last.following
    return count, at


@pytest.mark.parametrize("wanted", WANTED, ids=lambda wanted: f"{sorted(wanted.queue_ids)} {sorted(wanted.kinds)}")
def test_it_says_what_reading_says(wanted: Wanted) -> None:
    store, counts, random = filled(), RowCounts(), Random(7)
    bounds = Bounds(1, RECORDS + 1, 0)
    places = [RowPlace(1, 0), RowPlace(BLOCK, 1), RowPlace(2 * BLOCK, 2), RowPlace(RECORDS + 1, 5)]
    places += [RowPlace(random.randint(1, RECORDS), 0, random.choice((0, 0, 2))) for _ in range(20)]
    for place in places:
        for rows_max in (1, 2, random.randint(3, 300), 100_000):
            until = random.choice((0, random.randint(place.log_index, RECORDS + 1)))
            found = counts.find(store, DOMAIN, place, bounds, until, wanted, rows_max)
            rows, at = read(store, place, bounds, until, wanted, rows_max)
            if place.log_index >= (until or bounds.end):
                rows, at = 0, place
            assert (found.rows, found.following[:3]) == (rows, at[:3]), (place, rows_max, until)
            assert found.at_end == (at.log_index >= (until or bounds.end))


def test_what_was_counted_is_not_read_again() -> None:
    store, counts = Looked(filled()), RowCounts()
    bounds = Bounds(1, RECORDS + 1, 0)

    def count(generation: int = 0) -> int:
        before = store.records
        found = counts.find(store, DOMAIN, RowPlace(1, 0), bounds._replace(generation=generation), 0, ALL, EVERYTHING)  # type: ignore[arg-type]  # what it asks of a store
        assert found.at_end
        return store.records - before

    assert count() == RECORDS
    assert count() == BLOCK - 1 + 8, "those before the first whole block, and behind the last one"
    assert count(generation=1) == RECORDS, "the history may be another one"


def test_memory_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(journal_counts, "KEPT_MAX", 10)
    store, counts = filled(), RowCounts()
    bounds = Bounds(1, RECORDS + 1, 0)
    for wanted in WANTED * 2:
        found = counts.find(store, DOMAIN, RowPlace(1, 0), bounds, 0, wanted, EVERYTHING)
        assert found.rows == read(store, RowPlace(1, 0), bounds, 0, wanted, EVERYTHING)[0]
        assert len(counts._kept) <= 3


def test_one_call_looks_so_far_and_says_how_far() -> None:
    records = LOOK_RECORDS + 3 * BLOCK
    store, counts = filled(records=records), RowCounts()
    bounds = Bounds(1, records + 1, 0)
    first = counts.find(store, DOMAIN, RowPlace(1, 0), bounds, 0, ALL, EVERYTHING)
    assert not first.at_end
    assert LOOK_RECORDS <= first.following.log_index <= LOOK_RECORDS + BLOCK
    second = counts.find(store, DOMAIN, first.following, bounds, 0, ALL, EVERYTHING)
    assert second.at_end
    assert first.rows + second.rows == read(store, RowPlace(1, 0), bounds, 0, ALL, EVERYTHING)[0]


def test_the_queues_that_rows_name_are_told() -> None:
    store, bounds = filled(), Bounds(1, RECORDS + 1, 0)

    def queues(wanted: Wanted) -> set[int]:
        found: Counted = RowCounts().find(store, DOMAIN, RowPlace(1, 0), bounds, 0, wanted, EVERYTHING)
        return found.queue_ids

    assert queues(ALL) == {1, 2, 3}
    assert queues(Wanted(frozenset((2,)))) == {2}


def test_a_damaged_head_is_told_and_a_damaged_body_is_the_readers() -> None:
    store = filled()
    at = next(at for at in range(1, RECORDS) if len(store.read(DOMAIN, at) or b"") > PREFIX_SIZE + 40)
    whole = store.read(DOMAIN, at)
    assert whole
    for place, reason in ((len(whole) - 1, None), (PREFIX_SIZE + 1, "head of a record has CRC32C")):
        damaged = whole[:place] + bytes((whole[place] ^ 1,)) + whole[place + 1 :]
        store.commit(WriteBatch(inserts=[Append(DOMAIN, at, damaged)]))
        if reason is None:
            RowCounts().find(store, DOMAIN, RowPlace(1, 0), Bounds(1, RECORDS + 1, 0), 0, ALL, EVERYTHING)
            continue
        with pytest.raises(CorruptRecord, match=reason):
            RowCounts().find(store, DOMAIN, RowPlace(1, 0), Bounds(1, RECORDS + 1, 0), 0, ALL, EVERYTHING)
