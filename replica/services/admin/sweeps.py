"""MoveMessages, RedriveQueue and DeleteMessages over the wire: runs a sweep turn by turn until it is over, or nobody
waits for it any more. What a turn does is decided in `sweeps`.
"""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import grpc

from replica.core.ordering.origins import Origins
from replica.core.ordering.sweep import Sweep, Verb
from replica.core.ordering.sweeps import Sweeps
from replica.core.state.outcomes import Failed, Moved, SweepDone
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import Context, check_request_id, fingerprint_of, parse
from replica.services import filters, forward
from replica.services.answers import Answered, FutureWaiter, header_of
from replica.services.which_domain import check_domain
from tandemq.ambient import monotonic_s
from tandemq.v1 import queue_admin_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from replica.core.domain import Domain
    from replica.node.members import Members
    from replica.rpc.handlers import Method

AHEAD = 4
"""Turns whose records are ordered and not committed yet."""
RUNNING_MAX = 8
"""Sweeps under way at one member; each takes its turns of the one loop."""
AGAIN_MS = 5_000
FORWARDED_MS = 600_000
"""For a call without a deadline that a replica sends on."""


@dataclass(slots=True, eq=False)
class _Running:
    """A sweep under way, for everybody who made the same call."""

    request_hash: int
    task: asyncio.Task[SweepDone | Failed | Moved]
    waiting: int = 0


class SweepHandlers:
    """Their handlers at one member."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self.running: dict[bytes, _Running] = {}
        """By request id."""

    def methods(self) -> dict[str, Method]:
        """Their part of QueueAdminService; requests and replies are bytes."""
        unary = grpc.unary_unary_rpc_method_handler
        calls = {"DeleteMessages": self.delete, "MoveMessages": self.move, "RedriveQueue": self.redrive}
        return {name: unary(call) for name, call in calls.items()}

    # -- the calls -------------------------------------------------------------------------------------------------

    async def delete(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.DeleteMessages."""
        asked = await parse(pb.DeleteMessagesRequest, request, context)

        def reply(done: SweepDone) -> pb.DeleteMessagesResponse:
            return pb.DeleteMessagesResponse(removed=done.done, leased=done.leased, duplicate=done.duplicate)

        return await self._call("DeleteMessages", Verb.REMOVE, asked, request, context, reply)

    async def move(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.MoveMessages."""
        asked = await parse(pb.MoveMessagesRequest, request, context)
        if not asked.to:
            text = "`to` is empty: say which queue the messages are to go to"
            await abort(context, refusal(Reason.REASON_BAD_REQUEST, text))
        return await self._call("MoveMessages", Verb.MOVE, asked, request, context, _moved(pb.MoveMessagesResponse))

    async def redrive(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.RedriveQueue."""
        asked = await parse(pb.RedriveQueueRequest, request, context)
        return await self._call("RedriveQueue", Verb.REDRIVE, asked, request, context, _moved(pb.RedriveQueueResponse))

    async def _call(
        self, method: str, verb: Verb, asked: Any, request: bytes, context: Context, reply: Callable[[SweepDone], Any]
    ) -> bytes:
        await check_request_id(asked.request_id, context)
        wanted = await filters.check(asked.filter, context)
        if verb is Verb.REMOVE and wanted is None:
            text = "the filter is empty: say which messages, or remove all of them with PurgeQueue"
            await abort(context, refusal(Reason.REASON_BAD_REQUEST, text))
        request_hash = fingerprint_of(method, asked)
        to: str = getattr(asked, "to", "")
        await check_domain(self.members, asked.name, "", context)

        access = self.members.access
        who = access.asked_about(context) if access is not None else ""

        async def local(domain: Domain) -> Answered:
            if to and (elsewhere := self._elsewhere(domain, to)) is not None:
                return elsewhere
            sweep = Sweep(verb, asked.name, asked.request_id, request_hash, to, wanted, who, asked.max_messages)
            result = await self._joined(domain, sweep)
            if not isinstance(result, SweepDone):
                return result
            response = reply(result)
            response.header.CopyFrom(header_of(self.members, domain))
            data: bytes = response.SerializeToString()
            return data

        path = f"QueueAdminService/{method}"
        return await forward.unary(
            self.members,
            path,
            request,
            context,
            lambda: self.members.of_queue(asked.name),
            local,
            otherwise_ms=FORWARDED_MS,
        )

    def _elsewhere(self, domain: Domain, to: str) -> Failed | None:
        """A record is of one domain, and so are the two queues of a move."""
        other = self.members.of_queue(to)
        machine = other.shared.machine
        if other is domain or machine is None or machine.queue_id(to) is None:
            return None
        text = (
            f"queue {to} is in domain {other.shared.name}, the messages are in {domain.shared.name}: a message moves "
            "within one domain; receive them and send them there"
        )
        return refusal(Reason.REASON_CROSS_DOMAIN, text)

    # -- running ---------------------------------------------------------------------------------------------------

    async def _joined(self, domain: Domain, sweep: Sweep) -> SweepDone | Failed | Moved:
        """A call that is repeated while it is under way waits for the same end. It stops when nobody waits any more."""
        running = self.running.get(sweep.request_id)
        if running is None:
            if len(self.running) >= RUNNING_MAX:
                text = f"{RUNNING_MAX} calls that move or remove messages are under way here; repeat it later"
                return Failed(Reason.REASON_QUOTA_EXCEEDED, text, {}, AGAIN_MS)
            running = _Running(sweep.request_hash, asyncio.ensure_future(self._run(domain, sweep)))
            self.running[sweep.request_id] = running
        elif running.request_hash != sweep.request_hash:
            text = f"request id {sweep.request_id.hex()} is used by a different request; choose a new id for each"
            return refusal(Reason.REASON_REQUEST_MISMATCH, text)
        running.waiting += 1
        try:
            return await asyncio.shield(running.task)
        finally:
            running.waiting -= 1
            if not running.waiting:
                running.task.cancel()
                self.running.pop(sweep.request_id, None)

    async def _run(self, domain: Domain, sweep: Sweep) -> SweepDone | Failed | Moved:
        access, machine = self.members.access, domain.orders.machine
        origins = Origins(machine.state, access.may, access.sees) if access is not None else None
        sweeps = Sweeps(domain.shared, domain.orders, domain.dying.read, origins)
        node = self.members.node
        under_way: deque[Awaitable[Any]] = deque()
        over = False
        while not over or under_way:
            if not over:
                waiter = FutureWaiter()
                began_s = monotonic_s()
                over = sweeps.turn(sweep, waiter, node.clock.now_ms())
                node.dispatch(domain)
                under_way.append(waiter.future)
                await asyncio.sleep(monotonic_s() - began_s)  # everybody else has as much of the loop
            if over or len(under_way) > AHEAD:
                outcome = await under_way.popleft()
                if not isinstance(outcome, SweepDone) or outcome.over:
                    assert isinstance(outcome, SweepDone | Failed | Moved)
                    return outcome
        raise AssertionError("a sweep ends with an answer")


def _moved(kind: Any) -> Callable[[SweepDone], Any]:
    def reply(done: SweepDone) -> Any:
        left = sum(each.count for each in done.behind)
        return kind(moved=done.done, left=left, leased=done.leased, behind=done.behind, duplicate=done.duplicate)

    return reply
