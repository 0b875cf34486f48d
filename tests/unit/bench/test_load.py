"""What a load process counts, and what it holds back: the window, the backlog, the end of a consumer."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from bench.peers.load import Job, in_lanes


def job(folder: Path, **more: Any) -> Job:
    spec = {
        "folder": str(folder), "progress": str(folder / "progress"), "target": {}, "queue": "q", "seed": 1, "size": 64,
        "window": 10, "batch": 4, "warm_s": 0, "seconds": 0,
    }  # fmt: skip
    return Job({**spec, **more})


def test_no_more_than_the_window_is_unanswered(tmp_path: Path) -> None:
    one = job(tmp_path)
    assert [len(one.take(4)) for _ in range(4)] == [4, 4, 2, 0]
    one.answered(3, time.perf_counter())
    assert one.room(4) == 3


def test_a_producer_waits_for_its_consumer(tmp_path: Path) -> None:
    producer, consumer = job(tmp_path, window=100, backlog=6), job(tmp_path)
    sent = producer.take(10)
    assert len(sent) == 6
    producer.answered(6, time.perf_counter())
    assert producer.room() == 0, "all is answered, nothing is received"
    consumer.received(sent[:2])
    assert producer.room(10) == 2


def test_a_count_ends_a_producer(tmp_path: Path) -> None:
    one = job(tmp_path, count=5)
    assert [len(one.take(4)) for _ in range(3)] == [4, 1, 0]
    assert one.over
    with pytest.raises(AssertionError, match="5 sent, 0 acknowledged"):
        one.all_sent()
    one.answered(5, time.perf_counter())
    assert one.all_sent() == 5


def test_a_consumer_is_done_when_all_that_was_sent_came(tmp_path: Path) -> None:
    producer, consumer = job(tmp_path, count=4), job(tmp_path)
    sent = producer.take(4)
    consumer.received(sent[:3])
    assert not consumer.done(), "nobody has said how many there are"
    producer.answered(4, time.perf_counter())
    producer.all_sent()
    assert not consumer.done()
    consumer.received(sent[2:3])
    assert not consumer.done(), "the same one again is not the missing one"
    account = consumer.account()
    assert (account["lost"], account["again"]) == (1, 1)
    impatient = job(tmp_path, patience_s=0)
    assert impatient.done(), "it does not wait for ever"
    assert impatient.account()["lost"] == 4


def test_the_window_leaves_out_what_came_with_the_first_answer(tmp_path: Path) -> None:
    one = job(tmp_path, window=1000, count=60)
    for _ in range(3):
        one.take(20)
        one.answered(20, time.perf_counter())
    one.all_sent()
    result = one.measured.result()
    assert result["messages"] == 20, "the first began it, the second was the warm-up's last"
    assert result["value"] > 0
    assert set(result) >= {"p50_ms", "p999_ms", "cpu_us", "load_share", "foreign_cores"}


def test_a_consumer_has_no_percentiles(tmp_path: Path) -> None:
    producer, consumer = job(tmp_path, window=1000), job(tmp_path)
    for _ in range(3):
        consumer.received(producer.take(20))
    consumer.account()
    assert "p50_ms" not in consumer.measured.result()


def test_lanes_of_a_consumer_are_counted_one_after_the_other(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    producer, consumer = job(tmp_path, window=1000), job(tmp_path)
    both_inside = threading.Barrier(2)
    take = consumer.ledger.take

    def slow(payloads: Iterable[bytes]) -> None:
        with suppress(threading.BrokenBarrierError):
            both_inside.wait(0.2)
            raise AssertionError("two lanes at once in what counts")
        take(payloads)

    monkeypatch.setattr(consumer.ledger, "take", slow)
    in_lanes(consumer, 2, lambda one: one.received(producer.take(20)))
    assert consumer.account()["received"] == 40
