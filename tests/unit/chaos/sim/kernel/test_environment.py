"""What the simulated machine notes of the product's files: as much as they hold, and no more than can be believed."""

from __future__ import annotations

import random

import pytest

from chaos.sim.kernel.disk import Disk
from chaos.sim.kernel.environment import Machine, SalvageNotes
from replica.core.state.effects import Salvage
from storage.records import PREFIX_SIZE
from storage.store import Append, WriteBatch
from tests.unit.replica.node.test_salvage import DOMAIN, filled

CUT = Salvage(2, 4, 3, "because")


def notes() -> tuple[SalvageNotes, Machine]:
    machine = Machine("a", Disk("a", random.Random(1), lambda: 0.0))
    return SalvageNotes(machine), machine


def test_every_record_of_the_cut_is_noted_under_its_name() -> None:
    kept, machine = notes()
    kept.keep(filled("role", "enqueue", "enqueue", "enqueue"), DOMAIN, "main", CUT)
    assert machine.salvaged == {(DOMAIN, 2, 3): True, (DOMAIN, 3, 3): True, (DOMAIN, 4, 3): False}


@pytest.mark.parametrize(
    "at", [0, 2, 15, 31, PREFIX_SIZE, -1], ids=["magic", "format", "epoch", "length", "header", "body"]
)
def test_a_damaged_record_is_noted_as_kept_under_no_name(at: int) -> None:
    """The product keeps it as it is; what it says of itself, its epoch above all, was never acknowledged by anybody."""
    store = filled("role", "enqueue", "enqueue", "enqueue")
    record = bytearray(store.read(DOMAIN, 3) or b"")
    record[at] ^= 4
    store.commit(WriteBatch(inserts=[Append(DOMAIN, 3, bytes(record))]))
    kept, machine = notes()
    kept.keep(store, DOMAIN, "main", CUT)
    assert [info.foot.damaged for info in kept.infos()] == [[(1, 3)]]
    assert machine.salvaged == {(DOMAIN, 2, 3): True, (DOMAIN, 3, 0): False, (DOMAIN, 4, 3): False}
