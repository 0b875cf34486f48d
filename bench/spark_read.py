"""Measures what the pipeline on Spark costs: reading a real pair, whole and as a stream; the master while it is read;
and the audit of journals that are made for it. Prints the targets beside the figures.

The audit runs in a process of its own for each size, with a heap of 4 GiB, so that time and memory are of that size.

Example: python -m bench.spark_read --share 0.01 --only read,stream
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.document import Document, begun
from bench.machine import ROOT, cpu_us
from bench.peers.place import ending_all, stoppable
from bench.spark_report import AUDIT, AUDIT_ROWS, MASTER, MEMBERS, READ, STREAM, judged
from chaos.cluster import Cluster
from tandemq import aio
from tandemq.config import Limits
from tandemq.spark import local_session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

OUT = ROOT / "build" / "bench" / "spark.json"
SIZE_BYTES, FRAME, WINDOW = 200, 500, 10
READ_ROWS, STREAM_BATCH = 1_000_000, 100_000
STEADY_FROM = 2  # micro-batches before it compile and warm up
RATE_PER_S, LOAD_S, ROUNDS, IDLE_S = 10_000, 8.0, 3, 3.0
QUEUES, EPOCHS, ROWS_A_MESSAGE = 64, 5, 3
HEAP = "4g"


def session(heap: str = "2g") -> SparkSession:
    """Local, on two cores."""
    spark = local_session("local[2]", {"spark.driver.memory": heap, "spark.sql.shuffle.partitions": "8"})
    # Spark has put its own in its place: an exception out of a running loop, after which clients wait for ever.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    spark.sparkContext.setLogLevel("OFF")
    return spark


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


async def send(target: str, queue: str, count: int, rate_per_s: float = 0.0) -> None:
    """So many messages in frames, as fast as they are taken or at that rate."""
    payloads = [os.urandom(SIZE_BYTES) for _ in range(FRAME)]
    async with aio.connect(target) as client:
        producer = client.producer(queue, max_batch_messages=FRAME, max_unanswered_batches=WINDOW)
        waiting: set[asyncio.Task[Any]] = set()
        due_s = time.monotonic()
        for _ in range(0, count, FRAME):
            if len(waiting) >= WINDOW:
                done, waiting = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
                for each in done:
                    each.result()
            waiting.add(asyncio.create_task(producer.send_many(payloads)))
            if rate_per_s:
                due_s += FRAME / rate_per_s
                await asyncio.sleep(max(0.0, due_s - time.monotonic()))
        await asyncio.gather(*waiting)
        await producer.close()


async def create(target: str, queue: str) -> None:
    async with aio.connect(target) as client:
        await client.create_queue(queue)


def read_whole(spark: SparkSession, target: str, queue: str) -> list[float]:
    """Rows a second of three reads of everything in the queue, payloads too; the first compiles."""
    from pyspark.sql import functions as F  # noqa: N812 - as programs for Spark have it

    found = []
    for number in range(3):
        frame = spark.read.format("tandemq").options(target=target, queues=queue).load()
        began = time.perf_counter()
        row = frame.agg(F.count("index").alias("rows"), F.sum(F.length("payload")).alias("bytes")).collect()[0]
        found.append(row["rows"] / (time.perf_counter() - began))
        say(f"read {number + 1}: {row['rows']:,} rows, {row['bytes']:,} bytes, {found[-1]:,.0f} rows/s")
    return found


def read_stream(spark: SparkSession, target: str, queue: str, batch: int, checkpoint: Path) -> list[float]:
    """Rows a second of each steady micro-batch."""
    frame = spark.readStream.format("tandemq").options(target=target, queues=queue, maxRowsPerTrigger=batch).load()
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(checkpoint))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    progress = [each for each in query.recentProgress if each["numInputRows"]]
    rates = [each["numInputRows"] / (each["durationMs"]["triggerExecution"] / 1000) for each in progress]
    say(f"stream: {len(rates)} micro-batches, rows/s {', '.join(f'{rate:,.0f}' for rate in rates)}")
    return rates[STEADY_FROM:] or rates


def members_us(cluster: Cluster) -> float:
    """CPU of both members: which of them serves is theirs to say."""
    return sum(cpu_us(child.pid) for name in cluster.members if (child := cluster.children[name]).pid)


def bounded_cost(
    spark: SparkSession, cluster: Cluster, queue: str, batch: int, rounds: int, folder: Path
) -> dict[str, list[float]]:
    """CPU microseconds of the members: read whole, and as a stream in micro-batches of so many rows, in turns.

    What they use while nobody asks them is measured before, and taken off.
    """
    before, began = members_us(cluster), time.perf_counter()
    time.sleep(IDLE_S)
    idle = (members_us(cluster) - before) / (time.perf_counter() - began)
    found: dict[str, list[float]] = {"whole": [], "bounded": []}
    for number in range(rounds):
        for what in ("whole", "bounded") if number % 2 == 0 else ("bounded", "whole"):
            before, began = members_us(cluster), time.perf_counter()
            if what == "whole":
                frame = spark.read.format("tandemq").options(target=cluster.target, queues=queue).load()
                frame.write.format("noop").mode("overwrite").save()
            else:
                read_stream(spark, cluster.target, queue, batch, folder / f"bounded-{number}")
            used = members_us(cluster) - before - idle * (time.perf_counter() - began)
            found[what].append(used)
            say(f"members, {what}: {used / 1e6:.2f} s")
    return found


async def master_cost(cluster: Cluster, queue: str, seconds: float) -> float:
    """CPU microseconds of the master a message, at a fixed rate."""
    pid = cluster.children["a"].pid
    assert pid, "the master runs"
    count = round(RATE_PER_S * seconds)
    before = cpu_us(pid)
    await send(cluster.target, queue, count, RATE_PER_S)
    return (cpu_us(pid) - before) / count


def beside_ingest(
    spark: SparkSession, cluster: Cluster, run: Callable[[Any], Any], folder: Path, rounds: int, seconds: float
) -> dict[str, list[float]]:
    """The master's cost alone, while a query follows the journal at the replica into Parquet, and while one does the
    same with rows that Spark makes itself, in turns. The last one takes cores and caches, and asks the pair nothing.
    """
    kinds = ("alone", "ingest", "other")
    found: dict[str, list[float]] = {what: [] for what in kinds}
    for number in range(rounds):
        for what in kinds if number % 2 == 0 else kinds[::-1]:
            queue = f"cost-{number}-{what}"
            run(create(cluster.target, queue))
            query = None
            if what != "alone":
                asked = {"target": cluster.target, "startingPosition": "latest"}
                made = {"rowsPerSecond": str(RATE_PER_S)}
                source, options = ("tandemq", asked) if what == "ingest" else ("rate", made)
                frame = spark.readStream.format(source).options(**options).load()
                if what == "other":
                    frame = frame.selectExpr("*", f"repeat(cast(value as string), {SIZE_BYTES // 8}) as payload")
                place = folder / queue
                writer = frame.writeStream.format("parquet").option("checkpointLocation", f"{place}-at")
                query = writer.trigger(processingTime="1 second").start(str(place))
                if what == "ingest":
                    query.processAllAvailable()
            run(send(cluster.target, queue, FRAME * WINDOW))  # warm
            found[what].append(run(master_cost(cluster, queue, seconds)))
            say(f"master, {what}: {found[what][-1]:.2f} us a message")
            if query is not None:
                if what == "ingest":
                    query.processAllAvailable()
                query.stop()
    return found


def made_journal(spark: SparkSession, rows: int, folder: Path) -> None:
    """Both members' journals with that many rows in all, the clients' history and the members' heads, as Parquet.

    A message enters with a body of 200 bytes, is leased and acknowledged: three records. 64 queues, 5 epochs, clean.
    """
    from pyspark.sql import functions as F  # noqa: N812 - as programs for Spark have it

    messages = rows // (2 * ROWS_A_MESSAGE)
    last = messages * ROWS_A_MESSAGE

    def epoch_of(log_index: str) -> str:
        return f"cast(({log_index}) * {EPOCHS} div {last + 1} + 1 as bigint)"

    epoch = epoch_of("log_index")
    leased = "log_index - step + 1"
    lease = f"shiftleft({epoch_of(leased)}, 40) + {leased}"
    named = "unhex(concat('6d61696e', lpad(hex(epoch), 8, '0'), lpad(hex(log_index), 12, '0'), '0000'))"
    messages_of = spark.range(0, messages, 1, 16).selectExpr(
        "id as n", f"id % {QUEUES} + 1 as queue_id", f"id div {QUEUES} + 1 as index"
    )
    records = messages_of.select(
        "*", F.explode(F.array(*(F.lit(step) for step in range(ROWS_A_MESSAGE)))).alias("step")
    )
    timed = records.withColumn("log_index", F.expr(f"n * {ROWS_A_MESSAGE} + step + 1")).withColumn(
        "epoch", F.expr(epoch)
    )
    came = "step = 0"
    digests = ", ".join(f"unhex(sha2(concat(n, '/{part}'), 512))" for part in range(SIZE_BYTES // 64 + 1))
    body = f"substring(concat({digests}), 1, {SIZE_BYTES})"
    journal = timed.selectExpr(
        "log_index",
        "epoch",
        "timestamp_millis(1700000000000 + log_index) as time",
        "element_at(array('ENQUEUED', 'LEASED', 'ACKED'), step + 1) as kind",
        "concat('q', queue_id) as queue",
        "queue_id",
        "index",
        "cast(1 as bigint) as count",
        f"if({came}, {named}, null) as id",
        f"if({came}, cast(0 as bigint), {lease}) as lease_id",
        f"if({came}, cast(concat('producer-', queue_id) as binary), null) as producer",
        f"if({came}, index, cast(0 as bigint)) as sequence",
        f"if({came}, {body}, null) as payload",
    )
    for member in ("a", "b"):
        journal.write.mode("overwrite").parquet(str(folder / "journal" / f"member={member}"))
    told = timed.where("step != 1").selectExpr(
        "'client' as client",
        "if(step = 0, 'send', 'ack') as op",
        "'ok' as outcome",
        "log_index * 1000 as invoke_ns",
        "log_index * 1000 + 900 as complete_ns",
        "concat('q', queue_id) as queue",
        f"if({came}, {named}, null) as id",
        "index",
        "epoch",
        f"if({came}, cast(concat('producer-', queue_id) as binary), null) as producer",
        f"if({came}, index, null) as sequence",
        f"if({came}, crc32({body}), null) as payload_crc32",
    )
    told.write.mode("overwrite").parquet(str(folder / "history"))
    made_heads(messages_of, last, folder)


def made_heads(messages: DataFrame, last: int, folder: Path) -> None:
    """Both members say that they have all of it. messages: queue_id and index; last: the last record."""
    from pyspark.sql import functions as F  # noqa: N812 - as programs for Spark have it

    heads = messages.groupBy("queue_id").agg(F.max("index").alias("last"))
    rows = heads.selectExpr(
        "explode(array('a', 'b')) as member",
        "'main' as domain",
        "cast(1 as bigint) as first_log_index",
        f"cast({last + 1} as bigint) as next_log_index",
        f"cast({EPOCHS} as bigint) as epoch",
        "concat('q', queue_id) as queue",
        "queue_id",
        "cast(1 as bigint) as first_index",
        "last + 1 as next_index",
    )
    rows.coalesce(1).write.mode("overwrite").parquet(str(folder / "heads"))


def audit_one(folder: Path) -> dict[str, Any]:
    """In a process of its own: seconds from the start of Spark, of the checks, and the peak memory of its JVM."""
    from pipeline.audit import audit
    from pipeline.schema import HEADS, HISTORY, LAKE, ddl

    began = time.perf_counter()
    spark = session(HEAP)
    jvm: int = spark._jvm.java.lang.ProcessHandle.current().pid()  # noqa: SLF001 - there is no other way to ask for it
    ready, cpu = time.perf_counter(), cpu_us(jvm)
    journal = spark.read.schema(ddl(LAKE)).parquet(str(folder / "journal"))
    history = spark.read.schema(ddl(HISTORY)).parquet(str(folder / "history"))
    heads = spark.read.schema(ddl(HEADS)).parquet(str(folder / "heads"))
    ends = {
        row["member"]: row["next_log_index"] for row in heads.select("member", "next_log_index").distinct().collect()
    }
    found = audit(journal, history, heads, ends, dict.fromkeys(ends, 1))
    done, cpu = time.perf_counter(), cpu_us(jvm) - cpu
    rows = sum(found.rows.values())
    lines = dict(line.split(":", 1) for line in Path(f"/proc/{jvm}/status").read_text().splitlines())
    found.close()
    return {
        "rows": rows,
        "violations": found.counts,
        "start_s": round(ready - began, 1),
        "checks_s": round(done - ready, 1),
        "all_s": round(done - began, 1),
        "checks_cpu_s": round(cpu / 1e6, 1),
        "cpu_us_per_row": round(cpu / rows, 2),
        "peak_rss_gb": round(int(lines["VmHWM"].split()[0]) / (1 << 20), 2),
    }


def audits(spark: Callable[[], SparkSession], sizes: list[int], folder: Path) -> list[dict[str, Any]]:
    """One after the other, smallest first. Journals are made before; that is not counted."""
    for rows in sizes:
        made_journal(spark(), rows, folder / str(rows))
    spark().stop()
    found = []
    for rows in sizes:
        command = [sys.executable, "-m", "bench.spark_read", "--audit-one", str(folder / str(rows))]
        # Not `run`: when we are stopped it kills the process at once, and its JVM is nobody's child then.
        auditing = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=ROOT)
        out, _ = auditing.communicate()
        if auditing.returncode:
            raise subprocess.CalledProcessError(auditing.returncode, command)
        found.append(json.loads(out.splitlines()[-1]))
        say(f"audit: {found[-1]}")
        if found[-1]["violations"]:
            raise SystemExit(f"the audit found {found[-1]['violations']} in a journal that was made clean")
    return found


def kept(document: Document, values: list[float], *of: str) -> None:
    """A figure of several runs."""
    for number, value in enumerate(values):
        document.add(of, {"run": number, "value": value})


def measure(options: argparse.Namespace, folder: Path, document: Document) -> None:
    """All parts that are wanted."""
    spark = session()  # before any channel: its JVM is forked from here
    if {"read", "stream", "bounded", "master"} & options.only:
        cluster = Cluster(folder / "pair", limits=Limits(journal_bytes=4 << 30))
        with asyncio.Runner() as runner:
            try:
                runner.run(cluster.start())
                runner.run(cluster.wait_ready())
                of_pair(options, spark, cluster, runner.run, folder, document)
            finally:
                runner.run(cluster.stop())
    if "audit" in options.only:
        sizes = sorted({max(1_000, round(rows * options.share)) for rows in options.rows})
        for found in audits(lambda: spark, sizes, folder):
            document.add((AUDIT, f"{found['rows']:,} rows"), {"run": 0, **found})


def of_pair(
    options: argparse.Namespace,
    spark: SparkSession,
    cluster: Cluster,
    run: Callable[[Any], Any],
    folder: Path,
    document: Document,
) -> None:
    if {"read", "stream", "bounded"} & options.only:
        rows = max(FRAME, round(READ_ROWS * options.share))
        run(create(cluster.target, "read"))
        run(send(cluster.target, "read", rows))
        if "read" in options.only:
            kept(document, read_whole(spark, cluster.target, "read"), READ)
        if "stream" in options.only:
            batch = max(FRAME, round(STREAM_BATCH * options.share))
            kept(document, read_stream(spark, cluster.target, "read", batch, folder / "stream"), STREAM)
        if "bounded" in options.only:
            batch = max(FRAME, round(STREAM_BATCH * options.share))
            used = bounded_cost(spark, cluster, "read", batch, options.rounds, folder)
            for what, those in used.items():
                kept(document, [each / rows for each in those], MEMBERS, what)
    if "master" in options.only:
        seconds = max(1.0, LOAD_S * options.share)
        for what, those in beside_ingest(spark, cluster, run, folder, options.rounds, seconds).items():
            kept(document, those, MASTER, what)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="read,stream,bounded,master,audit", type=lambda text: set(text.split(",")))
    parser.add_argument("--share", default=1.0, type=float, help="of all sizes; 0.01: to see that it runs")
    parser.add_argument("--rounds", default=ROUNDS, type=int, help="of the master with and without ingest")
    parser.add_argument("--rows", default=list(AUDIT_ROWS), type=lambda text: [int(each) for each in text.split(",")])
    parser.add_argument("--out", default=OUT, type=Path)
    parser.add_argument("--audit-one", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.audit_one:
        print(json.dumps(audit_one(options.audit_one)), flush=True)
        return
    asked = {"share": options.share, "rounds": options.rounds, "rows": options.rows, "only": sorted(options.only)}
    document = begun("spark", asked)
    where = {"prefix": "tandemq-spark-", "dir": os.environ.get("BENCH_DIR")}
    with stoppable("bench-spark"), tempfile.TemporaryDirectory(**where) as folder, ending_all():
        measure(options, Path(folder), document)
    document.about["load_average"] = round(os.getloadavg()[0], 1)
    document.end()
    document.write(options.out)
    for name, (value, target, reached) in judged(document).items():
        say(f"{name}: {value:,} (target {target:,}) {'reached' if reached else 'MISSED'}")
    say(f"{options.out}")


if __name__ == "__main__":
    main()
