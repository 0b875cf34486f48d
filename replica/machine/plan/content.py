"""Says what clients may put into messages beside payloads: how long, how many, and which names. Never looks into a
payload, and is not asked about messages that are stored already: what was let in once may be moved and put back.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from replica.machine.state.errors import Refused
from tandemq.v1 import common_pb2, message_pb2

TEXT_BYTES_MAX = 1_024
"""Of a content type, correlation id, reply_to, group id, and of the name of a property. They are in memory, some for as
long as their message lives, and count for no limit of a queue."""
PROPERTIES_MAX = 256
"""Of one message."""
MANAGERS_PROPERTIES_MAX = 8
"""Of one message, beside those: what managers set does not make it one of too many."""
BATCH_PROPERTIES_MAX = 200_000
"""Of all messages of a batch, each with its own or the one entry for all: 20 each, if they are 10,000. A map costs far
more than its bytes, when it arrives and each time it is handed out as rows."""
RESERVED = "tq_"
"""Begins the names of properties that the manager sets: it acts by what they say."""
UTF8_BYTES_MAX = 4  # of one character


def check_content(messages: message_pb2.MessageBatch, *, managers: bool = False) -> None:
    """Refused, if a client may not send it. Costs nothing for columns that are not used.

    `managers`: names that are a manager's may be there: it has put them there, or another one has.
    """
    for name, column in (
        ("content_types", messages.content_types),
        ("correlation_ids", messages.correlation_ids),
        ("reply_tos", messages.reply_tos),
        ("group_ids", messages.group_ids),
    ):
        if column:
            _check_texts(name, column)
    if messages.properties:
        counts = [len(each.entries) for each in messages.properties]
        check_counts(counts, len(messages.payloads), managers=managers)
        names: set[str] = set()
        for each in messages.properties:
            names.update(each.entries)
        _check_names(name for name in names if not (managers and name.startswith(RESERVED)))


def check_message(message: message_pb2.Message) -> None:
    """The same of one message."""
    for name in ("content_type", "correlation_id", "reply_to", "group_id"):
        _check_texts(name, (getattr(message, name),))
    if message.properties:
        check_counts((len(message.properties),), 1)
        _check_names(message.properties)


def check_counts(counts: Sequence[int], messages: int, *, managers: bool = False) -> None:
    """Properties of each message, or one number for all. To be asked before anything walks over them."""
    if (most := max(counts, default=0)) > PROPERTIES_MAX + (MANAGERS_PROPERTIES_MAX if managers else 0):
        text = f"messages[{counts.index(most)}] has {most} properties; a message may have {PROPERTIES_MAX}"
        raise Refused(common_pb2.REASON_BAD_REQUEST, text)
    total = sum(counts) if len(counts) > 1 else most * messages
    if total > BATCH_PROPERTIES_MAX:
        text = f"{total} properties in a batch; it may have {BATCH_PROPERTIES_MAX}: send fewer messages at once"
        raise Refused(common_pb2.REASON_BAD_REQUEST, text)


def _check_texts(name: str, column: Sequence[str]) -> None:
    if UTF8_BYTES_MAX * max(map(len, column)) <= TEXT_BYTES_MAX:
        return
    if (longest := max(len(text.encode()) for text in column)) > TEXT_BYTES_MAX:
        text = f"{name} has an entry of {longest} bytes; it may have {TEXT_BYTES_MAX}"
        raise Refused(common_pb2.REASON_BAD_ATTRIBUTE, text)


def _check_names(names: Iterable[str]) -> None:
    for name in names:
        if name.startswith(RESERVED):
            text = (
                f"property {name[:TEXT_BYTES_MAX]!r}: names that begin with {RESERVED} are the manager's; leave it out"
            )
            raise Refused(common_pb2.REASON_BAD_REQUEST, text)
        if UTF8_BYTES_MAX * len(name) > TEXT_BYTES_MAX and (size := len(name.encode())) > TEXT_BYTES_MAX:
            text = f"a property's name of {size} bytes; it may have {TEXT_BYTES_MAX}"
            raise Refused(common_pb2.REASON_BAD_ATTRIBUTE, text)
