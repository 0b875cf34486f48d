"""What a watch over proxies keeps of what it hears (M3, M11). The other manager is the test."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from replica.core.domain import Domain
from replica.core.ordering.far_depths import FarDepth
from replica.machine.state.proxies import Proxy
from replica.services.proxies.far_manager import FarManager
from replica.services.proxies.standing import ProxyStanding
from tandemq.v1.macro_service_pb2 import RELATIONSHIP_UNSPECIFIED
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY, GetQueueResponse, QueueConfig
from tests.unit.replica.core.delivery.test_far_heads import beside

TARGET = "//west/orders"


class Watched(FarManager):
    """That of a pair here; what is asked of west is answered by the test."""

    def __init__(self, domain: Domain) -> None:
        members: Any = SimpleNamespace(open=None, node=None)
        reports: Any = SimpleNamespace(note=lambda *_: None)
        super().__init__(members, reports, domain, "west", [])
        self.asked, self.answer = asyncio.Event(), asyncio.get_running_loop().create_future()

    async def _asked(self, *_asked: Any, **_more: Any) -> Any:
        self.asked.set()
        return await self.answer

    @property
    def seen(self) -> dict[str, FarDepth]:
        return self.domain.orders.steering.far.seen

    def proxy(self, number: int, expected: QueueConfig | None = None) -> ProxyStanding:
        wanted = expected or QueueConfig()
        standing = ProxyStanding(Proxy(f"p{number}", number, TARGET, RELATIONSHIP_UNSPECIFIED, wanted, 0), 0)
        self.add(standing)
        return standing


@pytest.fixture
def domain() -> Domain:
    pair, _ = beside(low=1)
    assert pair.master is not None
    return pair.master.core


async def test_what_is_heard_of_a_proxy_that_has_gone_is_not_kept(domain: Domain) -> None:
    """Nobody would look again, and a macro queue would deal by that length for ever."""
    west = Watched(domain)
    standing = west.proxy(1)
    looking = asyncio.create_task(west._look_at(standing))
    await west.asked.wait()
    west.drop(1)
    west.answer.set_result(GetQueueResponse())
    await looking
    assert not west.seen
    assert standing.found is None


async def test_a_length_is_known_as_long_as_one_proxy_leads_there(domain: Domain) -> None:
    west = Watched(domain)
    west.answer.set_result(GetQueueResponse())
    for number in (1, 2):
        await west._look_at(west.proxy(number))
    west.drop(1)
    assert west.seen == {TARGET: FarDepth(0)}
    west.drop(2)
    assert not west.seen


async def test_a_proxy_that_expects_another_queue_says_nothing_of_who_reaches_it(domain: Domain) -> None:
    """Both lead to one queue: it is away for the one alone, whoever was looked at last."""
    west = Watched(domain)
    west.answer.set_result(GetQueueResponse(queue={"length": 7}))
    fits, misfits = west.proxy(1), west.proxy(2, QueueConfig(queue_type=QUEUE_TYPE_TWO_WAY))
    for standing in (fits, misfits, fits, misfits):
        await west._look_at(standing)
    assert west.seen == {TARGET: FarDepth(7)}
    west.drop(1)
    assert west.seen[TARGET].why.startswith("CONFIG_MISMATCH")
    west.close()
    assert not west.seen
