"""Decides how a producer's batches enter that name a queue of a manager: as they are, or by a transmission queue.

The bytes are the same whenever they are sent again, at either member. Orders nothing.
"""

from __future__ import annotations

import hashlib
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc

from replica.core.messages import bodies
from replica.core.state.outcomes import Failed, Moved
from replica.machine.plan.content import check_content
from replica.node.members import HOP
from replica.rpc.refusals import refusal
from replica.services import forward
from replica.services.elsewhere import Onward, ensure, onward_of, problem_of_target, stamp, xmit_config
from replica.services.messages.enqueue import columns_and_body
from replica.services.messages.entering import check_size
from tandemq.client.identity import new_request_id
from tandemq.errors import from_rpc_error
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_admin_service_pb2 import CreateQueueRequest

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.machine import Columns
    from replica.node.members import Members
    from tandemq.v1.message_pb2 import MessageBatch

CREATE_S = 5.0


class Entrance(NamedTuple):
    """How batches of one producer for one queue enter."""

    queue: str
    """Here."""
    client_id: bytes
    """In whose name they are numbered: one producer numbers its messages for each queue by itself, and those for
    several queues of another manager enter one queue here.
    """
    onward: Onward | None = None


def way_of(members: Members, queue: str, client_id: bytes) -> Entrance:
    """Raises Refused (BAD_NAME)."""
    where = onward_of(members, queue)
    if isinstance(where, str):
        return Entrance(where, client_id)
    name = hashlib.blake2b(client_id + b"\0" + where.full_name.encode(), digest_size=16).digest()
    return Entrance(where.through, name, where)


def home_of(members: Members, way: Entrance) -> Domain:
    """Where they are ordered. What goes on and belongs to no unit of work goes by the manager's main domain, whichever
    others have a transmission queue of that name: a batch that is repeated has to meet its first copy.
    """
    return members.of_queue(way.queue) if way.onward is None else members.home()


async def made(members: Members, domain: Domain, way: Entrance) -> Failed | Moved | None:
    """The transmission queue is there from now on; at a replica its master makes it."""
    machine = domain.shared.machine
    assert way.onward is not None
    if machine is not None and machine.queue_id(way.queue) is not None:
        return None
    if domain.shared.serving:
        return await ensure(members, domain, way.queue, way.onward.target)
    if (problem := await problem_of_target(members, way.onward.target)) is not None:
        return problem
    request = CreateQueueRequest(name=way.queue, request_id=new_request_id(), config=xmit_config(members, domain))
    call: Any = members.channel().unary_unary(forward.QUERY + "QueueAdminService/CreateQueue")
    try:
        await call(request.SerializeToString(), timeout=CREATE_S, metadata=((HOP, members.member),))
    except grpc.aio.AioRpcError as error:
        found = from_rpc_error(error)
        if found.reason == "QUEUE_EXISTS":
            return None  # somebody else's first message
        known = Reason.DESCRIPTOR.values_by_name.get(f"REASON_{found.reason}")
        if known is None or not found.definite:
            return Moved(f"the master did not make {way.queue}: {found}; open the stream again")
        return refusal(known.number, found.message, dict(found.metadata))  # type: ignore[arg-type]  # enum number
    return None


async def batch_of(members: Members, way: Entrance, messages: MessageBatch) -> tuple[Columns, bytes]:
    """Of a batch that goes on. Raises Refused."""
    assert way.onward is not None
    check_content(messages)  # before it gets names that no client may set
    rows = [bodies.row_of(messages, ordinal) for ordinal in range(len(messages.payloads))]
    for row in rows:
        check_size(row, members.node.limits)
        stamp(row, way.onward)
    return await columns_and_body(way.queue, rows, members.node.limits, managers=True)
