"""Bugs of what is damaged on a master's disk; plants them."""

from __future__ import annotations

from typing import TYPE_CHECKING

import replica.core.messages.bodies
from chaos.sim.bugs.planting import Patch, bug
from replica.core.delivery.damage import Damage
from replica.core.state.log import DomainLog
from storage.records import PREFIX_SIZE, read_stored_prefix

if TYPE_CHECKING:
    from storage.records import Prefix


@bug("delivers-damaged", "reliability 6.8", "A record that is damaged is delivered.", "rot", 30)
def delivers_damaged(patch: Patch) -> None:
    def split_by_lengths(record: bytes) -> tuple[Prefix, memoryview, memoryview]:
        prefix, view = read_stored_prefix(record), memoryview(record)
        body_at = PREFIX_SIZE + prefix.header_len
        return prefix, view[PREFIX_SIZE:body_at], view[body_at:]

    patch.setattr(replica.core.messages.bodies, "split_stored", split_by_lengths)


@bug("damaged-is-leased", "0030", "A record is looked at when it is delivered, and not before.", "rot", 30)
def damaged_is_leased(patch: Patch) -> None:
    patch.setattr(Damage, "narrower", lambda _self: None)
    patch.setattr(Damage, "is_met", lambda _self, _machine, _op: False)


@bug("unwritten-is-forgotten", "0011", "Memory lets go of records that no disk has yet.", "rot", 10)
def unwritten_is_forgotten(patch: Patch) -> None:
    original = DomainLog._shrink

    def shrink(self: DomainLog) -> None:
        self.stored_index = self.last_index
        original(self)

    patch.setattr(DomainLog, "_shrink", shrink)
