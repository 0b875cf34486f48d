"""kill -9 of driver, JVM, executor, Python worker and queue master while a queue is consumed into Parquet: each message
is there once, and in the end none is left in the queue.
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
from typing import Any

import pytest

import tandemq
from tandemq.errors import TandemqError
from tests.integration.support import roles
from tests.spark.striking import EXECUTOR, JVM, WORKER, Struck
from tests.spark.test_exactly_once import PAUSE_S_MAX, QUEUE, ROUNDS, STRIKES, Load, told
from tests.support.clusters import patient

DEADLINE_S = 300.0


class Consuming(Struck):
    """The query in a process of its own, which is started again when what struck it has ended it."""

    def __init__(self, target: str, folder: Path) -> None:
        self._target, self.folder = target, folder
        words = (target, QUEUE, str(folder / "rows"), str(folder / "checkpoint"))
        super().__init__([sys.executable, "-P", "-m", "tests.spark.consuming", *words])

    def batches(self) -> int:
        """How many micro-batches are in the folder, as Spark's file sink says."""
        names = [path.name for path in (self.folder / "rows" / "_spark_metadata").glob("*")]
        return max((int(name.partition(".")[0]) for name in names if name[0].isdigit()), default=-1) + 1

    def alive(self) -> Consuming:
        """This one, or the one after it."""
        if self.process.poll() is None:
            return self
        told(f"the query ended with {self.process.returncode}: {self.told[-1:]}")
        return Consuming(self._target, self.folder)

    def beyond(self, batches: int) -> Consuming:
        """Wait until there are more; the one that runs then."""
        running, until = self, time.monotonic() + DEADLINE_S
        while running.batches() <= batches:
            assert time.monotonic() < until, f"there are {batches} micro-batches; {running.told[-8:]}"
            running = running.alive()
            threading.Event().wait(0.2)
        return running

    def emptied(self, client: tandemq.Client) -> Consuming:
        """Wait until everything is taken; the one that runs then."""
        running, until = self, time.monotonic() + DEADLINE_S
        while time.monotonic() < until:
            running = running.alive()
            try:
                if not client.get_queue(QUEUE).ready:
                    return running
            except TandemqError:
                continue  # a takeover takes its time
        raise AssertionError(f"{QUEUE} is not empty; {running.told[-8:]}")


@pytest.mark.long
@pytest.mark.timeout(3_600)  # twenty rounds; each may start Spark
def test_every_message_is_consumed_once_whoever_is_killed(spark: Any, tmp_path: Path) -> None:
    seed = int(os.environ.get("SEED", str(random.randrange(1 << 31))))
    told(f"SEED={seed} ROUNDS={ROUNDS}")
    chance, struck = random.Random(seed), Counter[str]()
    pair = patient(tmp_path / "pair")
    asyncio.run(pair.start())
    try:
        asyncio.run(pair.wait_ready())
        with tandemq.connect(pair.target, timeout=60.0) as client:
            client.create_queue(QUEUE)
            running = Consuming(pair.target, tmp_path / "taken")
            try:
                with Load(pair.target, settles=False) as load:
                    for number in range(ROUNDS):
                        running = running.beyond(running.batches())
                        threading.Event().wait(chance.uniform(0.0, PAUSE_S_MAX))
                        strike = STRIKES[number % len(STRIKES)]
                        struck[strike] += 1
                        told(f"round {number + 1}: {strike}, {running.batches()} micro-batches")
                        running = running.alive()
                        if strike == "master":
                            master, _ = asyncio.run(roles(pair))
                            pair.kill(master)
                            threading.Event().wait(chance.uniform(0.0, PAUSE_S_MAX))
                            asyncio.run(pair.restart(master))
                            asyncio.run(pair.wait_ready())
                        elif strike == "driver":
                            running.die()
                        else:
                            running.kill({"jvm": JVM, "executor": EXECUTOR, "worker": WORKER}[strike])
                    running = running.beyond(running.batches())
                running = running.emptied(client)
                running.process.terminate()
                assert running.process.wait(DEADLINE_S) == 0, running.told[-8:]
            finally:
                running.die()
            rows = spark.read.parquet(str(tmp_path / "taken" / "rows")).collect()
            found = Counter(row["index"] for row in rows)
            lost = [index for index in load.acknowledged if not found[index]]
            twice = [index for index, count in found.items() if count > 1]
            told(f"struck: {dict(struck)}; {len(load.acknowledged):,} sent, {len(rows):,} rows, {lost=}, {twice=}")
            assert (lost, twice) == ([], [])
            assert client.get_queue(QUEUE).length == 0
    finally:
        asyncio.run(pair.stop())
