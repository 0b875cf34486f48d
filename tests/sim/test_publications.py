"""What the judge of publications and numbered batches makes of a log."""

from __future__ import annotations

import pytest

from chaos.sim.judges.publications import NUMBERED, ONCE, WHOLE, FromLog
from tandemq.peer.v1 import record_pb2 as pb
from tandemq.v1 import common_pb2

STAGE, OTHER = b"s" * 16, b"t" * 16
EPOCH = 3


def reading(*records: pb.RecordHeader) -> FromLog:
    """A log that begins with these."""
    found = FromLog()
    for log_index, header in enumerate(records, 1):
        found.add(log_index, EPOCH, header)
    return found


def rules(*records: pb.RecordHeader) -> list[str]:
    return [rule for rule, _ in reading(*records).problems]


def staged(stage_id: bytes = STAGE) -> pb.RecordHeader:
    return pb.RecordHeader(stage=pb.StageOp(stage_id=stage_id, queue_id=1, count=2))


def published(batch: int = 1, *stage_ids: bytes, duplicate: bool = False) -> pb.RecordHeader:
    op = pb.PublishOp(writer="w", batch=batch, stage_ids=stage_ids or (STAGE,), duplicate=duplicate)
    return pb.RecordHeader(publish=op)


def entered(part: int, first_index: int = 1) -> pb.RecordHeader:
    return pb.RecordHeader(enqueue=pb.EnqueueOp(queue_id=1, first_index=first_index, count=2, staged=part))


def leased(first: int, number: int = 0) -> pb.RecordHeader:
    op = pb.LeaseOp(queue_id=1, ranges=[common_pb2.IndexRange(first=first, count=1)])
    if number:
        op.batch_consumer, op.batch_number = "c", number
    return pb.RecordHeader(lease=op)


def finished(first: int, number: int) -> pb.RecordHeader:
    effect = pb.SettleEffect(ranges=[common_pb2.IndexRange(first=first, count=1)])
    return pb.RecordHeader(settle=pb.SettleOp(queue_id=1, batch_consumer="c", batch_number=number, effects=[effect]))


DROPS = {
    "aborted": pb.RecordHeader(unstage=pb.UnstageOp(stage_ids=[STAGE])),
    "expired": pb.RecordHeader(expire=pb.ExpireOp(stage_ids=[STAGE])),
}


def test_a_log_in_order_breaks_nothing() -> None:
    assert rules(staged(), staged(OTHER), published(1, STAGE, OTHER), entered(1), entered(2, 3), leased(1)) == []


@pytest.mark.parametrize("cause", DROPS)
def test_a_stage_that_was_dropped_may_be_staged_again_under_its_id(cause: str) -> None:
    """Seed 5093 of `publications`: its time was over, and its writer staged the rows anew."""
    assert rules(staged(), DROPS[cause], staged(), published(), entered(3), leased(1)) == []
    assert rules(staged(), DROPS[cause], staged(), published(), entered(1)) == [ONCE]


def test_a_repeated_batch_drops_what_was_staged_for_it() -> None:
    again = published(1, STAGE, duplicate=True)
    assert rules(staged(), published(), entered(1), staged(), again, staged(), published(2), entered(6, 3)) == []


def test_a_batch_is_published_once() -> None:
    assert rules(staged(), published(), entered(1), staged(), published()) == [ONCE]


def test_a_part_enters_once_and_in_order() -> None:
    assert rules(staged(), staged(OTHER), published(1, STAGE, OTHER), entered(2)) == [ONCE]
    assert rules(staged(), published(), entered(1), entered(1, 3)) == [ONCE]
    assert rules(staged(), entered(1)) == [ONCE]


def test_nobody_is_given_a_part_of_what_is_not_whole() -> None:
    assert rules(staged(), staged(OTHER), published(1, STAGE, OTHER), entered(1), leased(1)) == [WHOLE]


def test_a_number_is_one_lease_and_is_finished_once() -> None:
    assert rules(leased(1, 7), finished(1, 7)) == []
    assert rules(leased(1, 7), leased(1, 7)) == [NUMBERED]
    assert rules(leased(1, 7), finished(2, 7)) == [NUMBERED]
    assert rules(leased(1, 7), finished(1, 7), finished(1, 7)) == [NUMBERED]
    assert rules(finished(1, 7)) == [NUMBERED]
