"""Turns what the core answers into replies of the wire, for whoever waits. Makes no decisions."""

from __future__ import annotations

import asyncio
from types import MappingProxyType
from typing import TYPE_CHECKING

from replica.core.messages import bodies, far_bodies
from replica.core.state.outcomes import Failed, Moved
from replica.machine import handle_of, handle_prefix
from replica.machine.state.system_names import target_of
from replica.node.members import domain_number
from tandemq.v1.common_pb2 import (
    COMPLETION_STORED,
    LEVEL_LOCAL,
    LEVEL_PAIR_RECV,
    LEVEL_PAIR_SYNC,
    Error,
    Level,
    Reason,
    ResponseHeader,
)
from tandemq.v1.common_pb2 import Warning as WarningKind
from tandemq.v1.queue_service_pb2 import (
    ConsumeResponse,
    DequeueResponse,
    EnqueueAck,
    EnqueueResult,
    EntryDuplicate,
    EntryError,
)

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from replica.core.domain import Domain
    from replica.core.messages.bodies import Rows
    from replica.core.state.outcomes import Answer, EnqueueDone, FarLease, LeaseDone
    from replica.node.members import Members
    from tandemq.v1.message_pb2 import Message

_TEXT = MappingProxyType(
    {
        Reason.REASON_MESSAGE_TOO_LARGE: (
            "a message is larger than max_message_bytes of queue {}; send less, or raise it"
        ),
        Reason.REASON_GROUP_MISMATCH: (
            "a message does not fit its group in queue {} (group_mode COMPLETE): it needs a group_sequence that is not "
            "there yet, none beyond the last one of its group or what a group may have, and no group that is whole"
        ),
        Reason.REASON_ENQUEUE_DISABLED: (
            "the member of macro queue {} that gets this group is not open where the message came, or takes none; open "
            "or enable it, or remove it from the macro queue"
        ),
        Reason.REASON_QUOTA_EXCEEDED: "queue {}: as many groups gather as may; wait until some are whole",
        Reason.REASON_QUEUE_FULL: "queue {} is at its max_length or max_bytes; consume, or raise the limit",
    }
)
Answered = bytes | Failed | Moved
"""What a handler has for its caller: a reply, why there is none, or that another member orders now."""


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

    def deliver(self, done: LeaseDone | FarLease) -> None:
        """A Dequeue is answered, never handed messages on the way."""
        self.answer(done)


def far_response(header: ResponseHeader, done: FarLease, *, segments: bool) -> DequeueResponse:
    """What a member of a macro queue at another manager gave, as a client here settles it."""
    response = DequeueResponse(header=header, lease_id=done.lease_id, duplicate=done.duplicate, member_queue=done.queue)
    if segments:
        far_bodies.fill_segments(done.runs, response.segments.add)
    else:
        _fill_far_rows(done, response.messages)
    return response


def far_deliveries(header: ResponseHeader, done: FarLease, *, segments: bool) -> ConsumeResponse:
    """The same over a stream. What has ids of a domain by another name goes as messages: that of a stream is one."""
    response = ConsumeResponse()
    deliveries = response.deliveries
    deliveries.header.CopyFrom(header)
    deliveries.queue, deliveries.lease_id = done.queue, done.lease_id
    number = domain_number(header.domain)
    if segments and all(run.segment.id_domain == number for run in done.runs):
        far_bodies.fill_segments(done.runs, deliveries.segments.add)
    else:
        _fill_far_rows(done, deliveries.messages)
    return response


def _fill_far_rows(done: FarLease, into: Rows) -> None:
    for run in done.runs:
        far_bodies.fill_rows(run, done.queue, done.lease_id, into.add)


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
    endpoint = "" if domain.mastership.following.waits_for_sync else members.master_endpoint(domain)
    copies = domain.mastership.commit.copies if domain.shared.serving else (2 if domain.target.counts else 1)
    return ResponseHeader(
        pair=members.pair or members.member,
        member=members.member,
        domain=shared.name,
        epoch=shared.state.epoch,
        commit_index=shared.progress.commit_index,
        copies=copies,
        level=level_of(copies, volatile=volatile),
        master_endpoint=endpoint,
    )


def header_as_of(
    members: Members, domain: Domain, epoch: int, copies: int, *, volatile: bool = False
) -> ResponseHeader:
    """Of an operation that has an epoch and copies of its own, which may be other ones than those of now."""
    header = header_of(members, domain, volatile=volatile)
    header.epoch, header.copies, header.level = epoch, copies, level_of(copies, volatile=volatile)
    return header


def forwarded_by(done: EnqueueDone) -> str:
    """The transmission queue that a batch has entered as the member of a macro queue (M4); empty: none, or several
    queues.
    """
    return done.member_queue if done.member_queue and target_of(done.member_queue) is not None else ""


def entry_error(reason: int, queue: str) -> Error:
    """The refusal of one entry of a batch."""
    text = _TEXT.get(reason, "the entry was refused by queue {}")  # type: ignore[call-overload]  # enum number
    return Error(reason=reason, message=text.format(queue))  # type: ignore[arg-type]  # enum number


def results_of(
    domain: int, queue: str, rows: Sequence[Message], done: EnqueueDone, first_ordinal: int = 0
) -> Iterator[EnqueueResult]:
    """What each message came to, in order. `first_ordinal`: place of the first one in the body of its record."""
    if done.members:
        yield from _results_at_members(domain, queue, rows, done)
        return
    prefix = done.handles or handle_prefix(domain, done.queue_id)
    refused, doubles = dict(done.refusals), dict(done.doubles)
    index = done.first_index
    for ordinal, row in enumerate(rows):
        if ordinal in refused:
            yield EnqueueResult(error=entry_error(refused[ordinal], queue))
            continue
        if ordinal in doubles:
            first = doubles[ordinal]
            yield EnqueueResult(
                index=first,
                completion=COMPLETION_STORED,
                duplicate=True,
                handle=handle_of(prefix, first),
                completed=not done.handles,
            )
            continue
        result = EnqueueResult(
            index=index,
            id=bodies.message_id(domain, done.epoch, done.log_index, first_ordinal + ordinal),
            completion=COMPLETION_STORED,
            handle=handle_of(prefix, index),
            completed=not done.handles,
        )
        if done.downgraded and row.persistent:
            result.warning = WarningKind.WARNING_PERSISTENCE_DOWNGRADED
        yield result
        index += 1


def _results_at_members(domain: int, queue: str, rows: Sequence[Message], done: EnqueueDone) -> Iterator[EnqueueResult]:
    """Of a batch that a macro queue has dealt to several members."""
    refused, doubles = dict(done.refusals), dict(done.doubles)
    places = {
        ordinal: (member, member.first_index + at)
        for member in reversed(done.members)  # of a message that several have, the first one counts
        for at, ordinal in enumerate(member.ordinals)
    }
    for ordinal, row in enumerate(rows):
        if ordinal in refused:
            yield EnqueueResult(error=entry_error(refused[ordinal], queue))
        elif ordinal in places:
            member, index = places[ordinal]
            result = EnqueueResult(
                index=index,
                id=bodies.message_id(domain, done.epoch, done.log_index, ordinal),
                completion=COMPLETION_STORED,
                handle=handle_of(member.handles or handle_prefix(domain, member.queue_id), index),
                completed=not member.handles,
                member_queue=member.queue,
            )
            if done.downgraded and row.persistent:
                result.warning = WarningKind.WARNING_PERSISTENCE_DOWNGRADED
            yield result
        else:
            yield EnqueueResult(index=doubles[ordinal], completion=COMPLETION_STORED, duplicate=True, completed=True)


def ack_of(queue: str, done: EnqueueDone) -> EnqueueAck:
    """The answer to a batch."""
    ack = EnqueueAck(
        queue=queue,
        first_sequence=done.first_sequence,
        count=done.count,
        first_index=done.first_index,
        log_index=done.log_index,
        epoch=done.epoch,
        copies=done.copies,
        level=level_of(done.copies, volatile=done.volatile),
        duplicate=done.duplicate,
        handle_prefix=done.handles,
    )
    # What few batches have is looked for, and not made: it would be made for each of the others too.
    if done.refusals:
        ack.errors.extend(
            EntryError(ordinal=ordinal, error=entry_error(reason, queue)) for ordinal, reason in done.refusals
        )
    if done.doubles:
        ack.duplicates.extend(EntryDuplicate(ordinal=ordinal, index=index) for ordinal, index in done.doubles)
    if done.downgraded:
        ack.warning = WarningKind.WARNING_PERSISTENCE_DOWNGRADED
    if done.member_queue:
        ack.member_queue, ack.forwarded = done.member_queue, forwarded_by(done)
    for each in done.members:
        ack.members.add(
            queue=each.queue, first_index=each.first_index, ordinals=each.ordinals, handle_prefix=each.handles
        )
    return ack


def product_version() -> str:
    """Of this product, as it is installed."""
    from importlib.metadata import PackageNotFoundError, version  # cold path, slow import

    try:
        return version("tandemq")
    except PackageNotFoundError:
        return "unknown"
