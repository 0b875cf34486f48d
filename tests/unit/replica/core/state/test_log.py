"""The log as the core sees it: what it takes, what it refuses, and what it knows after a cut."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

import replica.core.state.log
from replica.core.state.durable import HISTORY_MAX, Boundary
from replica.core.state.log import DomainLog, HeldRef
from storage.errors import CorruptRecord
from storage.records import ZERO_DIGEST, Prefix, is_bare, read_prefix, split
from tandemq.peer.v1.record_pb2 import RecordHeader, RoleOp

DOMAIN = 7


class Reader:
    """The store's part: the records of a dict."""

    def __init__(self) -> None:
        self.records: dict[int, bytes] = {}

    def prefix_at(self, log_index: int) -> Prefix | None:
        record = self.records.get(log_index)
        return read_prefix(record) if record is not None else None

    def header_at(self, log_index: int) -> RecordHeader | None:
        record = self.records.get(log_index)
        return RecordHeader.FromString(bytes(split(record)[1])) if record is not None else None

    def has_body(self, log_index: int) -> bool:
        record = self.records.get(log_index)
        return record is not None and not is_bare(record)


def new_log(reader: Reader | None = None, domain: int = DOMAIN) -> DomainLog:
    return DomainLog(domain, base_index=0, base_digest=ZERO_DIGEST, base_epoch=0, reader=reader or Reader())


def build(log: DomainLog, epoch: int = 1, body: bytes = b"", *, volatile_body: bool = False) -> bytes:
    header = RecordHeader(time_ms=log.last_index, role=RoleOp(owner="a"))
    return log.build(header, body, epoch, volatile_body=volatile_body, held=None).record


def filled(epochs: Iterable[int], reader: Reader | None = None) -> DomainLog:
    log = new_log(reader)
    for epoch in epochs:
        record = build(log, epoch)
        if reader is not None:
            reader.records[log.last_index] = record
    return log


def facts(log: DomainLog) -> tuple[int, int, bytes, list[Boundary], int]:
    return log.last_index, log.last_epoch, log.digest, list(log.history), len(log.ring)


def test_a_replica_that_accepts_the_records_has_the_same_log() -> None:
    master, replica_ = new_log(), new_log()
    for epoch in (1, 1, 2, 5):
        entry = replica_.accept(build(master, epoch, b"body"))
        assert (entry.log_index, entry.epoch, entry.digest) == (master.last_index, epoch, master.digest)
    assert facts(replica_) == facts(master)
    assert master.history == [Boundary(1, 1), Boundary(2, 3), Boundary(5, 4)]


def test_accept_refuses_what_does_not_follow_and_keeps_the_log_as_it_was() -> None:
    master, replica_ = new_log(), new_log()
    first, second, third = build(master), build(master), build(master)
    replica_.accept(first)
    before = facts(replica_)
    other = new_log()
    build(other, body=b"another first record")
    elsewhere = new_log(domain=DOMAIN + 1)
    build(elsewhere)
    for record in (third, first, build(other), build(elsewhere), second[:-1] + b"?", second[:40]):
        with pytest.raises(CorruptRecord):
            replica_.accept(record)
        assert facts(replica_) == before
    replica_.accept(second)


def test_p13_accept_refuses_a_lower_epoch() -> None:
    log = filled([3, 3])
    fork = new_log()
    fork.restore(log.last_index, 1, log.digest, [])
    with pytest.raises(CorruptRecord, match="does not follow"):
        log.accept(build(fork, epoch=2))


def test_a_volatile_body_is_not_stored_and_is_still_in_the_digest() -> None:
    log = new_log()
    entry = log.build(RecordHeader(), b"secret", 1, volatile_body=True, held=HeldRef(b"c", "q", 1))
    assert entry.record.endswith(b"secret")
    assert entry.stored == entry.record[: entry.head_len]
    bare = new_log()
    assert bare.accept(entry.stored).digest == entry.digest


def test_a_persistent_record_without_its_body_is_refused() -> None:
    master = new_log()
    record = build(master, body=b"payload")
    with pytest.raises(CorruptRecord):
        new_log().accept(record[: -len(b"payload")])


@pytest.mark.parametrize(("epoch", "end"), [(1, 2), (2, 3), (4, 6), (3, None), (9, None), (0, 0)])
def test_end_of_epoch(epoch: int, end: int | None) -> None:
    assert filled([1, 1, 2, 4, 4, 4]).end_of_epoch(epoch) == end


@pytest.mark.parametrize("last", range(7))
def test_p10_a_cut_log_is_the_log_that_never_had_the_tail(last: int) -> None:
    epochs = [1, 1, 2, 4, 4, 4]
    log = filled(epochs)
    log.cut(last)
    assert facts(log) == facts(filled(epochs[:last]))
    build(log, epoch=5)
    assert (log.last_index, log.history[-1]) == (last + 1, Boundary(5, last + 1))


def test_a_cut_below_memory_asks_the_store_for_the_digest() -> None:
    reader = Reader()
    log = filled([1, 1, 2, 2], reader)
    log.ring.clear()
    assert log.digest_at(2) == (1, filled([1, 1]).digest)
    log.cut(2)
    assert (log.last_index, log.last_epoch, log.digest) == (2, 1, filled([1, 1]).digest)


def test_a_cut_to_where_nothing_is_known_is_a_broken_invariant() -> None:
    log = filled([1, 1, 1])
    log.ring.clear()
    with pytest.raises(AssertionError, match="digest unknown"):
        log.cut(1)


def test_digest_is_unknown_beyond_the_end_and_below_the_base() -> None:
    log = new_log()
    log.reset(10, b"d" * 16, 3, [Boundary(1, 1), Boundary(3, 8)])
    assert log.digest_at(10) == (3, b"d" * 16)
    assert log.digest_at(9) is None
    assert log.digest_at(11) is None
    build(log, epoch=4)
    assert (log.end_of_epoch(3), log.end_of_epoch(4), log.end_of_epoch(1)) == (10, 11, 7)


def test_tail_is_limited_by_bytes_and_never_empty_where_there_is_something() -> None:
    log = new_log()
    for _ in range(4):
        build(log, body=b"x" * 1000)
    size = len(log.ring[1].record)
    indexes = [entry.log_index for entry in log.tail_from(2, 2 * size)]
    assert indexes == [2, 3]
    assert [entry.log_index for entry in log.tail_from(2, 1)] == [2]
    assert log.tail_from(5, 1 << 20) == []
    assert log.tail_from(0, 1 << 20) == []
    assert new_log().tail_from(1, 1) == []


def test_the_ring_is_bounded_and_ends_with_the_last_record(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica.core.state.log, "RING_BYTES_MAX", 5000)
    log = new_log()
    for _ in range(20):
        build(log, body=b"x" * 1000)
        log.on_stored(log.last_index)
        assert log.ring_bytes == sum(len(entry.record) for entry in log.ring) <= 5000
        assert log.ring[-1].log_index == log.last_index
    assert log.get(1) is None
    assert log.tail_from(1, 1 << 20) == []
    build(log, body=b"x" * 9000)
    log.on_stored(21)
    assert [entry.log_index for entry in log.ring] == [21], "the newest stays, however large"
    log.cut(21)
    assert log.ring_bytes == len(log.ring[0].record)


def test_what_is_not_written_stays_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """1. A disk is slow. 2. More is ordered than the memory keeps. 3. The peer, who is behind, is sent each record: it
    was in neither place, and its sender said that its copy is damaged.
    """
    monkeypatch.setattr(replica.core.state.log, "RING_BYTES_MAX", 5000)
    log = new_log()
    for _ in range(20):
        build(log, body=b"x" * 1000)
    assert [entry.log_index for entry in log.tail_from(1, 1 << 20)] == list(range(1, 21))
    log.on_stored(12)
    assert [entry.log_index for entry in log.ring] == list(range(13, 21))
    log.on_stored(3)
    log.cut(15)
    build(log, body=b"x" * 1000)
    assert [entry.log_index for entry in log.ring] == [13, 14, 15, 16], "what a late report names was cut"
    log.on_stored(16)
    log.cut(13)
    for _ in range(6):
        build(log, body=b"x" * 1000)
    assert log.ring[0].log_index == 14, "what was stored was cut, and what came in its place is not stored"


def test_history_is_bounded() -> None:
    log = new_log()
    for epoch in range(1, HISTORY_MAX + 50):
        build(log, epoch)
    assert len(log.history) == HISTORY_MAX
    assert log.history[-1] == Boundary(HISTORY_MAX + 49, HISTORY_MAX + 49)
