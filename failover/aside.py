"""Runs what others wrote so that it can hold up nobody here: a process in a thread of its own, a coroutine on a loop
of its own, which an installed package offers. It never reads a meaning.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from failover.process import Process, Ran
from failover.reasons import tidy

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

LOAD_S = 10.0

T = TypeVar("T")


class NotLoadedError(ValueError):
    """What a package offers cannot be used; the message says why and what to do."""


async def run(process: Process, name: str, on_end: Callable[[], object] = lambda: None) -> Ran:
    """Runs it in a thread of its own, so that neither a slow start nor a flood holds up this loop. Cancelled, it kills
    the process. `on_end`: called on this loop when the thread is done with the process, also after that.
    """
    loop = asyncio.get_running_loop()
    ended: asyncio.Future[Ran] = loop.create_future()

    def settle(ran: Ran) -> None:
        on_end()
        if not ended.done():
            ended.set_result(ran)

    def work() -> None:
        ran = process.run()
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            loop.call_soon_threadsafe(settle, ran)

    # A daemon: a start that hangs on a dead file system must not keep the manager from ending.
    try:
        threading.Thread(target=work, name=name, daemon=True).start()
    except RuntimeError:  # the system has none left
        on_end()
        raise
    try:
        return await ended
    finally:
        process.kill()  # has ended already, unless this call was cancelled


class AsideLoop:
    """A loop in a daemon thread: what blocks or dies there does so alone."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._work, name=name, daemon=True).start()

    async def call(self, work: Coroutine[Any, Any, T], limit_s: float) -> T | str:
        """Its result, or why there is none: what it raised, or that it took too long."""
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        here = asyncio.wrap_future(running)
        try:
            await asyncio.wait({here}, timeout=limit_s)
        finally:
            late = running.cancel()
        if late or here.cancelled():
            return f"no end within {limit_s:g} s"
        if (error := here.exception()) is not None:
            return f"it raised {_error_text(error)}"
        return here.result()

    def call_and_wait(self, work: Coroutine[Any, Any, T], limit_s: float) -> T | str:
        """As `call`, blocking; for the start of a process."""
        running = asyncio.run_coroutine_threadsafe(work, self._loop)
        try:
            error = running.exception(limit_s)
        except (TimeoutError, CancelledError):
            running.cancel()
            return f"no end within {limit_s:g} s"
        return running.result() if error is None else f"it raised {_error_text(error)}"

    def soon(self, work: Callable[[], object]) -> None:
        """Has it called there, behind all that was asked for before."""
        self._loop.call_soon_threadsafe(work)

    def close(self) -> None:
        """Ends the loop when what runs there lets it."""
        self._loop.call_soon_threadsafe(self._loop.stop)

    def _work(self) -> None:
        stopped = False
        while not stopped:
            # A task that exits the process raises through the loop. Its caller knows of it; the loop goes on.
            with suppress(SystemExit, KeyboardInterrupt):
                self._loop.run_forever()
                stopped = True
        self._loop.close()


def _error_text(error: BaseException) -> str:
    return tidy(f"{type(error).__name__}: {error}" if str(error) else type(error).__name__)


def offered(group: str) -> list[EntryPoint]:
    """What installed packages offer there."""
    from importlib.metadata import entry_points  # a twentieth of a member's imports, and rarely needed

    return list(entry_points(group=group))


def load_aside(group: str, name: str, what: str, why_not: Callable[[object], str | None]) -> tuple[AsideLoop, object]:
    """What that entry point makes, called without arguments, and the loop on which it was made and is to be called.

    `why_not`: what the object lacks. Blocks while its module is imported. Raises NotLoadedError.
    """
    points = offered(group)
    found = [point for point in points if point.name == name]
    if not found:
        known = ", ".join(sorted({point.name for point in points})) or "none"
        raise NotLoadedError(
            f"no {what} is called {name!r}: there is no such entry point in group {group} (installed: {known})"
        )
    if len(found) > 1:
        places = ", ".join(sorted(each.value for each in found))
        raise NotLoadedError(f"more than one package offers {what} {name!r}: {places}; uninstall one")
    aside = AsideLoop(f"{what}-{name}")

    async def make() -> object:
        return found[0].load()()

    made = aside.call_and_wait(make(), LOAD_S)
    why = made if isinstance(made, str) else why_not(made)
    if why is not None:
        aside.close()
        raise NotLoadedError(f"{what} {name!r} ({found[0].value}) cannot be used: {why}")
    return aside, made
