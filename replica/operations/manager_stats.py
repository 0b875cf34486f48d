"""Puts a member's statistics into the words of the contract when somebody asks; counts nothing itself (R043, R062)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.marks import DataMark, Role
from replica.machine import Sums
from replica.node.members import LOCAL
from tandemq.v1 import manager_admin_service_pb2 as pb
from tandemq.v1 import queue_admin_service_pb2 as admin_pb

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.machine import Totals
    from replica.node.members import Members

TOTALS = tuple(field.name for field in pb.MessageTotals.DESCRIPTOR.fields)
"""What ever happened to messages, in the contract's words and the machine's."""


def state_of(members: Members) -> pb.ManagerState:
    """What its domains are, taken together."""
    domains = members.by_name.values()
    if any(_has_failed(domain) for domain in domains):
        return pb.MANAGER_STATE_FAILED
    if all(domain.shared.serving or domain.target.opened for domain in domains):
        return pb.MANAGER_STATE_OPEN
    return pb.MANAGER_STATE_OPENING


def _has_failed(domain: Domain) -> bool:
    shared = domain.shared
    return domain.orders.is_full or shared.role in (Role.FAILED, Role.DIVERGED) or shared.state.data is DataMark.DAMAGED


def stats_of(members: Members) -> pb.ManagerStats:
    """Walks over the queues of all domains: a microsecond for each idle one."""
    sums, local, waiters = Sums(members.member), 0, 0
    for name, domain in members.by_name.items():
        before = sums.queues
        if domain.shared.machine is not None:
            sums.add(domain.shared.machine.state)
        local += sums.queues - before if name == LOCAL else 0
        waiters += len(domain.orders.room)
    clients = members.attached.counts()
    return pb.ManagerStats(
        queue_counts=_queue_counts(sums, local),
        client_counts=pb.ClientCounts(
            consumers=clients.consumers, producers=clients.producers, remote=clients.remote, local=clients.local
        ),
        waiters=waiters,
        message_counts=pb.MessageCounts(
            total=sums.length,
            ready=sums.ready,
            leased=sums.leased,
            delayed=sums.delayed,
            dying=sums.dying,
            blocked=sums.blocked,
            bytes=sums.bytes,
        ),
        totals=message_totals(sums.totals),
        refused_after_accept_total=members.refused_later.total(),
    )


def _queue_counts(sums: Sums, local: int) -> pb.QueueCounts:
    types = sums.types
    return pb.QueueCounts(
        replicated=sums.queues - local,
        unreplicated=local,
        one_way=types[admin_pb.QUEUE_TYPE_ONE_WAY],
        one_way_ack=types[admin_pb.QUEUE_TYPE_ONE_WAY_ACK],
        one_way_queued_ack=types[admin_pb.QUEUE_TYPE_ONE_WAY_QUEUED_ACK],
        two_way=types[admin_pb.QUEUE_TYPE_TWO_WAY],
        open=sums.open,
        not_open=sums.queues - sums.open,
        aliases=sums.aliases,
    )


def message_totals(totals: Totals) -> pb.MessageTotals:
    """By the names that both have."""
    return pb.MessageTotals(**{name: getattr(totals, name) for name in TOTALS})
