"""Decides whether messages fit their groups, in a queue with group_mode COMPLETE (V19); changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from replica.machine.plan.columns import Columns
from replica.machine.state.errors import Refused
from replica.machine.state.gathering import Gathering, WholeGroups
from replica.machine.state.groups import hashes_of
from replica.machine.state.limits import Limits
from replica.machine.state.queue import QueueState
from tandemq.v1.common_pb2 import REASON_GROUP_MISMATCH, REASON_QUOTA_EXCEEDED, REASON_UNSPECIFIED, Reason


class Unfit(Enum):
    """What becomes of a message that does not fit its group."""

    REFUSED = "by name: its sender still has it"
    FREE = "it enters without a group: the manager puts it here"
    NEVER = "it takes the place of its earlier version"


def check_placed(queue: QueueState, columns: Columns) -> None:
    """Raises Refused (GROUP_MISMATCH) for the first message that fits no group whatever is there: one of a group
    without a place in it, or the reverse.
    """
    hashes = hashes_of(columns.group_ids, columns.count)
    for ordinal in range(columns.count):
        sequence, is_last = columns.group_place(ordinal)
        if bool(hashes and hashes[ordinal]) != bool(sequence) or (is_last and not sequence):
            text = (
                f"message {ordinal} for queue {queue.name} does not fit its group: give it a group_id and a "
                "group_sequence, or neither of them"
            )
            raise Refused(REASON_GROUP_MISMATCH, text, {"queue": queue.name, "entry": str(ordinal)})


class _Coming:
    """One group, with what a batch adds to it."""

    def __init__(self, there: Gathering | None) -> None:
        self.there = there
        self.sequences: set[int] = set()
        self.last = there.last if there is not None else 0
        self.highest = there.order[-1] if there is not None else 0
        self.payload_bytes = there.payload_bytes if there is not None else 0

    @property
    def is_new(self) -> bool:
        return self.there is None and not self.sequences

    def has(self, sequence: int) -> bool:
        return sequence in self.sequences or (self.there is not None and sequence in self.there.indexes)

    def fits(self, sequence: int, *, is_last: bool) -> bool:
        return (
            sequence > 0
            and not (self.there is not None and self.there.is_whole)
            and not self.has(sequence)
            and not (self.last and (is_last or sequence > self.last))
            and not (is_last and sequence < self.highest)
        )

    def add(self, sequence: int, payload_bytes: int, *, is_last: bool) -> None:
        self.sequences.add(sequence)
        self.last = sequence if is_last else self.last
        self.highest = max(self.highest, sequence)
        self.payload_bytes += payload_bytes


@dataclass(slots=True)
class Fitting:
    """Of one batch, entry by entry, in their order."""

    groups: WholeGroups
    columns: Columns
    limits: Limits
    members_max: int
    bytes_max: int
    hashes: Sequence[int]
    """Of the groups, one an entry; empty: none has one."""
    coming: dict[int, _Coming]
    opened: int = 0

    def problem(self, ordinal: int) -> Reason:
        """Why it may not enter; UNSPECIFIED: it may, or is of no group."""
        sequence, is_last = self.columns.group_place(ordinal)
        group = self.hashes[ordinal] if self.hashes else 0
        if not group:
            return REASON_GROUP_MISMATCH if sequence or is_last else REASON_UNSPECIFIED
        coming = self._of(group)
        too_much = coming.payload_bytes + self.columns.sizes[ordinal] > self.bytes_max
        if too_much or sequence > self.members_max or not coming.fits(sequence, is_last=is_last):
            return REASON_GROUP_MISMATCH
        if coming.is_new and self.groups.gathering + self.opened >= self.limits.groups_max:
            return REASON_QUOTA_EXCEEDED  # that may pass
        return REASON_UNSPECIFIED

    def enters(self, ordinal: int) -> None:
        """It was let in."""
        group = self.hashes[ordinal] if self.hashes else 0
        if group:
            coming = self._of(group)
            self.opened += coming.is_new
            sequence, is_last = self.columns.group_place(ordinal)
            coming.add(sequence, self.columns.sizes[ordinal], is_last=is_last)

    def _of(self, group: int) -> _Coming:
        found = self.coming.get(group)
        if found is None:
            found = self.coming[group] = _Coming(self.groups.by_hash.get(group))
        return found


def fitting(queue: QueueState, columns: Columns, limits: Limits) -> Fitting | None:
    """None: nothing is to be asked."""
    asks = any(columns.group_ids) or any(columns.group_sequences) or any(columns.lasts_in_group)
    if not asks or not isinstance(queue.groups, WholeGroups):
        return None
    # All of a group are in the queue at once, before any of it is delivered.
    members_max = min(limits.group_members_max, queue.config.max_length)
    bytes_max = min(limits.group_bytes_max, queue.config.max_bytes or limits.group_bytes_max)
    hashes = hashes_of(columns.group_ids, columns.count)
    return Fitting(queue.groups, columns, limits, members_max, bytes_max, hashes, {})


def of_no_group(queue: QueueState, indexes: Sequence[int]) -> list[int]:
    """Ordinals, among these messages of the queue, of those that entered it without a group, whatever they say."""
    if not isinstance(queue.groups, WholeGroups):
        return []
    parts = (next(iter(queue.segments.parts(index, index + 1))) for index in indexes)
    return [ordinal for ordinal, (part, index) in enumerate(zip(parts, indexes, strict=True)) if not part.group(index)]
