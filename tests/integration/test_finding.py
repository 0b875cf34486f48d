"""R142, R144-R148: names and files of managers, in the SDK and on the command line, with a pair of real processes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.finding.profile import read
from tests.integration.support import master_of, stopped_at_end
from tests.support.clusters import patient

pytestmark = [pytest.mark.process, pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def pair(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Cluster]:
    """One for all; the last test kills its master."""
    async with stopped_at_end(patient(tmp_path_factory.mktemp("finding"))) as cluster:
        await cluster.start()
        yield cluster


@pytest.fixture
def site(pair: Cluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A site whose file names a manager that is away and, with a higher number, the pair."""
    path = tmp_path / "site.toml"
    path.write_text(
        '[managers.away]\nendpoints = ["127.0.0.1:1"]\npriority = 1\n'
        f'[managers.orders]\nendpoints = {json.dumps(pair.endpoints)}\npriority = 2\naliases = ["my_qmgr"]\n'
    )
    for variable in ("TANDEMQ_TARGET", "MOS_DFLT_QUEMGR_NAME"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TANDEMQ_CONFIG_HOME", str(tmp_path / "nobody"))
    monkeypatch.setenv("TANDEMQ_HOST_FILE", str(tmp_path / "host.toml"))
    monkeypatch.setenv("TANDEMQ_SITE_FILE", str(path))
    (tmp_path / "host.toml").write_text("")
    return path


async def run(*argv: str, code: int = 0) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *argv, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, err = await process.communicate()
    assert process.returncode == code, (out + err).decode()
    return (out if code == 0 else err).decode()


async def cli(*arguments: str, code: int = 0) -> str:
    return await run("-m", "tandemq", *arguments, code=code)


async def told(*arguments: str) -> Any:
    return json.loads(await cli(*arguments, "-o", "json"))


@pytest.mark.requirement("R012", "R142", "R144", "R145", "R146", "R147", "R148")
async def test_names_on_the_command_line(pair: Cluster, site: Path) -> None:
    where = await told("config", "where")
    assert where["decided_by"] == f"site file {site}"
    states = [(each["manager"], each["state"]) for each in where["managers"]]
    assert states == [("away", "no answer"), ("orders", "answers, used"), ("orders", "answers, used")]
    assert [each["manager"] for each in (await told("config", "where", "//my_qmgr"))["managers"]] == ["orders"] * 2

    await cli("queue", "create", "//my_qmgr/cf/hotline")
    assert [each["name"] for each in (await told("queue", "ls"))["queues"]] == ["cf/hotline"]
    done = await told("queue", "export", "//my_qmgr/cf/hotline", "--to", "site")
    assert (done["queue"], done["changed"]) == ("//orders/cf/hotline", True)
    assert set(done["endpoints"]) == set(pair.endpoints)
    assert not (await told("queue", "export", "//orders/cf/hotline", "--to", "site"))["changed"]

    assert (await told("queue", "find", "cf/hotline"))["queue"] == "//orders/cf/hotline"
    assert (await told("msg", "send", "///cf/hotline", "ring"))["acknowledged"] == 1
    received = await told("msg", "receive", "//orders/cf/hotline", "--ack")
    assert [each["body"] for each in received["messages"]] == ["ring"]
    roles = await told("pair", "status", "--target", "//orders")
    assert {each["endpoint"] for each in roles["members"]} == set(pair.endpoints)

    missing = await cli("queue", "export", "//orders/nothing", "--to", "site", code=1)
    assert "QUEUE_NOT_FOUND" in missing
    assert (await told("queue", "unexport", "//orders/cf/hotline", "--from", "site"))["changed"]
    found = read(site)
    assert found is not None
    assert found.queues == {}
    assert "MANAGER_NOT_FOUND" in await cli("msg", "send", "///cf/hotline", "ring", code=1)


async def test_a_manager_is_known_by_the_name_that_it_has_itself(pair: Cluster, site: Path) -> None:
    assert pair.pair not in ("away", "orders")  # what the site's file has
    async with aio.connect(pair.target) as client:
        await client.create_queue("own")
        for name in (pair.pair, *pair.members):
            assert (await client.get_queue(f"//{name}/own")).name == "own"


@pytest.mark.requirement("R146")
async def test_the_variable_of_the_first_design(pair: Cluster, site: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOS_DFLT_QUEMGR_NAME", "my_qmgr")
    async with aio.connect() as client:
        await client.create_queue("by-variable")
        assert set(await client.locate()) == set(pair.endpoints)


@pytest.mark.requirement("R145")
async def test_a_client_that_was_given_a_name_goes_on_when_the_master_dies(pair: Cluster, site: Path) -> None:
    async with aio.connect("//orders/kill/hotline") as client, aio.connect("127.0.0.1:1") as other:
        await client.create_queue(client.queue)
        async with client.producer(client.queue) as producer, other.producer("//my_qmgr/kill/hotline") as elsewhere:
            await asyncio.gather(producer.send(b"1"), elsewhere.send(b"2"))
            pair.kill(master_of(await pair.status()))
            await asyncio.gather(producer.send(b"3"), elsewhere.send(b"4"))
        got = {message.payload async for message in other.browse("//orders/kill/hotline")}
    assert got == {b"1", b"2", b"3", b"4"}
