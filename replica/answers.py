"""Turns what the core answers into replies and refusals of the wire, for whoever waits. Makes no decisions."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, NoReturn

from google.protobuf.duration_pb2 import Duration

from replica.outcomes import Failed, Moved
from tandemq import refusing
from tandemq.v1.common_pb2 import LEVEL_LOCAL, LEVEL_PAIR_RECV, LEVEL_PAIR_SYNC, Error, Level, Reason, ResponseHeader
from tandemq.v1.common_pb2 import Warning as WarningKind
from tandemq.v1.queue_service_pb2 import EnqueueAck, EntryDuplicate, EntryError

if TYPE_CHECKING:
    import grpc

    from replica.domain import Domain
    from replica.members import Members
    from replica.outcomes import Answer, EnqueueDone, LeaseDone

_TEXT = {
    Reason.REASON_MESSAGE_TOO_LARGE: "a message is larger than max_message_bytes of queue {}; send less, or raise it",
    Reason.REASON_QUEUE_FULL: "queue {} is at its max_length or max_bytes; consume, or raise the limit",
}

# A refusal names what the caller sent, and that may have any length. A status travels in headers, of which clients take
# 8 KiB by default: in them each byte of the text may become three, and all of it comes again in the details, where
# three bytes become four. 3 x 1,024 + 4/3 x (1,024 + 6 x (32 + 160) + what frames them) stays below.
TEXT_BYTES_MAX = 1_024
METADATA_MAX = 6
NAME_BYTES_MAX, VALUE_BYTES_MAX = 32, 160
UTF8_BYTES_MAX = 4  # of one character


class FutureWaiter:
    """Somebody who waits for one answer."""

    __slots__ = ("cancelled", "future")

    def __init__(self) -> None:
        self.cancelled = False
        self.future: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

    def answer(self, result: Answer) -> None:
        """The answer is here; the first one counts."""
        if not self.future.done():
            self.future.set_result(result)

    def deliver(self, done: LeaseDone) -> None:
        """A Dequeue is answered, never handed messages on the way."""
        self.answer(done)


def failure(failed: Failed) -> Error:
    """A refusal as it stands in frames, batch results and statuses: short enough for all of them."""
    error = Error(reason=failed.reason, message=_cut(failed.message, TEXT_BYTES_MAX))
    for name, value in list(failed.metadata.items())[:METADATA_MAX]:
        error.metadata[_cut(name, NAME_BYTES_MAX)] = _cut(value, VALUE_BYTES_MAX)
    if failed.retry_after_ms is not None:
        error.retry_after.CopyFrom(
            Duration(nanos=failed.retry_after_ms % 1000 * 1_000_000, seconds=failed.retry_after_ms // 1000)
        )
    return error


def _cut(text: str, bytes_max: int) -> str:
    """At most so many bytes, and where something is left out, how long it was."""
    if len(text) <= bytes_max // UTF8_BYTES_MAX:
        return text
    data = text.encode(errors="replace")
    if len(data) <= bytes_max:
        return text
    told = f"... ({len(data)} bytes)"
    return data[: bytes_max - len(told)].decode(errors="ignore") + told


def refusal(reason: Reason, message: str, metadata: dict[str, str] | None = None) -> Failed:
    """A refusal that the shell itself makes."""
    return Failed(reason, message, metadata or {}, None)


async def abort(context: grpc.aio.ServicerContext, failed: Failed | Moved) -> NoReturn:  # type: ignore[type-arg]  # serializers are bytes
    """Refuse the whole call: status, ErrorInfo, RetryInfo."""
    if isinstance(failed, Moved):
        failed = Failed(Reason.REASON_NOT_MASTER, failed.message, {}, 100)
    await refusing.abort(context, failure(failed))


def level_of(copies: int, *, volatile: bool) -> Level:
    """Where an operation is, from the number of members that hold it."""
    if copies < 2:
        return LEVEL_LOCAL
    return LEVEL_PAIR_RECV if volatile else LEVEL_PAIR_SYNC


def header_of(members: Members, domain: Domain, *, volatile: bool = False) -> ResponseHeader:
    """The header that stands in every reply. Epoch and master belong together: one that is not followed yet, whose
    epoch is a later one, is named in the replies that come from it.
    """
    shared = domain.shared
    endpoint = "" if domain.replication.waits_for_sync else members.master_endpoint(domain)
    copies = domain.replication.copies if domain.replication.serving else (2 if domain.target.counts else 1)
    return ResponseHeader(
        pair=members.pair or members.member,
        member=members.member,
        domain=shared.name,
        epoch=shared.state.epoch,
        commit_index=shared.commit_index,
        copies=copies,
        level=level_of(copies, volatile=volatile),
        master_endpoint=endpoint,
    )


def entry_error(reason: int, queue: str) -> Error:
    """The refusal of one entry of a batch."""
    text = _TEXT.get(reason, "the entry was refused by queue {}")  # type: ignore[call-overload]  # enum number
    return Error(reason=reason, message=text.format(queue))  # type: ignore[arg-type]  # enum number


def ack_of(queue: str, done: EnqueueDone) -> EnqueueAck:
    """The answer to a batch."""
    return EnqueueAck(
        queue=queue,
        first_sequence=done.first_sequence,
        count=done.count,
        first_index=done.first_index,
        log_index=done.log_index,
        epoch=done.epoch,
        copies=done.copies,
        level=level_of(done.copies, volatile=done.volatile),
        duplicate=done.duplicate,
        errors=[EntryError(ordinal=ordinal, error=entry_error(reason, queue)) for ordinal, reason in done.refusals],
        duplicates=[EntryDuplicate(ordinal=ordinal, index=index) for ordinal, index in done.doubles],
        warning=WarningKind.WARNING_PERSISTENCE_DOWNGRADED if done.downgraded else WarningKind.WARNING_UNSPECIFIED,
        handle_prefix=done.handles,
    )
