"""What watches of queues cost a member at most (V20): so many streams, and one report a watch for a slow reader."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest

from chaos.ports import PortRange
from replica.core.state.outcomes import DepthsMet, Met, Moved
from replica.services.messages import watching
from replica.services.messages.watching import DepthStream, WatchHandlers
from tandemq.client import aio
from tandemq.config import ManagerConfig, member_ports
from tandemq.embedded import open_manager
from tandemq.errors import from_rpc_error
from tandemq.v1.queue_service_pb2 import WatchedQueue, WatchQueuesRequest
from tandemq.v1.queue_service_pb2_grpc import QueueServiceStub
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.requirement("R193")
REQUEST = WatchQueuesRequest(watches=[WatchedQueue(queue="q")])


async def test_v20_a_member_has_so_many_streams(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watching, "STREAMS_MAX", 1)
    with PortRange() as ports:
        client_port, peer_port, http_port = (f"127.0.0.1:{port}" for port in member_ports(ports.base_port, 0))
        config = ManagerConfig(
            member="m", data_dir=str(tmp_path), listen_client=client_port, listen_peer=peer_port, listen_http=http_port
        )
        async with (
            open_manager(config),
            aio.connect(client_port) as client,
            grpc.aio.insecure_channel(client_port) as channel,
        ):
            await client.create_queue("q")
            method: Any = QueueServiceStub(channel).WatchQueues
            first = method(REQUEST, timeout=OUTER_S)
            assert list((await first.read()).reached) == []
            with pytest.raises(grpc.aio.AioRpcError) as refused:
                await method(REQUEST, timeout=OUTER_S).read()
            error = from_rpc_error(refused.value)
            assert (error.reason, error.retry_after) == ("TOO_MANY_WAITERS", timedelta(seconds=1))
            first.cancel()

            async def opened() -> bool:
                try:
                    return bool(await method(REQUEST, timeout=OUTER_S).read())
                except grpc.aio.AioRpcError:
                    return False

            assert await until(opened, "another one takes its place")


def test_v20_whoever_reads_slowly_gets_the_last_depth_of_each_watch() -> None:
    nowhere: Any = None  # nothing is written here
    stream = DepthStream(WatchHandlers(nowhere, nowhere), nowhere, nowhere, REQUEST)
    for depth in range(1, 1_000):
        stream.answer(DepthsMet([Met(0, depth)]))
    assert stream.unsent == {0: (Met(0, 999), False)}
    stream.answer(Moved("away"))
    stream.answer(Moved("later"))
    assert stream.end == Moved("away")
