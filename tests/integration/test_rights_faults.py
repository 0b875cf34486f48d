"""Rights that are changed when it is inconvenient: at both members at a time, during a handoff, while the master dies,
as many as there may be, and by administrators who are none any more.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.config import to_toml
from tandemq.config_security import Security
from tandemq.errors import Denied, Refused, ResourceExhausted, TandemqError
from tests.integration.support import roles
from tests.support.secured import client_of, credentials_of, secured, start_secured
from tests.support.until import OUTER_S, until

pytestmark = [pytest.mark.process, pytest.mark.slow]

MOST, AT_ONCE = 10_000, 200


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    cluster = secured(tmp_path, "carol", "billing")
    asyncio.run(start_secured(cluster))
    yield cluster
    asyncio.run(cluster.stop())


@pytest.fixture
async def ops(pair: Cluster) -> AsyncIterator[aio.Client]:
    async with client_of(pair) as made:
        yield made


async def test_of_two_changes_at_both_members_by_one_version_one_is_refused(pair: Cluster, ops: aio.Client) -> None:
    version = (await ops.list_rights()).version
    own = Path(pair.credentials)

    async def granted(member: str) -> int | str:
        endpoint = pair.endpoint(member)
        async with aio.connect(endpoint, credentials=own, timeout=OUTER_S, follow_master=False) as client:
            try:
                return await client.grant_right("billing", "produce", f"of/{member}", expected_version=version)
            except Refused as refused:
                return refused.reason

    found = await asyncio.gather(granted("a"), granted("b"))
    assert sorted(map(str, found)) == sorted((str(version + 1), "VERSION_MISMATCH"))
    assert len((await ops.list_rights()).grants) == 1


async def test_no_change_is_lost_over_handoffs_and_a_kill_between_a_grant_and_its_answer(
    pair: Cluster, ops: aio.Client
) -> None:
    versions: list[int] = []
    over = asyncio.Event()

    async def grant() -> None:
        while not over.is_set():
            versions.append(await ops.grant_right("billing", "produce", f"q/{len(versions)}"))

    async def reached(count: int) -> None:
        await until(lambda: len(versions) >= count, "rights are granted all the while")

    granting = asyncio.create_task(grant())
    await reached(5)
    for _ in range(2):
        _, replica = await roles(pair)
        async with aio.connect(pair.target, credentials=pair.credentials, timeout=OUTER_S) as other:
            await until(lambda other=other, to=replica: handed_over(other, to), "handed over")
        await reached(len(versions) + 5)
    master, _ = await roles(pair)
    pair.kill(master)  # a grant is under way at each moment
    await reached(len(versions) + 5)
    over.set()
    await granting
    await pair.restart(master)
    await pair.wait_ready()
    assert versions == list(range(1, len(versions) + 1)), "each is given once, and none is left out"
    for member in ("a", "b"):
        async with aio.connect(pair.endpoint(member), credentials=pair.credentials, timeout=OUTER_S) as client:
            assert {each.pattern for each in (await client.list_rights()).grants} == {
                f"q/{number}" for number in range(len(versions))
            }


async def handed_over(client: aio.Client, to: str) -> bool:
    try:
        return (await client.handoff(to=to, reason="while rights are granted")).done
    except TandemqError:
        return False


@pytest.mark.long  # that one more is refused is shown by tests/unit/replica/machine/features/test_rights.py
async def test_ten_thousand_grants_are_kept_by_both_members_and_one_more_is_refused(
    pair: Cluster, ops: aio.Client
) -> None:
    await ops.create_queue("orders")
    numbers = iter(range(MOST - 1))

    async def worker() -> None:
        for number in numbers:
            await ops.grant_right(f"client{number % 100}", "produce", f"q/{number}")

    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    await ops.grant_right("billing", "produce", "orders")
    with pytest.raises(ResourceExhausted) as caught:
        await ops.grant_right("billing", "consume", "orders")
    assert (caught.value.reason, dict(caught.value.metadata)["limit"]) == ("QUOTA_EXCEEDED", str(MOST))
    await ops.revoke_right("client0", "produce", "q/0")
    await ops.grant_right("billing", "browse", "orders")
    master, replica = await roles(pair)
    await pair.restart(replica)
    await pair.wait_ready()
    pair.kill(master)
    async with aio.connect(pair.target, credentials=credentials_of(pair, "billing"), timeout=OUTER_S) as billing:
        await billing.send("orders", b"x")
        with pytest.raises(Denied):
            await billing.purge_queue("orders")
    found = await ops.list_rights()
    assert (len(found.grants), found.version) == (MOST, MOST + 2)


async def test_an_administrator_who_is_taken_out_of_the_configuration_is_none_any_more(
    pair: Cluster, ops: aio.Client
) -> None:
    await ops.grant_right("billing", "produce", "orders")
    for member in ("a", "b"):
        security = Security(credentials=str(credentials_of(pair, member)), administrators=("carol",))
        pair.settings = {**pair.settings, member: {"security": security}}
        pair.config_file(member).write_text(to_toml(pair.config(member)), encoding="utf-8")
        await pair.restart(member)
        await until(lambda: all_answer(pair), "both members answer again")
    async with aio.connect(pair.target, credentials=credentials_of(pair, "carol"), timeout=OUTER_S) as carol:
        found = await carol.list_rights()
        assert (found.administrators, [each.pattern for each in found.grants]) == (["principal/carol"], ["orders"])
        with pytest.raises(Denied):
            await ops.grant_right("ops", "administer", "**")
        await carol.grant_right("ops", "observe")
        assert (await ops.check_right("observe")).allowed


async def all_answer(pair: Cluster) -> bool:
    for member in ("a", "b"):
        async with aio.connect(
            pair.endpoint(member), credentials=credentials_of(pair, "carol"), timeout=OUTER_S
        ) as client:
            await client.list_rights()
    return True
