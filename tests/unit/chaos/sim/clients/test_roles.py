"""Every role of a client stands in the table: one that does not would be in no plan."""

from __future__ import annotations

import inspect
from collections.abc import Iterator

from chaos.sim.clients.base import SimClient
from chaos.sim.clients.drains import Drain
from chaos.sim.clients.roles import ROLES


def below(base: type[SimClient]) -> Iterator[type[SimClient]]:
    for each in base.__subclasses__():
        yield each
        yield from below(each)


def test_every_role_stands_in_the_table() -> None:
    working = {each for each in below(SimClient) if not inspect.isabstract(each)}
    assert working == {*ROLES.values(), Drain}, "Drain comes at the end of every run, and in no plan"
