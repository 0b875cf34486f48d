"""Where reactions are switched off at a member's door (V1)."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from replica.services import forward
from replica.services.messages.custom import Customs
from replica.services.messages.react import ReactionHandlers
from tandemq.config_custom import Custom
from tests.unit.replica.services.admin.test_journal import Context, RefusedError


class FromThePeer(Context):
    """A call that the other member sends on."""

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ((forward.HOP, "b"),)


async def asked(context: Context, *, enabled: bool) -> str:
    """Why a call without anything in it is refused."""
    members = cast("Any", SimpleNamespace(member="a", node=SimpleNamespace(limits=SimpleNamespace(batch_bytes_max=1))))
    with pytest.raises(RefusedError) as refused:
        await ReactionHandlers(members, Customs(Custom(), {}), enabled=enabled).react(b"", context)
    return str(refused.value)


@pytest.mark.requirement("R189")
async def test_v1_a_member_without_reactions_refuses_its_clients_and_not_its_peer() -> None:
    off = await asked(Context(), enabled=False)
    assert off.startswith("FAILED_PRECONDITION")
    assert "manager.reactions" in off
    for context, enabled in ((Context(), True), (FromThePeer(), False)):
        assert "request_id" in await asked(context, enabled=enabled)
