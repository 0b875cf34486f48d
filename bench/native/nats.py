"""`nats bench js` of natscli: asynchronous publishing, 1,000 unanswered; a pull consumer that acknowledges many at
once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from bench.native import readers
from bench.native.outcome import Outcome
from bench.native.tool import Tool, run
from bench.peers.adapters.nats import Nats
from bench.peers.contract import Peer, version_of
from bench.peers.place import HOST, KEPT, BenchError, Place, said

PROGRAM = str(KEPT / "bin/nats")
TRIAL = 10_000  # messages, from which it is estimated how many there are in the wanted time


class NatsBench(Tool):
    peer = "nats"
    name = "nats bench js"

    def __init__(self, place: Place, peer: Peer) -> None:
        super().__init__(place, peer)
        assert isinstance(peer, Nats)
        self._server = peer
        self._count = 0
        self._rate: float | None = None

    def programs(self) -> list[str]:
        return [PROGRAM]

    def version(self) -> str:
        return version_of([PROGRAM, "--version"], 0).removeprefix("v")

    def _to(self, role: str) -> list[str]:
        port = self._server.target()["servers"][role]
        return [PROGRAM, "--no-context", "--server", f"nats://{HOST}:{port}"]

    def prepare(self, queue: str) -> None:
        kept = ["--replicas", "3", "--storage", "file", "--defaults"]
        made = [*self._to(self._server.roles[0]), "stream", "add", queue, "--subjects", queue, *kept]
        said(*made, where=self.place.role("tool"))

    def _streams(self) -> dict[str, tuple[str, int]]:
        """The leader and the messages of each."""
        found = self._server.ask(self._server.roles[0], "jsz?accounts=true&streams=true&config=true")
        streams = [stream for account in found["account_details"] for stream in account["stream_detail"]]
        return {each["name"]: (each["cluster"]["leader"], int(each["state"]["messages"])) for each in streams}

    def _bench(self, queue: str, *words: str) -> list[str]:
        """At the leader of the stream, as the peer's Python client does it."""
        streams = self._streams()
        if queue not in streams:
            raise BenchError(f"nats: the servers know of no stream {queue}")
        return [*self._to(streams[queue][0]), "bench", "js", *words, "--stream", queue, "--no-progress"]

    def _publish(self, queue: str, size: int, count: int) -> list[str]:
        many = ["--batch", "1000", "--size", str(size), "--msgs", str(count)]
        return self._bench(queue, "pub", "async", queue, *many)

    def commands(self, workload: str, queue: str, size: int, seconds: float) -> dict[str, Sequence[str]]:
        if self._rate is None:
            self.prepare("native_trial")
            trial = run(self, {"tool": self._publish("native_trial", size, TRIAL)})
            self._rate = readers.nats_bench(trial.outputs["tool"], TRIAL).value
        self._count = max(TRIAL, round(self._rate * seconds))
        publish = self._publish(queue, size, self._count)
        if workload == "enqueue":
            return {"tool": publish}
        many = ["--acks", "all", "--batch", "1000", "--msgs", str(self._count)]
        return {"consumer": self._bench(queue, "consume", *many), "producer": publish}

    def read(self, workload: str, outputs: Mapping[str, str]) -> Outcome:
        """The stream keeps what was consumed, so all that was sent must be there afterwards."""
        if workload == "enqueue":
            return readers.nats_bench(outputs["tool"], self._count)
        sent = readers.nats_bench(outputs["producer"], self._count)
        came = readers.nats_bench(outputs["consumer"], self._count)
        return Outcome(came.messages, came.seconds, sent.sent)

    def held(self, queue: str) -> int:
        return self._streams()[queue][1]
