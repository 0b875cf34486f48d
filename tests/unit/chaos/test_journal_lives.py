"""The audit in memory, of lives and deliveries: what looks wrong and is right raises nothing, and is counted."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from chaos.journal_checks import Judged, judged
from chaos.journals import Asked, Violation
from tests.support.pair_faults import (
    PLANTED,
    epoch_back,
    lease_gone,
    leased_twice,
    never_entered,
    other_producer_at_both,
    other_range_at_b,
    planted,
)
from tests.support.pair_histories import Run, any_run, usual


def audited(run: Run) -> Judged:
    return judged(run.rows, run.asked, run.heads, run.ends, run.every_record_from)


def kinds(run: Run) -> set[str]:
    return {each.kind for each in audited(run).violations}


def only(run: Run, kind: str) -> Violation:
    (found,) = [each for each in audited(run).violations if each.kind == kind]
    return found


def started(count: int = 4) -> Run:
    run = Run()
    run.take_over()
    run.create(1)
    run.send(1, count)
    return run


def received(run: Run, index: int, **changes: object) -> Asked:
    asked = next(asked for asked in run.asked if (asked.op, asked.index) == ("recv", index))
    return replace(asked, **changes)  # type: ignore[arg-type]


# -- leases ------------------------------------------------------------------------------------------------------------


def test_a_delivery_that_left_before_its_lease_was_durable_is_counted() -> None:
    """Its settlement names a record that the next master's first one stands in place of."""
    run = started()
    lease = run.lease(1, 1, 3, stored=False)
    run.take_over()
    run.settle(1, 1, 3, lease)
    found = audited(run.end())
    assert found.violations == []
    assert any(
        line.startswith("3 settlements are of deliveries whose lease is in no journal") for line in found.unjudged
    )


def test_a_lease_of_before_the_journal_is_counted() -> None:
    run = started()
    lease = run.lease(1, 1, 2)
    run.settle(1, 1, 2, lease)
    first = run.log_index
    run.rows = [row for row in run.rows if row.log_index >= first]
    found = judged(run.rows)
    assert found.violations == []
    assert "2 settlements were not judged: their leases are of before the journal." in found.unjudged


def test_the_record_of_a_lease_that_is_gone_is_one_row_with_its_messages() -> None:
    found = only(planted(0, lease_gone), "SETTLED_UNLEASED")
    assert (found.index, found.count) == (1, 8)


def test_a_range_that_never_entered_is_one_row() -> None:
    found = only(planted(0, never_entered), "NEVER_ENTERED")
    assert (found.queue, found.index, found.count) == ("q1", 50, 3)


def test_a_row_of_a_range_that_differs_has_its_count() -> None:
    assert only(planted(0, other_range_at_b), "COPIES_DIFFER").count == 9


def test_an_epoch_that_is_not_fenced_names_the_queue() -> None:
    run = planted(0, epoch_back)
    place = next(row.log_index for row in run.rows if row.kind == "EXPIRED")
    found = [each for each in audited(run).violations if each.kind == "EPOCH_NOT_FENCED"]
    assert [(each.member, each.queue, each.log_index) for each in found] == [("a", "q2", place), ("b", "q2", place)]


@pytest.mark.parametrize("how", ["RELEASED", "LEASE_ENDED"])
def test_a_message_that_came_back_may_be_leased_again(how: str) -> None:
    run = started()
    lease = run.lease(1, 1, 4)
    run.record(run.about(how, 1, 1, 4, lease) if how == "RELEASED" else {"kind": how, "lease_id": lease})
    run.ack(1, 1, 4)
    assert kinds(run.end()) == set()


def test_journals_of_chosen_queues_do_not_tell_of_leases_that_end() -> None:
    run = planted(0, leased_twice)
    run.rows = [row for row in run.rows if row.queue_id]
    run.every_record_from.clear()
    found = audited(run)
    assert found.violations == []
    assert any(line.startswith("Messages leased to two at once were not judged") for line in found.unjudged)


# -- deliveries --------------------------------------------------------------------------------------------------------


def test_one_more_lease_explains_one_more_delivery() -> None:
    """It lay with a client from before the acknowledgement that another one sent."""
    run = started()
    first = run.lease(1, 1, 1)
    run.record({"kind": "LEASE_ENDED", "lease_id": first})
    run.ack(1, 1, 1)
    run.asked[-3], run.asked[-1] = (
        replace(run.asked[-3], invoke_ns=run.now_ns + 50, complete_ns=run.now_ns + 60),
        run.asked[-1],
    )
    assert kinds(run.end()) == set()


def test_a_takeover_explains_one_more_delivery() -> None:
    run = started()
    run.lease(1, 1, 1, stored=False)
    late = received(run, 1, invoke_ns=10**6, complete_ns=10**6 + 1)
    run.asked.pop()
    run.take_over()
    run.ack(1, 1, 1)
    run.asked += [late, late]  # one delivery, though its row is there twice
    assert kinds(run.end()) == set()
    run.asked.append(replace(late, invoke_ns=late.invoke_ns + 1))
    assert kinds(run) == {"RECEIVED_AFTER_ACK"}


@pytest.mark.parametrize("why", ["priority", "none", "delay", "again", "epoch", "client"])
def test_an_order_that_something_else_explains_is_not_judged(why: str) -> None:
    run = started()
    high = run.lease(1, 2, 1)
    if why == "epoch":
        run.take_over()
    if why == "again":
        low = run.lease(1, 1, 1)
        run.record({"kind": "LEASE_ENDED", "lease_id": low})
        run.asked.pop()
    if why == "delay":
        run.record(run.about("MATURED", 1, 1, 1))
    low = run.lease(1, 1, 1)
    if why in ("priority", "none", "client"):
        changes = {"priority": {"priority": 3}, "none": {"priority": None}, "client": {"client": "other"}}[why]
        run.asked[-1] = replace(run.asked[-1], **changes)  # type: ignore[arg-type]
    run.settle(1, 2, 1, high)
    run.settle(1, 1, 1, low)
    found = audited(run.end())
    assert found.violations == []
    assert (why == "none") == any(
        line.startswith("The order of 1 deliveries was not judged") for line in found.unjudged
    )


def test_the_higher_index_first_is_out_of_order() -> None:
    run = started()
    run.lease(1, 2, 1)
    run.lease(1, 1, 1)
    assert only(run.end(), "DELIVERY_ORDER").index == 1


# -- what is not judged ------------------------------------------------------------------------------------------------


def test_a_run_with_everything_tells_only_what_it_saw() -> None:
    assert [line.split(":")[0] for line in audited(usual()).unjudged] == [
        "2 settlements are of deliveries whose lease is in no journal"
    ]


def test_what_is_not_given_is_not_judged_and_said() -> None:
    run = usual()
    asked = judged([row for row in run.rows if row.member == "a"]).unjudged
    for begin in ("The copies were not compared", "Tails were not judged", "Lost messages and what clients received"):
        assert any(line.startswith(begin) for line in asked), begin
    asked = judged(run.rows, run.asked, run.heads).unjudged
    assert any(line.startswith("The tail of settlements was not judged") for line in asked)


def test_records_without_rows_are_counted() -> None:
    run = usual()
    run.log_index += 3  # readers moved
    run.take_over()
    run.heads.clear()
    run.end()
    asked = judged(run.rows, run.asked, run.heads, run.ends).unjudged
    assert any(line.startswith("3 records of member a have no row") for line in asked)


# -- histories that are not right --------------------------------------------------------------------------------------


OF_ANOTHER_RUN = "No message is in the journals as its client sent it: is the client history of another run?"


def test_a_history_of_another_run_with_other_ids_is_named() -> None:
    run = usual()
    run.asked = [replace(asked, id=asked.id and asked.id[:8] + bytes([9]) * 8) for asked in run.asked]
    assert OF_ANOTHER_RUN in audited(run).unjudged
    assert "LOST" in kinds(run)


def test_a_history_of_another_run_with_the_same_places_and_ids_is_named() -> None:
    """The same load at a pair begun anew: only its producers are other ones."""
    run = usual()
    run.asked = [replace(asked, producer=asked.producer and b"of another run") for asked in run.asked]
    found = audited(run)
    assert OF_ANOTHER_RUN in found.unjudged
    sent = sum(asked.op == "send" and asked.outcome == "ok" for asked in run.asked)
    assert [each.kind for each in found.violations].count("SENT_BY_OTHER") == sent


def test_one_strange_message_is_no_history_of_another_run() -> None:
    assert OF_ANOTHER_RUN not in audited(planted(0, other_producer_at_both)).unjudged


def test_rows_of_a_history_that_are_there_twice_raise_nothing() -> None:
    for op in ("send", "recv", "ack"):
        run = usual()
        asked = [asked for asked in run.asked if asked.op == op]
        run.asked += asked
        found = audited(run)
        assert found.violations == [], op
        assert f"{len(asked):,} rows of the client history are there twice: they were taken once." in found.unjudged
        assert not any("rows of what was received are missing" in line for line in found.unjudged)


def test_clocks_that_let_messages_come_before_they_were_sent_are_named() -> None:
    run = usual()
    assert not any("before they were sent" in line for line in audited(run).unjudged)
    hour = 3_600_000_000_000
    sent = [asked for asked in run.asked if asked.op == "send" and asked.outcome == "ok"]
    late = [
        replace(asked, invoke_ns=asked.invoke_ns + hour, complete_ns=(asked.complete_ns or 0) + hour) for asked in sent
    ]
    run.asked = [*late, *(asked for asked in run.asked if asked not in sent)]
    (line,) = [line for line in audited(run).unjudged if "before they were sent" in line]
    came = {asked.index for asked in run.asked if asked.op in ("recv", "ack") and asked.outcome == "ok"}
    assert line.startswith(f"{len(came & {asked.index for asked in sent})} messages came up to 3,600.000 s before"), (
        line
    )


def test_deliveries_that_are_missing_in_a_history_are_named_and_raise_nothing() -> None:
    run = usual()
    run.asked = [asked for asked in run.asked if asked.op != "recv" or (asked.index or 0) % 2]
    found = audited(run)
    assert found.violations == []
    assert any("rows of what was received are missing" in line for line in found.unjudged)


def test_acknowledgements_that_are_missing_in_a_history_raise_nothing() -> None:
    run = usual()
    run.asked = [asked for asked in run.asked if asked.op != "ack"]
    found = audited(run)
    assert found.violations == []
    assert any("has no message that was acknowledged" in line for line in found.unjudged)


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_consumer_whose_clock_is_an_hour_apart_raises_nothing(hours: int) -> None:
    run, by = usual(), hours * 3600 * 10**9
    run.asked = [
        asked
        if asked.op == "send"
        else replace(asked, invoke_ns=asked.invoke_ns + by, complete_ns=(asked.complete_ns or 0) + by)
        for asked in run.asked
    ]
    assert kinds(run) == set()


@pytest.mark.parametrize("hours", [-1, 1])
def test_members_whose_clocks_are_an_hour_apart_raise_nothing(hours: int) -> None:
    """Domain time jumps where the other one takes over, or stands still until he has caught up; it never falls."""
    run, now = usual(), 0
    took_over = next(row.log_index for row in run.rows if row.kind == "EPOCH_BEGAN")
    shifted = {}
    for at in sorted({row.log_index for row in run.rows}):
        now = max(now, at * 1000 + (hours * 3600 * 10**6 if at >= took_over else 0))
        shifted[at] = now
    run.rows = [replace(row, time_us=shifted[row.log_index]) for row in run.rows]
    assert kinds(run) == set()


def test_right_runs_of_any_kind_raise_nothing() -> None:
    """Takeovers, leases that end or were never stored, releases, moves, dead letters and unknown outcomes."""
    random = Random(41)
    unstored = 0
    for _ in range(400):
        found = audited(any_run(random, 0))
        assert found.violations == []
        unstored += any("whose lease is in no journal" in line for line in found.unjudged)
    assert unstored > 50


def test_every_fault_is_named_with_what_proves_it() -> None:
    for plant in PLANTED:
        for each in audited(planted(0, plant)).violations:
            assert each.journals or each.clients, plant
    assert len(PLANTED) >= 40
