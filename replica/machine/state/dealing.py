"""What a batch that a macro queue has dealt to several members came to, as its record says it. Decides nothing."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from replica.machine.state.dedup import DealtPart, DuplicateRun
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2


def dealt_run(
    log_index: int, epoch: int, deal: record_pb2.DealOp, enqueues: Iterable[record_pb2.EnqueueOp]
) -> DuplicateRun:
    """By the places in the batch."""
    refused: dict[int, common_pb2.Reason] = {each.ordinal: each.reason for each in deal.refusals}
    doubles: dict[int, int] = {}
    parts: list[DealtPart] = []
    downgraded = False
    for op in enqueues:
        places = op.ordinals
        refused.update((places[each.ordinal], each.reason) for each in op.refusals)
        doubles.update((places[each.ordinal], each.index) for each in op.duplicates)
        left_out = {each.ordinal for each in op.refusals} | {each.ordinal for each in op.duplicates}
        entered = array("H", [place for ordinal, place in enumerate(places) if ordinal not in left_out])
        if entered:
            parts.append(DealtPart(op.queue_id, op.first_index, entered))
        downgraded = downgraded or op.downgraded
    answer = 0, log_index, epoch, tuple(sorted(refused.items())), downgraded, tuple(sorted(doubles.items()))
    return DuplicateRun(deal.first_sequence, deal.count, *answer, 0, tuple(parts))
