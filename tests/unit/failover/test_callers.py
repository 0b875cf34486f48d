"""Who may change a register at a witness that knows its callers."""

from __future__ import annotations

import pytest

from failover.callers import Callers

CALLERS = Callers(["carol"])


@pytest.mark.parametrize(
    ("who", "domain", "may"),
    [
        ("member/orders/a", "main", True),
        ("member/orders/a", "start/a", True),
        ("member/orders/a", "start/b", False),
        ("member/orders/b", "main", False),
        ("member/other/a", "main", False),
        ("principal/a", "main", False),
        ("principal/carol", "main", False),
        ("", "main", False),
    ],
)
def test_a_register_is_set_by_the_member_itself(who: str, domain: str, may: bool) -> None:
    assert (CALLERS.problem_of_set(who, "orders", "a", domain) == "") is may


@pytest.mark.parametrize(
    ("who", "may"),
    [
        ("member/orders/a", False),
        ("member/orders/b", False),
        ("principal/carol", True),
        ("principal/dave", False),
        ("", False),
    ],
)
def test_an_operators_word_comes_from_an_operator_and_never_from_a_member(who: str, may: bool) -> None:
    assert (CALLERS.problem_of_force(who, "orders") == "") is may


def test_nobody_is_an_operator_until_he_is_named() -> None:
    assert "--operator" in Callers().problem_of_force("principal/carol", "orders")
