"""An asyncio event loop whose time is virtual: what is due next happens next, and nothing waits in real time.

Every callback belongs to the process in whose context it was asked for. A process that is killed never runs again, not
even its `finally` blocks, as after kill -9; one that is paused runs what came meanwhile when it is resumed.
Equal order of asking gives equal order of running: there is no thread, no selector and no hash order in here.
"""

from __future__ import annotations

import asyncio
import contextlib
import sys
from asyncio.events import _set_running_loop as _enter
from collections import deque
from collections.abc import AsyncGenerator, Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from functools import partial
from heapq import heappop, heappush
from types import CoroutineType
from typing import Any, TypeVar, TypeVarTuple, Unpack

Result = TypeVar("Result")
Args = TypeVarTuple("Args")

WAITING_ENDS_MAX = 200
"""Coroutines that await each other, and ends of `async with` that they stand in, each of which waits for something."""

CURRENT: ContextVar[Process | None] = ContextVar("process", default=None)
"""The process that is running; None: the world itself."""


class Process:
    """What runs of a process, and whether it does. Dead ones stay dead: a restart is another process."""

    __slots__ = ("alive", "backlog", "carry_out", "context", "hung", "name", "paused", "pending", "tasks")

    def __init__(self, name: str) -> None:
        self.name = name
        self.alive = True
        self.paused = False
        self.hung = False
        """While it is paused: its machine answers the pings of its connections, as gRPC's own threads do."""
        self.backlog: list[Event] = []
        self.tasks: list[asyncio.Task[Any]] = []
        """All that were ever made: those of a killed process must not be collected, and thereby closed, too soon."""
        self.pending: dict[int, tuple[Callable[..., Any], tuple[Any, ...]]] = {}
        """Work in threads that has not ended, by number."""
        self.carry_out: Callable[[Callable[..., Any], Callable[[], None]], None] | None = None
        """Lets a function (the first) run in a thread: calls the second when it would have ended. None: at once."""
        self.context = copy_context()
        self.context.run(CURRENT.set, self)


class Event(list[Any]):
    """A callback and when it is due; what asyncio calls a handle.

    It holds when, number, callback (None: cancelled), arguments and context, in this order: one that came later at the
    same time is the greater one. A list, because a run makes thousands of them and nothing else is made as fast.
    """

    __slots__ = ()

    def cancel(self) -> None:
        """Never run it."""
        self[2] = None

    def cancelled(self) -> bool:
        return self[2] is None

    def when(self) -> float:
        return float(self[0])


class SimLoop(asyncio.AbstractEventLoop):
    """See the module. `steps` counts callbacks that ran."""

    def __init__(self) -> None:
        self.now = 0.0
        self.steps = 0
        self.problems: list[str] = []
        """What asyncio would have logged: failures of callbacks and of tasks that nobody asked."""
        self._ready: deque[Event] = deque()
        self._timers: list[Event] = []
        self._number = 0
        self._work = 0
        self._halted = self.buried = False
        self._processes: list[Process] = []
        # Not methods: thousands of futures are made in a run, and each of them asks for `get_debug`.
        self.create_future = partial(asyncio.Future, loop=self)  # type: ignore[method-assign]

    # -- what asyncio asks for ---------------------------------------------------------------------------------------

    def time(self) -> float:
        return self.now

    get_debug = staticmethod(bool)  # False, without a frame of Python

    def is_running(self) -> bool:
        return True

    def is_closed(self) -> bool:
        return False

    def call_soon(  # type: ignore[override]  # our own handle
        self, callback: Callable[[Unpack[Args]], object], *args: *Args, context: Context | None = None
    ) -> Event:
        event = Event((self.now, 0, callback, args, copy_context() if context is None else context))
        self._ready.append(event)
        return event

    call_soon_threadsafe = call_soon  # type: ignore[assignment]  # there are no threads

    def call_later(  # type: ignore[override]  # our own handle
        self,
        delay: float,
        callback: Callable[[Unpack[Args]], object],
        *args: *Args,
        context: Context | None = None,
    ) -> Event:
        self._number += 1
        event = Event((self.now + delay, self._number, callback, args, copy_context() if context is None else context))
        heappush(self._timers, event)
        return event

    def call_at(  # type: ignore[override]  # our own handle
        self,
        when: float,
        callback: Callable[[Unpack[Args]], object],
        *args: *Args,
        context: Context | None = None,
    ) -> Event:
        self._number += 1
        event = Event((when, self._number, callback, args, copy_context() if context is None else context))
        heappush(self._timers, event)
        return event

    def create_task(  # type: ignore[override]  # tasks of coroutines only
        self, coro: Coroutine[Any, Any, Result], *, name: str | None = None, context: Context | None = None
    ) -> asyncio.Task[Result]:
        if self.buried:
            # Not refused: `gather` of several would leave the others, which were made and then never awaited.
            coro.close()
        task = asyncio.Task(coro, loop=self, name=name or "task", context=context)
        if self.buried:
            task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001  # it never runs, nor ends
            return task
        process = (context.get(CURRENT) if context is not None else None) or CURRENT.get()
        if process is not None:
            if not process.tasks:
                self._processes.append(process)
            process.tasks.append(task)
        return task

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.problems.append(f"{context.get('message')}: {context.get('exception')!r}")

    def default_exception_handler(self, context: dict[str, Any]) -> None:
        self.call_exception_handler(context)

    def run_in_executor(  # no thread, hence no executor
        self,
        _executor: object,
        func: Callable[[Unpack[Args]], Result],
        *args: *Args,
    ) -> asyncio.Future[Result]:
        """The function runs when the time that its process says has passed, also when nobody waits any more."""
        future: asyncio.Future[Result] = self.create_future()
        process = CURRENT.get()
        self._work += 1
        number = self._work
        if process is not None:
            process.pending[number] = (func, args)

        def end() -> None:
            self._do(process, number, future, func, args)

        if process is None or process.carry_out is None:
            self.call_soon(end)
        else:
            process.carry_out(func, end)
        return future

    def _do(
        self,
        process: Process | None,
        number: int,
        future: asyncio.Future[Any],
        func: Callable[..., Any],
        args: tuple[Any, ...],
    ) -> None:
        if process is not None:
            del process.pending[number]
        try:
            result = func(*args)
        except Exception as error:  # handed on to whoever waits, as an executor does
            if not future.done():
                future.set_exception(error)
            return
        if not future.done():
            future.set_result(result)

    # -- what the world asks for --------------------------------------------------------------------------------------

    def spawn(self, process: Process, work: Coroutine[Any, Any, Result], name: str = "main") -> asyncio.Task[Result]:
        """A task of that process."""
        return self.create_task(work, name=name, context=process.context.copy())

    def at(self, when: float, process: Process | None, callback: Callable[..., object], *args: Any) -> Event:
        """A callback that belongs to that process, or to the world."""
        self._number += 1
        event = Event((when, self._number, callback, args, process.context if process is not None else _WORLD))
        heappush(self._timers, event)
        return event

    def note_failures(self) -> None:
        """The run is over: a task of a living process that failed is a problem, unless somebody asked for that."""
        for process in self._processes:
            if process.alive:
                self._note_failures(process)

    def _note_failures(self, process: Process) -> None:
        """Here and not as asyncio does it, when a task is collected: those of a process are kept until the burial."""
        for task in process.tasks if not process.paused else ():
            if task.done() and not task.cancelled() and task._log_traceback:  # noqa: SLF001  # asyncio's own
                what = getattr(task.get_coro(), "__qualname__", task.get_name())
                self.problems.append(f"{what} of {process.name} failed and nobody asked: {task.exception()!r}")

    def kill(self, process: Process) -> None:
        """It never runs again."""
        self._note_failures(process)
        process.alive = False
        process.backlog.clear()

    def pause(self, process: Process) -> None:
        """It does not run until it is resumed."""
        process.paused = True

    def resume(self, process: Process) -> None:
        """It runs all that came due meanwhile, in that order."""
        process.paused = False
        backlog, process.backlog = process.backlog, []
        for event in backlog:
            if not event.cancelled():
                self._ready.append(event)

    def bury(self) -> None:
        """The run is over: ends what was never finished, so that nothing of it acts later. Nothing it does counts."""
        self.buried = True
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(finalizer=self._finish)
        _enter(self)
        try:
            for process in self._processes:
                for task in process.tasks:
                    if not task.done():
                        task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001  # asyncio's own
                        _end(task.get_coro())
                process.tasks.clear()
        finally:
            _enter(None)
            sys.set_asyncgen_hooks(*hooks)
        self._ready.clear()
        self._timers.clear()

    def halt(self) -> None:
        """End `run` behind this callback."""
        self._halted = True

    def run(self, limit_s: float) -> bool:
        """Let things happen until somebody says `halt` (True) or virtual time reaches the limit (False)."""
        hooks = sys.get_asyncgen_hooks()
        sys.set_asyncgen_hooks(finalizer=self._finish)
        _enter(self)
        ready, timers, take = self._ready, self._timers, self._ready.popleft
        self._halted = False
        try:
            while not self._halted:
                if ready:
                    event = take()
                elif timers:
                    if timers[0][0] > limit_s:
                        self.now = max(self.now, limit_s)
                        return False
                    event = heappop(timers)
                    if event[0] > self.now:
                        self.now = event[0]
                else:
                    self.now = max(self.now, limit_s)
                    return False
                _, _, callback, args, context = event
                if callback is None:
                    continue
                process = context.get(CURRENT)
                if process is not None:
                    if not process.alive:
                        continue
                    if process.paused:
                        process.backlog.append(event)
                        continue
                self.steps += 1
                try:
                    context.run(callback, *args)
                except Exception as error:  # a loop survives its callbacks
                    self.call_exception_handler({"message": "a callback failed", "exception": error})
        finally:
            _enter(None)
            sys.set_asyncgen_hooks(*hooks)
        return True

    def _finish(self, generator: AsyncGenerator[Any, Any]) -> None:
        """An asynchronous generator was left before its end."""
        process = CURRENT.get()
        if not self.buried and (process is None or process.alive):
            self.call_soon(self.create_task, generator.aclose())


def _end(work: Coroutine[Any, Any, Any] | Generator[Any, Any, Any] | None) -> None:
    """The innermost first, and again for each end of an `async with` that waits: a coroutine that goes on when it is
    closed raises in whoever awaits it, stays as it is, and is reported when it is collected.
    """
    for _ in range(WAITING_ENDS_MAX):
        if not isinstance(work, CoroutineType) or work.cr_frame is None:
            return
        inner = work
        while isinstance(inner.cr_await, CoroutineType) and inner.cr_await.cr_frame is not None:
            inner = inner.cr_await
        with contextlib.suppress(BaseException):
            inner.close()


_WORLD = copy_context()
_WORLD.run(CURRENT.set, None)


def make_loop() -> SimLoop:
    """A loop at time 0. It has no sockets, signals or subprocesses, which mypy counts as abstract."""
    return SimLoop()  # type: ignore[abstract]
