"""Rights of principals: what may be granted over which version, which grant decides, and when it counts."""

from __future__ import annotations

import random
from itertools import product

import pytest

from replica.machine import Limits, Machine, RightCall
from replica.machine.features.rights import plan_right, principal_named
from replica.machine.state.errors import Refused
from replica.machine.state.rights import ADMINISTER, BROWSE, CONSUME, OBSERVE, OPERATE, PRODUCE, InForce, covering
from tandemq.v1 import common_pb2
from tests.unit.replica.machine.driver import Driver

BILLING = "principal/billing"


@pytest.fixture
def driver() -> Driver:
    return Driver()


def change(
    driver: Driver,
    right: int,
    pattern: str = "",
    who: str = "billing",
    *,
    revoked: bool = False,
    expected: int | None = None,
    request_id: bytes = b"",
) -> bool:
    """False: there was nothing to do."""
    call = RightCall(who, right, pattern, revoked, expected, "principal/ops", request_id, 7)
    header = driver.plan(lambda: plan_right(driver.master.state, driver.now_ms, call))
    if header is not None:
        driver.order(header)
    return header is not None


def refused(driver: Driver, right: int, pattern: str = "", who: str = "billing", **more: object) -> tuple[int, str]:
    call = RightCall(who, right, pattern, bool(more.get("revoked")), None, "", b"", 0)
    found = driver.refusal(lambda: plan_right(driver.master.state, driver.now_ms, call))
    return found.reason, found.message


def in_force(driver: Driver) -> InForce:
    return driver.master.state.rights.in_force


def may(driver: Driver, right: int, name: str = "", who: str = BILLING) -> bool:
    return in_force(driver).deciding(who, right, name) is not None


def test_what_is_not_granted_is_denied(driver: Driver) -> None:
    assert not may(driver, PRODUCE, "orders")
    assert change(driver, PRODUCE, "orders")
    assert may(driver, PRODUCE, "orders")
    assert not may(driver, CONSUME, "orders")
    assert not may(driver, PRODUCE, "orders/eu")
    assert not may(driver, PRODUCE, "orders", who="principal/other")
    assert not may(driver, OBSERVE)
    assert in_force(driver).sees(BILLING, "orders")
    assert not in_force(driver).sees(BILLING, "others")


@pytest.mark.parametrize(
    ("pattern", "covered", "not_covered"),
    [
        ("orders", ["orders"], ["orders.dead", "orders/eu", "order"]),
        ("orders/*", ["orders/eu", "orders/*x"], ["orders", "orders/eu/north", "others/eu"]),
        ("orders/**", ["orders/eu", "orders/eu/north"], ["orders", "orders2/eu"]),
        ("*", ["orders", "SYSTEM.DEAD"], ["orders/eu", "//m/orders"]),
        ("**", ["orders", "orders/eu/north", "**"], ["//m/orders", ""]),
        ("//m/**", ["//m/orders", "//m/orders/eu"], ["//n/orders", "m/orders", "orders", "//m:d/orders"]),
        ("//m:d/**", ["//m:d/orders"], ["//m/orders", "//m:e/orders"]),
        ("//**", ["//m/orders", "//m:d/orders"], ["orders"]),
        ("//m:d/orders", ["//m:d/orders"], ["//m/orders"]),
        ("SYSTEM.REACTIVE/*", ["SYSTEM.REACTIVE/q"], ["q"]),
        ("SYSTEM.XMIT/m:d", ["SYSTEM.XMIT/m:d"], ["SYSTEM.XMIT/m"]),
    ],
)
def test_a_pattern_covers_what_it_says(
    driver: Driver, pattern: str, covered: list[str], not_covered: list[str]
) -> None:
    change(driver, BROWSE, pattern)
    assert [name for name in (*covered, *not_covered) if may(driver, BROWSE, name)] == covered


def test_the_narrowest_grant_decides(driver: Driver) -> None:
    for pattern in ("**", "a/**", "a/b/*", "a/b/c"):
        change(driver, CONSUME, pattern)
    for expected in ("a/b/c", "a/b/*", "a/**", "**"):
        found = in_force(driver).deciding(BILLING, CONSUME, "a/b/c")
        assert found is not None
        assert found.key.pattern == expected
        change(driver, CONSUME, expected, revoked=True)
    assert not may(driver, CONSUME, "a/b/c")


def test_a_decision_looks_at_few_grants_however_many_there_are() -> None:
    assert list(covering("a/b/c")) == ["a/b/c", "a/b/*", "a/b/**", "a/**", "**"]
    assert list(covering("//m/q")) == ["//m/q", "//m/*", "//m/**", "//**"]
    assert list(covering("")) == [""]


def test_a_right_counts_when_it_is_committed_and_not_before(driver: Driver) -> None:
    """Rights by what is not committed yet would be those of a master that is replaced before anybody heard of them."""
    driver.commits = False
    change(driver, PRODUCE, "orders")
    assert not may(driver, PRODUCE, "orders")
    driver.commit()
    assert may(driver, PRODUCE, "orders")
    change(driver, PRODUCE, "orders", revoked=True)
    assert may(driver, PRODUCE, "orders")
    driver.commit()
    assert not may(driver, PRODUCE, "orders")
    assert in_force(driver).version == 2


def test_a_snapshot_keeps_what_is_granted_and_what_of_it_counts(driver: Driver) -> None:
    change(driver, PRODUCE, "orders")
    change(driver, OPERATE)
    driver.commits = False
    change(driver, CONSUME, "orders")
    made = Machine.restore(driver.master.snapshot(), ("a", "b"))
    assert made.digest() == driver.master.digest()
    found = made.state.rights
    assert found.version == 3
    assert found.in_force.deciding(BILLING, PRODUCE, "orders") == in_force(driver).deciding(BILLING, PRODUCE, "orders")
    assert found.in_force.deciding(BILLING, OPERATE, "") is not None
    assert found.in_force.deciding(BILLING, CONSUME, "orders") is None
    made.commit(driver.log_index)
    assert found.in_force.deciding(BILLING, CONSUME, "orders") is not None


def test_a_snapshot_knows_the_version_of_what_counts_though_nothing_is_granted(driver: Driver) -> None:
    """A member whose rights are those of that version admits who has waited for it."""
    change(driver, PRODUCE, "orders")
    change(driver, PRODUCE, "orders", revoked=True)
    assert Machine.restore(driver.master.snapshot(), ("a", "b")).state.rights.in_force.version == 2
    driver.commits = False
    change(driver, CONSUME, "orders")
    found = Machine.restore(driver.master.snapshot(), ("a", "b")).state.rights
    assert (found.version, found.in_force.version) == (3, 0), "the last that is committed is not known"
    found.commit(driver.log_index)
    assert found.in_force.version == 3


def test_the_digest_of_the_state_knows_rights(driver: Driver) -> None:
    before = driver.master.digest()
    change(driver, PRODUCE, "orders")
    granted = driver.master.digest()
    change(driver, PRODUCE, "orders", revoked=True)
    assert len({before, granted, driver.master.digest()}) == 3


def test_a_grant_that_is_there_is_no_record_and_one_that_is_not_cannot_be_taken(driver: Driver) -> None:
    assert change(driver, PRODUCE, "orders")
    assert not change(driver, PRODUCE, "orders")
    assert refused(driver, CONSUME, "orders", revoked=True) == (
        common_pb2.REASON_RIGHT_NOT_FOUND,
        "principal/billing was not granted consume orders: list what was",
    )


def test_a_version_is_compared(driver: Driver) -> None:
    change(driver, PRODUCE, "orders", expected=0)
    call = RightCall("billing", CONSUME, "orders", False, 0, "", b"", 0)
    found = driver.refusal(lambda: plan_right(driver.master.state, driver.now_ms, call))
    assert found.reason == common_pb2.REASON_VERSION_MISMATCH
    change(driver, CONSUME, "orders", expected=1)


def test_a_repeated_call_finds_its_first_answer(driver: Driver) -> None:
    change(driver, PRODUCE, "orders", request_id=b"i" * 16)
    change(driver, CONSUME, "orders")
    found = driver.master.find_request(b"i" * 16, 7)
    assert found is not None
    assert (found.kind, found.version) == ("rights", 1)


@pytest.mark.parametrize(
    ("right", "pattern", "reason"),
    [
        (0, "orders", common_pb2.REASON_BAD_REQUEST),
        (99, "orders", common_pb2.REASON_BAD_REQUEST),
        (OBSERVE, "orders", common_pb2.REASON_BAD_REQUEST),
        (ADMINISTER, "", common_pb2.REASON_BAD_NAME),
        (PRODUCE, "//m:local/**", common_pb2.REASON_BAD_NAME),
        (PRODUCE, "orders/*/eu", common_pb2.REASON_BAD_NAME),
        (PRODUCE, "ord*", common_pb2.REASON_BAD_NAME),
        (PRODUCE, "/orders", common_pb2.REASON_BAD_NAME),
        (PRODUCE, "../**", common_pb2.REASON_BAD_NAME),
        (PRODUCE, "o" * 256, common_pb2.REASON_BAD_NAME),
    ],
)
def test_what_covers_no_queue_is_refused(driver: Driver, right: int, pattern: str, reason: int) -> None:
    assert refused(driver, right, pattern)[0] == reason


@pytest.mark.parametrize("name", ["", "a b", "member/x", "principal/a/b", "witness/../x", "user/x"])
def test_a_principal_is_one_that_a_certificate_can_name(name: str) -> None:
    with pytest.raises(Refused, match="principal"):
        principal_named(name)


def test_there_is_room_for_ten_thousand_grants_and_no_more() -> None:
    assert Limits().rights_max == 10_000
    driver = Driver(Limits(rights_max=2))
    change(driver, PRODUCE, "a")
    change(driver, PRODUCE, "b")
    assert refused(driver, PRODUCE, "c")[0] == common_pb2.REASON_QUOTA_EXCEEDED
    change(driver, PRODUCE, "a", revoked=True)
    change(driver, PRODUCE, "c")


@pytest.mark.parametrize("seed", range(4))
def test_what_is_in_force_is_what_was_granted_and_not_taken_away(driver: Driver, seed: int) -> None:
    """Against a plain set; some grants are repeated."""
    chance, granted = random.Random(seed), set[tuple[str, int, str]]()
    people, rights, patterns = ("billing", "shipping"), (PRODUCE, CONSUME), ("orders", "orders/*", "orders/**")
    for _ in range(40):
        key = f"principal/{chance.choice(people)}", chance.choice(rights), chance.choice(patterns)
        revoked = key in granted and chance.random() < 0.7
        changed = change(driver, key[1], key[2], key[0].removeprefix("principal/"), revoked=revoked)
        assert changed == (revoked or key not in granted)
        (granted.discard if revoked else granted.add)(key)
        for machine in (driver.master, driver.restored()):
            force = machine.state.rights.in_force
            assert [tuple(grant.key) for grant in force.listed("")] == sorted(granted)
            for person, any_right in product(people, (*rights, BROWSE)):
                name = f"principal/{person}"
                held = [pattern for who, kind, pattern in granted if (who, kind) == (name, any_right)]
                assert force.has_some(name, any_right) == bool(held)
                covered = {"orders": "orders" in held, "orders/eu": len(set(held) - {"orders"}) > 0, "other": False}
                for queue, may_it in covered.items():
                    assert (force.deciding(name, any_right, queue) is not None) == may_it
