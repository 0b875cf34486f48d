"""Keeps one client of each manager that links lead to, for all of them together: as long as something is carried there.
Sends nothing.
"""

from __future__ import annotations

from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable

    from tandemq import aio


class FarClients:
    """Of one member."""

    def __init__(self, make: Callable[[str], aio.Client]) -> None:
        """`make`: a client of the manager of that name."""
        self._make = make
        self._clients: dict[str, aio.Client] = {}
        self._holders: dict[str, int] = {}

    @asynccontextmanager
    async def held(self, manager: str) -> AsyncIterator[aio.Client]:
        """The client of that manager; it is closed when nobody holds it any more."""
        if manager not in self._clients:
            self._clients[manager] = self._make(manager)
        client = self._clients[manager]
        self._holders[manager] = self._holders.get(manager, 0) + 1
        try:
            yield client
        finally:
            self._holders[manager] -= 1
            if not self._holders[manager]:
                del self._clients[manager], self._holders[manager]
                await client.close()
