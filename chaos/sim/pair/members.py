"""Both members of a simulated pair beside each other: whether they are whole, and equal; it changes nothing."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from chaos.sim.pair.member import endpoint_of
from failover.marks import DataMark
from replica.node.members import MAIN

if TYPE_CHECKING:
    from chaos.sim.pair.member import SimMember
    from chaos.sim.pair.run import Run
    from failover.register import Register


class Pair:
    """The members of one run, by name."""

    def __init__(self, run: Run, members: Mapping[str, SimMember]) -> None:
        self.run, self.members = run, members

    def endpoint(self, place: str) -> str:
        """Where clients reach a member; plans call the first one of each pair "a", and the second one "b"."""
        return endpoint_of(list(self.members)["ab".index(place)])

    @property
    def register(self) -> Register:
        """In force, as far as it is known; where the members keep it, the copy that is further."""
        copies = [found for member in self.members.values() if (found := member.own_register) is not None]
        return max(copies, key=lambda each: (each.epoch, each.version), default=self.run.registers.get(MAIN))

    def is_whole(self) -> bool:
        """Master and replica in sync, as the register says."""
        members = [member for member in self.members.values() if member.domain is not None]
        if len(members) < len(self.members):
            return False
        masters = [member for member in members if member.is_serving]
        register = self.register
        return (
            len(masters) == 1
            and register.in_sync_set == frozenset(self.members)
            and register.holder == masters[0].name
            and register.state.name == "COMMITTED"
            and masters[0].domain.mastership.commit.required == set(self.members)  # type: ignore[union-attr]  # asked above
            and all(member.domain.shared.state.data is DataMark.IN_SYNC for member in members)  # type: ignore[union-attr]
            and all(member.is_opened for member in members if member is not masters[0])
        )

    def is_equal(self) -> bool:
        """The same log and the same queues, applied."""
        if not self.is_whole():
            return False
        states = set()
        for member in self.members.values():
            assert member.domain is not None
            shared = member.domain.shared
            machine = shared.machine
            if machine is None or machine.applied_index != shared.log.last_index:
                return False
            states.add((shared.log.last_index, shared.log.digest, machine.digest()))
        return len(states) == 1
