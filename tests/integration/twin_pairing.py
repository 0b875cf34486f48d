"""Twins that add numbers, at a real pair: what the tests of twins share."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.twin import Output, Twin, TwinEnd, TwinInput, TwinOptions
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.integration.support import new_name
from tests.support.until import until

PRODUCER = admin.QueueConfig(replication=admin.REPLICATION_PRODUCER)
State = dict[str, int]


def summing(state: State, message: TwinInput) -> tuple[State, list[Output]]:
    """Every number is added, and an even one sends the sum."""
    number = int(message.payload)
    state["sum"] += number
    queue = message.properties.get("to", "")
    made = [Output(str(queue), b"%d %d" % (message.index, state["sum"]))] if number % 2 == 0 else []
    return state, made


def differing_at(index: int) -> Any:
    """The same, but once."""

    def handler(state: State, message: TwinInput) -> tuple[State, list[Output]]:
        state, made = summing(state, message)
        if message.index == index:
            state["sum"] += 1
            made = [Output(queue, payload + b"!") for queue, payload, _ in made]
        return state, made

    return handler


class Pairing:
    """A queue of inputs, one of outputs, and twins of it."""

    def __init__(self, cluster: Cluster, client: aio.Client, folder: Path) -> None:
        self.cluster, self.client, self.folder = cluster, client, folder
        self.name, self.inputs, self.outputs = new_name(), new_name(), new_name()
        self.runs: list[asyncio.Task[TwinEnd]] = []

    async def make(self) -> None:
        await self.client.create_queue(self.inputs, PRODUCER)
        await self.client.create_queue(self.outputs)

    def options(self, member: str, **settings: Any) -> TwinOptions:
        options = TwinOptions(
            self.inputs,
            self.cluster.endpoint(member),
            self.folder / member,
            self.cluster.target,
            mark_every=10,
            snapshot_s=0.02,
        )
        return replace(options, **settings)

    def twin(self, member: str, handler: Any = summing, **settings: Any) -> Twin[State]:
        return Twin(self.name, handler, self.options(member, **settings), initial=lambda: {"sum": 0})

    def start(self, twin: Twin[State]) -> asyncio.Task[TwinEnd]:
        task = asyncio.create_task(twin.run())
        self.runs.append(task)
        return task

    async def send(self, *numbers: int) -> None:
        made = [aio.Outgoing(b"%d" % number, {"properties": {"to": self.outputs}}) for number in numbers]
        await self.client.enqueue(self.inputs, made)

    async def sent(self) -> list[bytes]:
        return [message.payload async for message in self.client.browse(self.outputs)]

    async def reach(self, index: int, *twins: Twin[State]) -> None:
        await until(lambda: all(twin.index >= index for twin in twins), f"input {index}")

    async def settled(self) -> None:
        async def is_empty() -> bool:
            return (await self.client.get_queue(self.inputs)).length == 0

        await until(is_empty, "both have settled all inputs")

    async def close(self) -> None:
        for task in self.runs:
            task.cancel()
        await asyncio.gather(*self.runs, return_exceptions=True)


@contextlib.asynccontextmanager
async def pairing(cluster: Cluster, client: aio.Client, folder: Path) -> AsyncIterator[Pairing]:
    made = Pairing(cluster, client, folder)
    await made.make()
    try:
        yield made
    finally:
        await made.close()


def sums(*numbers: int) -> list[bytes]:
    """What comes of them, in order."""
    total, found = 0, []
    for index, number in enumerate(numbers, 1):
        total += number
        if number % 2 == 0:
            found.append(b"%d %d" % (index, total))
    return found
