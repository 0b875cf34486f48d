"""What a consumer asks for, gives to the application, and settles, over broken streams too."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import Any

import pytest

from tandemq.client import aio
from tandemq.client.receipts import domain_number, message_id
from tandemq.client.settling import Act, Settling
from tandemq.errors import LeaseLost, NotFound
from tandemq.v1 import common_pb2 as common
from tandemq.v1 import message_pb2
from tandemq.v1 import queue_service_pb2 as pb
from tests.support.until import OUTER_S, until
from tests.unit.client.fake import FakeMember, FakeStream


def segment(first: int, payloads: list[bytes], **fields: Any) -> message_pb2.DeliveredSegment:
    batch = pb.EnqueueBatch(queue="q", first_sequence=1, messages=message_pb2.MessageBatch(payloads=payloads))
    return message_pb2.DeliveredSegment(
        batch=batch.SerializeToString(), first_index=first, epoch=3, log_index=9, enqueue_time_ms=1500, **fields
    )


async def open_consumer(member: FakeMember, stream: FakeStream) -> pb.ConsumeOpen:
    opening = (await stream.read()).open
    await stream.write(opened=pb.ConsumeOpened(header=member.header()))
    return opening


async def deliver(stream: FakeStream, lease: int, *segments: message_pb2.DeliveredSegment) -> None:
    await stream.write(deliveries=pb.Deliveries(queue="q", lease_id=lease, segments=segments))


async def next_settle(stream: FakeStream) -> pb.ConsumeSettle:
    while True:
        request = await stream.read()
        if request.WhichOneof("frame") == "settle":
            return request.settle


async def confirm(stream: FakeStream, settle: pb.ConsumeSettle, *results: pb.SettleResult) -> None:
    given = results or tuple(pb.SettleResult() for _ in settle.settlements)
    await stream.write(settled=pb.ConsumeSettled(settle_id=settle.settle_id, results=given))


def ranges(settle: pb.ConsumeSettle) -> list[tuple[int, list[tuple[int, int]]]]:
    return [(each.lease_id, [(run.first, run.count) for run in each.ranges]) for each in settle.settlements]


async def test_deliveries_come_one_by_one_and_acks_leave_as_ranges(member: FakeMember) -> None:
    settles: list[pb.ConsumeSettle] = []

    async def script(stream: FakeStream) -> None:
        opening = await open_consumer(member, stream)
        assert opening.format == pb.DELIVERY_FORMAT_SEGMENTS
        assert opening.lease_duration.seconds == 5
        credit = (await stream.read()).credit
        assert (credit.messages, credit.bytes) == (1000, 8 << 20)
        await deliver(stream, 7, segment(1, [b"a", b"b"]), segment(3, [b"c", b"d"], delivery_counts=[1, 3]))
        settles.append(await next_settle(stream))
        await confirm(stream, settles[-1])
        await stream.read()

    member.consume = [script]
    async with aio.connect(member.endpoint) as client, client.consumer("q", lease=timedelta(seconds=5)) as consumer:
        got = []
        async for delivery in consumer:
            got.append((delivery.index, delivery.payload, delivery.redelivered))
            delivery.ack()
            if len(got) == 4:
                assert delivery.id == message_id(domain_number("main"), 3, 9, 1)
                assert delivery.enqueue_time.timestamp() == 1.5
                break
        await consumer.settled()
    assert got == [(1, b"a", False), (2, b"b", False), (3, b"c", False), (4, b"d", True)]
    assert [ranges(settle) for settle in settles] == [[(7, [(1, 4)])]]
    assert consumer.redelivered == 1


async def test_batches_are_settled_at_once(member: FakeMember) -> None:
    async def script(stream: FakeStream) -> None:
        await open_consumer(member, stream)
        await deliver(stream, 7, segment(1, [b"a", b"b"]), segment(9, [b"c", b"d"], indexes=[9, 12], ordinals=[0, 3]))
        settle = await next_settle(stream)
        assert ranges(settle) == [(7, [(1, 2), (9, 1), (12, 1)])]
        await confirm(stream, settle)
        await stream.read()

    member.consume = [script]
    async with aio.connect(member.endpoint) as client, client.consumer("q") as consumer:
        async for batch in consumer.batches():
            assert batch.payloads == [b"a", b"b", b"c", b"d"]
            assert batch[3].index == 12
            await batch.ack_async()
            break


async def test_unconfirmed_settlements_are_repeated_on_the_next_stream(member: FakeMember) -> None:
    seen: list[list[Any]] = []

    async def breaks(stream: FakeStream) -> None:
        await open_consumer(member, stream)
        await deliver(stream, 7, segment(1, [b"a"]))
        seen.append(ranges(await next_settle(stream)))
        await stream.break_off()

    async def confirms(stream: FakeStream) -> None:
        await open_consumer(member, stream)
        settle = await next_settle(stream)
        seen.append(ranges(settle))
        await confirm(stream, settle)
        while await stream.read() is not None:
            pass

    member.consume = [breaks, confirms]
    async with aio.connect(member.endpoint) as client, client.consumer("q") as consumer:
        delivery = await anext(consumer)
        await delivery.ack_async()
    assert seen == [[(7, [(1, 1)])]] * 2
    frames = [
        [frame for frame in stream.frames if pb.ConsumeRequest.FromString(frame).WhichOneof("frame") == "settle"]
        for stream in member.consumed
    ]
    assert frames[0] == frames[1]  # the same bytes
    kinds = [pb.ConsumeRequest.FromString(frame).WhichOneof("frame") for frame in member.consumed[1].frames]
    assert kinds[:3] == ["open", "settle", "credit"], "with credit first, a new master leases the message again"


async def test_a_lost_lease_is_told(member: FakeMember) -> None:
    told: list[aio.Lost] = []

    async def script(stream: FakeStream) -> None:
        await open_consumer(member, stream)
        await deliver(stream, 7, segment(1, [b"a", b"b", b"c"]))
        settle = await next_settle(stream)
        refused = pb.SettleResult(
            settled=2,
            error=common.Error(reason=common.REASON_LEASE_LOST),
            refused=[common.IndexRange(first=2, count=1)],
        )
        await confirm(stream, settle, refused)
        await stream.read()

    member.consume = [script]
    async with aio.connect(member.endpoint) as client, client.consumer("q", on_lost=told.append) as consumer:
        deliveries = [await anext(consumer) for _ in range(3)]
        results = await asyncio.gather(*(each.ack_async() for each in deliveries), return_exceptions=True)
    assert [type(result) for result in results] == [type(None), LeaseLost, type(None)]
    assert consumer.lost == 1
    assert told[0].ranges == ((2, 1),)


async def test_credit_returns_as_messages_are_taken_and_counts_the_buffer(member: FakeMember) -> None:
    granted: list[list[int]] = [[], []]
    taken, broken = asyncio.Event(), asyncio.Event()

    async def first(stream: FakeStream) -> None:
        await open_consumer(member, stream)
        granted[0].append((await stream.read()).credit.messages)
        await deliver(stream, 1, segment(1, [b"x"] * 5))
        await deliver(stream, 2, segment(6, [b"x"] * 4))
        granted[0].append((await stream.read()).credit.messages)
        taken.set()
        await broken.wait()
        await stream.break_off()

    async def second(stream: FakeStream) -> None:
        await open_consumer(member, stream)
        granted[1].append((await stream.read()).credit.messages)
        await deliver(stream, 3, segment(10, [b"x"]))
        await stream.over.wait()

    member.consume = [first, second]
    async with (
        aio.connect(member.endpoint, attempt_timeout=0.05) as client,
        client.consumer("q", credit_messages=10) as c,
    ):
        batches = c.batches()
        assert len(await anext(batches)) == 5
        await taken.wait()
        broken.set()
        await until(lambda: len(c._buffer) == 2)
        assert [batch.ranges() for batch in (await anext(batches), await anext(batches))] == [[(6, 4)], [(10, 1)]]
    assert granted == [[10, 5], [6]]


async def test_closing_gives_back_what_was_not_taken(member: FakeMember) -> None:
    """The releases go out over a stream without credit: over the first one the messages would come again."""
    settles: list[pb.ConsumeSettle] = []

    async def takes(stream: FakeStream) -> None:
        settles.append(await next_settle(stream))
        await confirm(stream, settles[-1])

    async def first(stream: FakeStream) -> None:
        await open_consumer(member, stream)
        await deliver(stream, 7, segment(1, [b"a", b"b", b"c"]))
        await takes(stream)
        while await stream.read() is not None:
            pass
        await deliver(stream, 8, segment(4, [b"d"]))  # was under way when the consumer closed

    async def second(stream: FakeStream) -> None:
        opened = await open_consumer(member, stream)
        assert opened.last_lease_id == 8
        while sum(run.count for settle in settles for each in settle.settlements for run in each.ranges) < 4:
            await takes(stream)
        kinds = [pb.ConsumeRequest.FromString(frame).WhichOneof("frame") for frame in stream.frames]
        assert set(kinds) == {"open", "settle"}, "no credit"

    member.consume = [first, second]
    async with aio.connect(member.endpoint) as client:
        consumer = client.consumer("q")
        (await anext(consumer)).ack()
        await client.close()
    settlements = [each for settle in settles for each in settle.settlements]
    told = [(each.outcome, each.lease_id, [(run.first, run.count) for run in each.ranges]) for each in settlements]
    assert told == [
        (pb.OUTCOME_ACK, 7, [(1, 1)]),
        (pb.OUTCOME_RELEASE, 7, [(2, 2)]),
        (pb.OUTCOME_RELEASE, 8, [(4, 1)]),
    ]


async def test_a_refused_opening_ends_the_iteration(member: FakeMember) -> None:
    async def no_queue(stream: FakeStream) -> None:
        await stream.read()
        await stream.refuse(common.REASON_QUEUE_NOT_FOUND)

    member.consume = [no_queue]
    async with aio.connect(member.endpoint) as client:
        with pytest.raises(NotFound):
            await anext(client.consumer("q"))


async def test_a_silent_member_is_asked_and_then_left(member: FakeMember) -> None:
    pings: list[int] = []

    async def silent(stream: FakeStream) -> None:
        await open_consumer(member, stream)
        while (request := await stream.read()) is not None:
            if request.WhichOneof("frame") == "ping":
                pings.append(request.ping.nonce)

    async def delivers(stream: FakeStream) -> None:
        await open_consumer(member, stream)
        await deliver(stream, 0, segment(1, [b"a"]))
        await stream.read()

    member.consume = [silent, delivers]
    async with aio.connect(member.endpoint, attempt_timeout=0.5) as client, client.consumer("q") as consumer:
        delivery = await anext(consumer)
        delivery.ack()  # removed already: nothing to say
        assert delivery.lease_id == 0
    assert pings


FAR_S = 3600.0


async def passed(member: FakeMember, patience_s: float) -> None:
    """As much time as a client that hears nothing asks in, and leaves: it has come to the next of the member's scripts,
    which delivers to it.
    """
    async with aio.connect(member.endpoint, attempt_timeout=patience_s) as client, client.consumer("q") as consumer:
        (await anext(consumer)).ack()


async def test_a_sign_to_one_stream_is_one_to_all_of_the_connection(member: FakeMember) -> None:
    """Members give signs to the streams of a connection in turn: the others need not ask, and stay."""
    pings: list[FakeStream] = []

    async def silent(stream: FakeStream) -> None:
        await open_consumer(member, stream)
        while (request := await stream.read()) is not None:
            if request.WhichOneof("frame") == "ping":
                pings.append(stream)

    async def delivers(stream: FakeStream) -> None:
        await open_consumer(member, stream)
        await deliver(stream, 0, segment(1, [b"a"]))
        await stream.read()

    member.consume = [silent, silent, delivers]
    async with aio.connect(member.endpoint, attempt_timeout=0.05) as client, client.consumer("q") as consumer:
        waiting = asyncio.create_task(anext(consumer))
        await until(lambda: consumer.connected)
        consumer._members.hear(member.endpoint, asyncio.get_running_loop().time() + FAR_S)  # over another stream
        await passed(member, 0.1)
        assert member.consumed[1] in pings
        assert member.consumed[0] not in pings
        assert consumer.connected
        assert not waiting.done()
        waiting.cancel()


async def test_a_stream_waits_its_turn_where_its_member_speaks_to_others(member: FakeMember) -> None:
    """A herd comes in at a bounded pace: who gives up meanwhile only begins anew at the end."""
    let_in = asyncio.Event()

    async def late(stream: FakeStream) -> None:
        await let_in.wait()
        await delivers(stream, b"late")

    async def never(stream: FakeStream) -> None:
        await stream.read()
        await stream.over.wait()

    async def delivers(stream: FakeStream, payload: bytes = b"to who came anew") -> None:
        await open_consumer(member, stream)
        await deliver(stream, 0, segment(1, [payload]))
        await stream.read()

    member.consume = [late, never, delivers]
    async with aio.connect(member.endpoint, attempt_timeout=0.05) as client, client.consumer("q") as consumer:
        consumer._members.channel(member.endpoint)
        consumer._members.hear(member.endpoint, asyncio.get_running_loop().time() + FAR_S)
        waiting = asyncio.create_task(anext(consumer))
        await until(lambda: member.consumed)
        await passed(member, 0.1)  # it was left, and opened anew
        let_in.set()
        message = await waiting
        message.ack()
    assert message.payload == b"late"


def test_frames_are_bounded_and_confirmed_in_order() -> None:
    settling = Settling()
    for index in range(1, 60_001, 2):  # no two of them touch
        settling.add(Act(1, pb.OUTCOME_ACK), ((index, 1),))
    last = settling.seal()
    assert last == 3
    assert not settling.is_confirmed(1)
    settling.on_settled(pb.ConsumeSettled(settle_id=1, results=[pb.SettleResult()]))
    assert settling.is_confirmed(1)
    assert not settling.is_confirmed(last)
    assert settling.messages == 20_000


def test_a_retryable_result_keeps_the_frame() -> None:
    settling = Settling()
    settling.add(Act(1, pb.OUTCOME_ACK), ((5, 1), (4, 1), (5, 1)))
    frame = settling.next_frame()
    moved = pb.SettleResult(error=common.Error(reason=common.REASON_NOT_MASTER))
    assert settling.on_settled(pb.ConsumeSettled(settle_id=1, results=[moved])).error is not None
    assert settling.next_frame() is None
    settling.opened()
    assert settling.next_frame() == frame


async def test_goaway_leads_to_the_master(member: FakeMember, other: FakeMember) -> None:
    async def moves(stream: FakeStream) -> None:
        await open_consumer(member, stream)
        await stream.read()
        error = common.Error(reason=common.REASON_NOT_MASTER)
        await stream.write(goaway=pb.Goaway(master_endpoint=other.endpoint, epoch=5, error=error))
        await stream.over.wait()

    async def delivers(stream: FakeStream) -> None:
        await open_consumer(other, stream)
        await deliver(stream, 7, segment(1, [b"a"]))
        await confirm(stream, await next_settle(stream))
        await stream.read()

    member.consume, other.consume = [moves], [delivers]
    async with aio.connect(member.endpoint) as client, client.consumer("q") as consumer:
        await (await anext(consumer)).ack_async()
        assert (client.master(), client.epoch()) == (other.endpoint, 5)


async def test_goaway_of_a_queue_that_is_gone_ends_the_iteration(member: FakeMember) -> None:
    async def gone(stream: FakeStream) -> None:
        await open_consumer(member, stream)
        await stream.read()
        await stream.write(goaway=pb.Goaway(error=common.Error(reason=common.REASON_QUEUE_NOT_FOUND)))
        await stream.over.wait()

    member.consume = [gone]
    async with aio.connect(member.endpoint) as client:
        with pytest.raises(NotFound):
            await anext(client.consumer("q"))


async def test_whoever_waits_for_what_he_settled_waits_for_nothing_that_was_settled_later(member: FakeMember) -> None:
    first_settled, second_settled = asyncio.Event(), asyncio.Event()

    async def confirms_in_turn(stream: FakeStream) -> None:
        await open_consumer(member, stream)
        await deliver(stream, 7, segment(1, [b"a", b"b"]))
        for settled in (first_settled, second_settled):
            settle = await next_settle(stream)
            await settled.wait()
            await confirm(stream, settle)
        await stream.read()

    member.consume = [confirms_in_turn]
    async with aio.connect(member.endpoint) as client, client.consumer("q") as consumer:
        first, second = await anext(consumer), await anext(consumer)
        first.ack()
        one = asyncio.create_task(consumer.settled())
        await asyncio.sleep(0)
        second.ack()
        both = asyncio.create_task(consumer.settled())
        await asyncio.sleep(0)
        first_settled.set()
        async with asyncio.timeout(OUTER_S):
            await one
            assert not both.done()
            second_settled.set()
            await both


async def test_word_of_a_new_epoch_reaches_the_client_with_a_sign_of_progress_and_with_a_confirmation(
    member: FakeMember,
) -> None:
    async def speaks(stream: FakeStream) -> None:
        await open_consumer(member, stream)
        await stream.write(progress=pb.ConsumeProgress(header=member.header(epoch=6)))
        await deliver(stream, 7, segment(1, [b"a"]))
        settle = await next_settle(stream)
        await stream.write(
            settled=pb.ConsumeSettled(
                settle_id=settle.settle_id, results=[pb.SettleResult()], header=member.header(epoch=8)
            )
        )
        await stream.read()

    member.consume = [speaks]
    async with aio.connect(member.endpoint) as client, client.consumer("q") as consumer:
        delivery = await anext(consumer)
        assert client.epoch() == 6
        await delivery.ack_async()
        assert client.epoch() == 8
