"""Says how far the sides of a queue with PRODUCER replication are from its end, by what GetQueue says; asks nobody."""

from __future__ import annotations

from tandemq.v1 import queue_admin_service_pb2 as admin


def last_input(info: admin.QueueInfo) -> int:
    """The number of the last message that its sides may have been given: an index, or of those that were selected."""
    return info.last_selected if info.config.lockstep == admin.LOCKSTEP_SELECTED else info.last_index


def behind(info: admin.QueueInfo, passed: int) -> int:
    """Messages that a side which has settled so much has not settled; with lockstep SELECTED those too that are not
    selected yet.
    """
    waiting = info.ready + info.delayed if info.config.lockstep == admin.LOCKSTEP_SELECTED else 0
    return last_input(info) - passed + waiting
