"""The writer copies before it cuts: also when there is no room for the copy, and when the disk fails."""

from __future__ import annotations

import asyncio
import errno
from pathlib import Path

import pytest

import replica.node.loop
from replica.core.state.effects import Persist, Salvage
from replica.machine import Limits
from replica.node.loop import Node
from replica.node.recovery import open_shared
from replica.node.salvage import SalvageFiles
from replica.node.writer import WriterThread
from storage.errors import StoreFull
from storage.files import DirectoryFiles
from storage.store import Store
from tests.support.domains import domain_over
from tests.support.listening import Quiet
from tests.support.until import OUTER_S
from tests.unit.replica.node.test_salvage import DOMAIN, filled

CUT = Salvage(2, 3, 3, "test")


class Writer:
    """A node whose store has three enqueues, a cut to 1 asked for, and what happened in the order in which it did."""

    def __init__(self, directory: Path, *failures: Exception) -> None:
        self.store = filled("enqueue", "enqueue", "enqueue")
        self.files = SalvageFiles(DirectoryFiles(directory), pair="p", member="a")
        self.node = Node(self.store, None, Limits(), Quiet(), self, WriterThread())
        self.failures = list(failures)
        self.seen: list[str] = []
        shared = open_shared(self.store, DOMAIN, "main", "a", "b", 1, Limits())
        self.domain = domain_over(self.store, shared)
        self.node.domains[DOMAIN] = self.domain
        self.node.start()

    def keep(self, store: Store, number: int, domain: str, salvage: Salvage) -> None:
        there = self.store.read(DOMAIN, 3) is not None
        self.seen.append("copy" if there else "copy after the cut")
        if self.failures:
            raise self.failures.pop(0)
        self.files.keep(store, number, domain, salvage)

    async def cut(self) -> None:
        self.domain.shared.outbox.effects += [CUT, Persist(cut=1)]
        self.node.dispatch(self.domain)
        await asyncio.wait_for(asyncio.shield(self.node.flush()), OUTER_S)


async def test_the_copy_is_there_before_the_cut(tmp_path: Path) -> None:
    writer = Writer(tmp_path)
    await writer.cut()
    assert writer.seen == ["copy"]
    assert writer.store.bounds(DOMAIN) == (1, 1)
    assert [info.foot.acknowledged for info in writer.files.infos()] == [2]
    await writer.node.stop()


async def test_without_room_the_cut_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replica.node.loop, "FULL_RETRY_S", 0.01)
    writer = Writer(tmp_path, StoreFull("no room", "here"), StoreFull("no room", "here"))
    await writer.cut()
    assert writer.seen == ["copy"] * 3
    assert writer.store.bounds(DOMAIN) == (1, 1)
    assert len(writer.files.infos()) == 1
    await writer.node.stop()


async def test_a_disk_that_fails_stops_the_process_and_nothing_is_cut(tmp_path: Path) -> None:
    writer = Writer(tmp_path, OSError(errno.EIO, "Input/output error"))
    cut = asyncio.create_task(writer.cut())
    error = await asyncio.wait_for(asyncio.shield(writer.node.failed), OUTER_S)
    assert isinstance(error, OSError)
    assert writer.store.bounds(DOMAIN) == (1, 3)
    cut.cancel()
    await asyncio.gather(cut, return_exceptions=True)
    await writer.node.stop()
