"""Links to one manager share a client, which is there as long as one of them needs it."""

from __future__ import annotations

from contextlib import AsyncExitStack

from replica.services.links.far_clients import FarClients
from tandemq import aio


async def test_one_client_a_manager_until_nobody_holds_it() -> None:
    made: list[str] = []

    def make(manager: str) -> aio.Client:
        made.append(manager)
        return aio.connect("127.0.0.1:1")

    clients = FarClients(make)
    async with AsyncExitStack() as first, AsyncExitStack() as second:
        one = await first.enter_async_context(clients.held("west"))
        other = await second.enter_async_context(clients.held("west"))
        assert one is other
        async with clients.held("north") as third:
            assert third is not one
        await first.aclose()
        async with clients.held("west") as again:
            assert again is one, "somebody holds it still"
        await second.aclose()
        async with clients.held("west") as anew:
            assert anew is not one
    assert made == ["west", "north", "west"]
