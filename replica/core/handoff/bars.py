"""What stands in the way of a handoff at one member: all of it, not the first thing found. Changes nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.marks import DataMark, Link, Role
from failover.promotion import told_spent

if TYPE_CHECKING:
    from collections.abc import Iterable

    from replica.core.mastership.mastership import Replication
    from replica.core.ordering.orders import Orders
    from replica.core.replication.sync_target import SyncTarget
    from replica.core.state.shared import Shared

LAG_RECORDS_MAX = 20_000
"""Further behind, a drain within the hold time is not to be expected."""


def barred_here(
    shared: Shared, replication: Replication, target: SyncTarget, orders: Orders, known: Iterable[str]
) -> tuple[str, ...]:
    """The reasons at this member, whichever side it is on; `known` are those that the shell has set."""
    reasons = sorted(known)
    if shared.role is Role.MAINTENANCE:
        reasons.append("MAINTENANCE")
    if not replication.connected:
        reasons.append("NOT_CONNECTED")
    if replication.serving:
        if shared.link is not Link.PAIRED or shared.peer not in replication.required or replication.publishing:
            reasons.append("NOT_IN_SYNC")
        elif shared.log.last_index - replication.source.peer_durable > LAG_RECORDS_MAX:
            reasons.append("LAG")
        if told_spent(replication.epoch_above_all()):
            reasons.append("NO_EPOCH")
        return tuple(reasons)
    if shared.role is not Role.REPLICA or not copy_is_whole(shared, target):
        reasons.append("NOT_IN_SYNC")
    if orders.room_bytes <= orders.again_bytes:
        # As full as the other one, perhaps: the role would come back at once, and each time let a few messages in.
        reasons.append("DISK")
    return tuple(reasons)


def copy_is_whole(shared: Shared, target: SyncTarget) -> bool:
    """Whether this replica holds all that was acknowledged, and its queues' state is at hand."""
    return target.opened and shared.state.data is DataMark.IN_SYNC and shared.machine is not None
