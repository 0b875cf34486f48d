"""Units of work that are asked for at the same time go by few calls, and each has an answer of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import grpc
import pytest

from replica.rpc.refusals import failure, refusal
from tandemq.client import aio
from tandemq.client.unit_calls import IN_FLIGHT, UNITS_MAX
from tandemq.errors import Closed, Denied, ResourceExhausted, TandemqError, TimedOut, Unreachable
from tandemq.v1 import common_pb2 as common
from tandemq.v1 import transaction_service_pb2 as pb
from tests.support.until import OUTER_S, until
from tests.unit.client.fake import FakeMember, refuse

SERVICE = "/tandemq.v1.TransactionService/"
FULL = failure(refusal(common.REASON_QUEUE_FULL, "queue full is at its max_length"))
MOVED = failure(refusal(common.REASON_NOT_MASTER, "the mastership moved"))


class Master:
    """A member that takes units, and lets a test say when."""

    def __init__(self, member: FakeMember) -> None:
        self.member, self.gate, self.epoch = member, asyncio.Event(), 2
        self.alone: list[bytes] = []
        """The payload of each unit that had a call of its own."""
        self.together: list[list[bytes]] = []
        """Of those that came by one call."""
        self.ids: list[bytes] = []
        self.answer: Callable[[pb.TransactRequest], pb.TransactAnswer] = self.done
        self.refuse_many: tuple[common.Reason, str] | None = None
        member.unary[SERVICE + "Transact"] = self.one
        member.unary[SERVICE + "TransactMany"] = self.many

    def done(self, unit: pb.TransactRequest) -> pb.TransactAnswer:
        response = pb.TransactResponse(header=self.member.header(epoch=self.epoch))
        for each in unit.puts:
            response.puts.add(queue=each.queue, results=[{"index": len(each.messages[0].payload)}])
        return pb.TransactAnswer(done=response)

    async def one(self, request: bytes, _context: Any) -> bytes:
        unit = pb.TransactRequest.FromString(request)
        self.alone.append(_payload(unit))
        self.ids.append(unit.request_id)
        await self.gate.wait()
        return self.done(unit).done.SerializeToString()

    async def many(self, request: bytes, context: Any) -> bytes:
        units = pb.TransactManyRequest.FromString(request).units
        self.together.append([_payload(each) for each in units])
        self.ids += [each.request_id for each in units]
        await self.gate.wait()
        if self.refuse_many is not None:
            await refuse(context, *self.refuse_many)
        answers = [self.answer(each) for each in units]
        return pb.TransactManyResponse(header=self.member.header(epoch=self.epoch), answers=answers).SerializeToString()


def _payload(unit: pb.TransactRequest) -> bytes:
    return unit.puts[0].messages[0].payload


@pytest.fixture
async def master(member: FakeMember) -> Master:
    return Master(member)


def asked(client: aio.Client, count: int, queue: str = "q") -> list[asyncio.Task[Any]]:
    """As many units at once, the first of one byte, the second of two."""
    return [asyncio.create_task(client.transact((), {queue: [b"x" * each]})) for each in range(1, count + 1)]


async def settled(client: aio.Client, master: Master, count: int) -> list[Any]:
    """What became of so many units that were asked for at once."""
    tasks = asked(client, count)
    await until(lambda: len(master.alone) >= min(count, IN_FLIGHT), "calls are under way")
    master.gate.set()
    return await asyncio.gather(*tasks, return_exceptions=True)


async def test_one_at_a_time_each_has_a_call_of_its_own(member: FakeMember, master: Master) -> None:
    master.gate.set()
    async with aio.connect(member.endpoint) as client:
        for _ in range(3):
            await client.transact((), {"q": [b"x"]})
    assert (len(master.alone), master.together) == (3, [])


async def test_units_at_once_go_together_and_each_has_its_own_receipts(member: FakeMember, master: Master) -> None:
    async with aio.connect(member.endpoint) as client:
        found = await settled(client, master, 20)
        assert client.epoch() == 2
    assert [receipts["q"][0].index for receipts in found] == list(range(1, 21))
    assert sorted(len(each) for each in master.alone) == [1, 2]
    assert [[len(each) for each in call] for call in master.together] == [list(range(3, 21))]
    assert len(set(master.ids)) == 20


async def test_a_call_has_no_more_units_than_it_may(member: FakeMember, master: Master) -> None:
    async with aio.connect(member.endpoint) as client:
        await settled(client, master, IN_FLIGHT + UNITS_MAX + 5)
    assert [len(each) for each in master.together] == [UNITS_MAX, 5]


async def test_large_units_share_no_call_beyond_its_bytes(member: FakeMember, master: Master) -> None:
    async with aio.connect(member.endpoint) as client:
        large = [b"x" * (700 << 10)] * 4
        tasks = [*asked(client, 2), *(asyncio.create_task(client.transact((), {"q": [each]})) for each in large)]
        await until(lambda: len(master.alone) >= IN_FLIGHT, "calls are under way")
        master.gate.set()
        await asyncio.gather(*tasks)
    assert (len(master.alone), master.together) == (6, [])


async def test_a_unit_that_is_refused_is_refused_alone(member: FakeMember, master: Master) -> None:
    master.answer = lambda unit: pb.TransactAnswer(refused=FULL) if len(_payload(unit)) == 5 else master.done(unit)
    async with aio.connect(member.endpoint) as client:
        found = await settled(client, master, 8)
    assert [type(each) for each in found if isinstance(each, TandemqError)] == [ResourceExhausted]
    assert (found[4].reason, found[4].definite) == ("QUEUE_FULL", True)
    assert len(master.alone) == 2


async def test_a_unit_that_the_master_could_not_decide_is_asked_by_itself(member: FakeMember, master: Master) -> None:
    master.answer = lambda unit: pb.TransactAnswer(refused=MOVED) if len(_payload(unit)) == 5 else master.done(unit)
    async with aio.connect(member.endpoint) as client:
        found = await settled(client, master, 8)
    assert [receipts["q"][0].index for receipts in found] == list(range(1, 9))
    assert sorted(len(each) for each in master.alone) == [1, 2, 5]
    assert len(set(master.ids)) == 8


@pytest.mark.parametrize("reason", [common.REASON_PERMISSION_DENIED, common.REASON_TXN_TOO_LARGE])
async def test_what_is_wrong_with_one_unit_is_no_matter_of_the_others(
    member: FakeMember, master: Master, reason: common.Reason
) -> None:
    """A call that is refused as a whole had no effect: each unit hears by itself what is wrong with it."""
    master.refuse_many = reason, "something with one of them"
    async with aio.connect(member.endpoint) as client:
        found = await settled(client, master, 6)
    assert [receipts["q"][0].index for receipts in found] == list(range(1, 7))
    assert [len(each) for each in master.together] == [4]
    assert sorted(len(each) for each in master.alone) == [1, 2, 3, 4, 5, 6]


async def test_a_manager_of_an_older_version_gets_one_unit_a_call(member: FakeMember, master: Master) -> None:
    del member.unary[SERVICE + "TransactMany"]
    async with aio.connect(member.endpoint) as client:
        await settled(client, master, 6)
        await asyncio.gather(*asked(client, 6))
    assert (len(master.alone), master.together) == (12, [])


async def test_the_master_of_the_next_epoch_is_asked_again(member: FakeMember, master: Master) -> None:
    """It may have been upgraded, or be the other member."""
    many = member.unary.pop(SERVICE + "TransactMany")
    async with aio.connect(member.endpoint) as client:
        await settled(client, master, 6)
        member.unary[SERVICE + "TransactMany"] = many
        await asyncio.gather(*asked(client, 6))
        assert master.together == [], "the same master is not asked again"
        master.epoch = 3
        await client.transact((), {"q": [b"a taken mastership"]})
        await asyncio.gather(*asked(client, 6))
    assert [len(each) for each in master.together] == [4]


async def test_who_is_cancelled_while_its_unit_waits_has_sent_nothing(member: FakeMember, master: Master) -> None:
    async with aio.connect(member.endpoint) as client:
        tasks = asked(client, 5)
        await until(lambda: len(master.alone) >= IN_FLIGHT, "calls are under way")
        tasks[3].cancel()
        master.gate.set()
        found = await asyncio.gather(*tasks, return_exceptions=True)
    assert isinstance(found[3], asyncio.CancelledError)
    assert [[len(each) for each in call] for call in master.together] == [[3, 5]]


async def test_a_client_that_is_closed_says_so_to_who_waits(member: FakeMember, master: Master) -> None:
    client = aio.connect(member.endpoint)
    tasks = asked(client, 5)
    await until(lambda: len(master.alone) >= IN_FLIGHT, "calls are under way")
    await client.close()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [(type(each), each.definite) for each in found[2:]] == [(Closed, True)] * 3


async def test_a_client_that_is_closed_as_a_call_begins_leaves_nobody_waiting(
    member: FakeMember, master: Master
) -> None:
    """What sends the call has not run yet, and never does."""
    client = aio.connect(member.endpoint)
    tasks = asked(client, 5)
    await until(lambda: len(master.alone) >= IN_FLIGHT, "calls are under way")
    calls = client.links.unit_calls(client.links.own)
    (lane,) = calls.lanes.values()
    lane.in_flight -= 1
    calls._go_on(lane)
    calls.close()
    found = await asyncio.wait_for(asyncio.gather(*tasks[2:], return_exceptions=True), OUTER_S)
    assert {type(each) for each in found} == {Closed}
    lane.in_flight += 1
    await client.close()
    await asyncio.gather(*tasks, return_exceptions=True)


async def test_nobody_waits_longer_than_a_call_of_its_own_would_take(member: FakeMember, master: Master) -> None:
    """What waits behind a call that nobody answers has its own deadline, from when it was asked for."""
    async with aio.connect(member.endpoint, timeout=0.5, attempt_timeout=0.2) as client:
        found = await asyncio.gather(*asked(client, 5), return_exceptions=True)
    assert all(isinstance(each, TimedOut) for each in found), found
    assert {len(each) for each in master.alone} == {1, 2}, "a unit has had its time when the call before it has"
    master.gate.set()


async def test_a_call_that_breaks_leaves_each_unit_in_doubt_and_is_repeated(member: FakeMember, master: Master) -> None:
    broken = 0

    async def breaks(request: bytes, context: Any) -> bytes:
        nonlocal broken
        broken += 1
        if broken == 1:
            await context.abort(grpc.StatusCode.UNAVAILABLE, "broken")
        return await master.many(request, context)

    member.unary[SERVICE + "TransactMany"] = breaks
    async with aio.connect(member.endpoint) as client:
        found = await settled(client, master, 6)
    assert not [each for each in found if isinstance(each, Unreachable | Denied)]
    assert (broken, len(master.together), len(set(master.ids))) == (2, 1, 6)


AWAY = failure(refusal(common.REASON_NO_MASTER, "no master in domain main"))


async def test_who_refused_for_now_does_not_speak_of_an_earlier_copy(member: FakeMember, master: Master) -> None:
    """The call of several broke, its repetition refused one of them for now, and then there was no master in time."""
    broken = False

    async def breaks(request: bytes, context: Any) -> bytes:
        nonlocal broken
        if not broken:
            broken = True
            await context.abort(grpc.StatusCode.UNAVAILABLE, "broken")
        member.unary[SERVICE + "Transact"] = nobody
        return await master.many(request, context)

    async def nobody(_request: bytes, context: Any) -> bytes:
        await refuse(context, common.REASON_NO_MASTER, "no master in domain main")
        raise AssertionError("it has refused")

    member.unary[SERVICE + "TransactMany"] = breaks
    master.answer = lambda unit: pb.TransactAnswer(refused=AWAY) if len(_payload(unit)) == 5 else master.done(unit)
    async with aio.connect(member.endpoint, timeout=1) as client:
        found = await settled(client, master, 6)
    assert [(each.reason, each.definite) for each in found if isinstance(each, TandemqError)] == [("NO_MASTER", False)]


async def test_a_domain_without_a_master_is_no_matter_of_units_in_others(member: FakeMember, master: Master) -> None:
    """In which domain a queue is, nobody has said yet: only units of one queue certainly share a master."""

    async def many(request: bytes, context: Any) -> bytes:
        if pb.TransactManyRequest.FromString(request).units[0].puts[0].queue == "away":
            await asyncio.Event().wait()
        return await master.many(request, context)

    async def one(request: bytes, context: Any) -> bytes:
        if pb.TransactRequest.FromString(request).puts[0].queue == "away":
            await asyncio.Event().wait()
        return await master.one(request, context)

    member.unary[SERVICE + "TransactMany"], member.unary[SERVICE + "Transact"] = many, one
    master.gate.set()
    async with aio.connect(member.endpoint, timeout=0.5) as client:
        away, others = asked(client, 6, "away"), asked(client, 6)
        refused = await asyncio.gather(*away, return_exceptions=True)
        found = await asyncio.gather(*others)
    assert {type(each) for each in refused} == {TimedOut}
    assert [receipts["q"][0].index for receipts in found] == list(range(1, 7))
    assert not client.links.unit_calls(client.links.own).lanes, "a lane that nobody uses is forgotten"
