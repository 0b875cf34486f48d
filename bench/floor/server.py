"""The least that two processes must do: commit each frame here, commit it there, answer when both have. No queue logic.

`server.py --data-dir D` is the second process; `--peer PORT` makes it the first one, which forwards to the second.
Same stack as the product: grpc.aio bidi streams, bytes passed through, one LMDB record a frame, one writer thread,
group commit, one frame a group towards the peer.

Example: python bench/floor/server.py --data-dir /tmp/b, which prints a port; then --data-dir /tmp/a --peer PORT.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import sys
from collections import deque
from collections.abc import AsyncIterator, Coroutine, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import lmdb
from loops import run
from wire import CONSUME, ECHO, NUMBER, OPTIONS, PRODUCE, REPLICATE, pack, unpack

GROUP_BYTES_MAX = 2 << 20
GROUPS_UNANSWERED_MAX = 2
STOP_S = 5.0
GONE = (grpc.aio.BaseError, grpc.aio.UsageError, asyncio.InvalidStateError)  # what a write raises whose reader has gone


class Store:
    """Frames under rising ids, each commit synced."""

    def __init__(self, directory: Path) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._env = lmdb.open(str(directory), map_size=64 << 30)
        self._next = 1

    def commit(self, records: Sequence[bytes | memoryview]) -> None:
        items = [(NUMBER.pack(self._next + place), record) for place, record in enumerate(records)]
        with self._env.begin(write=True) as txn:
            done = txn.cursor().putmulti(items, append=True)
        assert done == (len(items), len(items)), "a record was not appended"
        self._next += len(items)


class Log:
    """What arrived, how far it is durable here and there, and who wants to know."""

    def __init__(self, store: Store, *, paired: bool) -> None:
        self._store = store
        self._pool = ThreadPoolExecutor(1)
        self._to_commit: list[bytes | memoryview] = []
        self.to_forward: deque[bytes] = deque()
        self._paired = paired
        self.last = self.durable = self.peer_durable = 0
        self._wake = asyncio.Event()
        self.forward_wake = asyncio.Event()
        self.listeners: set[asyncio.Event] = set()

    def append(self, record: bytes) -> int:
        self.last += 1
        self._to_commit.append(record)
        self._wake.set()
        if self._paired:
            self.to_forward.append(record)
            self.forward_wake.set()
        return self.last

    def extend(self, records: list[memoryview]) -> None:
        self.last += len(records)
        self._to_commit.extend(records)
        self._wake.set()

    @property
    def committed(self) -> int:
        return min(self.durable, self.peer_durable) if self._paired else self.durable

    def tell(self) -> None:
        for listener in self.listeners:
            listener.set()

    async def write(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            await self._wake.wait()
            self._wake.clear()
            group, self._to_commit = self._to_commit, []
            await loop.run_in_executor(self._pool, self._store.commit, group)
            self.durable += len(group)
            self.tell()

    async def forward(self, peer: int) -> None:
        channel = grpc.aio.insecure_channel(f"127.0.0.1:{peer}", options=OPTIONS)
        call: Any = channel.stream_stream(REPLICATE)()
        room = asyncio.Semaphore(GROUPS_UNANSWERED_MAX)
        sizes: deque[int] = deque()

        async def acknowledged() -> None:
            while True:
                (self.peer_durable,) = NUMBER.unpack(await call.read())
                while sizes and sizes[0] <= self.peer_durable:
                    sizes.popleft()
                    room.release()
                self.tell()

        reading = watched(acknowledged())
        sent = 0
        while not reading.done():
            await self.forward_wake.wait()
            await room.acquire()
            self.forward_wake.clear()
            group, size = [], 0
            while self.to_forward and size < GROUP_BYTES_MAX:
                group.append(self.to_forward.popleft())
                size += len(group[-1])
            if self.to_forward:
                self.forward_wake.set()
            sent += len(group)
            sizes.append(sent)
            await call.write(pack(group))


@asynccontextmanager
async def beside(work: Coroutine[Any, Any, None], log: Log, wake: asyncio.Event) -> AsyncIterator[None]:
    """What a stream writes while it is read; ends with it. A client goes when it has measured enough, which is no
    failure of the floor.
    """
    log.listeners.add(wake)
    writing = asyncio.create_task(work)
    try:
        yield
    finally:
        log.listeners.discard(wake)
        writing.cancel()
        with suppress(asyncio.CancelledError, *GONE):
            await writing


class Handlers(grpc.GenericRpcHandler):
    """The streams; frames are bytes."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._delivery: deque[tuple[int, bytes]] | None = None

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        handler = {PRODUCE: self.produce, CONSUME: self.consume, REPLICATE: self.replicate, ECHO: self.echo}
        return grpc.stream_stream_rpc_method_handler(handler[handler_call_details.method])

    async def echo(self, _: Any, context: Any) -> None:
        with suppress(*GONE):
            while isinstance(frame := await context.read(), bytes):
                await context.write(frame)

    async def produce(self, _: Any, context: Any) -> None:
        log, waiting, wake = self._log, deque[int](), asyncio.Event()

        async def answer() -> None:
            while True:
                await wake.wait()
                wake.clear()
                done = 0
                while waiting and waiting[0] <= log.committed:
                    waiting.popleft()
                    done += 1
                if done:
                    await context.write(NUMBER.pack(done))

        async with beside(answer(), log, wake):
            while isinstance(frame := await context.read(), bytes):
                waiting.append(log.append(frame))
                if self._delivery is not None:
                    self._delivery.append((log.last, frame))

    async def consume(self, _: Any, context: Any) -> None:
        """The first frame is the window; then each one says how many more are settled, committed too."""
        log, wake = self._log, asyncio.Event()
        delivery = self._delivery = deque()
        (room,) = NUMBER.unpack(await context.read())
        settles: deque[tuple[int, int]] = deque()

        async def send() -> None:
            nonlocal room
            while True:
                await wake.wait()
                wake.clear()
                settled = 0
                while settles and settles[0][0] <= log.committed:
                    settled += settles.popleft()[1]
                if settled:
                    await context.write(NUMBER.pack(settled))
                while room and delivery and delivery[0][0] <= log.committed:
                    room -= 1
                    await context.write(delivery.popleft()[1])

        try:
            async with beside(send(), log, wake):
                while isinstance(frame := await context.read(), bytes):
                    (count,) = NUMBER.unpack(frame)
                    room += count
                    settles.append((log.append(frame), count))
                    wake.set()
        finally:
            self._delivery = None

    async def replicate(self, _: Any, context: Any) -> None:
        log, wake, told = self._log, asyncio.Event(), 0

        async def answer() -> None:
            nonlocal told
            while True:
                await wake.wait()
                wake.clear()
                if log.durable > told:
                    told = log.durable
                    await context.write(NUMBER.pack(told))

        async with beside(answer(), log, wake):
            while isinstance(frame := await context.read(), bytes):
                log.extend(unpack(frame))


def watched(work: Any) -> asyncio.Task[None]:
    """A task whose failure ends the process: a floor that hangs silently measures nothing."""

    def ended(task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            print(f"floor: {task.exception()!r}", file=sys.stderr, flush=True)
            os._exit(1)

    task: asyncio.Task[None] = asyncio.get_running_loop().create_task(work)
    task.add_done_callback(ended)
    return task


async def serve(directory: Path, peer: int | None) -> None:
    log = Log(Store(directory), paired=peer is not None)
    watched(log.write())
    if peer is not None:
        watched(log.forward(peer))
    server = grpc.aio.server(options=OPTIONS)
    server.add_generic_rpc_handlers([Handlers(log)])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    print(port, flush=True)
    await asyncio.get_running_loop().run_in_executor(None, sys.stdin.read)  # until whoever started this goes
    # Whoever measured has gone, and the streams end by themselves: gRPC prints a stack for some that are cancelled.
    await server.stop(STOP_S)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-dir", type=Path, required=True)
    parser.add_argument("--peer", type=int)
    given = parser.parse_args()
    run(serve(given.data_dir, given.peer))


if __name__ == "__main__":
    main()
