"""Spark's texts become stable reasons again, and each has a next step."""

from __future__ import annotations

import pytest

from pipeline.problems import NEXT_STEPS, PipelineError, problem_of

STREAM = """[STREAM_FAILED] Query [id = 1, runId = 2] terminated with exception: [PYTHON_DATA_SOURCE_ERROR] Failed when
Python data source instance read data: Traceback (most recent call last):
  File "stream.py", line 66, in latestOffset
"""


@pytest.mark.parametrize(
    ("text", "reason", "may_pass"),
    [
        (STREAM + "tandemq.errors.Refused: OUT_OF_RANGE: log index 3 is trimmed\n", "OUT_OF_RANGE", False),
        (STREAM + "tandemq.errors.Refused: EPOCH_DIVERGED: no\n", "EPOCH_DIVERGED", False),
        ("[JAVA_GATEWAY_EXITED] Java gateway process exited before sending its port number.", "SPARK_LOST", False),
        (STREAM + "tandemq.errors.NotFound: QUEUE_NOT_FOUND: orders\n", "QUEUE_NOT_FOUND", False),
        (STREAM + "tandemq.errors.Unreachable: UNREACHABLE: 127.0.0.1:1\n", "UNREACHABLE", True),
        (STREAM + "tandemq.errors.TimedOut: DEADLINE_EXCEEDED\n", "DEADLINE_EXCEEDED", True),
        (STREAM + "tandemq.errors.Unavailable: SYNCING: not in step\n", "SYNCING", True),
        ("... pipeline.problems.PipelineError: DISK_FULL: /lake cannot be written\n", "DISK_FULL", False),
        ("SparkException: Job aborted: java.io.IOException: No space left on device", "DISK_FULL", False),
        ("PicklingError ... ModuleNotFoundError: No module named 'tandemq'\n", "NOT_INSTALLED", False),
        (STREAM + "tandemq.errors.Refused: NOT_INSTALLED: out of x.whl\n", "NOT_INSTALLED", False),
        ("SparkException: Python worker exited unexpectedly (crashed)", "WORKER_LOST", True),
        ("ExecutorLostFailure (executor 1 exited caused by one of the running tasks)", "WORKER_LOST", True),
        ("[SOME_THING] nobody knows", "SPARK_FAILED", False),
        ("", "SPARK_FAILED", False),
    ],
)
def test_the_reason_is_found_in_what_spark_says(text: str, reason: str, may_pass: bool) -> None:
    found = problem_of(text)
    assert (found.reason, found.may_pass) == (reason, may_pass)
    assert found.cause
    assert found.next_step


def test_the_cause_is_what_happened_and_no_number_of_an_object() -> None:
    found = problem_of('An error occurred while calling o84.load.\n: java.io.IOException: Cannot run program "x"\n\tat')
    assert found.cause == 'java.io.IOException: Cannot run program "x"'


def test_a_reason_survives_being_told_by_spark() -> None:
    problem = PipelineError("LAKE_SCHEMA", "columns differ")
    again = problem_of(f"Traceback ...\n{type(problem).__module__}.PipelineError: {problem}\n  at org.apache")
    assert (again.reason, again.cause) == ("LAKE_SCHEMA", "columns differ")
    assert NEXT_STEPS["LAKE_SCHEMA"] == again.next_step


FILE = "/lake/journal/member=a/log-1/part-0.parquet"
READING = f"""An error occurred while calling o95.parquet.
: org.apache.spark.SparkException: [FAILED_READ_FILE.NO_HINT] Encountered error while reading file://{FILE}. SQLSTATE: K
\tat org.apache"""


@pytest.mark.parametrize(
    ("text", "path"),
    [
        (READING, FILE),
        ("[PATH_NOT_FOUND] Path does not exist: file:/lake/my journal/x. SQLSTATE: 42K03", "/lake/my journal/x"),
    ],
)
def test_a_file_that_spark_cannot_read_is_named(text: str, path: str) -> None:
    found = problem_of(text)
    assert found.reason == "UNREADABLE"
    assert found.cause.startswith(f"{path} cannot be read: ")
    assert "calling o95" not in found.cause


def test_no_number_of_an_object_is_a_cause() -> None:
    text = "An error occurred while calling o41.count.\n: java.lang.IllegalStateException: no such thing\n\tat x"
    assert problem_of(text).cause == "java.lang.IllegalStateException: no such thing"
