"""Who wants to hear what became of his message is called once, whatever happens to the stream or to other calls."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from tandemq.client import aio
from tandemq.client.completion import Completion, Final, Handle, Reached, completion_of
from tandemq.errors import NotFound, Refused, TimedOut
from tandemq.v1 import common_pb2 as common
from tandemq.v1 import message_pb2
from tandemq.v1 import queue_service_pb2 as pb
from tests.support.until import until
from tests.unit.client.fake import QUEUE, FakeMember, FakeStream


@pytest.fixture
async def member() -> AsyncIterator[FakeMember]:
    """Takes every message; its handle is the payload."""
    async with FakeMember() as started:

        async def enqueue(request: bytes, _context: Any) -> bytes:
            (message,) = pb.EnqueueRequest.FromString(request).messages
            done = message.payload.startswith(b"done")
            handle = b"" if message.payload == b"accepted" else message.payload
            found = pb.EnqueueResult(
                index=1, handle=handle, completion=common.COMPLETION_STORED, completed=done, final_state=0
            )
            return pb.EnqueueResponse(header=started.header(), results=[found]).SerializeToString()

        started.unary[QUEUE + "Enqueue"] = enqueue
        yield started


class Told:
    """What its callback was called with."""

    def __init__(self) -> None:
        self.calls: list[tuple[Handle, Completion]] = []

    def __call__(self, handle: Handle, completion: Completion) -> None:
        self.calls.append((handle, completion))

    @property
    def ends(self) -> list[tuple[bytes, Final]]:
        return [(completion.handle, completion.final) for _, completion in self.calls]


async def open_watch(member: FakeMember, stream: FakeStream) -> None:
    request = await stream.read()
    assert (request.queue, list(request.handles)) == ("q", [])
    await stream.write(header=member.header())


async def end(stream: FakeStream, *handles: bytes, final: int = pb.FINAL_STATE_CONSUMED) -> None:
    statuses = [
        pb.CompletionStatus(handle=handle, completion=common.COMPLETION_RECEIVED, final_state=final, completed=True)
        for handle in handles
    ]
    await stream.write(statuses=statuses)


async def handles_of(stream: FakeStream, count: int) -> list[bytes]:
    found: list[bytes] = []
    while len(found) < count:
        found += (await stream.read()).handles
    return found


async def test_each_sender_is_called_once_when_his_message_has_ended(member: FakeMember) -> None:
    async def script(stream: FakeStream) -> None:
        await open_watch(member, stream)
        assert sorted(await handles_of(stream, 2)) == [b"a", b"b"]
        await end(stream, b"b", b"stranger")
        await end(stream, b"b", b"a")
        await stream.over.wait()

    member.watch = [script]
    told = Told()
    async with aio.connect(member.endpoint) as client:
        sent = [await client.send("q", payload, on_completion=told) for payload in (b"a", b"b")]
        await until(lambda: len(told.calls) == 2)
    assert told.ends == [(b"b", Final.CONSUMED), (b"a", Final.CONSUMED)]
    assert [handle.completion for handle in sent] == [told.calls[1][1], told.calls[0][1]]
    assert told.calls[0][0] is sent[1]
    assert len(member.watched) == 1, "one watch a queue"


@pytest.mark.parametrize("payload", [b"done", b"accepted"])
async def test_what_has_ended_by_the_answer_is_told_without_asking(member: FakeMember, payload: bytes) -> None:
    """Of a message that is only accepted nothing more will ever be known."""
    told = Told()
    async with aio.connect(member.endpoint) as client:
        handle = await client.send("q", payload, on_completion=told)
        assert told.calls == [], "not before the sender has its handle"
        await until(lambda: told.calls)
    assert told.calls == [(handle, handle.completion)]
    assert member.watched == []


async def test_what_was_not_told_is_asked_for_again_over_the_next_stream(member: FakeMember) -> None:
    async def breaks(stream: FakeStream) -> None:
        await open_watch(member, stream)
        await handles_of(stream, 2)
        await end(stream, b"a")
        await stream.break_off()

    async def ends(stream: FakeStream) -> None:
        await open_watch(member, stream)
        assert await handles_of(stream, 1) == [b"b"]
        await end(stream, b"b", final=pb.FINAL_STATE_EXPIRED)
        await stream.over.wait()

    member.watch = [breaks, ends]
    told = Told()
    async with aio.connect(member.endpoint) as client:
        for payload in (b"a", b"b"):
            await client.send("q", payload, on_completion=told)
        await until(lambda: len(told.calls) == 2)
    assert told.ends == [(b"a", Final.CONSUMED), (b"b", Final.EXPIRED)]


async def test_a_watch_that_is_refused_for_good_tells_everybody_why_and_a_later_one_begins_anew(
    member: FakeMember,
) -> None:
    async def refuses(stream: FakeStream) -> None:
        await open_watch(member, stream)
        await handles_of(stream, 1)
        await stream.refuse(common.REASON_QUEUE_NOT_FOUND, "no queue q")

    async def ends(stream: FakeStream) -> None:
        await open_watch(member, stream)
        assert await handles_of(stream, 1) == [b"b"]
        await end(stream, b"b")
        await stream.over.wait()

    member.watch = [refuses, ends]
    told = Told()
    async with aio.connect(member.endpoint) as client:
        await client.send("q", b"a", on_completion=told)
        await until(lambda: told.calls)
        ((_, refused),) = told.calls
        assert (refused.handle, refused.completed, type(refused.error)) == (b"a", False, NotFound)
        await client.send("q", b"b", on_completion=told)
        await until(lambda: len(told.calls) == 2)
    assert told.ends[1] == (b"b", Final.CONSUMED)


async def test_a_callback_that_raises_is_reported_and_stops_nobody_elses(member: FakeMember) -> None:
    noise: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context["exception"]))

    async def script(stream: FakeStream) -> None:
        await open_watch(member, stream)
        await handles_of(stream, 3)
        await end(stream, b"a", b"b")
        await end(stream, b"c")
        await stream.over.wait()

    def fails(_handle: Handle, _completion: Completion) -> None:
        raise ValueError("of the application")

    member.watch = [script]
    told = Told()
    async with aio.connect(member.endpoint) as client:
        for payload, notify in ((b"a", fails), (b"b", told), (b"c", told)):
            await client.send("q", payload, on_completion=notify)
        await until(lambda: len(told.calls) == 2)
    assert told.ends == [(b"b", Final.CONSUMED), (b"c", Final.CONSUMED)]
    assert [str(error) for error in noise] == ["of the application"]


async def test_with_the_client_its_watches_end(member: FakeMember) -> None:
    asked = asyncio.Event()

    async def script(stream: FakeStream) -> None:
        await open_watch(member, stream)
        await handles_of(stream, 1)
        asked.set()
        await stream.read()

    member.watch = [script]
    told = Told()
    async with aio.connect(member.endpoint) as client:
        await client.send("q", b"a", on_completion=told)
        await asked.wait()
        callbacks = client.callbacks
    await member.watched[0].over.wait()
    assert (told.calls, callbacks._watches) == ([], {})


@pytest.mark.parametrize(
    ("final", "completed", "succeeded"),
    [
        *((final, True, final in (Final.NONE, Final.CONSUMED, Final.REPLIED)) for final in Final),
        (Final.NONE, False, False),
    ],
)
def test_a_message_that_has_ended_otherwise_than_its_sender_wished_has_not_succeeded(
    final: Final, completed: bool, succeeded: bool
) -> None:
    assert Completion(b"h", final=final, completed=completed).succeeded is succeeded


def test_what_a_newer_member_says_is_taken_as_far_as_it_is_known() -> None:
    found = completion_of("q", pb.CompletionStatus(handle=b"h", completion=77, final_state=78, completed=True))  # type: ignore[arg-type]  # numbers of a later version
    assert found == Completion(b"h", Reached.UNKNOWN, Final.NONE, completed=True)
    status = pb.CompletionStatus(
        handle=b"h", completion=common.COMPLETION_REPLIED, final_state=pb.FINAL_STATE_REPLIED, completed=True,
        reply=message_pb2.Message(payload=b"answer"),
    )  # fmt: skip
    answered = completion_of("q", status)
    assert answered.reply is not None
    assert (answered.reached, answered.final, answered.reply.payload) == (Reached.REPLIED, Final.REPLIED, b"answer")
    error = common.Error(reason=common.REASON_ENQUEUE_DISABLED)
    assert isinstance(completion_of("q", pb.CompletionStatus(handle=b"h", error=error)).error, Refused)


# -- asking ------------------------------------------------------------------------------------------------------------


def asked(member: FakeMember, *answers: list[pb.CompletionStatus]) -> list[pb.WaitCompletionRequest]:
    """The member answers so, one call after the other, and the last one again and again."""
    seen: list[pb.WaitCompletionRequest] = []

    async def wait(request: bytes, _context: Any) -> bytes:
        seen.append(pb.WaitCompletionRequest.FromString(request))
        statuses = answers[min(len(seen), len(answers)) - 1]
        return pb.WaitCompletionResponse(header=member.header(), statuses=statuses).SerializeToString()

    member.unary[QUEUE + "WaitCompletion"] = wait
    return seen


def status(handle: bytes, *, final: int = 0, completed: bool = False, **more: Any) -> pb.CompletionStatus:
    return pb.CompletionStatus(handle=handle, final_state=final, completed=completed, **more)  # type: ignore[arg-type]  # numbers of the enum


async def test_who_waits_for_all_is_told_when_the_last_has_ended_in_the_order_of_asking(member: FakeMember) -> None:
    ended = {name: status(name, final=pb.FINAL_STATE_CONSUMED, completed=True) for name in (b"a", b"b")}
    seen = asked(member, [ended[b"b"], status(b"a")], [ended[b"a"]])
    async with aio.connect(member.endpoint) as client:
        found = await client.wait_completions("q", [b"a", b"b", b"a"])
    assert [(each.handle, each.completed) for each in found] == [(b"a", True), (b"b", True)]
    assert [list(request.handles) for request in seen] == [[b"a", b"b"], [b"a"]], "what has ended is not asked again"
    assert all(0 < request.wait.seconds <= 30 for request in seen)


async def test_who_asks_is_told_at_once_what_is_known(member: FakeMember) -> None:
    seen = asked(member, [status(b"a"), status(b"b", error=common.Error(reason=common.REASON_INVALID_HANDLE))])
    async with aio.connect(member.endpoint) as client:
        first, second = await client.check_completions("q", [b"a", b"b"])
        assert (first.completed, first.error, type(second.error)) == (False, None, NotFound)
        assert (await client.handle("q", b"a").check()).handle == b"a"
        asked(member, [status(b"b", error=common.Error(reason=common.REASON_INVALID_HANDLE))])
        with pytest.raises(NotFound):
            await client.handle("q", b"b").check()
    assert [request.wait.ToMilliseconds() for request in seen] == [0, 0]


async def test_a_request_without_an_answer_in_time_raises_what_it_ended_as(member: FakeMember) -> None:
    async with aio.connect(member.endpoint) as client:
        with pytest.raises(TimedOut, match="has no answer yet") as caught:
            await client.call("q", b"open", 0)
        assert caught.value.metadata == {"final_state": "NONE", "handle": b"open".hex()}
        with pytest.raises(TimedOut, match="ended as NONE"):
            await client.call("q", b"done", 0)


async def test_an_answer_that_came_a_moment_after_the_wait_is_asked_for(member: FakeMember) -> None:
    async def enqueue(_request: bytes, _context: Any) -> bytes:
        found = pb.EnqueueResult(index=1, handle=b"h", completed=True, final_state=pb.FINAL_STATE_REPLIED)
        return pb.EnqueueResponse(header=member.header(), results=[found]).SerializeToString()

    member.unary[QUEUE + "Enqueue"] = enqueue
    answer = message_pb2.Message(payload=b"answer")
    seen = asked(member, [status(b"h", final=pb.FINAL_STATE_REPLIED, completed=True, reply=answer)])
    async with aio.connect(member.endpoint) as client:
        assert (await client.call("q", b"question", 0)).payload == b"answer"
    assert [list(request.handles) for request in seen] == [[b"h"]]
