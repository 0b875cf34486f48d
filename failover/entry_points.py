"""Loads a classifier that an installed package offers and calls it so that it cannot hurt: it never runs on our loop.

A package offers it in the entry point group `tandemq.classifiers`: a class, or another callable without arguments,
whose result has the members of `failover.classifier.Classifier`. It runs on a loop in a thread of its own, so that one
that blocks holds up nobody. What it raises is no answer.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeVar

from failover.classifier import Answer, Classifier, Event, Outcome, SafetyClass, Verdict
from failover.reasons import tidy

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

GROUP = "tandemq.classifiers"
LOAD_S = 10.0
SIDE_S = 5.0  # preflight and report

T = TypeVar("T")


class BadClassifierError(ValueError):
    """The entry point cannot be used; the message says why and what to do."""


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


class Guarded:
    """A loaded classifier behind the contract: whatever it does, `classify` gives an answer within the limit."""

    def __init__(self, inner: Classifier, name: str, aside: AsideLoop) -> None:
        self.inner, self.name, self._aside = inner, name, aside
        self.safety: SafetyClass = inner.safety

    async def classify(self, event: Event) -> Answer:
        """See `failover.classifier.Classifier`; the limit is the event's `decide_by_ms`."""
        said: object = await self._call(lambda: self.inner.classify(event), event.decide_by_ms / 1000)
        match said:
            case Answer():
                return said  # the runner looks at whether it is for this event
            case Verdict():
                return Answer(event.event_id, event.link_generation, said, by=self.name)
            case str():
                why = said
            case _:
                why = f"it returned {type(said).__name__}, which is neither an Answer nor a Verdict"
        return Answer(event.event_id, event.link_generation, None, why, by=self.name)

    async def preflight(self) -> list[str]:
        """See `failover.classifier.Classifier`."""
        said: object = await self._call(self.inner.preflight, SIDE_S)
        if isinstance(said, list) and all(isinstance(each, str) for each in said):
            return said
        return [said if isinstance(said, str) else f"preflight returned {type(said).__name__}, which is no list"]

    async def report(self, outcome: Outcome) -> None:
        """See `failover.classifier.Classifier`."""
        await self._call(lambda: self.inner.report(outcome), SIDE_S)

    def close(self) -> None:
        """Lets its thread end."""
        self._aside.close()

    async def _call(self, work: Callable[[], Coroutine[Any, Any, Any]], limit_s: float) -> object:
        async def there() -> object:
            return await work()

        return await self._aside.call(there(), limit_s)


def names() -> list[str]:
    """Of all classifiers that installed packages offer."""
    return sorted({point.name for point in _offered()})


def load(name: str) -> Guarded:
    """The classifier of this name. Blocks while its module is imported. Raises BadClassifierError."""
    found = [point for point in _offered() if point.name == name]
    if not found:
        known = ", ".join(names()) or "none"
        raise BadClassifierError(
            f"no classifier is called {name!r}: neither a shipped one, nor an entry point in group {GROUP} (installed: "
            f"{known})"
        )
    if len(found) > 1:
        places = ", ".join(sorted(each.value for each in found))
        raise BadClassifierError(f"more than one package offers classifier {name!r}: {places}; uninstall one")
    aside = AsideLoop(f"classifier-{name}")

    async def make() -> object:
        return _made(found[0])

    made = aside.call_and_wait(make(), LOAD_S)
    why = made if isinstance(made, str) else why_no_classifier(made)
    if why is not None:
        aside.close()
        raise BadClassifierError(f"classifier {name!r} ({found[0].value}) cannot be used: {why}")
    inner: Classifier = made  # type: ignore[assignment]  # why_no_classifier has looked
    return Guarded(inner, name, aside)


def _offered() -> list[EntryPoint]:
    from importlib.metadata import entry_points  # a twentieth of a member's imports, and rarely needed

    return list(entry_points(group=GROUP))


def _made(point: EntryPoint) -> object:
    return point.load()()


def why_no_classifier(made: object) -> str | None:
    """What it lacks of `failover.classifier.Classifier`; None: nothing."""
    if not isinstance(getattr(made, "name", None), str):
        return "it has no attribute `name` that is a text"
    if not isinstance(getattr(made, "safety", None), SafetyClass):
        return "it has no attribute `safety` that is a failover.classifier.SafetyClass"
    for method in ("classify", "preflight", "report"):
        if not asyncio.iscoroutinefunction(getattr(made, method, None)):
            return f"it has no method `async def {method}`"
    return None
