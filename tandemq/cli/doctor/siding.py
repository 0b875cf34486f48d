"""Judges the sides of a queue with PRODUCER replication by what its master says of them; asks nobody."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandemq.cli.doctor.finding import Check, Finding

if TYPE_CHECKING:
    from tandemq.v1 import queue_admin_service_pb2 as admin_pb

SIDES = Check("sides", "with one of two processes away nobody stands where the other one stands")
FULL = 0.5
"""Of max_length, held for one side alone: its process is away, or does not come along."""


def sides(queue: admin_pb.QueueInfo) -> list[Finding]:
    """One a side."""
    furthest = max((side.passed for side in queue.sides if not side.lost), default=0)
    return [_side(queue, side, furthest - side.passed) for side in queue.sides]


def _side(queue: admin_pb.QueueInfo, side: admin_pb.QueueSide, behind: int) -> Finding:
    about, place = f"queue {queue.name}", f"the side at {side.member}"
    facts = {"member": side.member, "passed": side.passed}
    if side.lost:
        text = f"{place} has lost its place: {side.because}; messages {side.passed + 1} to {side.lost_until} are gone"
        step = f"`tandemq queue restart-side {queue.name} --member {side.member}`, docs/runbooks/SideLost.md"
        return SIDES.fail(about, text, step, **facts)
    if behind > queue.config.max_length * FULL:
        text = f"{place} is {behind:,} messages behind the other one, and the queue holds {queue.length:,} of at most "
        text += f"{queue.config.max_length:,}"
        step = f"start its process at {side.member}, or give it less to do; docs/runbooks/SideStands.md"
        return SIDES.warn(about, text, step, **facts)
    return SIDES.ok(about, f"{place} has settled everything up to {side.passed:,} of {queue.last_index:,}", **facts)
