"""Fixtures of tests at real processes; a module that needs another pair has its own of that name."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from chaos.cluster import Cluster
from tests.integration.home import Home
from tests.integration.support import stopped_at_end


@pytest.fixture
async def pair(tmp_path: Path) -> AsyncIterator[Cluster]:
    """A new one for each test."""
    async with stopped_at_end(Cluster(tmp_path)) as cluster:
        await cluster.start()
        yield cluster


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Where somebody works who has only the command."""
    return Home(tmp_path)
