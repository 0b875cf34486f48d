"""Every figure of an account is counted from a history that was planted for it, and is nothing in a clean one."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

from chaos import account, bites, history_file
from chaos.account import Span
from chaos.history import (
    FAIL,
    OK,
    UNKNOWN,
    Acked,
    Answered,
    Delivered,
    Handed,
    History,
    Message,
    Operation,
    Recorded,
    Seen,
    Settled,
    Struck,
)
from chaos.scenario import judged

ROUNDS = [Span(2.0, 4.0)]


def seen(at_s: float, member: str = "a", **changes: object) -> Seen:
    facts = Seen(at_s - 0.01, at_s, member, "disk", 1, "MASTER", "IN_SYNC", 1, 4, "d", "s", 0)
    return facts._replace(**changes)  # type: ignore[arg-type]


def recorded(at_s: float, version: int, epoch: int, *in_sync: str) -> Recorded:
    return Recorded(at_s - 0.01, at_s, version, epoch, in_sync[0], in_sync, committed=True)


def clean() -> History:
    """Ten messages; a dies at 2 s, b serves alone from 3 s on, both are in sync at 5 s."""
    history = History()
    for number, asked_s in enumerate([1.0, 1.2, 1.4, 1.6, 1.8, 3.0, 3.2, 3.4, 3.6, 3.8]):
        message, at_s = Message(0, number), asked_s + 0.1
        epoch, copies = (1, 2) if at_s < 2 else (2, 1)
        history.operations.append(Operation("producer 0", "enqueue", asked_s, at_s, OK, (message,)))
        history.acked.append(Acked(asked_s, at_s, message, number + 1, epoch, copies))
        history.delivered.append(Delivered(at_s + 0.1, message, number + 1, 1))
        history.settled.append(Settled(at_s + 0.2, number + 1))
    history.answered += [Answered(at / 10, at / 10 + 0.05, "a", 1) for at in range(10, 20)]
    history.answered += [Answered(at / 10, at / 10 + 0.05, "b", 2) for at in range(30, 60)]
    history.awake += [at / 20 for at in range(20, 120)]
    history.recorded += [recorded(1.0, 1, 1, "a", "b"), recorded(3.0, 2, 2, "b"), recorded(5.0, 3, 2, "b", "a")]
    return history


def taken(history: History) -> account.Account:
    return account.take(history, ROUNDS)


def test_a_clean_history_has_its_figures_and_no_faults() -> None:
    figures = taken(clean())
    assert (figures.operations, figures.acknowledged, figures.delivered) == (10, 10, 10)
    assert (figures.lost, figures.duplicates, figures.order_breaks, figures.unexpected) == (0, 0, 0, 0)
    assert (figures.unknown, figures.failed, figures.redelivered, figures.two_masters_ms) == (0, 0, 0, 0)
    assert (figures.no_master_ms, figures.not_looked_ms) == (1100, 0)  # from 1.95 s to 3.05 s
    assert figures.degraded_ms == 2000
    assert figures.recovery_ms == (1100,)  # struck at 2.0 s, acknowledged at 3.1 s
    assert figures.longest_pause_ms == 1200
    assert figures.resync_ms == (1000,)  # healed at 4.0 s


def test_what_is_acknowledged_and_never_comes_is_lost() -> None:
    history = clean()
    history.delivered.pop(3)
    assert taken(history).lost == 1
    history.left.append(Message(0, 3))
    assert taken(history).lost == 0


def test_what_is_stored_settled_or_delivered_twice_is_a_duplicate() -> None:
    history = clean()
    history.delivered.append(Delivered(4.5, Message(0, 3), 11, 1))
    assert taken(history).duplicates == 1
    history = clean()
    history.settled.append(Settled(4.6, 3))
    assert taken(history).duplicates == 1
    history = clean()
    history.delivered.append(Delivered(4.7, Message(0, 3), 4, 2))
    assert (taken(history).duplicates, taken(history).redelivered) == (1, 1)


def test_messages_behind_later_ones_are_order_breaks() -> None:
    history = clean()
    history.delivered[3], history.delivered[4] = history.delivered[4], history.delivered[3]
    assert taken(history).order_breaks == 1


def test_unknown_outcomes_are_counted_and_what_came_of_them() -> None:
    history = clean()
    for number, outcome in ((3, UNKNOWN), (10, UNKNOWN)):
        history.operations.append(Operation("impatient", "enqueue", 2.0, 2.5, outcome, (Message(0, number),), "X"))
    figures = taken(history)
    assert (figures.unknown, figures.recovered, figures.unexpected) == (2, 1, 0)


def test_what_nobody_sent_or_was_certainly_refused_is_unexpected() -> None:
    history = clean()
    history.delivered.append(Delivered(4.5, Message(7, 7), 11, 1))
    assert taken(history).unexpected == 1
    history = clean()
    history.operations.append(Operation("impatient", "enqueue", 2.0, 2.5, FAIL, (Message(0, 3),), "X"))
    figures = taken(history)
    assert (figures.unexpected, figures.failed) == (1, 1)
    assert "nothing_comes_unasked" in judged("x", 1, 0.1, history, [], ROUNDS).broken


def test_two_members_that_answer_as_masters_at_one_time_are_seen() -> None:
    history = clean()
    history.answered += [Answered(at / 10, at / 10 + 0.05, "a", 1) for at in range(30, 35)]
    assert 100 <= taken(history).two_masters_ms <= 400


def test_while_nobody_looks_no_master_is_missing() -> None:
    history = clean()
    history.awake = [at_s for at_s in history.awake if not 1.9 < at_s < 3.1]
    assert (taken(history).no_master_ms, taken(history).not_looked_ms) == (0, 1100)
    history.awake += [2.2 + at / 20 for at in range(10)]  # a half of it: from 2.2 s to 2.65 s
    assert (taken(history).no_master_ms, taken(history).not_looked_ms) == (450, 650)


def test_an_observer_that_was_held_up_between_answers_proves_nothing_against_the_pair() -> None:
    """A busy machine: every answer is 0.4 s after the last one, and so is everything else that the observer does."""
    history = clean()
    history.answered[:] = [Answered(at * 0.4, at * 0.4 + 0.01, "a", 1) for at in range(10)]
    history.awake[:] = [at * 0.4 for at in range(10)]
    history.acked.clear()  # else they say when there was a master, whoever looked
    assert (taken(history).no_master_ms, taken(history).not_looked_ms) == (0, 3510)


def test_quantiles() -> None:
    assert account.quantile([], 0.5) is None
    assert account.quantile([3, 1, 2], 0.5) == 2
    assert account.quantile(range(1, 101), 0.99) == 99


# -- evidence ----------------------------------------------------------------------------------------------------------


def struck(kind: str, *members: str, **facts: float) -> Struck:
    return Struck(kind, members or ("a",), 2.0, 4.0, **facts)


def test_a_kill_bit_when_another_incarnation_was_seen() -> None:
    history = History(seen=[seen(1.0), seen(4.5, incarnation=2)])
    assert bites.bit(history, struck("kill"))
    history.seen[1] = seen(4.5)
    assert not bites.bit(history, struck("kill"))
    assert not bites.bit(History(), struck("kill"))


def test_a_freeze_bit_when_the_member_was_silent() -> None:
    history = History(seen=[seen(1.0), seen(3.0, "b"), seen(4.5)])
    assert bites.bit(history, struck("freeze"))
    history.seen.append(seen(3.0))
    assert not bites.bit(history, struck("freeze"))


def test_a_cut_bit_when_a_link_was_lost_while_it_held() -> None:
    for kind, name in (("cut", "linked"), ("reset", "linked"), ("isolate", "linked"), ("no-witness", "witnessed")):
        assert bites.bit(History(seen=[seen(3.0, **{name: False})]), struck(kind))
        assert not bites.bit(History(seen=[seen(1.0, **{name: False}), seen(3.0)]), struck(kind))


def test_a_slow_link_bit_when_two_copies_took_longer() -> None:
    history = History(acked=[Acked(2.5, 2.9, Message(0, 0), 1, 1, 2)])
    assert bites.bit(history, struck("slow", delay_s=0.3))
    assert not bites.bit(history, struck("slow", delay_s=0.5))
    assert not bites.bit(History(), struck("slow", delay_s=0.1))


def test_handoffs_bit_when_one_was_done() -> None:
    history = History(handed=[Handed(2.5, 2.6, "h", done=False, master="a", epoch=1, reasons=("COOLDOWN",))])
    assert not bites.bit(history, struck("handoffs"))
    history.handed.append(Handed(2.7, 2.8, "h", done=True, master="b", epoch=2, reasons=()))
    assert bites.bit(history, struck("handoffs"))


# -- verdicts ----------------------------------------------------------------------------------------------------------


def whole(history: History) -> History:
    history.seen += [seen(5.9, "a", role="REPLICA", epoch=2, incarnation=2), seen(5.9, "b", epoch=2)]
    return history


def test_a_run_with_faults_that_bit_holds() -> None:
    history = whole(clean())
    history.seen.insert(0, seen(1.0))
    result = judged("x", 1, 0.1, history, [struck("kill")], ROUNDS)
    assert (result.verdict, result.faults) == ("held", {"kill": (1, 1)})


def test_a_run_below_its_floors_is_invalid() -> None:
    history = whole(clean())
    assert judged("x", 1, 0.1, history, [], ROUNDS).invalid == ["no fault was struck"]
    assert judged("x", 1, 0.1, history, [struck("cut")], ROUNDS).invalid == ["no cut of 1 had an effect"]
    [line] = judged("x", 1, 20, history, [struck("kill")], ROUNDS).invalid[:1]
    assert line == "too little traffic: 10 acknowledged, the floor is 600"
    assert judged("x", 1, 20, history, [struck("kill")], ROUNDS).verdict == "INVALID"


def test_a_broken_promise_is_one_however_little_was_tried() -> None:
    history = whole(clean())
    history.delivered.pop(3)
    assert judged("x", 1, 20, history, [], ROUNDS).verdict == "BROKEN"


def test_a_history_is_written_in_the_order_of_time(tmp_path: Path) -> None:
    history = whole(clean())
    history_file.write_history(tmp_path / "h.jsonl", history, [struck("kill")])
    events = [json.loads(line) for line in (tmp_path / "h.jsonl").read_text().splitlines()]
    assert [event["t"] for event in events] == sorted(event["t"] for event in events)
    kinds = {event["event"] for event in events}
    assert kinds == {"invoke", "ok", "acknowledged", "delivered", "settled", "fault", "healed", "member", "register"}


def test_a_master_that_acknowledges_over_a_slow_link_is_there_between_its_answers() -> None:
    """The observer is answered every 0.4 s only; acknowledgements come all the while."""
    history = clean()
    history.answered[:] = [Answered(at * 0.4 - 0.4, at * 0.4, "a", 1) for at in range(3, 11)]
    history.awake[:] = [at / 20 for at in range(20, 120)]
    history.acked[:] = [replace(history.acked[0], at_s=1.2 + at / 10) for at in range(28)]
    assert taken(history).no_master_ms == 0
    history.acked[:] = [ack for ack in history.acked if not 2.05 < ack.at_s < 3.0]
    history.answered[:] = [answer for answer in history.answered if not 2.05 < answer.at_s < 3.0]
    assert taken(history).no_master_ms == 1000  # from 2.0 s to 3.0 s
