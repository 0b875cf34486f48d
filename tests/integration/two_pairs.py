"""Two pairs of which one knows where the other one is, for all tests of a module: `pairs = two_pairs()`,
`east = client_of("east")`. Not a test.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.config_links import Links
from tandemq.errors import NotFound
from tests.support.clusters import patient
from tests.support.until import until

XMIT = "SYSTEM.XMIT/west"
LATE = "late"
"""Another name of west."""
BILLING = "billing"
"""A domain of both, beside main."""


class Pairs(NamedTuple):
    """Messages go from one to the other."""

    east: Cluster
    west: Cluster


def made(directory: Path) -> Pairs:
    """Whose east knows where west is."""
    domains = {"domains": ("main", BILLING)}
    west = patient(directory / "west", pair="west", settings=dict.fromkeys(("a", "b"), domains))
    links = Links(managers=tuple(f"{name}={endpoint}" for name in ("west", LATE) for endpoint in west.endpoints))
    east = patient(directory / "east", pair="east", settings={name: domains | {"links": links} for name in ("a", "b")})
    return Pairs(east, west)


def two_pairs() -> Any:
    """The fixture `pairs`."""

    @pytest.fixture(scope="module")
    def pairs(tmp_path_factory: pytest.TempPathFactory) -> Any:
        both = made(tmp_path_factory.mktemp("pairs"))
        for each in both:
            asyncio.run(each.start())
        yield both
        for each in both:
            asyncio.run(each.stop())

    return pairs


def client_of(name: str) -> Any:
    """The fixture of that name: a client of one of the module's `pairs`."""

    @pytest.fixture(name=name)
    async def client(pairs: Pairs) -> AsyncIterator[aio.Client]:
        async with aio.connect(getattr(pairs, name).target) as made:
            yield made

    return client


async def is_empty(client: aio.Client, queue: str) -> bool:
    return (await client.get_queue(queue)).length == 0


async def there(client: aio.Client, queue: str, count: int) -> list[aio.ReceivedMessage]:
    """Once so many messages are in the queue."""

    async def whole() -> bool:
        try:
            return (await client.get_queue(queue)).length >= count
        except NotFound:
            return False

    await until(whole, f"{count} messages in {queue}")
    return [message async for message in client.browse(queue)]
