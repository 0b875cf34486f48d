"""Hostile inputs of a client that keeps as much as it can: queues, bytes in them, client ids, idle streams. It may
administer, send to and receive from `hoard/**`, and has a quota of each.
"""

from __future__ import annotations

import asyncio
import os
from typing import Any

import grpc
import grpc.aio

from chaos.hostile.inputs import hostile, said_by
from chaos.hostile.target import Target
from tandemq.credentials.chosen import opener_of
from tandemq.errors import from_rpc_error, reason_name
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as pb

QUOTA = "hoarder=queues:10,stored:2000000,identities:20,streams:50"
"""Of `security.quotas`; its queues of all these inputs together are ten."""
WHO, QUEUES, STORE, SENDERS = "hoarder", "hoard/q", "hoard/q0", "hoard/q1"
TRIED, LARGE_BYTES, CALL_S = 100, 100_000, 20.0


def _channel(target: Target) -> grpc.aio.Channel:
    return opener_of(target.who(WHO))(target.master, ())


async def _made(channel: grpc.aio.Channel, name: str) -> str:
    call: Any = channel.unary_unary("/tandemq.v1.QueueAdminService/CreateQueue")
    request = admin.CreateQueueRequest(name=name, request_id=os.urandom(16))
    said = await said_by(call(request.SerializeToString(), timeout=CALL_S))
    return "OK" if said == "QUEUE_EXISTS" else said


@hostile(f"{TRIED} queues of a client that may have 10", "QUOTA_EXCEEDED")
async def queues(target: Target) -> str:
    """One after the other."""
    async with _channel(target) as channel:
        said = [await _made(channel, f"{QUEUES}{number}") for number in range(TRIED)]
    let_in = said.count("OK")
    return said[-1] if let_in <= 10 else f"{let_in} were made"


@hostile("a queue that is said to be somebody else's", "PERMISSION_DENIED")
async def forged(target: Target) -> str:
    """So that it counts for that one."""
    async with _channel(target) as channel:
        call: Any = channel.unary_unary("/tandemq.v1.QueueAdminService/CreateQueue")
        config = admin.QueueConfig(owner="principal/honest")
        request = admin.CreateQueueRequest(name=f"{QUEUES}x", request_id=os.urandom(16), config=config)
        return await said_by(call(request.SerializeToString(), timeout=CALL_S))


@hostile("10 MB into queues of a client that may store 2 MB", "QUOTA_EXCEEDED")
async def stored(target: Target) -> str:
    """Ten at a time, and nobody receives."""
    async with _channel(target) as channel:
        await _made(channel, STORE)
        call: Any = channel.unary_unary("/tandemq.v1.QueueService/Enqueue")
        said, left = [], iter(range(TRIED))

        async def worker() -> None:
            for _ in left:
                request = pb.EnqueueRequest(
                    queue=STORE, request_id=os.urandom(16), messages=[{"payload": bytes(LARGE_BYTES)}]
                )
                said.append(await said_by(call(request.SerializeToString(), timeout=CALL_S)))

        await asyncio.gather(*(worker() for _ in range(10)))
    others, let_in = set(said) - {"OK", "QUOTA_EXCEEDED"}, said.count("OK") * LARGE_BYTES
    return ", ".join(sorted(others)) or (said[-1] if let_in <= 2_000_000 else f"{let_in} bytes were stored")


@hostile(f"{TRIED} client ids at the queues of a client that may have 20", "QUOTA_EXCEEDED")
async def identities(target: Target) -> str:
    """Each sends one message by a stream of its own, and goes."""
    async with _channel(target) as channel:
        await _made(channel, SENDERS)
        said = [await _sent(channel) for _ in range(TRIED)]
    others, let_in = set(said) - {"OK", "QUOTA_EXCEEDED"}, said.count("OK")
    return ", ".join(sorted(others)) or (said[-1] if let_in <= 20 else f"{let_in} were let in")


async def _sent(channel: grpc.aio.Channel) -> str:
    """By a new client id: OK, or the reason, in a frame or of the stream."""
    produce: Any = channel.stream_stream("/tandemq.v1.QueueService/Produce")
    stream = produce(timeout=CALL_S)
    try:
        opening = pb.ProduceRequest(open=pb.ProduceOpen(queue=SENDERS, client_id=os.urandom(16)))
        await stream.write(opening.SerializeToString())
        batch = pb.EnqueueBatch(queue=SENDERS, first_sequence=1, messages={"payloads": [b"x"]})
        await stream.write(pb.ProduceRequest(batch=batch).SerializeToString())
        while (data := await stream.read()) is not grpc.aio.EOF:
            frame = pb.ProduceResponse.FromString(data)
            if frame.HasField("ack"):
                return "OK"
            if frame.HasField("reject"):
                return reason_name(frame.reject.error.reason)
    except grpc.aio.AioRpcError as error:
        return from_rpc_error(error).reason or error.code().name
    finally:
        stream.cancel()
    return "ended"


@hostile(f"{TRIED} idle streams of a client that may have 50", "QUOTA_EXCEEDED")
async def idle(target: Target) -> str:
    """Consumers of an empty queue, which stand."""
    said: list[str] = []
    async with _channel(target) as channel:
        await _made(channel, SENDERS)
        standing: list[Any] = []
        for _ in range(TRIED):
            consume: Any = channel.stream_stream("/tandemq.v1.QueueService/Consume")
            standing.append(consume())
            opening = pb.ConsumeRequest(open=pb.ConsumeOpen(queue=SENDERS, client_id=os.urandom(16)))
            said.append(await said_by(_opened(standing[-1], opening.SerializeToString())))
        for each in standing:
            each.cancel()
    # INTERNAL: gRPC of this client, whose write meets a stream that the member has refused already.
    others, let_in = set(said) - {"OK", "QUOTA_EXCEEDED", "INTERNAL"}, said.count("OK")
    refused = "QUOTA_EXCEEDED" if "QUOTA_EXCEEDED" in said else "nobody was refused by name"
    return ", ".join(sorted(others)) or (refused if let_in <= 50 else f"{let_in} were let in")


async def _opened(stream: Any, opening: bytes) -> None:
    await stream.write(opening)
    await stream.read()  # raises what it was refused for
