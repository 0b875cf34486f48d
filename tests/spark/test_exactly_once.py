"""kill -9 of driver, executor, Python worker and queue master while rows come: each row is in the lake once.

A producer sends and a consumer settles all the while. Every round strikes one process at a random point of a continuous
ingest on an executor of its own; at the end the lake is held against what each member says its journal is.
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any, Self

import pytest

import tandemq
from chaos.cluster import Cluster
from pipeline.integrity import examine
from pipeline.lake import Lake
from tandemq.errors import TandemqError
from tests.integration.support import roles
from tests.spark.conftest import heard
from tests.spark.lakes import Piped, journal_rows, lake_rows
from tests.spark.striking import EXECUTOR, JVM, ROOT, WORKER, Running
from tests.support.clusters import patient

ROUNDS = int(os.environ.get("ROUNDS", "20"))
STRIKES = ("driver", "jvm", "executor", "worker", "master")
QUEUE = "rounds"
PAUSE_S_MAX = 4.0


def told(text: str) -> None:
    """For who runs it with -s, or reads why it failed."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


class Load:
    """Sends batches, and settles what comes, until stopped; over takeovers the client waits."""

    def __init__(self, target: str, *, settles: bool = True) -> None:
        self._target, self._settles, self._over = target, settles, threading.Event()
        self.acknowledged: list[int] = []
        self._thread = threading.Thread(target=self._work)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        self._thread.join()

    def _work(self) -> None:
        with tandemq.connect(self._target, timeout=60.0) as client:
            number = 0
            while not self._over.wait(0.02):
                bodies = [f"m{number + at}".encode() for at in range(10)]
                number += len(bodies)
                self.acknowledged += [receipt.index for receipt in client.enqueue(QUEUE, bodies)]
                if not self._settles:
                    continue
                try:
                    client.dequeue(QUEUE, 10).ack()
                except TandemqError:
                    continue  # a lease that went with its master comes again


def moved(lake: Lake, member: str, beyond: int, running: Running, deadline_s: float = 180.0) -> int:
    """Wait until the lake ends behind that place; where it ends then."""
    until = time.monotonic() + deadline_s
    while time.monotonic() < until:
        assert running.process.poll() is None, running.told[-8:]
        place = lake.end(member)
        if place is not None and place.log_index > beyond:
            return place.log_index
        threading.Event().wait(0.1)
    raise AssertionError(f"the lake stands at {beyond} for {deadline_s:g} s; {running.told[-8:]}")


@pytest.mark.long
@pytest.mark.timeout(3_600)  # twenty rounds; each may start Spark
def test_every_row_is_in_the_lake_once_whoever_is_killed(spark: Any, tmp_path: Path) -> None:
    seed = int(os.environ.get("SEED", str(random.randrange(1 << 31))))
    told(f"SEED={seed} ROUNDS={ROUNDS}")
    chance = random.Random(seed)
    pair = patient(tmp_path / "pair")
    asyncio.run(pair.start())
    try:
        with tandemq.connect(pair.target) as client:
            client.create_queue(QUEUE)
        piped = Piped(
            pair.target,
            tmp_path,
            'spark.master = "local-cluster[1,2,1024]"\n'
            f'spark.conf = {{ "spark.executorEnv.PYTHONPATH" = "{ROOT}" }}\n'
            "ingest.every_s = 0.2\ningest.rows_per_batch = 2000\ningest.wait_s = 180.0\n",
        )
        struck: Counter[str] = Counter()
        with Load(pair.target) as load:
            _rounds(pair, piped, chance, struck)
        for name in pair.members:
            with tandemq.connect(pair.endpoint(name), follow_master=False) as client:
                heard(client, QUEUE, max(load.acknowledged) + 1)
        piped.ingested()
        assert examine(Lake(piped.lake)).findings == []
        for name in pair.members:
            place = Lake(piped.lake).end(name)
            assert place is not None
            rows = lake_rows(spark, piped.lake, name)
            assert rows == journal_rows(pair, name, place.log_index)
            entered = Counter(row[2] for row in rows if row[1] == "ENQUEUED")
            lost = [index for index in load.acknowledged if entered[index] == 0]
            twice = [index for index, count in entered.items() if count > 1]
            told(f"member {name}: {len(rows):,} rows, {len(entered):,} messages, lost {lost}, twice {twice}")
            assert (lost, twice) == ([], [])
        told(f"struck: {dict(struck)}; {len(load.acknowledged):,} acknowledged")
        assert set(struck) == set(STRIKES[: max(1, ROUNDS)])
    finally:
        asyncio.run(pair.stop())


def _rounds(pair: Cluster, piped: Piped, chance: random.Random, struck: Counter[str]) -> None:
    lake = Lake(piped.lake)
    running = Running(piped.file, "--continuous")
    at = dict.fromkeys(pair.members, 0)
    try:
        for number in range(ROUNDS):
            for name in pair.members:  # it works before it is struck
                at[name] = moved(lake, name, at[name], running)
            threading.Event().wait(chance.uniform(0.0, PAUSE_S_MAX))
            strike = STRIKES[number % len(STRIKES)]
            struck[strike] += 1
            if strike == "master":
                master, _ = asyncio.run(roles(pair))
                pair.kill(master)
                threading.Event().wait(chance.uniform(0.0, PAUSE_S_MAX))
                asyncio.run(pair.restart(master))
                asyncio.run(pair.wait_ready())
            elif strike in ("driver", "jvm"):
                if strike == "jvm":
                    running.kill(JVM)
                    assert running.ended() == 1, running.told[-3:]
                    assert any("SPARK_LOST" in line for line in running.told), running.told[-8:]
                running.die()
                assert examine(lake).findings == [], "whoever dies leaves nothing that looks like damage"
                running = Running(piped.file, "--continuous")
            else:
                running.kill(EXECUTOR if strike == "executor" else WORKER)
            told(f"round {number + 1}: {strike}, the lake was at {at}")
        for name in pair.members:
            at[name] = moved(lake, name, at[name], running)
        assert running.stop() == 0, running.told[-8:]
    finally:
        running.die()
