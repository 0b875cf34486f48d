"""What a producer says on the wire when all goes well, when a stream breaks, and when a batch is refused."""

from __future__ import annotations

import asyncio
import gc
from datetime import timedelta

import pytest

from tandemq.client import aio
from tandemq.client.receipts import Level, Receipt, domain_number, message_id
from tandemq.errors import Closed, InDoubt, InvalidRequest, NotFound, Refused, ResourceExhausted
from tandemq.v1 import common_pb2 as common
from tandemq.v1 import queue_service_pb2 as pb
from tests.support.until import OUTER_S, until
from tests.unit.client.fake import FakeMember, FakeStream, Ledger, open_producer, rejected, serving


def batches(stream: FakeStream) -> list[pb.EnqueueBatch]:
    return [pb.ProduceRequest.FromString(frame).batch for frame in stream.frames[1:]]


async def test_what_waits_travels_together(member: FakeMember) -> None:
    ledger = Ledger()
    member.produce = [serving(member, ledger)]
    async with aio.connect(member.endpoint) as client, client.producer("q", client_id="me") as producer:
        receipts = await asyncio.gather(*(producer.send(b"%d" % number) for number in range(2500)))
    sent = batches(member.produced[0])
    assert [len(batch.messages.payloads) for batch in sent] == [1000, 1000, 500]
    assert [batch.first_sequence for batch in sent] == [1, 1001, 2001]
    assert ledger.payloads == [b"%d" % number for number in range(2500)]
    assert [receipt.index for receipt in receipts] == list(range(1, 2501))
    assert receipts[7].id == message_id(domain_number("main"), 1, 1, 7)
    assert (receipts[0].copies, receipts[0].level, receipts[0].duplicate) == (2, Level.PAIR_SYNC, False)


async def test_the_end_of_the_block_waits_for_what_was_sent_in_it(member: FakeMember) -> None:
    member.produce = [serving(member, Ledger())]
    async with aio.connect(member.endpoint) as client:
        async with client.producer("q") as producer:
            sent = producer.send_nowait(b"1")
        assert sent.result().index == 1
        with pytest.raises(Closed):
            producer.send_nowait(b"2")


async def test_send_many_answers_in_runs(member: FakeMember) -> None:
    ledger = Ledger()
    member.produce = [serving(member, ledger)]
    async with aio.connect(member.endpoint) as client, client.producer("q", max_batch_bytes=1000) as producer:
        receipts = await producer.send_many([b"x" * 100] * 25)
    assert len(receipts) == 25
    assert len(receipts.runs) == 3
    assert [receipt.index for receipt in receipts] == list(range(1, 26))
    assert receipts[-1].index == 25


async def test_what_is_no_payload_is_refused_at_once_and_what_else_is_sent_goes_on(member: FakeMember) -> None:
    """It left the writer in the middle of a batch, and all of that waited for ever."""
    ledger = Ledger()
    member.produce = [serving(member, ledger)]
    async with aio.connect(member.endpoint) as client, client.producer("q") as producer:
        before = producer.send_nowait(b"1")
        for bad in ("text", bytearray(b"x"), memoryview(b"x"), [b"x"], None, aio.Outgoing(b"x")):
            with pytest.raises(TypeError, match=f"a payload is bytes, not {type(bad).__name__}"):
                producer.send_nowait(bad)  # type: ignore[arg-type]
            with pytest.raises(TypeError, match="a payload is bytes"):
                await producer.send_many([b"x", bad])  # type: ignore[list-item]
        await before
        await producer.send_many([b"2", b"3"])
    assert ledger.payloads == [b"1", b"2", b"3"]


async def test_what_was_changed_into_nonsense_before_it_was_written_fails_and_nobody_waits(member: FakeMember) -> None:
    member.produce = [serving(member, Ledger())]
    failed: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, said: failed.append(said["exception"]))
    properties: dict[str, object] = {"a": 1}
    async with aio.connect(member.endpoint) as client:
        producer = client.producer("q")
        sent = [producer.send_nowait(b"1", properties=properties), producer.send_nowait(b"2")]  # type: ignore[arg-type]
        properties["a"] = object()
        for each in sent:
            with pytest.raises(InDoubt, match="the producer's task ended: TypeError"):
                await each
    assert len(failed) == 1


async def test_attributes_become_columns_only_when_used(member: FakeMember) -> None:
    ledger = Ledger()
    member.produce = [serving(member, ledger)]
    async with aio.connect(member.endpoint) as client, client.producer("q") as producer:
        await asyncio.gather(
            producer.send(b"plain"),
            producer.send(b"urgent", priority=9, ttl=timedelta(seconds=2), properties={"n": 1}),
            producer.send(b"volatile", persistent=False),
        )
    (batch,) = batches(member.produced[0])
    assert list(batch.messages.priorities) == [4, 9, 4]
    assert list(batch.messages.ttls_ms) == [0, 2000, 0]
    assert list(batch.messages.persistence) == [0, 0, 1]
    assert batch.messages.properties[1].entries["n"].integer == 1
    assert not batch.messages.group_ids


async def test_a_broken_stream_is_resent_byte_identically_elsewhere(member: FakeMember, other: FakeMember) -> None:
    ledger = Ledger()

    async def executes_one_and_breaks(stream: FakeStream) -> None:
        client_id = await open_producer(member, stream, ledger)
        first = await stream.read()
        ledger.execute(client_id, first.batch)  # executed, never answered
        await stream.read()
        await stream.read()
        await stream.break_off()

    member.produce = [executes_one_and_breaks]
    other.produce = [serving(other, ledger)]
    async with (
        aio.connect([member.endpoint, other.endpoint]) as client,
        client.producer("q", max_batch_messages=10) as producer,
    ):
        receipts = await producer.send_many([b"%d" % number for number in range(30)])
    opened = [pb.ProduceRequest.FromString(at.produced[0].frames[0]).open for at in (member, other)]
    assert opened[0].client_id == opened[1].client_id
    assert other.produced[0].frames[1:4] == member.produced[0].frames[1:4]
    assert ledger.payloads == [b"%d" % number for number in range(30)]
    assert [receipt.index for receipt in receipts] == list(range(1, 31))
    assert [run.duplicate for run in receipts.runs] == [True, False, False]


async def test_what_follows_a_refused_batch_is_renumbered(member: FakeMember) -> None:
    ledger = Ledger()

    async def refuses_the_first(stream: FakeStream) -> None:
        client_id = await open_producer(member, stream, ledger)
        first, *others = [(await stream.read()).batch for _ in range(3)]
        await stream.write(**rejected(first, common.REASON_ENQUEUE_DISABLED, 0))
        for batch in others:
            await stream.write(**ledger.execute(client_id, batch))  # gaps
        while (request := await stream.read()) is not None:
            await stream.write(**ledger.execute(client_id, request.batch))

    member.produce = [refuses_the_first]
    async with aio.connect(member.endpoint) as client, client.producer("q", max_batch_messages=2) as producer:
        results = await asyncio.gather(*(producer.send(b"%d" % n) for n in range(6)), return_exceptions=True)
    assert isinstance(results[0], Refused)
    assert results[0].definite
    assert results[0] is results[1]
    assert [receipt.index for receipt in results[2:]] == [1, 2, 3, 4]
    assert [batch.first_sequence for batch in batches(member.produced[0])] == [1, 3, 5, 1, 3]
    assert ledger.payloads == [b"2", b"3", b"4", b"5"]


async def test_resent_batches_that_must_be_renumbered_get_a_new_identity(member: FakeMember) -> None:
    """An earlier copy of a resent batch may be under way: its number must not be given to other messages."""
    ledger = Ledger()

    async def breaks(stream: FakeStream) -> None:
        await open_producer(member, stream, ledger)
        for _ in range(3):
            await stream.read()
        await stream.break_off()

    async def refuses_the_first(stream: FakeStream) -> None:
        client_id = await open_producer(member, stream, ledger)
        await stream.write(**rejected((await stream.read()).batch, common.REASON_ENQUEUE_DISABLED, 0))
        while (request := await stream.read()) is not None:
            await stream.write(**ledger.execute(client_id, request.batch))

    member.produce = [breaks, refuses_the_first, serving(member, ledger)]
    async with aio.connect(member.endpoint) as client, client.producer("q", client_id="me", max_batch_messages=2) as p:
        results = await asyncio.gather(*(p.send(b"%d" % n) for n in range(6)), return_exceptions=True)
    assert isinstance(results[0], Refused)
    assert not results[0].definite  # the first copy may still arrive
    assert [receipt.index for receipt in results[2:]] == [1, 2, 3, 4]
    assert pb.ProduceRequest.FromString(member.produced[2].frames[0]).open.client_id == b"me~1"
    assert ledger.last == {b"me~1": 4}


async def test_a_forgotten_identity_goes_on_from_the_last_sequence(member: FakeMember) -> None:
    ledger = Ledger()
    member.produce = [serving(member, ledger)]
    async with aio.connect(member.endpoint) as client, client.producer("q") as producer:
        await producer.send(b"1")
        ledger.last.clear()  # the window has passed
        assert (await producer.send(b"2")).index == 2
    assert [batch.first_sequence for batch in batches(member.produced[0])] == [1, 2, 1]


async def test_a_kept_client_id_goes_on_behind_its_last_sequence(member: FakeMember) -> None:
    ledger = Ledger()
    ledger.last[b"me"] = 41
    member.produce = [serving(member, ledger)]
    async with aio.connect(member.endpoint) as client, client.producer("q", client_id="me") as producer:
        await producer.send(b"1")
    assert batches(member.produced[0])[0].first_sequence == 42


@pytest.mark.parametrize("dead", [[b"d1"], [b"d1", b"d2", b"d3"], [b"d1", b"d2", b"d3", b"d4", b"d5", b"d6", b"d7"]])
async def test_what_a_dead_producer_left_under_way_is_not_taken_for_ours(member: FakeMember, dead: list[bytes]) -> None:
    """It is ordered after we were told how far that producer got, and takes the sequences that we gave to ours."""
    ledger = Ledger()

    async def orders_what_is_parked(stream: FakeStream) -> None:
        client_id = await open_producer(member, stream, ledger)
        parked = pb.EnqueueBatch(queue="q", first_sequence=1, messages={"payloads": dead})
        ledger.execute(client_id, parked)
        while (request := await stream.read()) is not None:
            await stream.write(**ledger.execute(client_id, request.batch))

    member.produce = [orders_what_is_parked, serving(member, ledger)]
    async with aio.connect(member.endpoint) as client, client.producer("q", client_id="me", max_batch_messages=2) as p:
        results = await asyncio.gather(*(p.send(b"%d" % n) for n in range(6)), return_exceptions=True)
        later = await p.send(b"later")
    stored = [at for at, result in enumerate(results) if not isinstance(result, BaseException)]
    refused = [result for result in results if isinstance(result, BaseException)]
    assert all(isinstance(error, InvalidRequest) and error.definite for error in refused)
    assert ledger.payloads == [*dead, *(b"%d" % n for n in stored), b"later"]
    assert [*(results[at].index for at in stored), later.index] == list(range(len(dead) + 1, len(ledger.payloads) + 1))
    assert pb.ProduceRequest.FromString(member.produced[1].frames[0]).open.client_id == b"me~1"
    assert len(member.produced) == 2


async def test_refused_entries_fail_alone(member: FakeMember) -> None:
    async def refuses_entry_one(stream: FakeStream) -> None:
        await open_producer(member, stream, Ledger())
        batch = (await stream.read()).batch
        error = pb.EntryError(ordinal=1, error=common.Error(reason=common.REASON_QUEUE_FULL))
        await stream.write(
            ack=pb.EnqueueAck(queue="q", first_sequence=batch.first_sequence, count=3, first_index=7, errors=[error])
        )
        await stream.read()

    member.produce = [refuses_entry_one]
    async with aio.connect(member.endpoint) as client, client.producer("q") as producer:
        with pytest.raises(aio.PartlyRefused) as caught:
            await producer.send_many([b"a", b"b", b"c"])
    receipts = caught.value.receipts
    assert (receipts[0].index, receipts[2].index) == (7, 8)
    with pytest.raises(ResourceExhausted):
        receipts[1]


async def test_acks_of_one_group_commit_may_share_a_frame(member: FakeMember) -> None:
    ledger = Ledger()

    async def answers_three_at_once(stream: FakeStream) -> None:
        client_id = await open_producer(member, stream, ledger)
        acks = [ledger.execute(client_id, (await stream.read()).batch)["ack"] for _ in range(3)]
        await stream.write(ack=acks[0], more_acks=acks[1:])
        await stream.read()

    member.produce = [answers_three_at_once]
    async with aio.connect(member.endpoint) as client, client.producer("q", max_batch_messages=1) as producer:
        assert [receipt.index for receipt in await producer.send_many([b"a", b"b", b"c"])] == [1, 2, 3]


async def test_goaway_leads_to_the_master_and_older_hints_do_not(member: FakeMember, other: FakeMember) -> None:
    ledger = Ledger()

    async def moves(stream: FakeStream) -> None:
        await open_producer(member, stream, ledger, epoch=4)
        await stream.read()
        await stream.write(goaway=pb.Goaway(master_endpoint=other.endpoint, epoch=5))
        await stream.over.wait()

    member.produce = [moves]
    other.produce = [serving(other, ledger)]
    async with aio.connect(member.endpoint) as client, client.producer("q") as producer:
        await producer.send(b"1")
        assert client.master() == other.endpoint
        client.links.own.members.learn(common.ResponseHeader(domain="main", epoch=4, master_endpoint="old:1"))
        assert client.master() == other.endpoint
        assert client.epoch() == 5
    assert pb.ProduceRequest.FromString(other.produced[0].frames[0]).open.epoch == 5


async def test_a_replica_leads_to_its_master_once(member: FakeMember, other: FakeMember) -> None:
    ledger = Ledger()

    async def replica(stream: FakeStream) -> None:
        client_id = await open_producer(member, stream, ledger, master="127.0.0.1:1")  # nobody listens there
        while (request := await stream.read()) is not None:
            await stream.write(**ledger.execute(client_id, request.batch))

    member.produce = [replica]
    async with aio.connect(member.endpoint) as client, client.producer("q") as producer:
        assert (await producer.send(b"1")).index == 1  # forwarded by the replica, as its master is out of reach
    assert len(member.produced) == 2


async def test_no_answer_in_time_is_in_doubt_for_what_was_sent(member: FakeMember) -> None:
    async def silent(stream: FakeStream) -> None:
        await open_producer(member, stream, Ledger())
        while await stream.read() is not None:
            pass

    member.produce = [silent]
    async with aio.connect(member.endpoint, timeout=0.2) as client:
        producer = client.producer("q", max_batch_messages=1, max_unanswered_batches=1)
        sent, waiting = producer.send_nowait(b"sent"), producer.send_nowait(b"waiting")
        with pytest.raises(InDoubt) as caught:
            await sent
        assert not caught.value.definite
        assert waiting.exception().definite
        with pytest.raises(InDoubt):
            producer.send_nowait(b"later")


async def test_nobody_there_ends_at_the_deadline() -> None:
    async with aio.connect("127.0.0.1:1", timeout=0.2) as client:
        future = client.producer("q").send_nowait(b"x")
        await asyncio.wait([future])
        assert future.exception().reason == "NO_PROGRESS"
        assert future.exception().definite


async def test_a_refused_opening_is_final(member: FakeMember) -> None:
    async def no_queue(stream: FakeStream) -> None:
        await stream.read()
        await stream.refuse(common.REASON_QUEUE_NOT_FOUND, "no queue q")

    member.produce = [no_queue]
    async with aio.connect(member.endpoint) as client:
        with pytest.raises(NotFound):
            await client.producer("q").send(b"x")


async def test_the_buffer_is_bounded(member: FakeMember) -> None:
    ledger, go = Ledger(), asyncio.Event()

    async def late(stream: FakeStream) -> None:
        client_id = await open_producer(member, stream, ledger)
        await go.wait()
        while (request := await stream.read()) is not None:
            await stream.write(**ledger.execute(client_id, request.batch))

    member.produce = [late]
    async with aio.connect(member.endpoint) as client, client.producer("q", max_pending_messages=2) as producer:
        futures = [producer.send_nowait(b"1"), producer.send_nowait(b"2")]
        with pytest.raises(ResourceExhausted):
            producer.send_nowait(b"3")
        blocked = [asyncio.create_task(producer.send(b"%d" % number)) for number in range(3, 8)]
        await asyncio.sleep(0)
        assert producer._room.waiting == 5
        go.set()
        await asyncio.gather(*futures, *blocked)
    assert ledger.payloads == [b"%d" % number for number in range(1, 8)]


async def test_a_message_no_member_would_take_fails_alone(member: FakeMember) -> None:
    ledger = Ledger()
    member.produce = [serving(member, ledger)]
    async with aio.connect(member.endpoint) as client, client.producer("q") as producer:
        large, small = producer.send_nowait(b"x" * (5 << 20)), producer.send_nowait(b"y")
        with pytest.raises(InvalidRequest):
            await large
        assert (await small).index == 1


async def test_abort_says_what_was_sent_is_in_doubt(member: FakeMember) -> None:
    arrived = asyncio.Event()

    async def silent(stream: FakeStream) -> None:
        await open_producer(member, stream, Ledger())
        await stream.read()
        arrived.set()
        await stream.read()

    member.produce = [silent]
    async with aio.connect(member.endpoint) as client:
        producer = client.producer("q")
        future = producer.send_nowait(b"x")
        await arrived.wait()
        producer.abort()
        with pytest.raises(Closed) as caught:
            await future
        assert not caught.value.definite


@pytest.mark.parametrize("busy", [False, True])
async def test_a_stream_that_breaks_after_a_long_rest_is_reopened(member: FakeMember, busy: bool) -> None:
    """The deadline counts while something waits: an idle hour before the break is no hour without progress."""
    ledger, rest_is_over = Ledger(), asyncio.Event()

    async def answers_one_and_breaks(stream: FakeStream) -> None:
        client_id = await open_producer(member, stream, ledger)
        await stream.write(**ledger.execute(client_id, (await stream.read()).batch))
        if busy:
            await stream.read()
        else:
            await rest_is_over.wait()
        await stream.break_off()

    member.produce = [answers_one_and_breaks, serving(member, ledger)]
    async with aio.connect(member.endpoint) as client, client.producer("q") as producer:
        await producer.send(b"1")
        producer._attempts._started -= 3600
        if not busy:
            rest_is_over.set()
            await until(lambda: producer._attempts.failures or producer._failed)
        assert (await producer.send(b"2")).index == 2
    assert ledger.payloads == [b"1", b"2"]


async def test_whoever_goes_on_sending_leaves_a_member_that_answers_nothing(
    member: FakeMember, other: FakeMember
) -> None:
    """Each new message woke the producer, and its patience began anew: with steady traffic it stayed for good."""
    ledger = Ledger()

    async def silent(stream: FakeStream) -> None:
        await stream.read()
        await stream.write(opened=pb.ProduceOpened(header=member.header(), max_batches=2, max_batch_bytes=1 << 20))
        while await stream.read():
            pass

    member.produce = [silent]
    other.produce = [serving(other, ledger)]
    target = f"{member.endpoint},{other.endpoint}"
    async with aio.connect(target, attempt_timeout=0.5) as client, client.producer("q") as producer:
        sent = [producer.send_nowait(b"0")]
        async with asyncio.timeout(OUTER_S):
            while not sent[0].done():
                sent.append(producer.send_nowait(b"%d" % len(sent)))
                await asyncio.wait(sent[:1], timeout=0.01)
        await asyncio.gather(*sent)
    assert ledger.payloads == [b"%d" % number for number in range(len(sent))]


async def test_a_send_many_that_was_given_up_leaves_no_error_that_nobody_asks_for(member: FakeMember) -> None:
    """The producer fails later, when nobody waits any more: no word of it may come from the loop."""
    ledger, noise = Ledger(), list[str]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: noise.append(context["message"]))

    async def silent(stream: FakeStream) -> None:
        await open_producer(member, stream, ledger)
        while await stream.read() is not None:
            pass

    member.produce = [silent]
    async with aio.connect(member.endpoint) as client:
        producer = client.producer("q")
        sending = asyncio.create_task(producer.send_many([b"one", b"two"]))
        await until(lambda: member.produced and len(member.produced[0].frames) > 1)
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        assert sending.cancelled()
        producer.abort()
    del sending, producer
    gc.collect()
    assert noise == []


async def test_messages_that_were_sent_one_by_one_are_answered_one_by_one(member: FakeMember) -> None:
    """Though they travelled together, and one of them was refused."""

    async def refuses_the_second(stream: FakeStream) -> None:
        await open_producer(member, stream, Ledger())
        batch = (await stream.read()).batch
        error = common.Error(reason=common.REASON_QUEUE_FULL)
        ack = pb.EnqueueAck(
            queue="q",
            first_sequence=batch.first_sequence,
            count=3,
            first_index=7,
            errors=[pb.EntryError(ordinal=1, error=error)],
        )
        await stream.write(ack=ack)
        await stream.read()

    member.produce = [refuses_the_second]
    async with aio.connect(member.endpoint) as client, client.producer("q") as producer:
        first, second, third = await asyncio.gather(
            *(producer.send_nowait(payload) for payload in (b"a", b"b", b"c")), return_exceptions=True
        )
    assert isinstance(first, Receipt)
    assert isinstance(third, Receipt)
    assert (first.index, third.index) == (7, 8)
    assert isinstance(second, ResourceExhausted)
