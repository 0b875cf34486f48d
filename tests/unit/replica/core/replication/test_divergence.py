"""What a SYNC would take away, to the operation: at every base, at a trimmed boundary, and beside what nobody was told
of. The log is the core's own, over a store without a disk.
"""

from __future__ import annotations

from typing import Any

import pytest

from failover.marks import DataMark
from replica.core.replication.divergence import (
    Loss,
    common_point,
    cut_above,
    first_operation,
    judge,
    lacks_committed,
    point_before,
    salvage_above,
)
from replica.core.state.effects import Note, Salvage
from replica.core.state.shared import Shared
from replica.machine import Limits
from replica.node.recovery import open_shared
from storage.memory import MemoryStore
from tandemq.peer.v1.peer_service_pb2 import EpochBoundary, SyncBegin
from tandemq.peer.v1.record_pb2 import EnqueueOp, ExpireOp, RecordHeader, RoleOp

OP, ROLE, EXPIRE = (
    RecordHeader(enqueue=EnqueueOp(queue_id=1)),
    RecordHeader(role=RoleOp(owner="a")),
    RecordHeader(expire=ExpireOp()),
)
LOG = ((1, ROLE), (1, OP), (1, OP), (2, ROLE), (2, OP), (2, OP), (2, EXPIRE), (2, OP))
"""Epoch 1 from 1 on, epoch 2 from 4 on, up to 8; 4 and 7 nobody was told of."""
EPOCHS = ((1, 1), (2, 4))


def holding(records: Any = LOG, *, solo: int = 0, committed: int = 0, kept_from: int = 1) -> Shared:
    shared = open_shared(MemoryStore(member="a", instance=b"a" * 16), 7, "main", "a", "b", 1, Limits())
    for epoch, header in records:
        shared.log.build(header, b"", epoch, volatile_body=False, held=None)
    shared.mark(DataMark.IN_SYNC)
    shared.state.answer_alone_from(solo)
    shared.state.keep_from(kept_from)
    shared.progress.on_durable(shared.log.last_index)
    if committed:
        shared.progress.commit_index = committed
    shared.outbox.take()
    return shared


def delta(base: int, target: int = 0, epochs: Any = EPOCHS) -> SyncBegin:
    return SyncBegin(base_index=base, target_index=target or base, history=boundaries(*epochs))


def full(base: int, *epochs: tuple[int, int] | tuple[int, int, bytes], target: int = 0) -> SyncBegin:
    return SyncBegin(full=True, base_index=base, target_index=target or base, history=boundaries(*epochs))


def boundaries(*epochs: Any) -> list[EpochBoundary]:
    return [
        EpochBoundary(epoch=each[0], first_index=each[1], digest=each[2] if len(each) > 2 else b"") for each in epochs
    ]


def digest(shared: Shared, log_index: int) -> bytes:
    known = shared.log.digest_at(log_index)
    assert known is not None
    return known[1]


# -- the first operation that would go ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "found"), [(1, 2), (2, 2), (3, 3), (4, 5), (5, 5), (6, 6), (7, 8), (8, 8), (9, 0), (20, 0)]
)
def test_records_that_nobody_was_told_of_are_no_operations(first: int, found: int) -> None:
    assert first_operation(holding().log, first, 1) == found


@pytest.mark.parametrize(
    ("first", "held_from", "found"),
    [
        (4, 5, 4),  # what stood at 4 is trimmed: it counts
        (4, 4, 5),  # it is held, and was no operation
        (4, 8, 4),
        (7, 8, 7),
        (4, 9, 5),  # nothing is held any more, as after a full transfer: the log in memory says
        (8, 8, 8),
    ],
)
def test_what_is_trimmed_counts_from_its_first_record_on(first: int, held_from: int, found: int) -> None:
    assert first_operation(holding().log, first, held_from) == found


def test_what_is_read_nowhere_any_more_counts() -> None:
    shared = holding()
    shared.log.ring.clear()  # nor is it in the store
    assert first_operation(shared.log, 4, 1) == 4


# -- acknowledged alone ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "solo", "loss"),
    [
        (8, 5, None),
        (7, 5, Loss(7, 8, 8)),
        (6, 5, Loss(6, 8, 8)),  # 7 is no operation
        (5, 5, Loss(5, 6, 8)),
        (4, 5, Loss(4, 5, 8)),
        (3, 5, Loss(3, 5, 8)),
        (0, 5, Loss(0, 5, 8)),  # 2 and 3 the peer has confirmed
        (3, 4, Loss(3, 5, 8)),
        (3, 6, Loss(3, 6, 8)),
        (3, 8, Loss(3, 8, 8)),
        (3, 9, None),  # it may answer alone from the next one on, and has not
        (3, 0, None),
    ],
)
def test_a_delta_takes_what_is_above_its_base_and_was_answered_alone(base: int, solo: int, loss: Loss | None) -> None:
    assert judge(holding(solo=solo), delta(base)) == loss


@pytest.mark.parametrize(
    ("mark", "counts"), [(mark, mark not in (DataMark.EMPTY, DataMark.SYNCING)) for mark in DataMark]
)
def test_a_copy_without_a_log_of_its_own_loses_nothing(mark: DataMark, counts: bool) -> None:
    shared = holding(solo=5, committed=6)
    shared.mark(mark)
    assert (judge(shared, delta(5)) is not None) is counts
    assert (lacks_committed(shared, delta(5)) is not None) is counts


def test_an_epoch_in_which_nothing_was_answered_diverges_from_nothing() -> None:
    assert judge(holding(((1, OP), (2, ROLE), (2, EXPIRE)), solo=2), delta(1)) is None
    assert judge(holding(((1, OP), (2, ROLE), (2, EXPIRE)), solo=2, kept_from=3), delta(1)) == Loss(1, 2, 3)


# -- the common point of a full transfer -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("base", "epochs", "solo", "common"),
    [
        (10, ((1, 1), (2, 4)), 0, 8),  # the same epochs: up to where the shorter one ends
        (6, ((1, 1), (2, 4)), 0, 6),
        (10, ((1, 1), (3, 6)), 0, 3),  # it was not in epoch 2
        (10, ((1, 1), (3, 3)), 0, 2),  # nor at the end of epoch 1
        (10, ((1, 1), (2, 5)), 0, 3),  # it took that number at another place: not the same epoch
        (10, ((1, 2), (2, 5)), 0, 0),
        (10, ((3, 1),), 0, 0),
        (10, (), 0, 0),
        (10, ((1, 1), (2, 4)), 6, 5),  # whose epoch it was nothing proves: what was answered alone is not believed
        (10, ((1, 1), (2, 4)), 9, 8),
        (10, ((1, 1), (2, 4)), 10, 8),
        (10, ((1, 1), (3, 6)), 3, 2),
        (6, ((1, 1), (2, 4)), 8, 6),
    ],
)
def test_epochs_tell_how_far_both_go_together(base: int, epochs: Any, solo: int, common: int) -> None:
    assert common_point(holding(solo=solo), full(base, *epochs)) == common


def test_a_first_record_that_both_hold_proves_whose_epoch_it_was() -> None:
    shared = holding(solo=6)
    same, other = digest(shared, 4), b"other".ljust(16)
    first = (1, 1, digest(shared, 1))
    assert common_point(shared, full(10, first, (2, 4, same))) == 8
    assert common_point(shared, full(10, first, (2, 4, other))) == 3
    assert common_point(shared, full(10, (1, 1, other), (2, 4, other))) == 0
    assert judge(shared, full(10, first, (2, 4, same))) is None
    assert judge(shared, full(10, first, (2, 4, other))) == Loss(3, 6, 8)


def test_where_this_member_has_trimmed_the_first_record_it_proves_nothing() -> None:
    shared = holding(solo=6)
    same = digest(shared, 4)
    shared.log.ring.clear()
    shared.log.base_index = 4  # its digest is still known
    shared.log.base_epoch, shared.log.base_digest = 2, same
    assert common_point(shared, full(10, (1, 1, b"x"), (2, 4, same))) == 8
    shared.log.base_index = 5
    assert common_point(shared, full(10, (1, 1, b"x"), (2, 4, same))) == 5
    assert judge(shared, full(10, (1, 1, b"x"), (2, 4, same))) == Loss(5, 6, 8)


def test_a_delta_proves_its_base() -> None:
    assert common_point(holding(solo=2), SyncBegin(base_index=7)) == 7


# -- one number, two owners --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("theirs", "common"),
    [
        (((1, 1), (2, 4)), 3),
        (((1, 1), (2, 3)), 2),  # its epoch began earlier
        (((1, 1), (2, 6)), 3),  # ours did
        (((2, 4),), 0),  # nothing says where they were together
        (((1, 1),), 0),
        ((), 0),
    ],
)
def test_before_an_epoch_that_both_own_they_were_together(theirs: Any, common: int) -> None:
    assert point_before(holding(), 2, boundaries(*theirs)) == common


# -- known to be committed (P21) ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("committed", "target", "epochs", "loss"),
    [
        (6, 6, EPOCHS, None),
        (6, 5, EPOCHS, Loss(5, 6, 8)),
        (6, 4, EPOCHS, Loss(4, 5, 8)),
        (7, 6, EPOCHS, None),  # 7 is no operation, and 8 is not committed
        (8, 6, EPOCHS, Loss(6, 8, 8)),
        (6, 9, ((1, 1), (2, 4), (3, 6)), Loss(5, 6, 8)),  # its epoch 3 begins where our commit index stands
        (6, 9, ((1, 1), (2, 4), (3, 7)), None),
        (6, 9, ((1, 1), (3, 4)), Loss(3, 5, 8)),
        (3, 9, ((1, 1), (3, 4)), None),
        (6, 5, ((3, 6),), None),  # it does not reach back far enough to say so
        (6, 5, (), None),
        (4, 3, EPOCHS, None),
        (0, 0, (), None),
    ],
)
def test_what_is_committed_and_lies_beyond_the_masters_history(
    committed: int, target: int, epochs: Any, loss: Loss | None
) -> None:
    begin = SyncBegin(target_index=target, history=boundaries(*epochs))
    assert lacks_committed(holding(committed=committed), begin) == loss


def test_a_commit_index_whose_record_is_not_known_says_nothing() -> None:
    shared = holding(committed=6)
    shared.log.ring.clear()
    assert lacks_committed(shared, delta(5)) is None


@pytest.mark.parametrize(
    ("base", "committed", "solo", "cut"),
    [(5, 3, 0, 5), (5, 5, 0, 5), (5, 6, 0, 6), (5, 8, 7, 6), (5, 6, 8, 6), (5, 8, 6, 5), (5, 8, 3, 5)],
)
def test_a_delta_never_cuts_what_is_committed_with_the_peer(base: int, committed: int, solo: int, cut: int) -> None:
    assert cut_above(holding(committed=committed, solo=solo), delta(base)) == cut


# -- what is copied before it goes -------------------------------------------------------------------------------------


def copied(shared: Shared, common: int) -> Salvage | None:
    salvage_above(shared, common, "test")
    found = shared.outbox.take()
    if not found:
        return None
    salvage, note = found
    assert isinstance(salvage, Salvage)
    assert isinstance(note, Note)
    assert note.text == f"{common + 1} to 8 of the log go to salvage: test"
    assert note.facts == {"first": str(first_operation(shared.log, common + 1, shared.state.kept_from))}
    return salvage


@pytest.mark.parametrize(
    ("common", "solo", "committed", "ordered_from", "sent", "salvage"),
    [
        (5, 0, 6, 0, 0, Salvage(6, 8, 6, "test", 0)),  # nothing was ordered by this process
        (5, 6, 6, 0, 0, Salvage(6, 8, 8, "test", 0)),  # all that it has alone was answered
        (5, 0, 4, 5, 5, Salvage(6, 8, 4, "test", 6)),  # ordered here from 5 on, 5 was sent
        (5, 0, 4, 7, 2, Salvage(6, 8, 4, "test", 7)),
        (5, 0, 7, 5, 5, Salvage(6, 8, 7, "test", 8)),
        (5, 6, 4, 5, 5, Salvage(6, 8, 8, "test", 9)),
        (7, 0, 4, 0, 0, Salvage(8, 8, 4, "test", 0)),
        (8, 0, 4, 0, 0, None),
    ],
)
def test_what_goes_is_copied_with_what_is_known_of_its_answers(
    common: int, solo: int, committed: int, ordered_from: int, sent: int, salvage: Salvage | None
) -> None:
    shared = holding(solo=solo, committed=committed)
    shared.progress.ordered_from, shared.progress.sent_up_to = ordered_from, sent
    assert copied(shared, common) == salvage


@pytest.mark.parametrize(
    ("before", "common", "again"),
    [
        ((6, 8), 5, False),
        ((6, 8), 6, False),
        ((6, 8), 4, True),
        ((6, 7), 5, True),
        ((0, 0), 5, True),
        ((5, 9), 5, False),
    ],
)
def test_what_was_copied_as_a_member_gave_way_is_not_copied_again(
    before: tuple[int, int], common: int, again: bool
) -> None:
    shared = holding()
    shared.state.salvaged = before
    assert (copied(shared, common) is not None) is again


def test_nothing_is_copied_that_is_no_operation_or_no_more_in_the_store() -> None:
    assert copied(holding(((1, OP), (2, ROLE), (2, EXPIRE))), 1) is None
    for mark in (DataMark.EMPTY, DataMark.SYNCING):
        shared = holding()
        shared.mark(mark)
        assert copied(shared, 5) is None
