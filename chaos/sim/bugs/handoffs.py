"""Bugs of the handoff; plants them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import failover.handoff as table
from chaos.sim.bugs.planting import Patch, bug
from failover.handoff import Action, HandoffEvent, HandoffRow, HandoffState
from replica.core.mastership.claims import Claims
from replica.core.mastership.role import MemberRole

if TYPE_CHECKING:
    from replica.core.state.write_tokens import WriteToken


@bug("ceded-not-promised", "P15", "The epoch that is given away is not stored as promised.", "midway", 2_000, first=23)
def ceded_is_no_promise(patch: Patch) -> None:
    original = MemberRole.become_ceding

    def become_ceding(self: MemberRole, epoch: int, token: WriteToken) -> None:
        before = self.shared.state.promised_epoch
        original(self, epoch, token)
        self.shared.state.promised_epoch = before

    patch.setattr(MemberRole, "become_ceding", become_ceding)


@bug("no-way-out-of-doubt", "P16", "A master that has ceded waits for ever for the other one.", "midway", first=75)
def doubt_has_no_way_out(patch: Patch) -> None:
    for key in ((HandoffState.CEDING, HandoffEvent.LINK_LOST), (HandoffState.CEDING, HandoffEvent.DEADLINE)):
        patch.setattr(table, "TABLE", {at: row for at, row in table.TABLE.items() if at != key})
        patch.setattr(table, "IGNORED", (*table.IGNORED, ((key[0],), (key[1],), "taken out")))


@bug("ack-before-ceded", "P15", "The role is given away before that is written.", "half_ceded", 20)
def ack_before_the_write(patch: Patch) -> None:
    row = HandoffRow(HandoffState.CEDING, (Action.CEDE, Action.SEND_ACK), "too early")
    patch.setattr(table, "TABLE", {**table.TABLE, (HandoffState.DRAINING, HandoffEvent.DRAINED): row})


@bug("unrecorded-stays-unrecorded", "P18", "An epoch that nobody recorded is never recorded.", "midway", 2_000)
def unrecorded_is_never_recorded(patch: Patch) -> None:
    patch.setattr(Claims, "record", lambda _self, _register: None)


@bug(
    "alone-by-a-handoff",
    "P18",
    "Who takes the role without the register requires itself alone.",
    "midway",
    2_000,
    first=6,
)
def alone_by_a_handoff(patch: Patch) -> None:
    original = Claims.begin_unrecorded

    def begin(self: Claims, members: frozenset[str], reason: str, **options: Any) -> None:
        original(self, members & {self.shared.member}, reason, **options)

    patch.setattr(Claims, "begin_unrecorded", begin)
