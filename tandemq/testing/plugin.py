"""The pytest plugin, loaded at every start of pytest where Tandemq is installed; starts nothing unasked, and imports
neither gRPC nor the server.

A test that names one of its fixtures gets a pair of real processes. docs/PYTEST.md tells how to use it.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tandemq.testing.faults import Chaos
    from tandemq.testing.pair import Pair, Principal, Witness
    from tandemq.testing.running import Run, Running
    from tandemq.testing.workload import Workload

MARKER = "tandemq"
MARKER_LINE = (
    "tandemq(seed=N, profile='safe', config={'timers': {...}}, ready_s=60, secure=True): the pair that the fixtures "
    "tandemq_* of this test get; the seed is printed when it fails"
)
_RUNNING: pytest.StashKey[Running] = pytest.StashKey()
_RUN: pytest.StashKey[Run] = pytest.StashKey()
_PASSED: pytest.StashKey[bool] = pytest.StashKey()
_WORKLOAD: pytest.StashKey[Workload] = pytest.StashKey()
_PROBLEM: pytest.StashKey[str] = pytest.StashKey()


# -- hooks -------------------------------------------------------------------------------------------------------------


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--tandemq-seed` and others."""
    group = parser.getgroup("tandemq", "a Tandemq pair for tests")
    group.addoption("--tandemq-seed", type=int, metavar="N", help="seed of every test, to repeat a failure")
    group.addoption("--tandemq-report", metavar="DIR", help="keep logs and history of each failing test there")
    group.addoption("--tandemq-toxiproxy", metavar="FILE", help="toxiproxy-server; default: the one on the PATH")
    group.addoption("--tandemq-keep-pair", action="store_true", help="one pair for all tests that want the same")
    parser.addini("tandemq_toxiproxy", "without Toxiproxy: require (tests fail; default) or skip", default="require")


def pytest_configure(config: pytest.Config) -> None:
    """Says what the marker takes."""
    config.addinivalue_line("markers", MARKER_LINE)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A marker that makes no sense fails its test, also one that uses no fixture of ours."""
    if item.get_closest_marker(MARKER) is not None:
        from tandemq.testing.settings import checked_settings

        checked_settings(item)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Adds to the report of a failure what the pair can tell."""
    report = yield
    if report.when == "call":
        item.stash[_PASSED] = report.passed
    run = item.stash.get(_RUN, None)
    if run is not None and report.failed:
        report.sections.extend(run.sections(item))
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> None:
    """Judges the load of a test that passed, before any fixture ends: the application is still there."""
    workload = item.stash.get(_WORKLOAD, None)
    if workload is not None and workload.judged is None and item.stash.get(_PASSED, False):
        from tandemq.testing.host import TandemqTestError
        from tandemq.testing.workload import PromiseBroken

        try:
            workload.verdict()
        except (PromiseBroken, TandemqTestError) as error:
            item.stash[_PROBLEM] = str(error)  # what is raised here would keep other fixtures from their end


def pytest_keyboard_interrupt(excinfo: pytest.ExceptionInfo[BaseException]) -> None:
    """What follows is cleaning up, not judging."""
    del excinfo
    from tandemq.testing import host

    host.interrupted = True


def pytest_unconfigure(config: pytest.Config) -> None:
    """Ends the pair that was kept, if any."""
    running = config.stash.get(_RUNNING, None)
    if running is not None:
        running.close()


# -- fixtures ----------------------------------------------------------------------------------------------------------


@pytest.fixture
def _tandemq_run(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    from tandemq.testing.running import Running
    from tandemq.testing.settings import checked_settings, toxiproxy_of

    stash, item = request.config.stash, request.node
    running = stash.setdefault(_RUNNING, Running(keep=request.config.getoption("--tandemq-keep-pair")))
    settings = checked_settings(item)
    toxiproxy = toxiproxy_of(request.config) if "tandemq_chaos" in item.fixturenames else None
    run = running.prepare(settings, toxiproxy, tmp_path_factory)
    item.stash[_RUN] = run
    running.start(run)
    try:
        yield run
    finally:
        running.end(run, sound=item.stash.get(_PASSED, False))


@pytest.fixture
def tandemq_pair(_tandemq_run: Run) -> Iterator[Pair]:
    """A pair of real processes with a witness, whole; see tandemq.testing.Pair.

    def test_it_survives(tandemq_pair):
        client = tandemq_pair.client()
        client.create_queue("orders")
        tandemq_pair.kill("master")
        client.enqueue("orders", [b"first"])
    """
    yield _tandemq_run.pair
    _tandemq_run.pair.close_clients()


@pytest.fixture
def tandemq_principal(tandemq_pair: Pair) -> Callable[[str], Principal]:
    """Makes clients of tandemq_pair that have a certificate and no right; see tandemq.testing.Principal.

    def test_billing_may_send_and_nothing_else(tandemq_pair, tandemq_principal):
        billing = tandemq_principal("billing")
        billing.grant("produce", "orders")
        billing.client().enqueue("orders", [b"first"])
    """
    return tandemq_pair.principal


@pytest.fixture
def tandemq_witness(tandemq_pair: Pair, _tandemq_run: Run) -> Witness:
    """The witness of tandemq_pair; see tandemq.testing.Witness."""
    del tandemq_pair
    return _tandemq_run.witness


@pytest.fixture
def tandemq_chaos(tandemq_pair: Pair, _tandemq_run: Run) -> Chaos:
    """Faults at tandemq_pair, with Toxiproxy between its processes; see tandemq.testing.Chaos.

    def test_a_partition(tandemq_pair, tandemq_chaos):
        with tandemq_chaos.held("cut"):
            ...
    """
    del tandemq_pair
    return _tandemq_run.chaos


@pytest.fixture
def tandemq_workload(tandemq_pair: Pair, _tandemq_run: Run, request: pytest.FixtureRequest) -> Iterator[Workload]:
    """Messages of which each is accounted for, sent while the test runs; see tandemq.testing.Workload.

    def test_nothing_is_lost(tandemq_pair, tandemq_workload):
        tandemq_workload.start()
        tandemq_pair.kill("master")
        tandemq_workload.goes_on()
    """
    from tandemq.testing.workload import Workload

    del tandemq_pair
    request.node.stash[_WORKLOAD] = Workload(_tandemq_run.host)
    yield request.node.stash[_WORKLOAD]
    if problem := request.node.stash.get(_PROBLEM, ""):
        pytest.fail(problem, pytrace=False)
