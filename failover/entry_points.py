"""Loads a classifier that an installed package offers and calls it so that it cannot hurt: it never runs on our loop.

A package offers it in the entry point group `tandemq.classifiers`: a class, or another callable without arguments,
whose result has the members of `failover.classifier.Classifier`. It runs on a loop in a thread of its own, so that one
that blocks holds up nobody. What it raises is no answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from failover.aside import AsideLoop, NotLoadedError, load_aside, offered
from failover.classifier import Answer, Classifier, Event, Outcome, SafetyClass, Verdict

GROUP = "tandemq.classifiers"
SIDE_S = 5.0  # preflight and report


class BadClassifierError(ValueError):
    """The entry point cannot be used; the message says why and what to do."""


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
    return sorted({point.name for point in offered(GROUP)})


def load(name: str) -> Guarded:
    """The classifier of this name. Blocks while its module is imported. Raises BadClassifierError."""
    try:
        aside, made = load_aside(GROUP, name, "classifier", why_no_classifier)
    except NotLoadedError as error:
        raise BadClassifierError(str(error)) from error
    inner: Classifier = made  # type: ignore[assignment]  # why_no_classifier has looked
    return Guarded(inner, name, aside)


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
