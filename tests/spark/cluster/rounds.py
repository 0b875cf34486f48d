"""The run: a pair under load, ingest and a copying query on a cluster, one thing killed a round; then what is there.

Rounds use what is installed at one path for all machines. Then workers lose it, and the jobs go on with an environment
that is packed.
"""

from __future__ import annotations

import asyncio
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

import pipeline
import tandemq
from chaos.cluster import Cluster
from pipeline.lake import Lake
from tandemq.client.journal import JournalKind
from tandemq.errors import TandemqError
from tests.integration.support import master_of
from tests.spark.cluster.judging import Held, Run, messages_at, rows_at
from tests.spark.cluster.lan import ROOT, Host, Lan
from tests.spark.cluster.load import Load
from tests.spark.cluster.packing import Packed
from tests.spark.cluster.standalone import Standalone, StuckError, until
from tests.spark.copying import QUICK
from tests.spark.lakes import journal_rows

MASTER, DRIVER, WORKERS = "spark", "driver", ("one", "two")
QUEUE, COPY = "rounds", "copies"
INGEST, COPYING = "tandemq ingest", "tandemq"
"""Names of the two applications at Spark's master."""
STRIKES = ("executor of ingest", "master of the pair", "worker", "executor of the copy", "executor and master")
MOVES_S, ENDS_S, PAUSE_S_MAX = 900.0, 900.0, 2.0
CONFIG = """\
[source]
target = "{target}"
timeout_s = 10.0
[spark]
master = "{master}"
driver_memory = "1g"
executor_memory = "512m"
executor_cores = 1
shuffle_partitions = 2
[spark.conf]
"spark.cores.max" = "2"
"spark.driver.extraJavaOptions" = "{quick}"
"spark.executor.extraJavaOptions" = "{quick}"
{conf}
[lake]
path = "{lake}"
[ingest]
every_s = 0.2
rows_per_batch = 2000
wait_s = 900.0
[audit]
history = "{history}"
memory_rows = 0
"""
Tell = Callable[[str], None]


class Job:
    """A driver on its machine, started again when it ended by itself."""

    def __init__(self, name: str, host: Host, command: list[str], folder: Path, run: Run) -> None:
        self._host, self._command, self._run = host, command, run
        self._log = folder / "logs" / f"{name}.log"
        self._process = self._start()

    def look(self) -> None:
        if self._process.poll() is not None:
            self._run.drivers_restarted += 1
            self._process = self._start()

    def stop(self) -> int:
        """SIGTERM; its exit code."""
        self._process.terminate()
        return self._process.wait(ENDS_S)

    def _start(self) -> subprocess.Popen[str]:
        with self._log.open("ab") as log:
            return self._host.start(self._command, {}, log, subprocess.STDOUT)


class Story:
    """One run, in a folder of its own, within `lan.inside`."""

    def __init__(self, folder: Path, packed: Packed, rounds: int, seed: int, tell: Tell) -> None:
        self._folder, self._packed, self._tell = folder, packed, tell
        self._chance = random.Random(seed)
        self.run = Run(rounds)
        self._lan = Lan(folder, (MASTER, DRIVER, *WORKERS))
        hosts = self._lan.hosts
        self._workers = [hosts[name] for name in WORKERS]
        self._driver = hosts[DRIVER]
        self._spark = Standalone(hosts[MASTER], self._workers, folder)
        self._pair = Cluster(folder / "pair", host=self._lan.address)
        self._lake = Lake(folder / "lake")
        self._file, self._history = folder / "pipeline.toml", folder / "history.parquet"
        self._write(self._file, "lake")

    def play(self) -> None:
        """All of it. Raises StuckError, ClusterError or OSError when something does not go on."""
        asyncio.run(self._pair.start(MOVES_S))
        with tandemq.connect(self._pair.target) as client:
            client.create_queue(QUEUE)
            client.create_queue(COPY)
        self._spark.start()
        self._tell(f"pair at {self._pair.target}; Spark at {self._spark.url}, workers {' and '.join(WORKERS)}")
        ingest = self._job("ingest", *self._pipeline("ingest", "--continuous"))
        program = [sys.executable, "-P", "-m", "tests.spark.copying", self._pair.target, QUEUE, COPY]
        copying = self._job("copying", *program, str(self._folder / "checkpoint"), self._spark.url)
        with Load(self._pair.target, QUEUE) as load:
            for number in range(self.run.rounds):
                self._moved(ingest, copying)
                time.sleep(self._chance.uniform(0.0, PAUSE_S_MAX))
                strike = STRIKES[number % len(STRIKES)]
                self._strike(strike, number)
                self._tell(f"round {number + 1}: killed {strike}; {len(load.acknowledged):,} acknowledged so far")
            self._moved(ingest, copying)
        self.run.acknowledged, self.run.in_doubt = len(load.acknowledged), len(load.in_doubt)
        self._copied(copying, len(load.acknowledged))
        for name, job in (("ingest ends", ingest), ("copy ends", copying)):
            code = job.stop()
            self.run.steps[name] = f"exit code {code}" if code else ""
        load.write(self._history)
        self._packed_jobs()
        self._compare(load)

    def _write(self, file: Path, lake: str, conf: str = "") -> None:
        text = CONFIG.format(
            target=self._pair.target,
            master=self._spark.url,
            history=self._history,
            quick=QUICK,
            lake=lake,
            conf=conf,
        )
        file.write_text(text, encoding="utf-8")

    def _job(self, name: str, *command: str) -> Job:
        return Job(name, self._driver, list(command), self._folder, self.run)

    def _pipeline(self, *arguments: str, file: Path | None = None) -> list[str]:
        return [sys.executable, "-P", "-m", "tandemq", "pipeline", *arguments, "--config", str(file or self._file)]

    # -- rounds ------------------------------------------------------------------------------------------------------

    def _strike(self, strike: str, number: int) -> None:
        if strike.startswith("executor"):
            self._spark.kill_executor(COPYING if strike == "executor of the copy" else INGEST)
            self.run.executors_killed += 1
        if strike == "worker":
            self._spark.kill_worker(number)
            self.run.workers_killed += 1
        if "master" in strike:
            asyncio.run(self._kill_master())
            self.run.pair_masters_killed += 1

    async def _kill_master(self) -> None:
        master = master_of(await self._pair.wait_ready(MOVES_S))
        self._pair.kill(master)
        await self._pair.restart(master, MOVES_S)
        await self._pair.wait_ready(MOVES_S)

    def _moved(self, ingest: Job, copying: Job) -> None:
        """Both jobs go on: more of each member's journal is in the lake than now, and more in the other queue."""
        before, copied = {name: self._in_lake(name) for name in self._pair.members}, self._in_copy()

        def holds() -> bool:
            ingest.look()
            copying.look()
            there = all(self._in_lake(name) > at for name, at in before.items())
            return there and self._in_copy() > max(copied, 0)

        until(holds, "ingest and copy go on", MOVES_S)

    def _copied(self, copying: Job, count: int) -> None:
        """Returns when so many are in the other queue, as long as there is progress."""
        at = self._in_copy()
        while at < count:
            before = at

            def holds(before: int = before) -> bool:
                copying.look()
                return self._in_copy() > before

            until(holds, f"{COPY} has {before:,} messages of {count:,}, and more come", MOVES_S)
            at = self._in_copy()

    def _in_lake(self, member: str) -> int:
        place = self._lake.end(member)
        return place.log_index if place else 0

    def _in_copy(self) -> int:
        """-1 while nobody answers."""
        with tandemq.connect(self._pair.target, timeout=60.0) as client:
            try:
                return client.get_queue(COPY).last_index
            except TandemqError:
                return -1

    # -- jobs with an environment that is packed ---------------------------------------------------------------------

    def _packed_jobs(self) -> None:
        """Workers have no Tandemq any more: what does not bring it is refused by name, what does works.

        Drivers start where the environment was packed: Spark starts its Python there too, by the executors' name.
        """
        for each in self._workers:
            each.hide(ROOT / "tandemq")
        archive = f"{self._packed.archive}#environment"
        python = "./environment/bin/python"
        submitted, archived = self._submitted, ["--archives", archive]
        self._ends("ingest without an environment", submitted("ingest"), refused="No module named 'tandemq")
        self._ends("ingest, --py-files", submitted("ingest", "--py-files", str(self._packed.wheel)), refused="py-files")
        self._ends("--archives, started elsewhere", submitted("ingest", *archived), python, "there is no", ROOT)
        self._ends("ingest, --archives", submitted("ingest", *archived), python)
        audit = self._ends("audit, --archives", submitted("audit", *archived), python)
        if '"verdict":"clean"' not in audit.replace(" ", ""):
            self.run.steps["audit, --archives"] = f"not clean: {audit[-300:]}"
        anew = self._folder / "anew.toml"
        self._write(anew, "anew", f'"spark.archives" = "{archive}"\n"spark.pyspark.python" = "{python}"')
        self._ends("ingest anew, spark.archives", self._pipeline("ingest", "-o", "json", file=anew))

    def _submitted(self, job: str, *options: str) -> list[str]:
        script = Path(pipeline.__file__).with_name("__main__.py")  # as `tandemq pipeline script` says
        submit = [str(Path(sys.executable).parent / "spark-submit"), "--master", self._spark.url]
        sizes = ["--driver-memory", "1g", "--driver-java-options", QUICK]
        return [*submit, *sizes, *options, str(script), job, "--config", str(self._file), "-o", "json"]

    def _ends(
        self,
        step: str,
        command: list[str],
        python: str = sys.executable,
        refused: str = "",
        place: Path | None = None,
    ) -> str:
        """Its last line, on the driver's machine. refused: it must fail, by name, and say that."""
        environment = {"PYSPARK_PYTHON": python, "PYSPARK_DRIVER_PYTHON": sys.executable}
        began = time.monotonic()
        log = self._folder / "logs" / f"{step.replace(',', '').replace(' ', '-')}.log"
        with log.open("wb") as out:
            started = self._driver.start(command, environment, out, subprocess.STDOUT, place or self._folder)
            code = started.wait(ENDS_S)
        told = log.read_text(encoding="utf-8", errors="replace")
        good = code == 1 and "error: NOT_INSTALLED" in told and refused in told if refused else code == 0
        self.run.steps[step] = "" if good else f"exit code {code}: {' '.join(told.split())[-300:]}"
        self._tell(f"{step}: exit code {code} after {time.monotonic() - began:.0f} s")
        return (told.splitlines() or [""])[-1]

    # -- what is there -----------------------------------------------------------------------------------------------

    def _compare(self, load: Load) -> None:
        held = self.run.held
        for lake in (self._lake, Lake(self._folder / "anew")):
            for name in self._pair.members:
                held += self._compared(lake, name, load)
        with tandemq.connect(self._pair.target, timeout=60.0) as client:
            pages = client.read_journal([QUEUE], kinds=[JournalKind.ENQUEUED])
            sent = [row.payload for page in pages for row in page.rows()]
            copied = [(message.payload, message.index) for message in client.browse(COPY)]
        held.append(messages_at(f"queue {COPY}", load.acknowledged, load.in_doubt, copied, indexed=False))
        in_order = [body for body, _ in copied] == sent
        self.run.steps["order of the copy"] = "" if in_order else "the copy is not in the order of its source"

    def _compared(self, lake: Lake, member: str, load: Load) -> list[Held]:
        place = lake.end(member)
        rows = lake_rows(lake, member)
        entered = [
            (row["payload"], row["index"]) for row in rows if row["kind"] == "ENQUEUED" and row["queue"] == QUEUE
        ]
        plain = [(row["log_index"], row["kind"], row["index"], row["count"]) for row in rows]
        original = journal_rows(self._pair, member, place.log_index if place else 0)
        where = f"{lake.path.name}, member {member}"
        return [
            messages_at(f"{where}: messages", load.acknowledged, load.in_doubt, entered),
            rows_at(f"{where}: journal", original, plain),
        ]


def lake_rows(lake: Lake, member: str) -> list[dict[str, Any]]:
    """As the files have them: nothing of Spark is asked."""
    columns = ["log_index", "kind", "queue", "index", "count", "payload"]
    return [
        row
        for stretch in lake.stretches(member)
        for file in sorted(stretch.path.glob("*.parquet"))
        for row in pq.ParquetFile(file).read(columns).to_pylist()
    ]


def said(error: BaseException, folder: Path) -> str:
    """For people: what ended the run, and where the logs are."""
    kind = "stuck" if isinstance(error, StuckError) else type(error).__name__
    return f"{kind}: {error}; logs are in {os.path.relpath(folder / 'logs')}"
