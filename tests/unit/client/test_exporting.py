"""Exporting a queue: for which manager, at which endpoints; and taking it out again, for that manager alone."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tandemq.client import aio, exporting
from tandemq.errors import NotFound, Refused, TandemqError
from tandemq.finding.file_registry import FileRegistry
from tandemq.finding.resolver import Exported, Manager, ResolverAway
from tandemq.finding.resolvers import StaticResolver
from tandemq.v1 import common_pb2 as common
from tandemq.v1 import pair_service_pb2 as pair
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.unit.client.fake import FakeMember, refuse

GET = "/tandemq.v1.QueueAdminService/GetQueue"
STATUS = "/tandemq.v1.PairService/GetPairStatus"
OWN = ("a.example:7600", "b.example:7610")


@pytest.fixture
async def member(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[FakeMember]:
    """Of the pair `p`, with the queue `q`, whose address is what a test puts into `address`."""
    monkeypatch.setenv("TANDEMQ_CONFIG_HOME", str(tmp_path))

    async with FakeMember() as started:

        async def queue(request: bytes, context: Any) -> bytes:
            if admin.GetQueueRequest.FromString(request).name != "q":
                await refuse(context, common.REASON_QUEUE_NOT_FOUND)
            found = admin.QueueInfo(config=admin.QueueConfig(address="there.example:1"))
            return admin.GetQueueResponse(header=started.header(), queue=found).SerializeToString()

        async def status(_request: bytes, _context: Any) -> bytes:
            member = pair.MemberStatus(endpoint=OWN[0])
            answer = pair.GetPairStatusResponse(header=started.header(), member=member, peer_endpoint=OWN[1])
            return answer.SerializeToString()

        started.unary = {GET: queue, STATUS: status}
        yield started


@pytest.fixture
def registry(tmp_path: Path) -> FileRegistry:
    return FileRegistry(tmp_path / "managers.toml")


async def test_a_queue_is_exported_where_it_says_it_is(member: FakeMember, registry: FileRegistry) -> None:
    async with aio.connect(member.endpoint) as client:
        first = await exporting.export_queue(client, "q", registry)
        again = await exporting.export_queue(client, "q", registry)
    assert (str(first.name), first.endpoints, first.changed) == ("//p/q", ("there.example:1",), True)
    assert not again.changed
    assert await registry.resolve_queue("q") == Exported("q", "p", ("there.example:1",))
    answer = await registry.resolve("p")
    assert answer is not None
    assert answer.managers[0].endpoints == OWN


@pytest.mark.parametrize(
    ("target", "named", "manager"),
    [("", "", "p"), ("", "chosen", "chosen"), ("//orders", "", "orders"), ("//orders", "chosen", "chosen")],
)
async def test_the_manager_is_the_one_that_was_said_or_the_name_it_was_found_by_or_its_own(
    member: FakeMember, registry: FileRegistry, target: str, named: str, manager: str
) -> None:
    """In that order, whether it is exported or taken out again; and for any other one nothing is taken out."""
    site = StaticResolver({"orders": member.endpoint})
    async with aio.connect(target or member.endpoint, resolvers=[site]) as client:
        found = await exporting.export_queue(client, "q", registry, manager=named, endpoints=("x.example:1",))
        assert (found.name.manager, found.endpoints) == (manager, ("x.example:1",))
    async with aio.connect(target or member.endpoint, resolvers=[site]) as client:  # one that has called nobody yet
        with pytest.raises(Refused) as caught:
            await exporting.withdraw_queue(client, "q", registry, manager="another")
        assert caught.value.reason == "CONFIG_MISMATCH"
        assert await exporting.withdraw_queue(client, "q", registry, manager=named)
        assert not await exporting.withdraw_queue(client, "q", registry, manager=named)
    assert await registry.resolve_queue("q") is None


async def test_a_queue_that_is_not_there_is_not_exported(member: FakeMember, registry: FileRegistry) -> None:
    async with aio.connect(member.endpoint) as client:
        with pytest.raises(NotFound):
            await exporting.export_queue(client, "other", registry)
    assert await registry.resolve_queue("other") is None


@pytest.mark.parametrize("error", [ResolverAway("is away"), OSError("disk full"), OSError()])
@pytest.mark.parametrize("call", [exporting.export_queue, exporting.withdraw_queue])
async def test_where_nothing_can_be_written_the_error_names_the_place(
    member: FakeMember, registry: FileRegistry, monkeypatch: pytest.MonkeyPatch, call: Any, error: Exception
) -> None:
    async def fails(*_: object) -> bool:
        raise error

    monkeypatch.setattr(registry, "export", fails)
    monkeypatch.setattr(registry, "withdraw", fails)
    async with aio.connect(member.endpoint) as client:
        with pytest.raises(TandemqError) as caught:
            await call(client, "q", registry)
    assert caught.value.reason == "MANAGER_UNREACHABLE"
    assert f"{registry.source}: {str(error) or 'OSError'}; repeat it" in str(caught.value)


async def test_a_registry_of_another_manager_of_that_name_stays_as_it_is(
    member: FakeMember, registry: FileRegistry
) -> None:
    await registry.export(Exported("other", "p"), Manager("p", ("c.example:7600",)))
    async with aio.connect(member.endpoint) as client:
        with pytest.raises(Refused) as caught:
            await exporting.export_queue(client, "q", registry)
    assert caught.value.reason == "CONFIG_MISMATCH"
    assert await registry.resolve_queue("q") is None
