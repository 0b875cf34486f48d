"""What is asked of a request before a domain sees it: values of the contract, lengths of time, the caller's epoch.

The core refuses these too, but some of them only when messages are handed out, where nobody is left to get the refusal.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.marks import Role
from replica.core.messages import copies
from replica.core.state.outcomes import Failed
from replica.machine import Refused, milliseconds
from replica.machine.plan.content import check_message
from replica.machine.plan.stage import NAME_BYTES_MAX
from replica.node.members import LOCAL
from replica.node.protocols import peer_lacks
from replica.rpc.refusals import refusal
from tandemq.ambient import monotonic_ms
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.queue_admin_service_pb2 import REPLICATION_PRODUCER
from tandemq.v1.queue_service_pb2 import DeliveryFormat, DequeueRequest, SettleMode

if TYPE_CHECKING:
    from collections.abc import Iterable

    from google.protobuf.duration_pb2 import Duration

    from replica.core.domain import Domain
    from replica.node.members import Members
    from tandemq.v1.message_pb2 import Message
    from tandemq.v1.queue_admin_service_pb2 import QueueConfig
    from tandemq.v1.queue_service_pb2 import ConsumeOpen

TTL_S_MAX = 10 * 366 * 86_400
NANOS = 1_000_000_000
YEAR_9999_S = 253_402_300_799
STALE_RETRY_MS = 100


def problem_of_peer(members: Members, domain: Domain, about: str, what: str) -> Failed | None:
    """NEWER_FORMAT where a member of the pair is too old for `what` (decision 0106); a domain of one member alone has
    nobody who could be.
    """
    lacks = peer_lacks(members.node, what) if domain.shared.name != LOCAL else ""
    return refusal(Reason.REASON_NEWER_FORMAT, f"{about}: {lacks}") if lacks else None


def problem_of_sides(members: Members, domain: Domain, name: str, config: QueueConfig) -> Failed | None:
    """The same, of a queue that is to be made with these attributes."""
    if config.replication != REPLICATION_PRODUCER:
        return None
    return problem_of_peer(members, domain, f"queue {name} would have sides", "sides of a queue")


def problem_of_receiving(request: DequeueRequest | ConsumeOpen, lease_ms_max: int) -> Failed | None:
    """What is wrong with how messages are to be received."""
    if request.settle_mode not in SettleMode.values():
        text = f"settle_mode {request.settle_mode} is unknown; use LEASE, IMMEDIATE, or leave it unset"
        return refusal(Reason.REASON_BAD_REQUEST, text)
    if request.HasField("lease_duration") and not 0 <= milliseconds(request.lease_duration) <= lease_ms_max:
        text = f"lease_duration must be from 0 (the queue's) to {lease_ms_max // 1000} s"
        return refusal(Reason.REASON_BAD_REQUEST, text)
    if isinstance(request, DequeueRequest) and request.unit_id and is_immediate(request.settle_mode):
        text = "settle_mode IMMEDIATE removes messages before anything is committed; in a unit of work leave it unset"
        return refusal(Reason.REASON_BAD_REQUEST, text)
    return None


def is_immediate(mode: int) -> bool | None:
    """What a consumer asks for; None: whatever the queue says."""
    return mode == SettleMode.SETTLE_MODE_IMMEDIATE if mode else None


def problem_of_format(request: ConsumeOpen | DequeueRequest) -> Failed | None:
    """A format that a newer client may know."""
    if request.format in DeliveryFormat.values():
        return None
    return refusal(Reason.REASON_BAD_REQUEST, f"format {request.format} is unknown; use MESSAGES or SEGMENTS")


def problem_of_ttl(messages: Iterable[Message]) -> Failed | None:
    """A time to live, or until delivery, beyond what a clock can count."""
    for place, message in enumerate(messages):
        if text := _problem_of_times(message):
            return refusal(Reason.REASON_BAD_ATTRIBUTE, f"messages[{place}].{text}")
    return None


def _problem_of_times(message: Message) -> str:
    if message.HasField("ttl") and not 0 <= message.ttl.seconds <= TTL_S_MAX:
        return f"ttl is {message.ttl.seconds} s; it must be from 0 (never) to ten years"
    if message.HasField("delay") and not 0 <= message.delay.seconds <= TTL_S_MAX:
        return f"delay is {message.delay.seconds} s; it must be from 0 (none) to ten years"
    if message.HasField("deliver_at"):
        at = message.deliver_at
        if not (0 <= at.seconds <= YEAR_9999_S and 0 <= at.nanos < NANOS):
            return "deliver_at must be from 1970 to the end of 9999, with 0 to 999,999,999 nanos"
    return ""


def problem_of_answer(message: Message) -> Failed | None:
    """What no client may send, and what no queue could hold, if the request wants its answer in one: nobody is left to
    get the refusal then.
    """
    if text := _problem_of_times(message):
        return refusal(Reason.REASON_BAD_ATTRIBUTE, f"message.{text}")
    try:
        check_message(message)
        copies.check(message)
    except Refused as refused:
        return refusal(refused.reason, f"the answer cannot be a message: {refused.message}")
    return None


def problem_of_identity(writer: str, query_id: str, number: int, after: int) -> Failed | None:
    """U15: what a writer, its number and the one before it may be."""
    text = ""
    if not writer:
        if number or after or query_id:
            text = "number, after and query_id are a writer's: name it, or leave them out"
    elif max(len(writer.encode()), len(query_id.encode())) > NAME_BYTES_MAX:
        text = f"writer and query_id may have {NAME_BYTES_MAX} bytes each"
    elif number <= after:
        text = (
            f"number {number} does not follow {after}: numbers of a writer rise from 1, and `after` is the last one, 0 "
            "for the first unit"
        )
    return refusal(Reason.REASON_BAD_REQUEST, text) if text else None


def problem_of_wait(name: str, wait: Duration) -> Failed | None:
    """A wait beyond what a clock can count."""
    if 0 <= wait.seconds <= TTL_S_MAX and wait.nanos >= 0:
        return None
    text = f"{name} is {wait.seconds} s; it must be from 0 (not at all) to ten years"
    return refusal(Reason.REASON_BAD_REQUEST, text)


def wait_ms(wait: Duration) -> int:
    """For timers that count milliseconds. Rounded up: a nanosecond is a wait, where 0 is none (R023)."""
    return int(wait.seconds) * 1_000 - (-int(wait.nanos) // 1_000_000)


def wait_s(wait: Duration) -> float:
    """For the event loop's timers."""
    return float(wait.seconds) + float(wait.nanos) / 1e9


def stale_epoch(members: Members, domain: Domain, seen: int) -> Failed | None:
    """Refuse a caller who has seen a higher epoch than this member knows: somebody else may be master by now.

    A master asks its register at once (P7). Epochs of an unreplicated domain are each member's own and not compared.
    """
    shared = domain.shared
    own = shared.state.epoch
    if seen <= own or not shared.peer:
        return None
    if domain.shared.serving:
        domain.mastership.view.read(monotonic_ms())
        members.node.dispatch(domain)
    elif shared.role is not Role.REPLICA:
        return None  # parked: whoever becomes master has the higher epoch
    text = f"the caller has seen epoch {seen}, {members.member} knows {own} in domain {shared.name}; repeat the call"
    return Failed(Reason.REASON_STALE_EPOCH, text, {"epoch": str(own), "domain": shared.name}, STALE_RETRY_MS)
