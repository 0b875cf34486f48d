"""Runs a job: its configuration, a session for it, the job, its report. It decides nothing about any job."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from pipeline import config as configs
from pipeline import report
from pipeline.config import Pipeline
from pipeline.integrity import RESTORE, prove
from pipeline.lake import Lake
from pipeline.outcome import Outcome
from pipeline.problems import (
    BAD_LAKE,
    CANNOT,
    INTERRUPTED,
    LAKE_CHANGED,
    SPARK_LOST,
    UNREADABLE,
    PipelineError,
    problem_of,
)
from pipeline.session import check_machine, opened

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


class Context(NamedTuple):
    """What a job is given."""

    spark: SparkSession
    config: Pipeline
    stop: threading.Event
    """Set by SIGINT, SIGTERM and SIGHUP."""
    notify: Callable[[str], None]


SIGNAL_S = 1.0
"""Between the end of Spark's process and the signal that both got."""
Job = Callable[[Context], Outcome]


class Ended(NamedTuple):
    """A job that came to its end, and where its page is."""

    outcome: Outcome
    page: Path | None
    """None: there is no report."""
    seconds: float


def run(
    name: str,
    make: Callable[[], Job],
    file: Path,
    *,
    master: str = "",
    verbose: bool = False,
    notify: Callable[[str], None],
    small: Callable[[Pipeline], Outcome | None] | None = None,
) -> Ended:
    """Raises PipelineError. What the job has published by then stays; no report is written.

    make: called when Spark runs, because what a job imports needs it. small: asked first, before Spark is started; what
    it answers is what the job came to.
    """
    config = configs.load(file)
    if master:
        config = msgspec.structs.replace(config, spark=msgspec.structs.replace(config.spark, master=master))
        configs.check(config, "--master")
    check_machine()
    place = Path(config.report.path) / name
    with stopped_by_signals() as stop, reporting_interrupts(stop), reporting_problems():
        began = time.monotonic()
        outcome = small(config) if small is not None else None
        if outcome is None:
            with (
                opened(config.spark, name, place, verbose=verbose) as spark,
                reporting_unreadable(Lake(config.lake.path_of())),
            ):
                outcome = make()(Context(spark, config, stop, notify))
        page = report.write(place, outcome)
        return Ended(outcome, page, time.monotonic() - began)


@contextmanager
def reporting_interrupts(stop: threading.Event) -> Iterator[None]:
    """A signal that goes to a whole group of processes ends Spark's too, and maybe before this one has heard of it."""
    try:
        yield
    except PipelineError as problem:
        if problem.reason == SPARK_LOST and stop.wait(SIGNAL_S):
            raise PipelineError(INTERRUPTED, "stopped by a signal") from problem
        raise


@contextmanager
def reporting_unreadable(lake: Lake) -> Iterator[None]:
    """Of a file of the lake that Spark could not read the reason is reported: it was damaged after the job had looked
    at it, or an ingest has put it together with others.
    """
    try:
        with reporting_problems():
            yield
    except PipelineError as error:
        if error.reason != UNREADABLE or str(lake.path) not in error.cause:
            raise
        proof = prove(lake)
        if proof.of_before:
            raise PipelineError(BAD_LAKE, error.cause, RESTORE) from error
        if Path(error.cause.partition(CANNOT)[0]).exists():
            advice = "see that every executor sees the lake at the same path, and may read it"
            raise PipelineError(UNREADABLE, f"{error.cause}; here it is as it was published", advice) from error
        text = f"an ingest has put stretches of {lake.path} together while this job read them: {error.cause}"
        raise PipelineError(LAKE_CHANGED, text) from error


@contextmanager
def reporting_problems() -> Iterator[None]:
    """What Spark raises becomes a PipelineError with the reason that is in its text."""
    from py4j.protocol import Py4JError, Py4JNetworkError
    from pyspark.errors import PySparkException

    try:
        yield
    except PySparkException as error:
        raise problem_of(str(error)) from error
    except (Py4JNetworkError, ConnectionError) as error:
        raise PipelineError(SPARK_LOST, f"Spark's process is gone: {error}") from error
    except Py4JError as error:
        try:
            text = str(error)  # Spark's process is asked for it
        except (Py4JError, ConnectionError) as gone:
            raise PipelineError(SPARK_LOST, f"Spark's process is gone: {gone}") from error
        raise problem_of(text) from error


@contextmanager
def stopped_by_signals() -> Iterator[threading.Event]:
    """An event that a signal sets, until the block ends. Only in the main thread; elsewhere nobody sets it."""
    stop = threading.Event()

    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    before = {number: signal.signal(number, on_signal) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
