"""What is remembered of producers: how each batch was answered, what it held, and when that is forgotten."""

from __future__ import annotations

import random

import pytest

from replica.machine import Limits
from replica.machine.rows.producers import ProducerRow, producer_of, producer_row
from replica.machine.state import dedup
from replica.machine.state.dedup import Chunk, DuplicateRun, Producer, Producers
from tandemq.v1 import common_pb2

FULL = common_pb2.REASON_QUEUE_FULL
KEY = (1, b"one")


def read_back(producer: Producer) -> Producer:
    row = producer_row(KEY, producer)
    assert isinstance(row, ProducerRow)
    return producer_of(row)


@pytest.mark.parametrize("chunk_rows", [1, 3, 8])
@pytest.mark.parametrize("seed", range(5))
def test_each_batch_is_found_as_it_was_answered(monkeypatch: pytest.MonkeyPatch, chunk_rows: int, seed: int) -> None:
    monkeypatch.setattr(dedup, "CHUNK_ROWS", chunk_rows)
    monkeypatch.setattr(dedup, "FINGERPRINTS_KEPT", 10)
    chance, known = random.Random(seed), Producers(Limits())
    runs: list[tuple[DuplicateRun, int]] = []
    sequence, index, log_index, epoch = 1, 1, 1, 1
    for at in range(60):
        count, epoch = chance.randrange(1, 4), epoch + (chance.random() < 0.1)
        refusals = ((0, FULL),) if chance.random() < 0.2 else ()
        doubles = ((count - 1, 77),) if chance.random() < 0.2 else ()
        first_index = 0 if chance.random() < 0.2 else index
        run = DuplicateRun(sequence, count, first_index, log_index, epoch, refusals, chance.random() < 0.3, doubles)
        runs.append((run, at + 1_000))
        known.add(*KEY, run, at, at + 1_000)
        sequence, index, log_index = (
            sequence + count,
            index + count * bool(first_index),
            log_index + chance.randrange(1, 9),
        )
    producer = known.get(*KEY)
    assert producer is not None
    for each in (producer, read_back(producer)):
        assert (each.last_sequence, each.first_kept, each.rows, each.time_ms) == (sequence - 1, 1, 60, 59)
        assert len(each.fingerprints) <= 20
        for at, (run, fingerprint) in enumerate(runs):
            found = each.find(run.first_sequence, run.count)
            assert found is not None
            assert found[0] == run
            assert found[1] == (fingerprint if at >= 60 - len(each.fingerprints) else None)
            assert each.find(run.first_sequence, run.count + 1) is None
            if run.count > 1:
                assert each.find(run.first_sequence + 1, run.count - 1) is None
                assert each.find(run.first_sequence, run.count - 1) is None
    assert producer_row(KEY, read_back(producer)) == producer_row(KEY, producer)


def run_of(sequence: int, count: int = 1, log_index: int = 1) -> DuplicateRun:
    return DuplicateRun(sequence, count, sequence, log_index, 1, ())


@pytest.mark.parametrize(("place", "top"), [(0, 1 << 32), (1, 1 << 32), (2, 1 << 32)])
def test_columns_of_four_bytes_end_before_they_run_over(place: int, top: int) -> None:
    """Sequence, index and log index count from the first row of their chunk."""
    base = (10, 20, 30)
    chunk = Chunk(1, base)
    for ahead, fits in ((0, True), (top - 1, True), (top, False)):
        values = list(base)
        values[place] += ahead
        assert chunk.fits(1, *values) == fits
    assert not chunk.fits(2, *base), "of another epoch"
    assert not chunk.fits(1, 10, 19, 30), "an index never falls within a chunk"


def test_a_sequence_is_executed_once_and_none_is_skipped() -> None:
    known = Producers(Limits())
    known.add(*KEY, run_of(1, 2), 0)
    for sequence in (1, 2, 4):
        with pytest.raises(AssertionError, match="skipped or executed twice"):
            known.add(*KEY, run_of(sequence), 0)
    known.add(*KEY, run_of(3), 0)


@pytest.mark.parametrize(("passed_ms", "more", "first_kept"), [(100, 5, 1), (101, 3, 1), (101, 4, 2), (101, 5, 2)])
def test_a_batch_is_kept_for_its_time_and_for_so_many_sequences(
    monkeypatch: pytest.MonkeyPatch, passed_ms: int, more: int, first_kept: int
) -> None:
    """The later of both counts: here 100 ms, and 4 sequences."""
    monkeypatch.setattr(dedup, "CHUNK_ROWS", 1)
    known = Producers(Limits(dedup_window_ms=100, dedup_sequences=4))
    known.add(*KEY, run_of(1), 1_000)
    for sequence in range(2, 2 + more):
        known.add(*KEY, run_of(sequence), 1_000 + passed_ms)
    producer = known.get(*KEY)
    assert producer is not None
    assert producer.first_kept == first_kept
    assert (known.rows, producer.rows) == (len(producer.chunks), len(producer.chunks))


@pytest.mark.parametrize(
    "limits", [Limits(dedup_window_ms=100, dedup_producers_max=2), Limits(dedup_window_ms=100, dedup_rows_max=2)]
)
def test_of_too_many_the_one_that_was_used_longest_ago_goes_once_its_time_is_over(limits: Limits) -> None:
    known = Producers(limits)
    for at, name in enumerate((b"one", b"two")):
        known.add(1, name, run_of(1), at)
    known.add(2, b"three", run_of(1), 100)
    assert [name for (_, name), _ in known.dump()] == [b"one", b"two", b"three"], "each within its time"
    if limits.dedup_producers_max == 2:
        known.add(1, b"one", run_of(2), 101)
        assert [name for (_, name), _ in known.dump()] == [b"two", b"three", b"one"]
        known.add(1, b"four", run_of(1), 102)
        assert [name for (_, name), _ in known.dump()] == [b"three", b"one", b"four"]
        assert known.rows == 4
    else:
        known.add(2, b"three", run_of(2), 102)
        assert [(name, producer.rows) for (_, name), producer in known.dump()] == [(b"three", 2)]
        assert known.rows == 2


def test_what_is_read_back_counts_and_goes_with_its_queue() -> None:
    known, again = Producers(Limits()), Producers(Limits())
    for queue_id in (1, 2):
        for sequence in (1, 2, 3)[: queue_id + 1]:
            known.add(queue_id, b"one", run_of(sequence), 5)
    for key, producer in known.dump():
        again.put(*key, read_back(producer))
    assert (again.rows, known.rows) == (5, 5)
    again.forget_queue(1)
    assert (again.rows, [key for key, _ in again.dump()]) == (3, [(2, b"one")])
    assert again.get(1, b"one") is None


def test_a_producer_of_which_nothing_is_kept_goes_on_behind_its_last_sequence() -> None:
    producer = Producer()
    producer.last_sequence = 7
    assert producer.first_kept == 8
    assert producer.find(3, 1) is None


@pytest.mark.parametrize("far", ["sequence", "index", "log index"])
def test_what_lies_far_behind_the_row_before_it_is_found_too(far: str) -> None:
    top = 1 << 32
    first = DuplicateRun(1, top if far == "sequence" else 1, 5, 7, 1, ())
    second = DuplicateRun(
        1 + first.count, 1, 5 + top if far == "index" else 6, 7 + top if far == "log index" else 8, 1, ()
    )
    known = Producers(Limits())
    for run in (first, second):
        known.add(*KEY, run, 1)
    producer = known.get(*KEY)
    assert producer is not None
    for run in (first, second):
        found = producer.find(run.first_sequence, run.count)
        assert found is not None
        assert found[0] == run


def test_what_is_forgotten_is_no_longer_counted() -> None:
    """Batches go by chunks, here of three, of one and of one: an epoch begins another."""
    known = Producers(Limits(dedup_window_ms=100, dedup_sequences=1))
    for sequence, epoch, at_ms in ((1, 1, 0), (2, 1, 0), (3, 1, 0), (4, 2, 50), (5, 3, 101), (6, 3, 151)):
        known.add(*KEY, run_of(sequence)._replace(epoch=epoch), at_ms)
        producer = known.get(*KEY)
        assert producer is not None
        assert known.rows == producer.rows == {4: 4, 5: 2, 6: 2}.get(sequence, sequence)
        assert producer.first_kept == {5: 4, 6: 5}.get(sequence, 1)


def test_as_many_rows_as_may_be_are_kept_whatever_their_age() -> None:
    known = Producers(Limits(dedup_window_ms=100, dedup_rows_max=2))
    known.add(1, b"one", run_of(1), 0)
    known.add(1, b"two", run_of(1), 200)
    assert known.rows == 2
    known.add(1, b"two", run_of(2), 200)
    assert [name for (_, name), _ in known.dump()] == [b"two"]


def test_as_many_producers_as_may_be_are_kept_whatever_their_age() -> None:
    known = Producers(Limits(dedup_window_ms=100, dedup_producers_max=2))
    known.add(1, b"one", run_of(1), 0)
    known.add(1, b"two", run_of(1), 200)
    assert known.rows == 2
    known.add(1, b"three", run_of(1), 200)
    assert [name for (_, name), _ in known.dump()] == [b"two", b"three"]


def test_a_producer_that_was_used_within_its_time_stays_to_the_last_millisecond() -> None:
    known = Producers(Limits(dedup_window_ms=100, dedup_producers_max=1))
    known.add(1, b"one", run_of(1), 0)
    known.add(1, b"two", run_of(1), 100)
    assert known.rows == 2
    known.add(1, b"two", run_of(2), 101)
    assert known.rows == 2
    assert [name for (_, name), _ in known.dump()] == [b"two"]
