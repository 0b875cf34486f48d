"""A client that uses the queues of another pair by the names of proxies here, each named like its queue.

What a proxy does not offer (NOT_OFFERED, with why) is asked of that pair itself.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple, Self, cast

from tandemq import aio

OFFERED = ("enqueue", "send", "producer", "dequeue", "consumer", "settle", "reply", "browse", "get_queue")


class Row(NamedTuple):
    """Why a proxy has no such call."""

    reason: str
    """Of the refusal by the proxy's name; empty: the call names no queue."""
    why: str


NO_QUEUE = Row("BAD_REQUEST", "a proxy holds nothing that could be administered; its queue is its manager's")
NOT_OFFERED: Mapping[str, Row] = MappingProxyType(
    {
        "list_queues": Row("", "queues are listed by the manager that has them, and proxies among the proxies"),
        "create_queue": Row("QUEUE_EXISTS", "a name has one meaning, and this one is the proxy's"),
        "update_queue": NO_QUEUE,
        "delete_queue": NO_QUEUE,
        "purge_queue": NO_QUEUE,
        "move_messages": NO_QUEUE,
        "redrive_queue": NO_QUEUE,
        "delete_messages": NO_QUEUE,
        "react": Row("BAD_REQUEST", "it acts on messages where they are, by one record there"),
        "in_unit": Row("BAD_REQUEST", "a unit of work is one record of one manager"),
    }
)
"""By call (M11)."""


class ByProxies:
    """An aio.Client for whoever uses it."""

    def __init__(self, near: aio.Client, far: aio.Client, pair: str) -> None:
        self.near, self._far, self._pair = near, far, pair
        self._made: set[str] = set()

    async def __aenter__(self) -> Self:
        await self.near.__aenter__()
        await self._far.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._far.__aexit__(*error)
        await self.near.__aexit__(*error)

    def __getattr__(self, name: str) -> Any:
        there = getattr(self._far, name)
        if name not in OFFERED:
            assert name in NOT_OFFERED, f"say by a row whether a proxy offers {name}"
            return there
        here = getattr(self.near, name)
        return lambda queue, *args, **more: (here if queue in self._made else there)(queue, *args, **more)

    async def create_queue(self, queue: str, *args: Any, **more: Any) -> Any:
        made = await self._far.create_queue(queue, *args, **more)
        await self.near.create_proxy(queue, f"//{self._pair}/{queue}")
        self._made.add(queue)
        return made

    async def delete_queue(self, queue: str, **more: Any) -> Any:
        done = await self._far.delete_queue(queue, **more)
        await self.near.delete_proxy(queue)
        self._made.discard(queue)
        return done


def by_proxies(near: Callable[[], aio.Client], far: Callable[[], aio.Client], pair: str) -> Callable[[], aio.Client]:
    """Clients of that kind: `near` connects to the pair with the proxies, `far` to that of their queues."""
    return lambda: cast("aio.Client", ByProxies(near(), far(), pair))
