"""Where the next attempt goes, and when there is none."""

from __future__ import annotations

import pytest

from tandemq import retry
from tandemq.client.members import Masters
from tandemq.client.target import NoTarget, parse_endpoints
from tandemq.errors import InDoubt, error_of
from tandemq.finding.default import resolve_target

POLICY = retry.Policy(total_s=10, attempt_s=1, delay_first_s=0.1, delay_max_s=1)
TWO = ("a:1", "b:1")


def step(failure: retry.Failure, *, current: str = "a:1", failures: int = 1, elapsed_s: float = 0, jitter: float = 0.5):
    return retry.next_attempt(POLICY, TWO, current, failure, failures=failures, elapsed_s=elapsed_s, jitter=jitter)


def test_endpoints_take_turns_with_growing_bounded_delays() -> None:
    away = retry.Failure(retry.Kind.AWAY)
    assert step(away) == retry.Attempt("b:1", 0.05)
    assert step(away, current="b:1", failures=2) == retry.Attempt("a:1", 0.1)
    assert step(away, failures=40).delay_s == 0.5
    assert step(away, current="elsewhere:1").endpoint == "a:1"


def test_a_named_master_is_next_at_once_and_only_once() -> None:
    moved = retry.Failure(retry.Kind.MOVED, master="c:1")
    assert step(moved) == retry.Attempt("c:1", 0)
    assert step(moved, failures=2) == retry.Attempt("c:1", 0.1)
    assert step(moved, current="c:1", failures=2).endpoint == "a:1"


def test_a_member_may_ask_for_patience_but_not_beyond_the_deadline() -> None:
    assert step(retry.Failure(retry.Kind.NOT_YET, retry_after_s=2)).delay_s == 2
    assert step(retry.Failure(retry.Kind.NOT_YET, retry_after_s=2), elapsed_s=8) is None
    assert step(retry.Failure(retry.Kind.AWAY), elapsed_s=10) is None


def test_errors_tell_what_kind_of_failure_they_are() -> None:
    assert retry.failure_of(error_of("QUEUE_NOT_FOUND")) is None
    assert retry.failure_of(error_of("NOT_ENOUGH_COPIES")) is None
    assert retry.failure_of(error_of("NO_MASTER")).kind is retry.Kind.NOT_YET
    assert retry.failure_of(error_of("NOT_MASTER", metadata={"master": "b:1"})) == retry.Failure(
        retry.Kind.MOVED, "b:1"
    )
    assert retry.failure_of(InDoubt("X", retryable=True)).kind is retry.Kind.AWAY


def test_hints_of_older_epochs_are_ignored() -> None:
    masters = Masters()
    masters.learn("main", 5, "a:1")
    masters.learn("main", 4, "b:1")
    assert (masters.epoch("main"), masters.endpoint("main")) == (5, "a:1")
    masters.learn("main", 5, "")
    assert masters.endpoint("main") == "a:1"
    masters.learn("main", 6, "")
    assert (masters.epoch("main"), masters.endpoint("main")) == (6, "")
    assert masters.epoch("other") == 0


def test_the_target_is_argument_then_variable_then_context(tmp_path) -> None:
    home = {"TANDEMQ_CONFIG_HOME": str(tmp_path)}
    with pytest.raises(NoTarget, match="does not exist"):
        resolve_target(environment=home)
    (tmp_path / "context.toml").write_text('target = "a:1,b:2"\npair = "p"\ndata_dir = "/d"\n')
    found = resolve_target(environment=home)
    assert (found.endpoints, found.pair, found.data_dir) == (("a:1", "b:2"), "p", "/d")
    assert resolve_target(environment=home | {"TANDEMQ_TARGET": "c"}).endpoints == ("c:7600",)
    assert resolve_target("d:9", environment=home | {"TANDEMQ_TARGET": "c"}).endpoints == ("d:9",)


@pytest.mark.parametrize(
    ("text", "endpoints"),
    [("a:1, a:1,b", ("a:1", "b:7600")), ("[::1]:5", ("[::1]:5",)), ("[::1]", ("[::1]:7600",))],
)
def test_endpoints_are_read(text: str, endpoints: tuple[str, ...]) -> None:
    assert parse_endpoints(text) == endpoints


@pytest.mark.parametrize("text", ["a:x", ":1", "a:1,", "a:70000", "::1:5"])
def test_what_is_no_endpoint_is_refused(text: str) -> None:
    with pytest.raises(NoTarget):
        parse_endpoints(text)
