"""Asks the peer how many clients of a queue are attached there; decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc
import grpc.aio

from replica.node.attached import AttachedClients, Client
from replica.node.members import HOP
from replica.rpc.refusals import refusal
from replica.rpc.requests import Context
from replica.services.forward import QUERY, came_over_a_hop
from replica.services.locality import is_remote
from tandemq.v1 import queue_admin_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from replica.core.state.outcomes import Failed
    from replica.node.members import Members

OWN = "x-tandemq-own"
"""On a question that a member answers for itself, whoever is master."""
ASK_S = 2.0


def client_of(queue: str, context: Context, *, producer: bool) -> Client | None:
    """Whose stream it is; None: of a client of the peer."""
    return None if came_over_a_hop(context) else Client(queue, producer, is_remote(context))


def asks_for_own(context: Context) -> bool:
    """Whether the peer wants this member's own counts."""
    return any(key == OWN for key, _ in context.invocation_metadata() or ())


async def peer_counts(members: Members, queue: str) -> AttachedClients | Failed:
    """Nobody, where there is no peer in step: its clients have no master. A refusal when it does not answer."""
    if not members.peer or members.of_queue(queue).mastership.commit.copies < 2:
        return AttachedClients()
    call: Any = members.channel().unary_unary(QUERY + "QueueAdminService/GetQueue")
    request = pb.GetQueueRequest(name=queue).SerializeToString()
    try:
        reply = await call(request, timeout=ASK_S, metadata=((HOP, members.member), (OWN, "1")))
    except grpc.aio.AioRpcError as error:
        text = f"{members.peer} does not say whether clients are attached there ({error.code().name}); repeat the call"
        return refusal(Reason.REASON_MANAGER_UNREACHABLE, text)
    info = pb.GetQueueResponse.FromString(reply).queue
    return AttachedClients(info.consumers, info.producers)
