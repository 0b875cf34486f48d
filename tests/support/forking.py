"""Has the members of clusters forked from one interpreter, one for each process of a run that starts members."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from chaos.fork_server import ForkServer, in_use
from tests.support.unchanged import accept

_ENDS = pytest.StashKey[ExitStack]()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """The first test that starts processes waits for it."""
    if item.get_closest_marker("process") and _ENDS not in item.config.stash:
        ends = item.config.stash[_ENDS] = ExitStack()
        ends.enter_context(in_use(ends.enter_context(ForkServer())))
        accept(item.config)


def pytest_unconfigure(config: pytest.Config) -> None:
    """With the run."""
    if _ENDS in config.stash:
        config.stash[_ENDS].close()
