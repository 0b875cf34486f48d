"""Says what the machine must know of a batch and whether its columns are well formed; never looks into a payload."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeVar

from replica.machine.state.errors import Refused
from replica.machine.state.segments import PRIORITIES
from tandemq.v1 import common_pb2, queue_service_pb2

DEDUP_ID_BYTES_MAX = 255
# What google.protobuf.Duration and Timestamp can say: a message must be able to be told as it was sent.
DURATION_MS_MAX = 315_576_000_000_000
TIMESTAMP_MS_MAX = 253_402_300_799_999
_Value = TypeVar("_Value", int, str, bool)
PERSISTENCE_VOLATILE, PERSISTENCE_PERSISTENT = 1, 2  # MessageBatch.persistence; 0: the queue's mode decides


class Columns(NamedTuple):
    """Each one after the sizes is empty (default), has one entry for all, or one a message."""

    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    payload_bytes: int
    payload_bytes_max: int  # of one message
    sizes: Sequence[int]  # payload bytes, one a message
    priorities: Sequence[int]
    persistence: Sequence[int]
    ttls_ms: Sequence[int]
    delays_ms: Sequence[int] = ()  # 0: at once
    deliver_at_ms: Sequence[int] = ()  # by the wall clock; 0: at once
    dedup_ids: Sequence[str] = ()  # empty: none
    reply_tos: Sequence[str] = ()  # empty: none
    group_ids: Sequence[str] = ()  # empty: none
    group_sequences: Sequence[int] = ()  # 0: none
    lasts_in_group: Sequence[bool] = ()

    def part(self, start: int, count: int) -> Columns:
        """Of some neighbouring messages, as if they had been sent alone."""
        end, sizes = start + count, self.sizes[start : start + count]
        return Columns(
            count,
            sum(sizes),
            max(sizes, default=0),
            sizes,
            _cut(self.priorities, start, end),
            _said(self.persistence, start, end),
            _said(self.ttls_ms, start, end),
            _said(self.delays_ms, start, end),
            _said(self.deliver_at_ms, start, end),
            _said(self.dedup_ids, start, end),
            _said(self.reply_tos, start, end),
            _said(self.group_ids, start, end),
            _said(self.group_sequences, start, end),
            _said(self.lasts_in_group, start, end),
        )

    def picked(self, ordinals: Sequence[int]) -> Columns:
        """Of some messages, as if they had been sent alone."""
        sizes = [self.sizes[ordinal] for ordinal in ordinals]
        return Columns(
            len(sizes),
            sum(sizes),
            max(sizes, default=0),
            sizes,
            _pick(self.priorities, ordinals),
            _pick(self.persistence, ordinals),
            _pick(self.ttls_ms, ordinals),
            _pick(self.delays_ms, ordinals),
            _pick(self.deliver_at_ms, ordinals),
            _pick(self.dedup_ids, ordinals),
            _pick(self.reply_tos, ordinals),
            _pick(self.group_ids, ordinals),
            _pick(self.group_sequences, ordinals),
            _pick(self.lasts_in_group, ordinals),
        )

    def group_place(self, ordinal: int) -> tuple[int, bool]:
        """Sequence in its group, and whether it is the last one."""
        sequences, lasts = self.group_sequences, self.lasts_in_group
        sequence = sequences[ordinal if len(sequences) > 1 else 0] if sequences else 0
        return sequence, bool(lasts) and lasts[ordinal if len(lasts) > 1 else 0]

    def dedup_id(self, ordinal: int) -> str:
        return self.dedup_ids[ordinal if len(self.dedup_ids) > 1 else 0] if self.dedup_ids else ""


def _cut(column: Sequence[_Value], start: int, end: int) -> Sequence[_Value]:
    return column[start:end] if len(column) > 1 else column


def _pick(column: Sequence[_Value], ordinals: Sequence[int]) -> Sequence[_Value]:
    return [column[ordinal] for ordinal in ordinals] if len(column) > 1 else column


def _said(column: Sequence[_Value], start: int, end: int) -> Sequence[_Value]:
    """None where none of these messages says anything."""
    cut = _cut(column, start, end)
    return cut if any(cut) else ()


def columns_of(batch: queue_service_pb2.EnqueueBatch) -> Columns:
    """One walk over the payloads, for the limits; the rest costs nothing unless a producer uses it."""
    messages = batch.messages
    sizes = list(map(len, messages.payloads))
    count = len(sizes)
    columns = Columns(
        count,
        sum(sizes),
        max(sizes, default=0),
        sizes,
        messages.priorities,
        messages.persistence,
        messages.ttls_ms,
        messages.delays_ms,
        messages.deliver_at_ms,
        messages.dedup_ids,
        messages.reply_tos,
        messages.group_ids,
        messages.group_sequences,
        messages.lasts_in_group,
    )
    for name, column in (
        ("priorities", columns.priorities),
        ("persistence", columns.persistence),
        ("ttls_ms", columns.ttls_ms),
        ("delays_ms", columns.delays_ms),
        ("deliver_at_ms", columns.deliver_at_ms),
        ("dedup_ids", columns.dedup_ids),
        ("content_types", messages.content_types),
        ("correlation_ids", messages.correlation_ids),
        ("reply_tos", messages.reply_tos),
        ("group_ids", columns.group_ids),
        ("properties", messages.properties),
        ("inerts", messages.inerts),
        ("group_sequences", columns.group_sequences),
        ("lasts_in_group", columns.lasts_in_group),
    ):
        if column and len(column) not in (1, count):
            raise Refused(
                common_pb2.REASON_BAD_REQUEST,
                f"{name} has {len(column)} entries for {count} messages; give none, one for all, or one each",
            )
    for name, numbers, highest in (
        ("priorities", columns.priorities, PRIORITIES - 1),
        ("persistence", columns.persistence, PERSISTENCE_PERSISTENT),
        ("ttls_ms", columns.ttls_ms, DURATION_MS_MAX),
        ("delays_ms", columns.delays_ms, DURATION_MS_MAX),
        ("deliver_at_ms", columns.deliver_at_ms, TIMESTAMP_MS_MAX),
    ):
        if numbers and max(numbers) > highest:
            text = f"{name} has {max(numbers)}; the highest is {highest}"
            raise Refused(common_pb2.REASON_BAD_ATTRIBUTE, text)
    if columns.dedup_ids and (longest := max(len(name.encode()) for name in columns.dedup_ids)) > DEDUP_ID_BYTES_MAX:
        text = f"a dedup id of {longest} bytes; it may have {DEDUP_ID_BYTES_MAX}"
        raise Refused(common_pb2.REASON_BAD_ATTRIBUTE, text)
    return columns
