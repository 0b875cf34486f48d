"""One manager in this process for the tests of the tables; a pair of processes for those of replication."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from chaos.cluster import Cluster
from tandemq.classic import QueueManager
from tandemq.client.loop_thread import LoopThread
from tandemq.config import ManagerConfig
from tests.support.clusters import patient


@pytest.fixture(scope="session")
def manager(tmp_path_factory: pytest.TempPathFactory) -> Iterator[QueueManager]:
    """Profile classic, no listener."""
    folder: Path = tmp_path_factory.mktemp("classic")
    config = ManagerConfig(member="classic", data_dir=str(folder), profile="classic", server_required=False)
    with QueueManager(Inside=config) as found:
        found.QueueConfigure()
        found.QueueOpen()
        yield found


@pytest.fixture(scope="session")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Two members and a witness, in processes of their own."""
    thread = LoopThread("the pair's processes")
    cluster = patient(tmp_path_factory.mktemp("pair"))
    running = cluster.running()
    try:
        thread.run(running.__aenter__())
        try:
            yield cluster
        finally:
            thread.run(running.__aexit__(None, None, None))
    finally:
        thread.close()


@pytest.fixture
def members(pair: Cluster) -> Iterator[list[QueueManager]]:
    """A manager object at each member, open."""
    with ExitStack() as stack:
        found = [stack.enter_context(QueueManager(endpoint)) for endpoint in pair.endpoints]
        for each in found:
            each.QueueConfigure()
            each.QueueOpen()
        yield found
