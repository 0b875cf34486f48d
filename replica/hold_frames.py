"""What becomes of a batch that the peer holds for one of its clients, at the master. Holds nothing itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.machine import Refused
from tandemq.peer.v1.peer_service_pb2 import HoldReject
from tandemq.v1.common_pb2 import Error, Reason

if TYPE_CHECKING:
    from replica.domain import Domain
    from tandemq.peer.v1.peer_service_pb2 import Hold, PeerFrame


def take_hold(domain: Domain, frame: PeerFrame) -> None:
    """Order it, refuse it, or let it wait for room in its turn."""
    if not domain.replication.serving or domain.held_call is None:
        return
    hold = frame.hold
    if not hold.batch:
        _withdraw(domain, hold)
        return
    try:
        call = domain.held_call(frame)
    except Refused as refused:
        error = Error(reason=refused.reason, message=refused.message, metadata=refused.metadata)
        domain.shared.send(hold_reject=HoldReject(key=hold.key, error=error))
        return
    if hold.full_wait_ms:
        call.full_until_ms = domain.orders.now_ms + hold.full_wait_ms
    if domain.shared.draining:
        domain.holding.park(call)
    else:
        domain.orders.execute(call)


def _withdraw(domain: Domain, hold: Hold) -> None:
    """The caller has gone. What is ordered, or about to be, is answered as ever."""
    key = hold.key
    call = domain.orders.room.leave_held(key.queue, (key.client_id, key.first_sequence))
    if call is not None:
        gone = Refused(Reason.REASON_QUEUE_FULL, "its caller has gone while it waited for room")
        domain.orders.refuse(call, gone)
