"""Semantics, worked example 1: what a sender at the replica is told, and when the master dies on the way.

Example 5 is tests/scripts/handoff/collision.txt, example 6 tests/integration/test_full_queue.py.
"""

from __future__ import annotations

import asyncio

import pytest

from chaos.cluster import Cluster
from tandemq.v1 import common_pb2 as common
from tandemq.v1.queue_service_pb2 import EnqueueResponse
from tests.integration.support import Raw, gone, new_id, new_name, raw_to, roles

pytestmark = pytest.mark.process


def told(reply: EnqueueResponse) -> tuple[int, int, bool]:
    [result] = reply.results
    assert result.completion == common.COMPLETION_STORED
    return result.index, reply.header.copies, reply.duplicate or result.duplicate


async def payloads(member: Raw, queue: str) -> list[bytes]:
    got = await member.receive(queue, 100)
    return [message.message.payload for message in got.messages]


@pytest.mark.promise
@pytest.mark.requirement("R121", "R122")
@pytest.mark.parametrize("acknowledged", [True, False], ids=["before the answer was lost", "before it was ordered"])
async def test_a_message_sent_at_the_replica_has_one_place_whenever_the_master_dies(
    pair: Cluster, acknowledged: bool
) -> None:
    master, replica = await roles(pair)
    queue, request = new_name(), new_id()
    async with raw_to(pair.endpoint(replica)) as [b]:
        await b.create(queue)
        await b.send(queue, *(b"%d" % number for number in range(1, 42)))
        if acknowledged:
            assert told(await b.send(queue, b"42", request_id=request)) == (42, 2, False)
            await gone(pair, master)
        else:
            pair.pause(master)
            sending = asyncio.create_task(b.send(queue, b"42", request_id=request))
            await gone(pair, master)
            first = await sending  # parked until there is a master: itself, in the next epoch
            assert told(first) == (42, 1, False)
        again = await b.send(queue, b"42", request_id=request)
        assert told(again)[::2] == (42, True), "the same answer, and no second message"
        assert again.header.epoch == (1 if acknowledged else 2), "of the mastership that ordered it"
        assert await payloads(b, queue) == [b"%d" % number for number in range(1, 43)]
