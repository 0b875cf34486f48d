"""Time passes while a manager reads its logs: no core is asked for anything before all parts are there."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest

import replica.manager
from failover.authority import MemoryAuthority, MemoryRegisters
from failover.local_authority import LocalAuthority
from failover.marks import Role
from replica.node.recovery import recover
from tests.fuzz.world import World

if TYPE_CHECKING:
    from failover.authority import Authority
    from replica.core.state.shared import Shared
    from replica.machine import Machine
    from storage.store import Store
    from tandemq.config import ManagerConfig

RECOVER_S = 0.1
"""Of virtual time, for each domain: some ticks."""


def _with_witness(config: ManagerConfig) -> Authority:
    """One that answers nobody."""
    authority = MemoryAuthority(MemoryRegisters(), config.member)
    authority.unreachable = True
    return authority


def _without(config: ManagerConfig) -> Authority:
    return LocalAuthority(config.member)


@pytest.mark.parametrize("authority", [_with_witness, _without])
def test_a_start_that_reads_long_logs_is_a_start(authority: object, monkeypatch: pytest.MonkeyPatch) -> None:
    async def slowly(store: Store, shared: Shared) -> Machine:
        machine = await recover(store, shared)
        await asyncio.sleep(RECOVER_S)
        return machine

    monkeypatch.setattr(replica.manager, "recover", slowly)
    world = World(paired=True)
    monkeypatch.setattr(world.access, "authority", authority)

    async def story(world: World) -> None:
        assert world.members.by_name["main"].shared.role is Role.PROBE

    world.run(story)
