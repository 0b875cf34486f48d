"""Bugs of the handoff; plants them."""

from __future__ import annotations

import failover.handoff as table
import replica.ceding
from chaos.sim.bugs.planting import Patch, bug
from failover.handoff import Event, State
from replica.replication import Replication


@bug("ceded-not-promised", "P15", "The epoch that is given away is not stored as promised.", "midway", 2_000, first=21)
def ceded_is_no_promise(patch: Patch) -> None:
    original = replica.ceding.cede

    def cede(replication: Replication, epoch: int, token: object) -> None:
        before = replication.shared.state.promised_epoch
        original(replication, epoch, token)
        replication.shared.state.promised_epoch = before

    patch.setattr(replica.ceding, "cede", cede)


@bug("no-way-out-of-doubt", "P16", "A master that has ceded waits for ever for the other one.", "midway", first=73)
def doubt_has_no_way_out(patch: Patch) -> None:
    for key in ((State.CEDING, Event.LINK_LOST), (State.CEDING, Event.DEADLINE)):
        patch.delitem(table.TABLE, key)
        patch.setattr(table, "IGNORED", (*table.IGNORED, ((key[0],), (key[1],), "taken out")))
