"""Bugs of a change of a queue's persistence; plants them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.sim.bugs.planting import Patch, bug
from replica.core.ordering.saving import Saving
from replica.node.steps import GroupCommit
from replica.peer.transfer import Receiver

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.core.state.calls import Waiter
    from replica.core.state.effects import Persist
    from replica.core.state.outcomes import QueueDone
    from replica.machine import QueueCall
    from tandemq.peer.v1.peer_service_pb2 import QueueSegments


@bug(
    "saved-without-bodies",
    "R153",
    "A record that makes messages persistent is stored without bodies.",
    "changes",
)
def saved_without_bodies(patch: Patch) -> None:
    original = GroupCommit.add

    def add(self: GroupCommit, domain: Domain, effect: Persist) -> int:
        return original(self, domain, effect._replace(bodies=()))

    patch.setattr(GroupCommit, "add", add)


@bug(
    "saved-in-part",
    "R153",
    "A change of the persistence is answered when its first part is saved.",
    "changes",
    first=13,
)
def saved_in_part(patch: Patch) -> None:
    original = Saving.holds

    def holds(self: Saving, waiter: Waiter, call: QueueCall, done: QueueDone) -> bool:
        waiting = list(self.waiting)
        if original(self, waiter, call, done):
            self.waiting = waiting
        return False

    patch.setattr(Saving, "holds", holds)


@bug("saved-and-not-transferred", "R153", "A full transfer takes saved messages into memory only.", "changes", first=49)
def saved_and_not_transferred(patch: Patch) -> None:
    original = Receiver._on_segments

    async def on_segments(self: Receiver, segments: QueueSegments) -> None:
        del segments.saved[:]
        await original(self, segments)

    patch.setattr(Receiver, "_on_segments", on_segments)
