"""One Spark session and one pair for all tests of this folder; without Java or the extra they are skipped loudly, and
fail where they must run.
"""

from __future__ import annotations

import asyncio
import os
import warnings
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from functools import partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import tandemq
from chaos.cluster import Cluster
from tandemq.config import Limits
from tandemq.errors import NotFound, Refused, TimedOut, Unavailable, Unreachable
from tandemq.spark import check_java
from tandemq.spark.java import check_packages
from tests.integration.support import new_name
from tests.support.clusters import patient
from tests.support.unchanged import accept
from tests.support.until import until_sync

REQUIRED = "TANDEMQ_SPARK_REQUIRED"
START_S = 400
"""Ten seconds on an idle machine, two minutes and more on a busy one; each test has it because any may be the first."""
DEAR = ("test_audit.py", "test_weigh.py", "test_attributes.py", "test_bad_lake.py", "test_pipeline_jobs.py")
"""Begun first, so that the last of two processes does not work alone for long."""
AWAY_S = 0.5
"""Who refuses a connection for so long is not there."""
HERE = Path(__file__).parent
SMALL = Limits(journal_bytes=256 << 10, checkpoint_bytes=64 << 10)
CONF = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1280m",
    # What compiles best pays off too late. Most of what is made is dead at once, and what stays are classes: with a
    # small nursery a sixth of the JVM's time went into copying it, with a small metaspace it is looked through twice.
    "spark.driver.extraJavaOptions": (
        "-XX:+UseSerialGC -XX:TieredStopAtLevel=1 -Xms1280m -Xmn768m -XX:MetaspaceSize=384m"
    ),
    # On a few rows most of the time goes into compiling what runs once, and into planning each stage anew: a third of
    # the JVM's time. Jobs that are started as a user does, by the long tests, have both.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.adaptive.enabled": "false",
    # What follows from filters and joins for other columns saves rows, of which there are few here.
    "spark.sql.constraintPropagation.enabled": "false",
    # Only hexadecimal digits are made small here; for that ICU would first build its tables of all characters.
    "spark.sql.icu.caseMappings.enabled": "false",
    # JVM and worker find each other late where many others work: that is no failure before the test's time is over.
    "spark.python.authenticate.socketTimeout": "120s",
}


def required() -> bool:
    return os.environ.get(REQUIRED, "") not in ("", "0")


LEFT_OUT = not all(map(find_spec, ("pyspark", "pyarrow"))) and not required()
collect_ignore_glob = ["test_*.py"] if LEFT_OUT else []  # some need them when they are imported


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    if LEFT_OUT:
        terminalreporter.write_line("SPARK NOT TESTED: no pyspark or no pyarrow (`make spark`)", yellow=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if HERE in item.path.parents:
            item.add_marker(pytest.mark.process)
            item.add_marker(pytest.mark.timeout(START_S))
    if all(HERE in item.path.parents for item in items):
        items.sort(key=lambda item: DEAR.index(item.path.name) if item.path.name in DEAR else len(DEAR))


@pytest.fixture(scope="session")
def spark(pytestconfig: pytest.Config, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    try:
        check_packages()
        check_java()
    except Refused as problem:
        if required():
            pytest.fail(f"{problem} (`make spark`), and {REQUIRED} is set")
        pytest.skip(f"SPARK NOT TESTED: {problem} (`make spark`)")
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # what pyspark warns of while it is imported is not ours
        from tandemq.spark import local_session

        place = tmp_path_factory.mktemp("spark")
        session = local_session(
            conf={**CONF, "spark.local.dir": str(place), "spark.sql.warehouse.dir": str(place / "w")}
        )
    session.sparkContext.setLogLevel("OFF")  # failures that tests ask for would fill the page
    accept(pytestconfig)  # which Python it takes, where that finds packages, and who hears an interrupt
    yield session
    session.stop()


@pytest.fixture(scope="session")
def pair(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """After Spark: its JVM is forked from this process, which should not hold channels then."""
    yield from started(patient(tmp_path_factory.mktemp("pair")))


@pytest.fixture(scope="session")
def small_pair(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One that keeps little: `trim` sees to it that the beginning is gone."""
    yield from started(patient(tmp_path_factory.mktemp("small"), limits=SMALL))


def started(cluster: Cluster) -> Iterator[Cluster]:
    async def begin() -> None:
        await cluster.start()

    try:
        asyncio.run(begin())
        yield cluster
    finally:
        asyncio.run(cluster.stop())


@pytest.fixture
def client(pair: Cluster) -> Iterator[tandemq.Client]:
    with tandemq.connect(pair.target) as made:
        yield made


@pytest.fixture
def filled(client: tandemq.Client) -> Callable[[int], str]:
    """Makes a queue with so many messages, m1 to mN, in records of ten; whoever readers ask knows of all."""

    def make(count: int) -> str:
        queue = new_name()
        client.create_queue(queue)
        more(client, queue, 1, count)
        return queue

    return make


def more(client: tandemq.Client, queue: str, first: int, last: int) -> None:
    """Send m<first> to m<last>, and wait until whoever readers ask has heard of it."""
    for at in range(first, last + 1, 10):
        client.enqueue(queue, [f"m{number}".encode() for number in range(at, min(at + 10, last + 1))])
    heard(client, queue, last + 1)


def heard(client: tandemq.Client, queue: str, next_index: int) -> None:
    """Wait until every member that is there tells readers of that message: a replica hears of a commit with the next
    heartbeat.

    Each is asked for its own copy, over a connection of its own. The client's connection to a member that has just come
    back may wait for its next attempt, and then the other member answers for it; whoever opens a new one, as Spark
    does, asks the one that came back, and it has not heard yet.
    """
    for endpoint in client.target.endpoints:
        with tandemq.connect(endpoint, follow_master=False, timeout=AWAY_S) as member:
            until_sync(partial(tells, member, queue, next_index), f"{endpoint} has heard of {queue}")


def tells(member: tandemq.Client, queue: str, next_index: int) -> bool:
    try:
        return member.journal_head([queue], this_member=True).queues[0].next_index >= next_index
    except Unreachable:
        return True  # it is away: nobody reads there
    except (NotFound, TimedOut, Unavailable):
        return False  # it has not heard of the queue, is not in step, or is slow


def trim(client: tandemq.Client) -> None:
    """Send and take until both members of a small pair have trimmed every record that is there now, and the place
    behind the last of them too.

    Each member is asked itself: a replica hears of a commit a heartbeat later, and members trim at places where their
    log stood for a while. A journal that begins exactly where somebody stopped reading has lost him nothing.
    """
    queue = new_name()
    client.create_queue(queue)
    with ExitStack() as opened:
        members = [
            opened.enter_context(tandemq.connect(endpoint, follow_master=False)) for endpoint in client.target.endpoints
        ]
        there = max(member.journal_head(this_member=True).next.log_index for member in members)
        for member in members:
            while member.journal_head(this_member=True).first.log_index <= there:
                client.enqueue(queue, [bytes(10_000)] * 10)
                client.dequeue(queue, 10).ack()


def trim_to(client: tandemq.Client, place: int) -> None:
    """Send and take until both members of a small pair have trimmed everything before that place, where a named reader
    is: the journal begins there until the reader moves on, whatever is sent.
    """
    queue = new_name()
    client.create_queue(queue)
    for endpoint in client.target.endpoints:
        with tandemq.connect(endpoint, follow_master=False) as member:
            while member.journal_head(this_member=True).first.log_index < place:
                client.enqueue(queue, [bytes(10_000)] * 10)
                client.dequeue(queue, 10).ack()
            assert member.journal_head(this_member=True).first.log_index == place
