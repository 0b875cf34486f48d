"""What the memory store has beside what every store promises: a disk that only said it was durable, and exact sizes."""

from __future__ import annotations

import random

import pytest

from storage.errors import StoreFailed, StoreFull
from storage.memory import MemoryStore
from storage.store import RESERVED_META, Append, WriteBatch


def content(store: MemoryStore) -> tuple[object, ...]:
    rows = [store.scan(domain, 0, limit_records=1 << 20, limit_bytes=1 << 30) for domain in range(4)]
    return rows, store.meta_items(""), store.usage().used_bytes


def batch_of(chance: random.Random, top: dict[int, int]) -> WriteBatch:
    batch = WriteBatch()
    domain = chance.randrange(4)
    match chance.randrange(6):
        case 0:
            batch.wipe.add(domain)
            top[domain] = 0
        case 1:
            batch.cut[domain] = top[domain] = chance.randrange(top[domain] + 1)
        case 2:
            batch.drops[domain] = [chance.randrange(top[domain] + 2) for _ in range(3)]
        case 3:
            batch.inserts += [Append(domain, chance.randrange(top[domain] + 1), b"i" * chance.randrange(9))]
        case _:
            for _ in range(chance.randrange(1, 4)):
                top[domain] += chance.randrange(1, 3)
                batch.appends.append(Append(domain, top[domain], b"a" * chance.randrange(9)))
    if chance.random() < 0.4:
        batch.meta[chance.choice("xyz")] = chance.choice((None, b"", b"value"))
    return batch


@pytest.mark.parametrize("seed", range(6))
def test_commits_that_were_not_durable_after_all_are_taken_back(seed: int) -> None:
    """Any number of the last ones, also by whoever holds the store after a crash; to the byte."""
    chance, top = random.Random(seed), dict.fromkeys(range(4), 0)
    store = MemoryStore()
    store.undo_kept = []
    moments = [content(store)]
    for _ in range(60):
        store.commit(batch_of(chance, top))
        moments.append(content(store))
        if chance.random() < 0.2:
            store = store.crash()
            assert content(store) == moments[-1]
        if chance.random() < 0.3:
            count = chance.randrange(min(4, len(moments)))
            store.take_back(count)
            del moments[len(moments) - count :]
            assert content(store) == moments[-1]
            for domain in range(4):
                bounds = store.bounds(domain)
                top[domain] = bounds[1] if bounds is not None else 0
    store.take_back(len(moments) - 1)
    assert content(store) == moments[0]
    assert store.undo_kept == []


def test_used_bytes_are_those_of_records_and_values() -> None:
    store = MemoryStore(pair="pair", member="m")
    identity = sum(len(value) for key, value in store.meta_items("") if key in RESERVED_META)
    assert store.usage().used_bytes == store.usage().file_bytes == identity
    store.commit(WriteBatch(appends=[Append(1, 1, b"12345")], meta={"k": b"123"}))
    store.commit(WriteBatch(inserts=[Append(1, 1, b"12")], meta={"k": b"1"}))
    usage = store.usage()
    assert (usage.used_bytes, usage.file_bytes, usage.map_bytes) == (identity + 3, identity + 8, 64 << 30)
    store.commit(WriteBatch(wipe={1}, meta={"k": None}))
    assert (store.usage().used_bytes, store.crash().usage().file_bytes) == (identity, identity + 8)


@pytest.mark.parametrize("room", [0, 9, 10])
def test_a_map_is_full_to_the_byte(room: int) -> None:
    identity = MemoryStore().usage().used_bytes
    store = MemoryStore(map_bytes=identity + room)
    if room == 10:
        store.commit(WriteBatch(appends=[Append(1, 1, b"x" * 10)]))
        store.commit(WriteBatch(meta={"k": b""}))
        store.commit(WriteBatch(drops={1: [1]}))
    before = content(store)
    for batch in (
        WriteBatch(appends=[Append(2, 2, b"x" * (room + 1))]),
        WriteBatch(inserts=[Append(2, 2, b"x" * (room + 1))]),
        WriteBatch(meta={"k": b"x" * (room + 1)}),
    ):
        with pytest.raises(StoreFull, match="has no room"):
            store.commit(batch)
        assert content(store) == before
    assert store.crash().usage().map_bytes == identity + room, "its successor is as large"


def test_a_full_map_can_be_emptied() -> None:
    identity = MemoryStore().usage().used_bytes
    store = MemoryStore(map_bytes=identity + 10)
    store.commit(WriteBatch(appends=[Append(1, 1, b"x" * 5), Append(1, 2, b"x" * 5)], meta={"k": b""}))
    store._map_bytes = identity  # as if it had been made smaller
    batches = [
        WriteBatch(meta={"k": b""}),
        WriteBatch(drops={1: [1]}),
        WriteBatch(cut={1: 1}),
        WriteBatch(meta={"k": None}),
    ]
    for batch in batches:
        store.commit(batch)
    with pytest.raises(StoreFull):
        store.commit(WriteBatch(appends=[Append(1, 9, b"1")]))
    assert store.bounds(1) is None


def test_what_is_dead_refuses_and_its_successor_has_everything() -> None:
    store = MemoryStore(max_domains=1)
    store.commit(WriteBatch(appends=[Append(1, 1, b"x")]))
    view = store.view()
    successor = store.crash()
    assert (store.closed, successor.closed) == (True, False)
    for use in (lambda: store.read(1, 1), view.domains, lambda: store.commit(WriteBatch())):
        with pytest.raises(StoreFailed, match="closed"):
            use()
    assert successor.read(1, 1) == b"x"
    with pytest.raises(StoreFull, match="domains"):
        successor.commit(WriteBatch(appends=[Append(2, 1, b"x")]))
    other = MemoryStore()
    other.take_over(successor)
    assert (successor.closed, other.scan(1, 0)) == (True, [(1, b"x")])
    other.close()
    assert other.closed


def test_a_failure_is_for_good_and_a_full_disk_is_not() -> None:
    store = MemoryStore()
    store.undo_kept = []
    store.commit(WriteBatch(meta={"k": b"1"}))
    store.fail_next = StoreFull("planted")
    with pytest.raises(StoreFull):
        store.commit(WriteBatch(meta={"k": b"2"}))
    assert (store.fail_next, len(store.undo_kept)) == (None, 1)
    with pytest.raises(StoreFailed):
        store.commit(WriteBatch(appends=[Append(3, 1, b""), Append(3, 1, b"")], meta={"k": b"3"}))
    assert (store.get_meta("k"), store.bounds(3)) == (b"1", None)
    with pytest.raises(StoreFailed):
        store.commit(WriteBatch())
    assert store.reader_check() == 0
