"""Judges what lies on the disks of a simulated pair that has come to rest: each member's log, whole and undamaged, is
the one that its process says it has. Whatever else is judged by a log at the end relies on that.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from chaos.sim.judges.invariants import NUMBER, STATE, Name
from replica.core.state.durable import decode_state
from storage.errors import CorruptRecord
from storage.records import verify_stored

if TYPE_CHECKING:
    from chaos.sim.judges.invariants import Invariants
    from chaos.sim.pair.member import SimMember
    from chaos.sim.pair.members import Pair

NAME = "a log is whole on its disk"


def broken(pair: Pair, invariants: Invariants) -> Iterator[str]:
    """Of each member that is up the first finding; what a fault has damaged, and nobody has found yet, is not asked."""
    for member in pair.members.values():
        if member.domain is not None and not member.machine.disk.is_damaged:
            problem = next(_of_member(member, invariants), None)
            if problem is not None:
                yield f"{member.name}: {problem}"


def _of_member(member: SimMember, invariants: Invariants) -> Iterator[str]:
    assert member.domain is not None
    shared, disk = member.domain.shared, member.machine.disk
    stored = disk.meta(STATE)
    if stored is None:
        yield "nothing says what it holds"
        return
    state, digest = decode_state(stored), b""
    for log_index in range(max(state.base_index + 1, state.kept_from), shared.log.last_index + 1):
        record = disk.record(NUMBER, log_index)
        if record is None:
            yield f"record {log_index} of {shared.log.last_index} is not there"
            return
        try:
            prefix = verify_stored(record)
        except CorruptRecord as corrupt:
            yield f"record {log_index}: {corrupt.what}"
            return
        digest = prefix.digest
        if (prefix.log_index, invariants.digests.get(Name(prefix.epoch, log_index))) != (log_index, digest):
            yield f"record {log_index} is not the one that was stored"
    if digest and digest != shared.log.digest:
        yield f"its last record, {shared.log.last_index}, is not the one that its process has"
