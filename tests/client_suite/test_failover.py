"""The same client code through the death of the master in the middle of each operation: one effect, the first answer.

In each round every operation is under way at once, each on a queue of its own, when the master is killed.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.cli.view import PairView
from tandemq.v1.pair_service_pb2 import GetPairStatusRequest
from tests.client_suite.by_macros import by_macros
from tests.client_suite.by_proxies import by_proxies
from tests.client_suite.operations import OPERATIONS
from tests.client_suite.ways import knowing, settings_of, short_folder, to
from tests.integration.support import gone, new_name, raw_to, roles, stopped_at_end
from tests.support.clusters import patient, quick
from tests.support.until import OUTER_S, until

pytestmark = [pytest.mark.process, pytest.mark.asyncio(loop_scope="module")]

UNDER_WAY_S = 0.1
"""For requests to leave this process; a pair suspects nobody before 600 ms."""
ORDERED_MIN = 12
"""Records of operations that the master has written and its frozen peer has not."""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def sockets() -> AsyncIterator[Path]:
    async with short_folder() as folder:
        yield folder


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory, sockets: Path) -> AsyncIterator[Cluster]:
    """The rounds of this file go on with the pair as the one before left it."""
    folder: Path = tmp_path_factory.mktemp("pair")
    async with stopped_at_end(quick(folder, settings=settings_of(sockets, "a", "b"))) as cluster:
        await cluster.start()
        yield cluster


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def near(pair: Cluster, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """A pair with proxies of what the other one has."""
    settings = {name: {"links": knowing(pair)} for name in ("a", "b")}
    async with patient(tmp_path_factory.mktemp("near"), pair="near", settings=settings).running() as cluster:
        yield cluster


@pytest_asyncio.fixture(loop_scope="module")
async def whole(pair: Cluster) -> Cluster:
    """As it is to begin a round, also after one that failed."""
    for name, child in pair.children.items():
        if not child.running:
            await pair.restart(name)
    await pair.wait_ready()
    return pair


async def log_index(pair: Cluster, name: str) -> int:
    async with raw_to(pair.endpoint(name)) as [member]:
        status = await member.pair.GetPairStatus(GetPairStatusRequest(), timeout=OUTER_S)
        return next(domain.log_index for domain in status.member.domains if domain.name == "main")


async def all_at_once(client: aio.Client, step: str, queues: dict[str, str], given: dict[str, tuple[Any, ...]]) -> Any:
    """One step of every operation; what each returned."""
    calls = [getattr(OPERATIONS[name], step)(client, queues[name], *given[name]) for name in OPERATIONS]
    return dict(zip(OPERATIONS, await asyncio.gather(*calls), strict=True))


async def killed_after_the_call(pair: Cluster, master: str, acting: asyncio.Future[Any]) -> None:
    """The master is frozen: it never sees what was asked."""
    done, _ = await asyncio.wait({acting}, timeout=UNDER_WAY_S)
    assert not done, "a frozen master has answered"
    await gone(pair, master)


async def killed_before_the_answer(pair: Cluster, master: str, replica: str, before: int) -> None:
    """The replica is frozen: the master orders and writes what was asked, and may not answer."""

    async def ordered() -> bool:
        return await log_index(pair, master) >= before + ORDERED_MIN

    await until(ordered, "records of what was asked")
    await gone(pair, master)


@pytest.mark.promise
@pytest.mark.requirement("R007", "R097")
@pytest.mark.parametrize(
    ("way", "moment"),
    [
        ("tcp", "before the answer"),
        ("replica", "after the call"),
        ("macro", "before the answer"),
        ("proxy", "after the call"),
        pytest.param("proxy", "before the answer", marks=pytest.mark.long),
        pytest.param("macro", "after the call", marks=pytest.mark.long),
        pytest.param("tcp", "after the call", marks=pytest.mark.long),
        pytest.param("replica", "before the answer", marks=pytest.mark.long),
        pytest.param("unix", "after the call", marks=pytest.mark.long),
        pytest.param("unix", "before the answer", marks=pytest.mark.long),
    ],
)
async def test_every_operation_outlives_its_master(
    whole: Cluster, near: Cluster, sockets: Path, way: str, moment: str
) -> None:
    pair = whole
    master, replica = await roles(pair)
    connect = {
        "tcp": to(pair.target),
        "macro": by_macros(to(pair.target)),
        "proxy": by_proxies(to(near.target), to(pair.target), pair.pair),
        "replica": to(pair.endpoint(replica), follow_master=False),
        "unix": to(f"unix:{sockets / master},{pair.endpoint(replica)}"),
    }[way]
    async with connect() as client:
        queues = {name: new_name(name) for name in OPERATIONS}
        prepared = await all_at_once(client, "prepare", queues, dict.fromkeys(OPERATIONS, ()))
        before = await log_index(pair, master)
        seen = moment == "before the answer" and way != "replica"  # a frozen replica shows its master nothing
        frozen = master if moment == "after the call" else replica
        pair.pause(frozen)
        given = {name: (value,) for name, value in prepared.items()}
        acting = asyncio.ensure_future(all_at_once(client, "act", queues, given))
        if seen:
            await killed_before_the_answer(pair, master, replica, before)
        else:
            await killed_after_the_call(pair, master, acting)
        pair.resume(frozen)
        answers = await asyncio.wait_for(acting, OUTER_S)
        given = {name: (prepared[name], answers[name]) for name in OPERATIONS}
        await all_at_once(client, "check", queues, given)

        queues = {name: new_name(name) for name in OPERATIONS}  # and again, with the pair as it is now
        prepared = await all_at_once(client, "prepare", queues, dict.fromkeys(OPERATIONS, ()))
        answers = await all_at_once(client, "act", queues, {name: (value,) for name, value in prepared.items()})
        await all_at_once(client, "check", queues, {name: (prepared[name], answers[name]) for name in OPERATIONS})
    await pair.restart(master)
    await pair.wait_ready()
    await pair.wait_for(PairView.equal, "equal members")
    assert await roles(pair) == (replica, master)


@pytest.mark.requirement("R007", "R058", "R097")
@pytest.mark.parametrize("moment", ["after the call", "before the answer"])
async def test_every_operation_outlives_the_master_that_has_its_proxy(
    whole: Cluster, near: Cluster, moment: str
) -> None:
    """It has never seen the calls; or the other pair carries them out, and the next master asks there again."""
    master, replica = await roles(near)
    asked = (await roles(whole))[0]
    async with by_proxies(to(near.target), to(whole.target), whole.pair)() as client:
        queues = {name: new_name(name) for name in OPERATIONS}
        prepared = await all_at_once(client, "prepare", queues, dict.fromkeys(OPERATIONS, ()))
        frozen, member = (near, master) if moment == "after the call" else (whole, asked)
        frozen.pause(member)
        acting = asyncio.ensure_future(
            all_at_once(client, "act", queues, {name: (value,) for name, value in prepared.items()})
        )
        await killed_after_the_call(near, master, acting)
        frozen.resume(member)
        answers = await asyncio.wait_for(acting, OUTER_S)
        await all_at_once(client, "check", queues, {name: (prepared[name], answers[name]) for name in OPERATIONS})
    await near.restart(master)
    await near.wait_ready()
    assert await roles(near) == (replica, master)
