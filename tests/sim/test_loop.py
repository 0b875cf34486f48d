"""The simulated loop: what it tells of tasks that fail, and what becomes of work in threads."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import sys
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from typing import Any

import pytest

from chaos.sim.draw.profiles import draw
from chaos.sim.kernel.loop import Process, SimLoop, make_loop
from chaos.sim.pair.plan import Plan
from chaos.sim.tools.product import silence
from chaos.sim.world.world import World
from replica.manager import Manager


async def fails() -> None:
    raise OSError("in the background")


def spawned(work: Any) -> tuple[SimLoop, Process]:
    loop, process = make_loop(), Process("p")
    loop.spawn(process, work)
    return loop, process


def test_a_task_that_dies_unseen_is_a_problem_of_the_run() -> None:
    loop, _ = spawned(fails())
    loop.run(1.0)
    assert loop.problems == []
    loop.note_failures()
    assert loop.problems == ["fails of p failed and nobody asked: OSError('in the background')"]


def test_and_so_it_is_when_its_process_is_killed_later() -> None:
    loop, process = spawned(fails())
    loop.run(1.0)
    loop.kill(process)
    loop.note_failures()
    assert len(loop.problems) == 1


def test_what_somebody_asked_for_and_what_was_cancelled_is_none() -> None:
    async def asks() -> None:
        with pytest.raises(OSError, match="background"):
            await asyncio.create_task(fails())
        asyncio.create_task(fails()).cancel()

    loop, _ = spawned(asks())
    loop.run(1.0)
    loop.note_failures()
    assert loop.problems == []


def test_the_burial_ends_what_waits_at_the_end_of_several_contexts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Left half closed, each would be reported by the interpreter when it is collected, in the middle of a campaign."""
    ignored: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: ignored.append(repr(found.exc_value)))
    ended: list[str] = []

    @contextlib.asynccontextmanager
    async def slow_to_end(name: str) -> AsyncIterator[None]:
        try:
            yield
        finally:
            ended.append(name)
            await asyncio.Event().wait()

    async def waits() -> None:
        async with slow_to_end("outer"), slow_to_end("inner"):
            await asyncio.Event().wait()

    async def works() -> None:
        with contextlib.suppress(RuntimeError):
            await waits()

    loop, process = spawned(works())
    loop.run(1.0)
    loop.bury()
    assert ended == ["inner", "outer"]
    del loop, process
    gc.collect()
    assert ignored == []


@pytest.mark.filterwarnings("error")
def test_the_burial_ends_what_begins_several_things_at_its_end(monkeypatch: pytest.MonkeyPatch) -> None:
    """As a client does that closes all its producers: none of them is left as a coroutine that was never awaited."""
    ignored: list[str] = []
    monkeypatch.setattr(sys, "unraisablehook", lambda found: ignored.append(repr(found.exc_value)))

    async def closes() -> None:
        await asyncio.Event().wait()

    async def works() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.gather(closes(), closes())

    loop, process = spawned(works())
    loop.run(1.0)
    loop.bury()
    del loop, process
    gc.collect()
    assert ignored == []


def test_a_member_whose_background_task_dies_fails_the_run(monkeypatch: pytest.MonkeyPatch) -> None:
    start = Manager.start
    kept: list[asyncio.Task[None]] = []

    async def starts(self: Manager) -> None:
        await start(self)
        kept.append(asyncio.create_task(fails()))

    plan: Plan = replace(draw("swarm", 1), faults=(), safety_ms=500)
    with silence():
        assert World(plan).run().violations == []
        monkeypatch.setattr(Manager, "start", starts)
        violations = World(plan).run().violations
    assert len(violations) == 2
    assert all(violation.startswith("problem: ") and "in the background" in violation for violation in violations)


def test_what_a_thread_has_begun_it_ends_though_nobody_waits() -> None:
    done: list[str] = []

    async def leaves() -> None:
        asyncio.get_running_loop().run_in_executor(None, done.append, "written").cancel()

    loop, process = spawned(leaves())

    def carry_out(_func: object, end: Callable[[], None]) -> None:
        loop.at(0.5, process, end)

    process.carry_out = carry_out
    loop.run(0.4)
    assert (done, len(process.pending)) == ([], 1)
    loop.run(1.0)
    assert (done, len(process.pending)) == (["written"], 0)
