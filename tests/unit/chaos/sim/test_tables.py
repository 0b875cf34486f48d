"""Every kind of fault and every role of a client stands in its table: one that does not would never be met."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from types import ModuleType

import pytest

from chaos.sim.clients.base import SimClient
from chaos.sim.clients.roles import ROLES
from chaos.sim.clients.takers import Drain
from chaos.sim.faults import disks, machines, moments, stops, transfers
from chaos.sim.faults.table import KINDS


@pytest.mark.parametrize("module", [machines, disks, moments, stops, transfers], ids=lambda module: module.__name__)
def test_every_kind_stands_in_the_table(module: ModuleType) -> None:
    kinds = {each for each in vars(module).values() if inspect.isclass(each) and each.__module__ == module.__name__}
    striking = {each for each in kinds if hasattr(each, "strike")}
    assert striking
    assert striking - {entry.kind for entry in KINDS.values()} == set()


def below(base: type[SimClient]) -> Iterator[type[SimClient]]:
    for each in base.__subclasses__():
        yield each
        yield from below(each)


def test_every_role_stands_in_the_table() -> None:
    working = {each for each in below(SimClient) if not inspect.isabstract(each)}
    assert working == {*ROLES.values(), Drain}, "Drain comes at the end of every run, and in no plan"
