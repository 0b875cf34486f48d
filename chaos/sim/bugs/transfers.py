"""Bugs of full transfers; plants them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from chaos.sim.bugs.planting import Patch, bug
from replica.core.mastership import step_aside
from replica.core.mastership.mastership import Mastership
from replica.core.replication.sync_source import Aside

if TYPE_CHECKING:
    from replica.core.domain import Domain


@bug("all-wait-for-a-resync", "P22", "A full transfer is begun while commits wait for its receiver.", "resync", 30)
def all_wait(patch: Patch) -> None:
    def resync(domain: Domain, reason: str, *, full: bool) -> str:
        replication, shared = domain.replication, domain.shared
        if replication.serving or replication.claim is not None or not domain.target.opened:
            return "not now"
        shared.wants_full = full
        replication.to_probe(reason)
        return ""

    patch.setattr(step_aside, "resync", resync)
    patch.setattr(Mastership, "aside", lambda _self: Aside.IS_ASIDE)


@bug("epoch-ends-a-transfer", "P22", "A new epoch ends the full transfer that its master sends.", "resync", 60, first=7)
def an_epoch_ends_it(patch: Patch) -> None:
    patch.setattr(Mastership, "_keep_filling", lambda _self: False)
