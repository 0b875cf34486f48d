"""A member names what it does by the number of its start: what the witness has counted, whatever its disk said."""

from __future__ import annotations

import pytest

from chaos.sim.kernel import silence
from chaos.sim.plan import Fault, Plan
from chaos.sim.world import World


@pytest.mark.parametrize("lost", ["a", "b"])
def test_after_its_disk_was_lost_a_member_names_nothing_as_before(lost: str) -> None:
    """Else nonces and handoffs of two starts are one, for the empty disk counts from 1 again."""
    faults = (
        Fault(300, "crash", lost, {"down_ms": 10, "power": False}),
        Fault(1500, "lost_disk", lost, {"down_ms": 50}),
    )
    world = World(Plan(1, "given", faults=faults))
    with silence():
        outcome = world.run()
    assert outcome.violations == []
    assert outcome.counters["fault.lost_disk"] == 1
    starts = {name: world.registers.get(f"start/{name}").epoch for name in world.members}
    assert starts[lost] == 3
    assert {name: member.domain.shared.incarnation for name, member in world.members.items() if member.domain} == starts


@pytest.mark.parametrize("lost", ["a", "b"])
def test_the_peer_remembers_a_start_that_the_register_has_forgotten(lost: str) -> None:
    """Else a disk that is lost later counts from 1, the register agrees, and the peer takes it for a copy for ever.

    b calls; a, which is called, is asked for no number, and is taken as it is.
    """
    faults = (
        Fault(300, "register_lost", "register", {"for_ms": 10}),
        Fault(2000, "lost_disk", lost, {"down_ms": 50}),
    )
    world = World(Plan(1, "given", faults=faults))
    with silence():
        outcome = world.run()
    assert outcome.violations == []
    assert outcome.counters["fault.lost_disk"] == 1
    domain = world.members[lost].domain
    assert domain is not None
    assert domain.shared.incarnation == world.registers.get(f"start/{lost}").epoch == {"a": 1, "b": 2}[lost]
