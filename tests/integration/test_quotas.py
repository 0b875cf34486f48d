"""Quotas at a pair with certificates: who has used up his share is refused with the time to wait, which the SDK obeys;
a stream is not read meanwhile; nobody else notices.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Iterator

import grpc
import grpc.aio
import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.auditing import FILE, decoded
from tandemq.config import member_ports
from tandemq.credentials.chosen import opener_of
from tandemq.errors import from_rpc_error
from tandemq.v1 import queue_service_pb2 as pb
from tandemq.v1 import queue_service_pb2_grpc as pb_grpc
from tandemq.v1 import transaction_service_pb2 as units
from tandemq.v1 import transaction_service_pb2_grpc as units_grpc
from tests.integration.support import http_get, new_id, roles
from tests.support.secured import client_of, credentials_of, secured, start_secured
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

QUOTAS = ("billing=messages:100", "reader=streams:2", "visitor=connections:2", "worker=units:2")
RIGHTS = (
    ("billing", "produce"),
    ("shop", "produce"),
    ("shop", "consume"),
    ("reader", "consume"),
    ("visitor", "produce"),
    ("worker", "produce"),
)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    cluster = secured(tmp_path_factory.mktemp("pair"), *dict(RIGHTS), quotas=QUOTAS)
    asyncio.run(start_secured(cluster, [(who, right, "orders") for who, right in RIGHTS], ["orders"]))
    yield cluster
    asyncio.run(cluster.stop())


@pytest.fixture
async def billing(pair: Cluster) -> AsyncIterator[aio.Client]:
    async with client_of(pair, "billing") as made:
        yield made


async def waits(pair: Cluster, member: str) -> float:
    """Batches of streams that waited; the page is kept for a moment."""
    port = member_ports(pair.base_port, ["a", "b"].index(member)).http
    _, page = await http_get(port, "/metrics")
    (found,) = re.findall(r'(?m)^tandemq_quota_waits_total\{quota="messages"\} (\S+)$', page)
    return float(found)


def refused_at(pair: Cluster, member: str) -> list[str]:
    """Whom it has refused for a quota, as its audit log has it."""
    path = pair.data_dir / member / FILE
    lines, _ = decoded(path.read_bytes().split(b"\n")) if path.exists() else ([], 0)
    return [each.principal for each in lines if each.outcome == "QUOTA_EXCEEDED"]


async def test_a_call_over_the_quota_is_refused_with_the_time_to_wait_and_the_sdk_obeys(
    pair: Cluster, billing: aio.Client
) -> None:
    master, replica = await roles(pair)
    await billing.enqueue("orders", [b"x"] * 300)  # more than a second's worth: let in, and paid for afterwards
    async with opener_of(str(credentials_of(pair, "billing")))(pair.endpoint(master), ()) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await pb_grpc.QueueServiceStub(channel).Enqueue(one_message(), timeout=OUTER_S)
    assert caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    refused = from_rpc_error(caught.value)
    assert (refused.reason, refused.definite) == ("QUOTA_EXCEEDED", True)
    assert refused.metadata == {"quota": "messages", "limit": "100", "principal": "principal/billing"}
    assert refused.retry_after is not None
    assert 0 < refused.retry_after.total_seconds() <= 2.01
    async with client_of(pair, "shop") as shop:
        await shop.enqueue("orders", [b"y"] * 300)
        await shop.enqueue("orders", [b"y"] * 300)  # nobody else waits
    await billing.enqueue("orders", [b"x"])
    await until(lambda: refused_at(pair, master), "it stands in the audit log")
    assert set(refused_at(pair, master)) == {"principal/billing"}
    assert refused_at(pair, replica) == [], "it was not asked for a second share"


async def test_a_producer_that_is_over_its_quota_is_not_read_and_loses_nothing(
    pair: Cluster, billing: aio.Client
) -> None:
    master, _ = await roles(pair)
    async with aio.connect(pair.target, credentials=pair.credentials, timeout=OUTER_S) as ops:
        await ops.purge_queue("orders")
        async with billing.producer("orders") as producer:
            for number in range(3):
                await producer.send_many([b"%d" % number] * 150)
        found = [bytes(each.payload) async for each in ops.browse("orders")]
    assert found == [b"0"] * 150 + [b"1"] * 150 + [b"2"] * 150

    async def waited() -> bool:
        return await waits(pair, master) > 0

    await until(waited, "it is counted")


async def test_what_the_replica_carries_is_counted_where_its_client_is(pair: Cluster) -> None:
    master, replica = await roles(pair)
    before = len(refused_at(pair, master))
    own = credentials_of(pair, "billing")
    async with aio.connect(pair.endpoint(replica), credentials=own, timeout=OUTER_S, follow_master=False) as there:
        await there.enqueue("orders", [b"z"] * 300)
        await there.enqueue("orders", [b"z"])
    await until(lambda: refused_at(pair, replica), "the replica has refused it")
    assert len(refused_at(pair, master)) == before


async def test_one_stream_more_than_the_quota_is_refused_until_one_has_ended(pair: Cluster) -> None:
    async with opener_of(str(credentials_of(pair, "reader")))(pair.endpoint((await roles(pair))[0]), ()) as channel:
        stub = pb_grpc.QueueServiceStub(channel)
        first, second = await opened(stub), await opened(stub)
        more = stub.Consume()  # refused before it says anything; what is written then may lose gRPC the refusal
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await more.read()
        refused = from_rpc_error(caught.value)
        assert (refused.reason, refused.metadata["quota"]) == ("QUOTA_EXCEEDED", "streams")
        assert refused.retry_after is not None
        first.cancel()

        async def again() -> object:
            try:
                return await opened(stub)
            except (grpc.aio.AioRpcError, asyncio.InvalidStateError):  # refused, before or after its first frame
                return None

        await until(again, "the place of the stream that ended is free")
        second.cancel()


async def test_one_connection_more_than_the_quota_is_not_served_and_the_others_are(pair: Cluster) -> None:
    endpoint, opener = pair.endpoint((await roles(pair))[0]), opener_of(str(credentials_of(pair, "visitor")))
    own = (("grpc.use_local_subchannel_pool", 1),)
    async with opener(endpoint, own) as one, opener(endpoint, own) as two, opener(endpoint, own) as three:
        for channel in (one, two):
            await pb_grpc.QueueServiceStub(channel).Enqueue(one_message(), timeout=OUTER_S)
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await pb_grpc.QueueServiceStub(three).Enqueue(one_message(), timeout=OUTER_S)
        refused = from_rpc_error(caught.value)
        assert refused.metadata == {"quota": "connections", "limit": "2", "principal": "principal/visitor"}
        assert refused.retry_after is not None
        await pb_grpc.QueueServiceStub(one).Enqueue(one_message(), timeout=OUTER_S)


async def test_one_unit_more_than_the_quota_is_not_begun_until_one_has_ended(pair: Cluster) -> None:
    """Counted where they are open: it is the same whichever member is asked."""
    master, replica = await roles(pair)
    opener = opener_of(str(credentials_of(pair, "worker")))
    async with opener(pair.endpoint(master), ()) as first, opener(pair.endpoint(replica), ()) as second:
        stubs = units_grpc.TransactionServiceStub(first), units_grpc.TransactionServiceStub(second)
        begun = [await stub.Begin(begin(), timeout=OUTER_S) for stub in stubs]
        for stub in stubs:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.Begin(begin(), timeout=OUTER_S)
            refused = from_rpc_error(caught.value)
            assert (refused.reason, refused.metadata["quota"]) == ("QUOTA_EXCEEDED", "units")
        request = units.RollbackRequest(unit_id=begun[0].unit_id)
        await stubs[1].Rollback(request, timeout=OUTER_S)
        begun.append(await stubs[0].Begin(begin(), timeout=OUTER_S))
        for each in begun[1:]:
            await stubs[0].Rollback(units.RollbackRequest(unit_id=each.unit_id), timeout=OUTER_S)


def begin() -> units.BeginRequest:
    return units.BeginRequest(queue="orders", client_id=b"worker", request_id=new_id())


async def opened(stub: pb_grpc.QueueServiceAsyncStub) -> grpc.aio.StreamStreamCall:  # type: ignore[type-arg]  # messages
    stream = stub.Consume()
    await stream.write(pb.ConsumeRequest(open=pb.ConsumeOpen(queue="orders", client_id=new_id())))
    await stream.read()  # raises what it was refused for
    return stream


def one_message() -> pb.EnqueueRequest:
    request = pb.EnqueueRequest(queue="orders", request_id=new_id())
    request.messages.add(payload=b"raw")
    return request
