"""ListTransmissions and ReleaseTransmission over the wire: what an operator sees of links, and how he ends a batch.
Carries nothing.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import grpc

from replica.core.state.outcomes import Failed, Moved
from replica.machine import Refused
from replica.machine.features.batches import last_batch
from replica.machine.state.system_names import CONSUMER, target_of, xmit_queue
from replica.node.counting import until_committed
from replica.rpc.requests import Context, parse
from replica.services import forward
from replica.services.answers import Answered, header_of
from tandemq.ambient import monotonic_s
from tandemq.errors import TandemqError
from tandemq.v1 import queue_admin_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.machine import QueueState
    from replica.machine.state.system_names import Destination
    from replica.node.members import Members
    from replica.rpc.handlers import Method
    from replica.services.links.agent import Agent

_MOVED = Moved("the mastership moved while the links were looked at; repeat the call")


class LinkHandlers:
    """Their handlers at one member."""

    def __init__(self, members: Members, agent: Agent) -> None:
        self.members, self.agent = members, agent

    def methods(self) -> dict[str, Method]:
        """Their part of QueueAdminService; requests and replies are bytes."""
        unary = grpc.unary_unary_rpc_method_handler
        return {"ListTransmissions": unary(self.list), "ReleaseTransmission": unary(self.release)}

    async def list(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.ListTransmissions."""
        parsed = await parse(pb.ListTransmissionsRequest, request, context)
        home = await forward.domain_named(self.members, parsed.domain, context)

        async def listed(domain: Domain) -> Answered:
            machine = domain.shared.machine
            if not await until_committed(domain) or machine is None:
                return _MOVED
            found = [(target, each) for each in machine.state.queues.values() if (target := target_of(each.name))]
            found.sort(key=lambda each: each[0])
            rows = [self._row_of(domain, queue, target) for target, queue in found]
            places = await asyncio.gather(
                *(self._addresses(self.members.reached_by(each.manager)) for each, _ in found)
            )
            for row, endpoints in zip(rows, places, strict=True):
                row.addresses.extend(endpoints)
            header = header_of(self.members, domain)
            return pb.ListTransmissionsResponse(header=header, transmissions=rows).SerializeToString()

        path = "QueueAdminService/ListTransmissions"
        return await forward.unary(self.members, path, request, context, lambda: home, listed)

    def _row_of(self, domain: Domain, queue: QueueState, target: Destination) -> pb.Transmission:
        machine = domain.shared.machine
        assert machine is not None, "who serves has the queues' state"
        row = pb.Transmission(
            target=str(target),
            queue=queue.name,
            via=self.members.routes.get(target.manager, ""),
            messages=queue.length,
            state=pb.TRANSMISSION_STATE_CARRYING if queue.length else pb.TRANSMISSION_STATE_IDLE,
            last_batch=last_batch(machine.state, queue, CONSUMER),
        )
        known = machine.state.batches.get((queue.queue_id, CONSUMER))
        for number, batch in sorted(known.open.items()) if known is not None else ():
            if (lease := queue.leases.get(batch.lease_id)) is not None:
                row.open_batches.append(number)
                row.open_messages += lease.ranges.size
        carrier = self.agent.carrier_of(domain, queue)
        if queue.length and carrier is not None and carrier.failures:
            row.state, row.why = pb.TRANSMISSION_STATE_WAITING, carrier.why
            row.waiting.FromMilliseconds(max(0, round((monotonic_s() - carrier.since_s) * 1000)))
        return row

    async def _addresses(self, manager: str) -> tuple[str, ...]:
        assert self.members.directory is not None, "a member that serves clients has one"
        try:
            found = await self.members.directory.find(manager)
        except TandemqError:
            return ()  # the link stands still for the same reason, and says it
        return tuple(endpoint for manager in found.answer.managers for endpoint in manager.endpoints)

    async def release(self, request: bytes, context: Context) -> bytes:
        """See QueueAdminService.ReleaseTransmission."""
        parsed = await parse(pb.ReleaseTransmissionRequest, request, context)
        home = await forward.domain_named(self.members, parsed.domain, context)

        async def released(domain: Domain) -> Answered:
            return await self._release(domain, parsed)

        path = "QueueAdminService/ReleaseTransmission"
        return await forward.unary(self.members, path, request, context, lambda: home, released)

    async def _release(self, domain: Domain, asked: pb.ReleaseTransmissionRequest) -> Answered:
        from replica.services.links.carrier import GivenBack, NotHere  # and a client, which most members never need

        machine, done = domain.shared.machine, GivenBack()
        if not await until_committed(domain) or machine is None:
            return _MOVED
        try:
            queue = machine.state.named(xmit_queue(asked.target))
        except Refused as refused:
            return Failed(refused.reason, refused.message, dict(refused.metadata))
        carrier = self.agent.carrier_of(domain, queue)
        if carrier is not None:
            try:
                done = await carrier.give_back(unasked=asked.unasked)
            except NotHere:
                return _MOVED
            except TandemqError as error:
                reason = Reason.DESCRIPTOR.values_by_name[f"REASON_{error.reason}"].number
                return Failed(reason, error.message, dict(error.metadata))  # type: ignore[arg-type]  # enum number
        return pb.ReleaseTransmissionResponse(
            header=header_of(self.members, domain),
            released=done.released,
            acknowledged=done.acknowledged,
            silence=done.silence,
            in_doubt=done.in_doubt,
            batches=done.numbers,
        ).SerializeToString()
