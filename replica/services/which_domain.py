"""Which domain a call means that names a queue, or why that is not said. Each domain has transmission queues of its own
(X1), so one name may lead to several of them; every other name leads to one queue.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.machine.state.system_names import target_of
from replica.node.members import LOCAL, MAIN
from replica.rpc.refusals import abort, refusal
from replica.services.elsewhere import no_domain
from tandemq.v1 import queue_admin_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.core.state.outcomes import Failed
    from replica.node.members import Members
    from replica.rpc.requests import Context


def home_of_new(members: Members, config: pb.QueueConfig) -> Domain | Failed:
    """Where a new queue goes."""
    replication = config.replication
    if not members.peer:
        if replication in (pb.REPLICATION_FULL, pb.REPLICATION_PRODUCER):
            return refusal(
                Reason.REASON_CONFIG_ERROR,
                "an unpaired manager cannot hold a replicated queue; configure a peer, or use replication NONE",
            )
        name = config.domain or LOCAL
    else:
        name = config.domain or (LOCAL if replication == pb.REPLICATION_NONE else MAIN)
    domain = members.by_name.get(name)
    if domain is None:
        known = ", ".join(sorted(members.by_name))
        text = f"there is no domain {name!r} here, only {known}; list it under [manager] domains on both members"
        return refusal(Reason.REASON_CONFIG_ERROR, text)
    if (name == LOCAL) != (replication == pb.REPLICATION_NONE or (not members.peer and not replication)):
        wanted = "REPLICATION_NONE" if name == LOCAL else "a replicated queue"
        if not (name == LOCAL and not replication):
            return refusal(Reason.REASON_CONFIG_ERROR, f"domain {name!r} takes {wanted} only")
    return domain


def domain_for(members: Members, queue: str, wanted: str) -> Domain:
    """Where the queue is that the call means; `wanted` is the name of a domain here, or empty."""
    return members.by_name[wanted] if wanted else members.of_queue(queue)


async def check_domain(members: Members, queue: str, wanted: str, context: Context) -> None:
    """Refuses a call that names no domain here (CONFIG_ERROR), or a queue that several have (BAD_REQUEST)."""
    if (problem := problem_of_domain(members, queue, wanted)) is not None:
        await abort(context, problem)


def problem_of_domain(members: Members, queue: str, wanted: str = "") -> Failed | None:
    """Why the call is refused, as far as this member knows the queues."""
    if wanted:
        if wanted in members.by_name:
            return None
        unknown = no_domain(members, wanted)
        return refusal(unknown.reason, unknown.message, unknown.metadata)
    if target_of(queue) is None:
        return None
    found = [name for name, domain in members.by_name.items() if _has(domain, queue)]
    if len(found) < 2:
        return None
    names = ", ".join(sorted(found))
    text = f"queue {queue} is in each of the domains {names}: say which one is meant (domain)"
    return refusal(Reason.REASON_BAD_REQUEST, text, {"queue": queue, "domains": names})


def problem_of_link(members: Members, queue: str) -> Failed | None:
    """Why a call for what goes by that transmission queue is refused, which names no domain and means main for that: at
    the serving master of main, which has no such queue, while another domain has one. A call that was accepted has made
    the queue in main: when it is repeated, it meets what it did.
    """
    home = members.home()
    found = sorted(name for name, domain in members.by_name.items() if domain is not home and _has(domain, queue))
    if not found or _has(home, queue):
        return None
    text = f"queue {queue} is in domain {', '.join(found)} and not in {home.shared.name}: say which is meant (domain)"
    return refusal(Reason.REASON_BAD_REQUEST, text, {"queue": queue, "domains": ", ".join(found)})


def taken_elsewhere(members: Members, name: str, home: Domain) -> Failed | None:
    """M1: queues, macro queues and proxies of all domains have one name space. As far as it is known here; within its
    own domain the master looks.
    """
    other = members.of_queue(name)
    if other is home or not _has(other, name):
        return None
    text = f"queue, macro queue or proxy {name!r} exists in domain {other.shared.name}"
    return refusal(Reason.REASON_QUEUE_EXISTS, text, {"queue": name})


def _has(domain: Domain, queue: str) -> bool:
    machine = domain.shared.machine
    return machine is not None and machine.knows(queue)
