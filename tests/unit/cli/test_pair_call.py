"""Whom an order goes to: the member that is named, the only one that can be meant, or nobody."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner
from msgspec import structs

from tandemq.cli.failure import Failure
from tandemq.cli.pair import pair
from tandemq.cli.pair_call import check_other, choose, finish
from tandemq.cli.view import MemberView, PairView

A = MemberView(name="a", endpoint="127.0.0.1:1", reachable=True)
B = MemberView(name="b", endpoint="127.0.0.1:2", reachable=True, maintenance=True)
B_AWAY = MemberView(name="b", endpoint="127.0.0.1:2")
BOTH, ONE = PairView(pair="p", members=(A, B)), PairView(pair="p", members=(A, B_AWAY))
TARGETS = "127.0.0.1:1,127.0.0.1:2"


@pytest.mark.parametrize(
    ("view", "target", "member", "chosen"),
    [
        (BOTH, None, "b", B),
        (BOTH, TARGETS, "a", A),
        (BOTH, "127.0.0.1:2", None, B),
        (BOTH, "127.0.0.1:2", "a", A),
        (ONE, None, None, A),
        (ONE, TARGETS, None, A),
    ],
)
def test_who_is_asked(view: PairView, target: str | None, member: str | None, chosen: MemberView) -> None:
    assert choose(view, target, member) == chosen


def test_the_only_one_that_fits_is_preferred_and_none_that_fits_is_no_preference() -> None:
    assert choose(BOTH, None, None, prefer=lambda each: each.maintenance) == B
    assert choose(ONE, None, None, prefer=lambda each: each.maintenance) == A
    with pytest.raises(click.UsageError, match="--member a or b"):
        choose(BOTH, None, None, prefer=lambda each: each.name == "c")


def test_nobody_is_guessed() -> None:
    with pytest.raises(click.UsageError, match="say which member is meant: --member a or b"):
        choose(BOTH, TARGETS, None)
    with pytest.raises(click.UsageError, match="no member is called c; there are a, b"):
        choose(BOTH, None, "c")
    with pytest.raises(Failure) as away:
        choose(ONE, None, "b")
    assert (away.value.reason, away.value.exit_code) == ("UNREACHABLE", 3)


@pytest.mark.parametrize(
    ("other", "cause", "step"),
    [
        (structs.replace(A, automation_paused=True), "paused at a: without b it would serve nobody", "pair resume"),
        (structs.replace(A, maintenance=True), "a is in maintenance already: nobody would serve", "maintenance off"),
    ],
)
def test_nobody_leaves_whose_peer_would_not_serve(other: MemberView, cause: str, step: str) -> None:
    check_other(BOTH, B)
    with pytest.raises(Failure, match=cause) as refused:
        check_other(PairView(pair="p", members=(other, B)), B)
    assert step in refused.value.next_step
    assert refused.value.exit_code == 1


def test_a_reason_that_is_needed_is_not_said_to_be_one_that_may_be_left_out() -> None:
    said = CliRunner().invoke(pair, ["failover", "--help"]).stdout
    assert "needed with --accept-" in said
    assert "left out" not in said


def test_copies_that_differ_end_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    facts = {"equal": False, "text": "1 of 3 ranges differ: 7 to 9 damaged at b"}
    with pytest.raises(Failure, match="damaged at b") as failed:
        finish(facts, "json", done=False, reason="DIGEST_MISMATCH", next_step="`tandemq pair resync --full`")
    assert (failed.value.reason, failed.value.exit_code) == ("DIGEST_MISMATCH", 1)
    assert "resync" in failed.value.next_step
    assert '"equal": false' in capsys.readouterr().out
