"""Calls inside one process: what callers and handlers see is what grpc.aio shows them."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import grpc.aio
import pytest

from replica.listen.direct import PEER, WINDOW_BYTES, DirectServer

GRACE_S = 5.0
UNARY, SERVER, BOTH = "/s/Unary", "/s/Server", "/s/Both"


def served(**methods: Callable[..., Awaitable[Any]]) -> DirectServer:
    makers = {
        "Unary": grpc.unary_unary_rpc_method_handler,
        "Server": grpc.unary_stream_rpc_method_handler,
        "Both": grpc.stream_stream_rpc_method_handler,
    }
    made = {name: makers[name](method) for name, method in methods.items()}
    return DirectServer([grpc.method_handlers_generic_handler("s", made)])


async def test_a_unary_call_gives_bytes_and_gets_bytes() -> None:
    async def unary(request: bytes, context: Any) -> bytes:
        assert (context.peer(), context.invocation_metadata()) == (PEER, (("k", "v"),))
        assert 0 < context.time_remaining() <= 9
        return request[::-1]

    method = served(Unary=unary).channel().unary_unary(UNARY, request_serializer=str.encode)
    assert await method("abc", metadata=(("k", "v"),), timeout=9) == b"cba"


async def test_a_refusal_has_status_words_and_trailers() -> None:
    async def unary(_request: bytes, context: Any) -> bytes:
        await context.abort(grpc.StatusCode.NOT_FOUND, "not here", (("why-bin", b"\x00"),))
        raise AssertionError("abort raises")

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served(Unary=unary).channel().unary_unary(UNARY)(b"")
    error = caught.value
    assert (error.code(), error.details()) == (grpc.StatusCode.NOT_FOUND, "not here")
    assert dict(error.trailing_metadata()) == {"why-bin": b"\x00"}


async def test_what_is_not_offered_is_unimplemented() -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served().channel().unary_unary(UNARY)(b"")
    assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED


async def test_a_handler_that_fails_answers_unknown() -> None:
    async def unary(_request: bytes, _context: Any) -> bytes:
        raise ZeroDivisionError

    with pytest.raises(grpc.aio.AioRpcError, match="ZeroDivisionError") as caught:
        await served(Unary=unary).channel().unary_unary(UNARY)(b"")
    assert caught.value.code() is grpc.StatusCode.UNKNOWN


async def test_at_its_deadline_a_call_ends_and_its_handler_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def unary(_request: bytes, _context: Any) -> bytes:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await served(Unary=unary).channel().unary_unary(UNARY)(b"", timeout=0.01)
    assert caught.value.code() is grpc.StatusCode.DEADLINE_EXCEEDED
    await cancelled.wait()


async def test_a_caller_that_goes_away_cancels_its_handler() -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def unary(_request: bytes, _context: Any) -> bytes:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()
        raise AssertionError

    method = served(Unary=unary).channel().unary_unary(UNARY)
    calling = asyncio.ensure_future(method(b""))
    await begun.wait()
    calling.cancel()
    await cancelled.wait()
    with pytest.raises(asyncio.CancelledError):
        await calling


async def test_a_stream_of_answers_ends_behind_the_last() -> None:
    async def server(request: bytes, context: Any) -> None:
        for each in request:
            await context.write(b"%d" % each)

    method = served(Server=server).channel().unary_stream(SERVER, response_deserializer=int)
    assert [answer async for answer in method(b"\x01\x02\x03")] == [1, 2, 3]


async def test_both_sides_talk_until_the_caller_has_no_more_to_say() -> None:
    async def both(_requests: object, context: Any) -> None:
        while (frame := await context.read()) is not grpc.aio.EOF:
            await context.write(frame.upper())

    call = served(Both=both).channel().stream_stream(BOTH)()
    for word in (b"a", b"b"):
        await call.write(word)
        assert await call.read() == word.upper()
    await call.done_writing()
    assert await call.read() is grpc.aio.EOF
    assert await call.code() is grpc.StatusCode.OK
    with pytest.raises(asyncio.InvalidStateError):
        await call.write(b"late")
    assert not call.cancel()


async def test_who_writes_faster_than_the_other_reads_waits() -> None:
    written = 0

    async def both(_requests: object, context: Any) -> None:
        nonlocal written
        for _ in range(100):
            await context.write(b"x" * (WINDOW_BYTES // 4))
            written += 1

    call = served(Both=both).channel().stream_stream(BOTH)()
    await call.read()
    for _ in range(100):
        await asyncio.sleep(0)
    assert written < 10
    count = 1
    while await call.read() is not grpc.aio.EOF:
        count += 1
    assert (count, written) == (100, 100)


async def test_a_stopped_manager_leaves_calls_in_doubt_and_takes_no_more() -> None:
    begun = asyncio.Event()

    async def unary(_request: bytes, _context: Any) -> bytes:
        begun.set()
        await asyncio.Event().wait()
        raise AssertionError

    server = served(Unary=unary)
    method = server.channel().unary_unary(UNARY)
    calling = asyncio.ensure_future(method(b""))
    await begun.wait()
    await server.close(0.0)
    for call in (calling, method(b"")):
        with pytest.raises(grpc.aio.AioRpcError, match="has stopped") as caught:
            await call
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        assert not dict(caught.value.trailing_metadata()), "without our word nothing is certain"


async def test_a_stop_waits_for_what_is_about_to_be_answered() -> None:
    begun, go_on = asyncio.Event(), asyncio.Event()

    async def unary(_request: bytes, _context: Any) -> bytes:
        begun.set()
        await go_on.wait()
        return b"done"

    server = served(Unary=unary)
    calling = asyncio.ensure_future(server.channel().unary_unary(UNARY)(b""))
    await begun.wait()
    closing = asyncio.ensure_future(server.close(GRACE_S))
    await asyncio.sleep(0)
    go_on.set()
    assert await calling == b"done"
    await closing


async def test_a_closed_channel_cancels_its_calls_and_no_others() -> None:
    async def both(_requests: object, context: Any) -> None:
        while (frame := await context.read()) is not grpc.aio.EOF:
            await context.write(frame)

    server = served(Both=both)
    closed, other = server.channel(), server.channel()
    calls = [channel.stream_stream(BOTH)() for channel in (closed, other)]
    await closed.close()
    assert calls[0].cancelled()
    with pytest.raises(asyncio.CancelledError):
        await calls[0].read()
    await calls[1].write(b"x")
    assert await calls[1].read() == b"x"
    calls[1].cancel()


async def test_another_event_loop_is_told_so() -> None:
    async def unary(request: bytes, _context: Any) -> bytes:
        return request

    method = served(Unary=unary).channel().unary_unary(UNARY)
    with pytest.raises(RuntimeError, match="belongs to the event loop"):
        await asyncio.to_thread(asyncio.run, method(b""))
