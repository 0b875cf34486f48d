"""Rights of who calls through a proxy: the caller's on its name here, and those of this pair's members there (M11)."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from chaos.cluster import CLIENT, WITNESS, Cluster
from tandemq import aio
from tandemq.client.macros import FarState
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


@pytest.mark.requirement("R006")
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


@pytest.mark.requirement("R006")
async def test_who_receives_by_a_macro_queue_needs_its_right_alone_and_this_pairs_members_those_there(
    tmp_path: Path,
) -> None:
    """M7: the member that serves asks there by its own certificate; what it may not do is said of that member alone."""
    east, west = secured(tmp_path)
    await asyncio.gather(east.start(), west.start())
    async with (
        stopped_at_end(east),
        stopped_at_end(west),
        aio.connect(west.target, credentials=west.credentials, timeout=OUTER_S) as far,
        aio.connect(west.target, credentials=tmp_path / "west" / "billing", timeout=OUTER_S) as billing_there,
        aio.connect(east.target, credentials=east.credentials, timeout=OUTER_S) as near,
        aio.connect(east.target, credentials=tmp_path / "east" / "billing", timeout=OUTER_S) as billing,
    ):
        await far.create_queue("orders")
        await near.create_queue("own")
        await near.create_proxy("proxy", "//west/orders")
        await near.create_macro("all")
        for member, priority in (("proxy", 9), ("own", 0)):
            await near.add_macro_member("all", member, priority=priority)
        await far.enqueue("orders", [b"there"])
        await near.enqueue("own", [b"here"])
        with pytest.raises((Denied, NotFound)):
            await billing.dequeue("all")
        await near.grant_right("billing", "consume", "all")

        async def is_away() -> bool:
            (shown,) = [each.far for each in (await near.get_macro("all")).members if each.target]
            return shown is not None and shown.state is FarState.AWAY and bool(shown.why)

        await until(is_away, "members of east have no right there, and that is said")
        got = await billing.dequeue("all", wait=OUTER_S)
        assert got.payloads == [b"here"], "the others are not held up by that"
        await got.ack()
        for name in ("a", "b"):
            await far.grant_right(f"member/east/{name}", "consume", "orders")
        got = await billing.dequeue("all", wait=OUTER_S)
        assert (got.payloads, got.queue) == ([b"there"], "proxy")
        await got.ack()
        assert (await far.get_queue("orders")).length == 0
        with pytest.raises((Denied, NotFound)):
            await billing_there.dequeue("orders")
        with pytest.raises((Denied, NotFound)):
            await billing.dequeue("proxy")
