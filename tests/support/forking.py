"""Has the members of clusters forked from one interpreter, one for each process of a run that starts members; and
commands from another one, where a test asks for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from chaos.fork_server import COMMANDS, ForkServer, in_use
from tests.support.unchanged import accept

_ENDS = pytest.StashKey[ExitStack]()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """The first test that starts processes waits for it."""
    if item.get_closest_marker("process") and _ENDS not in item.config.stash:
        ends = item.config.stash[_ENDS] = ExitStack()
        ends.enter_context(in_use(ends.enter_context(ForkServer())))
        accept(item.config)


@pytest.fixture(scope="session")
def commands(pytestconfig: pytest.Config) -> Iterator[ForkServer]:
    """Runs `tandemq` without importing it anew. `test_imports.py` and others start it, as a user does."""
    with ForkServer(COMMANDS) as server:
        accept(pytestconfig)
        yield server


def pytest_unconfigure(config: pytest.Config) -> None:
    """With the run."""
    if _ENDS in config.stash:
        config.stash[_ENDS].close()
