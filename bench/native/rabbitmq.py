"""RabbitMQ's PerfTest, from Maven Central: one producer with publisher confirms, one consumer that acknowledges many at
once.
"""

from __future__ import annotations

import math
import subprocess
from collections.abc import Mapping, Sequence
from typing import ClassVar

from bench.native import readers
from bench.native.outcome import Outcome
from bench.native.tool import Tool
from bench.peers.adapters.rabbitmq import Quorum, QuorumOlder, SingleOlder
from bench.peers.contract import Peer
from bench.peers.place import HOST, KEPT, VENV_PYTHON, BenchError, Place, said

LIBRARY = KEPT / "perftest/lib"
PERF_TEST = ("java", "-cp", f"{LIBRARY}/*", "com.rabbitmq.perf.PerfTest")
# Over AMQP, which asks the queue's leader: what `list_queues` says of a quorum queue may be five seconds old.
_HELD = """
import sys
import pika
with pika.BlockingConnection(pika.ConnectionParameters(sys.argv[1], int(sys.argv[2]))) as connection:
    print(connection.channel().queue_declare(sys.argv[3], passive=True).method.message_count)
"""
WARM_S = 2.0  # of its virtual machine; the lines of that time are not counted


class PerfTest(Tool):
    peer = "rabbitmq-quorum"
    name = "PerfTest"
    kind: ClassVar[tuple[str, ...]] = ("--quorum-queue",)

    def __init__(self, place: Place, peer: Peer) -> None:
        super().__init__(place, peer)
        assert isinstance(peer, Quorum)
        self._server = peer

    def programs(self) -> list[str]:
        jars = sorted(LIBRARY.glob("perf-test-*.jar"))
        return ["java"] if jars else ["java", str(LIBRARY / "perf-test.jar")]

    def version(self) -> str:
        done = subprocess.run([*PERF_TEST, "--version"], capture_output=True, text=True, check=False)
        words = readers.ESCAPES.sub("", done.stdout).split()
        if words[:3] != ["RabbitMQ", "Perf", "Test"]:
            raise BenchError(f"PerfTest does not tell its version: {done.stderr.strip()}")
        return words[3]

    def commands(self, workload: str, queue: str, size: int, seconds: float) -> dict[str, Sequence[str]]:
        both = ("-y", "1", "--qos", "8000", "--multi-ack-every", "100")
        self.slack = 2 * math.ceil(WARM_S + seconds + 2)  # a line a second, two rates of whole numbers in it
        return {
            "tool": [
                *PERF_TEST, "--uri", f"amqp://guest:guest@{HOST}:{self._server.target()['port']}", "-x", "1",
                *(both if workload == "flow" else ("-y", "0")), "--queue", queue, *self.kind, "--flag", "persistent",
                "--size", str(size), "--confirm", "5000", "--time", str(math.ceil(WARM_S + seconds)),
            ]
        }  # fmt: skip

    def read(self, workload: str, outputs: Mapping[str, str]) -> Outcome:
        counted = "received" if workload == "flow" else "confirmed"
        return readers.perf_test(outputs["tool"], counted, WARM_S)

    def held(self, queue: str) -> int:
        target = self._server.target()
        return int(said(str(VENV_PYTHON), "-c", _HELD, target["host"], str(target["port"]), queue))


class PerfTestSingle(PerfTest):
    peer = "rabbitmq-single"
    kind = ("--auto-delete", "false")


class PerfTestOlder(PerfTest):
    peer = QuorumOlder.name


class PerfTestSingleOlder(PerfTestSingle):
    peer = SingleOlder.name
