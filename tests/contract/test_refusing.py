"""Status and details of a refused call say the same, for every reason of the contract, at every hop (R063)."""

from __future__ import annotations

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2
from grpc_status import rpc_status

from replica.core.state.outcomes import Failed, Moved
from replica.rpc.refusals import abort
from replica.services.forward import pipe
from tandemq import refusing
from tandemq.errors import DETAILS_KEY, OUTCOME, STORED, from_rpc_error, status_for
from tandemq.v1.common_pb2 import Error, Reason

pytestmark = pytest.mark.requirement("R063")

ROOT = Path(__file__).resolve().parents[2]
METHOD = "Refuse"
PATH = f"/tandemq.v1.QueueService/{METHOD}"
TEXT = "größe \n 'x' % \U0001f600"  # a status travels percent-encoded, its details do not

Ending = Callable[[Any], Awaitable[object]]


@asynccontextmanager
async def refuser(end: Ending) -> AsyncIterator[grpc.aio.Channel]:
    """To a real server whose one method, a stream, ends so."""

    async def handle(_requests: object, context: Any) -> None:
        await end(context)

    server = grpc.aio.server()
    method = grpc.stream_stream_rpc_method_handler(handle)
    handler = grpc.method_handlers_generic_handler("tandemq.v1.QueueService", {METHOD: method})
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            yield channel
    finally:
        await server.stop(None)


async def ending_of(channel: grpc.aio.Channel) -> grpc.aio.AioRpcError:
    call = channel.stream_stream(PATH)()
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call.read()
    return caught.value


class Peer:
    """As much of Members as a forwarded stream needs."""

    member, access = "b", None

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._channel = channel

    def channel(self) -> grpc.aio.Channel:
        return self._channel

    @contextmanager
    def pipe_channel(self) -> Iterator[grpc.aio.Channel]:
        yield self._channel


def forwarding(channel: grpc.aio.Channel) -> Ending:
    members: Any = Peer(channel)
    return lambda context: pipe(members, f"QueueService/{METHOD}", b"", context)


def info_of(status: status_pb2.Status) -> error_details_pb2.ErrorInfo:
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    return info


@pytest.mark.parametrize("stored", [False, True])
@pytest.mark.parametrize("reason", Reason.values())
async def test_status_and_details_agree(reason: Reason, stored: bool) -> None:
    facts = {OUTCOME: STORED} if stored else {"queue": "q"}
    aborted = grpc.StatusCode.ABORTED
    async with (
        refuser(lambda context: abort(context, Failed(reason, TEXT, facts, 250))) as master,
        refuser(forwarding(master)) as replica,
    ):
        for channel in (master, replica):
            error = await ending_of(channel)
            status = rpc_status.from_call(error)  # raises when its code or text is another than the call's
            assert status is not None
            assert error.code() is (aborted if stored else status_for(reason))
            info = info_of(status)
            assert (info.domain, info.reason) == ("tandemq", Reason.Name(reason).removeprefix("REASON_"))
            assert dict(info.metadata) == facts
            assert status.message == TEXT
            ours = from_rpc_error(error)
            assert not (stored and ours.definite)
            assert ours.retry_after is not None


class EndsBeforeItsFirstFrame:
    """A channel whose first streams end while their first frame is on the way, as gRPC says it."""

    def __init__(self, channel: grpc.aio.Channel, times: int) -> None:
        self._channel, self.left = channel, times

    def stream_stream(self, path: str) -> Callable[..., Any]:
        def asked(**options: Any) -> Any:
            call: Any = self._channel.stream_stream(path)(**options)
            if self.left:
                self.left -= 1
                call.write = self._write
            return call

        return asked

    async def _write(self, _: bytes) -> None:
        nothing = grpc.aio.Metadata()
        raise grpc.aio.AioRpcError(grpc.StatusCode.INTERNAL, nothing, nothing, "Internal error from Core")


@pytest.mark.parametrize(("times", "reason"), [(1, "QUEUE_NOT_FOUND"), (3, "QUEUE_NOT_FOUND"), (4, "NOT_MASTER")])
async def test_a_stream_that_ends_before_its_first_frame_is_asked_for_again(times: int, reason: str) -> None:
    """Else its client would hear that the master was lost, and not why it is refused."""
    refusal = Failed(Reason.REASON_QUEUE_NOT_FOUND, TEXT, {}, 0)
    async with refuser(lambda context: abort(context, refusal)) as master:
        lossy: Any = EndsBeforeItsFirstFrame(master, times)
        async with refuser(forwarding(lossy)) as replica:
            status = rpc_status.from_call(await ending_of(replica))
            assert status is not None
            assert info_of(status).reason == reason
            assert lossy.left == 0


async def test_a_call_that_lost_its_master_agrees_too() -> None:
    async with refuser(lambda context: abort(context, Moved("moved"))) as channel:
        status = rpc_status.from_call(await ending_of(channel))
        assert status is not None
        assert info_of(status).reason == "NOT_MASTER"


async def test_what_an_older_member_says_is_made_to_agree_on_the_way() -> None:
    """Its details said UNAVAILABLE where its status said ABORTED."""
    details = status_pb2.Status(code=grpc.StatusCode.UNAVAILABLE.value[0], message="stored")
    details.details.add().Pack(error_details_pb2.ErrorInfo(reason="NOT_ENOUGH_COPIES", domain="tandemq"))
    trailers = ((DETAILS_KEY, details.SerializeToString()), ("x-other", "kept"))

    async def old(context: Any) -> None:
        await context.abort(grpc.StatusCode.ABORTED, "stored after all", trailers)

    async with refuser(old) as master, refuser(forwarding(master)) as replica:
        error = await ending_of(replica)
        status = rpc_status.from_call(error)
        assert status is not None
        assert (error.code(), error.details()) == (grpc.StatusCode.ABORTED, "stored after all")
        assert info_of(status).reason == "NOT_ENOUGH_COPIES"
        assert ("x-other", "kept") in tuple(error.trailing_metadata() or ())


@pytest.mark.parametrize("values", [(b"\xff\xff",), (b"", b"")])
async def test_details_that_cannot_be_read_are_left_out(values: tuple[bytes, ...]) -> None:
    trailers = tuple((DETAILS_KEY, value) for value in values)
    async with refuser(lambda context: refusing.pass_on(context, grpc.StatusCode.ABORTED, None, trailers)) as channel:
        error = await ending_of(channel)
        assert error.code() is grpc.StatusCode.ABORTED
        assert DETAILS_KEY not in dict(error.trailing_metadata() or ())


async def test_who_has_no_reason_of_ours_leaves_the_outcome_open() -> None:
    async with refuser(
        lambda context: refusing.abort_bare(context, grpc.StatusCode.DEADLINE_EXCEEDED, "late")
    ) as channel:
        error = await ending_of(channel)
        assert rpc_status.from_call(error) is None
        assert not from_rpc_error(error).definite


def test_only_one_place_ends_calls() -> None:
    """Wherever else a status was made, it could differ from its details."""
    ends = re.compile(
        r"context\.abort|\.abort_with_status|\bset_code\(|\bset_details\(|set_trailing_metadata|Status\(code"
    )
    details = re.compile(r"DETAILS_KEY|grpc-status-details-bin")
    found = []
    for folder in ("tandemq", "replica", "storage", "failover", "pipeline"):
        for path in sorted((ROOT / folder).rglob("*.py")):
            if not path.stem.endswith(("_pb2", "_pb2_grpc")):
                text, name = path.read_text(encoding="utf-8"), path.relative_to(ROOT).as_posix()
                found += [(name, "ends calls")] * bool(ends.search(text)) + [(name, "details")] * bool(
                    details.search(text)
                )
    assert found == [
        ("tandemq/edge/guard.py", "ends calls"),  # asks channelz in this process: no call of anybody ends
        ("tandemq/errors.py", "ends calls"),  # builds google.rpc.Status, out of the same Error as the status
        ("tandemq/errors.py", "details"),
        ("tandemq/refusing.py", "ends calls"),
        ("tandemq/refusing.py", "details"),
        ("replica/services/audited.py", "ends calls"),  # passes on what a refusal ends one with, as it is
        ("replica/services/forward.py", "details"),  # asks whether there are any
    ]


def test_a_refusal_has_no_status_of_its_own_in_frames() -> None:
    """Stream frames and results of batches carry the reason alone: nothing there could differ."""
    assert set(Error.DESCRIPTOR.fields_by_name) == {"reason", "message", "metadata", "retry_after"}
