"""What is asked of a request before a domain sees it: values of the contract, lengths of time, the caller's epoch.

The core refuses these too, but some of them only when messages are handed out, where nobody is left to be told.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.marks import Role
from replica.answers import refusal
from replica.effects import Failed
from replica.machine import milliseconds
from replica.node import monotonic_ms
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_service_pb2 import DeliveryFormat, SettleMode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from replica.domain import Domain
    from replica.members import Members
    from tandemq.v1.message_pb2 import Message
    from tandemq.v1.queue_service_pb2 import ConsumeOpen, DequeueRequest

TTL_S_MAX = 10 * 366 * 86_400
STALE_RETRY_MS = 100


def problem_of_receiving(request: DequeueRequest | ConsumeOpen, lease_ms_max: int) -> Failed | None:
    """What is wrong with how messages are to be received."""
    if request.settle_mode not in SettleMode.values():
        text = f"settle_mode {request.settle_mode} is unknown; use LEASE, IMMEDIATE, or leave it unset"
        return refusal(Reason.REASON_BAD_REQUEST, text)
    if request.HasField("lease_duration") and not 0 <= milliseconds(request.lease_duration) <= lease_ms_max:
        text = f"lease_duration must be from 0 (the queue's) to {lease_ms_max // 1000} s"
        return refusal(Reason.REASON_BAD_REQUEST, text)
    return None


def problem_of_format(request: ConsumeOpen) -> Failed | None:
    """A format that a newer client may know."""
    if request.format in DeliveryFormat.values():
        return None
    return refusal(Reason.REASON_BAD_REQUEST, f"format {request.format} is unknown; use MESSAGES or SEGMENTS")


def problem_of_ttl(messages: Iterable[Message]) -> Failed | None:
    """A time to live that no clock can tell."""
    for place, message in enumerate(messages):
        if message.HasField("ttl") and not 0 <= message.ttl.seconds <= TTL_S_MAX:
            text = f"messages[{place}].ttl is {message.ttl.seconds} s; it must be from 0 (never) to ten years"
            return refusal(Reason.REASON_BAD_ATTRIBUTE, text)
    return None


def stale_epoch(members: Members, domain: Domain, seen: int) -> Failed | None:
    """Refuse a caller who has seen a higher epoch than this member knows: somebody else may be master by now.

    A master asks its register at once (P7). Epochs of an unreplicated domain are each member's own and not compared.
    """
    shared = domain.shared
    own = shared.state.epoch
    if seen <= own or not shared.peer:
        return None
    if domain.replication.serving:
        domain.replication.distrust(monotonic_ms())
        members.node.dispatch(domain)
    elif shared.role is not Role.REPLICA:
        return None  # parked: whoever becomes master has the higher epoch
    text = f"the caller has seen epoch {seen}, {members.member} knows {own} in domain {shared.name}; repeat the call"
    return Failed(Reason.REASON_STALE_EPOCH, text, {"epoch": str(own), "domain": shared.name}, STALE_RETRY_MS)
