"""The load of one point: `python -m bench.growth.load '{"target": ...}'`, which then obeys lines of JSON on stdin.

    {"do": "fill"}             makes the queues, sends through them what is to have gone before, leaves them filled
    {"do": "turn"}             sends a turn's messages, and receives and acknowledges as many; the depth stays
    {"do": "drain"}            receives the rest; tells what was lost, doubled or damaged of all that was ever sent

Each is answered by one line. Every payload has a number and is compared byte for byte where it is received.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from datetime import timedelta
from typing import Any

from bench.growth.meter import Meter, cpu_us
from bench.growth.plan import CALLS_FILL, Point
from bench.loops import run
from bench.peers.payloads import Ledger, Payloads
from tandemq import aio
from tandemq.v1.queue_admin_service_pb2 import QueueConfig

CREDIT_BYTES = 64 << 20
LEASE = timedelta(hours=1)  # what a consumer was given stays with it while others have their turns
PATIENCE_S = 20.0
FILL_FRAME, FILL_UNANSWERED = 500, 10
CALLERS, MAKERS = 16, 64
NO_LIMIT = QueueConfig(max_length=1 << 40, max_bytes=1 << 50)


class Work(ABC):
    """One way to use a pair; numbers its messages from 0."""

    def __init__(self, spec: dict[str, Any], point: Point) -> None:
        self.spec, self.point = spec, point
        self.payloads = Payloads(point.size, spec["seed"])
        self.ledger = Ledger(self.payloads)
        self.sent = 0

    def client(self) -> aio.Client:
        return aio.connect(self.spec["target"], timeout=60, follow_master=self.point.through == "master")

    def next(self, count: int) -> tuple[int, list[bytes]]:
        """The number of the first, and the payloads; they count as sent."""
        first = self.sent
        self.sent += count
        return first, self.payloads.make(first, count)

    @abstractmethod
    async def fill(self) -> None: ...

    @abstractmethod
    async def turn(self, count: int) -> None: ...

    @abstractmethod
    async def drain(self) -> None: ...

    @abstractmethod
    async def close(self) -> None: ...


class Streams(Work):
    """Producers and consumers of one queue, each with a connection and a stream."""

    queue = "growth"

    async def fill(self) -> None:
        point, count = self.point, self.point.producers
        self._clients = [self.client() for _ in range(2 * count)]
        await self._clients[0].create_queue(self.queue, NO_LIMIT)
        self._target = 0  # how many are to be received so far
        self._more, self._came = asyncio.Event(), asyncio.Event()
        self._consumers = [
            client.consumer(
                self.queue,
                credit_messages=max(point.batch, point.backlog // count),
                credit_bytes=CREDIT_BYTES,
                lease=LEASE,
            )
            for client in self._clients[count:]
        ]
        self._receiving = [asyncio.create_task(self._receive(consumer)) for consumer in self._consumers]
        await self._make_others()
        frame = max(1, min(FILL_FRAME, (1 << 20) // point.size))
        async with self._clients[0].producer(
            self.queue, min_copies=2, max_batch_messages=frame, max_unanswered_batches=FILL_UNANSWERED
        ) as producer:
            await self._pass(point.before, [producer], frame, FILL_UNANSWERED)
            await self._send(point.depth, [producer], frame, FILL_UNANSWERED, lambda: True)
        self._lanes = max(1, point.unanswered // point.batch // count)
        self._producers = [
            client.producer(
                self.queue,
                min_copies=2,
                max_batch_messages=point.batch,
                max_batch_bytes=max(1 << 20, point.size + 1024),
                max_unanswered_batches=self._lanes,
            )
            for client in self._clients[:count]
        ]

    async def _make_others(self) -> None:
        self._others = self.point.queues - 1
        numbers = iter(range(self._others))

        async def maker() -> None:
            for number in numbers:
                await self._clients[0].create_queue(f"other/{number}", NO_LIMIT)
                await self._clients[0].enqueue(f"other/{number}", self.next(1)[1], min_copies=2)

        await asyncio.gather(*(maker() for _ in range(MAKERS)))

    async def _take_others(self) -> None:
        numbers = iter(range(self._others))

        async def taker() -> None:
            for number in numbers:
                got = await self._clients[0].dequeue(f"other/{number}", 2, mode="immediate")
                self.ledger.take(got.payloads)

        await asyncio.gather(*(taker() for _ in range(CALLERS)))

    async def turn(self, count: int) -> None:
        await self._pass(count, self._producers, self.point.batch, self._lanes)

    async def _pass(self, count: int, producers: list[aio.Producer], batch: int, lanes: int) -> None:
        """Sends so many, receives as many; what was received beyond that counts for the next time."""
        first, already = self.sent, self._target
        self._target += count
        self._more.set()

        def has_room() -> bool:
            return (self.sent - first) - (self.ledger.received - already) < self.point.backlog

        await self._send(count, producers, batch, lanes, has_room)
        await self._received(self._target)

    async def _send(
        self, count: int, producers: list[aio.Producer], batch: int, lanes: int, has_room: Callable[[], bool]
    ) -> None:
        until = self.sent + count

        async def lane(producer: aio.Producer) -> None:
            while self.sent < until:
                if not has_room():
                    self._came.clear()
                    await self._came.wait()
                    continue
                _, payloads = self.next(min(batch, until - self.sent))
                receipts = await producer.send_many(payloads)
                assert all(run.copies == 2 for run in receipts.runs), "acknowledged on one copy"

        async with asyncio.TaskGroup() as group:
            for _ in range(lanes):
                for producer in producers:
                    group.create_task(lane(producer))

    async def _receive(self, consumer: aio.Consumer) -> None:
        async for batch in consumer.batches():
            self.ledger.take(batch.payloads)
            batch.ack()
            self._came.set()
            while self.ledger.received >= self._target:
                self._more.clear()
                await self._more.wait()

    async def _received(self, count: int) -> None:
        """Until so many have come and are acknowledged, or nothing comes any more, which the account then tells."""
        while self.ledger.received < count:
            self._came.clear()
            for task in self._receiving:
                if task.done():
                    task.result()
            try:
                async with asyncio.timeout(PATIENCE_S):
                    await self._came.wait()
            except TimeoutError:
                return
        for consumer in self._consumers:
            await consumer.settled()

    async def drain(self) -> None:
        self._target = self.sent - self._others
        self._more.set()
        await self._received(self._target)
        await self._take_others()
        lost = sum(consumer.lost for consumer in self._consumers)
        assert lost == 0, f"{lost} settlements were refused"

    async def close(self) -> None:
        self._target = 1 << 62
        self._more.set()
        await asyncio.gather(*(client.close() for client in self._clients))
        await asyncio.gather(*self._receiving)


class Calls(Work):
    """Unary calls that visit the queues in turns: what a queue costs, without what a stream costs."""

    async def fill(self) -> None:
        self._client = self.client()
        self._visits = 0
        numbers = iter(range(self.point.queues))

        async def maker() -> None:
            for number in numbers:
                await self._client.create_queue(f"growth/{number}", NO_LIMIT)

        await asyncio.gather(*(maker() for _ in range(MAKERS)))
        self._filling = self.point.depth // CALLS_FILL * CALLS_FILL
        await self._visit(self._filling, CALLS_FILL, self._enqueue)

    def _queue_of(self, number: int) -> str:
        """That a message was sent to, by its number."""
        visit = number // CALLS_FILL if number < self._filling else (number - self._filling) // self.point.batch
        return f"growth/{visit % self.point.queues}"

    async def _enqueue(self, batch: int) -> str:
        first, payloads = self.next(batch)
        queue = self._queue_of(first)
        receipts = await self._client.enqueue(queue, payloads, min_copies=2)
        assert all(run.copies == 2 for run in receipts.runs), "acknowledged on one copy"
        return queue

    async def _and_take(self, batch: int) -> str:
        queue = await self._enqueue(batch)
        got = await self._client.dequeue(queue, batch, lease=LEASE)
        self._take(queue, list(got.payloads))
        await got.ack()
        return queue

    def _take(self, queue: str, payloads: list[bytes]) -> None:
        for payload in payloads:
            number = self.payloads.number_of(payload)
            assert number is None or self._queue_of(number) == queue, f"{number} came from {queue}"
        self.ledger.take(payloads)

    async def _visit(self, count: int, batch: int, visit: Callable[[int], Any]) -> None:
        left = iter(range(count // batch))

        async def caller() -> None:
            for _ in left:
                await visit(batch)

        await asyncio.gather(*(caller() for _ in range(CALLERS)))

    async def turn(self, count: int) -> None:
        await self._visit(count, self.point.batch, self._and_take)

    async def drain(self) -> None:
        numbers = iter(range(self.point.queues))

        async def taker() -> None:
            for number in numbers:
                queue = f"growth/{number}"
                while got := await self._client.dequeue(queue, 1000, mode="immediate"):
                    self._take(queue, list(got.payloads))

        await asyncio.gather(*(taker() for _ in range(CALLERS)))

    async def close(self) -> None:
        await self._client.close()


async def measured(work: Work, meter: Meter) -> dict[str, Any]:
    """One turn: microseconds of processor time by role, and of time, for each message."""
    count = work.point.turn // work.point.batch * work.point.batch
    before, mine, began = meter.read(), cpu_us(os.getpid()), time.perf_counter()
    await work.turn(count)
    seconds, client = time.perf_counter() - began, cpu_us(os.getpid()) - mine
    rest_s = await meter.rest()
    used = {role: after - before[role] for role, after in meter.read().items()}
    return {
        "messages": count,
        "seconds": round(seconds, 4),
        "rest_s": round(rest_s, 3),
        "used_us": {**{role: round(took, 1) for role, took in used.items()}, "client": round(client, 1)},
    }


async def main() -> None:
    spec = json.loads(sys.argv[1])
    point = Point(**spec["point"])
    work = (Calls if point.calls else Streams)(spec, point)
    meter = Meter(spec["pids"])
    loop = asyncio.get_running_loop()
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        match json.loads(line)["do"]:
            case "fill":
                await work.fill()
                result: dict[str, Any] = {"sent": work.sent, "rest_s": await meter.rest()}
            case "turn":
                result = await measured(work, meter)
            case "drain":
                await work.drain()
                result = {"account": work.ledger.account(work.sent)}
                await work.close()
            case other:
                raise SystemExit(f"growth: no such word: {other!r}")
        print(json.dumps(result), flush=True)


if __name__ == "__main__":
    run(main())
