"""One process of load, a producer or a consumer of one queue: `python -m bench.peers.load '{"peer": "redis", ...}'`.

It runs in the environment of its peer's client, so it uses the standard library alone, and that client. The module
`bench.peers.clients.<client>` does the work through a `Job`; all have the same three functions:

    prepare(job)   makes the queue, empty
    produce(job)   until `job.over` sends what `job.take()` makes, tells `job.answered()`; returns when all is answered
    consume(job)   until `job.done()` tells `job.received()` and acknowledges; returns when that is through

With a `rate` it is an open loop: `take()` gives what is due, whatever is unanswered, and a client tells `answered()`
the `began` of what it took, which is when the first of it was due. The result is one JSON line.
"""

from __future__ import annotations

import importlib
import json
import mmap
import struct
import sys
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.peers.figures import percentile, shares
from bench.peers.pacing import Arrivals, Pace, lateness
from bench.peers.payloads import Ledger, Payloads
from bench.peers.place import LOAD_ROLES, usage

NUMBER = struct.Struct("<Q")
PATIENCE_S = 20.0  # a consumer to which nothing came for so long, although something is missing, calls it lost
WAIT_S = 0.0005  # until a producer that waits for its consumer looks again


class Progress:
    """What producer and consumer share through a file: how many came, how many there are in all, and when the first was
    due in an open loop.
    """

    def __init__(self, path: Path) -> None:
        if not path.exists():
            path.write_bytes(bytes(3 * NUMBER.size))
        with path.open("r+b") as file:
            self._map = mmap.mmap(file.fileno(), 3 * NUMBER.size)

    @property
    def received(self) -> int:
        return int(NUMBER.unpack_from(self._map)[0])

    @received.setter
    def received(self, count: int) -> None:
        NUMBER.pack_into(self._map, 0, count)

    @property
    def total(self) -> int | None:
        """None until it is known."""
        count = int(NUMBER.unpack_from(self._map, NUMBER.size)[0])
        return count - 1 if count else None

    @total.setter
    def total(self, count: int) -> None:
        NUMBER.pack_into(self._map, NUMBER.size, count + 1)

    @property
    def began(self) -> float:
        """Seconds, by the clock that all processes of a machine share; 0 until it is known."""
        return int(NUMBER.unpack_from(self._map, 2 * NUMBER.size)[0]) / 1e9

    @began.setter
    def began(self, seconds: float) -> None:
        NUMBER.pack_into(self._map, 2 * NUMBER.size, round(seconds * 1e9))


class Window:
    """Counts what is answered between the end of the warm-up and the end of the measurement, or all if it has none."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.over = False
        self._folder = Path(spec["folder"])
        self._warm_s, self._seconds = float(spec["warm_s"]), float(spec["seconds"])
        self._messages = 0
        self._took: list[float] = []
        self._first_at = self._began_at = self._ended_at = 0.0
        self._before: dict[str, float] = {}
        self._after: dict[str, float] = {}
        self._at_begin = self._at_end = 0

    def answered(self, count: int, took: Sequence[float]) -> None:
        """Empty: these were received, and nobody knows how long they took."""
        now = time.perf_counter()
        if not self._first_at:
            self._first_at = now  # what came with the first answer is not counted: nobody knows since when
        elif not self._began_at:
            if now >= self._first_at + self._warm_s:
                self._began_at, self._at_begin, self._before = now, self._messages + count, usage(self._folder)
        elif not self.over:
            self._took += took
            if self._seconds and now >= self._began_at + self._seconds:
                self._messages += count
                self.end()
                return
        self._messages += count

    def end(self) -> None:
        """The measurement is over, unless it was before."""
        if not self.over:
            self._after, self._ended_at, self._at_end = usage(self._folder), time.perf_counter(), self._messages
            self.over = True

    def result(self) -> dict[str, Any]:
        if not self._began_at:
            return {"messages": 0, "value": 0.0, "seconds": 0.0}
        messages, seconds = self._at_end - self._at_begin, self._ended_at - self._began_at
        used = {role: self._after[role] - self._before.get(role, 0.0) for role in self._after}
        return {
            "messages": messages,
            "value": round(messages / seconds, 1),
            "seconds": round(seconds, 3),
            **self._percentiles(),
            **shares(used, seconds, messages, LOAD_ROLES),
        }

    def _percentiles(self) -> dict[str, float]:
        took = sorted(self._took)
        shares_by_name = PERCENTILES.items() if took else ()
        return {f"p{name}_ms": round(percentile(took, share) * 1e3, 4) for name, share in shares_by_name}


PERCENTILES = {"50": 0.5, "90": 0.9, "99": 0.99, "999": 0.999}


class Paced:
    """The measurement of an open loop: every message that was due after the warm-up, whenever it was answered."""

    over = False  # it ends by count

    def __init__(self, spec: dict[str, Any], pace: Pace) -> None:
        self._folder, self._pace = Path(spec["folder"]), pace
        self._took: list[float] = []
        self._messages = 0
        self._first_at = self._last_at = 0.0  # answers to messages that are measured
        self._before: dict[str, float] = {}
        self._after: dict[str, float] = {}

    def start(self) -> None:
        """Looking at all processes takes milliseconds, so it is done before the first message is due."""
        self._before = usage(self._folder)
        self._pace.began = time.perf_counter()

    def answered(self, count: int, took: Sequence[float]) -> None:
        self._messages += count
        self._took += took
        self._last_at = time.perf_counter()
        if took and not self._first_at:
            self._first_at = self._last_at

    def end(self) -> None:
        self._after = usage(self._folder)

    def result(self) -> dict[str, Any]:
        pace, took = self._pace, sorted(self._took)
        used = {role: time - self._before.get(role, 0.0) for role, time in self._after.items()}
        # Between answers: how long each took is no part of how many came.
        measured_s = max(self._last_at - self._first_at, len(took) / pace.rate)
        return {
            "messages": len(took),
            "rate": pace.rate,
            "value": round(len(took) / measured_s, 1) if measured_s else 0.0,
            "seconds": round(measured_s, 3),
            **{f"p{name}_ms": round(percentile(took, share) * 1e3, 4) for name, share in PERCENTILES.items()},
            "max_ms": round(max(took, default=0.0) * 1e3, 4),
            **lateness(pace.late),
            **shares(used, max(1e-9, self._last_at - pace.began), self._messages, LOAD_ROLES),
        }


class Taken(list[bytes]):
    """Payloads to be sent together, and since when: when they were asked for, in an open loop when they were due."""

    def __init__(self, payloads: Sequence[bytes], began: float) -> None:
        super().__init__(payloads)
        self.began = began


class Job:
    """What a client is to do, and the only way in which it reports. May be used by several threads."""

    def __init__(self, spec: dict[str, Any]) -> None:
        self.target: dict[str, Any] = spec["target"]
        self.queue: str = spec["queue"]
        self.size: int = spec["size"]
        self.window: int = spec["window"]  # most messages sent and not answered
        self.batch: int = min(spec["batch"], spec["window"])  # most of them in one request
        self.producers: int = spec.get("producers", 1)  # of an open loop: connections, each with a producer of its own
        self._backlog: int = spec.get("backlog", 0)  # most messages answered or under way and not received; 0: no limit
        rate = spec.get("rate")
        self._pace = Pace(rate, float(spec["warm_s"]), float(spec["seconds"])) if rate else None
        self._count: int | None = self._pace.count if self._pace else spec.get("count")
        self._patience_s: float = spec.get("patience_s", PATIENCE_S)
        self._payloads = Payloads(spec["size"], spec["seed"])
        self._progress = Progress(Path(spec["progress"]))
        due = spec.get("due")
        self._arrivals = Arrivals(float(due["rate"]), float(due["warm_s"])) if due else None
        self.ledger = Ledger(self._payloads)
        self.measured: Window | Paced = Paced(spec, self._pace) if self._pace else Window(spec)
        self._sent = self._answered = 0
        self._came_at = time.monotonic()
        self._guard = threading.Lock()

    # -- a producer's side ---------------------------------------------------------------------------------------

    @property
    def over(self) -> bool:
        return self._sent >= self._count if self._count is not None else self.measured.over

    @property
    def unanswered(self) -> int:
        return self._sent - self._answered

    @property
    def paced(self) -> bool:
        return self._pace is not None

    @property
    def step_s(self) -> float:
        """Between two messages of an open loop; else nothing."""
        return 1 / self._pace.rate if self._pace else 0.0

    @property
    def wait_s(self) -> float:
        """How long a producer that got nothing sleeps before it looks again."""
        if self._pace is None or not self._pace.began:
            return WAIT_S
        return self._pace.wait_s(time.perf_counter(), self._sent)

    def wake_when_due(self, wake: Callable[[], object]) -> None:
        """Calls it from a thread whenever something is due: an event loop's own timers have steps of a millisecond."""

        def ticking() -> None:
            while not self.over:
                wake()
                time.sleep(self.wait_s)

        threading.Thread(target=ticking, daemon=True).start()

    def room(self, wanted: int = 1) -> int:
        """How many messages may be sent now, at most as many as wanted."""
        if self.over:
            return 0
        if isinstance(self.measured, Paced) and self._pace:
            if not self._pace.began:
                self.measured.start()
                self._progress.began = self._pace.began
            return min(wanted, self._pace.ready(time.perf_counter(), self._sent))
        room = min(wanted, self.window - (self._sent - self._answered))
        if self._backlog:
            room = min(room, self._backlog - (self._sent - self._progress.received))
        return max(0, room)

    def take(self, wanted: int) -> Taken:
        """The next payloads, as many as there is room for; they count as sent."""
        with self._guard:
            count = self.room(wanted)
            if self._count is not None:
                count = min(count, self._count - self._sent)
            first, began = self._sent, time.perf_counter()
            if self._pace and not self.over:
                self._pace.looked(began, first, count)
                began = self._pace.due(first)
            self._sent += count
        return Taken(self._payloads.make(first, count), began)

    def answered(self, count: int, began: float) -> None:
        """So many are acknowledged, which were sent at `began` (time.perf_counter); in an open loop so many in a row,
        of which the first was due then."""
        now = time.perf_counter()
        with self._guard:
            self._answered += count
            self.measured.answered(count, self._pace.took(began, count, now) if self._pace else [now - began])

    def all_sent(self) -> int:
        assert self._sent == self._answered, f"{self._sent} sent, {self._answered} acknowledged"
        self.measured.end()
        self._progress.total = self._sent
        return self._sent

    # -- a consumer's side ---------------------------------------------------------------------------------------

    def received(self, payloads: Sequence[bytes]) -> None:
        if payloads:
            with self._guard:
                self._came_at = time.monotonic()
                new = self.ledger.take(payloads)
                if self._arrivals:
                    self._arrivals.came(new, self._progress.began, time.perf_counter())
                self._progress.received = self.ledger.received
                self.measured.answered(len(payloads), [])

    def done(self) -> bool:
        total = self._progress.total
        if total is None:
            return False
        return self.ledger.received >= total or time.monotonic() - self._came_at > self._patience_s

    def arrived(self) -> dict[str, float]:
        """Of an open loop: from when a message was due to when it came."""
        return self._arrivals.times() if self._arrivals else {}

    def account(self) -> dict[str, int]:
        self.measured.end()
        return self.ledger.account(self._progress.total or 0)


def in_lanes(job: Job, most: int, lane: Callable[[Job], None]) -> None:
    """A client that waits for each answer: as many threads as the window has batches, at most `most`."""
    count = min(most, max(1, job.window // job.batch))
    with ThreadPoolExecutor(count) as pool:
        for under_way in [pool.submit(lane, job) for _ in range(count)]:
            under_way.result()


def main() -> None:
    spec = json.loads(sys.argv[1])
    client = importlib.import_module(f"bench.peers.clients.{spec['client']}")
    job = Job(spec)
    if spec["role"] == "producer":
        client.prepare(job)
        print("ready", flush=True)
        client.produce(job)
        result = {"sent": job.all_sent(), **job.measured.result()}
    else:
        client.consume(job)
        result = {"account": job.account(), **job.arrived(), **job.measured.result()}
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main()
