"""What is said of stages and their writers on the wire, and what is made of the answers."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tandemq.client import aio
from tandemq.client.outgoing import Outgoing
from tandemq.client.staging import PublishedRows, batch_of
from tandemq.v1 import message_pb2
from tandemq.v1 import stage_service_pb2 as pb
from tests.unit.client.fake import FakeMember

STAGE = "/tandemq.v1.StageService/"


@pytest.fixture
async def member() -> AsyncIterator[FakeMember]:
    async with FakeMember() as started:
        yield started


@pytest.fixture
async def client(member: FakeMember) -> AsyncIterator[aio.Client]:
    async with aio.connect(member.endpoint) as connected:
        yield connected


def answering(member: FakeMember, method: str, request: Any, response: Any) -> list[Any]:
    seen: list[Any] = []

    async def handler(data: bytes, _context: Any) -> bytes:
        seen.append(request.FromString(data))
        response.header.CopyFrom(member.header())
        answer: bytes = response.SerializeToString()
        return answer

    handle: Callable[[bytes, Any], Awaitable[bytes]] = handler
    member.unary[STAGE + method] = handle
    return seen


def test_rows_become_columns_and_columns_stay() -> None:
    batch = batch_of([b"plain", Outgoing(b"x", {"group_id": "g"})])
    assert (list(batch.payloads), list(batch.group_ids)) == ([b"plain", b"x"], ["", "g"])
    given = message_pb2.MessageBatch(payloads=[b"y"])
    assert batch_of(given) is given


async def test_a_part_is_staged_under_its_id_and_number(member: FakeMember, client: aio.Client) -> None:
    ends = datetime(2027, 1, 2, tzinfo=UTC)
    reply = pb.StageResponse(rows=7, payload_bytes=9, duplicate=True)
    reply.expires_at.FromDatetime(ends)
    seen = answering(member, "Stage", pb.StageRequest, reply)
    staged = await client.stage("q", [b"x"], stage_id=b"s" * 16, part=3, ttl=timedelta(minutes=2))
    assert (staged.rows, staged.payload_bytes, staged.expires_at, staged.duplicate) == (7, 9, ends, True)
    await client.stage("q", [b"x"], stage_id=b"t" * 16)
    first, second = seen
    assert (first.stage_id, first.part, first.batch.queue, first.ttl.seconds) == (b"s" * 16, 3, "q", 120)
    assert list(first.batch.messages.payloads) == [b"x"]
    assert (second.part, second.HasField("ttl"), second.HasField("seen")) == (1, False, False)


async def test_a_batch_is_published_for_its_writer(member: FakeMember, client: aio.Client) -> None:
    rows = pb.PublishedRows(queue="q", first_index=4, last_index=6, rows=3)
    reply = pb.PublishResponse(duplicate=True, queues=[rows])
    reply.position.history_id = b"h" * 16
    reply.position.log_index = 40
    seen = answering(member, "Publish", pb.PublishRequest, reply)
    published = await client.publish("w", "query", 8, [b"s" * 16, b"t" * 16], domain="d", min_copies=2)
    assert (published.duplicate, published.queues) == (True, (PublishedRows("q", 4, 6, 3),))
    assert (published.position.history_id, published.position.log_index) == ((b"h" * 16).hex(), 40)
    await client.publish("w", "query", 9, [], seen=published.position, previous_batch=0)
    first, second = seen
    assert (first.writer, first.query_id, first.batch, first.domain, first.min_copies) == ("w", "query", 8, "d", 2)
    assert (list(first.stage_ids), first.HasField("previous_batch")) == ([b"s" * 16, b"t" * 16], False)
    assert not first.HasField("seen")
    assert (second.HasField("previous_batch"), second.previous_batch) == (True, 0)
    assert (second.seen.history_id, second.seen.log_index) == (b"h" * 16, 40)


async def test_stages_that_are_dropped_are_counted(member: FakeMember, client: aio.Client) -> None:
    seen = answering(member, "Abort", pb.AbortRequest, pb.AbortResponse(dropped=2))
    assert await client.abort_stages([b"s" * 16, b"t" * 16, b"u" * 16], domain="d") == 2
    (request,) = seen
    assert (list(request.stage_ids), request.domain) == ([b"s" * 16, b"t" * 16, b"u" * 16], "d")


@pytest.mark.parametrize("known", [True, False])
async def test_what_is_known_of_a_writer(member: FakeMember, client: aio.Client, known: bool) -> None:
    reply = pb.GetWriterResponse(known=known, query_id="query", batch=8)
    reply.published_at.FromDatetime(datetime(2027, 1, 2, tzinfo=UTC))
    reply.position.log_index = 40
    seen = answering(member, "GetWriter", pb.GetWriterRequest, reply)
    found = await client.writer_state("w", domain="d")
    assert (seen[0].writer, seen[0].domain) == ("w", "d")
    if not known:
        assert found is None
    else:
        assert found is not None
        assert (found.query_id, found.batch, found.position.log_index) == ("query", 8, 40)
        assert found.published_at == datetime(2027, 1, 2, tzinfo=UTC)


@pytest.mark.parametrize("released", [True, False])
async def test_a_writer_is_forgotten_or_was_not_known(member: FakeMember, client: aio.Client, released: bool) -> None:
    seen = answering(member, "ReleaseWriter", pb.ReleaseWriterRequest, pb.ReleaseWriterResponse(released=released))
    assert await client.release_writer("w") is released
    assert (seen[0].writer, seen[0].domain, seen[0].HasField("seen")) == ("w", "", False)
