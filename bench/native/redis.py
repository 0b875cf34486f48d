"""redis-benchmark, and Valkey's. It sends one command over and over and cannot put a WAIT behind a pipeline, so that
its answers promise less than those to the Python client: synced on the primary.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.native import readers
from bench.native.outcome import Outcome
from bench.native.tool import Tool, run
from bench.peers.adapters.redis import Redis, RedisOlder, Valkey
from bench.peers.contract import Peer, version_of
from bench.peers.place import HOST, Place

PIPELINED = 100
TRIAL = 20_000  # messages, from which it is estimated how many there are in the wanted time


class RedisBenchmark(Tool):
    peer = "redis"
    name = Redis.program("benchmark")
    flow = False
    lacks = "no WAIT, no consumer"
    copies = 1
    promise = "synced on the primary only: the tool cannot WAIT"

    def __init__(self, place: Place, peer: Peer) -> None:
        super().__init__(place, peer)
        assert isinstance(peer, Redis)
        self._server = peer
        self._count = 0
        self._size = 0

    def programs(self) -> list[str]:
        return [self._server.program("benchmark")]

    def prefix(self) -> Sequence[str]:
        return self._server.installed.programs.prefix

    def missing(self) -> list[str]:
        return self._server.lacking(self.programs)

    def version(self) -> str:
        return version_of([*self.prefix(), *self.programs(), "--version"], 1)

    def _command(self, queue: str, count: int) -> list[str]:
        how = ["-h", HOST, "-p", str(self._server.target()["port"]), "-c", "50", "-P", str(PIPELINED), "-n", str(count)]
        return [*self.programs(), *how, "-x", "XADD", queue, "*", "m"]

    def commands(self, workload: str, queue: str, size: int, seconds: float) -> dict[str, Sequence[str]]:
        assert workload == "enqueue"
        self._size = size
        trial = run(self, {"tool": self._command(f"{queue}-trial", TRIAL)})
        rate = readers.redis_benchmark(trial.outputs["tool"], TRIAL).value
        self._count = max(TRIAL, round(rate * seconds) // PIPELINED * PIPELINED)  # else it sends a few more
        return {"tool": self._command(queue, self._count)}

    def given(self) -> str:
        return "Z" * self._size

    def read(self, workload: str, outputs: Mapping[str, str]) -> Outcome:
        assert workload == "enqueue"
        return readers.redis_benchmark(outputs["tool"], self._count)

    def held(self, queue: str) -> int:
        return int(self._server.ask(self._server.roles[0], "XLEN", queue))


class RedisBenchmarkOlder(RedisBenchmark):
    peer = RedisOlder.name


class ValkeyBenchmark(RedisBenchmark):
    peer = Valkey.name
    name = Valkey.program("benchmark")
