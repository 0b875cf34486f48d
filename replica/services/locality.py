"""Decides whether a caller is on this host, and refuses others where a queue serves its own host only.

The member that a client is attached to decides, by its own copy of the queue's attributes: what comes over from the
peer has been let through there.
"""

from __future__ import annotations

import socket
from functools import lru_cache
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from replica.machine.plan.members import queues_of
from replica.rpc.refusals import abort, refusal
from replica.services.forward import came_over_a_hop
from replica.services.passage import came_through_a_proxy
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from replica.core.state.outcomes import Failed
    from replica.node.members import Members

ADDRESSES_MAX = 4096


def is_here(peer: str) -> bool:
    """Whether gRPC's name of a caller (`ipv4:10.0.0.1:4711`, `unix:`) is of this host."""
    kind, _, place = peer.partition(":")
    if kind not in ("ipv4", "ipv6"):
        return True  # a socket file, or this process
    host, _, _port = unquote(place).rpartition(":")
    return _is_own(host.strip("[]").partition("%")[0])


@lru_cache(maxsize=ADDRESSES_MAX)
def _is_own(host: str) -> bool:
    """Only an address of this host can be bound. Remembered: hosts keep their addresses while they talk to us."""
    address = ip_address(host)
    if address.is_loopback:
        return True
    family = socket.AF_INET if address.version == 4 else socket.AF_INET6
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        try:
            probe.bind((host, 0))
        except OSError:
            return False
    return True


def is_remote(context: Any) -> bool:
    """Whether a call comes from another host, and not by way of the peer; or through another manager's proxy."""
    if came_over_a_hop(context):
        return False
    return came_through_a_proxy(context) or not is_here(str(context.peer()))


def problem_of_origin(members: Members, queue: str, context: Any) -> Failed | None:
    """A call from another host for a queue that serves its own host only; asks where the caller is only then."""
    return _refusal(members, queue) if _is_local_only(members, queue) and is_remote(context) else None


async def check_origin(members: Members, queue: str, context: Any) -> None:
    """Refuses the call, or lets it through."""
    if (problem := problem_of_origin(members, queue, context)) is not None:
        await abort(context, problem)


def problem_of_remote(members: Members, queue: str) -> Failed | None:
    """The same for a caller that is known to be remote."""
    return _refusal(members, queue) if _is_local_only(members, queue) else None


def _is_local_only(members: Members, queue: str) -> bool:
    """Of a macro queue: one of its members is."""
    machine = members.of_queue(queue).shared.machine
    if machine is None:
        return False
    queue_id, macro = machine.queue_id(queue), machine.state.macros.by_name.get(queue)
    known = macro.members if macro is not None else () if queue_id is None else (queue_id,)
    configs = (queue.config for queue in queues_of(machine.state, known))
    return any(config.HasField("remote_clients_allowed") and not config.remote_clients_allowed for config in configs)


def _refusal(members: Members, queue: str) -> Failed:
    text = (
        f"queue {queue} serves clients on the host of {members.member} only (remote_clients_allowed = false); "
        "connect there, or have an administrator change the attribute"
    )
    return refusal(Reason.REASON_REMOTE_NOT_ALLOWED, text)
