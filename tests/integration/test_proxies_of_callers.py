"""Two pairs with certificates and proxies between them: whoever calls has his own rights and quotas here, and nothing
of what the other pair lets this one do.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from chaos.cluster import CLIENT
from tandemq import aio
from tandemq.config import member_ports
from tandemq.config_links import Links
from tandemq.config_security import Security
from tandemq.credentials.development import prepare
from tandemq.errors import Denied, NotFound
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY, QueueConfig
from tests.integration.support import http_get, roles
from tests.integration.two_pairs import Pairs
from tests.support.clusters import patient
from tests.support.secured import people
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

SHOP = "shop"


def secured(folder: Path, pair: str) -> Path:
    """Credentials of that pair's members and clients, all of one authority."""
    prepare(shown := folder / pair, folder / "authority", people(SHOP, pair=pair))
    return shown


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pairs]:
    folder = tmp_path_factory.mktemp("pairs")
    made, links, quotas = {}, Links(), tuple[str, ...]()
    for pair in ("west", "east"):
        shown = secured(folder / "credentials", pair)
        settings = {
            name: {
                "security": Security(credentials=str(shown / name), administrators=("ops",), quotas=quotas),
                "links": links,
            }
            for name in ("a", "b")
        }
        made[pair] = patient(folder / pair, pair=pair, secured=shown, operators=["ops"], settings=settings)
        links = Links(managers=tuple(f"west={endpoint}" for endpoint in made[pair].endpoints))
        quotas = (f"{SHOP}=messages:100",)
    both = Pairs(made["east"], made["west"])

    async def begin() -> None:
        for each in (both.west, both.east):
            await each.start()
        async with client(both, "west", CLIENT) as west, client(both, "east", CLIENT) as east:
            await west.create_queue("orders", QueueConfig(queue_type=QUEUE_TYPE_TWO_WAY))
            await west.create_queue("secret")
            for member in ("a", "b"):
                for queue in ("orders", "secret"):
                    await west.grant_right(f"member/east/{member}", "produce", queue)
                    await west.grant_right(f"member/east/{member}", "browse", queue)
            await east.create_proxy("proxy", "//west/orders")
            await east.grant_right(SHOP, "produce", "proxy")

    asyncio.run(begin())
    yield both
    for each in both:
        asyncio.run(each.stop())


def client(pairs: Pairs, pair: str, who: str) -> aio.Client:
    cluster = pairs.east if pair == "east" else pairs.west
    return aio.connect(cluster.target, credentials=Path(cluster.credentials).with_name(who), timeout=OUTER_S)


@pytest.fixture
async def shop(pairs: Pairs) -> AsyncIterator[aio.Client]:
    async with client(pairs, "east", SHOP) as made:
        yield made


async def test_answers_go_nowhere_where_their_sender_may_not_send_himself(pairs: Pairs, shop: aio.Client) -> None:
    """West would let the members of east send there, and sees nobody else."""
    async with client(pairs, "west", CLIENT) as west, client(pairs, "east", CLIENT) as east:
        for to in ("secret", "//west/secret"):
            with pytest.raises((Denied, NotFound)):
                await shop.send("proxy", b"x", reply_to=to)
            async with shop.producer("proxy") as producer:
                with pytest.raises((Denied, NotFound)):
                    await producer.send(b"x", reply_to=to)
        assert (await west.get_queue("orders")).length == 0
        await east.grant_right(SHOP, "produce", "//west/secret")
        async with shop.producer("proxy") as producer:
            await producer.send(b"x", reply_to="secret")
        assert (await west.get_queue("orders")).length == 1


async def test_a_producers_quota_counts_at_the_member_that_he_calls(pairs: Pairs) -> None:
    for number, name in enumerate(await roles(pairs.east)):
        own = Path(pairs.east.credentials).with_name(SHOP)
        before = await waits(pairs, name)
        async with (
            aio.connect(pairs.east.endpoint(name), credentials=own, timeout=OUTER_S, follow_master=False) as one,
            one.producer("proxy") as producer,
        ):
            for _ in range(3):
                await producer.send_many([b"%d" % number] * 120)

        async def waited(name: str = name, before: float = before) -> bool:
            return await waits(pairs, name) > before

        await until(waited, "it is counted")


async def waits(pairs: Pairs, member: str) -> float:
    """Batches of streams that waited; the page is kept for a moment."""
    port = member_ports(pairs.east.base_port, ["a", "b"].index(member)).http
    _, page = await http_get(port, "/metrics")
    found = re.findall(r'(?m)^tandemq_quota_waits_total\{quota="messages"\} (\S+)$', page)
    return float(found[0]) if found else 0.0
