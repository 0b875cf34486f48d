"""Twins that answer requests, at a real pair (K11): each request gets one answer, whichever twin is first."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.config import Limits
from tandemq.errors import AlreadyExists, TandemqError
from tandemq.twin import Output, TwinFault, TwinInput, TwinsDiffer
from tandemq.twin.digests import Compared
from tandemq.twin.outputs import OutputCounts
from tandemq.twin.replies import AT_ONCE, Replies
from tandemq.v1 import pair_service_pb2 as pair_pb
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.integration.module_pair import module_client, module_pair
from tests.integration.support import new_name, raw_to, roles
from tests.integration.twin_pairing import Pairing, State, pairing
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

pair = module_pair(limits=Limits(side_full_seconds=1))
client = module_client()

REQUESTS = admin.QueueConfig(replication=admin.REPLICATION_PRODUCER, queue_type=admin.QUEUE_TYPE_TWO_WAY)


def answering(state: State, message: TwinInput) -> tuple[State, list[Output]]:
    """Every request gets the sum so far, and every second one sends it elsewhere too."""
    state["sum"] += int(message.payload)
    made = [Output.reply(b"%d" % state["sum"], content_type="text/plain")]
    if message.index % 2 == 0 and message.reply_to:
        made.append(Output(message.reply_to, b"copy of %d" % state["sum"]))
    return state, made


def lying(state: State, message: TwinInput) -> tuple[State, list[Output]]:
    state, made = answering(state, message)
    return state, [Output(queue, payload + b"!", attributes) for queue, payload, attributes in made]


async def requests(made: Pairing) -> None:
    """Makes its queue of inputs one of requests."""
    await made.client.delete_queue(made.inputs)
    await made.client.create_queue(made.inputs, REQUESTS)


async def divergences(cluster: Cluster, queue: str) -> list[str]:
    master, _ = await roles(cluster)
    async with raw_to(cluster.endpoint(master)) as (member,):
        listed = await member.pair.ListEvents(pair_pb.ListEventsRequest(limit=1_000), timeout=OUTER_S)
    kind = pair_pb.PAIR_EVENT_KIND_DIVERGENCE
    return [event.text for event in listed.events if event.kind == kind and queue in event.text]


async def test_k11_each_request_gets_one_answer_of_two_twins(pair: Cluster, client: aio.Client, tmp_path: Path) -> None:
    async with pairing(pair, client, tmp_path) as made:
        await requests(made)
        a, b = made.twin("a", answering), made.twin("b", answering)
        for twin in (a, b):
            made.start(twin)
        asked = [client.call(made.inputs, b"%d" % number, OUTER_S, reply_to=made.outputs) for number in range(1, 21)]
        answers = [(await each).payload for each in asked]
        assert answers == [b"%d" % sum(range(1, number + 1)) for number in range(1, 21)]
        await made.reach(20, a, b)
        await made.settled()
        assert a.counts.replies + b.counts.replies == 20
        assert a.counts.late_replies == b.counts.late_replies == 0
        found = sorted(await made.sent())
        assert len(found) == 30, "a copy of each answer, and what every second one sends there"
        assert a.state == b.state
        assert await divergences(pair, made.inputs) == []


async def test_k11_another_answer_stops_the_twin_that_came_second(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    async with pairing(pair, client, tmp_path) as made:
        await requests(made)
        a = made.twin("a", answering)
        made.start(a)
        answer = await client.call(made.inputs, b"7", OUTER_S)
        with pytest.raises(TwinsDiffer, match="up to input 1 "):
            await made.start(made.twin("b", lying))
        assert answer.payload == b"7"
        (text,) = await divergences(pair, made.inputs)
        assert "request 1 of queue" in text


async def test_k11_who_stops_at_a_difference_answers_no_further_request(client: aio.Client) -> None:
    """Else it is first with answers of a state that has gone another way, and its twin the second."""
    queue, found = new_name(), list[Compared]()
    await client.create_queue(queue, REQUESTS)
    await client.enqueue(queue, [b"%d" % number for number in range(1, AT_ONCE + 2)])

    def differs(compared: Compared) -> None:
        found.append(compared)
        replies.hold()

    replies = Replies(client, queue, OutputCounts(), differs)
    assert not await client.reply(queue, 0, 1, b"first"), "it is the first"
    for index in range(1, AT_ONCE + 2):
        assert replies.take(index, [Output.reply(b"own")]) == []
    running = asyncio.create_task(replies.run())
    await replies.done(AT_ONCE)
    assert [(compared.number, compared.equal) for compared in found] == [(1, 0)]
    assert not await client.reply(queue, 0, AT_ONCE + 1, b"of its twin"), "nobody has answered it"
    running.cancel()


async def test_k11_an_answer_behind_the_end_of_its_request_is_left_out(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    async with pairing(pair, client, tmp_path) as made:
        await client.delete_queue(made.inputs)
        config = admin.QueueConfig(reply_timeout={"seconds": 0, "nanos": 1_000_000})
        config.MergeFrom(REQUESTS)
        await client.create_queue(made.inputs, config)
        handle = await client.send(made.inputs, b"7")
        assert (await handle.wait(OUTER_S)).final.name == "REPLY_TIMEOUT"
        a = made.twin("a", answering)
        made.start(a)
        await until(lambda: a.counts.late_replies == 1, "its answer is too late")
        await made.reach(1, a)
        assert a.state == {"sum": 7}


async def test_k11_what_cannot_be_answered_is_refused_by_name(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    async with pairing(pair, client, tmp_path) as made:
        await made.send(1)
        with pytest.raises(TwinFault, match=r"NOT_TWO_WAY: .*inputs 1 to 1, whose queue is not TWO_WAY"):
            await made.twin("a", answering).run()

    def twice(state: State, message: TwinInput) -> Any:
        return state, [Output.reply(b"1"), Output.reply(b"2")]

    async with pairing(pair, client, tmp_path / "twice") as made:
        await requests(made)
        await client.send(made.inputs, b"7")
        with pytest.raises(TwinFault, match="a handler makes one answer, not more"):
            await made.twin("a", twice).run()
        # And by hand: the stream of a side takes no answers, Reply does.
        side = aio.connect(pair.endpoint("b"), timeout=OUTER_S, follow_master=False)
        async with side, side.consumer(made.inputs) as consumer:
            delivery = await anext(consumer)
            with pytest.raises(TandemqError, match=r"CONFIG_ERROR: .*send them by Reply to the queue"):
                await consumer.reply(delivery, b"yes")
            assert not await client.reply(made.inputs, 0, delivery.index, b"yes")
            assert await side.reply(made.inputs, delivery.lease_id, delivery.index, b"yes")
            with pytest.raises(AlreadyExists, match="ALREADY_REPLIED"):
                await side.reply(made.inputs, delivery.lease_id, delivery.index, b"no")
            delivery.ack()
            await consumer.settled()
