"""Decides when a client asks again where its manager is, and which of several managers it uses: the first that answers.

It keeps one answer. It never leaves a manager that was chosen for another one of lower priority: their queues differ.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from tandemq.errors import TandemqError, error_of
from tandemq.finding.directory import AGED_S, log
from tandemq.finding.resolver import Manager

Reached = Callable[[str], Awaitable[str]]
"""Asks one endpoint for a sign of life; empty when it gave one, else why not."""


class Whereabouts:
    """Where one manager is. Belongs to one event loop."""

    def __init__(
        self,
        ask: Callable[[], Awaitable[tuple[Sequence[Manager], float]]],
        reached: Reached,
        *,
        now_s: Callable[[], float] | None = None,
    ) -> None:
        """`ask` gives managers in order of priority, and for how many seconds that holds; it raises TandemqError."""
        self._ask, self._reached, self._now_s = ask, reached, now_s
        self._chosen = ""
        self._endpoints: tuple[str, ...] = ()
        self._holds_until_s = 0.0
        self._doubted = False
        self._lock = asyncio.Lock()

    @property
    def manager(self) -> str:
        """The name of the one in use; empty before the first answer."""
        return self._chosen

    def doubt(self) -> None:
        """It does not answer where it was: ask again, once what was said has aged."""
        self._doubted = True

    async def endpoints(self) -> tuple[str, ...]:
        """Where it is, at least one. Raises MANAGER_NOT_FOUND, MANAGER_UNREACHABLE, CONFIG_ERROR."""
        if self._endpoints and not (self._doubted and self._now() >= self._holds_until_s):
            return self._endpoints
        async with self._lock:  # who waited has the answer of the one before
            if not self._endpoints or (self._doubted and self._now() >= self._holds_until_s):
                await self._look()
        return self._endpoints

    async def _look(self) -> None:
        try:
            managers, ttl_s = await self._ask()
            chosen = await self._choose(managers)
        except TandemqError as error:
            if not self._endpoints or not error.retryable:
                raise
            log.warning("%s: going on with the last known place, %s", error, ",".join(self._endpoints))
            ttl_s = AGED_S
        else:
            self._chosen, self._endpoints = chosen.name, chosen.endpoints
        self._holds_until_s = self._now() + ttl_s
        self._doubted = False

    async def _choose(self, managers: Sequence[Manager]) -> Manager:
        if self._chosen:
            again = [manager for manager in managers if manager.name == self._chosen]
            if again:  # with several of one name, the one that was used, unless it has gone
                return next((each for each in again if set(each.endpoints) & set(self._endpoints)), again[0])
        if len(managers) == 1:
            return managers[0]
        silent = []
        for manager in managers:
            words = await asyncio.gather(*(self._reached(endpoint) for endpoint in manager.endpoints))
            if not all(words):
                return manager
            silent.append(f"{manager} (priority {manager.priority}): {words[0]}")
        raise error_of("MANAGER_UNREACHABLE", f"no manager answers: {'; '.join(silent)}")

    def _now(self) -> float:
        return asyncio.get_running_loop().time() if self._now_s is None else self._now_s()
