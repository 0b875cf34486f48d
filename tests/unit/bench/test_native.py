"""What each vendor's load tool printed, what is read from it, and what is refused: texts as the tools wrote them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest

from bench.document import Document
from bench.native import readers, report
from bench.native.outcome import Outcome, UnreadableError
from bench.native.tool import Tool, run
from bench.peers.adapters.beanstalkd import Beanstalkd
from bench.peers.figures import refusals
from bench.peers.place import BenchError, Place

ABOUT = {"commit": "abc", "cpu": "a cpu", "cores": 2, "kernel": "6", "python": "3.11"}
ENQUEUE = """\
id: test-223608-003, starting producer #0
id: test-223608-003, starting producer #0, channel #0
id: test-223608-003, time 1.001 s, sent: 2615 msg/s, confirmed: 1465 msg/s, nacked: 0 msg/s, min/median/75th/95th/99th confirm latency: 84538/392846/450689/477237/525856 µs
id: test-223608-003, time 2.004 s, sent: 3690 msg/s, confirmed: 3025 msg/s, nacked: 0 msg/s, min/median/75th/95th/99th confirm latency: 266826/415666/455112/493952/529564 µs
id: test-223608-003, time 3.001 s, sent: 3759 msg/s, confirmed: 2310 msg/s, nacked: 0 msg/s, min/median/75th/95th/99th confirm latency: 508988/586391/779559/850086/850565 µs
id: test-223608-003, time 4.003 s, sent: 3120 msg/s, confirmed: 3591 msg/s, nacked: 0 msg/s, min/median/75th/95th/99th confirm latency: 807810/929993/1021261/1068974/1085506 µs
test stopped (Reached time limit)
id: test-223608-003, sending rate avg: 2863 msg/s
id: test-223608-003, receiving rate avg: 0 msg/s
id: test-223608-003, confirm latency min/median/75th/95th/99th 84538/573111/884651/1057518/1076818 µs
"""  # noqa: E501 - as it was written
FLOW = """\
id: test-223620-161, starting consumer #0
id: test-223620-161, time 1.018 s, sent: 2693 msg/s, confirmed: 1966 msg/s, nacked: 0 msg/s, received: 1666 msg/s, min/median/75th/95th/99th consumer latency: 82367/262692/426721/483520/550586 µs, confirm latency: 77379/252858/413216/461092/490831 µs
id: test-223620-161, time 2.015 s, sent: 2625 msg/s, confirmed: 2031 msg/s, nacked: 0 msg/s, received: 2337 msg/s, min/median/75th/95th/99th consumer latency: 239076/386243/437733/493645/547493 µs, confirm latency: 212962/361244/409562/478713/538947 µs
id: test-223620-161, time 3.001 s, sent: 2767 msg/s, confirmed: 3695 msg/s, nacked: 0 msg/s, received: 3428 msg/s, min/median/75th/95th/99th consumer latency: 114733/310842/403456/564438/582727 µs, confirm latency: 90794/228380/405382/581421/596813 µs
"""  # noqa: E501 - as it was written
NATS = """\
22:41:00 Starting JetStream asynchronous publisher benchmark [batch=5,000, clients=1, dedup-window=2m0s, deduplication=false, max-bytes=10,737,418,240, msg-size=1.0 KiB, msgs=10,000, multi-subject=false, multi-subject-max=100,000, multi-subject-randomize=false, purge=false, replicas=3, sleep=0s, storage=file, stream=enq, subject=native.enqueue]
22:41:00 Using stream: enq
22:41:00 [1] Starting JetStream asynchronous publisher, publishing 10,000 messages
NATS JetStream asynchronous publisher stats: 13,115 msgs/sec ~ 13 MiB/sec ~ min: 295,865.09us ~ avg: 380,058.09us ~ max: 464,251.10us ~ P50: 295,865.09us ~ P90: 464,251.10us ~ P99: 464,251.10us ~ P99.9: 464,251.10us
"""  # noqa: E501 - as it was written
STALLED = """\
22:42:59 Starting JetStream asynchronous publisher benchmark [batch=5,000, clients=1, msg-size=1.0 KiB, msgs=25,130, stream=q, subject=q]
22:42:59 Fatal error from client 0: publishing: publishing asynchronously: nats: stalled with too many outstanding async published messages
nats: error: publishing: publishing asynchronously: nats: stalled with too many outstanding async published messages
"""  # noqa: E501 - as it was written
PGBENCH = """\
pgbench (15.18 (Debian 15.18-0+deb12u1))
transaction type: script.sql
scaling factor: 1
query mode: prepared
number of clients: 64
number of threads: 2
maximum number of tries: 1
duration: 3 s
number of transactions actually processed: 6550
number of failed transactions: 0 (0.000%)
latency average = 22.746 ms
initial connection time = 767.773 ms
tps = 2813.705625 (without initial connection time)
"""
ARTEMIS = """\
[
{"sampleType":"interval","warmup":false,"time":1795387523759,"sent":65,"delayed":0,"completed":57,"received":30,"sendTime":{"mean":"44403.36","50":8831,"max":618495,"count":89}},
{"sampleType":"interval","warmup":false,"time":1795387525138,"sent":102,"delayed":0,"completed":97,"received":85,"sendTime":{"mean":"24303.81","50":18047,"max":207871,"count":123}},
{"sampleType":"interval","warmup":false,"time":1795387526377,"sent":264,"delayed":0,"completed":279,"received":313,"sendTime":{"mean":"28125.60","50":8447,"max":346111,"count":346}},
{"sampleType":"summary","time":1795387527425,"result":"success","totalSent":558,"totalBlocked":0,"totalCompleted":558,"totalReceived":558,"totalSendTime":{"mean":"29879.44","50":11135,"max":618495,"count":558}}
]
"""
REDIS = """\
XADD native * m: rps=0.0 (overall: 0.0) avg_msec=-nan (overall: -nan)\r                                    \r\
XADD native * m: rps=38338.6 (overall: 37589.8) avg_msec=39.312 (overall: 39.312)\r            \r\
====== XADD native * m ======
  20000 requests completed in 0.62 seconds
  50 parallel clients
  1073 bytes payload
  keep alive: 1
  multi-thread: no

Summary:
  throughput summary: 32206.12 requests per second
"""


def test_perf_test_is_counted_by_its_lines_without_the_first_ones() -> None:
    found = readers.perf_test(ENQUEUE, "confirmed", 2.0)
    assert found == Outcome(round(2310 * 0.997 + 3591 * 1.002), pytest.approx(1.999), 10402)
    assert found.value == pytest.approx(2952, abs=1)
    flow = readers.perf_test(FLOW, "received", 0)
    assert (flow.messages, flow.received, flow.sent) == (7406, 7406, 7670)
    assert (found.untold, flow.untold) == (0, round(3428 * 0.986))


def test_the_others_are_read() -> None:
    assert readers.nats_bench(NATS, 10_000) == Outcome(10_000, pytest.approx(10_000 / 13_115), 10_000)
    assert readers.pgbench(PGBENCH) == Outcome(6550, pytest.approx(2.3279, abs=1e-4), 6550)
    assert readers.artemis_perf(ARTEMIS, "completed") == Outcome(376, pytest.approx(2.618), 558, 558)
    assert readers.artemis_perf(ARTEMIS, "received").messages == 398
    assert readers.redis_benchmark(REDIS, 20_000) == Outcome(20_000, 0.62, 20_000)


def perf_test(text: str) -> Outcome:
    return readers.perf_test(text, "confirmed", 2.0)


def nats(text: str) -> Outcome:
    return readers.nats_bench(text, 10_000)


def artemis(text: str) -> Outcome:
    return readers.artemis_perf(text, "received")


def redis(text: str) -> Outcome:
    return readers.redis_benchmark(text, 20_000)


@pytest.mark.parametrize("reader", [perf_test, nats, readers.pgbench, redis, artemis])
@pytest.mark.parametrize("text", ["", "\n", "12345 msg/s", "\x00" * 100])
def test_what_is_no_output_is_refused(reader: Callable[[str], Outcome], text: str) -> None:
    with pytest.raises(UnreadableError):
        reader(text)


@pytest.mark.parametrize(
    ("reader", "text", "said"),
    [
        (perf_test, ENQUEUE.replace("confirmed", "acked"), "no confirms"),
        (perf_test, ENQUEUE.replace("nacked: 0", "nacked: 3", 1), "refused"),
        (perf_test, ENQUEUE.replace("time 3.001", "time 1.001"), "goes from"),
        (perf_test, "\n".join(ENQUEUE.splitlines()[:4]), "after the first 2 s"),
        (nats, NATS.replace("stats:", "status:"), "0 rates"),
        (nats, NATS + NATS, "2 rates"),
        (nats, NATS.replace("msgs=10,000", "msgs=9,999"), "asked for 10000"),
        (nats, NATS.replace("13,115 msgs", "0 msgs"), "at 0/s"),
        (nats, STALLED, "errors"),
        (readers.pgbench, PGBENCH.replace("failed transactions: 0", "failed transactions: 2"), "2 failed"),
        (readers.pgbench, PGBENCH.replace("tps = ", "tps: "), "tps"),
        (readers.pgbench, PGBENCH.replace("processed: 6550", "processed: 0"), "no transaction"),
        (readers.pgbench, PGBENCH + "pgbench: error: client 3 aborted in command 0\n", "gave up"),
        (artemis, ARTEMIS[:-3], "not understood"),
        (artemis, "[]", "not understood"),
        (artemis, "3", "not understood"),
        (artemis, ARTEMIS.replace('"received"', '"seen"'), "not understood"),
        (artemis, ARTEMIS.replace("success", "failure"), "a failure"),
        (artemis, ARTEMIS.replace("1795387526377", "1795387523759"), "between its samples"),
        (redis, REDIS.replace("20000 requests", "19999 requests"), "19999 requests of 20000"),
        (redis, REDIS.replace("0.62 seconds", "0.00 seconds"), "does not tell"),
        (redis, "Error from server: ERR unknown command 'XADDD'\n" + REDIS, "errors"),
    ],
)  # fmt: skip
def test_a_damaged_output_is_refused(reader: Callable[[str], Outcome], text: str, said: str) -> None:
    with pytest.raises(UnreadableError, match=said):
        reader(text)


@pytest.mark.parametrize(
    ("sent", "received", "held", "more", "short"),
    [
        (100, 0, 100, {}, False),
        (100, 0, 5100, {}, False),  # stored, and the answer was not waited for
        (100, 0, 99, {}, True),
        (100, 0, 98, {"slack": 2}, False),
        (100, 0, 97, {"slack": 2}, True),
        (100, 60, 39, {}, True),
        (100, 60, 20, {"untold": 20}, False),
        (100, 60, 19, {"untold": 20}, True),
    ],
)
def test_a_server_that_holds_fewer_condemns_the_tool(
    sent: int, received: int, held: int, more: dict[str, int], short: bool
) -> None:
    reasons = refusals({"sent": sent, "received": received, "held": held, "slack": 0, "untold": 0, **more})
    said = f"{sent - received} messages are left, the server holds {held}"
    assert reasons == ([said] if short else [])


class Shell(Tool):
    """A tool whose command is given."""

    peer = "beanstalkd"
    name = "shell"

    def programs(self) -> list[str]:
        return [sys.executable, "/nowhere/to/be/found"]

    def version(self) -> str:
        return "1"

    def commands(self, workload: str, queue: str, size: int, seconds: float) -> dict[str, Sequence[str]]:
        raise NotImplementedError((workload, queue, size, seconds))

    def read(self, workload: str, outputs: Mapping[str, str]) -> Outcome:
        raise NotImplementedError((workload, outputs))

    def held(self, queue: str) -> int:
        raise NotImplementedError(queue)


@pytest.mark.process
def test_a_tool_that_fails_ends_the_other_and_is_refused_with_its_words(tmp_path: Path) -> None:
    with Place(tmp_path / "run") as place:
        tool = Shell(place, Beanstalkd(place))
        assert tool.missing() == ["/nowhere/to/be/found"]
        waits = [sys.executable, "-c", "import signal; signal.pause()"]
        fails = [sys.executable, "-c", "raise SystemExit('no such stream')"]
        with pytest.raises(BenchError, match=r"shell, producer, failed \(1\): no such stream"):
            run(tool, {"consumer": waits, "producer": fails})
        busy = [sys.executable, "-c", "import time\nwhile time.process_time() < 0.3: pass\nprint('done')"]
        ran = run(tool, {"tool": busy})
        assert ran.outputs == {"tool": "done\n"}
        assert 300_000 <= ran.used_us["tool"] < ran.seconds * 1.1e6


def document(*broke: str) -> Document:
    entry = {"copies": 2, "promise": "synced on both", "versions": {}}
    found = Document(
        "native", ABOUT, "2026-01-02", {"runs": 3, "seconds": 3.0, "size": 1024}, left_out={"nats": ["nats"]}
    )
    found.peers = {
        "tandemq": {**entry, "title": "Tandemq", "client": "sdk"},
        "redis": {**entry, "title": "Redis", "client": "redis-benchmark 7", "lacks": "no WAIT"},
    }
    for number in range(3):
        for peer, value in (("tandemq", 9000.0), ("redis", 3000.0)):
            more = {"load_share": {"tool": 0.9}, "commands": {"tool": f"{peer} --go"}}
            failed = list(broke) if peer == "redis" else []
            found.add((peer, "enqueue"), {"run": number, "value": value, "broke": failed, **more})
    return found


def test_the_table_says_tool_promise_and_ratio_and_refusals() -> None:
    shown = report.markdown(document())
    figures = "3,000 (3,000 to 3,000), 3.00x; bound by the tool"
    assert f"| Redis | redis-benchmark 7; no WAIT | synced on both | {figures} |  | at most 90% |" in shown
    assert "- redis, enqueue, tool: `redis --go`" in shown
    assert "Left out: nats (no nats)." in shown
    refused = report.markdown(document("the server holds 99"))
    assert "refused: the server holds 99" in refused
    assert "3,000" not in refused
