"""Each checker is worth something: a clean history passes all of them, and each finds the violation planted for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from chaos import checker
from chaos.history import Acked, Answered, Delivered, Handed, History, Message, Recorded, Seen, Settled


def message(number: int, producer: int = 0) -> Message:
    return Message(producer, number)


def seen(at_s: float, member: str, role: str, epoch: int, **changes: object) -> Seen:
    facts = Seen(at_s - 0.01, at_s, member, "disk", 1, role, "IN_SYNC", epoch, 4, "d", "s", 0)
    return facts._replace(**changes)  # type: ignore[arg-type]


def clean() -> History:
    """a is master of epoch 1 and dies at 2 s; b serves alone in epoch 2 until a is back in sync at 4 s."""
    history = History()
    for number, (asked_s, epoch, copies) in enumerate([(1.0, 1, 2), (1.5, 1, 2), (1.9, 2, 1), (3.0, 2, 1)]):
        at_s = asked_s + (0.4 if epoch > 1 else 0.05)
        history.acked.append(Acked(asked_s, at_s, message(number), number + 1, epoch, copies))
        history.delivered.append(Delivered(at_s + 0.1, message(number), number + 1, 1))
        history.settled.append(Settled(at_s + 0.2, number + 1))
    history.answered += [Answered(1.0, 1.1, "a", 1), Answered(1.9, 2.25, "b", 2), Answered(3.0, 3.1, "b", 2)]
    history.recorded += [
        Recorded(0.9, 1.0, 3, 1, "a", ("a", "b"), committed=True),
        Recorded(2.2, 2.3, 4, 2, "b", ("b",), committed=True),
        Recorded(4.2, 4.3, 5, 2, "b", ("a", "b"), committed=True),
    ]
    history.seen += [
        seen(1.0, "a", "MASTER", 1),
        seen(1.0, "b", "REPLICA", 1),
        seen(2.3, "b", "MASTER", 2, data="SOLE"),
        seen(4.4, "a", "REPLICA", 2),
        seen(4.4, "b", "MASTER", 2),
    ]
    history.handed.append(Handed(4.5, 4.6, "h1", done=False, master="b", epoch=2, reasons=("COOLDOWN",)))
    return history


def test_a_clean_history_passes() -> None:
    assert checker.broken(clean()) == {}


def test_a_member_with_a_new_disk_begins_anew() -> None:
    history = clean()
    history.seen.insert(3, seen(4.3, "a", "STARTING", 0, disk="another"))
    assert checker.broken(history) == {}


def test_what_was_under_way_may_be_acknowledged_on_one_copy_by_the_solo_epoch() -> None:
    history = clean()
    history.acked[2] = replace(history.acked[2], epoch=1)
    assert checker.broken(history) == {}


def test_a_record_that_was_not_seen_may_be_the_one_that_is_missing() -> None:
    history = clean()
    _one_copy_and_nobody_is_alone(history)
    history.recorded[2] = history.recorded[2]._replace(version=9)
    assert checker.broken(history) == {}


def test_an_empty_history_breaks_nothing_but_that_it_ends_whole() -> None:
    assert list(checker.broken(History())) == ["it_ends_whole"]


def _two_answer_in_one_epoch(history: History) -> None:
    history.answered.append(Answered(3.2, 3.3, "a", 2))


def _two_say_they_are_master(history: History) -> None:
    history.seen.insert(3, seen(2.4, "a", "MASTER", 2))


def _the_register_names_another(history: History) -> None:
    history.recorded.append(Recorded(4.4, 4.5, 6, 2, "a", ("a", "b"), committed=True))


def _an_epoch_falls(history: History) -> None:
    history.seen.insert(4, seen(4.35, "b", "MASTER", 1))


def _the_old_master_acknowledges(history: History) -> None:
    history.acked.append(Acked(2.4, 2.5, message(4), 5, 1, 2))


def _the_old_master_is_read_from(history: History) -> None:
    history.answered.append(Answered(3.3, 3.4, "a", 1))


def _one_index_for_two(history: History) -> None:
    history.acked[3] = replace(history.acked[3], index=3)


def _stored_twice(history: History) -> None:
    history.delivered.append(Delivered(4.0, message(3), 5, 1))


def _an_index_is_left_out(history: History) -> None:
    history.delivered[3] = replace(history.delivered[3], index=5)


def _an_acknowledged_one_is_gone(history: History) -> None:
    del history.delivered[1]


def _later_and_lower(history: History) -> None:
    history.acked[1] = replace(history.acked[1], index=4)
    history.acked[3] = replace(history.acked[3], index=2)


def _a_producer_out_of_order(history: History) -> None:
    history.acked.append(Acked(3.0, 3.05, message(5), 6, 2, 1))
    history.acked.append(Acked(3.0, 3.05, message(4), 7, 2, 1))


def _first_delivered_late(history: History) -> None:
    history.delivered.append(history.delivered.pop(0))


def _one_copy_and_nobody_is_alone(history: History) -> None:
    history.recorded[1] = history.recorded[1]._replace(in_sync=("a", "b"))


def _one_copy_of_an_older_epoch_before_it_is_recorded(history: History) -> None:
    history.acked[1] = replace(history.acked[1], copies=1)
    history.recorded.insert(1, Recorded(1.7, 1.8, 3, 1, "a", ("a", "b"), committed=True))


def _one_copy_before_it_is_recorded(history: History) -> None:
    history.recorded.insert(1, Recorded(2.35, 2.4, 3, 1, "a", ("a", "b"), committed=True))


def _a_stale_copy_serves(history: History) -> None:
    history.seen[2] = seen(2.3, "b", "MASTER", 2, data="SYNCING")


def _something_stays_parked(history: History) -> None:
    history.seen[-1] = seen(4.4, "b", "MASTER", 2, parked=1)


def _a_replica_is_ahead(history: History) -> None:
    history.seen[-2] = seen(4.4, "a", "REPLICA", 2, log_index=9)


def _a_handoff_with_two_outcomes(history: History) -> None:
    history.handed.append(Handed(4.7, 4.8, "h1", done=True, master="a", epoch=3, reasons=()))


def _a_refusal_without_a_reason(history: History) -> None:
    history.handed.append(Handed(4.7, 4.8, "h2", done=False, master="b", epoch=2, reasons=()))


def _the_wrong_one_serves_after_a_handoff(history: History) -> None:
    history.handed.append(Handed(4.7, 4.8, "h2", done=True, master="a", epoch=3, reasons=()))
    history.answered.append(Answered(4.9, 5.0, "b", 3))


def _the_copies_differ(history: History) -> None:
    history.seen[-2] = seen(4.4, "a", "REPLICA", 2, digest="other")


def _settled_twice(history: History) -> None:
    history.settled.append(Settled(4.0, 2))


def _delivered_after_it_was_settled(history: History) -> None:
    history.delivered.append(Delivered(4.0, message(1), 2, 2))


def _a_client_goes_back(history: History) -> None:
    history.acked.append(Acked(1.9, 3.5, message(4), 5, 1, 2))


def _it_does_not_heal(history: History) -> None:
    history.seen[-2] = seen(4.4, "a", "PROBE", 2, data="STALE")


PLANTED: list[tuple[Callable[[History], None], checker.Check]] = [
    (_two_answer_in_one_epoch, checker.one_owner_per_epoch),
    (_two_say_they_are_master, checker.one_owner_per_epoch),
    (_the_register_names_another, checker.one_owner_per_epoch),
    (_an_epoch_falls, checker.epochs_never_fall),
    (_the_old_master_acknowledges, checker.two_masters_never_serve),
    (_the_old_master_is_read_from, checker.two_masters_never_serve),
    (_one_index_for_two, checker.one_message_an_index),
    (_stored_twice, checker.one_message_an_index),
    (_an_index_is_left_out, checker.indexes_are_dense),
    (_an_acknowledged_one_is_gone, checker.nothing_acknowledged_is_lost),
    (_later_and_lower, checker.order_is_real),
    (_a_producer_out_of_order, checker.order_is_real),
    (_first_delivered_late, checker.first_deliveries_are_in_order),
    (_one_copy_and_nobody_is_alone, checker.one_copy_is_recorded_first),
    (_one_copy_of_an_older_epoch_before_it_is_recorded, checker.one_copy_is_recorded_first),
    (_one_copy_before_it_is_recorded, checker.one_copy_is_recorded_first),
    (_a_stale_copy_serves, checker.only_good_copies_serve),
    (_something_stays_parked, checker.nothing_stays_held),
    (_a_replica_is_ahead, checker.nothing_stays_held),
    (_a_handoff_with_two_outcomes, checker.a_handoff_has_one_outcome),
    (_a_refusal_without_a_reason, checker.a_handoff_has_one_outcome),
    (_the_wrong_one_serves_after_a_handoff, checker.a_handoff_has_one_outcome),
    (_the_copies_differ, checker.copies_end_equal),
    (_settled_twice, checker.settled_stays_settled),
    (_delivered_after_it_was_settled, checker.settled_stays_settled),
    (_a_client_goes_back, checker.clients_never_see_an_older_epoch),
    (_it_does_not_heal, checker.it_ends_whole),
]


@pytest.mark.parametrize(("plant", "check"), PLANTED, ids=lambda value: value.__name__.strip("_"))
def test_a_planted_violation_is_found(plant: Callable[[History], None], check: checker.Check) -> None:
    history = clean()
    plant(history)
    assert check.__name__ in checker.broken(history)
    assert list(check(history))


def test_every_checker_has_a_planted_violation() -> None:
    assert {check for _, check in PLANTED} == {*checker.CHECKS}


def test_findings_are_bounded() -> None:
    history = clean()
    history.settled += [Settled(4.0, 1)] * 50
    assert len(checker.broken(history)["settled_stays_settled"]) == checker.FINDINGS_MAX
