"""Reads the log of a simulated member from its disk, from the first record to the last, or not at all; it judges
nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from chaos.sim.judges.invariants import NUMBER, STATE, Name
from replica.core.state.durable import decode_state
from storage.errors import CorruptRecord
from storage.records import ZERO_DIGEST, split, verify_stored
from tandemq.peer.v1.record_pb2 import RecordHeader

if TYPE_CHECKING:
    from chaos.sim.kernel.disk import Disk


class Stored(NamedTuple):
    """One record, undamaged."""

    name: Name
    header: RecordHeader
    body: bytes


def read(disk: Disk, spare: Disk | None = None) -> list[Stored] | None:
    """What is on that disk; None when the beginning of the log is not there any more, or a record is damaged. One that
    `spare` has as it was written, by its place in the chain of digests, is taken from there.
    """
    meta = disk.meta(STATE)
    state = decode_state(meta) if meta is not None else None
    if state is None or state.base_index or state.kept_from > 1:
        return None
    found: list[Stored] = []
    log_index, digest = 1, ZERO_DIGEST
    while (own := disk.record(NUMBER, log_index)) is not None:
        copies = [own, spare.record(NUMBER, log_index) if spare is not None else None]
        record = next((each for each in copies if each is not None and _follows(each, digest)), None)
        if record is None:
            return None
        prefix, header, body = split(record)
        found.append(Stored(Name(prefix.epoch, log_index), RecordHeader.FromString(bytes(header)), bytes(body)))
        log_index, digest = log_index + 1, prefix.digest
    return found


def _follows(record: bytes, digest: bytes) -> bool:
    try:
        verify_stored(record, previous_digest=digest)
    except CorruptRecord:
        return False
    return True
