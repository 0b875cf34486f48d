"""A sweep that is repeated, or broken off: one effect, one answer, and each message in one queue whoever stops when."""

from __future__ import annotations

import pytest

from replica.core.ordering import sweep_looks, sweeps
from replica.core.ordering.sweep import Verb
from replica.core.state.calls import PendingEnqueue
from replica.core.state.outcomes import Failed, Moved, SweepDone
from replica.machine import EnqueueCall, Limits, columns_of
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_service_pb2 import EnqueueBatch
from tests.support.clients import Waiter
from tests.unit.replica.core.ordering import test_dying
from tests.unit.replica.core.ordering.test_dying import payloads
from tests.unit.replica.core.ordering.test_sweeps import CALL, HASH, TEN, Call, filled, numbered, run, selected, send


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a few messages need many turns."""
    monkeypatch.setattr(sweeps, "MOVE_MESSAGES_MAX", 3)
    monkeypatch.setattr(sweeps, "REMOVED_MAX", 3)
    monkeypatch.setattr(sweep_looks, "LOOKS_MAX", 5)


# -- identity ----------------------------------------------------------------------------------------------------------


def test_a_repetition_gets_the_first_answer_and_moves_nothing() -> None:
    pair, master = filled()
    first = run(pair)
    send(pair, "q", b"later")
    assert run(pair) == first._replace(duplicate=True)
    assert payloads(master, "q") == [b"later"]
    mismatch = run(pair, request_hash=HASH + 1)
    assert mismatch.reason == Reason.REASON_REQUEST_MISMATCH


def test_what_arrives_meanwhile_is_not_touched() -> None:
    pair, master = filled()
    call = Call(master)
    call.turn()
    call.turn()
    send(pair, "q", b"later")
    while not call.turn():
        pass
    pair.settle()
    assert call.answer == SweepDone(True, 10)
    assert payloads(master, "q") == [b"later"]


def test_a_call_that_broke_off_goes_on_behind_what_it_did() -> None:
    pair, master = filled()
    call = Call(master)
    for _ in range(3):
        call.turn()
    pair.settle()
    send(pair, "q", b"later")
    assert run(pair) == SweepDone(True, 10)
    assert (payloads(master, "r"), payloads(master, "q")) == (TEN, [b"later"])


def test_at_most_so_many_counts_what_was_done_before_it_broke_off() -> None:
    pair, master = filled()
    call = Call(master, most=8)
    for _ in range(3):
        call.turn()
    assert run(pair, most=8) == SweepDone(True, 8)
    assert payloads(master, "r") == TEN[:8]


@pytest.mark.parametrize("known", [1, 1_000])
def test_a_call_of_which_only_a_part_is_remembered_is_refused_with_what_to_do(
    monkeypatch: pytest.MonkeyPatch, known: int
) -> None:
    """Its first record is forgotten: a new one would have a new bound, and meet those of the first attempt."""
    monkeypatch.setattr(sweeps, "FORGOTTEN_MAX", known)
    limits = Limits(dedup_sequences=1000, dedup_window_ms=5000, requests_kept=4)
    monkeypatch.setattr(test_dying, "Limits", lambda **_: limits)
    pair, master = filled(30)
    call = Call(master)
    for _ in range(6):
        call.turn()
        pair.settle(3_000)
    find = master.shared.machine.find_request
    kept = [find(call.sweep.identity(number), HASH) is not None for number in range(call.sweep.records)]
    assert (kept[0], kept[-1]) == (False, True)
    send(pair, "q", b"later")
    refused = run(pair)
    assert isinstance(refused, Failed)
    assert (refused.reason, refused.message[-50:]) == (Reason.REASON_DEDUP_EXPIRED, sweeps._FORGOTTEN[-50:])
    if known > 1:
        assert payloads(master, "q")[-1] == b"later", "and nothing was done"
    run(pair, request_id=b"2" * 16)
    assert (payloads(master, "q"), len(payloads(master, "r"))) == ([], 31)


@pytest.mark.parametrize("turns", [1, 2, 4])
def test_a_call_whose_id_another_one_takes_is_told_so(turns: int) -> None:
    pair, master = filled()
    call = Call(master)
    for _ in range(turns):
        call.turn()
    batch = EnqueueBatch(queue="r", messages=MessageBatch(payloads=[b"x"]))
    other = PendingEnqueue(
        Waiter(),
        EnqueueCall("r", b"", 0, columns_of(batch), "a", request_id=CALL, request_hash=99),
        batch.SerializeToString(),
    )
    master.submit(other)
    pair.settle(20)
    while not call.over:
        call.turn()
    pair.settle()
    assert call.answer.reason == Reason.REASON_REQUEST_MISMATCH
    assert len(payloads(master, "q")) + len(payloads(master, "r")) == 11


@pytest.mark.parametrize("steps", range(0, 60, 4))
@pytest.mark.parametrize("verb", [Verb.MOVE, Verb.REMOVE])
def test_each_is_in_one_queue_whoever_stops_when(steps: int, verb: Verb) -> None:
    pair, master = filled()
    asked = {"asked": selected("tq_index <> 5")} if verb is Verb.REMOVE else {}
    call = Call(master, verb, **asked)
    for _ in range(steps):
        if call.over or not pair.one():
            if call.over:
                break
            call.turn()
        elif not call.over and steps % 8 == 0:
            call.turn()
    told = call.answer
    pair.crash(master, written=steps % 3 == 0)
    pair.heal()
    pair.settle(1_000)
    assert pair.master is not None
    answer = run(pair, verb, **asked)
    expected = 10 if verb is Verb.MOVE else 9
    assert (answer.done, answer.behind) == (expected, ())
    if isinstance(told, SweepDone):
        assert answer == told._replace(duplicate=True), "what was told is known at the next master"
    for member in (pair.master, pair.master.peer):
        assert payloads(member, "q") == ([] if verb is Verb.MOVE else numbered(5))
        assert payloads(member, "r") == (TEN if verb is Verb.MOVE else [])
    assert run(pair, verb, **asked) == answer._replace(duplicate=True)


def test_a_master_that_follows_another_one_sends_the_caller_away() -> None:
    _, master = filled()
    call = Call(master)
    call.turn()
    master.core.shared.draining = True
    assert call.turn()
    assert isinstance(call.answer, Moved)
    master.core.shared.draining = False
    call = Call(master)
    call.turn()
    call.sweep.epoch += 1  # it was master before, and is again
    assert call.turn()
    assert isinstance(call.answer, Moved)
