"""A call whose right goes while it is being refused already, behind a server of gRPC: it is refused once."""

from __future__ import annotations

import asyncio
from pathlib import Path

import grpc
import grpc.aio
import pytest

from replica.core.state.outcomes import Failed
from replica.machine.state.rights import BROWSE
from replica.rpc.refusals import abort
from replica.services.guard import Admitted, Committed, Guard, RightWanted
from tandemq.errors import from_rpc_error
from tandemq.v1.common_pb2 import Reason
from tests.support.certified import Certificates, CertifiedPair
from tests.support.pair import Pair


def test_a_call_that_is_being_refused_is_not_refused_again(tmp_path: Path) -> None:
    """1. The master refuses what a member has carried to it, and the member passes that on. 2. Before that is sent the
    member hears itself that the right has gone, and ends the call. `abort` may be called once.
    """
    asyncio.run(_story(CertifiedPair(Certificates(tmp_path), Pair().start()).guards["a"], tmp_path))


class Seen:
    """Notes how a block ends, and changes nothing."""

    def __init__(self, into: list[type[BaseException] | None]) -> None:
        self._into = into

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._into.append(kind)


async def _story(guard: Guard, folder: Path) -> None:
    seen: list[type[BaseException] | None] = []

    async def handler(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
        wanted, task = (RightWanted(BROWSE, "orders"),), asyncio.current_task()
        admitted = Admitted("principal/billing", "QueueService/Browse", wanted, task, Committed(None, 0))

        async def refused(_request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
            assert task is not None
            admitted.looked, admitted.lost = guard._now(), wanted[0]
            asyncio.get_running_loop().call_soon(task.cancel)
            await abort(context, Failed(Reason.REASON_PERMISSION_DENIED, "as the master says", {}))

        admitted.looked = guard._now()
        with Seen(seen):
            answer: bytes = await guard.carried_out(admitted, refused, request, context)
        return answer

    server = grpc.aio.server()
    method = grpc.unary_unary_rpc_method_handler(handler)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("x", {"Browse": method}),))
    where = f"unix:{folder}/port"
    server.add_insecure_port(where)
    await server.start()
    async with grpc.aio.insecure_channel(where) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary("/x/Browse")(b"")
    await server.stop(None)
    said = from_rpc_error(caught.value)
    assert (said.reason, said.message) == ("PERMISSION_DENIED", "as the master says")
    assert seen == [asyncio.CancelledError]
