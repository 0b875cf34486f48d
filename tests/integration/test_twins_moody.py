"""Handlers that depend on more than state and message, at a real pair: time, random numbers, the order of a set. Each
is found as a difference, by whichever process comes second, and harms nobody else (K8, K9).
"""

from __future__ import annotations

import asyncio
import os
import random
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from pathlib import Path
from types import MappingProxyType

import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.config import Limits
from tandemq.twin import Output, TwinInput, TwinsDiffer
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.integration.module_pair import module_client, module_pair
from tests.integration.twin_pairing import State, pairing
from tests.support.until import until

pytestmark = pytest.mark.process

pair = module_pair(limits=Limits(side_full_seconds=1))
client = module_client()

ROOT = Path(__file__).parents[2]
DIFFERED = 5
"""Exit code of `tandemq twin run` and `status`."""
MOODS: MappingProxyType[str, Callable[[], int]] = MappingProxyType(
    {"time": time.monotonic_ns, "random": lambda: random.getrandbits(60)}
)


@pytest.mark.parametrize("mood", MOODS)
@pytest.mark.parametrize("where", ["outputs", "state"])
async def test_what_depends_on_a_mood_is_found(
    pair: Cluster, client: aio.Client, tmp_path: Path, mood: str, where: str
) -> None:
    """In outputs at the first of them, in the state alone at the next digest of it."""

    def handler(state: State, message: TwinInput) -> tuple[State, list[Output]]:
        value = MOODS[mood]()
        state["sum"] += value if where == "state" else 1
        queue = str(message.properties["to"])
        return state, [Output(queue, b"%d" % value)] if where == "outputs" else []

    async with pairing(pair, client, tmp_path) as made:
        a = made.twin("a", handler)
        run = made.start(a)
        await made.send(*range(1, 11))
        await made.reach(10, a)
        with pytest.raises(TwinsDiffer) as differed:
            await made.start(made.twin("b", handler))
        assert differed.value.number <= 10
        assert ("the states differ behind input 10" in str(differed.value)) == (where == "state")
        assert not run.done(), "the one that came first goes on"
        await made.send(11)
        await made.reach(11, a)


async def begun(cluster: Cluster, folder: Path, member: str, seed: str) -> Process:
    settings = {"--name": "words", "--inputs": "texts", "--side": cluster.endpoint(member), "--target": cluster.target}
    settings |= {"--directory": str(folder / member), "--snapshot-time": "100ms"}
    words = [word for each in settings.items() for word in each]
    command = (sys.executable, "-m", "tandemq", "twin", "run", "tests.support.twin_by_hash", *words)
    env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": str(ROOT)}
    return await asyncio.create_subprocess_exec(*command, cwd=ROOT, env=env, stdout=PIPE, stderr=PIPE)


async def test_the_order_of_a_set_is_found_between_two_processes(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    text = " ".join(f"word{number}" for number in range(50))
    await client.create_queue("texts", admin.QueueConfig(replication=admin.REPLICATION_PRODUCER))
    await client.create_queue("words")
    await client.enqueue("texts", [text.encode()])
    first = await begun(pair, tmp_path, "a", "1")
    try:

        async def is_sent() -> bool:
            return (await client.get_queue("words")).length == 50

        await until(is_sent, "the first one's words")
        second = await begun(pair, tmp_path, "b", "2")
        _, said = await second.communicate()
        assert second.returncode == DIFFERED, said.decode()
        assert "DIVERGENCE" in said.decode()
        assert (await client.get_queue("words")).length == 50, "what entered first counts"
        assert first.returncode is None
    finally:
        first.terminate()
        await first.communicate()
