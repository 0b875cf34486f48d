"""Sends units of work that are asked for at the same time by few calls (TransactMany). Each is answered by itself.

A call costs some ten times what a small unit in it does, at the client and at the master. While as many calls as are
useful are unanswered, further units wait, and go together by the next one; whoever asks for one at a time has a call of
its own, as if there were no others. It decides nothing, and changes no unit.
"""

from __future__ import annotations

import asyncio
from collections import deque
from functools import partial
from typing import NamedTuple

from tandemq.client.calls import TRANSACTION_SERVICE, Caller
from tandemq.errors import Closed, TandemqError, error_of, to_error
from tandemq.v1 import transaction_service_pb2 as pb

IN_FLIGHT = 2
"""Calls to one domain that are unanswered before others wait: one is decided while the one before it is stored."""
UNITS_MAX = 256
"""In one call."""
BYTES_MAX = 1 << 20
"""Of one call, unless it is of one unit."""


class Asked(NamedTuple):
    """One unit that waits for its turn."""

    request: pb.TransactRequest
    queue: str
    answer: asyncio.Future[pb.TransactResponse]
    since: float
    """When it was asked for; seconds of the loop."""


class Lane:
    """The units for one domain; while nobody has said which one a queue is in, those for one queue. One that has no
    master holds up its own units alone.
    """

    def __init__(self, name: str) -> None:
        self.name = name
        self.in_flight = 0
        self.waiting: deque[Asked] = deque()


class UnitCalls:
    """Of one client to one manager. Belongs to one event loop."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller
        self.lanes: dict[str, Lane] = {}
        """Those that are in use."""
        self._sending: set[asyncio.Task[None]] = set()
        self._by_one: dict[str, int] = {}
        """By domain: the epoch whose master is of a version that takes one unit a call. The next master may be of
        another one, and so may the same one once it has been started anew: that is another epoch.
        """

    async def ask(self, request: pb.TransactRequest, queue: str) -> pb.TransactResponse:
        """The answer, as that of Transact. `queue`: whose master is asked. Raises what Transact is refused with, and
        what a call raises that nobody answers. Whoever is cancelled before the unit was sent has sent nothing.
        """
        loop = asyncio.get_running_loop()
        lane = self._lane_of(queue)
        if self._is_by_one(queue) or (lane.in_flight < IN_FLIGHT and not lane.waiting):
            lane.in_flight += 1
            try:
                return await self._alone(request, queue, loop.time())
            finally:
                lane.in_flight -= 1
                self._go_on(lane)
        answer: asyncio.Future[pb.TransactResponse] = loop.create_future()
        lane.waiting.append(Asked(request, queue, answer, loop.time()))
        return await answer

    def _is_by_one(self, queue: str) -> bool:
        if not self._by_one:
            return False
        masters = self._caller.members.masters
        domain = masters.domain_of(queue)
        return self._by_one.get(domain) == masters.epoch(domain)

    def _lane_of(self, queue: str) -> Lane:
        domain = self._caller.members.masters.domain_of(queue)
        name = f"domain {domain}" if domain else f"queue {queue}"
        lane = self.lanes.get(name)
        if lane is None:
            lane = self.lanes[name] = Lane(name)
        return lane

    def close(self) -> None:
        """Units that wait are not sent; of those that are unanswered nobody says what became of them."""
        for lane in self.lanes.values():
            for each in lane.waiting:
                _fail(each, Closed("CLOSED", "the client was closed before this unit of work was sent", definite=True))
            lane.waiting.clear()
        for task in self._sending:
            task.cancel()

    def _go_on(self, lane: Lane) -> None:
        """Sends what waits, as far as calls may be unanswered."""
        while lane.in_flight < IN_FLIGHT and (units := _next(lane.waiting)):
            lane.in_flight += 1
            task = asyncio.create_task(self._send(units))
            self._sending.add(task)
            task.add_done_callback(partial(self._sent, lane, units))
        if not lane.in_flight:
            del self.lanes[lane.name]

    async def _send(self, units: list[Asked]) -> None:
        if len(units) == 1 or self._is_by_one(units[0].queue):
            await asyncio.gather(*(self._answer(each) for each in units))
        else:
            await self._together(units)

    def _sent(self, lane: Lane, units: list[Asked], task: asyncio.Task[None]) -> None:
        """Not left to the task: one that is cancelled before it begins runs nothing of its own."""
        self._sending.discard(task)
        fault = None if task.cancelled() else task.exception()
        text = "the client was closed before this unit of work was answered"
        for each in units:
            _fail(each, fault or Closed("CLOSED", text))
        lane.in_flight -= 1
        self._go_on(lane)

    async def _together(self, units: list[Asked]) -> None:
        request = pb.TransactManyRequest(units=[each.request for each in units])
        first = units[0]
        try:
            reply = await self._caller.call(
                TRANSACTION_SERVICE + "TransactMany",
                request,
                pb.TransactManyResponse,
                queue=first.queue,
                since=first.since,
            )
        except TandemqError as error:
            if error.reason == "UNIMPLEMENTED":
                masters = self._caller.members.masters
                domain = masters.domain_of(first.queue)
                self._by_one[domain] = masters.epoch(domain)
            await asyncio.gather(*(self._answer(each, error) for each in units))
            return
        if len(reply.answers) != len(units):
            failure = error_of("INTERNAL", f"{len(reply.answers)} answers to {len(units)} units of work")
            await asyncio.gather(*(self._answer(each, failure) for each in units))
            return
        later = []
        for each, answer in zip(units, reply.answers, strict=True):
            if answer.HasField("done"):
                _set(each, answer.done)
            elif (refused := to_error(answer.refused)).retryable or refused.reason == "CROSS_DOMAIN":
                # CROSS_DOMAIN may be of the call's first unit: by itself it says of its own.
                later.append(self._answer(each, refused, by_itself=True) if refused.retryable else self._answer(each))
            else:
                _fail(each, refused)
        await asyncio.gather(*later)

    async def _answer(self, asked: Asked, failure: TandemqError | None = None, *, by_itself: bool = False) -> None:
        """Asks for one unit by itself, after a call of several that had no answer for it. `failure`: of that call;
        `by_itself`: of this unit alone, in its reply. That speaks of the last copy of the call: where nobody decides
        the unit now, an earlier one may have been carried out.
        """
        if failure is not None and asyncio.get_running_loop().time() - asked.since >= self._caller.policy.total_s:
            _fail(asked, failure.in_doubt() if by_itself else failure.again())
            return
        try:
            _set(asked, await self._alone(asked.request, asked.queue, asked.since))
        except TandemqError as error:
            certain = (failure is None or failure.definite) and not (by_itself and error.retryable)
            _fail(asked, error if certain else error.in_doubt())

    async def _alone(self, request: pb.TransactRequest, queue: str, since: float) -> pb.TransactResponse:
        path = TRANSACTION_SERVICE + "Transact"
        return await self._caller.call(path, request, pb.TransactResponse, queue=queue, since=since)


def _next(waiting: deque[Asked]) -> list[Asked]:
    """What goes by one call; nobody waits any more for what is left out."""
    units: list[Asked] = []
    size = 0
    while waiting and len(units) < UNITS_MAX:
        each = waiting[0]
        if not each.answer.done():
            size += each.request.ByteSize()
            if units and size > BYTES_MAX:
                break
            units.append(each)
        waiting.popleft()
    return units


def _set(asked: Asked, answer: pb.TransactResponse) -> None:
    if not asked.answer.done():
        asked.answer.set_result(answer)


def _fail(asked: Asked, error: BaseException) -> None:
    if not asked.answer.done():
        asked.answer.set_exception(error)
