"""Loads the floor with the same frames and the same number of them under way as load.py gives the product."""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from collections import deque
from typing import Any

import grpc.aio
from loops import run
from machine import Window
from wire import CONSUME, ECHO, NUMBER, OPTIONS, PRODUCE

from tandemq.v1 import queue_service_pb2


def frame_of(spec: dict[str, Any]) -> bytes:
    """What the SDK would send, serialised once and for all."""
    request = queue_service_pb2.ProduceRequest()
    request.batch.queue = "bench"
    request.batch.first_sequence = 1 << 20
    request.batch.messages.payloads.extend(os.urandom(spec["size"]) for _ in range(spec["frame"]))
    return request.SerializeToString()


async def enqueue(spec: dict[str, Any], channel: grpc.aio.Channel, window: Window, backlog: Backlog) -> None:
    call: Any = channel.stream_stream(PRODUCE)()
    frame, room, sent = frame_of(spec), asyncio.Semaphore(spec["window"]), deque[float]()

    async def answers() -> None:
        while isinstance(answer := await call.read(), bytes):
            now = time.perf_counter()
            for _ in range(NUMBER.unpack(answer)[0]):
                took = now - sent.popleft()
                if not backlog.limit:
                    window.answered(spec["frame"], took)
                room.release()

    reading = asyncio.create_task(answers())
    while not window.over:
        await room.acquire()
        await backlog.wait()
        sent.append(time.perf_counter())
        backlog.under_way += 1
        await call.write(frame)
    while sent:
        await room.acquire()
    await call.done_writing()
    await reading


class Backlog:
    """Keeps producers from outrunning consumers; in frames."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.under_way = 0
        self._room = asyncio.Event()

    async def wait(self) -> None:
        while self.limit and self.under_way >= self.limit:
            self._room.clear()
            await self._room.wait()

    def done(self, count: int) -> None:
        self.under_way -= count
        self._room.set()


async def consume(spec: dict[str, Any], channel: grpc.aio.Channel, window: Window, backlog: Backlog) -> None:
    call: Any = channel.stream_stream(CONSUME)()
    await call.write(NUMBER.pack(spec["credit"] // spec["frame"]))
    owed, wake = 0, asyncio.Event()

    async def settle() -> None:
        nonlocal owed
        while True:
            await wake.wait()
            wake.clear()
            count, owed = owed, 0
            await call.write(NUMBER.pack(count))

    settling = asyncio.create_task(settle())
    while isinstance(frame := await call.read(), bytes):
        if len(frame) == NUMBER.size:
            continue  # a settlement is durable on both
        payloads = queue_service_pb2.ProduceRequest.FromString(frame).batch.messages.payloads
        assert len(payloads) == spec["frame"]
        owed += 1
        wake.set()
        backlog.done(1)
        window.answered(len(payloads), 0.0)
    settling.cancel()


async def round_trips(spec: dict[str, Any], channel: grpc.aio.Channel) -> dict[str, Any]:
    """A frame there and back on an open stream, one at a time."""
    call: Any = channel.stream_stream(ECHO)()
    frame, took = os.urandom(spec["size"]), list[float]()
    until = time.perf_counter() + spec["warm_s"] + spec["seconds"]
    while (began := time.perf_counter()) < until:
        await call.write(frame)
        await call.read()
        took.append(time.perf_counter() - began)
    took = took[len(took) // 5 :]
    took.sort()
    return {"value": round(took[len(took) // 2] * 1e6, 1)}


async def main() -> None:
    spec = json.loads(sys.argv[1])
    channel = grpc.aio.insecure_channel(f"127.0.0.1:{spec['port']}", options=OPTIONS)
    if spec["kind"] == "echo":
        result = await round_trips(spec, channel)
    else:
        window = Window(spec)
        backlog = Backlog(spec["backlog"] // spec["frame"] if spec["kind"] == "flow" else 0)
        tasks = []
        if spec["kind"] == "flow":
            tasks.append(asyncio.create_task(consume(spec, channel, window, backlog)))
            await asyncio.sleep(0.2)
        tasks.append(asyncio.create_task(enqueue(spec, channel, window, backlog)))
        result = await window.measure()
        await tasks.pop()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    print(json.dumps(result), flush=True)
    await channel.close()


if __name__ == "__main__":
    run(main())
