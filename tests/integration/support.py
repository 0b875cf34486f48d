"""What the integration tests share: members in real processes, raw calls to them, and waiting with a bound."""

from __future__ import annotations

import asyncio
import os
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from google.protobuf.message import Message
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.cli.view import MemberView, PairView
from tandemq.errors import DOMAIN, TandemqError, from_rpc_error
from tandemq.v1 import (
    manager_admin_service_pb2_grpc,
    pair_service_pb2_grpc,
    queue_admin_service_pb2,
    queue_admin_service_pb2_grpc,
    queue_service_pb2,
    queue_service_pb2_grpc,
)
from tests.support.clusters import patient
from tests.support.until import OUTER_S

# Channels of one process share connections and their backoff; a test's look at a member is its own.
CHANNEL_OPTIONS = (
    ("grpc.use_local_subchannel_pool", 1),
    ("grpc.enable_retries", 0),
    ("grpc.max_send_message_length", 64 << 20),
    ("grpc.max_receive_message_length", 64 << 20),
)


def new_id() -> bytes:
    return uuid.uuid4().bytes


def new_name(stem: str = "q") -> str:
    return f"{stem}-{uuid.uuid4().hex[:8]}"


async def payloads(client: aio.Client, queue: str) -> list[bytes]:
    """What is in it, in order."""
    return [message.payload async for message in client.browse(queue)]


async def queues(client: aio.Client, count: int = 3) -> list[str]:
    """New ones."""
    names = [new_name() for _ in range(count)]
    for name in names:
        await client.create_queue(name)
    return names


class Raw:
    """One member as a client without the SDK sees it."""

    def __init__(self, endpoint: str) -> None:
        self.endpoint = endpoint
        self.channel = grpc.aio.insecure_channel(endpoint, options=CHANNEL_OPTIONS)
        self.queue = queue_service_pb2_grpc.QueueServiceStub(self.channel)
        self.admin = queue_admin_service_pb2_grpc.QueueAdminServiceStub(self.channel)
        self.pair = pair_service_pb2_grpc.PairServiceStub(self.channel)
        self.manager = manager_admin_service_pb2_grpc.ManagerAdminServiceStub(self.channel)

    async def bytes_call(self, path: str, request: bytes) -> bytes:
        return await self.channel.unary_unary(path)(request, timeout=OUTER_S)

    async def create(self, name: str, **config: Any) -> queue_admin_service_pb2.QueueInfo:
        request = queue_admin_service_pb2.CreateQueueRequest(
            name=name, request_id=new_id(), config=queue_admin_service_pb2.QueueConfig(**config)
        )
        return (await self.admin.CreateQueue(request, timeout=OUTER_S)).queue

    async def send(self, queue: str, *payloads: bytes, **fields: Any) -> queue_service_pb2.EnqueueResponse:
        fields = {"request_id": new_id(), **fields}
        messages = [{"payload": payload} for payload in payloads]
        request = queue_service_pb2.EnqueueRequest(queue=queue, messages=messages, **fields)
        return await self.queue.Enqueue(request, timeout=OUTER_S)

    async def receive(self, queue: str, count: int = 1, **fields: Any) -> queue_service_pb2.DequeueResponse:
        fields = {"request_id": new_id(), **fields}
        return await self.queue.Dequeue(
            queue_service_pb2.DequeueRequest(queue=queue, max_messages=count, **fields), timeout=OUTER_S
        )

    async def ack(self, queue: str, got: queue_service_pb2.DequeueResponse, **fields: Any) -> Any:
        ranges = [{"first": message.index, "count": 1} for message in got.messages]
        settlement = {"lease_id": got.lease_id, "ranges": ranges, "outcome": queue_service_pb2.OUTCOME_ACK}
        fields = {"request_id": new_id(), **fields}
        request = queue_service_pb2.SettleRequest(queue=queue, settlements=[settlement], **fields)
        return await self.queue.Settle(request, timeout=OUTER_S)

    async def take(self, queue: str, count: int = 1) -> list[bytes]:
        """Receives and settles; the payloads."""
        got = await self.receive(queue, count, wait={"seconds": 5})
        if got.messages:
            results = (await self.ack(queue, got)).results
            assert not [result.error for result in results if result.HasField("error")]
        return [message.message.payload for message in got.messages]

    async def close(self) -> None:
        await self.channel.close()


@asynccontextmanager
async def raw_to(*endpoints: str) -> AsyncIterator[list[Raw]]:
    members = [Raw(endpoint) for endpoint in endpoints]
    try:
        yield members
    finally:
        for member in members:
            await member.close()


class Caught:
    """A refusal, filled in when the block ends."""

    error: TandemqError
    code: grpc.StatusCode
    retry_info: bool = False


@contextmanager
def refused(reason: str, code: grpc.StatusCode, *words: str) -> Iterator[Caught]:
    """The block ends in a refused call whose status, ErrorInfo and message are these."""
    caught = Caught()
    with pytest.raises(grpc.aio.AioRpcError) as info:
        yield caught
    check_refusal(info.value, reason, code, *words)
    caught.error, caught.code = from_rpc_error(info.value), info.value.code()
    caught.retry_info = caught.error.retry_after is not None


def check_refusal(call: grpc.aio.AioRpcError, reason: str, code: grpc.StatusCode, *words: str) -> None:
    seen = f"{call.code()}: {call.details()}"
    assert call.code() is code, seen
    status = rpc_status.from_call(call)  # raises when its code or text is another than the call's
    assert status is not None, f"no google.rpc.Status in the trailers: {seen}"
    info = error_details_pb2.ErrorInfo()
    assert any(detail.Unpack(info) for detail in status.details), seen
    assert (info.domain, info.reason) == (DOMAIN, reason), f"{info}: {seen}"
    for word in words:
        assert word in status.message, f"{word!r} is not in: {status.message}"


async def still_serves(cluster: Cluster) -> None:
    """No process died, and a message goes in and out at every member."""
    for child in cluster.children.values():
        assert child.running or child.paused or child.process is None, f"{child.name}: {child.ending}; {child.tail()}"
    async with raw_to(*cluster.endpoints) as members:
        name = new_name("alive")
        await members[0].create(name)
        for member in members:
            payload = os.urandom(8)
            await member.send(name, payload)
            for taker in members:
                if taker is not member:
                    break
            else:
                taker = member
            assert await taker.take(name) == [payload]


async def member_view(cluster: Cluster, name: str) -> MemberView | None:
    view = await cluster.status()
    return next((member for member in view.members if member.name == name), None)


def master_of(view: PairView) -> str:
    masters = view.masters()
    assert len(masters) == 1, view
    return masters[0]


async def roles(cluster: Cluster) -> tuple[str, str]:
    """(master, replica) of domain main."""
    view = await cluster.wait_for(PairView.whole, "a master and a replica in sync")
    master = master_of(view)
    return master, next(name for name in cluster.members if name != master)


def is_alone(view: PairView, name: str) -> bool:
    """It is master and serves alone: before it has noticed that the peer is lost, and while it asks, it does not."""
    states = [member.domain("main") for member in view.members if member.name == name]
    return any(state and (state.role, state.data_state) == ("MASTER", "SOLE") for state in states)


async def gone(cluster: Cluster, *names: str) -> None:
    """Kills processes, all at once, and waits for their ends."""
    for name in names:
        cluster.kill(name)
    for name in names:
        process = cluster.children[name].process
        assert process is not None
        await asyncio.to_thread(process.wait)
        if process.stdin:
            process.stdin.close()


async def http_get(port: int, path: str) -> tuple[int, str]:
    """Status and body."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(f"GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n".encode())
    data = await asyncio.wait_for(reader.read(), OUTER_S)
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()
    head, _, body = data.partition(b"\r\n\r\n")
    return int(head.split()[1]), body.decode()


def configured(data_dir: Path, **settings: Any) -> Cluster:
    """A cluster whose configuration is written and none of whose processes runs: tests start them one by one."""
    from tandemq.config import to_toml

    cluster = patient(data_dir, **settings)
    cluster.data_dir.mkdir(parents=True, exist_ok=True)
    for name in cluster.members:
        cluster.config_file(name).write_text(to_toml(cluster.config(name)), encoding="utf-8")
    return cluster


@asynccontextmanager
async def stopped_at_end(cluster: Cluster) -> AsyncIterator[Cluster]:
    try:
        yield cluster
    finally:
        for child in cluster.children.values():
            if child.paused:
                cluster.resume(child.name)
        await cluster.stop()


def sdk(cluster: Cluster, *names: str, **settings: Any) -> aio.Client:
    """The SDK, for some members or for all."""
    return aio.connect(",".join(cluster.endpoint(name) for name in names or cluster.members), **settings)


def fields(message: Message) -> dict[str, Any]:
    return {field.name: value for field, value in message.ListFields()}
