"""A message with far more properties than it may have, in a large request, is refused by each way in; one with a few
too many is refused alone, and its stream goes on.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import grpc
import pytest

from chaos.cluster import Cluster
from replica.services.weighing import COSTLY, LONG_BYTES
from tandemq.v1 import queue_service_pb2 as pb
from tandemq.v1.message_pb2 import Message, MessageBatch, Properties, PropertyValue
from tandemq.v1.stage_service_pb2 import StageRequest
from tandemq.v1.stage_service_pb2_grpc import StageServiceStub
from tests.integration.module_pair import module_pair
from tests.integration.support import Raw, new_id, new_name, raw_to, refused
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process

pair = module_pair()
INVALID = grpc.StatusCode.INVALID_ARGUMENT
LONG = bytes(LONG_BYTES)


@pytest.fixture
async def member(pair: Cluster) -> AsyncIterator[Raw]:
    async with raw_to(pair.endpoint("a")) as (raw,):
        yield raw


def numbered(count: int) -> dict[str, PropertyValue]:
    return {str(number): PropertyValue(integer=number) for number in range(count)}


def batch(queue: str, count: int, sequence: int = 0) -> pb.EnqueueBatch:
    columns = [Properties(entries=numbered(count))]
    return pb.EnqueueBatch(
        queue=queue, first_sequence=sequence, messages=MessageBatch(payloads=[LONG], properties=columns)
    )


async def test_each_way_in_refuses_a_huge_map(member: Raw) -> None:
    await member.create(name := new_name())
    huge = Message(payload=LONG, properties=numbered(COSTLY + 1))
    with refused("BAD_REQUEST", INVALID, "a message has more than 256 properties"):
        request = pb.EnqueueRequest(queue=name, request_id=new_id(), messages=[huge])
        await member.queue.Enqueue(request, timeout=OUTER_S)
    with refused("BAD_REQUEST", INVALID, "a message has more than 256 properties"):
        await member.queue.Reply(pb.ReplyRequest(queue=name, request_id=new_id(), message=huge), timeout=OUTER_S)
    with refused("BAD_REQUEST", INVALID, "a message has more than 256 properties"):
        part = StageRequest(stage_id=new_id(), part=1, batch=batch(name, COSTLY + 1))
        await StageServiceStub(member.channel).Stage(part, timeout=OUTER_S)
    with refused("BAD_REQUEST", INVALID, "a message has more than 256 properties"):
        call = member.queue.Produce(timeout=OUTER_S)
        await call.write(pb.ProduceRequest(open=pb.ProduceOpen(client_id=b"c", queue=name)))
        assert (await call.read()).WhichOneof("frame") == "opened"
        await call.write(pb.ProduceRequest(batch=batch(name, COSTLY + 1, 1)))
        await call.read()


async def test_a_batch_with_a_few_properties_too_many_is_refused_alone(member: Raw) -> None:
    await member.create(name := new_name())
    call = member.queue.Produce(timeout=OUTER_S)
    await call.write(pb.ProduceRequest(open=pb.ProduceOpen(client_id=b"c", queue=name)))
    assert (await call.read()).WhichOneof("frame") == "opened"
    await call.write(pb.ProduceRequest(batch=batch(name, 300, 1)))
    answer = await call.read()
    assert answer.WhichOneof("frame") == "reject"
    assert "messages[0] has 300 properties; a message may have 256" in answer.reject.error.message
    await call.write(pb.ProduceRequest(batch=batch(name, 256, 1)))
    assert (await call.read()).WhichOneof("frame") == "ack"
    call.cancel()


async def test_a_large_batch_through_the_replica_is_stored_by_both(pair: Cluster) -> None:
    """Its checksum is that of the batch as it came: the other member compares it with the record's bytes."""
    async with raw_to(*pair.endpoints) as members:
        await members[0].create(name := new_name())
        for at, member in enumerate(members):
            call = member.queue.Produce(timeout=OUTER_S)
            await call.write(pb.ProduceRequest(open=pb.ProduceOpen(client_id=b"c%d" % at, queue=name)))
            assert (await call.read()).WhichOneof("frame") == "opened"
            await call.write(pb.ProduceRequest(batch=batch(name, 1, 1)))
            acked = await call.read()
            assert (acked.WhichOneof("frame"), acked.ack.copies) == ("ack", 2)
            call.cancel()
        got = await members[0].receive(name, 2)
        assert [len(each.message.payload) for each in got.messages] == [LONG_BYTES] * 2
    async with asyncio.timeout(OUTER_S):
        await pair.wait_for(lambda view: view.equal(), "both hold the same")
