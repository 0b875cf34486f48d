"""One handoff that is under way: its facts, its frames, and how it ended. Values; decides nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from failover.handoff import DEADLINES, HandoffState
from tandemq.peer.v1.peer_service_pb2 import HandoffAck, HandoffPropose, HandoffRequest

if TYPE_CHECKING:
    from collections.abc import Callable

HOLD_MS = DEADLINES[HandoffState.DRAINING].milliseconds


class HandoffOutcome(NamedTuple):
    """How a handoff ended, as far as this member knows."""

    done: bool
    """In a dry run: it would be."""
    reasons: tuple[str, ...] = ()
    handoff_id: str = ""
    final_index: int = 0
    epoch: int = 0
    pause_ms: int = 0
    """How long nothing was ordered."""


@dataclass(slots=True, eq=False)
class Attempt:
    """A handoff that is under way, or a caller who is refused one."""

    id: bytes
    reason: str
    dry_run: bool = False
    hold_ms: int = HOLD_MS
    on_end: Callable[[HandoffOutcome], None] | None = None
    automatic: bool = False
    """Nobody asked for it."""
    last_index: int = 0
    epoch: int = 0
    """In which it began; then the ceded one."""
    drain_at_ms: int = 0
    final_index: int = 0
    final_digest: bytes = b""

    def request(self) -> HandoffRequest:
        """The replica asks."""
        return HandoffRequest(id=self.id, reason=self.reason, dry_run=self.dry_run)

    def propose(self) -> HandoffPropose:
        """The master offers."""
        return HandoffPropose(
            id=self.id,
            last_index=self.last_index,
            deadline_ms=self.hold_ms,
            dry_run=self.dry_run,
            reason=self.reason,
            automatic=self.automatic,
        )

    def ack(self) -> HandoffAck:
        """The role is ceded."""
        return HandoffAck(
            id=self.id,
            final_index=self.final_index,
            final_digest=self.final_digest,
            ceded_epoch=self.epoch,
        )
