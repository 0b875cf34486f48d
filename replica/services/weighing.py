"""Finds from the bytes of a request that carries messages what would be costly to parse: maps that are far too large.
Decides by counts alone, and leaves what it does not understand to the parser.

One map of 360,000 entries in 4 MiB takes 0.11 s to be parsed and 0.23 s to be written again in a fixed order; its
outline (`outline.proto`), in which each entry is bytes and a payload is skipped, takes 7 ms. So a large request is
parsed by its outline first: some 28 us for 500 messages of 1 KiB. It is the parser itself that follows the fields:
whoever looks for tags by their bytes misses those that are written longer than they need be, and finds them in each
payload.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import DecodeError, Message

from replica.machine.plan.content import PROPERTIES_MAX
from replica.machine.plan.unit import QUEUES_MAX
from replica.rpc.refusals import refusal
from tandemq.peer.v1.outline_pb2 import (
    CommitOutline,
    EnqueueOutline,
    EnqueueSum,
    FrameOutline,
    ReactionOutline,
    ReactOutline,
    ReplyOutline,
    TransactManyOutline,
    TransactOutline,
)
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Iterable

    from replica.core.state.outcomes import Failed
    from replica.machine import Limits

M = TypeVar("M", bound=Message)

UNITS_MAX = 1_000
"""Of one TransactMany."""
LONG_BYTES = 128 << 10
"""A map in fewer bytes is parsed within 3 ms."""
COSTLY = 10_000
"""Properties of one message that are parsed, within 2 ms, and refused afterwards by their exact count (PROPERTIES_MAX):
on a stream that refuses one batch, where a refusal from here ends the stream."""


def problem_of_request(request: bytes, limits: Limits) -> Failed | None:
    """Of an EnqueueRequest: too many messages, or one with far too many properties."""
    if len(request) < LONG_BYTES:
        return None
    total = _outline(EnqueueSum, request)
    if (problem := _problem_of_reaction(total.reaction)) is not None:
        return problem
    if len(total.messages.properties) <= COSTLY:
        return None  # all together have no more than one may: seldom is more than that looked at
    rows = _outline(EnqueueOutline, request).messages
    if len(rows) > limits.batch_messages_max:  # to look at a million takes a second
        return _refused(f"{len(rows)} messages in a batch; it may have 1 to {limits.batch_messages_max}")
    return _problem_of_counts(len(row.properties) for row in rows)


def problem_of_unit(request: bytes, limits: Limits) -> Failed | None:
    """Of a TransactRequest: too many messages in all its puts, or one with far too many properties."""
    if len(request) < LONG_BYTES:
        return None
    puts = _outline(TransactOutline, request).puts
    problem = too_many("queues", len(puts), QUEUES_MAX)  # to walk over a million takes a second
    if problem is None:
        problem = too_many("messages", sum(len(put.messages) for put in puts), limits.batch_messages_max)
    return problem or _problem_of_counts(len(row.properties) for put in puts for row in put.messages)


def problem_of_units(request: bytes, limits: Limits) -> Failed | None:
    """Of a TransactManyRequest: too many units, or what one unit may not have, of all of them together."""
    if len(request) < LONG_BYTES:
        return None
    units = _outline(TransactManyOutline, request).units
    problem = too_many_of_a_call("units", len(units), UNITS_MAX)
    if problem is None:
        problem = too_many_of_a_call("puts", sum(len(each.puts) for each in units), limits.batch_messages_max)
    if problem is None:
        count = sum(len(put.messages) for each in units for put in each.puts)
        problem = too_many_of_a_call("messages", count, limits.batch_messages_max)
    rows = (row for each in units for put in each.puts for row in put.messages)
    return problem or _problem_of_counts(len(row.properties) for row in rows)


def problem_of_commit(request: bytes, limits: Limits) -> Failed | None:
    """Of a CommitRequest: more puts or messages than a unit may have, or a message with far too many properties."""
    if len(request) < LONG_BYTES:
        return None
    puts = _outline(CommitOutline, request).puts
    problem = too_many("calls", len(puts), limits.batch_messages_max)
    if problem is None:
        problem = too_many("messages", sum(len(put.messages) for put in puts), limits.batch_messages_max)
    return problem or _problem_of_counts(len(row.properties) for put in puts for row in put.messages)


def too_many(what: str, count: int, most: int) -> Failed | None:
    """For one unit of work."""
    if count <= most:
        return None
    text = f"a unit of work of {count} {what}; it may have {most}: make it smaller, or stage its messages"
    return refusal(Reason.REASON_TXN_TOO_LARGE, text, {"limit": str(most)})


def too_many_of_a_call(what: str, count: int, most: int) -> Failed | None:
    """For all units of one call together."""
    if count <= most:
        return None
    text = f"a call with {count} {what} in all its units of work; it may have {most}: send fewer units at a time"
    return refusal(Reason.REASON_TXN_TOO_LARGE, text, {"limit": str(most)})


def problem_of_reply(request: bytes) -> Failed | None:
    """Of a ReplyRequest: an answer with far too many properties."""
    if len(request) < LONG_BYTES:
        return None
    return _problem_of_counts((len(_outline(ReplyOutline, request).message.properties),))


def problem_of_reaction(request: bytes) -> Failed | None:
    """Of a ReactRequest: a change, or an input for who is asked, with far too many properties."""
    if len(request) < LONG_BYTES:
        return None
    return _problem_of_reaction(_outline(ReactOutline, request).reaction)


def _problem_of_reaction(asked: ReactionOutline) -> Failed | None:
    return _problem_of_counts((len(asked.update.set_properties), len(asked.custom.properties)))


def problem_of_frame(frame: bytes, limits: Limits) -> Failed | None:
    """Of a ProduceRequest or StageRequest: a column of properties that is too long, or has far too many of them."""
    if len(frame) < LONG_BYTES:
        return None
    column = _outline(FrameOutline, frame).batch.messages.properties
    if len(column) > limits.batch_messages_max:
        text = f"properties has {len(column)} entries; a batch may have {limits.batch_messages_max} messages"
        return _refused(text)
    return _problem_of_counts(len(each.entries) for each in column)


def _outline(kind: type[M], data: bytes) -> M:
    """Empty, where the bytes cannot be followed."""
    try:
        return kind.FromString(data)
    except DecodeError:
        return kind()


def _problem_of_counts(counts: Iterable[int]) -> Failed | None:
    if any(count > COSTLY for count in counts):
        return _refused(f"a message has more than {PROPERTIES_MAX} properties; it may have {PROPERTIES_MAX}")
    return None


def _refused(text: str) -> Failed:
    return refusal(Reason.REASON_BAD_REQUEST, text)
