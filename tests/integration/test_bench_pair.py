"""The load of `make bench` on a real pair: no figure where a message is missing, or where one member alone has it."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from bench.peers.place import ROOT
from chaos.cluster import Cluster
from tandemq import aio
from tandemq.errors import NotFound
from tests.support.clusters import patient

pytestmark = [pytest.mark.process, pytest.mark.slow]

SPEC = {"size": 100, "frame": 10, "window": 2, "tasks": 3, "credit": 100, "backlog": 100, "warm_s": 0.1, "seconds": 0.2}
KINDS = ("enqueue", "single", "latency", "flow")


class Ended(NamedTuple):
    code: int | None
    out: str
    said: str


async def load(cluster: Cluster, kind: str, queue: str, **more: float) -> Ended:
    """One process of load; whose processor time it tells is no matter here."""
    spec = {**SPEC, "kind": kind, "queue": queue, "target": cluster.target, "pids": {"master": os.getpid()}, **more}
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, str(ROOT / "bench/load.py"), json.dumps(spec)),
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'bench'}{os.pathsep}{ROOT}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    out, said = await process.communicate()
    return Ended(process.returncode, out.decode(), said.decode())


async def robbed(cluster: Cluster, kind: str, queue: str) -> Ended:
    """The same while somebody takes one message for good."""
    taking = asyncio.create_task(steal(cluster, queue))
    ended = await load(cluster, kind, queue, drain_max_s=1)
    await taking
    return ended


async def steal(cluster: Cluster, queue: str) -> None:
    """Waits for a queue, and for its first message."""
    async with aio.connect(cluster.target) as client:
        while True:
            with contextlib.suppress(NotFound):
                assert len(await client.dequeue(queue, 1, wait=60, mode="immediate")) == 1
                return


def test_a_figure_is_of_messages_that_are_there(tmp_path: Path) -> None:
    async def work() -> tuple[dict[str, Ended], dict[str, Ended]]:
        cluster = patient(tmp_path / "pair")
        async with cluster.running():
            return (
                {kind: await load(cluster, kind, kind) for kind in KINDS},
                {kind: await robbed(cluster, kind, f"robbed-{kind}") for kind in ("enqueue", "latency", "flow")},
            )

    whole, missed = asyncio.run(work())
    for ended in whole.values():
        assert (ended.code, ended.said) == (0, "")
        assert json.loads(ended.out)["value"] > 0
    short = missed.pop("flow")
    assert (short.code, short.out) == (1, "")
    assert (
        short.said.strip() == "robbed-flow: 1 messages were sent and have not come back, or are not settled, after 1 s"
    )
    for kind, ended in missed.items():
        assert (ended.code, ended.out) == (1, "")
        assert f" messages must be in the queue robbed-{kind}, and " in ended.said


def test_what_one_member_alone_has_is_no_figure(tmp_path: Path) -> None:
    async def work() -> Ended:
        cluster = patient(tmp_path / "pair")
        async with cluster.running():
            (master,) = (await cluster.wait_ready()).masters()
            cluster.kill(next(name for name in cluster.members if name != master))
            return await load(cluster, "enqueue", "alone")

    ended = asyncio.run(work())
    assert ended.code != 0
    assert ended.out == ""
    assert "NOT_ENOUGH_COPIES" in ended.said
