"""The audit in memory: each planted fault is named, and what only looks wrong is not."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from chaos.journal_checks import judged, violations
from chaos.journal_kinds import KINDS
from chaos.journals import Asked
from tests.support.pair_faults import PLANTED, planted
from tests.support.pair_histories import Run, sided, usual


def kinds(run: Run) -> set[str]:
    return {each.kind for each in violations(run.rows, run.asked, run.heads, run.ends)}


def test_a_right_run_is_clean() -> None:
    """With unknown outcomes, refusals, a release, a dead letter, a move, an expiry and three epochs in it."""
    assert kinds(usual()) == set()


@pytest.mark.parametrize("plant", PLANTED)
def test_each_planted_fault_is_named_and_proven(plant: Callable[[Run], None]) -> None:
    run = planted(0, plant)
    found = violations(run.rows, run.asked, run.heads, run.ends, run.every_record_from)
    missing = {"RECORD_MISSING"} - PLANTED[plant]  # of who takes out all rows of a record
    assert {each.kind for each in found} - missing == PLANTED[plant]
    assert all(each.journals or each.clients for each in found)


def test_every_kind_is_planted() -> None:
    assert set().union(*PLANTED.values()) == set(KINDS)


@pytest.mark.parametrize("kept", ["SELECTED", "ACKED"])
def test_what_sides_gave_is_left_aside_and_what_entered_is_judged(kept: str) -> None:
    """Both sides give everything, with SELECTED by numbers of their own; either kind of row shows such a queue."""
    run = sided()
    run.rows = [row for row in run.rows if row.kind in ("QUEUE_CREATED", "ENQUEUED", "EPOCH_BEGAN", kept)]
    of_both = {"SELECTED": 1, "ACKED": 2}[kept]
    run.asked = [asked for asked in run.asked if int(asked.queue[1:]) <= of_both]
    found = judged(run.rows, run.asked)
    assert found.violations == []
    assert f"{of_both * 24} deliveries and acknowledgements at sides" in " ".join(found.unjudged)
    run.rows = [row for row in run.rows if (row.kind, row.queue_id, row.index) != ("ENQUEUED", 1, 3)]
    assert "LOST" in {each.kind for each in judged(run.rows, run.asked).violations}


def test_an_unknown_outcome_is_never_accused() -> None:
    run = usual()
    run.asked = [replace(asked, outcome="unknown", index=None, id=None) for asked in run.asked]
    assert kinds(run) == set()


def test_what_was_trimmed_is_not_judged() -> None:
    """The first half is gone at both members: its acknowledgements, its indexes, its settlements."""
    run = usual()
    first = run.log_index // 2
    run.rows = [row for row in run.rows if row.log_index >= first]
    run.heads = [replace(head, first_log_index=first, first_index=None) for head in run.heads]
    assert kinds(run) == set()


def test_one_that_keeps_less_is_completed_by_the_other() -> None:
    run = usual()
    first = run.log_index // 2
    run.rows = [row for row in run.rows if row.member == "a" or row.log_index >= first]
    run.heads = [replace(head, first_log_index=first) if head.member == "b" else head for head in run.heads]
    assert kinds(run) == set()


def test_a_tail_that_nobody_told_of_yet_is_not_missed() -> None:
    run = usual()
    end = run.log_index - 1
    run.rows = [row for row in run.rows if row.member == "a" or row.log_index < end]
    run.heads.clear()
    assert kinds(run) == set()


def test_a_body_that_no_member_shows_is_no_difference() -> None:
    """A lake without payloads, or a volatile queue."""
    run = usual()
    run.rows = [replace(row, payload=None) for row in run.rows]
    assert kinds(run) == set()


@pytest.mark.parametrize("kind", ["SAVED", "CONFIGURED"])
def test_a_body_that_was_volatile_when_one_member_was_read_is_no_difference(kind: str) -> None:
    run = usual()
    run.record(run.about(kind, 1, 5, 1))
    at = next(at for at, row in enumerate(run.rows) if (row.kind, row.index, row.member) == ("ENQUEUED", 5, "b"))
    run.rows[at] = replace(run.rows[at], payload=None)
    run.heads = [replace(head, next_log_index=run.log_index + 1) for head in run.heads]
    run.ends = dict.fromkeys(run.ends, run.log_index + 1)
    assert kinds(run) == set()
    run.rows[at] = replace(run.rows[at], payload=b"else", id=b"x" * 16)
    assert "COPIES_DIFFER" in kinds(run)


def test_a_name_that_was_used_again_means_the_queue_of_its_time() -> None:
    """Both queues were called q1; each had an index 1."""
    run = Run()
    run.create(1)
    run.send(1, 3)
    run.record(run.about("QUEUE_DELETED", 1))
    run.create(2)
    run.send(2, 3)
    run.rows = [replace(row, queue="q1") for row in run.rows]
    run.asked = [replace(asked, queue="q1") for asked in run.asked]
    assert kinds(run) == set()


def test_another_name_of_a_queue_does_not_make_its_messages_unsent() -> None:
    run = usual()
    run.asked = [replace(asked, queue="alias") if asked.index == 4 else asked for asked in run.asked]
    assert kinds(run) == set()


def test_a_queue_that_no_client_was_watched_on_is_not_judged_by_them() -> None:
    run = usual()
    run.asked = [asked for asked in run.asked if asked.queue == "q2"]
    assert kinds(run) == set()


def test_journals_of_three_are_refused() -> None:
    run = usual()
    run.rows.append(replace(run.rows[0], member="c"))
    with pytest.raises(ValueError, match="a pair has two members, and the journals are of a, b, c"):
        kinds(run)


def test_what_clients_say_of_a_time_before_the_journal_without_an_id_is_not_judged() -> None:
    run = usual()
    run.rows = [row for row in run.rows if row.log_index > 4]
    run.heads = [replace(head, first_log_index=5, first_index=None) for head in run.heads]
    run.asked = [Asked("send", "ok", 1, 2, "q1", 1)]
    assert "LOST" not in kinds(run)
