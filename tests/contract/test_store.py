"""What every store promises, the memory double and the simulator's disk included: each test runs on all of them."""

from __future__ import annotations

import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from chaos.sim.kernel.disk import Disk
from storage.disk import open_disk
from storage.errors import CorruptRecord, StoreFailed, StoreFull
from storage.memory import MemoryStore
from storage.records import FLAG_VOLATILE_BODY, ZERO_DIGEST, assemble, build_head, head_of, split_stored_head, verify
from storage.store import RESERVED_META, Append, Store, WriteBatch

# Small enough to fill. Large enough for readers beside a writer: one that loses its core in the middle of a call pins
# every page that the writer frees meanwhile, at worst those of all 100 commits in that test (4 MiB).
MAP_BYTES = 8 << 20
MAX_DOMAINS = 8


class DiskKind:
    def __init__(self, directory):
        self.directory = directory
        self.store = self._open()

    def _open(self):
        return open_disk(
            self.directory, pair="p", member="a", map_bytes=MAP_BYTES, max_domains=MAX_DOMAINS, ballast_bytes=0
        )

    def restart(self) -> Store:
        self.store.close()
        self.store = self._open()
        return self.store


class MemoryKind:
    def __init__(self):
        self.store = MemoryStore(pair="p", member="a", map_bytes=MAP_BYTES, max_domains=MAX_DOMAINS)

    def restart(self) -> Store:
        self.store = self.store.crash()
        return self.store


class SimulatedKind:
    def __init__(self):
        self.disk = Disk("a", random.Random(1), lambda: 0.0, map_bytes=MAP_BYTES, max_domains=MAX_DOMAINS)
        self.store = self.disk.open("p", "a")

    def restart(self) -> Store:
        self.disk.crash()
        self.store = self.disk.open("p", "a")
        return self.store


@pytest.fixture(params=["disk", "memory", "simulated"])
def kind(request, tmp_path):
    kinds = {"disk": lambda: DiskKind(tmp_path / "store"), "memory": MemoryKind, "simulated": SimulatedKind}
    kind = kinds[request.param]()
    yield kind
    kind.store.close()


@pytest.fixture
def store(kind) -> Store:
    return kind.store


def appends(domain, *log_indexes, size=10):
    return [Append(domain, log_index, value(domain, log_index, size)) for log_index in log_indexes]


def value(domain, log_index, size=10):
    return f"{domain}/{log_index}".encode().ljust(size, b".")


def present(store, domain):
    return [log_index for log_index, _ in store.scan(domain, 0)]


def everything(store):
    return [store.scan(domain, 0, limit_records=10**6, limit_bytes=1 << 30) for domain in range(MAX_DOMAINS)], [
        item for item in store.meta_items("") if item[0] not in RESERVED_META
    ]


def test_an_empty_store_answers_everything(store):
    assert store.read(1, 1) is None
    assert store.read_many(1, [1, 2]) == [None, None]
    assert store.scan(1, 0) == []
    assert store.scan_prefixes(1, 0) == []
    assert store.scan_heads(1, 0) == []
    assert store.bounds(1) is None
    assert store.get_meta("x") is None
    assert store.meta_items("x") == []
    assert store.reader_check() == 0
    store.commit(WriteBatch())
    store.commit(WriteBatch(wipe={1}, cut={1: 0}, drops={1: [1]}, meta={"x": None}))
    assert store.bounds(1) is None


def test_what_was_appended_is_read(store):
    store.commit(WriteBatch(appends=[*appends(1, 1, 2, 5), *appends(2, 7)]))
    store.commit(WriteBatch(appends=appends(1, 6)))
    assert store.read(1, 5) == value(1, 5)
    assert store.read(1, 3) is None
    assert store.read(2, 1) is None
    assert store.read_many(1, [6, 3, 1, 6]) == [value(1, 6), None, value(1, 1), value(1, 6)]
    assert (store.bounds(1), store.bounds(2)) == ((1, 6), (7, 7))


def test_records_come_back_as_bytes_that_last(store):
    store.commit(WriteBatch(appends=appends(1, 1, 2)))
    found = [store.read(1, 1), *store.read_many(1, [1, 2]), *(record for _, record in store.scan(1, 0))]
    store.commit(WriteBatch(wipe={1}, appends=appends(1, 3)))
    assert {type(record) for record in found} == {bytes}
    assert set(found) == {value(1, 1), value(1, 2)}


def test_log_indexes_sort_as_numbers_over_their_whole_range(store):
    indexes = [0, 1, 255, 256, 2**32 - 1, 2**32, 2**63, 2**64 - 1]
    store.commit(WriteBatch(appends=appends(2**32 - 1, *indexes)))
    assert present(store, 2**32 - 1) == indexes
    store.commit(WriteBatch(cut={2**32 - 1: 2**64 - 1}))
    assert store.bounds(2**32 - 1) == (0, 2**64 - 1)
    store.commit(WriteBatch(cut={2**32 - 1: 2**63}))
    assert store.bounds(2**32 - 1) == (0, 2**63)


def test_a_restart_keeps_everything(kind):
    kind.store.commit(WriteBatch(appends=[*appends(1, 1, 2), *appends(3, 9)], meta={"a": b"1", "b": b""}))
    kind.store.commit(WriteBatch(cut={1: 1}, appends=appends(1, 2, 3, size=20)))
    before, identity = everything(kind.store), [kind.store.get_meta(key) for key in sorted(RESERVED_META)]
    store = kind.restart()
    assert everything(store) == before
    assert [store.get_meta(key) for key in sorted(RESERVED_META)] == identity
    store.commit(WriteBatch(appends=appends(1, 4)))
    assert store.bounds(1) == (1, 4)


@pytest.mark.parametrize("domain", [0, 1, 0x0FFF_FFFF, 0x1000_0001, 2**32 - 1])
def test_a_domain_of_any_number_outlives_a_restart(kind, domain):
    kind.store.commit(WriteBatch(appends=appends(domain, 1, 2)))
    store = kind.restart()
    assert present(store, domain) == [1, 2]
    store.commit(WriteBatch(appends=appends(domain, 3)))
    assert present(kind.restart(), domain) == [1, 2, 3]


def test_identity_is_in_meta(store):
    assert [store.get_meta(key) for key in ("format", "pair", "member")] == [b"2", b"p", b"a"]
    assert len(store.get_meta("instance")) == 16


def test_a_cut_comes_before_the_appends_of_its_batch(store):
    store.commit(WriteBatch(appends=appends(1, 1, 2, 3, 4)))
    store.commit(WriteBatch(appends=appends(1, 3, size=20), cut={1: 2}))
    assert present(store, 1) == [1, 2, 3]
    assert store.read(1, 3) == value(1, 3, 20)


@pytest.mark.parametrize(("last", "left"), [(0, []), (1, []), (2, [2]), (5, [2, 4]), (6, [2, 4, 6]), (99, [2, 4, 6])])
def test_a_cut_keeps_what_is_not_above(store, last, left):
    store.commit(WriteBatch(appends=[*appends(1, 2, 4, 6), *appends(2, 6)]))
    store.commit(WriteBatch(cut={1: last}))
    assert present(store, 1) == left
    assert present(store, 2) == [6]


def test_a_wipe_comes_before_all_else_of_its_batch(store):
    store.commit(WriteBatch(appends=[*appends(1, 1, 2, 9), *appends(2, 1)], meta={"kept": b"1"}))
    store.commit(WriteBatch(appends=appends(1, 5), inserts=appends(1, 4, 3), meta={"new": b"2"}, wipe={1}))
    assert present(store, 1) == [3, 4, 5]
    assert present(store, 2) == [1]
    assert store.meta_items("")[-2:] == [("new", b"2"), ("pair", b"p")]
    assert store.get_meta("kept") == b"1"


def test_inserts_take_any_order_and_overwrite(store):
    store.commit(WriteBatch(inserts=appends(1, 9, 2, 5)))
    store.commit(WriteBatch(inserts=appends(1, 3, 5, 1, size=20)))
    assert present(store, 1) == [1, 2, 3, 5, 9]
    assert store.read(1, 5) == value(1, 5, 20)
    store.commit(WriteBatch(inserts=appends(1, 11, 10), appends=appends(1, 12)))
    assert store.bounds(1) == (1, 12)


def volatile(log_index, body=b"the body"):
    """A record of domain 1 as it is stored without its body, and with it."""
    flags, where = FLAG_VOLATILE_BODY, {"domain": 1, "epoch": 1, "log_index": log_index}
    head, _ = build_head(flags=flags, **where, header=b"h", body=body, previous_digest=ZERO_DIGEST)
    return Append(1, log_index, head), Append(1, log_index, assemble(head, body))


def test_a_body_completes_its_record_once(kind):
    head, whole = volatile(5)
    body = Append(1, 5, b"the body")
    kind.store.commit(WriteBatch(appends=[head]))
    kind.store.commit(WriteBatch(appends=appends(1, 6), bodies=[body]))
    assert kind.store.read(1, 5) == whole.record
    kind.store.commit(WriteBatch(bodies=[body, body]))
    store = kind.restart()
    assert store.read(1, 5) == whole.record
    assert present(store, 1) == [5, 6]


def test_a_body_may_come_with_its_record_in_a_new_domain(store):
    head, whole = volatile(5)
    store.commit(WriteBatch(appends=[head], bodies=[Append(1, 5, b"the body")]))
    assert store.read(1, 5) == whole.record


def test_a_body_whose_record_is_gone_goes_nowhere(store):
    head, _ = volatile(5)
    body = Append(1, 5, b"the body")
    store.commit(WriteBatch(bodies=[body]))
    store.commit(WriteBatch(appends=[head]))
    store.commit(WriteBatch(drops={1: [5]}, bodies=[body]))
    assert present(store, 1) == []


def test_a_record_that_cannot_be_read_is_not_completed(store):
    store.commit(WriteBatch(appends=[Append(1, 5, b"no record")]))
    with pytest.raises(StoreFailed, match="Log index 5 cannot be completed"):
        store.commit(WriteBatch(bodies=[Append(1, 5, b"the body")]))


def test_drops_delete_what_is_there_and_ignore_the_rest(store):
    store.commit(WriteBatch(appends=[*appends(1, 1, 2, 3, 4), *appends(2, 1)]))
    store.commit(WriteBatch(drops={1: [1, 3, 3, 99], 7: [1]}, appends=appends(1, 5)))
    assert present(store, 1) == [2, 4, 5]
    assert present(store, 2) == [1]
    store.commit(WriteBatch(drops={1: [5, 4, 2]}, appends=appends(1, 3)))
    assert present(store, 1) == [3]


def test_meta_is_put_replaced_deleted_and_listed_by_prefix(store):
    store.commit(WriteBatch(meta={"q/2": b"two", "q/1": b"one", "r": b"", "q": b"q", "é": b"e"}))
    store.commit(WriteBatch(meta={"q/2": b"zwei", "q": None, "none": None}))
    assert store.meta_items("q/") == [("q/1", b"one"), ("q/2", b"zwei")]
    assert store.meta_items("é") == [("é", b"e")]
    assert store.meta_items("zz") == []
    assert (store.get_meta("q"), store.get_meta("r")) == (None, b"")


def test_a_large_meta_value_is_kept(kind):
    kind.store.commit(WriteBatch(meta={"checkpoint": b"c" * 300_000}))
    assert kind.restart().get_meta("checkpoint") == b"c" * 300_000


@pytest.mark.parametrize("key", [*sorted(RESERVED_META), "", "k" * 512])
def test_meta_keys_that_no_batch_may_write(store, key):
    with pytest.raises(AssertionError):
        store.commit(WriteBatch(appends=appends(1, 1), meta={key: b"x"}))
    assert store.bounds(1) is None


def test_a_scan_is_one_slice(store):
    store.commit(WriteBatch(appends=appends(1, *range(10, 30), size=100)))
    assert [index for index, _ in store.scan(1, 0, limit_records=3)] == [10, 11, 12]
    assert [index for index, _ in store.scan(1, 13, limit_records=3)] == [13, 14, 15]
    assert [index for index, _ in store.scan(1, 0, limit_bytes=250)] == [10, 11]
    assert store.scan(1, 29, limit_bytes=1) == [(29, value(1, 29, 100))]  # too large, and yet the caller gets on
    assert store.scan(1, 30) == []
    found, first = [], 0
    while part := store.scan(1, first, limit_records=7, limit_bytes=500):
        found += part
        first = part[-1][0] + 1
    assert found == [(index, value(1, index, 100)) for index in range(10, 30)]


def test_prefixes_are_listed_without_bodies(store):
    digest = ZERO_DIGEST
    batch = WriteBatch()
    for log_index, body in ((1, b""), (2, b"b" * 9000), (4, b"c")):
        head, digest = build_head(
            flags=0, domain=5, epoch=1, log_index=log_index, header=b"h", body=body, previous_digest=digest
        )
        batch.appends.append(Append(5, log_index, assemble(head, body)))
    store.commit(batch)
    expected = [(entry.log_index, verify(entry.record), len(entry.record)) for entry in batch.appends]
    assert store.scan_prefixes(5, 0) == expected
    assert store.scan_prefixes(5, 2, limit=1) == expected[1:2]
    assert store.scan_prefixes(5, 3) == expected[2:]
    heads = store.scan_heads(5, 0)
    assert heads == [(each.log_index, head_of(each.record)) for each in batch.appends]
    assert [split_stored_head(head) for _, head in heads] == [(5, 1, log_index, b"h") for log_index in (1, 2, 4)]
    assert store.scan_heads(5, 2, limit=1) == heads[1:2]
    assert store.scan_heads(5, 2, limit=0) == []
    # The digests outlive the transaction that read them.
    store.commit(WriteBatch(wipe={5}))
    assert expected[0][1].digest != ZERO_DIGEST


def test_indexes_are_listed_whatever_is_there(store):
    store.commit(
        WriteBatch(appends=[Append(5, 1, b"no record"), Append(5, 2, b""), Append(5, 4, b"TQ"), *appends(6, 3)])
    )
    assert store.scan_indexes(5, 0) == [1, 2, 4]
    assert store.scan_indexes(5, 2, limit=1) == [2]
    assert store.scan_indexes(5, 3) == [4]
    assert store.scan_indexes(5, 3, limit=0) == store.scan_indexes(5, 5) == store.scan_indexes(7, 0) == []


@pytest.mark.parametrize("key", [(6, 1), (5, 2)])
def test_a_record_under_a_key_that_is_not_its_own_is_found_out(store, key):
    head, _ = build_head(flags=0, domain=5, epoch=1, log_index=1, header=b"h", body=b"", previous_digest=ZERO_DIGEST)
    store.commit(WriteBatch(appends=[Append(*key, head)]))
    with pytest.raises(CorruptRecord, match="says 5, 1"):
        store.scan_prefixes(key[0], 0)


@pytest.mark.parametrize("wrong", [appends(1, 2), appends(1, 3), appends(1, 4, 4), appends(1, 5, 4)])
def test_an_append_that_is_not_the_highest_fails_the_store_and_does_nothing(kind, wrong):
    kind.store.commit(WriteBatch(appends=appends(1, 1, 2, 3)))
    before = everything(kind.store)
    batch = WriteBatch(appends=[*appends(2, 1), *wrong], drops={1: [1]}, meta={"a": b"1"})
    with pytest.raises(StoreFailed, match="domain 1 would not leave"):
        kind.store.commit(batch)
    assert everything(kind.store) == before
    with pytest.raises(StoreFailed):  # for good: whoever goes on has not understood
        kind.store.commit(WriteBatch(appends=appends(1, 9)))
    assert everything(kind.restart()) == before


def test_a_full_map_refuses_the_batch_and_nothing_else(kind):
    store = kind.store
    store.commit(WriteBatch(appends=appends(1, *range(1, 101), size=3000), meta={"a": b"1"}))
    before = everything(store)
    batch = WriteBatch(
        wipe={2}, cut={1: 90}, drops={1: [1]}, appends=[*appends(1, 101), *appends(2, 1, size=MAP_BYTES)]
    )
    batch.meta["a"] = None
    with pytest.raises(StoreFull):
        store.commit(batch)
    assert everything(store) == before
    store.commit(WriteBatch(drops={1: [1, 2, 3]}))
    store.commit(WriteBatch(meta={"b": b"2"}, appends=[*appends(1, 101), *appends(2, 1)]))
    assert (store.bounds(1), store.bounds(2)) == ((4, 101), (1, 1))
    assert everything(kind.restart()) == everything(kind.store)


def test_usage_falls_when_records_go(store):
    start = store.usage()
    assert 0 < start.used_bytes < start.map_bytes <= MAP_BYTES
    store.commit(WriteBatch(appends=appends(1, *range(1, 101), size=4000)))
    full = store.usage()
    assert full.used_bytes - start.used_bytes >= 400_000
    assert full.map_bytes == MAP_BYTES
    store.commit(WriteBatch(drops={1: list(range(1, 91))}))
    assert store.usage().used_bytes - start.used_bytes < 100_000
    assert store.usage().file_bytes >= full.used_bytes
    store.commit(WriteBatch(wipe={1}))
    assert store.usage().used_bytes - start.used_bytes < 20_000


def test_room_that_was_freed_is_used_again(store):
    """Three times the map passes through a queue that stays short."""
    size = 50_000
    store.commit(WriteBatch(appends=appends(1, *range(20), size=size)))
    for log_index in range(20, 20 + 3 * MAP_BYTES // size):
        store.commit(WriteBatch(appends=appends(1, log_index, size=size), drops={1: [log_index - 20]}))
    assert len(present(store, 1)) == 20


def test_more_domains_than_allowed_are_refused_and_the_others_go_on(kind):
    for domain in range(MAX_DOMAINS):
        kind.store.commit(WriteBatch(appends=appends(domain, 1)))
    with pytest.raises(StoreFull, match="domains"):
        kind.store.commit(WriteBatch(appends=[*appends(0, 2), *appends(MAX_DOMAINS, 1)]))
    assert kind.store.bounds(0) == (1, 1)
    kind.store.commit(WriteBatch(appends=appends(0, 2)))
    assert kind.restart().bounds(0) == (1, 2)


def test_a_domain_whose_first_batch_was_refused_can_be_made_later(store):
    with pytest.raises(StoreFull):
        store.commit(WriteBatch(appends=[*appends(4, 1), *appends(5, 1, size=MAP_BYTES)]))
    assert (store.bounds(4), store.read(5, 1)) == (None, None)
    store.commit(WriteBatch(appends=appends(5, 1)))
    store.commit(WriteBatch(appends=appends(4, 1)))
    assert (store.read(4, 1), store.read(5, 1)) == (value(4, 1), value(5, 1))


def test_a_closed_store_refuses_and_closing_twice_is_fine(store):
    store.commit(WriteBatch(appends=appends(1, 1)))
    store.close()
    store.close()
    uses = (
        lambda: store.commit(WriteBatch()),
        lambda: store.read(1, 1),
        lambda: store.read_many(9, [1]),
        lambda: store.scan(1, 1),
        lambda: store.scan_prefixes(1, 1),
        lambda: store.scan_heads(1, 1),
        lambda: store.bounds(9),
        lambda: store.get_meta("a"),
        lambda: store.meta_items(""),
        store.usage,
        store.reader_check,
    )
    for use in uses:
        with pytest.raises(StoreFailed, match="closed"):
            use()


@pytest.mark.slow
def test_readers_see_a_batch_whole_or_not_at_all(store):
    """Four readers beside the writer; every batch moves two records and a meta value together."""
    done = threading.Event()

    def read() -> int:
        rounds = 0
        while not done.is_set() or not rounds:
            left, right = store.read_many(1, [1, 2])
            assert left == right
            assert len({record for _, record in store.scan(1, 0)}) <= 1
            assert store.bounds(1) in (None, (1, 2))
            store.usage()
            rounds += 1
        return rounds

    with ThreadPoolExecutor(4) as pool:
        readers = [pool.submit(read) for _ in range(4)]
        try:
            for step in range(100):
                both = [Append(1, index, b"%d" % step * 3000) for index in (1, 2)]
                store.commit(WriteBatch(inserts=both) if step % 2 else WriteBatch(wipe={1}, appends=both))
        finally:
            done.set()
        assert all(reader.result() for reader in readers)


def test_the_double_fails_when_told_to():
    store = MemoryStore()
    store.fail_next = StoreFull("planted")
    with pytest.raises(StoreFull, match="planted"):
        store.commit(WriteBatch(appends=appends(1, 1)))
    store.commit(WriteBatch(appends=appends(1, 1)))
    store.fail_next = StoreFailed("planted")
    for _ in range(2):
        with pytest.raises(StoreFailed, match="planted"):
            store.commit(WriteBatch(appends=appends(1, 2)))
    assert store.crash().bounds(1) == (1, 1)


def test_a_view_is_one_moment_whatever_is_committed_meanwhile(store):
    store.commit(WriteBatch(appends=appends(1, 1, 2, 3) + appends(2, 5), meta={"k": b"before"}))
    view = store.view()
    store.commit(WriteBatch(cut={1: 1}, wipe={2}, appends=appends(1, 9) + appends(3, 1), meta={"k": b"after"}))
    store.commit(WriteBatch(drops={1: [1]}))
    assert view.domains() == {1: 3, 2: 1}
    assert view.scan(1, 0, limit_bytes=1 << 20) == [(index, value(1, index)) for index in (1, 2, 3)]
    assert view.scan(1, 2, limit_bytes=15) == [(2, value(1, 2))]
    assert (view.last(1), view.last(2), view.last(3)) == (value(1, 3), value(2, 5), None)
    assert view.scan(3, 0, limit_bytes=1 << 20) == []
    items = dict(view.meta_items())
    assert items["k"] == b"before"
    assert items.keys() >= RESERVED_META
    view.close()
    view.close()
    with pytest.raises(StoreFailed):
        view.meta_items()
    assert present(store, 1) == [9]


def test_a_view_of_a_closed_store_refuses(store):
    store.commit(WriteBatch(appends=appends(1, 1)))
    view = store.view()
    store.close()
    with pytest.raises(StoreFailed):
        view.scan(1, 0, limit_bytes=100)


def test_a_closed_view_keeps_no_room(store):
    """Pages that go while it is open stay; a store that forgot one would fill up for ever."""
    store.commit(WriteBatch(appends=appends(1, *range(100), size=4096)))
    for turn in range(1, 40):
        view = store.view()
        store.commit(WriteBatch(drops={1: list(range(100 * (turn - 1), 100 * turn))}))
        store.commit(WriteBatch(appends=appends(1, *range(100 * turn, 100 * turn + 100), size=4096)))
        view.close()
    assert store.usage().file_bytes < MAP_BYTES // 2


@pytest.mark.parametrize(("limit", "found"), [(0, 1), (99, 1), (100, 1), (199, 1), (200, 2), (201, 2), (300, 3)])
def test_a_slice_is_as_large_as_it_may_be(store, limit, found):
    store.commit(WriteBatch(appends=appends(1, 1, 2, 3, size=100)))
    assert len(store.scan(1, 0, limit_bytes=limit)) == found
    view = store.view()
    assert view.scan(1, 0, limit_bytes=limit) == store.scan(1, 0, limit_bytes=limit)
    assert [index for index, _ in view.scan(1, 2, limit_bytes=limit)] == [2, 3][:found]
    view.close()
