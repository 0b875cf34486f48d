"""Rights of who calls through a proxy: the caller's on its name here, and those of this pair's members there (M11)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from chaos.cluster import CLIENT, WITNESS, Cluster
from tandemq import aio
from tandemq.client.proxies import ProxyState
from tandemq.config_links import Links
from tandemq.credentials.authority import create, issue
from tandemq.errors import Denied, NotFound
from tests.integration.support import stopped_at_end
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process


def issued(folder: Path, pair: str) -> Path:
    """Certificates of a pair's processes and people, by one authority for both pairs."""
    if not (folder / "authority").exists():
        create(folder / "authority")
    for name in ("a", "b"):
        issue(folder / "authority", f"member/{pair}/{name}", folder / pair / name)
    issue(folder / "authority", "witness/witness", folder / pair / WITNESS)
    issue(folder / "authority", "principal/ops", folder / pair / CLIENT)
    issue(folder / "authority", "principal/billing", folder / pair / "billing")
    return folder / pair


def secured(folder: Path) -> tuple[Cluster, Cluster]:
    """Whose first one knows where the second one is."""
    west = patient(folder / "of-west", pair="west", secured=issued(folder, "west"), operators=["ops"])
    links = {"links": Links(managers=tuple(f"west={endpoint}" for endpoint in west.endpoints))}
    settings = dict.fromkeys(("a", "b"), links)
    return patient(
        folder / "of-east", pair="east", secured=issued(folder, "east"), operators=["ops"], settings=settings
    ), west


async def test_the_caller_needs_the_right_here_and_the_pairs_members_there(tmp_path: Path) -> None:
    east, west = secured(tmp_path)
    await asyncio.gather(east.start(), west.start())
    async with (
        stopped_at_end(east),
        stopped_at_end(west),
        aio.connect(west.target, credentials=west.credentials, timeout=OUTER_S) as far,
        aio.connect(east.target, credentials=east.credentials, timeout=OUTER_S) as near,
        aio.connect(east.target, credentials=tmp_path / "east" / "billing", timeout=OUTER_S) as billing,
    ):
        await far.create_queue("orders")
        await near.create_proxy("proxy", "//west/orders")
        with pytest.raises(Denied, match="PERMISSION_DENIED"):
            await billing.create_proxy("mine", "//west/orders")

        async def is_failed() -> bool:
            return (await near.get_proxy("proxy")).state is ProxyState.FAILED

        async def is_open() -> bool:
            return (await near.get_proxy("proxy")).state is ProxyState.OPEN

        await until(is_failed, "members of east may not see it")
        assert (await near.get_proxy("proxy")).why.startswith("QUEUE_NOT_FOUND")
        for name in ("a", "b"):
            await far.grant_right(f"member/east/{name}", "produce", "orders")
        await until(is_open, "they may now")
        with pytest.raises(NotFound, match="QUEUE_NOT_FOUND"):
            await billing.enqueue("proxy", [b"no right on the name"])
        await near.grant_right("billing", "produce", "proxy")
        await billing.enqueue("proxy", [b"1"])
        with pytest.raises(Denied, match="principal/billing"):
            await billing.dequeue("proxy")
        await near.grant_right("billing", "consume", "proxy")
        with pytest.raises(Denied, match="member/east/"):
            await billing.dequeue("proxy")
        assert (await far.get_queue("orders")).length == 1
