"""What is asked of a queue of another manager for a macro queue here, and what comes of the answers (M7).

The pair is whole; the other manager is the test, which answers each call as it likes.
"""

from __future__ import annotations

import asyncio
import functools
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from replica.core.delivery.far_heads import AWAY, HEAD_MS, HEARD, LATE, MISFIT, FarMember
from replica.core.messages.far_bodies import runs_of
from replica.core.state.outcomes import FarLease, Moved
from replica.machine.features.macros import REMOVE
from replica.services.proxies.far_heads import FarMembers
from replica.services.proxies.far_tap import CALLS_AT_ONCE, parts_of
from replica.services.proxies.standing import OPEN, ProxyFault, ProxyStanding
from tandemq.ambient import monotonic_ms
from tandemq.errors import error_of
from tandemq.far_leases import far_lease
from tandemq.v1 import macro_service_pb2 as pb
from tandemq.v1.common_pb2 import Error, IndexRange, Reason
from tandemq.v1.message_pb2 import DeliveredMessage, Message
from tandemq.v1.queue_admin_service_pb2 import QUEUE_TYPE_TWO_WAY, QueueConfig
from tandemq.v1.queue_service_pb2 import (
    DELIVERY_FORMAT_SEGMENTS,
    OUTCOME_ACK,
    OUTCOME_EXTEND,
    OUTCOME_RELEASE,
    DequeueRequest,
    DequeueResponse,
    Settlement,
    SettleRequest,
    SettleResponse,
    SettleResult,
)
from tests.support.until import until
from tests.unit.replica.core.delivery.test_fan_in import Taker, change, send
from tests.unit.replica.core.delivery.test_far_heads import LEASE, LONG_MS, beside, indexes_of

LOST = Error(reason=Reason.REASON_LEASE_LOST, message="it ended")


def rows(*indexes: int) -> DequeueResponse:
    entered = Timestamp()
    entered.FromMilliseconds(1)
    made = [DeliveredMessage(index=each, lease_id=LEASE, message=Message(), enqueue_time=entered) for each in indexes]
    return DequeueResponse(lease_id=LEASE, messages=made)


class West:
    """The other manager: its queue, and whether it answers."""

    def __init__(self) -> None:
        self.manager, self.under_way = "west", 0
        self.has: list[int] = []
        self.taken: list[DequeueRequest] = []
        self.settled: list[tuple[int, list[int], int]] = []
        self.lost: set[int] = set()
        """Indexes whose lease has ended there."""
        self.away: Exception | None = None
        self.refused = 0
        """Calls that came while it was away."""
        self.waiting = 0
        """Calls that have waited for that."""
        self.settle_calls: list[int] = []
        """Settlements of each."""
        self.silent: asyncio.Event | None = None
        """Until it is set nothing is answered."""
        self.short = False
        """It leaves out a result."""
        self.strange = 0
        """Lease id of what it gives, where it is none."""

    def doubt(self, _standing: ProxyStanding) -> None:
        """A call has ended without an answer."""

    async def ask(self, _path: str, data: bytes, reply: object, *_more: Any) -> Any:
        if self.silent is not None:
            self.waiting += 1
            await self.silent.wait()
        if self.away is not None:
            self.refused += 1
            raise self.away
        if reply is SettleResponse:
            self.settle_calls.append(len(SettleRequest.FromString(data).settlements))
            results = [self._settle(each) for each in SettleRequest.FromString(data).settlements]
            return SettleResponse(results=results[self.short :])
        request = DequeueRequest.FromString(data)
        self.taken.append(request)
        while not self.has and request.HasField("wait"):  # noqa: ASYNC110 - what it has is set by the test, at any turn
            await asyncio.sleep(0)
        given, self.has = self.has[: request.max_messages], self.has[request.max_messages :]
        found = rows(*given)
        for row in found.messages if self.strange else ():
            row.lease_id = self.strange
        return found

    def _settle(self, settlement: Any) -> SettleResult:
        indexes = [each.first + place for each in settlement.ranges for place in range(each.count)]
        self.settled.append((settlement.outcome, indexes, settlement.extension.ToMilliseconds()))
        refused = [IndexRange(first=index, count=1) for index in indexes if index in self.lost]
        return SettleResult(error=LOST, refused=refused) if refused else SettleResult(settled=len(indexes))


class East:
    """A pair with a macro queue over `low` here and a queue of west before it."""

    def __init__(self) -> None:
        self.pair, self.member = beside(low=1)
        self.west = West()
        assert self.pair.master is not None
        core = self.pair.master.core
        assert core.shared.machine is not None
        proxy = core.shared.machine.state.proxies.by_name["p"]
        self.standing = ProxyStanding(proxy, 0)
        self.standing.state = OPEN
        kept = SimpleNamespace(manager=self.west, standing=self.standing)
        self.is_gone = False
        self.tasks: list[asyncio.Task[None]] = []
        node = SimpleNamespace(spawn=self._spawn, dispatch=self.pair.master.dispatch)
        members: Any = SimpleNamespace(pair="east", member="a", node=node, is_late=lambda: False)
        keeper: Any = SimpleNamespace(of=lambda _domain, _name: None if self.is_gone else kept)
        self.far = FarMembers(members, core, keeper)

    def _spawn(self, work: Any) -> asyncio.Task[None]:
        self.tasks.append(task := asyncio.get_running_loop().create_task(work))
        return task

    async def until(self, what: Callable[[], bool], text: str) -> None:
        """Each look is a tick."""

        async def is_so() -> bool:
            self.far._look(monotonic_ms(), every=True)
            self.pair.quiesce()
            await asyncio.sleep(0)
            return what()

        await until(is_so, text)

    def given(self, taker: Taker) -> list[list[int]]:
        return [indexes_of(each.runs) for each in taker.waiter.answers if isinstance(each, FarLease)]


def shows(east: East, why: str) -> bool:
    return why in east.member.why


@pytest.fixture
def east() -> East:
    """Made before the loop runs: what the pair reads while it starts has loops of its own."""
    return East()


async def test_a_head_goes_out_once_its_lease_there_lasts_as_the_consumers(east: East) -> None:
    east.west.has = [1]
    taker = Taker(east.pair)
    await east.until(lambda: bool(east.given(taker)), "it is delivered")
    assert east.given(taker) == [[1]]
    first = east.west.taken[0]
    assert (first.queue, first.max_messages, first.lease_duration.ToMilliseconds()) == ("orders", 1, HEAD_MS)
    assert east.west.settled == [(OUTCOME_EXTEND, [1], 500)], "the consumer's own time"
    assert east.standing.calls >= len(east.west.taken) + len(east.west.settle_calls) - 1, "the last may be under way"
    (lease,) = [each for each in taker.waiter.answers if isinstance(each, FarLease)]
    assert (lease.lease_id, lease.queue) == (far_lease(LEASE), "p")


async def test_what_was_lost_there_goes_to_nobody(east: East) -> None:
    """Its lease has ended, or a new master there has never heard of it: somebody else may have it."""
    east.west.has, east.west.lost = [1, 2], {1}
    taker, once = Taker(east.pair), Taker(east.pair, "once", one_shot=True)
    await east.until(lambda: bool(east.given(taker) or east.given(once)), "the next one is delivered")
    assert [*east.given(taker), *east.given(once)] == [[2]]
    if not east.given(once):
        assert not any(isinstance(each, FarLease) for each in once.waiter.answers)
    assert all(isinstance(each, (FarLease, Moved)) for each in once.waiter.answers)
    assert east.member.returned >= 1


async def test_a_member_that_hangs_holds_back_those_here_for_a_moment(east: East) -> None:
    east.west.silent = asyncio.Event()
    send(east.pair, "low")
    taker = Taker(east.pair)
    assert taker.got == []
    await east.until(lambda: bool(taker.got), "the member here is served")
    assert (taker.got, east.member.state) == (["low"], LATE)
    east.west.has = [1]
    taker.ask()
    east.west.silent.set()
    await east.until(lambda: bool(east.given(taker)), "it counts again once it answers")
    assert east.member.state != LATE


async def test_a_proxy_that_has_failed_is_passed_over_at_once(east: East) -> None:
    east.standing.on_failed(ProxyFault("MANAGER_UNREACHABLE", "nobody answers"), 0)
    send(east.pair, "low")
    taker = Taker(east.pair)
    await east.until(lambda: bool(taker.got), "the member here is served")
    assert (east.member.state, east.member.why) == (AWAY, "MANAGER_UNREACHABLE: nobody answers")
    assert not east.west.taken
    east.standing.state = OPEN
    east.west.has = [1]
    taker.ask()
    await east.until(lambda: bool(east.given(taker)), "it is back by itself")


async def test_a_queue_that_could_not_be_a_member_here_is_passed_over_by_name(east: East) -> None:
    """R074, at the other manager."""
    taker = Taker(east.pair)
    for config, why in (
        (QueueConfig(single_active=True), "single_active"),
        (QueueConfig(queue_type=QUEUE_TYPE_TWO_WAY), "TWO_WAY"),
    ):
        east.standing.found = config
        await east.until(functools.partial(shows, east, why), why)
        assert east.member.state == MISFIT
    send(east.pair, "low")
    assert taker.got == ["low"]


async def test_what_nobody_waits_for_any_more_goes_back(east: East) -> None:
    east.west.has = [1]
    taker = Taker(east.pair, credit=0)
    taker.consumer.credit_messages = 1
    east.member.set(HEARD)
    east.member.keep(runs_of(rows(1)))
    taker.consumer.credit_messages = 0
    await east.until(lambda: (OUTCOME_RELEASE, [1], 0) in east.west.settled, "it is released")
    assert not east.member.heads


async def test_a_claim_without_an_answer_goes_to_nobody_and_back(east: East) -> None:
    taker = Taker(east.pair)
    east.west.has = [1]
    await east.until(lambda: bool(east.west.taken), "it is asked")
    east.west.away = error_of("MANAGER_UNREACHABLE", "cut off").in_doubt()
    await east.until(lambda: east.member.returned > 0, "the claim has failed")
    assert east.given(taker) == []
    assert taker.consumer.credit_messages == 1
    east.west.away = None
    await east.until(lambda: any(each[:2] == (OUTCOME_RELEASE, [1]) for each in east.west.settled), "it goes back")


async def test_an_answer_that_is_none_stops_nobody(east: East) -> None:
    """A task of a member that fails ends the member: what another manager says may not come to that."""
    taker = Taker(east.pair)
    east.west.has, east.west.strange = [1], 1 << 63
    await east.until(lambda: east.member.state == LATE and "nobody could settle" in east.member.why, "it is refused")
    east.west.has, east.west.strange, east.west.short = [1], 0, True
    await east.until(lambda: bool(east.west.settled), "the claim is answered")
    assert east.given(taker) == []
    east.west.has, east.west.short = [2], False
    await east.until(lambda: bool(east.given(taker)), "it goes on")
    assert all(task.exception() is None for task in east.tasks if task.done())


async def test_a_proxy_that_goes_before_it_is_asked_stops_nobody(east: East) -> None:
    Taker(east.pair)
    east.far._look(monotonic_ms(), every=True)
    east.is_gone = True
    await east.until(lambda: east.member.state == AWAY, "it is gone")
    assert all(task.exception() is None for task in east.tasks if task.done())
    assert not east.west.taken


async def test_more_are_taken_at_once_while_all_are_delivered(east: East) -> None:
    east.west.has = list(range(1, 64))
    taker = Taker(east.pair, credit=63)
    await east.until(lambda: sum(map(len, east.given(taker))) == 63, "all are delivered")
    sizes = [each.max_messages for each in east.west.taken]
    assert sizes[:3] == [1, 8, 54]
    assert {each.format for each in east.west.taken} == {DELIVERY_FORMAT_SEGMENTS}


def stream(east: East, credit: int) -> Taker:
    """A consumer that stays."""
    taker = Taker(east.pair, credit=credit, lease_ms=LONG_MS)
    taker.consumer.one_shot = False
    taker.waiter.deliver = taker.waiter.answer  # type: ignore[method-assign, assignment]  # a Taker's waiter is a call's
    return taker


async def test_more_is_leased_while_a_stream_is_at_work_and_goes_back_unless_it_comes(east: East) -> None:
    """Else each delivery waits for the other manager. Of one message at first nothing is leased ahead."""
    east.west.has = list(range(1, 200))
    taker = stream(east, 9)
    await east.until(lambda: sum(map(len, east.given(taker))) == 9, "all that it may have is delivered")
    await east.until(lambda: east.member.held > 0, "more is leased")
    assert east.west.taken[-1].max_messages == 2 * 8
    taker.consumer.credit_messages = 4
    await east.until(lambda: sum(map(len, east.given(taker))) == 13, "it is given at once what is there")
    assert east.member.held > 0
    await east.until(
        lambda: sum(len(each) for what, each, _ in east.west.settled if what == OUTCOME_RELEASE) > 0, "back"
    )
    assert not east.member.heads, "nobody has come for it"


async def test_what_streams_acknowledge_goes_with_calls_that_are_made_anyway(east: East) -> None:
    east.west.has = [1]
    taker = stream(east, 1)
    await east.until(lambda: bool(east.given(taker)), "it is delivered")
    gatherer = east.far.gatherer("m", "p")
    assert gatherer is not None
    assert east.far.gatherer("m", "nobody") is None
    east.west.silent, calls = asyncio.Event(), len(east.west.settled)
    first, second, third = (gatherer.gather([acknowledged(number)]) for number in (1, 2, 3))
    await east.until(lambda: east.west.waiting > 0, "a call is under way")
    fourth = gatherer.gather([acknowledged(4)])
    east.west.silent.set()
    await east.until(lambda: all(each.done() for each in (first, second, third, fourth)), "all are answered")
    assert [each.result()[0].settled for each in (first, fourth)] == [1, 1]  # type: ignore[index]  # there is a result
    assert [each[1] for each in east.west.settled[calls:]] == [[1], [2], [3], [4]]
    assert east.west.settle_calls[-2:] == [3, 1]


async def test_an_acknowledgement_of_which_nobody_knows_goes_again_by_itself(east: East) -> None:
    east.west.has = [1]
    taker = stream(east, 1)
    await east.until(lambda: bool(east.given(taker)), "it is delivered")
    gatherer = east.far.gatherer("m", "p")
    assert gatherer is not None
    east.west.away = error_of("MANAGER_UNREACHABLE", "cut off").in_doubt()
    done = gatherer.gather([acknowledged(1)])
    await east.until(done.done, "the call has failed")
    assert done.result() is None
    east.west.away, east.west.silent = None, asyncio.Event()
    done = gatherer.gather([acknowledged(1)])
    await east.until(lambda: east.west.waiting > 0, "a call is under way")
    waits = gatherer.gather([acknowledged(1)])
    for tap in east.far.taps.values():
        tap.close()
    await east.until(lambda: done.done() and waits.done(), "a master that is none any more leaves nobody waiting")
    assert done.result() is waits.result() is None


async def test_what_is_acknowledged_while_a_member_leaves_is_answered(east: East) -> None:
    """Nobody looks at it any more; what waits behind a call that is under way goes out when that one has ended."""
    east.west.has = [1]
    taker = stream(east, 1)
    await east.until(lambda: bool(east.given(taker)), "it is delivered")
    gatherer = east.far.gatherer("m", "p")
    assert gatherer is not None
    east.west.silent = asyncio.Event()
    first = gatherer.gather([acknowledged(1)])
    await east.until(lambda: east.west.waiting > 0, "a call is under way")
    second = gatherer.gather([acknowledged(2)])
    change(east.pair, REMOVE, queue="p")
    east.west.silent.set()
    await east.until(lambda: first.done() and second.done(), "both are answered")


async def test_what_a_member_held_that_leaves_goes_back_though_the_first_call_fails(east: East) -> None:
    """Else it is locked there until its lease ends."""
    taker = stream(east, 0)
    east.far._look(monotonic_ms(), every=True)
    east.member.set(HEARD)
    east.member.keep(runs_of(rows(1)))
    east.west.away = error_of("MANAGER_UNREACHABLE", "cut off").in_doubt()
    change(east.pair, REMOVE, queue="p")
    await east.until(lambda: east.west.refused > 0, "the first call has failed")
    assert not east.west.settled
    east.west.away = None
    await east.until(lambda: (OUTCOME_RELEASE, [1], 0) in east.west.settled, "it is given back")
    assert taker.got == []
    await east.until(lambda: not east.far._leaving, "nobody looks at it any more")


def acknowledged(index: int) -> Settlement:
    return Settlement(lease_id=LEASE, outcome=OUTCOME_ACK, ranges=[IndexRange(first=index, count=1)])


def test_settlements_there_have_an_identity_of_the_caller_and_the_member() -> None:
    """A repetition over both failovers is one there, and two members of one call are two."""
    from replica.services.proxies.far_settling import _request  # what a call is made of

    def kept(target: str) -> Any:
        return SimpleNamespace(standing=SimpleNamespace(proxy=SimpleNamespace(target=target)))

    one = [Settlement(lease_id=far_lease(LEASE), queue="p")]
    first, again = _request(kept("//west/a"), one, b"r" * 16), _request(kept("//west/a"), one, b"r" * 16)
    other = _request(kept("//west/b"), one, b"r" * 16)
    assert first == again
    assert first.request_id != other.request_id
    assert (first.queue, first.settlements[0].lease_id, first.settlements[0].queue) == ("a", LEASE, "")


def test_a_member_is_known_by_its_proxy() -> None:
    east_member: FarMember
    _, east_member = beside(low=1)
    assert (east_member.name, east_member.target) == ("p", "//west/orders")
    assert east_member.state == pb.FAR_STATE_UNSPECIFIED


def test_each_who_waits_has_a_lease_of_his_own_asked_for() -> None:
    assert parts_of([1, 1, 5], 4) == [1, 1, 2]
    assert parts_of([5, 1], 3) == [3]
    assert parts_of([1] * 20, 100) == [1] * CALLS_AT_ONCE
    assert parts_of([], 4) == []
