"""A manager whose answers nobody can read: proxies that lead to it fail by name, and the member that asks goes on."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandemq import aio
from tandemq.client.proxies import ProxyState
from tandemq.config_links import Links
from tandemq.errors import TandemqError
from tests.integration.test_proxies import until_state
from tests.support.clusters import patient
from tests.support.nonsense import answering_nonsense
from tests.support.until import until

pytestmark = pytest.mark.process
SOON_S = 3.0
"""After which a client gives up."""


async def test_an_answer_that_nobody_can_read_fails_the_proxy_and_ends_no_member(tmp_path: Path) -> None:
    async with answering_nonsense() as endpoint:
        links = Links(managers=(f"odd={endpoint}",))
        cluster = patient(tmp_path, pair="east", settings={name: {"links": links} for name in ("a", "b")})
        async with cluster.running(), aio.connect(cluster.target, timeout=SOON_S) as east:
            await east.create_proxy("p", "//odd/q")
            shown = await until_state(east, "p", ProxyState.FAILED)
            assert shown.why.startswith("MANAGER_UNREACHABLE")
            assert "nobody can read" in shown.why
            with pytest.raises(TandemqError) as refused:
                await east.enqueue("p", [b"x"])
            assert refused.value.reason in ("MANAGER_UNREACHABLE", "DEADLINE_EXCEEDED")
            for streams in (_produced, _consumed):
                with pytest.raises(TandemqError) as refused:
                    await streams(east)
                assert refused.value.reason in ("MANAGER_UNREACHABLE", "DEADLINE_EXCEEDED", "NO_PROGRESS")
            await east.create_queue("here")
            await east.enqueue("here", [b"goes on"])
            assert all(cluster.children[name].running for name in cluster.members)
            assert not [line for name in cluster.members for line in _tracebacks(tmp_path / "logs" / f"{name}.log")]


async def test_a_link_to_it_waits_and_says_why(tmp_path: Path) -> None:
    async with answering_nonsense() as endpoint:
        links = Links(managers=(f"odd={endpoint}",))
        cluster = patient(tmp_path, pair="east", settings={name: {"links": links} for name in ("a", "b")})
        async with cluster.running(), aio.connect(cluster.target) as east:
            await east.transact([], {"//odd/far": [b"x"]}, forward=True)

            async def is_said() -> bool:
                return any(each.why for each in await east.list_transmissions())

            await until(is_said, "the link says why it waits")
            assert (await east.get_queue("SYSTEM.XMIT/odd")).length == 1
            assert all(cluster.children[name].running for name in cluster.members)


async def _produced(east: aio.Client) -> None:
    async with east.producer("p") as producer:
        await producer.send(b"x")


async def _consumed(east: aio.Client) -> None:
    async with east.consumer("p") as consumer:
        await anext(consumer)


def _tracebacks(log: Path) -> list[str]:
    return [line for line in log.read_text(encoding="utf-8").splitlines() if "Traceback" in line]
