"""The role of a member: which one may follow which, what ends with each, and that nobody else writes it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from failover.marks import Link, Role
from failover.steps import Step
from replica.core.mastership.mastership import Mastership
from replica.core.mastership.role import MOVES, ClaimUnderWay
from replica.core.state.write_tokens import CededStored
from tests.support.pair import Pair

REPLICA = Path(__file__).resolve().parents[5] / "replica"
WRITER = "core/mastership/role.py"
OWNED = ("role", "serving", "master")
SETTERS = ("set_role", "set_serving", "set_master")

BECOME: dict[Role, Callable[[Mastership], None]] = {
    Role.PROBE: lambda at: at.role.become_probe("test"),
    Role.REPLICA: lambda at: at.role.become_replica(9),
    Role.MASTER: lambda at: at.role.become_master(frozenset({"a"}), "test", 0),
    Role.MASTER_SUSPENDED: lambda at: at.role.become_suspended("test"),
    Role.CEDING: lambda at: at.role.become_ceding(9, CededStored(b"h")),
    Role.FAILED: lambda at: at.role.become_failed("test"),
    Role.DIVERGED: lambda at: at.role.become_diverged_again(),
}
ACROSS_PROBE = {Role.MAINTENANCE}
"""Reached by a method that becomes PROBE first: from anywhere."""


def at_role(role: Role) -> Mastership:
    """A member of a pair in that role, as far as the moves from it can tell."""
    mastership = Pair().start().a.core.mastership
    mastership.shared.serving = role in (Role.MASTER, Role.MASTER_SUSPENDED)
    mastership.shared.role = role
    return mastership


def test_every_role_says_where_it_leads() -> None:
    assert set(MOVES) == set(Role)
    assert BECOME.keys() | ACROSS_PROBE == set(Role) - {Role.INIT}
    assert all(role not in leads for role, leads in MOVES.items()), "to stay is no move"
    assert all(Role.INIT not in leads for leads in MOVES.values()), "nothing begins twice"
    assert {role for role, leads in MOVES.items() if Role.PROBE not in leads} == {Role.PROBE}, "one may always stop"


@pytest.mark.parametrize("to", BECOME, ids=lambda role: role.name)
@pytest.mark.parametrize("role", Role, ids=lambda role: role.name)
def test_a_move_is_made_when_the_table_has_it(role: Role, to: Role) -> None:
    mastership = at_role(role)
    if to is role:
        return
    if to in MOVES[role]:
        if to is Role.REPLICA:
            mastership.shared.serving = False  # a claim of a suspended master has ended that before
        BECOME[to](mastership)
        assert mastership.shared.role is to
    else:
        with pytest.raises(AssertionError):
            BECOME[to](mastership)
        assert mastership.shared.role is role


@pytest.mark.parametrize("to", [Role.PROBE, Role.CEDING, Role.MAINTENANCE, Role.DIVERGED], ids=lambda role: role.name)
def test_what_a_mastership_held_ends_with_it(to: Role) -> None:
    pair = Pair().start()
    mastership = pair.a.core.mastership
    shared, role, commit, peer = mastership.shared, mastership.role, mastership.commit, mastership.peer
    assert (shared.role, shared.serving, commit.required) == (Role.MASTER, True, {"a", "b"})
    commit.publishing = peer.sync_when_read = role.unrecorded = role.forced = True
    if to is Role.MAINTENANCE:
        role.become_maintenance("test")
    elif to is Role.DIVERGED:
        role.become_diverged("test", 0)
    else:
        BECOME[to](mastership)
    assert (shared.role, shared.serving, shared.master) == (to, False, "")
    assert (commit.required, commit.publishing) == (frozenset(), False)
    assert (role.claim, role.unrecorded, role.forced, peer.sync_when_read) == (None, False, False, False)
    assert shared.link is Link.HANDSHAKE


def test_a_claim_ends_with_the_role_it_was_made_in() -> None:
    claim = ClaimUnderWay(Step.CLAIMING, frozenset({"a"}), 9, None, "test")
    for to in (Role.PROBE, Role.REPLICA, Role.MASTER, Role.FAILED):
        mastership = at_role(Role.MASTER_SUSPENDED)
        mastership.role.become_claimant(claim)
        assert (mastership.role.claim, mastership.shared.serving) == (claim, False)
        BECOME[to](mastership)
        assert mastership.role.claim is None
        assert mastership.commit.required == (frozenset({"a"}) if to is Role.MASTER else frozenset())


def test_a_master_follows_nobody_before_it_has_stopped() -> None:
    mastership = at_role(Role.MASTER_SUSPENDED)
    with pytest.raises(AssertionError, match="follows nobody"):
        mastership.role.become_replica(9)


def written(tree: ast.AST) -> Iterator[int]:
    """Lines that write what the role owns, at an object other than `self`, or call what writes it."""
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in SETTERS:
            yield node.lineno
        for target in targets:
            parts = target.elts if isinstance(target, ast.Tuple) else [target]
            for part in parts:
                if (
                    isinstance(part, ast.Attribute)
                    and part.attr in OWNED
                    and ast.unparse(part.value).rpartition(".")[2] == "shared"
                ):
                    yield part.lineno


def test_nobody_else_writes_the_role() -> None:
    found = [
        f"{path.relative_to(REPLICA)}:{line}"
        for path in sorted(REPLICA.rglob("*.py"))
        if path.relative_to(REPLICA).as_posix() != WRITER
        for line in written(ast.parse(path.read_text()))
    ]
    assert found == []
    assert list(written(ast.parse((REPLICA / WRITER).read_text()))), "the one that does is seen"


@pytest.mark.parametrize(
    "line",
    [
        *("shared.role = Role.PROBE", "self.shared.serving = False", "domain.shared.serving, x = 1, 2"),
        *("shared.set_serving(serving=True)", "self.shared.set_role(Role.PROBE, why)"),
    ],
)
def test_a_second_writer_is_seen(line: str) -> None:
    assert list(written(ast.parse(line))) == [1]
