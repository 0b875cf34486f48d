"""kill -9 of driver, JVM, executor, Python worker and queue master while one queue is copied into another by a stream:
each message is in the other one once, in order.
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

import pytest

import tandemq
from tandemq.client.journal import JournalKind
from tandemq.errors import TandemqError
from tests.integration.support import roles
from tests.spark.striking import EXECUTOR, JVM, WORKER, Struck
from tests.spark.test_exactly_once import PAUSE_S_MAX, QUEUE, ROUNDS, STRIKES, Load, told
from tests.support.clusters import patient

SINK = "copied"


class Copying(Struck):
    """The query in a process of its own."""

    def __init__(self, target: str, checkpoint: Path) -> None:
        super().__init__([sys.executable, "-P", "-m", "tests.spark.copying", target, QUEUE, SINK, str(checkpoint)])


def copied(target: str, beyond: int, running: Copying, checkpoint: Path) -> tuple[int, Copying]:
    """Wait until more is in the other queue; a query that has ended by what struck it is started again."""
    until = time.monotonic() + 240.0
    with tandemq.connect(target, timeout=60.0) as client:
        while time.monotonic() < until:
            if running.process.poll() is not None:
                told(f"the query ended with {running.process.returncode}: {running.told[-1:]}")
                running = Copying(target, checkpoint)
            try:
                total = client.get_queue(SINK).last_index
            except TandemqError:
                continue  # a takeover takes its time
            if total > beyond:
                return total, running
            threading.Event().wait(0.2)
    raise AssertionError(f"{SINK} stands at {beyond}; {running.told[-8:]}")


@pytest.mark.long
@pytest.mark.timeout(3_600)  # twenty rounds; each may start Spark
def test_every_message_is_copied_once_whoever_is_killed(tmp_path: Path) -> None:
    seed = int(os.environ.get("SEED", str(random.randrange(1 << 31))))
    told(f"SEED={seed} ROUNDS={ROUNDS}")
    chance, checkpoint = random.Random(seed), tmp_path / "checkpoint"
    pair, struck = patient(tmp_path / "pair"), Counter[str]()
    asyncio.run(pair.start())
    try:
        asyncio.run(pair.wait_ready())
        with tandemq.connect(pair.target) as client:
            client.create_queue(QUEUE)
            client.create_queue(SINK)
        running = Copying(pair.target, checkpoint)
        at = 0
        try:
            with Load(pair.target) as load:
                for number in range(ROUNDS):
                    at, running = copied(pair.target, at, running, checkpoint)
                    threading.Event().wait(chance.uniform(0.0, PAUSE_S_MAX))
                    strike = STRIKES[number % len(STRIKES)]
                    struck[strike] += 1
                    told(f"round {number + 1}: {strike}, {SINK} has {at}")
                    if strike == "master":
                        master, _ = asyncio.run(roles(pair))
                        pair.kill(master)
                        asyncio.run(pair.restart(master))
                        asyncio.run(pair.wait_ready())
                    elif strike == "driver":
                        running.die()
                    else:
                        running.kill({"jvm": JVM, "executor": EXECUTOR, "worker": WORKER}[strike])
                at, running = copied(pair.target, at, running, checkpoint)
            last = max(load.acknowledged)
            while at < last:
                at, running = copied(pair.target, at, running, checkpoint)
        finally:
            running.die()
        with tandemq.connect(pair.target) as client:
            pages = client.read_journal([QUEUE], kinds=[JournalKind.ENQUEUED])
            sent = [row.payload for page in pages for row in page.rows()]
            found = [message.payload for message in client.browse(SINK)]
            twice = len(found) - len(set(found))
            lost = len(set(sent) - set(found))
            told(f"struck: {dict(struck)}; {len(sent):,} sent, {len(found):,} copied, {lost} lost, {twice} twice")
            assert (lost, twice) == (0, 0)
            assert found == sent
    finally:
        asyncio.run(pair.stop())
