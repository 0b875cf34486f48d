"""What one domain asks of its shell, in order. Collects it; decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.core.state.durable import state_key
from replica.core.state.effects import Note, Persist, Send
from tandemq.peer.v1.peer_service_pb2 import PeerFrame
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.state.durable import DomainState
    from replica.core.state.effects import Effect
    from replica.core.state.write_tokens import WriteToken


class Outbox:
    """The effects since the shell took the last ones."""

    def __init__(self, domain: int, state: DomainState) -> None:
        self._domain = domain
        self.state = state
        self.effects: list[Effect] = []
        self.add: Callable[[Effect], None] = self.effects.append
        """Ask for an effect; the list's own method, as it is called for every batch."""

    def take(self) -> list[Effect]:
        """The effects since the last call, in order."""
        out = self.effects.copy()
        self.effects.clear()
        return out

    def send(self, **frame: object) -> None:
        """Queue a control frame of this domain for the peer, in the epoch in force."""
        self.effects.append(Send(PeerFrame(domain=self._domain, epoch=self.state.epoch, **frame)))  # type: ignore[arg-type]  # oneof by keyword

    def persist_state(self, token: WriteToken | None = None, **extra: object) -> None:
        """Write the domain's facts, with whatever belongs to the same transaction."""
        meta: dict[str, bytes | None] = {state_key(self._domain): self.state.encode()}
        self.effects.append(Persist(meta=meta, token=token, **extra))  # type: ignore[arg-type]  # fields of Persist by keyword

    def note_transfer(self, text: str, **facts: str) -> None:
        """A state transfer began or ended."""
        self.effects.append(Note(PairEventKind.PAIR_EVENT_KIND_TRANSFER, text, facts))
