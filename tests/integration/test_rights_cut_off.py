"""Rights that change while a member is cut off from the other: it never decides by those that it has missed."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.cluster import CLIENT, Cluster
from tandemq import aio
from tandemq.cli.view import PairView
from tandemq.errors import Denied, TandemqError
from tests.integration.support import roles
from tests.support.clusters import quick
from tests.support.secured import issued
from tests.support.until import OUTER_S, until

pytestmark = [pytest.mark.process, pytest.mark.slow]

SHORT_S = 2.0
"""Of a call at the member that is cut off, which waits for a master that it does not see."""


def alone(view: PairView, master: str) -> bool:
    """It serves, and the other member counts as lost."""
    parts = [part for each in view.members if each.name == master and (part := each.domain("main"))]
    return view.masters() == [master] and [part.in_sync_set for part in parts] == [(master,)]


async def test_a_right_that_was_revoked_while_a_member_was_cut_off_is_let_in_nowhere(tmp_path: Path) -> None:
    shown = issued(tmp_path, "billing")
    pair = quick(tmp_path / "pair", secured=shown, operators=["ops"], relayed=True)
    async with pair.running(), aio.connect(pair.target, credentials=shown / CLIENT, timeout=OUTER_S) as ops:
        await ops.create_queue("orders")
        await ops.grant_right("billing", "produce", "orders")
        await ops.grant_right("billing", "browse", "orders")  # it goes on seeing the queue
        master, replica = await roles(pair)
        for member in (master, replica):
            assert await _said(pair, shown, member, OUTER_S) == "OK"
        pair.network.isolate(replica)
        await pair.wait_for(lambda view: alone(view, master), "the master goes on alone", OUTER_S)
        await ops.revoke_right("billing", "produce", "orders")
        await ops.grant_right("billing", "consume", "orders")
        assert await _said(pair, shown, master, OUTER_S) == "PERMISSION_DENIED"
        # It has not heard of that: whatever it says, it takes nothing.
        assert await _said(pair, shown, replica, SHORT_S) != "OK"
        pair.network.heal()
        await pair.wait_for(PairView.equal, "both have everything again", OUTER_S)
        for member in (master, replica):
            assert await _said(pair, shown, member, OUTER_S) == "PERMISSION_DENIED"
        await until(lambda: _takes_over(ops, replica), "handed over to who was cut off")
        assert await _said(pair, shown, replica, OUTER_S) == "PERMISSION_DENIED"


async def _said(pair: Cluster, shown: Path, member: str, timeout_s: float) -> str:
    async with aio.connect(pair.endpoint(member), credentials=shown / "billing", timeout=timeout_s) as billing:
        try:
            await billing.send("orders", b"x")
        except Denied as denied:
            return denied.reason
        except TandemqError as error:
            return error.reason
    return "OK"


async def _takes_over(ops: aio.Client, to: str) -> bool:
    try:
        return (await ops.handoff(to=to, reason="it was cut off")).done
    except TandemqError:
        return False
