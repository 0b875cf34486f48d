"""Where somebody is in a journal, as a value and as the contract has it."""

from __future__ import annotations

from typing import NamedTuple

from tandemq.v1 import journal_service_pb2 as pb


class JournalPosition(NamedTuple):
    """Between two rows of a domain's journal. Keep it, and go on from it at either member."""

    log_index: int
    epoch: int = 0
    """Names the history that was read; 0: not checked."""
    row: int = 0
    history_id: str = ""
    """Hexadecimal identity of the domain's history, which a pair that is started anew has not; empty: not checked."""


def position_of(found: pb.JournalPosition) -> JournalPosition:
    """From the contract."""
    return JournalPosition(found.log_index, found.epoch, found.row, found.history_id.hex())


def message_of(place: JournalPosition) -> pb.JournalPosition:
    """For the contract."""
    return pb.JournalPosition(
        log_index=place.log_index, epoch=place.epoch, row=place.row, history_id=bytes.fromhex(place.history_id)
    )


def seen_of(place: JournalPosition | None) -> pb.JournalPosition | None:
    """For a call that may say where the journal was when its caller was last answered; a member of an older version
    has said nothing, and nothing is checked then.
    """
    return message_of(place) if place is not None else None
