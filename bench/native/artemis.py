"""`artemis perf`, which comes with the broker: a JMS producer with completion listeners, and one with a consumer beside
it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from bench.native import readers
from bench.native.outcome import Outcome
from bench.native.tool import Tool
from bench.peers.adapters.artemis import HOME, USER, Artemis
from bench.peers.contract import Peer
from bench.peers.place import Place

PROGRAM = str(HOME / "bin/artemis")
REPORT = "report.json"
WARM_S = 2  # of its virtual machine; a part of its --duration, in no sample that is counted
# Without a confirmation window a producer waits for each answer, whatever is allowed to be pending.
WINDOW_BYTES = 10 << 20


class ArtemisPerf(Tool):
    peer = "artemis"
    name = "artemis perf"

    def __init__(self, place: Place, peer: Peer) -> None:
        super().__init__(place, peer)
        assert isinstance(peer, Artemis)
        self._server = peer

    def programs(self) -> list[str]:
        return [PROGRAM, "java"]

    def version(self) -> str:
        return self._server.versions()["server"]

    def commands(self, workload: str, queue: str, size: int, seconds: float) -> dict[str, Sequence[str]]:
        target = self._server.target()
        url = f"tcp://{target['host']}:{target['port']}?confirmationWindowSize={WINDOW_BYTES}"
        (self.place.role("tool") / REPORT).unlink(missing_ok=True)  # what a run before it wrote is not its own
        return {
            "tool": [
                PROGRAM, "perf", "client" if workload == "flow" else "producer", "--url", url, "--user", USER,
                "--password", USER, "--silent", "--persistent", "--message-size", str(size), "--max-pending", "5000",
                "--warmup", str(WARM_S), "--duration", str(math.ceil(WARM_S + seconds + 1)), "--json", REPORT, f"queue://{queue}",
            ]
        }  # fmt: skip

    def read(self, workload: str, outputs: Mapping[str, str]) -> Outcome:
        """What it prints is for terminals; its report is a file."""
        assert outputs
        file = self.place.role("tool") / REPORT
        text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
        return readers.artemis_perf(text, "received" if workload == "flow" else "completed")

    def held(self, queue: str) -> int:
        return self._server.messages(queue)
