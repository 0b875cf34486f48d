"""When a master goes on without a peer that is connected, when it may not, and how long that peer is left alone."""

from __future__ import annotations

import pytest

from failover.marks import DataMark, Role
from replica.core.mastership.leaving import REJOIN_FORGET_MS, REJOIN_MS, REJOIN_MS_MAX, SLOW_PEER_MS, Leaving
from replica.core.mastership.verdicts import Policy
from tests.support.clients import Op, Producer, create
from tests.support.pair import Pair

STEP_MS = 100


@pytest.fixture
def pair() -> Pair:
    made = Pair().start()
    create(made)
    return made


def leaving(pair: Pair) -> Leaving:
    return pair.a.core.mastership.leaving


def owed(pair: Pair) -> Op:
    """Its peer is connected and writes nothing."""
    op = Producer(pair, f"x{pair.now_ms}").send(pair.a)
    pair.quiesce(disks="a")
    return op


def wait(pair: Pair, milliseconds: int, disks: str = "a") -> None:
    end_ms = pair.now_ms + milliseconds
    while pair.now_ms < end_ms:
        pair.tick(STEP_MS)
        pair.quiesce(disks=disks)


def test_a_peer_that_comes_no_step_further_is_left_when_its_time_is_over(pair: Pair) -> None:
    op = owed(pair)
    wait(pair, SLOW_PEER_MS - STEP_MS)
    assert (op.done, pair.a.shared.state.epoch) == (None, 1)
    wait(pair, 2 * STEP_MS)
    assert op.done is not None
    assert (op.done.copies, pair.a.shared.state.epoch, pair.register.in_sync_set) == (1, 2, {"a"})
    assert pair.a.core.mastership.peer.rejoin_at_ms > pair.now_ms + REJOIN_MS - 5 * STEP_MS
    assert leaving(pair).rejoin_ms == 2 * REJOIN_MS
    assert pair.a.asked == [], "the register decides"
    wait(pair, REJOIN_MS + 500, disks="ab")
    pair.settle(1_000)
    assert pair.is_paired, "it is taken back when its time has come"


def test_a_step_of_its_peer_begins_the_time_anew(pair: Pair) -> None:
    first = owed(pair)
    wait(pair, SLOW_PEER_MS - STEP_MS)
    pair.quiesce()
    assert first.done is not None
    assert first.done.copies == 2
    second = owed(pair)
    wait(pair, SLOW_PEER_MS - STEP_MS)
    assert (second.done, pair.a.shared.state.epoch) == (None, 1)


def test_where_nothing_is_owed_nobody_is_slow(pair: Pair) -> None:
    wait(pair, 3 * SLOW_PEER_MS, disks="ab")
    assert (pair.a.shared.state.epoch, pair.is_paired) == (1, True)


@pytest.mark.parametrize("why", ["witness", "asks", "paused"])
def test_without_a_register_or_a_verdict_it_is_not_left(pair: Pair, why: str) -> None:
    if why == "witness":
        pair.witness_away = True
        wait(pair, 2_000)
    elif why == "asks":
        pair.a.core.mastership.verdicts.policy = Policy(by_authority=False)
    else:
        pair.a.core.mastership.verdicts.paused = True
    op = owed(pair)
    wait(pair, SLOW_PEER_MS + 500)
    assert (op.done, pair.a.shared.state.epoch, pair.a.role) == (None, 1, Role.MASTER)
    assert [each.cause for each in pair.a.asked] == (
        [f"no progress at b for {SLOW_PEER_MS} ms"] if why == "asks" else []
    )


def test_who_is_slow_again_and_again_is_left_alone_for_longer_and_after_a_while_as_at_first(pair: Pair) -> None:
    waits = []
    for _ in range(4):
        owed(pair)
        wait(pair, SLOW_PEER_MS + 2 * STEP_MS)
        waits.append(leaving(pair).rejoin_ms)
        wait(pair, REJOIN_MS_MAX + 1_000, disks="ab")
        pair.settle(1_000)
        assert pair.is_paired
    assert waits == [2 * REJOIN_MS, 4 * REJOIN_MS, REJOIN_MS_MAX, REJOIN_MS_MAX]
    pair.a.core.mastership.peer.leave_until(pair.now_ms - REJOIN_FORGET_MS - 1)
    owed(pair)
    wait(pair, SLOW_PEER_MS + 2 * STEP_MS)
    assert leaving(pair).rejoin_ms == 2 * REJOIN_MS


def test_a_peer_whose_copy_is_no_good_is_left_where_the_register_can_say_so(pair: Pair) -> None:
    pair.settle(1_500)
    assert leaving(pair).leave_out("its copy differs") == ""
    assert pair.a.role is Role.MASTER_SUSPENDED
    assert pair.a.shared.last_change == "its copy differs: going on without it"
    assert leaving(pair).leave_out("again") == "a is not in a steady state"
    pair.a.dispatch(pair.a.core)
    pair.settle(500)
    assert pair.a.shared.state.epoch == 2


def test_why_it_is_not_left(pair: Pair) -> None:
    nobody = "there is no authority, or it cannot be read"
    assert pair.b.core.mastership.leaving.leave_out("x") == "b is not in a steady state"
    pair.settle(1_500)
    pair.a.core.mastership.commit.publishing = True
    assert leaving(pair).leave_out("x") == "a is not in a steady state"
    pair.a.core.mastership.commit.publishing = False
    pair.a.shared.set_register(b"of the members themselves")
    assert leaving(pair).leave_out("x") == nobody
    pair.a.shared.set_register(b"")
    pair.witness_away = True
    pair.settle(1_500)
    assert leaving(pair).leave_out("x") == nobody
    pair.witness_away = False
    pair.crash(pair.b)
    pair.a.lost(refused=True)
    pair.settle(2_000)
    assert (pair.a.serving, leaving(pair).leave_out("x")) == (True, nobody), "it is left already"


# -- an operator's orders ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", DataMark)
def test_force_needs_a_copy_that_is_whole(pair: Pair, mark: DataMark) -> None:
    pair.crash(pair.a)
    pair.b.shared.mark(mark)
    why = pair.b.core.mastership.force("test")
    whole = mark not in (DataMark.EMPTY, DataMark.SYNCING, DataMark.DAMAGED)
    assert why == ("" if whole else f"the copy here is {mark.name}: there is nothing whole to go on with")
    assert (pair.b.core.mastership.role.claim is not None) is whole
    if whole:
        assert pair.b.core.mastership.force("test") == "a claim is under way: look again in a second"
        assert "a claim of this member is under way" in pair.b.core.mastership.copy_orders.resync("test", full=False)


def test_force_is_refused_where_somebody_serves(pair: Pair) -> None:
    assert pair.a.core.mastership.force("test") == "a is master of main already"
    assert pair.b.core.mastership.force("test") == "a is connected and master: hand off, or stop it first"


def test_force_needs_the_queues_state(pair: Pair) -> None:
    pair.crash(pair.a)
    pair.b.shared.set_machine(None)
    assert "nothing whole to go on with" in pair.b.core.mastership.force("test")


def test_a_copy_that_differs_is_marked_says_so_and_takes_everything_anew(pair: Pair) -> None:
    pair.b.core.mastership.copy_orders.mark_damaged("record 2 differs")
    assert (pair.b.role, pair.b.shared.state.data) == (Role.PROBE, DataMark.DAMAGED)
    pair.b.dispatch(pair.b.core)
    assert "record 2 differs" in pair.b.notes
    pair.b.commit()
    pair.crash(pair.b)
    pair.b.start()
    assert pair.b.shared.state.data is DataMark.DAMAGED, "over restarts too"
    pair.connect()
    pair.settle(5_000)
    assert (pair.is_paired, pair.b.shared.state.data) == (True, DataMark.IN_SYNC)
