"""What can go wrong with a job ends it by a stable reason and exit code, and leaves the lake whole."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import tandemq
from chaos.cluster import Cluster
from pipeline.lake import Lake, Place
from tests.integration.support import new_name
from tests.spark.conftest import more, trim
from tests.spark.lakes import Piped, Told, journal_rows, lake_rows
from tests.spark.striking import Running
from tests.support.until import until_sync

NOBODY = "127.0.0.1:1"


def refused(told: Told, reason: str, code: int = 1) -> str:
    assert (told.code, told.stdout) == (code, ""), told.stderr
    assert f"error: {reason}\n" in told.stderr
    assert "\n  next:  " in told.stderr, "what to do"
    return told.stderr


@pytest.mark.long
def test_a_trimmed_place_is_refused_and_the_lake_stays(spark: Any, small_pair: Cluster, tmp_path: Path) -> None:
    piped = Piped(small_pair.target, tmp_path, 'ingest.reader = ""')
    with tandemq.connect(small_pair.target) as client:
        queue = new_name()
        client.create_queue(queue)
        more(client, queue, 1, 20)
        piped.ingested()
        before = Lake(piped.lake).paths()
        trim(client)
    assert "is trimmed" in refused(piped.run("ingest"), "OUT_OF_RANGE")
    assert Lake(piped.lake).paths() == before


def test_a_history_that_was_given_up_or_columns_of_another_kind_are_refused(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    filled(10)
    piped = Piped(pair.target, tmp_path)
    piped.ingested()
    lake, name = Lake(piped.lake), pair.members[0]
    [last] = lake.stretches(name)
    with lake.locked():
        again = lake.staging("again")
        last.path.rename(again)
        (again / "_manifest.json").unlink()
        lake.publish(name, last.start, Place(last.end.log_index, last.end.epoch + 7), again, rows=1)
    refused(piped.run("ingest"), "EPOCH_DIVERGED")
    other = Piped(pair.target, tmp_path, "source.payloads = false")
    assert "payloads is True there, False is wanted" in refused(other.run("ingest"), "LAKE_SCHEMA")
    piped = Piped(pair.target, tmp_path)
    [last] = lake.stretches(name)
    with lake.locked():
        again = lake.staging("again")
        spark.range(3).write.parquet(str(again))
        shutil.rmtree(last.path)
        lake.publish(name, last.start, last.end, again, rows=3)
    assert "bigint" in refused(piped.run("ingest"), "LAKE_SCHEMA")
    assert len(lake.stretches(name)) == 1


def test_a_queue_that_is_deleted_while_it_is_followed_is_named(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    queue = filled(10)
    piped = Piped(pair.target, tmp_path, f'source.queues = ["{queue}"]\ningest.every_s = 0.1')
    ended: list[Told] = []
    running = threading.Thread(target=lambda: ended.append(piped.run("ingest", "--continuous")))
    running.start()

    def has_both() -> bool:
        assert running.is_alive(), ended
        return has_something(piped, pair)

    until_sync(has_both, "the lake has something of both members")
    client.delete_queue(queue)
    running.join()
    refused(ended[0], "QUEUE_NOT_FOUND")
    client.create_queue(queue)
    assert "another one of its name created" in refused(piped.run("ingest"), "QUEUE_NOT_FOUND")
    assert "ENQUEUED" in {row[1] for row in lake_rows(spark, piped.lake, pair.members[0])}


def has_something(piped: Piped, pair: Cluster) -> bool:
    """Of both members."""
    return all(Lake(piped.lake).end(name) for name in pair.members)


def following(pair: Cluster, queue: str, folder: Path) -> tuple[Path, Running]:
    """An ingest that has something of both members; where its reports go."""
    piped = Piped(pair.target, folder, f'source.queues = ["{queue}"]\ningest.every_s = 0.2')
    running = Running(piped.file, "--continuous", group=True)

    def has_both() -> bool:
        assert running.process.poll() is None, running.told
        return has_something(piped, pair)

    until_sync(has_both, "the lake has something of both members")
    return folder / "reports" / "ingest", running


def of_others(running: Running) -> list[str]:
    """What stands on the terminal beside the job's own progress."""
    return [line for line in running.told if not line.startswith("ingest: ")]


def test_a_signal_to_all_processes_of_an_ingest_ends_it_in_order(
    pair: Cluster, filled: Callable[[int], str], tmp_path: Path
) -> None:
    """As a service manager sends it."""
    reports, running = following(pair, filled(10), tmp_path)
    os.killpg(running.process.pid, signal.SIGTERM)
    assert (running.ended(), of_others(running)) == (0, [])
    assert {each.name for each in reports.iterdir()} == {"report.html", "result.json", "spark.log"}


@pytest.mark.long
def test_what_ends_a_stream_is_told_in_a_paragraph_and_no_stack(
    pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    queue = filled(10)
    _, running = following(pair, queue, tmp_path)
    client.delete_queue(queue)
    assert running.ended() == 1
    assert of_others(running) == [
        "error: QUEUE_NOT_FOUND",
        f"  cause: there is no queue '{queue}'; create it first",
        "  next:  take the queue out of source.queues, or create it: `tandemq queue ls`",
    ]


def test_a_member_that_is_away_is_waited_for_while_the_other_one_goes_on(
    spark: Any, pair: Cluster, client: tandemq.Client, filled: Callable[[int], str], tmp_path: Path
) -> None:
    filled(10)
    name = pair.members[0]
    # Who is away is asked first, while nothing keeps the job from it; then once more when the other one is under way.
    piped = Piped(f"{NOBODY},{pair.endpoint(name)}", tmp_path, "source.timeout_s = 1.0\ningest.wait_s = 5.0")
    told = refused(piped.run("ingest"), "UNREACHABLE", 3)
    assert f"{NOBODY}: waits since" in told


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of 3 MiB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(place)]
    mounted = subprocess.run(mount, capture_output=True, check=False)
    if mounted.returncode:
        pytest.skip(f"A FULL DISK IS NOT TESTED: a small one cannot be mounted here: {mounted.stderr.decode().strip()}")
    try:
        yield place
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)


@pytest.mark.long
def test_a_full_disk_is_told_and_what_is_in_the_lake_is_whole(
    spark: Any, pair: Cluster, client: tandemq.Client, small_disk: Path, tmp_path: Path
) -> None:
    queue = new_name()
    client.create_queue(queue)
    for _ in range(8):
        client.enqueue(queue, [os.urandom(60_000) for _ in range(10)])
    piped = Piped(pair.target, tmp_path, f'lake.path = "{small_disk}/lake"\ningest.rows_per_batch = 10')
    refused(piped.run("ingest"), "DISK_FULL")
    lake = Lake(small_disk / "lake")
    for name in lake.members():
        place = lake.end(name)
        assert place is not None
        assert lake_rows(spark, lake.path, name) == journal_rows(pair, name, place.log_index)


def test_without_java_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    told = Piped("127.0.0.1:7600", tmp_path).run("ingest")
    assert "install Java 17" in refused(told, "NO_JAVA")
    assert not (tmp_path / "lake").exists()


def test_a_wrong_file_is_told_before_spark_starts(tmp_path: Path) -> None:
    piped = Piped("127.0.0.1:7600", tmp_path, "ingest.rows_per_batch = 0")
    assert f"{piped.file}: ingest.rows_per_batch = 0: a whole number" in refused(piped.run("ingest"), "CONFIG_ERROR")
    told = Piped("127.0.0.1:7600", tmp_path).run("ingest", "--master", "locl[2]")
    assert "--master: spark.master = 'locl[2]'" in refused(told, "CONFIG_ERROR")
