"""How settlements are gathered, said, and what becomes of those that are refused."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from tandemq.client.settling import (
    FRAMES_UNCONFIRMED_MAX,
    HOMES_KEPT,
    RANGES_PER_FRAME_MAX,
    SMALL_MESSAGES,
    Act,
    Lost,
    Settling,
    merge,
    to_settlement,
)
from tandemq.errors import LeaseLost, Refused
from tandemq.v1 import common_pb2 as common
from tandemq.v1 import queue_service_pb2 as pb

ACK, RELEASE, REJECT, EXTEND = pb.OUTCOME_ACK, pb.OUTCOME_RELEASE, pb.OUTCOME_REJECT, pb.OUTCOME_EXTEND
LOST = common.Error(reason=common.REASON_LEASE_LOST)


def said(settling: Settling) -> list[tuple[int, list[tuple[int, int, list[tuple[int, int]]]]]]:
    """Frames as (settle id, [(lease, outcome, ranges)])."""
    found = []
    while (data := settling.next_frame()) is not None:
        frame = pb.ConsumeRequest.FromString(data).settle
        found.append(
            (
                frame.settle_id,
                [
                    (each.lease_id, each.outcome, [(run.first, run.count) for run in each.ranges])
                    for each in frame.settlements
                ],
            )
        )
    return found


def result(error: common.Error | None = None, *refused: tuple[int, int]) -> pb.SettleResult:
    return pb.SettleResult(
        error=error, refused=[common.IndexRange(first=first, count=count) for first, count in refused]
    )


def answer(settling: Settling, settle_id: int, *results: pb.SettleResult) -> Any:
    return settling.on_settled(pb.ConsumeSettled(settle_id=settle_id, results=results))


@pytest.mark.parametrize(
    ("runs", "merged"),
    [
        ([], []),
        ([(5, 1)], [(5, 1)]),
        ([(5, 1), (6, 1)], [(5, 2)]),
        ([(6, 1), (5, 1)], [(5, 2)]),
        ([(5, 1), (7, 1)], [(5, 1), (7, 1)]),
        ([(5, 3), (6, 1)], [(5, 3)]),
        ([(5, 3), (7, 4)], [(5, 6)]),
        ([(5, 3), (5, 3)], [(5, 3)]),
        ([(5, 2), (9, 1), (7, 1)], [(5, 3), (9, 1)]),
    ],
)
def test_runs_that_touch_or_overlap_are_one(runs: Any, merged: Any) -> None:
    assert merge(runs) == merged


def test_acts_of_a_kind_are_gathered_and_others_stay_apart_in_their_order() -> None:
    settling = Settling()
    for act, index in ((Act(1, ACK), 5), (Act(2, ACK), 9), (Act(1, ACK), 6), (Act(1, RELEASE), 7), (Act(1, ACK), 8)):
        settling.add(act, ((index, 1),))
    assert settling.messages == 5
    assert said(settling) == [
        (1, [(1, ACK, [(5, 2), (8, 1)]), (2, ACK, [(9, 1)]), (1, RELEASE, [(7, 1)])]),
    ]
    assert said(settling) == [], "once"
    assert settling.messages == 5, "nothing is confirmed yet"


def test_a_settlement_says_what_the_application_said() -> None:
    plain = to_settlement(Act(7, ACK), ((1, 2),))
    assert not plain.HasField("extension")
    assert not plain.HasField("delay")
    extended = to_settlement(Act(7, EXTEND, extension=timedelta(seconds=3)), ((1, 2),))
    assert (extended.lease_id, extended.outcome, extended.extension.seconds) == (7, EXTEND, 3)
    delayed = to_settlement(Act(7, RELEASE, delay=timedelta(seconds=4)), ((1, 2),))
    assert (delayed.outcome, delayed.delay.seconds, delayed.HasField("extension")) == (RELEASE, 4, False)
    rejected = to_settlement(Act(7, REJECT, reason="no"), ((1, 2), (9, 1)))
    assert (rejected.reason, [(each.first, each.count) for each in rejected.ranges]) == ("no", [(1, 2), (9, 1)])


def test_who_settled_what_was_refused_is_told_and_nobody_else() -> None:
    settling = Settling()
    ack, release = Act(1, ACK), Act(1, RELEASE)
    settling.add(ack, ((1, 3),), "before")
    settling.add(ack, ((4, 2),), "in it")
    settling.add(ack, ((8, 1),), "behind")
    settling.add(release, ((20, 1),), "another act")
    said(settling)
    confirmed = answer(settling, 1, result(LOST, (5, 2)), result())
    assert confirmed.error is None
    (lost,) = confirmed.lost
    assert (lost.act, lost.ranges, type(lost.error)) == (ack, ((5, 2),), LeaseLost)
    assert [(watcher.sink, type(error)) for watcher, error in confirmed.watchers] == [
        ("before", type(None)),
        ("in it", LeaseLost),
        ("behind", type(None)),
        ("another act", type(None)),
    ]
    assert settling.messages == 0


@pytest.mark.parametrize(
    ("first", "count", "hit"), [(3, 1, False), (4, 1, True), (5, 1, True), (6, 1, False), (3, 2, True)]
)
def test_to_the_message(first: int, count: int, hit: bool) -> None:
    settling = Settling()
    settling.add(Act(1, ACK), ((4, 2),), "watched")
    said(settling)
    ((_, error),) = answer(settling, 1, result(LOST, (first, count))).watchers
    assert (error is not None) is hit


def test_a_refusal_that_names_no_messages_is_of_all_of_them() -> None:
    settling = Settling()
    settling.add(Act(1, ACK), ((1, 1), (5, 2)), "watched")
    said(settling)
    confirmed = answer(settling, 1, result(LOST))
    assert confirmed.lost == [Lost(Act(1, ACK), ((1, 1), (5, 2)), confirmed.lost[0].error)]
    assert isinstance(confirmed.watchers[0][1], LeaseLost)


def test_each_refusal_has_its_own_reason() -> None:
    settling = Settling()
    settling.add(Act(1, ACK), ((1, 1),), "first")
    settling.add(Act(2, ACK), ((1, 1),), "second")
    said(settling)
    closed = common.Error(reason=common.REASON_INVALID_STATE)
    watchers = answer(settling, 1, result(LOST), result(closed)).watchers
    assert [type(error) for _, error in watchers] == [LeaseLost, Refused]


def test_one_that_may_be_tried_again_leaves_all_of_its_frame_and_tells_nobody() -> None:
    settling = Settling()
    settling.add(Act(1, ACK), ((1, 1),), "first")
    settling.add(Act(2, ACK), ((1, 1),), "second")
    (before,) = said(settling)
    confirmed = answer(settling, 1, result(LOST), result(common.Error(reason=common.REASON_NO_MASTER)))
    assert (confirmed.lost, confirmed.watchers) == ([], [])
    assert confirmed.error is not None
    assert settling.messages == 2
    settling.opened()
    assert said(settling) == [before]
    assert [error for _, error in answer(settling, 1, result(), result()).watchers] == [None, None]


def test_an_answer_that_comes_twice_or_to_nothing_says_nothing() -> None:
    settling = Settling()
    settling.add(Act(1, ACK), ((1, 1),), "watched")
    said(settling)
    assert answer(settling, 7, result(LOST)) == ([], [], None)
    assert len(answer(settling, 1, result()).watchers) == 1
    assert answer(settling, 1, result(LOST)) == ([], [], None)
    assert settling.messages == 0


def test_who_waits_for_more_than_a_frame_holds_is_told_with_the_last_of_them() -> None:
    settling = Settling()
    ranges = [(2 * number, 1) for number in range(RANGES_PER_FRAME_MAX + 1)]
    settling.add(Act(1, ACK), ranges, "watched")
    frames = said(settling)
    assert [(number, len(acts[0][2])) for number, acts in frames] == [(1, RANGES_PER_FRAME_MAX), (2, 1)]
    assert answer(settling, 1, result()).watchers == []
    assert not settling.is_confirmed(2)
    ((watcher, error),) = answer(settling, 2, result()).watchers
    assert (watcher.sink, error, settling.is_confirmed(2)) == ("watched", None, True)


def test_few_settlements_wait_for_the_frame_under_way_and_leave_together() -> None:
    settling = Settling()
    settling.add(Act(1, ACK), ((1, 1),))
    assert said(settling) == [(1, [(1, ACK, [(1, 1)])])], "at once where nothing is under way"
    settling.add(Act(1, ACK), ((2, 1),))
    settling.add(Act(1, ACK), ((3, 1),))
    assert said(settling) == []
    answer(settling, 1, result())
    assert said(settling) == [(2, [(1, ACK, [(2, 2)])])]


@pytest.mark.parametrize(("count", "leaves"), [(SMALL_MESSAGES - 1, False), (SMALL_MESSAGES, True)])
def test_many_settlements_do_not_wait(count: int, leaves: bool) -> None:
    settling = Settling()
    settling.add(Act(1, ACK), ((1, 1),))
    said(settling)
    settling.add(Act(1, ACK), ((2, count),))
    assert bool(said(settling)) is leaves


def test_many_settlements_wait_once_enough_frames_are_unconfirmed() -> None:
    settling = Settling()
    for index in range(FRAMES_UNCONFIRMED_MAX):
        first = 1 + index * SMALL_MESSAGES
        settling.add(Act(1, ACK), ((first, SMALL_MESSAGES),))
        assert said(settling) == [(index + 1, [(1, ACK, [(first, SMALL_MESSAGES)])])]
    settling.add(Act(1, ACK), ((7_001, SMALL_MESSAGES),))
    settling.add(Act(1, ACK), ((9_001, SMALL_MESSAGES),))
    assert said(settling) == []
    answer(settling, 2, result())
    assert said(settling) == [
        (FRAMES_UNCONFIRMED_MAX + 1, [(1, ACK, [(7_001, SMALL_MESSAGES), (9_001, SMALL_MESSAGES)])])
    ]


def test_whoever_waits_for_all_that_is_settled_waits_for_no_frame_before_it() -> None:
    """A frame that is made is not held: `settled` asks for it."""
    settling = Settling()
    settling.add(Act(1, ACK), ((1, 1),))
    said(settling)
    settling.add(Act(1, ACK), ((2, 1),))
    settling.seal()
    assert said(settling) == [(2, [(1, ACK, [(2, 1)])])]


def test_what_was_held_back_goes_behind_what_is_written_again_on_a_new_stream() -> None:
    settling = Settling()
    settling.add(Act(1, ACK), ((1, 1),))
    said(settling)
    settling.add(Act(1, ACK), ((2, 1),))
    assert said(settling) == []
    settling.opened()
    assert said(settling) == [(1, [(1, ACK, [(1, 1)])])]
    answer(settling, 1, result())
    assert said(settling) == [(2, [(1, ACK, [(2, 1)])])]


def test_what_is_settled_twice_is_confirmed_once() -> None:
    settling = Settling()
    settling.add(Act(1, ACK), ((1, 3),))
    settling.add(Act(1, ACK), ((2, 2),))
    said(settling)
    answer(settling, 1, result())
    assert settling.messages == 0, "nothing is left that anybody would wait for"


def test_at_the_end_whoever_waits_is_named_written_or_not() -> None:
    settling = Settling()
    settling.add(Act(1, ACK), ((1, 1),), "written")
    said(settling)
    settling.add(Act(1, ACK), ((2, 1),), "gathered")
    settling.add(Act(1, ACK), ((3, 1),))
    assert [watcher.sink for watcher in settling.give_up()] == ["written", "gathered"]
    assert (settling.messages, said(settling), settling.give_up()) == (0, [], [])
    assert settling.is_confirmed(1)


def test_a_settlement_names_the_member_of_a_macro_queue_that_gave_the_lease() -> None:
    """M6: the member that has it may not know the lease any more. Other leases are nobody's but the queue's."""
    settling = Settling()
    settling.note_home(7, "member")
    for lease_id in (7, 8):
        settling.add(Act(lease_id, pb.OUTCOME_ACK), [(1, 1)])
    data = settling.next_frame()
    assert data is not None
    settlements = pb.ConsumeRequest.FromString(data).settle.settlements
    assert [(each.lease_id, each.queue) for each in settlements] == [(7, "member"), (8, "")]


def test_of_leases_of_macro_queues_the_newest_are_known() -> None:
    settling = Settling()
    for lease_id in range(HOMES_KEPT + 1):
        settling.note_home(lease_id, "member")
    for lease_id in (0, 1):
        settling.add(Act(lease_id, pb.OUTCOME_ACK), [(1, 1)])
    data = settling.next_frame()
    assert data is not None
    assert [each.queue for each in pb.ConsumeRequest.FromString(data).settle.settlements] == ["", "member"]
