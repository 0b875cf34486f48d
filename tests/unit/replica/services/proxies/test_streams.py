"""A stream that is being opened at another manager, which is the test, when its client goes away."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from replica.listen.direct import DirectServer, HandlerSide
from replica.machine.state.proxies import Proxy
from replica.services.proxies.frames import ConsumeFrames
from replica.services.proxies.kept import KeptProxy
from replica.services.proxies.standing import ProxyStanding
from replica.services.proxies.streams import ProxiedStream
from tandemq.client.members import Members
from tandemq.v1.common_pb2 import ResponseHeader
from tandemq.v1.macro_service_pb2 import RELATIONSHIP_UNSPECIFIED
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tandemq.v1.queue_service_pb2 import ConsumeOpen, ConsumeOpened, ConsumeRequest, ConsumeResponse
from tests.support.until import OUTER_S

PROXY = Proxy("p", 1, "//west/orders", RELATIONSHIP_UNSPECIFIED, QueueConfig(), 0)
FIRST = ConsumeRequest(open=ConsumeOpen(client_id=b"c", queue="p")).SerializeToString()
OPENED = ConsumeResponse(opened=ConsumeOpened(header=ResponseHeader(pair="west", domain="main"))).SerializeToString()


class West(grpc.GenericRpcHandler):
    """Opens each stream, and says when one is over."""

    def __init__(self, *, answers: bool) -> None:
        self._answers = answers
        self.asked, self.closed = asyncio.Event(), asyncio.Event()

    def service(self, _details: grpc.HandlerCallDetails) -> grpc.RpcMethodHandler:
        return grpc.stream_stream_rpc_method_handler(self._stream)

    async def _stream(self, _requests: object, context: Any) -> None:
        try:
            await context.read()
            self.asked.set()
            if self._answers:
                await context.write(OPENED)
            await context.read()
        finally:
            self.closed.set()


class Left(ProxiedStream):
    """Its client goes away when the stream is open there, and nobody has taken it yet."""

    serving: asyncio.Task[None]

    async def _open(self, opening: bytes, context: Any) -> Any:
        opened = await super()._open(opening, context)
        own = asyncio.current_task()
        assert own is not None
        own.add_done_callback(lambda _: self.serving.cancel())
        return opened


def serve(west: West, kind: type[ProxiedStream]) -> tuple[ProxiedStream, HandlerSide]:
    server = DirectServer([west])
    links = SimpleNamespace(own=SimpleNamespace(members=Members(("west:1",), open_channel=lambda *_: server.channel())))
    loop = asyncio.get_running_loop()
    manager: Any = SimpleNamespace(
        manager="west", under_way=0, over=loop.create_future(), client=SimpleNamespace(links=links)
    )
    kept = KeptProxy(manager, ProxyStanding(PROXY, 0), loop.create_future())
    members: Any = SimpleNamespace()
    domain: Any = SimpleNamespace()
    return kind(members, domain, kept, "QueueService/Consume", ConsumeFrames(PROXY, "orders"), None), HandlerSide(
        (), None, "client"
    )


async def test_a_stream_that_is_open_when_its_client_has_gone_is_closed() -> None:
    west = West(answers=True)
    stream, context = serve(west, Left)
    assert isinstance(stream, Left)
    stream.serving = asyncio.create_task(stream.run(FIRST, context))
    with pytest.raises(asyncio.CancelledError):
        await stream.serving
    assert west.asked.is_set()
    await asyncio.wait_for(west.closed.wait(), OUTER_S)


async def test_one_that_is_not_open_yet_is_given_up_before_its_client_is_forgotten() -> None:
    west = West(answers=False)
    stream, context = serve(west, ProxiedStream)
    serving = asyncio.create_task(stream.run(FIRST, context))
    await west.asked.wait()
    opening = next(each for each in asyncio.all_tasks() if "ProxiedStream._open " in str(each.get_coro()))
    serving.cancel()
    with pytest.raises(asyncio.CancelledError):
        await serving
    assert opening.done(), "nothing of it goes on behind its client"
    await asyncio.wait_for(west.closed.wait(), OUTER_S)
