"""The load of one pair: `python -m bench.levers.load '{"target": ..., "off": ...}'`, which then obeys lines of JSON.

    {"name": "1,000/s", "rate": 1000, ..., "seconds": 1.5}     a turn of a `Workload`; answered by what it measured

Each turn has a queue of its own, which must hold what was sent, no more and no less, before it is deleted.
"""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from bench.levers.table import Workload, switch_off
from bench.loops import run
from bench.peers.figures import percentile
from bench.peers.pacing import Pace, lateness
from tandemq import aio
from tandemq.client.outbox import Entry, Outbox

SIZE = 1024
WARM_S = 0.2
COPIES = 2


class Frames:
    """Counts those that producers of this process write."""

    def __init__(self) -> None:
        self.count = 0
        next_frame = Outbox.next_frame

        def counted(outbox: Outbox) -> tuple[bytes | None, Entry | None]:
            found = next_frame(outbox)
            self.count += found[0] is not None
            return found

        Outbox.next_frame = counted  # type: ignore[method-assign]  # of this process alone


@dataclass(slots=True)
class Turn:
    """What is measured after the warm-up."""

    began: float
    seconds: float
    took: list[float] = field(default_factory=list)
    sent: int = 0
    """The warm-up's too: what the queue must hold."""

    @property
    def ends(self) -> float:
        return self.began + WARM_S + self.seconds

    def answered(self, count: int, asked: float) -> None:
        """So many that were due, or asked for, at that moment."""
        self.sent += count
        if asked >= self.began + WARM_S:
            self.took += [time.perf_counter() - asked] * count


async def closed(producers: list[aio.Producer], work: Workload, turn: Turn) -> None:
    """The next when the last is answered, by so many callers."""
    payloads = [bytes(SIZE)] * work.together

    async def caller(producer: aio.Producer) -> None:
        while (asked := time.perf_counter()) < turn.ends:
            if work.together == 1:
                await producer.send(payloads[0])
            else:
                await producer.send_many(payloads)
            turn.answered(work.together, asked)

    await asyncio.gather(*(caller(producers[number % len(producers)]) for number in range(work.callers)))


async def open_loop(producers: list[aio.Producer], work: Workload, turn: Turn) -> dict[str, float]:
    """Each when it is due, whatever is unanswered; how late the load itself was."""
    pace = Pace(work.rate, WARM_S, turn.seconds, turn.began)
    payload, sent = bytes(SIZE), 0
    waiting: list[asyncio.Future[Any]] = []
    loop, ready_now, over = asyncio.get_running_loop(), asyncio.Event(), threading.Event()

    def tick() -> None:
        """The loop's own timers have steps of a millisecond: with shorter ones it would never rest."""
        while not over.wait(pace.wait_s(time.perf_counter(), sent)):
            loop.call_soon_threadsafe(ready_now.set)

    def answer(due: float) -> Any:
        return lambda _: turn.answered(1, due)

    ticking = loop.run_in_executor(None, tick)
    try:
        while sent < pace.count:
            await ready_now.wait()
            ready_now.clear()
            now = time.perf_counter()
            ready = pace.ready(now, sent)
            pace.looked(now, sent, ready)
            for number in range(sent, sent + ready):
                future = producers[number % len(producers)].send_nowait(payload)
                future.add_done_callback(answer(pace.due(number)))
                waiting.append(future)
            sent += ready
    finally:
        over.set()
        await ticking
    await asyncio.gather(*waiting)
    return lateness(pace.late)


async def turn_of(clients: list[aio.Client], frames: Frames, queue: str, work: Workload, seconds: float) -> Any:
    """A turn on a queue of its own."""
    first = clients[0]
    await first.create_queue(queue)
    producers = [client.producer(queue, min_copies=COPIES) for client in clients[: work.producers]]
    await asyncio.gather(*(producer.send(bytes(SIZE)) for producer in producers))  # its stream is open
    before, turn = frames.count, Turn(time.perf_counter(), seconds)
    late = await open_loop(producers, work, turn) if work.rate else await closed(producers, work, turn)
    took_s, written = time.perf_counter() - turn.began, frames.count - before
    await asyncio.gather(*(producer.close() for producer in producers))
    held = (await first.get_queue(queue)).length
    await first.delete_queue(queue)
    return {
        "messages": turn.sent,
        "sent": turn.sent,
        "broke": _unequal(turn.sent + len(producers), held),
        "seconds": round(took_s, 4),
        "value": round(turn.sent / took_s, 1),
        "per_frame": round(turn.sent / max(1, written), 3),
        **{f"p{name}_ms": round(percentile(turn.took, share) * 1e3, 4) for name, share in (("50", 0.5), ("99", 0.99))},
        **({"rate": work.rate, **(late or {})} if work.rate else {}),
    }


def _unequal(sent: int, held: int) -> Iterable[str]:
    return [] if sent == held else [f"{sent} acknowledged, the queue holds {held}"]


async def obey(spec: dict[str, Any], frames: Frames) -> None:
    """Until stdin ends."""
    loop = asyncio.get_running_loop()
    clients = [aio.connect(spec["target"], timeout=60) for _ in range(spec["connections"])]
    number = 0
    while line := await loop.run_in_executor(None, sys.stdin.readline):
        asked = json.loads(line)
        seconds = asked.pop("seconds")
        found = await turn_of(clients, frames, f"turn-{(number := number + 1)}", Workload(**asked), seconds)
        print(json.dumps(found), flush=True)
    await asyncio.gather(*(client.close() for client in clients))


def main() -> None:
    spec = json.loads(sys.argv[1])
    switch_off(spec["off"])
    run(obey(spec, Frames()))


if __name__ == "__main__":
    main()
