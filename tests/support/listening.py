"""Whoever listens to a node in a test that asks for nothing of it."""

from __future__ import annotations

from chaos.sim.kernel.environment import SimWriter
from replica.core.domain import Domain
from replica.core.state.effects import AskVerdict, Note, RoleChanged, Salvage
from replica.machine import Limits
from replica.node.loop import Node
from storage.store import Store


class Quiet:
    """Hears everything and does nothing; keeps no copy of what is cut."""

    def on_role(self, domain: Domain, change: RoleChanged) -> None:
        pass

    def on_note(self, domain: Domain, note: Note) -> None:
        pass

    def on_ask(self, domain: Domain, ask: AskVerdict) -> None:
        pass

    def on_fault(self, text: str) -> None:
        pass

    def on_mark(self) -> None:
        pass

    def keep(self, store: Store, number: int, domain: str, salvage: Salvage) -> None:
        pass


def quiet_node(store: Store, authority: object = None) -> Node:
    """Nobody listens to it."""
    quiet = Quiet()
    return Node(store, authority, Limits(), quiet, quiet, SimWriter())  # type: ignore[arg-type]  # an authority, or none
