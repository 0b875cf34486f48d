"""Decides whose word counts on where a manager is: resolvers in order, answers for their time, the last known one.

It speaks to no manager. A resolver that is away is passed over; what it said last goes on to hold, with a warning.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from tandemq.client.target import NoTarget
from tandemq.errors import TandemqError, error_of
from tandemq.finding.resolver import Answer, BadEntry, Exported, Resolver, ResolverAway

TIMEOUT_S = 3.0  # of one question to one resolver
TTL_S = 60.0  # of an answer that states none
TTL_MIN_S, TTL_MAX_S = 1.0, 3600.0
ALIAS_STEPS_MAX = 8
AGED_S = 5.0  # an answer of a resolver that is away holds for so long before it is asked again
NAMES_MAX = 1024  # remembered; the oldest is forgotten

log = logging.getLogger("tandemq.finding")
Value = TypeVar("Value", bound=Answer | Exported)


@dataclass(frozen=True, slots=True)
class Known(Generic[Value]):
    """An answer, whose it is, and when it was given."""

    value: Value
    source: str
    at_s: float
    ttl_s: float

    def age_s(self, now_s: float) -> float:
        return now_s - self.at_s


@dataclass(frozen=True, slots=True)
class Found:
    """Where a name led."""

    answer: Answer  # never an alias
    way: tuple[str, ...]  # the name that was asked for, and the aliases that it led through
    source: str
    ttl_s: float


class Shelf(Generic[Value]):
    """What is remembered of one kind of answer, and who is asking for one now."""

    def __init__(self) -> None:
        self.known: dict[str, Known[Value]] = {}
        self.asking: dict[str, asyncio.Task[Known[Value] | None]] = {}

    def keep(self, name: str, known: Known[Value]) -> Known[Value]:
        """Remembers it in place of what was known; forgets the oldest one beyond the limit."""
        self.known.pop(name, None)
        self.known[name] = known
        if len(self.known) > NAMES_MAX:
            del self.known[next(iter(self.known))]
        return known

    def asked(self, name: str, task: asyncio.Task[Known[Value] | None]) -> None:
        """The question is answered."""
        del self.asking[name]
        if not task.cancelled():
            task.exception()  # who asked has it, unless it stopped waiting


class Directory:
    """Asks resolvers one after another and remembers what they said. Belongs to one event loop."""

    def __init__(
        self,
        resolvers: Callable[[], Sequence[Resolver]],
        *,
        now_s: Callable[[], float] | None = None,
        timeout_s: float = TIMEOUT_S,
    ) -> None:
        """`resolvers` is called when the first name is looked up, and may raise NoTarget or BadEntry."""
        self._make = resolvers
        self._now_s = now_s
        self._timeout_s = timeout_s
        self._resolvers: tuple[Resolver, ...] | None = None
        self._managers: Shelf[Answer] = Shelf()
        self._queues: Shelf[Exported] = Shelf()

    @property
    def sources(self) -> list[str]:
        """Who is asked, in order."""
        return [resolver.source for resolver in self._asked()]

    async def find(self, name: str) -> Found:
        """Where a manager of this name is. Raises MANAGER_NOT_FOUND, MANAGER_UNREACHABLE, CONFIG_ERROR."""
        seen = [name]
        while True:
            known = await self._look(seen[-1], self._managers, _resolving(seen[-1]))
            if known is None:
                raise self._nobody(f"manager {seen[-1]!r}", seen)
            if known.value.managers:
                return Found(known.value, tuple(seen), known.source, known.ttl_s)
            seen.append(known.value.alias_of)
            if seen[-1] in seen[:-1] or len(seen) > ALIAS_STEPS_MAX:
                chain = " -> ".join(seen)
                raise error_of("CONFIG_ERROR", f"aliases lead nowhere: {chain}; let one of them name a manager")

    async def find_queue(self, queue: str) -> tuple[Exported, str]:
        """Whose an exported queue is, and who said so. Raises as `find` does."""
        known = await self._look(queue, self._queues, lambda resolver: resolver.resolve_queue(queue))
        if known is None:
            raise self._nobody(f"an exported queue {queue!r}", [queue])
        return known.value, known.source

    async def close(self) -> None:
        """Lets go of the resolvers."""
        for resolver in self._resolvers or ():
            await resolver.close()

    async def _look(
        self, name: str, shelf: Shelf[Value], ask: Callable[[Resolver], Awaitable[Value | None]]
    ) -> Known[Value] | None:
        """What is remembered, else what is answered; None when everybody answered that there is none."""
        last = shelf.known.get(name)
        if last is not None and last.age_s(self._now()) < last.ttl_s:
            return last
        task = shelf.asking.get(name)
        if task is None:  # who asks at the same time shares one answer
            task = asyncio.get_running_loop().create_task(self._ask(name, last, shelf, ask))
            shelf.asking[name] = task
            task.add_done_callback(lambda done: shelf.asked(name, done))
        return await asyncio.shield(task)

    async def _ask(
        self,
        name: str,
        last: Known[Value] | None,
        shelf: Shelf[Value],
        ask: Callable[[Resolver], Awaitable[Value | None]],
    ) -> Known[Value] | None:
        away: list[str] = []
        for resolver in self._asked():
            try:
                async with asyncio.timeout(self._timeout_s):
                    value = await ask(resolver)
            except (ResolverAway, OSError) as error:  # TimeoutError is an OSError
                why = str(error) or f"no answer within {self._timeout_s:g} s"
                away.append(f"{resolver.source}: {why}")
                if last is not None and last.source == resolver.source:
                    return self._aged(name, last, why, shelf)
            except (BadEntry, NoTarget) as error:
                raise error_of("CONFIG_ERROR", f"{resolver.source}: {name}: {error}") from error
            else:
                if value is not None:
                    stated = value.ttl_s if isinstance(value, Answer) else None
                    ttl_s = TTL_S if stated is None else min(max(stated, TTL_MIN_S), TTL_MAX_S)
                    return shelf.keep(name, Known(value, resolver.source, self._now(), ttl_s))
        if away:
            raise error_of("MANAGER_UNREACHABLE", f"{name!r} was not found: {'; '.join(away)}", {"name": name})
        shelf.known.pop(name, None)
        return None

    def _aged(self, name: str, last: Known[Value], why: str, shelf: Shelf[Value]) -> Known[Value]:
        """An old answer is better than none: managers rarely move, and resolvers are away more often."""
        age_s = last.age_s(self._now())
        log.warning("%s is away (%s): going on with what it said of %r %.0f s ago", last.source, why, name, age_s)
        return shelf.keep(name, Known(last.value, last.source, last.at_s, age_s + AGED_S))

    def _nobody(self, what: str, seen: list[str]) -> TandemqError:
        asked = "; ".join(self.sources) or "nobody: no file and no resolver is set up"
        through = f" (through {' -> '.join(seen)})" if len(seen) > 1 else ""
        return error_of(
            "MANAGER_NOT_FOUND",
            f"no resolver knows {what}{through}; asked: {asked}; enter it there, or connect to host:port",
            {"name": seen[-1]},
        )

    def _asked(self) -> tuple[Resolver, ...]:
        if self._resolvers is None:
            try:
                self._resolvers = tuple(self._make())
            except (BadEntry, NoTarget) as error:
                raise error_of("CONFIG_ERROR", str(error)) from error
        return self._resolvers

    def _now(self) -> float:
        return asyncio.get_running_loop().time() if self._now_s is None else self._now_s()


def _resolving(name: str) -> Callable[[Resolver], Awaitable[Answer | None]]:
    return lambda resolver: resolver.resolve(name)
