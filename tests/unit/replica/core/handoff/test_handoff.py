"""What bars a handoff at either member: all of it at once; and how long nothing was ordered."""

from __future__ import annotations

from failover.handoff import HandoffState
from failover.marks import DataMark
from replica.core.handoff.handoff import LAG_RECORDS_MAX
from tests.support.handing import Run
from tests.support.pair import Pair


def test_every_reason_is_named_at_the_replica() -> None:
    pair = Pair().start()
    pair.b.shared.state.data = DataMark.STALE
    pair.b.core.orders.room_bytes = 0
    pair.b.core.mastership.verdicts.pause(paused=True)
    told = pair.a.hand_over(automatic=True)
    pair.quiesce()
    assert told[0].reasons == ("PINNED", "NOT_IN_SYNC", "DISK")
    assert pair.a.serving


def test_a_paused_member_does_as_an_operator_says() -> None:
    pair = Pair().start()
    for member in pair.up:
        member.core.mastership.verdicts.pause(paused=True)
    assert pair.a.hand_over(automatic=True)[0].reasons == ("PINNED",)
    told = pair.a.hand_over()
    pair.quiesce()
    assert told[0].done


def test_a_master_that_is_alone_names_both_reasons() -> None:
    pair = Pair().start()
    pair.crash(pair.b)
    assert pair.a.hand_over()[0].reasons == ("NOT_CONNECTED", "NOT_IN_SYNC")


def test_a_replica_far_behind_is_not_offered_the_role() -> None:
    pair = Pair().start()
    pair.a.core.source.peer_durable -= LAG_RECORDS_MAX + 1
    assert pair.a.hand_over()[0].reasons == ("LAG",)


def test_a_request_right_after_a_handoff_is_refused_and_an_operator_at_the_master_is_not() -> None:
    pair = Pair().start()
    pair.a.hand_over()
    pair.settle(100)
    asked = pair.a.hand_over()
    pair.quiesce()
    assert asked[0].reasons == ("COOLDOWN",)
    ordered = pair.b.hand_over()
    pair.settle(1100)
    assert ordered[0].done
    again = pair.b.hand_over()
    pair.quiesce()
    assert again[0].done


def test_a_member_that_is_being_stopped_takes_nothing() -> None:
    pair = Pair().start()
    pair.b.core.handoff.bars.add("BUSY")
    told = pair.a.hand_over()
    pair.quiesce()
    assert told[0].reasons == ("BUSY",)


def test_the_pause_is_counted_from_the_drain() -> None:
    run = Run()
    run.load()
    told = run.hand_over(run.a)
    for _ in run.until(run.a, HandoffState.DRAINING, disks=""):
        pass
    run.pair.tick(70)
    for _ in run.flow():
        pass
    assert (told[0].done, told[0].pause_ms) == (True, 70)


def test_who_asked_for_the_role_counts_from_when_it_was_ready() -> None:
    run = Run()
    run.load()
    told = run.hand_over(run.b)
    for _ in run.until(run.a, HandoffState.DRAINING, disks=""):
        pass
    run.pair.tick(70)
    for _ in run.flow():
        pass
    assert (told[0].done, told[0].pause_ms) == (True, 70)
