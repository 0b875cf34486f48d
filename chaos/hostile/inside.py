"""Hostile inputs of a client that has a certificate and rights: it may send to, receive from and browse `orders`."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AsyncExitStack, suppress
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
from google.protobuf import descriptor_pool

from chaos.crowd.floods import FLOODS, HELLO, flood
from chaos.crowd.wire import RawConnection
from chaos.hostile.inputs import hostile, said_by
from chaos.hostile.target import Target, address_of
from tandemq import aio
from tandemq.credentials.chosen import opener_of
from tandemq.errors import TandemqError
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as pb
from tandemq.v1 import transaction_service_pb2 as units

QUEUES = "/tandemq.v1.QueueService/"
QUEUE = "orders"
CALL_S, ENDED_S, STALL_S = 20.0, 30.0, 3.0
STAND_S = 8.0
CALLS, AT_ONCE, STREAMS, CROWD, OVERSIZE = 3_000, 64, 1_200, 100, 4
CODES = "\x1b]0;owned\x07\x1b[2J<script>alert(1)</script>&\x9b31m"
"""What a terminal and a browser would obey."""
NAMES = ("../../etc/passwd", "\x1b[31mred", "<script>", "a\x00b", "x" * 300, "..", "//", "a/*", "\u202ereversed", "")


def _channel(target: Target, who: str = "billing", *options: tuple[str, Any]) -> grpc.aio.Channel:
    return opener_of(target.who(who))(target.master, options)


def _one(payload: bytes) -> bytes:
    request = pb.EnqueueRequest(queue=QUEUE, request_id=os.urandom(16), messages=[{"payload": payload}])
    return bytes(request.SerializeToString())


def _floods() -> None:
    for name in FLOODS:

        async def attack(target: Target, name: str = name) -> str:
            tls = target.tls("billing")
            found = await asyncio.to_thread(flood, address_of(target.master), name, ENDED_S, tls)
            return "ended" if found.ended else f"it goes on after {found.frames} frames"

        hostile(f"flood of {name} with a certificate", "ended")(attack)


_floods()


@hostile("HTTP/2 that stops after its first frame, with a certificate", "ended")
async def half_open(target: Target) -> str:
    """Our SETTINGS are never acknowledged."""

    def hold() -> str:
        address, tls = address_of(target.master), target.tls("billing")
        for hello in (b"", HELLO[:10], HELLO):
            with RawConnection(address, hello=hello, polite=False, tls=tls) as connection:
                if not connection.read_until_ended(ENDED_S):
                    return f"it is still held after {len(hello)} bytes"
        return "ended"

    return await asyncio.to_thread(hold)


@hostile("0xFF after a good preface, with a certificate", "ended")
async def garbage_frames(target: Target) -> str:
    """No frame of HTTP/2."""

    def spoil() -> str:
        hello = HELLO + b"\xff" * 5_000
        with RawConnection(address_of(target.master), hello=hello, tls=target.tls("billing")) as connection:
            return "ended" if connection.read_until_ended(ENDED_S) else "it is still held"

    return await asyncio.to_thread(spoil)


@hostile("bytes that are no message, to every call", "refused")
async def malformed(target: Target) -> str:
    """Of every service of clients."""
    async with _channel(target, "ops") as channel:
        for path in _unary_paths():
            call: Any = channel.unary_unary(path)
            said = await said_by(call(b"\xff\xff\xff\xff garbage", timeout=CALL_S))
            if said in ("OK", "UNKNOWN", "INTERNAL", "DEADLINE_EXCEEDED", "CANCELLED"):
                return f"{path} says {said}"
    return "refused"


def _unary_paths() -> Iterator[str]:
    pool: Any = descriptor_pool.Default()
    for name in (
        "queue",
        "queue_admin",
        "pair",
        "rights",
        "journal",
        "macro",
        "stage",
        "transaction",
        "weights",
        "batch",
    ):
        with suppress(KeyError):
            file = pool.FindFileByName(f"tandemq/v1/{name}_service.proto")
            for service in file.services_by_name.values():
                for method in service.methods:
                    if not method.client_streaming and not method.server_streaming and method.input_type.fields:
                        yield f"/{service.full_name}/{method.name}"


@hostile("a message of 40 MiB", "RESOURCE_EXHAUSTED(, UNREACHABLE)?")
async def oversize(target: Target) -> str:
    """More than the port takes. gRPC ends the stream after five bytes, and now and then the connection that still has
    the rest on its way: one answer by name is enough.
    """
    said = set()
    for _ in range(OVERSIZE):
        async with _channel(target, "billing", ("grpc.max_send_message_length", -1)) as channel:
            call: Any = channel.unary_unary(f"{QUEUES}Enqueue")
            said.add(await said_by(call(_one(bytes(40 << 20)), timeout=CALL_S)))
    return ", ".join(sorted(said))


@hostile("64 MiB that gzip makes small", "RESOURCE_EXHAUSTED")
async def bomb(target: Target) -> str:
    """64 kB on the wire."""
    async with _channel(target, "billing", ("grpc.max_send_message_length", -1)) as channel:
        call: Any = channel.unary_unary(f"{QUEUES}Enqueue")
        made = call(_one(bytes(64 << 20)), timeout=CALL_S, compression=grpc.Compression.Gzip)
        return await said_by(made)


@hostile("20 kB of metadata", "RESOURCE_EXHAUSTED|UNKNOWN|INTERNAL")
async def metadata(target: Target) -> str:
    """More than the headers of a call may have."""
    async with _channel(target) as channel:
        call: Any = channel.unary_unary(f"{QUEUES}Enqueue")
        return await said_by(call(_one(b"x"), metadata=(("x-big", "y" * 20_000),), timeout=CALL_S))


@hostile("a request that names 200,000 queues", "BAD_REQUEST|RESOURCE_EXHAUSTED")
async def many_names(target: Target) -> str:
    """In one call."""
    request = pb.WatchQueuesRequest(watches=[{"queue": f"q{number}"} for number in range(200_000)])
    async with _channel(target) as channel:
        call: Any = channel.unary_stream(f"{QUEUES}WatchQueues")
        return await said_by(call(request.SerializeToString(), timeout=CALL_S).read())


@hostile("a name with a million slashes", "BAD_REQUEST|QUEUE_NOT_FOUND|BAD_NAME")
async def slashes(target: Target) -> str:
    """It has as many patterns."""
    request = admin.GetQueueRequest(name="/" * 900_000)
    async with _channel(target) as channel:
        call: Any = channel.unary_unary("/tandemq.v1.QueueAdminService/GetQueue")
        return await said_by(call(request.SerializeToString(), timeout=CALL_S))


@hostile("names with paths, markup, terminal codes", "BAD_NAME")
async def names(target: Target) -> str:
    """Of queues that an administrator would create."""
    async with _channel(target, "ops") as channel:
        for name in NAMES:
            request = admin.CreateQueueRequest(name=name, request_id=os.urandom(16))
            call: Any = channel.unary_unary("/tandemq.v1.QueueAdminService/CreateQueue")
            said = await said_by(call(request.SerializeToString(), timeout=CALL_S))
            if said != "BAD_NAME":
                return f"{name!r}: {said}"
    return "BAD_NAME"


@hostile("markup and terminal codes in a message, shown by the command line", "escaped")
async def shown(target: Target) -> str:
    """As it comes to whoever looks at messages in a terminal."""
    async with aio.connect(target.master, credentials=target.who("billing"), timeout=CALL_S) as client:
        await client.send(QUEUE, CODES.encode(), properties={"note": CODES}, correlation_id=CODES[:8])
    command = [sys.executable, "-m", "tandemq", "msg", "browse", QUEUE, "--target", target.master]
    for output in ("table", "json", "jsonl"):
        words = [*command, "--credentials", target.who("ops"), "-o", output]
        done = await asyncio.to_thread(subprocess.run, words, capture_output=True, timeout=60, check=False)
        if done.returncode:
            return f"exit code {done.returncode}: {done.stderr[-200:]!r}"
        if b"\x1b" in done.stdout or b"\x9b" in done.stdout.replace(b"\xc2\x9b", b"\x9b"):
            return f"{output} shows it as it is"
    return "escaped"


@hostile(f"{STREAMS:,} streams on one connection", "bounded")
async def streams(target: Target) -> str:
    """More than one connection may have: the rest waits, and takes nobody's place."""
    async with _channel(target) as channel:
        opened: list[Any] = []
        for _ in range(STREAMS):
            many: Any = channel.stream_stream(f"{QUEUES}Consume")
            opened.append(many())
        frame = pb.ConsumeRequest(open=pb.ConsumeOpen(queue=QUEUE, client_id=os.urandom(16))).SerializeToString()
        writing = [asyncio.ensure_future(each.write(frame)) for each in opened]
        await asyncio.sleep(STAND_S)
        taken = sum(each.done() for each in writing)
        for part in (*writing, *opened):
            part.cancel()
        await asyncio.wait(writing)
    return "bounded" if taken < STREAMS else f"all {taken} were taken"


@hostile(f"{CALLS:,} calls, {AT_ONCE} at a time, over a quota", "QUOTA_EXCEEDED")
async def calls(target: Target) -> str:
    """Of a client that has a quota of 100 calls a second, and obeys no RetryInfo."""
    rest, said = iter(range(CALLS)), set[str]()
    async with _channel(target, "flooder") as channel:

        async def worker() -> None:
            call: Any = channel.unary_unary(f"{QUEUES}Enqueue")
            for _ in rest:
                said.add(await said_by(call(_one(b"x"), timeout=CALL_S)))

        await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    others = said - {"OK", "QUOTA_EXCEEDED"}
    return ", ".join(sorted(others)) or ("QUOTA_EXCEEDED" if "QUOTA_EXCEEDED" in said else "nobody was refused")


@hostile(f"{CROWD} connections of a client that may have 10", "QUOTA_EXCEEDED")
async def connections(target: Target) -> str:
    """All at a time, a call on each."""
    async with AsyncExitStack() as stack:
        said = []
        for _ in range(CROWD):
            channel = await stack.enter_async_context(_channel(target, "crowd", ("grpc.use_local_subchannel_pool", 1)))
            call: Any = channel.unary_unary(f"{QUEUES}Enqueue")
            said.append(await said_by(call(_one(b"x"), timeout=CALL_S)))
    let_in = said.count("OK")
    return said[-1] if let_in == 10 else f"{let_in} were let in"


@hostile(f"{CROWD} open units of a client that may have 10", "QUOTA_EXCEEDED")
async def open_units(target: Target) -> str:
    """None of them is ended."""
    async with _channel(target, "crowd") as channel:
        said = []
        for _ in range(CROWD):
            request = units.BeginRequest(queue=QUEUE, client_id=b"crowd", request_id=os.urandom(16))
            call: Any = channel.unary_unary("/tandemq.v1.TransactionService/Begin")
            said.append(await said_by(call(request.SerializeToString(), timeout=CALL_S)))
    let_in = said.count("OK")
    return said[-1] if let_in <= 10 else f"{let_in} were begun"


@hostile("a reader that never reads", "held by flow control")
async def never_reads(target: Target) -> str:
    """20 streams over 20 MB of messages."""
    async with _channel(target) as channel:
        request = pb.BrowseRequest(queue="large").SerializeToString()
        opened = []
        for _ in range(20):
            many: Any = channel.unary_stream(f"{QUEUES}Browse")
            opened.append(many(request))
            await opened[-1].initial_metadata()
        await asyncio.sleep(STALL_S)
        for each in opened:
            each.cancel()
    return "held by flow control"


@hostile("300 connections one after the other", "let in, and gone")
async def reconnects(target: Target) -> str:
    """Of a client that opens a new one for each call."""
    for _ in range(300):
        async with _channel(target) as channel:
            call: Any = channel.unary_unary("/tandemq.v1.ManagerAdminService/GetManager")
            if (said := await said_by(call(b"", timeout=CALL_S))) != "OK":
                return said
    return "let in, and gone"


@hostile("a member of another pair, as a client", "QUEUE_NOT_FOUND")
async def member_as_client(target: Target) -> str:
    """It is a principal without rights."""
    directory = Path(target.impostors) / "a of another pair"
    async with opener_of(str(directory))(target.master, ()) as channel:
        call: Any = channel.unary_unary(f"{QUEUES}Enqueue")
        return await said_by(call(_one(b"x"), timeout=CALL_S))


@hostile("what an administrator alone may do, of a client", "PERMISSION_DENIED")
async def takes_rights(target: Target) -> str:
    """Grants itself a right, takes the administrators' away, hands over."""
    async with aio.connect(target.master, credentials=target.who("billing"), timeout=CALL_S) as client:
        for attempt in (
            client.grant_right("billing", "administer", "**"),
            client.revoke_right("ops", "administer", "**"),
            client.handoff(reason="mine"),
        ):
            try:
                await attempt
            except TandemqError as error:
                if error.reason != "PERMISSION_DENIED":
                    return error.reason
            else:
                return "let in"
    return "PERMISSION_DENIED"
