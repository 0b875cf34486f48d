"""Maintenance that is ordered while it is open who serves: the member may be the only one that can."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from failover.marks import Role
from failover.register import Register
from tests.support.until import OUTER_S
from tests.unit.replica.operations.test_metrics import member


@pytest.mark.parametrize(
    ("role", "claiming"),
    [(Role.PROBE, True), (Role.MASTER_SUSPENDED, True), (Role.MASTER_SUSPENDED, False), (Role.CEDING, False)],
)
async def test_who_may_serve_in_a_moment_is_not_taken_out(tmp_path: Path, role: Role, *, claiming: bool) -> None:
    """It serves nobody while its claim is under way; what serves nobody would have gone without a question."""
    operator, _, _ = await member(tmp_path)
    domain = operator.members.by_name["d8"]
    domain.shared.role = role
    if claiming:
        domain.mastership.view.register = Register()
        domain.mastership.claims.begin(frozenset({"a"}), "the peer is lost")
    assert not domain.shared.serving
    async with asyncio.timeout(OUTER_S):  # taken out, it would wait for a write that nobody makes here
        why = await operator.begin_maintenance("new memory")
    assert f"who serves d8 is being decided at a ({role.name}); ask again when that is done" in why
    assert (operator.maintenance, domain.shared.role) == (False, role)
