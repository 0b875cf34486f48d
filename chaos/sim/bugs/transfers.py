"""Bugs of full transfers; plants them."""

from __future__ import annotations

from chaos.sim.bugs.planting import Patch, bug
from replica.core.mastership.copy_orders import CopyOrders
from replica.core.mastership.leaving import Leaving
from replica.core.mastership.peer import Peer
from replica.core.replication.sync_source import Aside


@bug("all-wait-for-a-resync", "P22", "A full transfer is begun while commits wait for its receiver.", "resync", 30)
def all_wait(patch: Patch) -> None:
    def resync(self: CopyOrders, reason: str, *, full: bool) -> str:
        if self.shared.serving or self.role.claim is not None or not self.target.opened:
            return "not now"
        self.shared.wants_full = full
        self.role.become_probe(reason)
        return ""

    patch.setattr(CopyOrders, "resync", resync)
    patch.setattr(Leaving, "aside", lambda _self: Aside.IS_ASIDE)


@bug("epoch-ends-a-transfer", "P22", "A new epoch ends the full transfer that its master sends.", "resync", 60, first=7)
def an_epoch_ends_it(patch: Patch) -> None:
    patch.setattr(Peer, "keep_filling", lambda _self: False)
