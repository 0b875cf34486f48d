"""A member whose streams follow a script: real gRPC over real sockets, no storage, no peer.

A script is a coroutine that gets a stream; the n-th stream gets the n-th script, and the last one serves all others.
Every frame that arrives is kept, so that a test can compare bytes.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Self

import grpc
import grpc.aio

from tandemq import refusing
from tandemq.v1 import common_pb2 as common
from tandemq.v1 import queue_service_pb2 as pb

Script = Callable[["FakeStream"], Awaitable[None]]
QUEUE = "/tandemq.v1.QueueService/"


class FakeStream:
    def __init__(self, context: Any, request: Any, response: Any) -> None:
        self._context, self._request, self._response = context, request, response
        self.frames: list[bytes] = []
        self.over = asyncio.Event()

    async def read(self) -> Any:
        """The next frame, parsed; None when the client is done or gone."""
        data = await self._context.read()
        if data is grpc.aio.EOF:
            return None
        self.frames.append(data)
        return self._request.FromString(data)

    async def write(self, **frame: Any) -> None:
        await self._context.write(self._response(**frame).SerializeToString())

    async def refuse(self, reason: int, message: str = "", **metadata: str) -> None:
        await refuse(self._context, reason, message, **metadata)

    async def break_off(self) -> None:
        """As a connection that breaks: a bare UNAVAILABLE, no word of ours."""
        await self._context.abort(grpc.StatusCode.UNAVAILABLE, "broken")


async def refuse(context: Any, reason: int, message: str = "", retry_after_s: int = 0, **metadata: str) -> None:
    error = common.Error(reason=reason, message=message, metadata=metadata)
    if retry_after_s:
        error.retry_after.FromSeconds(retry_after_s)
    await refusing.abort(context, error)


class FakeMember:
    def __init__(self, name: str = "a") -> None:
        self.name = name
        self.endpoint = ""
        self.produce: list[Script] = []
        self.consume: list[Script] = []
        self.watch: list[Script] = []
        self.unary: dict[str, Callable[[bytes, Any], Awaitable[bytes]]] = {}
        self.answers: dict[str, Callable[[bytes, Any], Awaitable[None]]] = {}
        """Of calls whose answers are streams."""
        self.produced: list[FakeStream] = []
        self.consumed: list[FakeStream] = []
        self.watched: list[FakeStream] = []
        self._server = grpc.aio.server()

    async def __aenter__(self) -> Self:
        self._server.add_generic_rpc_handlers((_Handlers(self),))
        port = self._server.add_insecure_port("127.0.0.1:0")
        self.endpoint = f"127.0.0.1:{port}"
        await self._server.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._server.stop(0)

    def header(self, epoch: int = 1, master: str = "") -> common.ResponseHeader:
        return common.ResponseHeader(
            pair="p",
            member=self.name,
            domain="main",
            epoch=epoch,
            copies=2,
            level=common.LEVEL_PAIR_SYNC,
            master_endpoint=master or self.endpoint,
        )

    async def run(self, scripts: list[Script], streams: list[FakeStream], stream: FakeStream) -> None:
        script = scripts[min(len(streams), len(scripts) - 1)]
        streams.append(stream)
        try:
            await script(stream)
        finally:
            stream.over.set()


class _Handlers(grpc.GenericRpcHandler):
    def __init__(self, member: FakeMember) -> None:
        self._member = member

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> Any:
        member, path = self._member, handler_call_details.method

        async def produce(_: Any, context: Any) -> None:
            await member.run(
                member.produce, member.produced, FakeStream(context, pb.ProduceRequest, pb.ProduceResponse)
            )

        async def consume(_: Any, context: Any) -> None:
            await member.run(
                member.consume, member.consumed, FakeStream(context, pb.ConsumeRequest, pb.ConsumeResponse)
            )

        async def watch(_: Any, context: Any) -> None:
            await member.run(
                member.watch,
                member.watched,
                FakeStream(context, pb.WatchCompletionsRequest, pb.WatchCompletionsResponse),
            )

        if path == QUEUE + "WatchCompletions":
            return grpc.stream_stream_rpc_method_handler(watch)
        if path == QUEUE + "Produce":
            return grpc.stream_stream_rpc_method_handler(produce)
        if path == QUEUE + "Consume":
            return grpc.stream_stream_rpc_method_handler(consume)
        if path in member.unary:
            return grpc.unary_unary_rpc_method_handler(member.unary[path])
        if path in member.answers:
            return grpc.unary_stream_rpc_method_handler(member.answers[path])
        return None


class Ledger:
    """One queue with the sequence rules of the contract: a seen batch is answered again, another one over its sequences
    and a gap are refused.
    """

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.last: dict[bytes, int] = {}
        self.first_index: dict[tuple[bytes, int], int] = {}
        self.seen: dict[tuple[bytes, int], bytes] = {}

    def execute(self, client_id: bytes, batch: pb.EnqueueBatch) -> dict[str, Any]:
        last, first, count = self.last.get(client_id, 0), batch.first_sequence, len(batch.messages.payloads)
        answer = pb.EnqueueAck(queue=batch.queue, first_sequence=first, count=count, epoch=1, copies=2, level=3)
        if first > last + 1:
            return rejected(batch, common.REASON_SEQUENCE_GAP, last)
        data = batch.SerializeToString()
        if first <= last and self.seen.get((client_id, first)) != data:
            return rejected(batch, common.REASON_REQUEST_MISMATCH, last)
        if first <= last:
            answer.first_index, answer.duplicate = self.first_index[client_id, first], True
            return {"ack": answer}
        answer.first_index = len(self.payloads) + 1
        answer.log_index = answer.first_index
        self.first_index[client_id, first], self.seen[client_id, first] = answer.first_index, data
        self.payloads.extend(batch.messages.payloads)
        self.last[client_id] = first + count - 1
        return {"ack": answer}


def rejected(batch: pb.EnqueueBatch, reason: int, last: int) -> dict[str, Any]:
    return {
        "reject": pb.EnqueueReject(
            queue=batch.queue,
            first_sequence=batch.first_sequence,
            count=len(batch.messages.payloads),
            error=common.Error(reason=reason, message="told to"),
            last_sequence=last,
        )
    }


async def open_producer(member: FakeMember, stream: FakeStream, ledger: Ledger, **header: Any) -> bytes:
    """Answers the opening frame; the client id."""
    request = await stream.read()
    client_id: bytes = request.open.client_id
    opened = pb.ProduceOpened(
        header=member.header(**header),
        last_sequence=ledger.last.get(client_id, 0),
        max_batches=16,
        max_batch_bytes=4 << 20,
    )
    await stream.write(opened=opened)
    return client_id


def serving(member: FakeMember, ledger: Ledger) -> Script:
    """A member that does what it is asked."""

    async def script(stream: FakeStream) -> None:
        client_id = await open_producer(member, stream, ledger)
        while (request := await stream.read()) is not None:
            await stream.write(**ledger.execute(client_id, request.batch))

    return script
