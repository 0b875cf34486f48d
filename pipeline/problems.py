"""Decides how a job fails: by a stable reason, whatever Spark made of the exception behind it. Pure.

Spark turns every exception into one of its own, of which only the text is left. The reason is found in there again.
"""

from __future__ import annotations

import re

from tandemq.errors import RULES

BAD_LAKE, LAKE_IN_USE, LAKE_SCHEMA = "BAD_LAKE", "LAKE_IN_USE", "LAKE_SCHEMA"
DISK_FULL, WORKER_LOST, SPARK_FAILED, SPARK_LOST = "DISK_FULL", "WORKER_LOST", "SPARK_FAILED", "SPARK_LOST"
INTERRUPTED, NO_PAYLOAD, LAKE_SHORT = "INTERRUPTED", "NO_PAYLOAD", "LAKE_SHORT"
HISTORY_SCHEMA, DEMO_FAILED, TOO_BUSY, NOT_INSTALLED = "HISTORY_SCHEMA", "DEMO_FAILED", "TOO_BUSY", "NOT_INSTALLED"
UNREADABLE, LAKE_CHANGED, LAKE_UNPROVEN = "UNREADABLE", "LAKE_CHANGED", "LAKE_UNPROVEN"

NEXT_STEPS = {
    "CONFIG_ERROR": "correct that key; docs/SPARK.md lists them",
    BAD_LAKE: "mend what the cause names, or give another directory in lake.path; `tandemq pipeline verify` lists all "
    "that is wrong with a lake",
    UNREADABLE: "restore the file that the cause names",
    LAKE_CHANGED: "run it again",
    LAKE_UNPROVEN: "run ingest, or `tandemq pipeline verify --adopt`: both give it manifests of what is there now",
    LAKE_IN_USE: "wait until that job ends, or stop it; a lake has one ingest at a time",
    LAKE_SCHEMA: "give another directory in lake.path; this one stays as it is",
    HISTORY_SCHEMA: "give Parquet with the columns and values that docs/SPARK.md lists in audit.history",
    DISK_FULL: "make room and run it again: what is in the lake is whole, and it goes on from there",
    WORKER_LOST: "run it again: it goes on from what is in the lake",
    SPARK_LOST: "run it again: it goes on from what is in the lake",
    SPARK_FAILED: "see the cause; Spark's own words are in spark.log beside the report, on stderr with --verbose",
    INTERRUPTED: "run it again: it goes on from what is in the lake",
    TOO_BUSY: "run it again when the machine has less to do",
    LAKE_SHORT: "run ingest first, or give a lower --until-log-index",
    NO_PAYLOAD: "leave them out with --skip-missing, or ingest with source.payloads = true",
    "BAD_WEIGHTS": "see the cause; of an old lake the time is over: run ingest first, or give a longer --valid-for",
    "VERSION_MISMATCH": "another job has published meanwhile: run it again, it computes anew from there",
    "WRITER_TAKEN": "choose another name for --writer",
    "QUEUE_FULL": "consume, or raise max_length and max_bytes of that queue, and run it again",
    "OUT_OF_RANGE": "that stretch of the journal is gone: begin a lake in another directory, and run ingest "
    "more often, or raise limits.journal_bytes and limits.journal_hours of the members",
    "READER_LOST": "what the lake lacks is gone from the members: keep it, begin one in another directory, and run "
    "ingest more often, or raise limits.reader_bytes and limits.reader_hours of the members",
    "QUOTA_EXCEEDED": "delete readers that nobody needs (`tandemq queue reader list`), or give ingest.reader",
    "EPOCH_DIVERGED": "an operator gave up the history that the lake holds: keep it, and begin another one",
    "PAIR_CHANGED": "keep this one, and give another directory in lake.path for the pair that is there now",
    "QUEUE_NOT_FOUND": "take the queue out of source.queues, or create it: `tandemq queue ls`",
    "NO_JAVA": "install Java 17 (openjdk-17-jre-headless), or set JAVA_HOME",
    NOT_INSTALLED: "give executors a Python that has tandemq[spark]: at the path that PYSPARK_PYTHON names, or packed "
    "and given by --archives (docs/SPARK.md, On a cluster)",
    "NO_SPARK": "pip install 'tandemq[spark]'",
    "UNREACHABLE": "see `tandemq pair status`, and start the member that is missing; ingest goes on where it stopped",
    "DEADLINE_EXCEEDED": "see `tandemq pair status`; ingest goes on where it stopped",
    "NO_PROGRESS": "see `tandemq pair status`; ingest goes on where it stopped",
    "SYNCING": "wait until the member is in step again: `tandemq pair status`",
}
WAITED_FOR = frozenset(
    {
        "UNREACHABLE",
        "DEADLINE_EXCEEDED",
        "NO_PROGRESS",
        WORKER_LOST,
        *(name for name, rule in RULES.items() if rule.retryable),
    }
)
"""What may pass: the job waits for it as long as it was configured to."""

_OURS = re.compile(r"tandemq\.errors\.\w+: ([A-Z][A-Z_]+)(?:: ([^\n]*))?")
_OWN = re.compile(r"pipeline\.problems\.PipelineError: ([A-Z][A-Z_]+): ([^\n]*)")
_MISSING = re.compile(r"ModuleNotFoundError: (No module named '[\w.]+')")
_CALLING = "An error occurred while calling o"
_FILE = re.compile(
    r"\[(?:FAILED_READ_FILE|CANNOT_READ_FILE_FOOTER|PATH_NOT_FOUND)[.\w]*\]"
    r"[^\n]*?\bfile:/*(/[^\n]*?)\.?(?: SQLSTATE|\n|$)"
)
CANNOT = " cannot be read"
"""Behind the path, in the cause of UNREADABLE."""
_FULL = ("No space left on device", "Disk quota exceeded")
_LOST = (
    "Python worker exited unexpectedly",
    "Python worker failed to connect back",
    "ExecutorLostFailure",
    "Connection reset",
    "Broken pipe",
    "EOFException",
    "Stream is closed",
    "STREAMING_PYTHON_RUNNER_INITIALIZATION_FAILURE",
    "PYTHON_STREAMING_DATA_SOURCE_RUNTIME_ERROR",
)


# The JVM of the driver ended while it started: PySpark raises this, and no error of a connection.
_NEVER_UP = "JAVA_GATEWAY_EXITED"


class PipelineError(Exception):
    """Ends a job. `reason` is stable, `cause` says what happened."""

    def __init__(self, reason: str, cause: str, next_step: str = "") -> None:
        super().__init__(f"{reason}: {cause}")
        self.reason = reason
        self.cause = cause
        self._next_step = next_step
        """More than is known of the reason."""

    @property
    def next_step(self) -> str:
        """What to do; empty when the cause says it."""
        return self._next_step or NEXT_STEPS.get(self.reason, "")

    @property
    def may_pass(self) -> bool:
        """Whether waiting may help."""
        return self.reason in WAITED_FOR


def problem_of(text: str) -> PipelineError:
    """What a text of Spark's says: the reason of the exception that it was made of."""
    for pattern in (_OWN, _OURS):
        found = pattern.search(text)
        if found:
            return PipelineError(found[1], (found[2] or "").strip() or found[1])
    if missing := _MISSING.search(text):
        return PipelineError(NOT_INSTALLED, f"where a task of Spark runs: {missing[1]}")
    cause = _first_line(text)
    if found := _FILE.search(text):
        return PipelineError(UNREADABLE, f"{found[1]}{CANNOT}: {cause}")
    if _NEVER_UP in text:
        return PipelineError(SPARK_LOST, cause)
    if any(sign in text for sign in _FULL):
        return PipelineError(DISK_FULL, cause)
    return PipelineError(WORKER_LOST if any(sign in text for sign in _LOST) else SPARK_FAILED, cause)


def _first_line(text: str) -> str:
    """The first line that says something: py4j's own first line names an object's number alone."""
    lines = [line.strip() for line in text.splitlines() if not line.startswith(_CALLING)]
    return next((line.removeprefix(": ") for line in lines if line), "Spark said nothing")
