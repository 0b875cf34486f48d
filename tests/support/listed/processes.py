"""A pair of real processes as the steps see one: members and a witness of `chaos.cluster`, asked over gRPC."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Callable, Coroutine, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar

import grpc.aio
from google.protobuf.message import Message as Proto

from chaos.cluster import READY_DEADLINE_S, Cluster, ClusterError
from tandemq import retry
from tandemq.cli.view import PairView
from tandemq.client.calls import ADMIN_SERVICE, Caller
from tandemq.client.members import Members
from tandemq.errors import NotFound
from tandemq.v1 import pair_service_pb2 as pair
from tandemq.v1 import pair_service_pb2_grpc
from tandemq.v1.queue_admin_service_pb2 import GetQueueRequest, GetQueueResponse, QueueInfo
from tests.support.clusters import quick
from tests.support.listed.steps import Fault
from tests.support.until import OUTER_S

POLICY = retry.Policy(total_s=30.0, attempt_s=2.0)
POLL_S = 0.05
HANDOFF_S = 5.0
Result = TypeVar("Result")


class Processes:
    """See Driver. What strikes does so while a call is waited for, or time is."""

    calm_ms, struck_ms, late_ms = 3_000, 25_000, int(OUTER_S * 1000)

    def __init__(self, cluster: Cluster, runner: asyncio.Runner) -> None:
        self.cluster = cluster
        self.runner = runner
        self.callers: dict[str, Caller] = {}
        self.struck: list[asyncio.Task[None]] = []
        self.locks = {name: asyncio.Lock() for name in cluster.members}
        self.master = cluster.members[0]
        """When the pair was whole last."""

    def wait(self, work: Coroutine[Any, Any, Result]) -> Result:
        return self.runner.run(work)

    async def connect(self) -> None:
        for first in self.cluster.members:
            names = sorted(self.cluster.members, key=lambda name: name != first)
            endpoints = tuple(self.cluster.endpoint(name) for name in names)
            self.callers[first] = Caller(Members(endpoints, follow_master=False), POLICY)
        await self._whole()

    async def disconnect(self) -> None:
        for task in self.struck:
            task.cancel()
        for caller in self.callers.values():
            await caller.members.close()

    def now_ms(self) -> float:
        """See Driver."""
        return time.time() * 1000

    def ask(self, via: str, path: str, request: Proto, reply: type[Proto]) -> Proto:
        """See Driver."""
        return self.wait(self.callers[via].call(path, request, reply))

    # -- what strikes --------------------------------------------------------------------------------------------------

    def strike(self, fault: Fault) -> None:
        """See Driver."""

        async def begin() -> None:
            self.struck.append(asyncio.create_task(self._strike(fault)))

        self.wait(begin())

    async def _strike(self, fault: Fault) -> None:
        cluster = self.cluster
        replica = next(name for name in cluster.members if name != self.master)
        await asyncio.sleep(fault.after_us / 1e6)
        what, _, role = fault.kind.partition(" ")
        name = self.master if role == "master" else replica
        if what == "cut":
            cluster.network.cut(self.master, replica)
            await asyncio.sleep(fault.for_ms / 1000)
            cluster.network.heal()
        elif what == "hand":
            await self._hand_over()
        else:
            async with self.locks[name]:  # one who is being started is not struck again
                await self._strike_one(what, name, fault.for_ms / 1000)

    async def _strike_one(self, what: str, name: str, for_s: float) -> None:
        cluster = self.cluster
        if what == "pause":
            cluster.pause(name)
            await asyncio.sleep(for_s)
            cluster.resume(name)
        elif cluster.children[name].running:
            cluster.kill(name, signal.SIGKILL if what == "kill" else signal.SIGTERM)
            await asyncio.sleep(for_s)
            await cluster.restart(name)

    async def _hand_over(self) -> None:
        async with grpc.aio.insecure_channel(self.cluster.endpoint(self.master)) as channel:
            stub = pair_service_pb2_grpc.PairServiceStub(channel)
            with contextlib.suppress(grpc.aio.AioRpcError):
                await stub.Handoff(pair.HandoffRequest(reason="a step"), timeout=HANDOFF_S)

    def calm(self) -> None:
        """See Driver."""
        self.wait(self._calm())

    async def _calm(self) -> None:
        # Each heals what it has hurt; one of two may have met a member that the other one had ended.
        await asyncio.gather(*self.struck)
        self.struck.clear()
        await self._whole()

    async def _whole(self) -> None:
        try:
            view = await self.cluster.wait_for(PairView.equal, "a master and a replica in sync, with equal copies")
        except ClusterError as error:
            view = await self.cluster.status()
            told = "; ".join(f"{member.name} {member.domain('main')}" for member in view.members)
            raise AssertionError(f"{error}\n{told}") from error
        (self.master,) = view.masters()

    # -- time ----------------------------------------------------------------------------------------------------------

    def pass_to(self, now_ms: float) -> None:
        """See Driver."""
        self.wait(asyncio.sleep(max(0.0, now_ms - self.now_ms()) / 1000))

    def wait_for(self, holds: Callable[[], bool], within_ms: float) -> bool:
        """See Driver."""
        until_ms = self.now_ms() + within_ms
        while not holds():
            if self.now_ms() >= until_ms:
                return False
            self.wait(asyncio.sleep(POLL_S))
        return True

    def look(self, names: Sequence[str]) -> dict[str, QueueInfo]:
        """See Driver."""
        return {name: info for name in names if (info := self.wait(self._info(name))) is not None}

    async def _info(self, name: str) -> QueueInfo | None:
        caller = self.callers[self.master]
        try:
            return (await caller.call(ADMIN_SERVICE + "GetQueue", GetQueueRequest(name=name), GetQueueResponse)).queue
        except NotFound:
            return None


@contextlib.contextmanager
def processes(data_dir: Path) -> Iterator[Processes]:
    """A pair that is whole, and a witness."""
    cluster = quick(data_dir, relayed=True)
    with asyncio.Runner() as runner:
        driver = Processes(cluster, runner)
        runner.run(cluster.start(READY_DEADLINE_S))
        try:
            runner.run(driver.connect())
            yield driver
        finally:
            runner.run(driver.disconnect())
            runner.run(cluster.stop())
