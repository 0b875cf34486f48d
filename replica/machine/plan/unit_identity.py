"""Decides what a unit's number says: a repetition, the next one, or neither; changes nothing (U15).

(writer, number) is remembered for as long as the writer is, where a request id is forgotten after ten minutes.
"""

from __future__ import annotations

from typing import NamedTuple

from replica.machine.plan.writers import check_room_for_writer, writer_of
from replica.machine.state.errors import Refused
from replica.machine.state.state import State
from tandemq.v1 import common_pb2

BUSY_MS = 100
"""After which a unit is tried again that found its writer's publication under way."""


class UnitIdentity(NamedTuple):
    """Under which number of which writer a unit is executed once."""

    writer: str
    query_id: str
    number: int
    after: int  # the number before it
    digest: int  # of its messages and their queues, or whatever the writer compares it by


class RepeatedNumber(NamedTuple):
    """It was executed before, or passed over."""

    last: int  # the writer's
    digest: int  # of what came now
    known: int | None  # of what that number was of; None: there is nothing to compare with

    @property
    def differs(self) -> bool:
        return self.known is not None and self.known != self.digest


def find_number(state: State, identity: UnitIdentity | None) -> RepeatedNumber | None:
    """None: nobody has used it, or there is no identity. Raises Refused (WRITER_TAKEN)."""
    if identity is None:
        return None
    known = writer_of(state.stages, identity.writer, identity.query_id)
    if known is None or identity.number > known.batch:
        return None
    return RepeatedNumber(known.batch, identity.digest, known.units.digest_of(identity.number))


def check_follows(state: State, identity: UnitIdentity) -> None:
    """Raises Refused: something is missing before it, or no more writers are taken in."""
    stages = state.stages
    known = stages.writers.get(identity.writer)
    last = known.batch if known is not None else 0
    assert identity.number > last, "find_number comes first"
    if identity.after != last:
        text = (
            f"unit {identity.number} of writer {identity.writer!r} follows {identity.after}, and the last one here is "
            f"{last}; nothing of it was done: repeat what lies between, in order"
        )
        metadata = {"writer": identity.writer, "last_number": str(last)}
        digest = known.units.digest_of(last) if known is not None else None
        if digest is not None:
            metadata["last_digest"] = f"{digest:016x}"
        raise Refused(common_pb2.REASON_SEQUENCE_GAP, text, metadata)
    if stages.is_publishing(identity.writer):
        text = (
            f"batch {last} of writer {identity.writer!r} is being put into its queues; unit {identity.number} would "
            "pass it: repeat it when that is published"
        )
        metadata = {"writer": identity.writer, "last_number": str(last)}
        raise Refused(common_pb2.REASON_SEQUENCE_GAP, text, metadata, BUSY_MS)
    check_room_for_writer(state, identity.writer)
