"""What a client may get wrong from call to call: repetitions, frames, epochs. Refused as bad requests are, and the pair
serves on.
"""

from __future__ import annotations

import grpc
import grpc.aio
import pytest

from chaos.cluster import Cluster
from tandemq import seen
from tandemq.errors import to_error
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as service
from tests.integration.bad_input import (
    ADMIN,
    GARBAGE,
    INVALID,
    QUEUE,
    batch_of,
    consume_open,
    each_member,
    first_answer,
    new_queue,
    served_on,
    to_the_end,
)
from tests.integration.module_pair import module_pair
from tests.integration.support import Raw, new_id, raw_to, refused
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process

pair = module_pair()
serves_on = served_on()
member = each_member()
queue = new_queue()


# -- repetitions -------------------------------------------------------------------------------------------------------


async def test_a_replayed_request_has_one_effect_and_the_first_answer(pair: Cluster, queue: str) -> None:
    request_id = new_id()
    async with raw_to(*pair.endpoints) as members:
        for repetition, member in enumerate(members * 2):
            sent = await member.send(queue, b"1", b"2", request_id=request_id)
            # A replica may meet the record of the first call on its way: then its answer is that record's own.
            assert sent.duplicate == (repetition > 0) or member is members[1]
            assert [result.index for result in sent.results] == [1, 2]
            if repetition == 0:
                ids = [result.id for result in sent.results]
            assert [result.id for result in sent.results] == ids
        request_id = new_id()
        first = await members[0].receive(queue, 2, request_id=request_id)
        again = await members[1].receive(queue, 2, request_id=request_id)
        assert (first.lease_id, list(first.messages)) == (again.lease_id, list(again.messages))
        request_id = new_id()
        answers = [await member.ack(queue, first, request_id=request_id) for member in members]
        assert [(answer.duplicate, answer.results[0].settled) for answer in answers] == [(False, 2), (True, 2)]


async def test_a_request_id_under_other_content_is_refused(pair: Cluster, queue: str) -> None:
    request_id = new_id()
    async with raw_to(*pair.endpoints) as members:
        await members[0].send(queue, b"1", request_id=request_id)
        for member in members:
            with refused("REQUEST_MISMATCH", INVALID, request_id.hex(), "choose a new id"):
                await member.send(queue, b"2", request_id=request_id)
            with refused("REQUEST_MISMATCH", INVALID, request_id.hex()):
                await member.receive(queue, request_id=request_id)
            with refused("REQUEST_MISMATCH", INVALID, request_id.hex()):
                await member.admin.DeleteQueue(
                    admin.DeleteQueueRequest(name=queue, request_id=request_id), timeout=OUTER_S
                )


async def test_sequences_that_do_not_follow_are_refused(member: Raw, queue: str) -> None:
    call = member.queue.Produce(timeout=OUTER_S)
    await call.write(service.ProduceRequest(open={"client_id": b"p", "queue": queue}))
    await call.read()
    await call.write(service.ProduceRequest(batch=batch_of(queue, 1, b"1", b"2")))
    assert (await call.read()).ack.count == 2
    await call.write(service.ProduceRequest(batch=batch_of(queue, 5, b"5")))
    reject = (await call.read()).reject
    assert (to_error(reject.error).reason, reject.last_sequence) == ("SEQUENCE_GAP", 2)
    await call.write(service.ProduceRequest(batch=batch_of(queue, 1, b"1", b"2")))
    repeated = (await call.read()).ack
    assert (repeated.duplicate, repeated.first_index, repeated.count) == (True, 1, 2)
    await call.write(service.ProduceRequest(batch=batch_of(queue, 0, b"0")))
    assert to_error((await call.read()).reject.error).reason == "BAD_REQUEST"
    call.cancel()


# -- frames ------------------------------------------------------------------------------------------------------------


async def test_bytes_that_are_no_message_are_refused_by_every_unary_call(member: Raw) -> None:
    queue = ("Enqueue", "Dequeue", "Settle", "BrowsePage")
    verbs = [method.name for method in admin.DESCRIPTOR.services_by_name["QueueAdminService"].methods]
    for path in (*(QUEUE + name for name in queue), *(ADMIN + name for name in verbs)):
        with refused("BAD_REQUEST", INVALID, "the request is not a tandemq.v1."):
            await member.bytes_call(path, GARBAGE)
    with refused("BAD_REQUEST", INVALID, "BrowseRequest"):
        await member.channel.unary_stream(QUEUE + "Browse")(GARBAGE, timeout=OUTER_S).read()


@pytest.mark.parametrize("stream", ["Produce", "Consume"])
async def test_bytes_that_are_no_frame_end_the_stream(member: Raw, queue: str, stream: str) -> None:
    with refused("BAD_REQUEST", INVALID, stream):
        await first_answer(member.channel.stream_stream(QUEUE + stream), GARBAGE)
    opened = {
        "Produce": service.ProduceRequest(open={"client_id": b"p", "queue": queue}),
        "Consume": service.ConsumeRequest(open=consume_open(queue)),
    }[stream]
    call = member.channel.stream_stream(QUEUE + stream)(timeout=OUTER_S)
    await call.write(opened.SerializeToString())
    await call.read()
    await call.write(GARBAGE)
    with refused("BAD_REQUEST", INVALID, f"{stream}Request"):
        await to_the_end(call)


async def test_a_stream_without_its_first_frame_is_refused(member: Raw, queue: str) -> None:
    for stub, wrong in (
        (member.queue.Produce, service.ProduceRequest(batch=batch_of(queue, 1, b"x"))),
        (member.queue.Produce, service.ProduceRequest()),
        (member.queue.Consume, service.ConsumeRequest(credit={"messages": 1})),
        (member.queue.Consume, service.ConsumeRequest()),
    ):
        with refused("BAD_REQUEST", INVALID, "first frame", "open"):
            await first_answer(stub, wrong)
    for stub in (member.queue.Produce, member.queue.Consume):
        call = stub(timeout=OUTER_S)
        await call.done_writing()
        with refused("BAD_REQUEST", INVALID, "first frame", "open"):
            await to_the_end(call)


async def test_a_second_open_is_refused(member: Raw, queue: str) -> None:
    for stub, frame in (
        (member.queue.Produce, service.ProduceRequest(open={"client_id": b"p", "queue": queue})),
        (member.queue.Consume, service.ConsumeRequest(open=consume_open(queue))),
    ):
        call = stub(timeout=OUTER_S)
        await call.write(frame)
        await call.read()
        await call.write(frame)
        with refused("BAD_REQUEST", INVALID, "open"):
            await to_the_end(call)


@pytest.mark.parametrize("client_id", [b"", b"x" * 65])
async def test_a_client_id_of_impossible_length_is_refused(member: Raw, queue: str, client_id: bytes) -> None:
    with refused("BAD_REQUEST", INVALID, "1 to 64 bytes"):
        await first_answer(member.queue.Produce, service.ProduceRequest(open={"client_id": client_id, "queue": queue}))
    opening = consume_open(queue)
    opening.client_id = client_id
    with refused("BAD_REQUEST", INVALID, "1 to 64 bytes"):
        await first_answer(member.queue.Consume, service.ConsumeRequest(open=opening))


# -- epochs ------------------------------------------------------------------------------------------------------------


async def test_a_client_that_saw_a_higher_epoch_is_not_served_by_an_older_master(pair: Cluster, queue: str) -> None:
    """The master reads its register before it serves anybody who has seen more than it knows."""
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as members:
        for member in members:
            header = (await member.send(queue, b"x")).header
            ahead = header.epoch + 5
            aborted = grpc.StatusCode.ABORTED
            with refused("STALE_EPOCH", aborted, str(ahead), str(header.epoch)) as caught:
                await member.send(queue, b"never", epoch=ahead)
            assert caught.error.metadata["epoch"] == str(header.epoch)
            assert caught.retry_info
            with refused("STALE_EPOCH", aborted, str(ahead)):
                await member.receive(queue, epoch=ahead)
            with refused("STALE_EPOCH", aborted, str(ahead)):
                await member.ack(queue, service.DequeueResponse(lease_id=1, messages=[{"index": 1}]), epoch=ahead)
            opening = service.ProduceRequest(open={"client_id": b"p", "queue": queue, "epoch": ahead})
            with refused("STALE_EPOCH", aborted, str(ahead)):
                await first_answer(member.queue.Produce, opening)
            with refused("STALE_EPOCH", aborted, str(ahead)):
                opening = consume_open(queue, epoch=ahead)
                await first_answer(member.queue.Consume, service.ConsumeRequest(open=opening))
            assert (await member.send(queue, b"y", epoch=header.epoch)).header.epoch == header.epoch
        assert await members[0].take(queue, 10) == [b"x", b"y", b"x", b"y"]


async def test_a_request_without_an_epoch_of_its_own_tells_it_beside(pair: Cluster, queue: str) -> None:
    """Over a hop too; of another domain it says nothing; and what is no epoch is refused in words."""
    request = admin.GetQueueRequest(name=queue)
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as members:
        for member in members:
            epoch = (await member.admin.GetQueue(request, timeout=OUTER_S)).header.epoch
            for told in (f"main={epoch}", f"main={epoch - 1}", f"other={epoch + 5}"):
                await member.admin.GetQueue(request, timeout=OUTER_S, metadata=((seen.KEY, told),))
            ahead = ((seen.KEY, f"main={epoch + 5}"),)
            with refused("STALE_EPOCH", grpc.StatusCode.ABORTED, str(epoch + 5)):
                await member.admin.GetQueue(request, timeout=OUTER_S, metadata=ahead)
            with refused("STALE_EPOCH", grpc.StatusCode.ABORTED, str(epoch + 5)):
                create = admin.CreateQueueRequest(name=queue, request_id=new_id())
                await member.admin.CreateQueue(create, timeout=OUTER_S, metadata=ahead)
            for wrong in ("main", "main=", "=3", "main=-1", "main=x", f"main={1 << 64}", "main=" + "1" * 5_000):
                with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, seen.KEY, "DOMAIN=EPOCH"):
                    await member.admin.GetQueue(request, timeout=OUTER_S, metadata=((seen.KEY, wrong),))
