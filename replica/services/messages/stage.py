"""StageService: rows that are kept aside until one call puts all of them into their queues. Requests become calls of
the domain's core; decides nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from replica.core.state.calls import AwaitOrdered, PendingCall, Publish, ReleaseWriter, StageRows, Unstage
from replica.core.state.outcomes import Failed, Moved, PublishDone, StageDone, UnstageDone
from replica.machine import PublishCall, Refused, StageCall, columns_of, milliseconds
from replica.machine.plan.content import check_content
from replica.machine.state.rights import PRODUCE
from replica.node.seen_places import place_now, problem_of_seen
from replica.rpc.handlers import generic_handler
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import Context, fingerprint, parse
from replica.services import forward
from replica.services.answers import Answered, FutureWaiter, header_of
from replica.services.checks import stale_epoch
from replica.services.locality import check_origin
from replica.services.passage import problem_of_meant
from replica.services.weighing import problem_of_frame
from tandemq.v1 import stage_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterable

    from replica.core.domain import Domain
    from replica.core.state.calls import StagingCall
    from replica.core.state.outcomes import Answer
    from replica.node.members import Members
    from tandemq.v1.journal_service_pb2 import JournalPosition

SERVICE = "tandemq.v1.StageService"
MORE_BYTES = 1_024
"""What a StageRequest may have beside its batch."""
PUBLISH_MS = 600_000
"""For a call without a deadline that a replica sends on: a large batch takes its time."""


class StageHandlers:
    """The handlers of StageService at one member."""

    def __init__(self, members: Members) -> None:
        self.members = members

    def handler(self) -> grpc.GenericRpcHandler:
        """For the server; requests and replies are bytes."""
        unary = grpc.unary_unary_rpc_method_handler
        calls = {
            "Stage": self.stage,
            "Publish": self.publish,
            "Abort": self.abort,
            "GetWriter": self.get_writer,
            "ReleaseWriter": self.release_writer,
        }
        return generic_handler(SERVICE, {name: unary(call) for name, call in calls.items()})

    # -- the calls -------------------------------------------------------------------------------------------------

    async def stage(self, request: bytes, context: Context) -> bytes:
        """See StageService.Stage."""
        limits = self.members.node.limits
        if len(request) > limits.batch_bytes_max + MORE_BYTES:
            await abort(context, _too_large(len(request), limits.batch_bytes_max))
        if (problem := problem_of_frame(request, limits)) is not None:
            await abort(context, problem)
        parsed = await parse(pb.StageRequest, request, context, len(request))
        batch = parsed.batch
        body = batch.SerializeToString(deterministic=True)
        if (problem := _problem_of_stage(parsed, len(body), limits.batch_bytes_max, limits.stage_ms_max)) is not None:
            await abort(context, problem)
        await check_origin(self.members, batch.queue, context)
        try:
            columns = columns_of(batch)
            check_content(batch.messages)
        except Refused as refused:
            await abort(context, Failed(refused.reason, refused.message, refused.metadata, None))
        member = forward.member_of(self.members, context)
        digest = fingerprint(body)

        part = StageCall(parsed.stage_id, parsed.part, batch.queue, columns, milliseconds(parsed.ttl), digest, member)

        def reply(done: Answer) -> pb.StageResponse:
            assert isinstance(done, StageDone)
            made = pb.StageResponse(rows=done.rows, payload_bytes=done.payload_bytes, duplicate=done.duplicate)
            made.expires_at.FromMilliseconds(done.expires_at_ms)
            return made

        return await self._change(
            "Stage",
            request,
            context,
            lambda: self.members.of_queue(batch.queue),
            StageRows(part, body),
            reply,
            epoch=parsed.epoch,
            seen=parsed.seen,
        )

    async def publish(self, request: bytes, context: Context) -> bytes:
        """See StageService.Publish."""
        parsed = await parse(pb.PublishRequest, request, context)
        home = await forward.domain_named(self.members, parsed.domain, context)
        member = forward.member_of(self.members, context)

        batch = PublishCall(
            parsed.writer,
            parsed.query_id,
            parsed.batch,
            list(parsed.stage_ids),
            member,
            parsed.previous_batch if parsed.HasField("previous_batch") else None,
            parsed.seen.history_id,
        )
        action = Publish(batch, parsed.min_copies)

        def reply(done: Answer) -> pb.PublishResponse:
            assert isinstance(done, PublishDone)
            queues = [
                pb.PublishedRows(
                    queue=each.queue, first_index=each.first_index, last_index=each.last_index, rows=each.rows
                )
                for each in done.placed
                if self._may_see(home, each.queue, context)
            ]
            return pb.PublishResponse(duplicate=done.duplicate, queues=queues, position=place_now(home.shared))

        async def problem(domain: Domain) -> Failed | None:
            return await self._problem_of_rights(domain, parsed.stage_ids, context)

        return await self._change(
            "Publish",
            request,
            context,
            lambda: home,
            action,
            reply,
            epoch=parsed.epoch,
            seen=parsed.seen,
            check=problem,
        )

    async def _problem_of_rights(self, domain: Domain, stage_ids: Iterable[bytes], context: Context) -> Failed | None:
        """Where the rows enter was asked about when they were staged, which may be hours ago, by somebody else."""
        access, machine = self.members.access, domain.shared.machine
        if access is None or access.asker is None or machine is None:
            return None
        stages = (machine.state.stages.by_id.get(each) for each in stage_ids)
        queues = {part.queue_id for stage in stages if stage is not None for part in stage.parts}
        for queue_id in sorted(each for each in queues if machine.has_queue(each)):
            queue = machine.queue(queue_id)
            names = (queue.name, *sorted(queue.aliases))  # by which of them it was staged is not known
            problems = [await access.asker.problem_of(context, "StageService/Publish", PRODUCE, each) for each in names]
            if None not in problems:
                return problems[0]
        return None

    def _may_see(self, domain: Domain, name: str, context: Context) -> bool:
        """A repetition is answered by the writer's name alone, which somebody else may have guessed."""
        access, machine = self.members.access, domain.shared.machine
        if access is None or machine is None:
            return True
        queue_id = machine.queue_id(name)
        aliases = machine.queue(queue_id).aliases if queue_id is not None else ()
        return access.sees(access.caller(context), name, *aliases)

    async def abort(self, request: bytes, context: Context) -> bytes:
        """See StageService.Abort."""
        parsed = await parse(pb.AbortRequest, request, context)
        home = await forward.domain_named(self.members, parsed.domain, context)

        def reply(done: Answer) -> pb.AbortResponse:
            assert isinstance(done, UnstageDone)
            return pb.AbortResponse(dropped=done.count)

        return await self._change("Abort", request, context, lambda: home, Unstage(parsed.stage_ids), reply)

    async def release_writer(self, request: bytes, context: Context) -> bytes:
        """See StageService.ReleaseWriter."""
        parsed = await parse(pb.ReleaseWriterRequest, request, context)
        home = await forward.domain_named(self.members, parsed.domain, context)

        def reply(done: Answer) -> pb.ReleaseWriterResponse:
            assert isinstance(done, UnstageDone)
            return pb.ReleaseWriterResponse(released=bool(done.count))

        action = ReleaseWriter(parsed.writer)
        return await self._change("ReleaseWriter", request, context, lambda: home, action, reply, seen=parsed.seen)

    async def get_writer(self, request: bytes, context: Context) -> bytes:
        """See StageService.GetWriter. Of what is ordered: the answer waits until that is committed."""
        parsed = await parse(pb.GetWriterRequest, request, context)
        if (problem := problem_of_meant(context, self.members.pair or self.members.member)) is not None:
            await abort(context, problem)
        home = await forward.domain_named(self.members, parsed.domain, context)

        def reply(_done: Answer) -> pb.GetWriterResponse:
            machine = home.shared.machine
            found = machine.state.stages.writers.get(parsed.writer) if machine is not None else None
            made = pb.GetWriterResponse(position=place_now(home.shared))
            if found is None:
                return made
            made.known, made.query_id, made.batch = True, found.query_id, found.batch
            made.published_at.FromMilliseconds(found.time_ms)
            if parsed.digests:
                made.unit_numbers.extend(found.units.numbers)
                made.unit_digests.extend(found.units.digests)
            return made

        return await self._change("GetWriter", request, context, lambda: home, AwaitOrdered(), reply)

    # -- how -------------------------------------------------------------------------------------------------------

    async def _change(
        self,
        method: str,
        request: bytes,
        context: Context,
        domain_of: Callable[[], Domain],
        call: StagingCall,
        reply: Callable[[Answer], Any],
        *,
        epoch: int = 0,
        seen: JournalPosition | None = None,
        check: Callable[[Domain], Awaitable[Failed | None]] | None = None,
    ) -> bytes:
        """Have it ordered, here or at the master. Each of these calls carries its identity, so it may be repeated."""

        async def local(domain: Domain) -> Answered:
            if (stale := stale_epoch(self.members, domain, epoch)) is not None:
                return stale
            if seen is not None and (problem := await problem_of_seen(domain, seen)) is not None:
                return problem
            if check is not None and (problem := await check(domain)) is not None:
                return problem
            node, waiter = self.members.node, FutureWaiter()
            domain.submit(PendingCall(waiter, call), node.clock.now_ms())
            node.dispatch(domain)
            result = await waiter.future
            if isinstance(result, (Failed, Moved)):
                return result
            response = reply(result)
            response.header.CopyFrom(header_of(self.members, domain))
            data: bytes = response.SerializeToString()
            return data

        path = f"StageService/{method}"
        return await forward.unary(
            self.members, path, request, context, domain_of, local, otherwise_ms=PUBLISH_MS
        )  # fmt: skip


def _too_large(size: int, bytes_max: int) -> Failed:
    text = f"a part of {size} bytes; the limit is {bytes_max}: stage the rows in more parts"
    return refusal(Reason.REASON_MESSAGE_TOO_LARGE, text, {"limit": str(bytes_max)})


def _problem_of_stage(request: pb.StageRequest, size: int, bytes_max: int, ttl_ms_max: int) -> Failed | None:
    """What is wrong with a part before a domain sees it."""
    if size > bytes_max:
        return _too_large(size, bytes_max)
    if request.batch.first_sequence:
        return refusal(Reason.REASON_BAD_REQUEST, "batch.first_sequence must be 0: a part is named by its stage")
    if request.HasField("ttl") and not 0 < milliseconds(request.ttl) <= ttl_ms_max:
        text = f"ttl is {milliseconds(request.ttl)} ms; it may be from 1 ms to {ttl_ms_max // 3_600_000} hours"
        return refusal(Reason.REASON_BAD_ATTRIBUTE, text)
    return None
