"""Every kind of fault stands in the table: one that does not would never strike."""

from __future__ import annotations

import inspect
from types import ModuleType

import pytest

from chaos.sim.faults import disks, machines, moments, stops, transfers
from chaos.sim.faults.table import KINDS


@pytest.mark.parametrize("module", [machines, disks, moments, stops, transfers], ids=lambda module: module.__name__)
def test_every_kind_stands_in_the_table(module: ModuleType) -> None:
    kinds = {each for each in vars(module).values() if inspect.isclass(each) and each.__module__ == module.__name__}
    striking = {each for each in kinds if hasattr(each, "strike")}
    assert striking
    assert striking - {entry.kind for entry in KINDS.values()} == set()
