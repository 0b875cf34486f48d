"""Kill after kill, handoff after handoff, and all mixed, under load: nothing lost, doubled or reordered, one master.

What is seen is judged by every checker (chaos/checker.py). Short series are part of `make test`; twenty in a row are
long: `make failover`.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from functools import partial
from pathlib import Path

import grpc.aio
import pytest

from chaos import nemesis
from chaos.cluster import Cluster
from chaos.history import Handed
from chaos.workload import Workload
from tandemq.v1 import pair_service_pb2 as pb
from tests.integration.matrix import under_load
from tests.integration.support import raw_to, roles
from tests.support.clusters import patient, quick
from tests.support.starvation import Stopwatch
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

SHORT = [pytest.param(3)]
LONG = [pytest.param(20, marks=[pytest.mark.long, pytest.mark.timeout(400)])]


async def hand_over(cluster: Cluster, load: Workload, asked: str) -> pb.HandoffResponse:
    """Orders a handoff at one member and writes down how it was answered."""
    asked_s = load.now_s
    async with raw_to(cluster.endpoint(asked)) as [member]:
        reply = await member.pair.Handoff(pb.HandoffRequest(reason="test"), timeout=OUTER_S)
    load.history.handed.append(
        Handed(asked_s, load.now_s, reply.handoff_id, reply.done, reply.master, reply.epoch, tuple(reply.reasons))
    )
    return reply


async def _is_done(cluster: Cluster, load: Workload, asked: str) -> bool:
    """A replica that asks right after a handoff is told to wait; any other refusal is a failure."""
    reply = await hand_over(cluster, load, asked)
    assert reply.done or set(reply.reasons) <= {"COOLDOWN"}, f"{list(reply.reasons)}: {reply.text}"
    return reply.done


def epochs_served(load: Workload) -> set[int]:
    return {ack.epoch for ack in load.history.acked}


@pytest.mark.clock
@pytest.mark.parametrize("kills", SHORT + LONG)
async def test_kills_in_a_row(tmp_path: Path, kills: int) -> None:
    async with quick(tmp_path).running() as cluster, under_load(cluster) as load:
        for _ in range(kills):
            with Stopwatch() as watch:
                master, _ = await roles(cluster)
                await load.goes_on(20)
                cluster.kill(master)
                await load.goes_on(20)
                await cluster.restart(master)
                await cluster.wait_ready()
            watch.judge("the longest pause", 3.0, load.longest_pause_s)
    assert len(epochs_served(load)) >= kills + 1


@pytest.mark.clock
@pytest.mark.parametrize("handoffs", SHORT + LONG)
async def test_handoffs_in_a_row(tmp_path: Path, handoffs: int) -> None:
    """Asked of the master and of the replica in turn. No epoch but those that were handed over: no copy, no claim."""
    async with patient(tmp_path).running() as cluster, under_load(cluster) as load:
        for number in range(handoffs):
            with Stopwatch() as watch:
                master, replica = await roles(cluster)
                await load.goes_on(20)
                asked = master if number % 2 else replica
                await until(partial(_is_done, cluster, load, asked), f"handoff {number + 1}, asked of {asked}")
                assert load.history.handed[-1].master == replica
                await load.goes_on(20)
            watch.judge("the longest pause", 1.0, load.longest_pause_s)
        assert await roles(cluster) == (("b", "a") if handoffs % 2 else ("a", "b"))
    assert epochs_served(load) == set(range(1, handoffs + 2))


@pytest.mark.promise
@pytest.mark.parametrize(
    ("seed", "faults"),
    [
        pytest.param(1, 4),
        *(pytest.param(seed, 20, marks=[pytest.mark.long, pytest.mark.timeout(400)]) for seed in (2, 3, 4)),
    ],
)
async def test_faults_of_every_kind_in_a_row(tmp_path: Path, seed: int, faults: int) -> None:
    """Kills, pauses, handoffs and cuts of either member, drawn from a seed."""
    draw = random.Random(seed)
    async with quick(tmp_path, relayed=True).running() as cluster, under_load(cluster) as load:
        for _ in range(faults):
            name, other = draw.sample(["a", "b"], 2)
            kind = draw.choice(["kill", "both", "pause", "handoff", "cut", "isolate", "one way", "witness"])
            await _hurt(cluster, load, kind, name, other)
            await cluster.wait_ready()
            await load.goes_on(20)


async def _hurt(cluster: Cluster, load: Workload, kind: str, name: str, other: str) -> None:
    match kind:
        case "kill":
            await nemesis.kill(cluster, name)
            await load.goes_on(20)
            await cluster.restart(name)
        case "both":
            await nemesis.kill(cluster, name, other)
            await cluster.restart(name)
            await cluster.restart(other)
        case "pause":
            cluster.pause(name)
            await load.goes_on(20)
            cluster.resume(name)
        case "handoff":
            await hand_over(cluster, load, name)
        case "cut" | "isolate" | "one way":
            if kind == "cut":
                cluster.network.cut(name, other)
            elif kind == "isolate":
                cluster.network.isolate(name)
            else:
                cluster.network.lose(name, other)
            await load.goes_on(20)
            cluster.network.heal()
        case "witness":
            await nemesis.kill(cluster, "witness")
            await load.goes_on(20)
            cluster.spawn("witness")
            await cluster.wait_answers("witness")


@pytest.mark.promise
async def test_a_crash_in_the_middle_of_a_handoff(tmp_path: Path) -> None:
    """Either member dies a few milliseconds after the order, so at any step of it: never two masters, nothing lost."""
    draw = random.Random(5)
    async with quick(tmp_path).running() as cluster, under_load(cluster) as load:
        for number in range(8):
            master, replica = await roles(cluster)
            order = asyncio.create_task(hand_over(cluster, load, master))
            await asyncio.sleep(draw.uniform(0.001, 0.012))
            await nemesis.kill(cluster, victim := (master, replica)[number % 2])
            with contextlib.suppress(grpc.aio.AioRpcError):  # it died with the answer
                await order
            await load.goes_on(20)
            await cluster.restart(victim)
            await cluster.wait_ready()
