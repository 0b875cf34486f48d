"""Single calls: repeated with the same identity, refused with a reason, given up at the deadline."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from datetime import timedelta
from typing import Any

import grpc
import pytest

from tandemq.client import aio
from tandemq.errors import InDoubt, NotFound, Refused, Unavailable, Unreachable
from tandemq.v1 import common_pb2 as common
from tandemq.v1 import pair_service_pb2 as pair
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as pb
from tests.support.until import OUTER_S
from tests.unit.client.fake import QUEUE, FakeMember, refuse

ADMIN = "/tandemq.v1.QueueAdminService/"
STATUS = "/tandemq.v1.PairService/GetPairStatus"


async def test_a_call_is_repeated_unchanged(member: FakeMember) -> None:
    seen: list[bytes] = []

    async def enqueue(request: bytes, context: Any) -> bytes:
        seen.append(request)
        if len(seen) == 1:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "broken")
        if len(seen) == 2:
            await refuse(context, common.REASON_NO_MASTER, "nobody yet")
        results = [pb.EnqueueResult(index=4, id=b"i" * 16), pb.EnqueueResult(index=5, id=b"j" * 16)]
        header = member.header(epoch=2)
        return pb.EnqueueResponse(header=header, results=results, duplicate=True).SerializeToString()

    member.unary[QUEUE + "Enqueue"] = enqueue
    async with aio.connect(member.endpoint) as client:
        receipts = await client.enqueue("q", [b"a", aio.Outgoing(b"b", {"priority": 0})])
        assert [(each.index, each.id[:1], each.duplicate) for each in receipts] == [(4, b"i", True), (5, b"j", True)]
        assert client.epoch() == 2
        await client.enqueue("q", [b"a"], request_id=b"r" * 16)
    assert seen[0] == seen[1] == seen[2]
    first, last = pb.EnqueueRequest.FromString(seen[0]), pb.EnqueueRequest.FromString(seen[3])
    assert len(first.request_id) == 16
    assert first.messages[1].HasField("priority")
    assert (first.epoch, last.epoch, last.request_id) == (0, 2, b"r" * 16)


async def test_a_refusal_ends_the_call_and_is_definite_only_when_sent_once(member: FakeMember) -> None:
    calls = 0

    async def get(request: bytes, context: Any) -> bytes:
        await refuse(context, common.REASON_QUEUE_NOT_FOUND, "no queue q", name="q")
        raise AssertionError

    async def delete(request: bytes, context: Any) -> bytes:
        nonlocal calls
        calls += 1
        if calls == 1:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "broken")
        await refuse(context, common.REASON_NOT_EMPTY)
        raise AssertionError

    member.unary = {ADMIN + "GetQueue": get, ADMIN + "DeleteQueue": delete}
    async with aio.connect(member.endpoint) as client:
        with pytest.raises(NotFound) as missing:
            await client.get_queue("q")
        assert missing.value.definite
        assert (missing.value.reason, missing.value.metadata) == ("QUEUE_NOT_FOUND", {"name": "q"})
        with pytest.raises(Refused) as full:
            await client.delete_queue("q", if_empty=True)
        assert not full.value.definite


async def test_the_deadline_ends_the_repetitions(member: FakeMember) -> None:
    async def never(request: bytes, context: Any) -> bytes:
        await refuse(context, common.REASON_NO_MASTER, retry_after_s=60)
        raise AssertionError

    member.unary[ADMIN + "PurgeQueue"] = never
    async with aio.connect(member.endpoint) as client:  # 60 s are more than it has
        with pytest.raises(Unavailable) as caught:
            await client.purge_queue("q")
        assert caught.value.definite
    async with aio.connect("127.0.0.1:1", timeout=0.2) as client:
        with pytest.raises(InDoubt):  # refused, or out of time while it tried
            await client.purge_queue("q")


async def test_a_deadline_under_way_tells_why_it_was_refused_before(member: FakeMember) -> None:
    calls = 0

    async def parked(request: bytes, context: Any) -> bytes:
        nonlocal calls
        calls += 1
        if calls == 1:
            await refuse(context, common.REASON_SUSPENDED, "a has lost its peer")
        await asyncio.Event().wait()
        raise AssertionError

    member.unary[ADMIN + "PurgeQueue"] = parked
    async with aio.connect(member.endpoint, timeout=0.3) as client:
        with pytest.raises(Unavailable) as caught:
            await client.purge_queue("q")
    assert (caught.value.reason, caught.value.message) == ("SUSPENDED", "a has lost its peer")
    assert not caught.value.definite, "the attempt that was cut short may have been executed"


async def test_lists_follow_pages(member: FakeMember) -> None:
    async def pages(request: bytes, context: Any) -> bytes:
        token = admin.ListQueuesRequest.FromString(request).page_token
        queues = [admin.QueueInfo(name="b" if token else "a")]
        return admin.ListQueuesResponse(queues=queues, next_page_token="" if token else "t").SerializeToString()

    member.unary[ADMIN + "ListQueues"] = pages
    async with aio.connect(member.endpoint) as client:
        assert [queue.name for queue in await client.list_queues()] == ["a", "b"]


async def test_dequeue_leases_and_settles(member: FakeMember) -> None:
    settled: list[pb.SettleRequest] = []

    async def dequeue(request: bytes, context: Any) -> bytes:
        assert pb.DequeueRequest.FromString(request).wait.seconds == 1
        rows = [pb.DequeueResponse().messages.add(queue="q", index=index) for index in (1, 2, 5)]
        return pb.DequeueResponse(header=member.header(), lease_id=8, messages=rows).SerializeToString()

    async def settle(request: bytes, context: Any) -> bytes:
        settled.append(pb.SettleRequest.FromString(request))
        return pb.SettleResponse(results=[pb.SettleResult(settled=3)]).SerializeToString()

    member.unary = {QUEUE + "Dequeue": dequeue, QUEUE + "Settle": settle}
    async with aio.connect(member.endpoint) as client:
        batch = await client.dequeue("q", 10, wait=timedelta(seconds=1))
        assert [message.index for message in batch] == [1, 2, 5]
        await batch.ack()
    assert [(run.first, run.count) for run in settled[0].settlements[0].ranges] == [(1, 2), (5, 1)]
    assert settled[0].settlements[0].outcome == pb.OUTCOME_ACK


async def test_every_member_is_asked_for_its_view(member: FakeMember) -> None:
    async with FakeMember("b") as other:

        def view(of: FakeMember, peer: str) -> Any:
            async def answer(request: bytes, context: Any) -> bytes:
                status = pair.MemberStatus(name=of.name, endpoint=of.endpoint)
                return pair.GetPairStatusResponse(member=status, peer_endpoint=peer).SerializeToString()

            return answer

        member.unary[STATUS] = view(member, other.endpoint)
        other.unary[STATUS] = view(other, member.endpoint)
        async with aio.connect([member.endpoint, "127.0.0.1:1"]) as client:
            answers = await client.pair_status()
    assert [answer.endpoint for answer in answers] == [member.endpoint, "127.0.0.1:1", other.endpoint]
    assert isinstance(answers[1].error, Unreachable)
    assert [answer.status.member.name for answer in answers if answer.status] == ["a", "b"]


async def test_whoever_stops_reading_a_stream_of_answers_ends_it_at_the_member(member: FakeMember) -> None:
    ended = asyncio.Event()

    async def list_all(_request: bytes, context: Any) -> None:
        try:
            await context.write(admin.GetQueueResponse(header=member.header()).SerializeToString())
            await asyncio.Event().wait()
        finally:
            ended.set()

    member.answers[ADMIN + "ListQueues"] = list_all
    async with aio.connect(member.endpoint) as client:
        request = admin.ListQueuesRequest()
        answers = client.links.own.caller.stream(
            member.endpoint, ADMIN + "ListQueues", request, admin.GetQueueResponse, None
        )
        assert (await anext(answers)).header.member == "a"
        assert isinstance(answers, AsyncGenerator)
        await answers.aclose()
        async with asyncio.timeout(OUTER_S):
            await ended.wait()
