"""Fixtures of tests at real processes; a module that needs another pair has its own of that name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chaos.cluster import Cluster
from chaos.fork_server import ForkServer
from tests.integration.home import Home
from tests.integration.support import stopped_at_end
from tests.support.clusters import patient


@pytest.fixture
async def pair(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Cluster]:
    """A new one for each test: patient, or as the test says (`indirect`)."""
    async with stopped_at_end(getattr(request, "param", patient)(tmp_path)) as cluster:
        await cluster.start()
        yield cluster


@pytest.fixture
def home(tmp_path: Path, commands: ForkServer) -> Home:
    """Where somebody works who has only the command."""
    return Home(tmp_path, commands)
