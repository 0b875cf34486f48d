"""Who may change a register at a witness that knows its callers."""

from __future__ import annotations

import pytest

from failover.callers import Callers

CALLERS = Callers(["carol"])


@pytest.mark.parametrize(
    ("who", "may"),
    [
        ("member/orders/a", True),
        ("member/orders/b", False),
        ("member/other/a", False),
        ("principal/a", False),
        ("principal/carol", False),
        ("", False),
    ],
)
def test_a_register_is_set_by_the_member_itself(who: str, may: bool) -> None:
    assert (CALLERS.problem_of_set(who, "orders", "a") == "") is may


@pytest.mark.parametrize(
    ("who", "may"),
    [
        ("member/orders/b", True),
        ("member/orders2/b", False),
        ("principal/carol", True),
        ("principal/dave", False),
        ("", False),
    ],
)
def test_an_operators_word_comes_from_an_operator_or_by_a_member_of_the_pair(who: str, may: bool) -> None:
    assert (CALLERS.problem_of_force(who, "orders") == "") is may


def test_nobody_is_an_operator_until_he_is_named() -> None:
    assert "--operator" in Callers().problem_of_force("principal/carol", "orders")
