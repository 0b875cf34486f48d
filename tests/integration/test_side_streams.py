"""A side of a PRODUCER queue, served to a client without the SDK that does what no SDK does: each wrong frame has a
named answer, what was right is done, and the other side is given everything.
"""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from chaos.cluster import Cluster
from replica.services.forward import HOP
from tandemq import aio
from tandemq.errors import from_rpc_error, to_error
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as service
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK, OUTCOME_EXTEND, OUTCOME_REJECT, OUTCOME_RELEASE
from tests.integration.module_pair import module_client, module_pair
from tests.integration.support import Raw, new_id, new_name, raw_to, refused, roles
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

pair = module_pair()
client = module_client()

PLAIN = admin.QueueConfig(replication=admin.REPLICATION_PRODUCER)
SELECTED = admin.QueueConfig(replication=admin.REPLICATION_PRODUCER, lockstep=admin.LOCKSTEP_SELECTED)
COUNT = 8


class Stream:
    """One Consume stream, frame by frame."""

    def __init__(
        self, member: Raw, queue: str, client_id: bytes = b"c", *, carried_by: str = "", **fields: Any
    ) -> None:
        metadata = ((HOP, carried_by),) if carried_by else None
        self._call = member.queue.Consume(timeout=OUTER_S, metadata=metadata)
        self._open = service.ConsumeOpen(queue=queue, client_id=client_id, **fields)
        self._settle_id = 0
        self._kept: list[service.ConsumeResponse] = []  # frames of other kinds, which came first

    async def begin(self, credit: int) -> str:
        """The reason why it is sent away; empty: it is served."""
        await self._call.write(service.ConsumeRequest(open=self._open))
        try:
            frame = await self._call.read()
        except grpc.aio.AioRpcError as error:
            return from_rpc_error(error).reason
        if frame.HasField("goaway"):
            return to_error(frame.goaway.error).reason
        await self.credit(credit)
        return ""

    async def credit(self, messages: int) -> None:
        await self._call.write(service.ConsumeRequest(credit={"messages": messages, "bytes": 1 << 20}))

    async def next(self, kind: str) -> Any:
        """The next frame of that kind."""
        for place, frame in enumerate(self._kept):
            if frame.HasField(kind):
                return getattr(self._kept.pop(place), kind)
        while not (frame := await self._call.read()).HasField(kind):
            assert not frame.HasField("goaway"), frame
            self._kept.append(frame)
        return getattr(frame, kind)

    async def delivered(self, count: int) -> tuple[int, list[int]]:
        """The last lease, and indexes of so many messages."""
        lease_id, indexes = 0, list[int]()
        while len(indexes) < count:
            given = await self.next("deliveries")
            lease_id = given.lease_id
            indexes += [message.index for message in given.messages]
        return lease_id, indexes

    async def settle(self, lease_id: int, first: int, outcome: Any, count: int = 1, **fields: Any) -> tuple[int, str]:
        """How many, and what was refused."""
        self._settle_id += 1
        settlement = service.Settlement(
            lease_id=lease_id, ranges=[{"first": first, "count": count}], outcome=outcome, **fields
        )
        frame = service.ConsumeSettle(settle_id=self._settle_id, settlements=[settlement])
        await self._call.write(service.ConsumeRequest(settle=frame))
        return self._result(await self.next("settled"))

    async def reply(self, lease_id: int, index: int) -> tuple[int, str]:
        self._settle_id += 1
        frame = service.ConsumeReply(
            settle_id=self._settle_id, lease_id=lease_id, index=index, message={"payload": b"x"}
        )
        await self._call.write(service.ConsumeRequest(reply=frame))
        return self._result(await self.next("settled"))

    def _result(self, settled: service.ConsumeSettled) -> tuple[int, str]:
        (result,) = settled.results
        assert settled.settle_id == self._settle_id
        if not result.HasField("error"):
            return result.settled, ""
        assert "SYSTEM." not in result.error.message, "no client knows that name"
        return result.settled, to_error(result.error).reason

    async def sent_away(self) -> str:
        while not (frame := await self._call.read()).HasField("goaway"):
            pass
        assert await self._call.read() is grpc.aio.EOF
        return to_error(frame.goaway.error).reason

    def close(self) -> None:
        self._call.cancel()


@pytest.fixture(params=[PLAIN, SELECTED], ids=["plain", "selected"])
async def queue(client: aio.Client, request: pytest.FixtureRequest) -> str:
    name = new_name()
    await client.create_queue(name, request.param)
    await client.enqueue(name, [b"%d" % number for number in range(1, COUNT + 1)])
    return name


async def given_all(member: Raw, queue: str) -> None:
    """Whatever the other side was done to."""
    stream = Stream(member, queue, b"other")
    assert await stream.begin(COUNT) == ""
    assert (await stream.delivered(COUNT))[1] == list(range(1, COUNT + 1))
    stream.close()


async def test_settlements_in_odd_orders_and_of_what_nobody_was_given(pair: Cluster, queue: str) -> None:
    master, replica = await roles(pair)
    async with raw_to(pair.endpoint(replica), pair.endpoint(master)) as (here, there):
        stream = Stream(here, queue)
        assert await stream.begin(5) == ""
        lease_id, indexes = await stream.delivered(5)
        assert indexes == [1, 2, 3, 4, 5]
        wrong = [
            (lease_id, 100, OUTCOME_ACK, 5, "LEASE_LOST"),  # there is no such message
            (lease_id, 0, OUTCOME_ACK, 1, "BAD_REQUEST"),
            (lease_id, 1, OUTCOME_ACK, 1 << 63, "BAD_REQUEST"),
            (lease_id + 1, 1, OUTCOME_ACK, 1, "LEASE_LOST"),
            (0, 1, OUTCOME_ACK, 1, "BAD_REQUEST"),
            (lease_id, 2, service.OUTCOME_UNSPECIFIED, 1, "BAD_REQUEST"),
        ]
        for lease, first, outcome, count, reason in wrong:
            assert await stream.settle(lease, first, outcome, count) == (0, reason), (first, reason)
        assert await stream.settle(lease_id, 1, OUTCOME_RELEASE, delay={"seconds": 1}) == (0, "BAD_REQUEST")
        assert await stream.settle(lease_id, 1, OUTCOME_ACK, queue="another") == (0, "BAD_REQUEST")
        assert await stream.reply(lease_id, 1) == (0, "CONFIG_ERROR")
        # The last one first, and again: once; then as something else.
        for _ in range(2):
            assert await stream.settle(lease_id, 5, OUTCOME_ACK) == (1, "")
        assert await stream.settle(lease_id, 5, OUTCOME_REJECT) == (0, "LEASE_LOST")
        assert await stream.settle(lease_id, 1, OUTCOME_EXTEND, queue=queue) == (1, "")
        assert await stream.settle(lease_id, 3, OUTCOME_ACK) == (1, "")
        assert await stream.settle(lease_id, 2, OUTCOME_RELEASE, 2) == (1, "LEASE_LOST"), "3 is done"
        assert await stream.settle(lease_id, 1, OUTCOME_REJECT) == (1, "")
        await stream.credit(2)
        assert (await stream.delivered(2))[1] == [2, 6], "what was released comes again, first"
        stream.close()
        await given_all(there, queue)


async def test_what_waits_for_a_process_is_settled_when_it_says_so_and_at_its_side_alone(
    pair: Cluster, client: aio.Client, queue: str
) -> None:
    """It may have been given it by a member that died before that was on its disk, and have acted on it."""
    master, replica = await roles(pair)
    async with raw_to(pair.endpoint(replica), pair.endpoint(master)) as (here, there):
        other = Stream(there, queue, b"other")  # has all of it selected, where that is asked
        assert await other.begin(COUNT) == ""
        other_lease, _ = await other.delivered(COUNT)
        stream = Stream(here, queue)
        assert await stream.begin(2) == ""
        lease_id, indexes = await stream.delivered(2)
        assert indexes == [1, 2]

        async def waits() -> bool:
            return (await stream.settle(lease_id, 4, OUTCOME_ACK, 2)) == (2, "")

        await until(waits, "the side has what is committed")
        await stream.credit(COUNT)
        assert (await stream.delivered(4))[1] == [3, 6, 7, 8], "what it says that it has done does not come"
        assert await other.settle(other_lease, 1, OUTCOME_ACK, COUNT) == (COUNT, "")
        assert await stream.settle(lease_id, 1, OUTCOME_ACK, 2) == (2, "")

        async def is_gone() -> bool:
            return (await client.get_queue(queue)).length == COUNT - 2

        await until(is_gone, "messages 1 and 2 go, which both have settled")
        stream.close()
        other.close()


async def test_a_side_is_settled_on_its_stream_and_nowhere_else(pair: Cluster, client: aio.Client, queue: str) -> None:
    master, replica = await roles(pair)
    async with raw_to(pair.endpoint(replica), pair.endpoint(master)) as (here, there):
        stream = Stream(here, queue)
        assert await stream.begin(COUNT) == ""
        lease_id, _ = await stream.delivered(COUNT)
        config, lost = grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.NOT_FOUND
        for name, reason, code in ((queue, "CONFIG_ERROR", config), (f"SYSTEM.SIDE/{queue}", "QUEUE_NOT_FOUND", lost)):
            for member in (here, there):
                for lease in (lease_id, 1):
                    ranges, got = [{"first": 1, "count": 1}], OUTCOME_ACK
                    settlement = service.Settlement(lease_id=lease, ranges=ranges, outcome=got)
                    call = service.SettleRequest(queue=name, request_id=new_id(), settlements=[settlement])
                    with refused(reason, code, name):
                        await member.queue.Settle(call, timeout=OUTER_S)
        assert await stream.settle(lease_id, 1, OUTCOME_ACK, COUNT) == (COUNT, "")
        assert (await client.get_queue(queue)).length == COUNT, "the other side holds all of it"
        stream.close()
        await given_all(there, queue)


async def test_k4_one_process_a_side_whatever_it_says_of_what_it_has_seen(pair: Cluster, queue: str) -> None:
    """A place ahead of all leases takes nothing back, one behind them all gives all of them back: never the next."""
    _, replica = await roles(pair)
    async with raw_to(*[pair.endpoint(replica)] * 3) as (first, second, third):
        stream = Stream(first, queue, b"first")
        assert await stream.begin(3) == ""
        lease_id, _ = await stream.delivered(3)
        for member, name in ((first, b"first"), (first, b"second"), (second, b"second")):
            assert await Stream(member, queue, name).begin(1) == "TWIN_TAKEN"
        assert await stream.settle(lease_id, 1, OUTCOME_ACK) == (1, ""), "it was disturbed by none of them"
        ahead = Stream(second, queue, b"first", last_lease_id=(1 << 63) - 1)
        assert await ahead.begin(1) == ""
        assert await stream.sent_away() == "TWIN_TAKEN"
        assert await ahead.settle(lease_id, 2, OUTCOME_ACK) == (1, ""), "what it holds is settled on its new stream"
        assert (await ahead.delivered(1))[1] == [4]
        anew = Stream(third, queue, b"first", last_lease_id=0)
        assert await anew.begin(COUNT) == ""
        assert await ahead.sent_away() == "TWIN_TAKEN"
        assert (await anew.delivered(6))[1] == [3, 4, 5, 6, 7, 8], "what none of its streams has received comes first"
        anew.close()


async def test_what_is_no_opening_of_a_side_is_refused(pair: Cluster, client: aio.Client, queue: str) -> None:
    _, replica = await roles(pair)
    async with raw_to(pair.endpoint(replica)) as (member,):
        wrong: list[tuple[dict[str, Any], str]] = [
            ({"settle_mode": service.SETTLE_MODE_IMMEDIATE}, "CONFIG_ERROR"),
            ({"settle_mode": 99}, "BAD_REQUEST"),
            ({"filter": {"selector": "n > 2"}}, "CONFIG_ERROR"),
            ({"lease_duration": {"seconds": 10**9}}, "BAD_REQUEST"),
            ({"client_id": b""}, "BAD_REQUEST"),
        ]
        for fields, reason in wrong:
            assert await Stream(member, queue, **fields).begin(1) == reason, fields
        stream = Stream(member, queue)
        assert await stream.begin(2) == ""
        lease_id, _ = await stream.delivered(2)
        await client.delete_queue(queue)
        assert await stream.sent_away() == "QUEUE_NOT_FOUND"
        await client.create_queue(queue, PLAIN)
        await client.enqueue(queue, [b"new"])

        async def is_served() -> bool:
            """Its member has heard of the new queue."""
            again = Stream(member, queue)
            try:
                if await again.begin(1):
                    return False
                assert await again.settle(lease_id, 2, OUTCOME_ACK) == (0, "LEASE_LOST"), "nothing of the old one"
                return (await again.delivered(1))[1] == [1]
            finally:
                again.close()

        await until(is_served, "the new queue has sides of its own")


async def test_a_member_serves_its_side_to_its_own_clients_alone(pair: Cluster, queue: str) -> None:
    """One that does not know the queue yet carries the stream to its master: whose side would that be?"""
    async with raw_to(pair.endpoint("a")) as (member,):
        assert await Stream(member, queue, carried_by="b").begin(1) == "NO_MASTER"
        assert await Stream(member, queue).begin(1) == ""


async def test_one_request_at_both_members_at_once_is_one_message(
    pair: Cluster, client: aio.Client, queue: str
) -> None:
    async with raw_to(pair.endpoint("a"), pair.endpoint("b")) as (a, b):
        request_id = new_id()
        answers = await asyncio.gather(*(member.send(queue, b"same", request_id=request_id) for member in (a, b)))
        assert [answer.results[0].index for answer in answers] == [COUNT + 1] * 2
        assert sorted(answer.duplicate for answer in answers) == [False, True]
        for member in (a, b):
            with refused("REQUEST_MISMATCH", grpc.StatusCode.INVALID_ARGUMENT):
                await member.send(queue, b"another", request_id=request_id)
        assert (await client.get_queue(queue)).length == COUNT + 1
