"""WeightsService: tables of routing weights over the wire. Requests become calls of the domain, ordered by its master;
a read is answered once what it saw is committed. Routes nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from replica.core.state.calls import ReadWeights
from replica.machine import DeleteWeightsCall, PublishWeightsCall, Refused, Window, milliseconds
from replica.machine.state.rights import ADMINISTER
from replica.rpc.handlers import generic_handler
from replica.rpc.requests import Context, parse
from replica.services import forward
from replica.services.admin.ordered import identity, ordered
from tandemq.v1 import weights_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.domain import Domain
    from replica.core.state.outcomes import Failed, QueueDone, WeightsDone
    from replica.machine import Machine, TableAsOf
    from replica.machine.state.requests import RequestAnswer
    from replica.rpc.handlers import Method
    from replica.services.admin.ordered import Beforehand
    from replica.services.admin.queues import AdminHandlers

SERVICE = "tandemq.v1.WeightsService"


class WeightHandlers:
    """The handlers of WeightsService."""

    def __init__(self, admin: AdminHandlers) -> None:
        self.admin = admin
        self.members = admin.members

    def handler(self) -> grpc.GenericRpcHandler:
        """For the server; requests and replies are bytes."""
        unary = grpc.unary_unary_rpc_method_handler
        methods: dict[str, Method] = {
            "PublishWeights": unary(self.publish),
            "GetWeights": unary(self.get),
            "ListWeights": unary(self.list),
            "DeleteWeights": unary(self.delete),
        }
        return generic_handler(SERVICE, methods)

    async def publish(self, request: bytes, context: Context) -> bytes:
        """See WeightsService.PublishWeights."""
        parsed = await parse(pb.PublishWeightsRequest, request, context)
        _, digest = await identity("publish weights", parsed, context)

        def reply(machine: Machine, done: QueueDone) -> pb.PublishWeightsResponse:
            answer = _answer(machine, parsed.request_id, digest)
            made = pb.PublishWeightsResponse(version=answer.version, duplicate=done.duplicate)
            made.valid_until.FromMilliseconds(answer.valid_until_ms)
            return made

        async def problem(domain: Domain) -> Failed | None:
            return await self._problem_of_rights(domain, parsed.name, context)

        call = _publication(parsed, digest)
        return await self._run("PublishWeights", parsed, request, context, call, reply, beforehand=problem)

    async def _problem_of_rights(self, domain: Domain, name: str, context: Context) -> Failed | None:
        """A table under the name of a macro queue says where that deals what it is sent, or takes such a table away."""
        access, machine = self.members.access, domain.shared.machine
        if access is None or access.asker is None or machine is None or name not in machine.state.macros.by_name:
            return None
        return await access.asker.problem_of(context, "WeightsService/PublishWeights", ADMINISTER, name)

    async def delete(self, request: bytes, context: Context) -> bytes:
        """See WeightsService.DeleteWeights."""
        parsed = await parse(pb.DeleteWeightsRequest, request, context)
        request_id, digest = await identity("delete weights", parsed, context)
        expected = parsed.expected_version if parsed.HasField("expected_version") else None
        call = DeleteWeightsCall(parsed.name, expected, request_id, digest)

        def reply(_machine: Machine, done: QueueDone) -> pb.DeleteWeightsResponse:
            return pb.DeleteWeightsResponse(duplicate=done.duplicate)

        return await self._run("DeleteWeights", parsed, request, context, call, reply)

    async def get(self, request: bytes, context: Context) -> bytes:
        """See WeightsService.GetWeights."""
        parsed = await parse(pb.GetWeightsRequest, request, context)

        def reply(_machine: Machine, done: WeightsDone) -> pb.GetWeightsResponse:
            return pb.GetWeightsResponse(table=_table_of(done.tables[0]))

        return await self._run("GetWeights", parsed, request, context, ReadWeights(parsed.name), reply)

    async def list(self, request: bytes, context: Context) -> bytes:
        """See WeightsService.ListWeights."""
        parsed = await parse(pb.ListWeightsRequest, request, context)

        def reply(_machine: Machine, done: WeightsDone) -> pb.ListWeightsResponse:
            return pb.ListWeightsResponse(tables=map(_table_of, done.tables))

        return await self._run("ListWeights", parsed, request, context, ReadWeights(None), reply)

    async def _run(
        self,
        method: str,
        parsed: Any,
        request: bytes,
        context: Context,
        call: PublishWeightsCall | DeleteWeightsCall | ReadWeights,
        reply: Callable[[Machine, Any], Any],
        *,
        beforehand: Beforehand | None = None,
    ) -> bytes:
        home = await forward.domain_named(self.members, parsed.domain, context)
        path = f"WeightsService/{method}"
        return await ordered(self.admin, path, request, context, lambda: home, call, reply, beforehand=beforehand)


def _publication(parsed: pb.PublishWeightsRequest, digest: int) -> PublishWeightsCall:
    return PublishWeightsCall(
        parsed.name,
        [(each.queue, each.weight) for each in parsed.weights],
        milliseconds(parsed.valid_until),
        milliseconds(parsed.valid_for),
        parsed.expected_version if parsed.HasField("expected_version") else None,
        parsed.published_by,
        Window(milliseconds(parsed.computed_from), milliseconds(parsed.computed_until)),
        parsed.request_id,
        digest,
    )


def _answer(machine: Machine, request_id: bytes, digest: int) -> RequestAnswer:
    found = machine.find_request(request_id, digest)
    if found is None:
        text = "the commit took longer than requests are remembered: read the table to see what became of it"
        raise Refused(Reason.REASON_DEDUP_EXPIRED, text)
    return found


def _table_of(seen: TableAsOf) -> pb.WeightTable:
    table = seen.table
    made = pb.WeightTable(
        name=table.name,
        version=table.version,
        weights=[pb.QueueWeight(queue=queue, weight=weight) for queue, weight in seen.queues],
        expired=not seen.left_ms,
        published_by=table.published_by,
    )
    made.valid_until.FromMilliseconds(table.valid_until_ms)
    made.valid_for.FromMilliseconds(seen.left_ms)
    made.published_at.FromMilliseconds(table.published_ms)
    if table.window.until_ms:
        made.computed_from.FromMilliseconds(table.window.from_ms)
        made.computed_until.FromMilliseconds(table.window.until_ms)
    return made
