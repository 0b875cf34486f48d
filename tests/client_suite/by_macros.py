"""A client that sends to macro queues and receives from them, under the name of their one member.

Each queue that it makes has a producer macro queue before it and a consumer macro queue behind it. What a macro queue
does not do is about the member, by its own name: looking, changing, units of work, reactions.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self, cast

from tandemq import aio
from tandemq.client.macros import MacroPolicy, Relationship

SENT = ("enqueue", "send", "call", "producer")
RECEIVED = ("dequeue", "consumer", "settle", "reply")


class _ByMacros:
    """An aio.Client for whoever uses it."""

    def __init__(self, client: aio.Client) -> None:
        self._client = client
        self._made: set[str] = set()

    async def __aenter__(self) -> Self:
        await self._client.__aenter__()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.__aexit__(*error)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._client, name)
        ending = ".in" if name in SENT else ".out" if name in RECEIVED else ""
        if not ending:
            return found
        return lambda queue, *args, **more: found(queue + ending if queue in self._made else queue, *args, **more)

    async def create_queue(self, queue: str, *args: Any, **more: Any) -> Any:
        made = await self._client.create_queue(queue, *args, **more)
        for ending, relationship, policy in (
            (".in", Relationship.PRODUCER, MacroPolicy.ROUND_ROBIN),
            (".out", Relationship.CONSUMER, MacroPolicy.PRIORITIZED),
        ):
            await self._client.create_macro(queue + ending, relationship=relationship, policy=policy)
            await self._client.add_macro_member(queue + ending, queue)
        self._made.add(queue)
        return made

    async def delete_queue(self, queue: str, **more: Any) -> Any:
        done = await self._client.delete_queue(queue, **more)
        for ending in (".in", ".out"):
            await self._client.delete_macro(queue + ending)
        self._made.discard(queue)
        return done


def by_macros(connect: Callable[[], aio.Client]) -> Callable[[], aio.Client]:
    """Clients of that kind, over what connects."""
    return lambda: cast("aio.Client", _ByMacros(connect()))
