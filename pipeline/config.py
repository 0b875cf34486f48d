"""Decides what a pipeline's configuration means, and what is refused; it opens nothing but that file.

Every refusal names the file, the key, the value and what to do. Paths are those of the file's own directory.
"""

from __future__ import annotations

import difflib
import math
import re
import tomllib
from pathlib import Path
from typing import Any

import msgspec

from pipeline.problems import PipelineError
from tandemq.client.target import parse_endpoints

ROWS_MAX, PARTITIONS_MAX, SECONDS_MAX = 100_000_000, 10_000, 7 * 86_400.0
QUEUES_MAX = 1_000
"""As the source has it."""
MIB = 1 << 20
MASTER = re.compile(r"(local(\[(\*|[0-9]+)(,\s*[0-9]+)?\])?|local-cluster\[.+\]|(spark|k8s|mesos)://.+|yarn)")
MEMORY = re.compile(r"[1-9][0-9]*[kmgt]")
READER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")
"""As the pair has it."""


EXAMPLE = """\
# A pipeline: `tandemq pipeline ingest --config THIS`. Paths are those of this file's directory.

[source]
target = "127.0.0.1:7600,127.0.0.1:7610"  # the endpoints of both members
domain = "main"
queues = []            # all; an audit needs all
payloads = true        # false leaves the bodies out of the lake
timeout_s = 10.0       # one call

[lake]
path = "lake"          # on a cluster: what the driver and every executor see at the same path

[spark]
master = ""            # local[2,4]; under spark-submit what that was given
driver_memory = "2g"
executor_memory = ""   # Spark's own
executor_cores = 0     # Spark's own
shuffle_partitions = 4
local_dir = ""         # where Spark spills to; /tmp
conf = {}              # anything else: { "spark.executor.instances" = "4" }

[ingest]
rows_per_batch = 200000
partitions = 2         # tasks of a micro-batch
every_s = 2.0          # between micro-batches, with --continuous
wait_s = 300.0         # how long a member may be away
compact_mib = 128      # put small files together up to this; 0: never
reader = "own"         # who keeps the journal for this lake: a name of its own, one that you give, or "" for nobody

[audit]
history = ""           # Parquet that clients kept; none: the journals alone
memory_rows = 100000   # up to so many rows are judged in memory, without Spark; 0: never

[stats]
window_s = 10

[report]
path = "reports"       # report.html and result.json, a directory a job
"""


class Source(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whose journals."""

    target: str
    """Endpoints of both members, or of one that has no peer."""
    domain: str = "main"
    queues: tuple[str, ...] = ()
    """Empty: all of the domain, and what names no queue. An audit needs all."""
    payloads: bool = True
    timeout_s: float = 10.0
    """One call."""

    @property
    def endpoints(self) -> tuple[str, ...]:
        return parse_endpoints(self.target)


class LakeAt(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where the lake is."""

    path: str = "lake"
    """A directory; on a cluster one that the driver and every executor see at the same path."""

    def path_of(self) -> Path:
        return Path(self.path)


class SparkOptions(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How large Spark is. What is empty is left to Spark, or to spark-submit."""

    master: str = ""
    """Empty: local[2,4], two tasks at once, each tried four times; under spark-submit what that was given."""
    driver_memory: str = "2g"
    executor_memory: str = ""
    executor_cores: int = 0
    shuffle_partitions: int = 4
    local_dir: str = ""
    conf: dict[str, str] = {}


class Ingest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """How the journals are followed."""

    rows_per_batch: int = 200_000
    """Of a micro-batch of one member; up to the end of the record that holds the last of them."""
    partitions: int = 2
    """Tasks of a micro-batch."""
    every_s: float = 2.0
    """Between micro-batches, with --continuous."""
    wait_s: float = 300.0
    """How long a member may be away, or nothing move, before the job gives up."""
    compact_mib: int = 128
    """Stretches that are smaller are put together up to this; 0: never."""
    reader: str = "own"
    """Name at the pair under which it keeps what is not in the lake yet (pipeline.keeping); empty: it keeps nothing."""


ROWS_IN_MEMORY_MAX = 2_000_000
"""About a kilobyte each, and 20 microseconds."""


class Audit(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What the audit compares the journals with."""

    history: str = ""
    """Parquet that clients kept (pipeline/schema.py: HISTORY); empty: the journals alone."""
    memory_rows: int = 100_000
    """Up to so many rows are judged in memory, without Spark; 0: never."""


class Stats(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The windows of the statistics."""

    window_s: int = 10


class Report(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Where reports go, one directory a job."""

    path: str = "reports"


class Pipeline(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A whole file."""

    source: Source
    lake: LakeAt = LakeAt()
    spark: SparkOptions = SparkOptions()
    ingest: Ingest = Ingest()
    audit: Audit = Audit()
    stats: Stats = Stats()
    report: Report = Report()


def load(path: Path) -> Pipeline:
    """Read a file. Raises PipelineError with reason CONFIG_ERROR."""
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise _bad(f"{path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise _bad(f"{path}: is not UTF-8: {error.reason} at byte {error.start}") from error
    return parse(text, str(path), path.resolve().parent)


def parse(text: str, source: str, home: Path) -> Pipeline:
    """Raises PipelineError with reason CONFIG_ERROR for what is no TOML, not known, of the wrong kind or cannot be."""
    try:
        document = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise _bad(f"{source}: is not TOML: {error}") from error
    try:
        found = msgspec.convert(document, Pipeline)
    except msgspec.ValidationError as error:
        raise _bad(f"{source}: {_said(str(error))}") from error
    check(found, source)
    return _placed(found, home)


def check(found: Pipeline, source: str) -> None:
    """Raises PipelineError with reason CONFIG_ERROR unless a pipeline with these values can work."""

    def refuse(where: str, value: object, advice: str) -> None:
        raise _bad(f"{source}: {where} = {value!r}: {advice}")

    given = found.source
    try:
        endpoints = given.endpoints
    except ValueError as error:
        refuse("source.target", given.target, str(error))
    else:
        if not 1 <= len(endpoints) <= 2:
            refuse("source.target", given.target, "the endpoints of both members, host:port,host:port")
    if len(given.queues) > QUEUES_MAX:
        refuse("source.queues", f"{given.queues[0]},...", f"{len(given.queues)} queues; at most {QUEUES_MAX}")

    for where, path in (("lake.path", found.lake.path), ("report.path", found.report.path)):
        if not path or "://" in path:
            refuse(where, path, "a directory's path; what is mounted nowhere cannot be published at one stroke")
    _check_spark(found.spark, refuse)
    for where, number, low, high in (
        ("ingest.rows_per_batch", found.ingest.rows_per_batch, 1, ROWS_MAX),
        ("ingest.partitions", found.ingest.partitions, 1, PARTITIONS_MAX),
        ("stats.window_s", found.stats.window_s, 1, 86_400),
        ("ingest.compact_mib", found.ingest.compact_mib, 0, 1 << 20),
        ("audit.memory_rows", found.audit.memory_rows, 0, ROWS_IN_MEMORY_MAX),
    ):
        if not low <= number <= high:
            refuse(where, number, f"a whole number from {low} to {high}")
    if found.ingest.reader and not READER.fullmatch(found.ingest.reader):
        advice = 'own, "", or 1 to 64 of A-Z a-z 0-9 . _ -, beginning with a letter or digit'
        refuse("ingest.reader", found.ingest.reader, advice)
    for where, seconds, least in (
        ("source.timeout_s", given.timeout_s, 1.0),
        ("ingest.every_s", found.ingest.every_s, 0.0),
        ("ingest.wait_s", found.ingest.wait_s, 0.0),
    ):
        if not math.isfinite(seconds) or not least <= seconds <= SECONDS_MAX:
            refuse(where, seconds, f"seconds, from {least:g} to {SECONDS_MAX:g}")


def _check_spark(spark: SparkOptions, refuse: Any) -> None:
    if spark.master and not MASTER.fullmatch(spark.master):
        refuse("spark.master", spark.master, "as Spark has it: local[2,4], spark://host:7077, yarn, k8s://...")
    for where, memory in (("driver_memory", spark.driver_memory), ("executor_memory", spark.executor_memory)):
        if memory and not MEMORY.fullmatch(memory.lower()):
            refuse(f"spark.{where}", memory, "a whole number with its unit: 512m, 4g")
    if not 1 <= spark.shuffle_partitions <= PARTITIONS_MAX:
        refuse("spark.shuffle_partitions", spark.shuffle_partitions, f"1 to {PARTITIONS_MAX}")
    if not 0 <= spark.executor_cores <= 1024:
        refuse("spark.executor_cores", spark.executor_cores, "0 (Spark's own number) to 1024")
    for key in spark.conf:
        if not key.startswith("spark."):
            refuse(f"spark.conf.{key}", spark.conf[key], "keys begin with spark.; write them in quotes")


def _placed(found: Pipeline, home: Path) -> Pipeline:
    """With paths from the file's own directory, so that it does not matter where the job is started."""

    def place(path: str) -> str:
        return str((home / Path(path).expanduser()).resolve()) if path else ""

    change = msgspec.structs.replace
    return change(
        found,
        lake=change(found.lake, path=place(found.lake.path)),
        audit=change(found.audit, history=place(found.audit.history)),
        report=change(found.report, path=place(found.report.path)),
        spark=change(found.spark, local_dir=place(found.spark.local_dir)),
    )


_UNKNOWN = re.compile(r"Object contains unknown field `([^`]*)`(?: - at `\$\.?([^`]*)`)?")
_MISSING = re.compile(r"Object missing required field `([^`]*)`(?: - at `\$\.?([^`]*)`)?")
_WRONG = re.compile(r"(.*) - at `\$\.?([^`]*)`")
_SECTIONS: dict[str, type[msgspec.Struct]] = {
    "": Pipeline,
    "source": Source,
    "lake": LakeAt,
    "spark": SparkOptions,
    "ingest": Ingest,
    "audit": Audit,
    "stats": Stats,
    "report": Report,
}


def _said(message: str) -> str:
    """msgspec's message as ours, with what was meant."""
    if found := _UNKNOWN.search(message):
        known = list(_SECTIONS.get(found[2] or "", Pipeline).__struct_fields__)
        near = difflib.get_close_matches(found[1], known, n=1)
        hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(known)}"
        return f"unknown key {_dotted(found[2], found[1])}; {hint}"
    if found := _MISSING.search(message):
        return f"{_dotted(found[2], found[1])} is missing"
    if found := _WRONG.search(message):
        return f"{found[2]}: {found[1]}"
    return message


def _dotted(section: str | None, key: str) -> str:
    return f"{section}.{key}" if section else key


def _bad(text: str) -> PipelineError:
    return PipelineError("CONFIG_ERROR", text)
