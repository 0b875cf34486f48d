"""One pair for all tests of a module, and a client of it: `pair = module_pair(limits=...)`, `client = module_client()`.

For tests that leave the pair whole; each makes queues and names of its own.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tests.support.clusters import patient


def module_pair(**settings: Any) -> Any:
    """The fixture `pair`; `settings` are those of a Cluster."""

    @pytest.fixture(scope="module")
    def pair(tmp_path_factory: pytest.TempPathFactory) -> Any:
        cluster = patient(tmp_path_factory.mktemp("pair"), **settings)
        asyncio.run(cluster.start())
        yield cluster
        asyncio.run(cluster.stop())

    return pair


def module_client() -> Any:
    """The fixture `client`, of the module's `pair`."""

    @pytest.fixture
    async def client(pair: Cluster) -> AsyncIterator[aio.Client]:
        async with aio.connect(pair.target) as made:
            yield made

    return client
