"""When the loop's own thread waits for the disk: not longer than a moment, not again at a slow one, never before what
is ready to run, and for one short step alone.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest

import replica.node.writer
from replica.core.state.effects import Persist, Salvage
from replica.core.state.log import Entry
from replica.machine import Limits
from replica.node.loop import ALONE_BYTES, Node
from replica.node.recovery import open_shared
from replica.node.writer import WriterThread
from storage.errors import StoreFull
from storage.memory import MemoryStore
from tests.support.domains import domain_over
from tests.support.listening import Quiet
from tests.support.until import OUTER_S, until

DOMAIN = 7


def nothing() -> None:
    """Quick work."""


async def quick_writer() -> WriterThread:
    """One whose last work was short, however busy this machine is."""
    writer = WriterThread()
    await until(lambda: _is_quick_after(writer), "one short piece of work")
    return writer


async def _is_quick_after(writer: WriterThread) -> bool:
    await writer.run(nothing)
    return writer._is_quick


async def test_the_loop_goes_on_while_the_disk_hangs() -> None:
    """Else this test would not end: only the loop lets the work end."""
    writer, free = await quick_writer(), threading.Event()
    waiting = asyncio.create_task(writer.run_alone(_wait_for, free))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert not waiting.done()
    free.set()
    async with asyncio.timeout(OUTER_S):
        await waiting
    await writer.stop()


async def test_it_does_not_stand_still_again_before_the_disk_was_quick_once(monkeypatch: pytest.MonkeyPatch) -> None:
    writer, free = await quick_writer(), threading.Event()
    waiting = asyncio.create_task(writer.run_alone(_wait_for, free))
    await until(lambda: not writer._is_quick, "the wait was in vain")
    monkeypatch.setattr(replica.node.writer, "WAIT_S", 10 * OUTER_S)  # a wait from here on would not end
    free.set()
    await waiting
    free.clear()
    started = threading.Event()

    def work() -> None:
        started.set()
        _wait_for(free)

    again = asyncio.create_task(writer.run_alone(work))
    await until(started.is_set, "the second is under way, and the loop goes on")
    free.set()
    await again
    assert writer._is_quick, "quick beside such a bound"
    await writer.stop()


async def test_a_commit_that_was_slow_keeps_the_next_from_being_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    writer = await quick_writer()
    monkeypatch.setattr(replica.node.writer, "WAIT_S", 0.0)
    await writer.run(nothing)
    assert not writer._is_quick
    await writer.stop()


async def test_what_is_ready_to_run_runs_before_the_loop_stands_still(monkeypatch: pytest.MonkeyPatch) -> None:
    """Frames for the peer: both members' syncs run at the same time."""
    writer, sent = await quick_writer(), threading.Event()
    monkeypatch.setattr(replica.node.writer, "WAIT_S", 10 * OUTER_S)
    asyncio.get_running_loop().call_soon(sent.set)
    await writer.run_alone(_wait_for, sent)
    await writer.stop()


@pytest.mark.parametrize("error", [OSError(5, "Input/output error"), StoreFull("no room", "here"), TimeoutError("x")])
@pytest.mark.parametrize("quick", [True, False])
async def test_what_the_disk_says_is_raised(error: Exception, quick: bool) -> None:
    writer = await quick_writer() if quick else WriterThread()

    def fail() -> None:
        raise error

    with pytest.raises(type(error)) as raised:
        await writer.run_alone(fail)
    assert raised.value.args == error.args
    await writer.stop()


async def test_what_fails_after_the_wait_is_raised_too() -> None:
    writer, free = await quick_writer(), threading.Event()

    def fail() -> None:
        _wait_for(free)
        raise TimeoutError("of the disk")

    waiting = asyncio.create_task(writer.run_alone(fail))
    await until(lambda: not writer._is_quick, "the wait was in vain")
    free.set()
    with pytest.raises(TimeoutError, match="of the disk"):
        await waiting
    await writer.stop()


async def test_work_is_done_in_order_and_all_of_it_before_the_end() -> None:
    writer, done = await quick_writer(), []
    for number in range(20):
        await (writer.run_alone if number % 3 else writer.run)(done.append, number)
    await writer.stop()
    assert done == list(range(20))


def _wait_for(event: threading.Event) -> None:
    assert event.wait(OUTER_S), "nobody let it end"


# -- which commits ----------------------------------------------------------------------------------------------------


class Noting:
    """A writer that notes by which way each piece of work came."""

    def __init__(self) -> None:
        self.ways: list[str] = []

    async def run(self, work: Callable[..., None], *args: object) -> None:
        self.ways.append("beside")
        work(*args)

    async def run_alone(self, work: Callable[..., None], *args: object) -> None:
        self.ways.append("alone")
        work(*args)

    async def stop(self) -> None:
        pass


def entry(log_index: int, size: int = 100) -> Entry:
    return Entry(log_index, 1, b"", b"r" * size, size, 0, None)


@pytest.mark.parametrize(
    ("effects", "uncommitted", "way"),
    [
        ([Persist([entry(1)])], 1, "alone"),
        ([Persist([entry(1)], meta={"k": b"v"})], 1, "alone"),
        ([Persist([entry(1, ALONE_BYTES)])], 1, "alone"),
        ([Persist([entry(1, ALONE_BYTES + 1)])], 1, "beside"),
        ([Persist([entry(1)])], 2, "beside"),
        ([Persist([entry(1), entry(2)])], 2, "beside"),
        ([Persist([entry(1)]), Persist([entry(2)])], 2, "beside"),
        ([Persist([entry(1), entry(2)], leased=1)], 2, "alone"),
        ([Persist([entry(1)]), Persist([entry(2)], leased=1)], 2, "alone"),
        ([Persist([entry(1)]), Persist([entry(2, ALONE_BYTES)], leased=1)], 2, "beside"),
        ([Persist([entry(1), entry(2)], leased=1)], 3, "beside"),
        ([Persist([entry(1), entry(2), entry(3)], leased=1)], 3, "beside"),
        ([Persist([entry(1)], bodies=[(1, b"body")])], 1, "beside"),
        ([Persist([entry(1)], cut=0)], 1, "beside"),
        ([Persist([entry(1)], wipe=True)], 1, "beside"),
        ([Persist(meta={"k": b"v"})], 0, "beside"),
    ],
)
async def test_one_short_step_is_waited_for_and_nothing_else(
    effects: list[Persist], uncommitted: int, way: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, noting = _node(effects, uncommitted, monkeypatch)
    assert noting.ways == []
    await node.flush()
    assert noting.ways == [way]


async def test_a_copy_that_is_made_first_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    node, noting = _node([Salvage(1, 1, 1, "test"), Persist([entry(1)])], 1, monkeypatch)
    await node.flush()
    assert noting.ways == ["beside", "beside"]


def _node(
    effects: list[Persist] | list[Persist | Salvage], uncommitted: int, monkeypatch: pytest.MonkeyPatch
) -> tuple[Node, Noting]:
    """A node that was just asked for these, with so many records that are not committed."""
    store, noting, quiet = MemoryStore(member="a", instance=b"a" * 16), Noting(), Quiet()
    monkeypatch.setattr(store, "commit", lambda _batch: None)
    node = Node(store, None, Limits(), quiet, quiet, noting)
    shared = open_shared(store, DOMAIN, "main", "a", "b", 1, Limits())
    domain = domain_over(store, shared)
    monkeypatch.setattr(domain, "on_persisted", lambda *_durable: None)
    node.domains[DOMAIN] = domain
    shared.outbox.effects += effects
    node.dispatch(domain)
    shared.log.last_index = shared.progress.commit_index + uncommitted
    node.start()
    return node, noting
