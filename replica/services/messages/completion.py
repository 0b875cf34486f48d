"""CheckCompletion, WaitCompletion, WatchCompletions and Reply. The master answers; other members send the call on."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import grpc
from google.protobuf.message import DecodeError

from failover.marks import Role
from replica.core.delivery.completing import Ask
from replica.core.messages import bodies
from replica.core.state.calls import PendingCall, SendReply
from replica.core.state.outcomes import Failed, Moved, ProgressDone, ReplyDone
from replica.machine import ReplyCall
from replica.node.members import HOP
from replica.rpc.refusals import abort, failure, refusal
from replica.rpc.requests import Context, check_request_id, fingerprint, parse
from replica.services import forward
from replica.services.answers import Answered, FutureWaiter, header_of
from replica.services.checks import problem_of_answer, stale_epoch, wait_s
from replica.services.weighing import problem_of_reply
from storage.errors import CorruptRecord
from tandemq.v1.common_pb2 import Error, Reason
from tandemq.v1.queue_service_pb2 import (
    CheckCompletionRequest,
    CheckCompletionResponse,
    CompletionStatus,
    Goaway,
    ReplyRequest,
    ReplyResponse,
    WaitCompletionRequest,
    WaitCompletionResponse,
    WatchCompletionsRequest,
    WatchCompletionsResponse,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.core.domain import Domain
    from replica.core.state.calls import Waiter
    from replica.core.state.outcomes import Answer
    from replica.node.members import Members
    from replica.services.messages.open_units import OpenUnitHandlers

HANDLES_MAX = 10_000
"""Of one call."""
WATCHED_MAX = 100_000
"""Of one stream."""
REPLIES_BYTES_MAX = 8 << 20
"""Of the answers in one frame; one alone may be longer. What does not fit is asked for again."""
ANSWER_S = 0.05
WAIT_MS_MAX = 86_400_000
"""Of a call without a deadline."""


def statuses_of(members: Members, domain: Domain, done: ProgressDone, at: int = 0) -> list[CompletionStatus]:
    """From there on, as many as fit into a frame; at least one."""
    out: list[CompletionStatus] = []
    size = 0
    for handle, progress in zip(done.handles[at:], done.progress[at:], strict=True):
        status = CompletionStatus(handle=handle)
        if not progress.known:
            status.error.CopyFrom(_invalid())
        else:
            status.completion, status.final_state = progress.completion, progress.final
            status.completed = progress.completed
        if progress.answer:
            try:
                answer = bodies.read_answer(members.node.store, domain.shared, progress.answer, progress.request)
            except CorruptRecord as corrupt:
                out.append(CompletionStatus(handle=handle, error=_damaged(corrupt)))
                continue
            if answer is None:  # forgotten in this moment
                status = CompletionStatus(handle=handle, error=_invalid())
            else:
                size += len(answer.payload)
                if out and size > REPLIES_BYTES_MAX:
                    return out
                status.reply.CopyFrom(answer)
        out.append(status)
    return out


def _invalid() -> Error:
    text = "this handle is of no message of the queue, or it ended longer ago than completion_retention"
    return Error(reason=Reason.REASON_INVALID_HANDLE, message=text)


def _damaged(corrupt: CorruptRecord) -> Error:
    return Error(reason=Reason.REASON_CORRUPT_STORE, message=f"the answer cannot be read here: {corrupt}")


def _left_out(handle: bytes) -> CompletionStatus:
    text = "the answers together are too long for one frame; ask for this one again"
    return CompletionStatus(handle=handle, error=Error(reason=Reason.REASON_QUOTA_EXCEEDED, message=text))


def all_statuses(members: Members, domain: Domain, done: ProgressDone) -> list[CompletionStatus]:
    """One a handle, in order."""
    out = statuses_of(members, domain, done)
    return out + [_left_out(handle) for handle in done.handles[len(out) :]]


def problem_of_handles(handles: Sequence[bytes]) -> Failed | None:
    """How many may be asked for in one call."""
    if 1 <= len(handles) <= HANDLES_MAX:
        return None
    return refusal(Reason.REASON_BAD_REQUEST, f"{len(handles)} handles; a call names 1 to {HANDLES_MAX}")


class CompletionHandlers:
    """The handlers of what became of messages."""

    def __init__(self, members: Members, units: OpenUnitHandlers) -> None:
        self.members = members
        self.units = units
        self.waiting: dict[Waiter, Domain] = {}
        """Who waits here for messages to end."""
        self._looks = False

    def enter(self, waiter: Waiter, domain: Domain) -> None:
        """It waits until it leaves, or is sent on because this member may be master no longer."""
        self.waiting[waiter] = domain
        if not self._looks:
            self._looks = True
            self.members.node.spawn(self._look())

    async def _look(self) -> None:
        """A master that has lost its peer hears of no more ends, though its peer may serve by now."""
        while self.waiting:
            await self.members.changed.wait()
            for waiter, domain in list(self.waiting.items()):
                if domain.shared.role is not Role.MASTER:
                    del self.waiting[waiter]
                    waiter.answer(Moved("this member may be master no longer; ask again"))
        self._looks = False

    def methods(self) -> dict[str, Any]:
        """By name."""
        unary = grpc.unary_unary_rpc_method_handler
        return {
            "CheckCompletion": unary(self.check),
            "WaitCompletion": unary(self.wait),
            "WatchCompletions": grpc.stream_stream_rpc_method_handler(self.watch),
            "Reply": unary(self.reply),
        }

    # -- what became of messages -----------------------------------------------------------------------------------

    async def check(self, request: bytes, context: Context) -> bytes:
        """See QueueService.CheckCompletion."""
        parsed = await parse(CheckCompletionRequest, request, context)
        if (problem := problem_of_handles(parsed.handles)) is not None:
            await abort(context, problem)

        async def local(domain: Domain) -> Answered:
            done = await self._ask(domain, parsed.queue, list(parsed.handles), 0.0)
            if not isinstance(done, ProgressDone):
                return done
            statuses = all_statuses(self.members, domain, done)
            header = header_of(self.members, domain)
            return CheckCompletionResponse(header=header, statuses=statuses).SerializeToString()

        return await self._at_master("CheckCompletion", parsed.queue, request, context, local)

    async def wait(self, request: bytes, context: Context) -> bytes:
        """See QueueService.WaitCompletion."""
        parsed = await parse(WaitCompletionRequest, request, context)
        if (problem := problem_of_handles(parsed.handles)) is not None:
            await abort(context, problem)
        loop = asyncio.get_running_loop()
        left_s = max(0.0, forward.time_left_s(context, WAIT_MS_MAX) - ANSWER_S)
        if parsed.HasField("wait"):
            left_s = min(left_s, wait_s(parsed.wait))
        until = loop.time() + left_s

        async def local(domain: Domain) -> Answered:
            done = await self._ask(domain, parsed.queue, list(parsed.handles), until - loop.time())
            if not isinstance(done, ProgressDone):
                return done
            statuses = all_statuses(self.members, domain, done)
            header = header_of(self.members, domain)
            return WaitCompletionResponse(header=header, statuses=statuses).SerializeToString()

        return await self._at_master("WaitCompletion", parsed.queue, request, context, local)

    async def _at_master(self, method: str, queue: str, request: bytes, context: Context, local: Any) -> bytes:
        members = self.members
        return await forward.unary(
            members,
            f"QueueService/{method}",
            request,
            context,
            lambda: members.of_queue(queue),
            local,
            otherwise_ms=WAIT_MS_MAX,
        )

    async def _ask(
        self, domain: Domain, queue: str, handles: list[bytes], wait_s: float
    ) -> ProgressDone | Failed | Moved:
        """What is known when all have ended, or when the time is over. Nothing polls: the record that ends a message
        wakes whoever waits for it.
        """
        done = await self._once(domain, Ask(FutureWaiter(), queue, handles, waits=wait_s > 0), wait_s)
        if done is None:
            done = await self._once(domain, Ask(FutureWaiter(), queue, handles), None)
        assert done is not None
        return done

    async def _once(self, domain: Domain, ask: Ask, wait_s: float | None) -> ProgressDone | Failed | Moved | None:
        waiter = ask.waiter
        assert isinstance(waiter, FutureWaiter)
        completing = domain.completing
        try:
            if not domain.shared.serving:
                return Moved("the master is the other member; ask it")
            completing.ask(ask)
            self.members.node.dispatch(domain)
            if wait_s is not None and not waiter.future.done():
                self.enter(waiter, domain)
                await asyncio.wait((waiter.future,), timeout=wait_s)
                if not waiter.future.done() and ask.pending:
                    return None
            result = await waiter.future
        finally:
            self.waiting.pop(waiter, None)
            completing.leave(ask)
        assert isinstance(result, (ProgressDone, Failed, Moved))
        return result

    async def ended(self, queue: str, handles: list[bytes], until: float) -> list[CompletionStatus]:
        """For a sender who waits for more than STORED: what is known when its time is over, empty if nothing is. Never
        refuses, as its messages are stored.
        """
        loop, members = asyncio.get_running_loop(), self.members
        while loop.time() < until:
            domain, changed = members.of_queue(queue), members.changed
            if domain.shared.serving and domain.mastership.commit.can_read and not members.is_late():
                done = await self._ask(domain, queue, handles, until - loop.time())
                if isinstance(done, ProgressDone):
                    return all_statuses(members, domain, done)
                if isinstance(done, Failed):
                    return []
            elif not domain.shared.serving and members.master_endpoint(domain):
                request = WaitCompletionRequest(queue=queue, handles=handles)
                request.wait.FromMilliseconds(max(1, int((until - loop.time()) * 1_000)))
                call: Any = members.channel().unary_unary(forward.QUERY + "QueueService/WaitCompletion")
                try:
                    answer = await call(
                        request.SerializeToString(),
                        timeout=until - loop.time() + 1.0,
                        metadata=((HOP, members.member),),
                    )
                    return list(WaitCompletionResponse.FromString(answer).statuses)
                except grpc.aio.AioRpcError as error:
                    if not forward.is_away(error):
                        return []
            try:
                async with asyncio.timeout(min(forward.LOOK_S, max(0.001, until - loop.time()))):
                    await changed.wait()
            except TimeoutError:
                continue
        return []

    async def watch(self, _requests: object, context: Context) -> None:
        """See QueueService.WatchCompletions."""
        frame = await context.read()
        if not isinstance(frame, bytes):
            return
        first = await parse(WatchCompletionsRequest, frame, context, len(frame))
        members = self.members
        domain = await forward.wait_for_master(members, lambda: members.of_queue(first.queue), context)
        if domain is None:
            await forward.pipe(members, "QueueService/WatchCompletions", frame, context)
        else:
            await WatchStream(self, context, domain).run(first)

    # -- answering -------------------------------------------------------------------------------------------------

    async def reply(self, request: bytes, context: Context) -> bytes:
        """See QueueService.Reply."""
        if (problem := problem_of_reply(request)) is not None:
            await abort(context, problem)
        parsed = await parse(ReplyRequest, request, context, len(request))
        await check_request_id(parsed.request_id, context)
        if (problem := problem_of_answer(parsed.message)) is not None:
            await abort(context, problem)
        call = reply_of(parsed.queue, parsed.lease_id, parsed.index, parsed.message, parsed.request_id)
        if parsed.unit_id:
            return await self.units.reply(request, parsed, call, context)

        async def local(domain: Domain) -> Answered:
            if (stale := stale_epoch(self.members, domain, parsed.epoch)) is not None:
                return stale
            node = self.members.node
            waiter = FutureWaiter()
            domain.submit(PendingCall(waiter, call), node.clock.now_ms())
            node.dispatch(domain)
            result = await waiter.future
            if isinstance(result, (Failed, Moved)):
                return result
            assert isinstance(result, ReplyDone)
            header = header_of(self.members, domain)
            return ReplyResponse(header=header, duplicate=result.duplicate).SerializeToString()

        return await self._at_master("Reply", parsed.queue, request, context, local)


def reply_of(queue: str, lease_id: int, index: int, message: Any, request_id: bytes = b"") -> SendReply:
    """The answer as the core takes it: the same bytes whenever the same answer comes again."""
    body = message.SerializeToString(deterministic=True)
    number = index.to_bytes(8, "big")
    print_ = fingerprint(queue.encode(), number, body)
    return SendReply(ReplyCall(queue, lease_id, index, len(message.payload), request_id, print_), body)


class _WatchWaiter:
    """One queue's watch."""

    __slots__ = ("ask", "cancelled", "stream")

    def __init__(self, stream: WatchStream, queue: str) -> None:
        self.stream = stream
        self.cancelled = False
        self.ask = Ask(self, queue, waits=True, each=True)

    def answer(self, result: Answer) -> None:
        """Some have ended, or the watch is refused or sent away."""
        self.stream.take(self.ask.queue, result)


class WatchStream:
    """One client's watch at the master."""

    def __init__(self, handlers: CompletionHandlers, context: Context, domain: Domain) -> None:
        self.handlers = handlers
        self.members = handlers.members
        self.context = context
        self.domain = domain
        self.waiters: dict[str, _WatchWaiter] = {}
        self.out: list[tuple[str, Answer]] = []
        self.wake = asyncio.Event()
        self.open = 0
        """Handles whose end it has not heard yet."""
        self.closing = False

    def take(self, queue: str, result: Answer) -> None:
        """To be sent by the writer, in order."""
        self.out.append((queue, result))
        self.wake.set()

    async def run(self, first: WatchCompletionsRequest) -> None:
        """Until the client closes its side and has heard of all, or is sent away."""
        writer = asyncio.create_task(self._write())
        reader = asyncio.create_task(self._read(first))
        try:
            await asyncio.wait({writer, reader}, return_when=asyncio.FIRST_COMPLETED)
            for task in (writer, reader):
                if task.done() and not task.cancelled():
                    task.result()
            self.closing = True
            self.wake.set()
            await writer
        finally:
            writer.cancel()
            reader.cancel()
            for waiter in self.waiters.values():
                waiter.cancelled = True
                self.handlers.waiting.pop(waiter, None)
                self.domain.completing.leave(waiter.ask)

    async def _read(self, request: WatchCompletionsRequest) -> None:
        while True:
            await self._add(request)
            frame = await self.context.read()
            if not isinstance(frame, bytes):
                return
            try:
                request = WatchCompletionsRequest.FromString(frame)
            except DecodeError:
                text = "the frame is not a WatchCompletionsRequest"
                await abort(self.context, refusal(Reason.REASON_BAD_REQUEST, text))

    async def _add(self, request: WatchCompletionsRequest) -> None:
        self.open += len(request.handles)
        if self.open > WATCHED_MAX:
            text = f"a stream watches at most {WATCHED_MAX} messages at once; open another one, or wait for some"
            await abort(self.context, refusal(Reason.REASON_QUOTA_EXCEEDED, text))
        waiter = self.waiters.get(request.queue)
        if waiter is None:
            waiter = self.waiters[request.queue] = _WatchWaiter(self, request.queue)
            self.handlers.enter(waiter, self.domain)
        if self.domain.shared.serving:
            self.domain.completing.more(waiter.ask, list(request.handles))
            self.members.node.dispatch(self.domain)
        else:
            waiter.answer(Moved("the master is the other member; ask it"))

    async def _write(self) -> None:
        opened = WatchCompletionsResponse(header=header_of(self.members, self.domain))
        await self.context.write(opened.SerializeToString())
        while True:
            while not self.out:
                if self.closing and not self.open:
                    return
                self.wake.clear()
                await self.wake.wait()
            queue, result = self.out.pop(0)
            if not isinstance(result, ProgressDone):
                await self._end(queue, result)
                return
            at = 0
            while at < len(result.handles):
                statuses = statuses_of(self.members, self.domain, result, at)
                at += len(statuses)
                self.open -= len(statuses)
                header = header_of(self.members, self.domain)
                response = WatchCompletionsResponse(header=header, queue=queue, statuses=statuses)
                await self.context.write(response.SerializeToString())

    async def _end(self, queue: str, result: Answer) -> None:
        if isinstance(result, Failed):
            error = failure(result)
        else:
            text = result.message if isinstance(result, Moved) else "the watch has ended; open it again"
            error = Error(reason=Reason.REASON_NOT_MASTER, message=text)
        endpoint = self.members.master_endpoint(self.domain)
        goaway = Goaway(error=error, master_endpoint=endpoint, epoch=self.domain.shared.state.epoch)
        await self.context.write(WatchCompletionsResponse(queue=queue, goaway=goaway).SerializeToString())
