"""Token buckets of principals: what is used up comes back by the second, and nobody pays for another one."""

from __future__ import annotations

import pytest

from replica.node import quotas as module
from replica.node.quotas import Quotas, Spent, TokenBucket
from replica.rpc.refusals import failure
from tandemq import retry
from tandemq.config_quotas import Quota, problem_of_quotas, quotas_of
from tandemq.config_security import Security, problem_of_security
from tandemq.errors import ResourceExhausted, to_error

BILLING, SHOP = "principal/billing", "principal/shop"


def test_a_bucket_gives_a_seconds_worth_at_once_and_then_by_the_second() -> None:
    bucket = TokenBucket(100, 0)
    assert bucket.owed_ms(0) == 0
    bucket.spend(100, 0)
    assert bucket.owed_ms(0) == 1
    assert bucket.owed_ms(1) == 0
    bucket.spend(300, 1)  # a batch that is larger than what is left: it is paid for afterwards
    wait_ms = bucket.owed_ms(1)
    assert 2_990 <= wait_ms <= 3_001
    assert bucket.owed_ms(1 + wait_ms - 2) > 0
    assert bucket.owed_ms(1 + wait_ms) == 0
    assert bucket.is_full(10_000)
    bucket.spend(101, 10_000)
    assert bucket.owed_ms(10_000) > 0, "a long pause saves no more than a second's worth"
    bucket.spend(0, 9_000)  # a clock that went back gives nothing and takes nothing
    assert bucket.owed_ms(9_000) > 0


def test_a_refusal_names_what_was_used_up_and_when_it_is_there_again() -> None:
    quotas = Quotas({BILLING: Quota(messages=100, calls=10)})
    account = quotas.account(BILLING, 0)
    assert account is not None
    assert quotas.problem_of_call(account, 0) is None
    account.spend(Spent(messages=300, calls=1), 0)
    problem = quotas.problem_of_call(account, 0)
    assert problem is not None
    error = to_error(failure(problem))
    assert isinstance(error, ResourceExhausted)
    assert (error.reason, error.definite, error.retryable) == ("QUOTA_EXCEEDED", True, True)
    assert error.metadata == {"quota": "messages", "limit": "100", "principal": BILLING}
    assert error.retry_after is not None
    assert 2 <= error.retry_after.total_seconds() <= 2.01
    assert quotas.refused["messages"] == 1
    assert quotas.problem_of_call(account, 2_002) is None


def test_the_client_waits_where_it_was_refused() -> None:
    """At the other member it would have its share a second time."""
    quotas = Quotas({BILLING: Quota(messages=100)})
    account = quotas.account(BILLING, 0)
    assert account is not None
    account.spend(Spent(messages=300), 0)
    problem = quotas.problem_of_call(account, 0)
    assert problem is not None
    found = retry.failure_of(to_error(failure(problem)))
    assert found is not None
    attempt = retry.next_attempt(retry.Policy(), ("a:1", "b:1"), "a:1", found, failures=1, elapsed_s=0, jitter=0.5)
    assert attempt is not None
    assert attempt.endpoint == "a:1"
    assert 2 <= attempt.delay_s <= 2.01


def test_one_principal_has_one_account_and_no_other_ones() -> None:
    quotas = Quotas(quotas_of(["*=calls:1", "shop=messages:5"]))
    billing, other = quotas.account(BILLING, 0), quotas.account("principal/other", 0)
    assert billing is not None
    assert other is not None
    billing.spend(Spent(calls=5), 0)
    assert quotas.account(BILLING, 0) is billing
    assert quotas.problem_of_call(billing, 0) is not None
    assert quotas.problem_of_call(other, 0) is None
    shop = quotas.account(SHOP, 0)
    assert shop is not None
    assert shop.quota == Quota(messages=5), "its own entry takes the place of everybody's"
    assert Quotas(quotas_of(["shop=messages:5"])).account(BILLING, 0) is None


def test_streams_are_counted_while_they_are_open() -> None:
    quotas = Quotas({BILLING: Quota(streams=2)})
    account = quotas.account(BILLING, 0)
    assert account is not None
    account.streams = 2
    problem = quotas.problem_of_stream(account)
    assert problem is not None
    assert (problem.metadata["quota"], problem.retry_after_ms) == ("streams", module.PLACE_AGAIN_MS)
    account.streams = 1
    assert quotas.problem_of_stream(account) is None


def test_a_connection_counts_while_it_is_used() -> None:
    quotas = Quotas({BILLING: Quota(connections=2)})
    account = quotas.account(BILLING, 0)
    assert account is not None
    for peer in ("one", "two", "one"):
        assert quotas.problem_of_connection(account, peer, 0) is None
    problem = quotas.problem_of_connection(account, "three", 0)
    assert problem is not None
    assert problem.metadata == {"quota": "connections", "limit": "2", "principal": BILLING}
    assert quotas.refused["connections"] == 1
    account.connections.begin("one")
    later_ms = module.CONNECTION_MS
    assert quotas.problem_of_connection(account, "three", later_ms) is None, "two has not been heard of for so long"
    assert quotas.problem_of_connection(account, "four", later_ms) is not None, "one has a stream"
    account.connections.end("one", later_ms)
    assert quotas.problem_of_connection(account, "four", later_ms) is not None, "it has just had one"
    assert quotas.problem_of_connection(account, "four", 2 * later_ms) is None
    assert not account.is_idle(2 * later_ms)
    assert account.is_idle(4 * later_ms)


def test_units_that_are_open_are_counted() -> None:
    quotas = Quotas({BILLING: Quota(units=2)})
    account = quotas.account(BILLING, 0)
    assert account is not None
    assert quotas.problem_of_unit(account, 1) is None
    problem = quotas.problem_of_unit(account, 2)
    assert problem is not None
    assert (problem.metadata["quota"], problem.retry_after_ms) == ("units", module.PLACE_AGAIN_MS)


def test_refusals_of_who_does_not_wait_come_at_a_bounded_pace() -> None:
    pace, now_ms = module.RefusalPace(), 1_000_000
    assert [pace.wait_ms(now_ms) for _ in range(module.REFUSALS_AT_ONCE)] == [0] * module.REFUSALS_AT_ONCE
    assert [pace.wait_ms(now_ms) for _ in range(3)] == [10, 20, 30]
    assert max(pace.wait_ms(now_ms) for _ in range(1_000)) == module.REFUSAL_MS_MAX
    assert not pace.is_idle(now_ms)
    later_ms = now_ms + module.REFUSAL_MS_MAX + module.REFUSALS_AT_ONCE * module.REFUSAL_MS
    assert pace.is_idle(later_ms)
    assert pace.wait_ms(later_ms) == 0


def test_accounts_that_owe_nothing_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "ACCOUNTS_MAX", 3)
    quotas = Quotas({"*": Quota(calls=1)})
    first = quotas.account("principal/first", 0)
    assert first is not None
    first.spend(Spent(calls=2), 0)
    for number in range(10):
        quotas.account(f"principal/{number}", 0)
    assert quotas.account("principal/first", 0) is first
    assert len(quotas._accounts) <= 3


@pytest.mark.parametrize(
    ("entry", "wrong"),
    [
        ("billing", "write NAME=messages:1000"),
        ("billing=", "write NAME=messages:1000"),
        ("b illing=messages:1", "begin"),
        ("billing=pages:1", "'pages' is none of messages, bytes, calls, streams, connections, units"),
        ("billing=messages:1,messages:2", "there twice"),
        ("billing=messages:0", "a whole number from 1 on"),
        ("billing=messages:-1", "a whole number from 1 on"),
        ("billing=messages:1e9", "a whole number from 1 on"),
        (f"billing=messages:{1 << 41}", "a whole number from 1 on"),
    ],
)
def test_a_wrong_entry_is_named(entry: str, wrong: str) -> None:
    assert wrong in problem_of_quotas([entry])


def test_quotas_need_names_and_one_entry_each() -> None:
    assert quotas_of(["billing=messages:1, streams:2", "member/west/a=bytes:7"]) == {
        BILLING: Quota(messages=1, streams=2),
        "member/west/a": Quota(bytes=7),
    }
    assert "is there twice" in problem_of_quotas(["billing=calls:1", "principal/billing=calls:2"])
    assert "nobody has a name" in problem_of_security(Security(quotas=("*=calls:1",)))
    secured = Security(credentials="a", administrators=("ops",), quotas=("*=calls:0",))
    assert problem_of_security(secured).startswith("security.quotas: '*=calls:0'")
