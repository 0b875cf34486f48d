"""The account of a run of `make secure-demo`: what is wrong, lost, let in or not asked is no PASS."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from chaos.secure.account import FAIL, INVALID, PASS, Happened, Revoked, Seen, account
from chaos.secure.asking import Asked
from chaos.secure.impostors import Attempt
from chaos.secure.page import page
from chaos.secure.rights import Answer

ENQUEUE = "QueueService/Enqueue"


def good() -> Seen:
    return Seen(
        cells=[
            Asked("master", "billing", ENQUEUE, "orders", Answer.ALLOWED, "OK"),
            Asked("replica", "billing", ENQUEUE, "secret", Answer.HIDDEN, "QUEUE_NOT_FOUND"),
        ],
        attempts=[Attempt("expired", "client port of a", True, "in the handshake")],
        revoked=[Revoked("a", 20.0, 0.0)],
        rotations=["1", "2", "3", "4"],
        happened=[Happened(1.0, "killed")],
        sent=10,
        acknowledged=10,
    )


def test_a_good_run_passes() -> None:
    summary = account(good(), 2)
    assert (summary.verdict, summary.problems) == (PASS, ())
    assert (summary.cells, summary.wrong, summary.lost, summary.rotations) == (2, 0, 0, 4)
    assert (summary.revoked_within_ms, summary.impostors_refused) == (20, 1)


def _denied(seen: Seen) -> None:
    seen.cells[0] = seen.cells[0]._replace(answer=Answer.DENIED)


def _unknown(seen: Seen) -> None:
    seen.cells[1] = seen.cells[1]._replace(answer=Answer.UNKNOWN)


def _let_in(seen: Seen) -> None:
    seen.attempts.append(Attempt("expired", "witness", False, "let in"))


@pytest.mark.parametrize(
    ("spoil", "problem"),
    [
        (_denied, "1 cells are not as the model says"),
        (_unknown, "1 cells are not as the model says"),
        (_let_in, "expired at witness: let in"),
        (lambda seen: seen.cells.pop(), "the table was asked at 1 of 2 places"),
        (lambda seen: seen.attempts.clear(), "nobody tried to get in"),
        (lambda seen: seen.revoked.clear(), "no right was revoked"),
        (lambda seen: seen.revoked.append(Revoked("b", 3_000.0, 100.0)), "a stream without its right went on"),
        (lambda seen: seen.rotations.pop(), "3 of 4 exchanges"),
        (lambda seen: setattr(seen, "lost", 1), "1 acknowledged messages are gone"),
        (lambda seen: setattr(seen, "duplicates", 1), "1 messages are there twice"),
        (lambda seen: setattr(seen, "acknowledged", 0), "nothing was sent meanwhile"),
        (lambda seen: seen.failures.append("no handoff"), "no handoff"),
    ],
)
def test_what_is_wrong_fails_and_is_said(spoil: Callable[[Seen], object], problem: str) -> None:
    seen = good()
    spoil(seen)
    summary = account(seen, 2)
    assert summary.verdict == FAIL
    assert any(problem in each for each in summary.problems), summary.problems


def test_a_stream_that_was_late_for_want_of_the_machine_shows_nothing() -> None:
    seen = good()
    seen.revoked.append(Revoked("b", 3_000.0, 2_500.0))
    assert account(seen, 2).verdict == INVALID


def test_the_page_names_what_is_wrong_and_escapes_it() -> None:
    seen = good()
    _denied(seen)
    seen.attempts.append(Attempt("<script>", "witness", False, "let in"))
    text = page(seen, account(seen, 2))
    assert "WRONG: no" in text
    assert "<script>" not in text
    assert 'title="orders: OK, not allowed"' in text
