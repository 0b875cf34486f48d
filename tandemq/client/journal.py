"""Reads the journal: what happened to queues, page by page, as columns or as rows. It changes nothing and decides only
which member is asked first: one that is not master, so that reading takes nothing from those who send.
"""

from __future__ import annotations

import asyncio
import sys
from array import array
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from enum import IntEnum
from typing import NamedTuple

from google.protobuf.message import Message

from tandemq import retry
from tandemq.client.calls import JOURNAL_SERVICE, Attempts, Reply
from tandemq.client.links import Link, Linked
from tandemq.client.places import JournalPosition, message_of, position_of
from tandemq.client.readers import advance_reader
from tandemq.errors import Refused, TandemqError
from tandemq.v1 import journal_service_pb2 as pb
from tandemq.v1.message_pb2 import Message as Sent

ID_BYTES = 16
FORWARDED_S = 0.05
"""A replica hears of a queue with the next record, or the next heartbeat."""
PAGE_ROWS, COUNTED_MAX = 4_096, (1 << 32) - 1


class JournalKind(IntEnum):
    """What a row tells; docs/PROTOCOL.md says it of each."""

    ENQUEUED = pb.JOURNAL_KIND_ENQUEUED
    LEASED = pb.JOURNAL_KIND_LEASED
    TAKEN = pb.JOURNAL_KIND_TAKEN
    ACKED = pb.JOURNAL_KIND_ACKED
    RELEASED = pb.JOURNAL_KIND_RELEASED
    REJECTED = pb.JOURNAL_KIND_REJECTED
    EXTENDED = pb.JOURNAL_KIND_EXTENDED
    REPLIED = pb.JOURNAL_KIND_REPLIED
    EXPIRED = pb.JOURNAL_KIND_EXPIRED
    LEASE_ENDED = pb.JOURNAL_KIND_LEASE_ENDED
    LOST = pb.JOURNAL_KIND_LOST
    MATURED = pb.JOURNAL_KIND_MATURED
    REPLY_TIMED_OUT = pb.JOURNAL_KIND_REPLY_TIMED_OUT
    MOVED = pb.JOURNAL_KIND_MOVED
    DEAD_LETTERED = pb.JOURNAL_KIND_DEAD_LETTERED
    DROPPED = pb.JOURNAL_KIND_DROPPED
    REMOVED = pb.JOURNAL_KIND_REMOVED
    PURGED = pb.JOURNAL_KIND_PURGED
    SAVED = pb.JOURNAL_KIND_SAVED
    QUEUE_CREATED = pb.JOURNAL_KIND_QUEUE_CREATED
    QUEUE_DELETED = pb.JOURNAL_KIND_QUEUE_DELETED
    CONFIGURED = pb.JOURNAL_KIND_CONFIGURED
    EPOCH_BEGAN = pb.JOURNAL_KIND_EPOCH_BEGAN
    STAGED = pb.JOURNAL_KIND_STAGED
    PUBLISHED = pb.JOURNAL_KIND_PUBLISHED
    UNSTAGED = pb.JOURNAL_KIND_UNSTAGED
    NOTHING = pb.JOURNAL_KIND_NOTHING
    SELECTED = pb.JOURNAL_KIND_SELECTED


class JournalStart(NamedTuple):
    """Before one message of one queue."""

    at: int
    """Its index."""
    epoch: int = 0
    """That of the message before it; 0: not checked."""
    history_id: str = ""
    """As in JournalPosition."""


class QueueHead(NamedTuple):
    """Where one queue stands."""

    queue: str
    queue_id: int
    first_index: int
    """From here on every message is kept; next_index when none is."""
    next_index: int


class JournalHead(NamedTuple):
    """Where the journal of a domain begins and ends at the member that answered."""

    member: str
    domain: str
    epoch: int
    first: JournalPosition
    next: JournalPosition
    queues: tuple[QueueHead, ...]
    every_record: bool = False
    """The member can give a row of every record; one of an older version can not."""


class JournalRow(NamedTuple):
    """One row. Of a message that entered: everything; of other kinds the range of messages that they are about."""

    log_index: int
    epoch: int
    time: datetime
    kind: JournalKind
    queue: str
    """Empty when the row names none, or the queue is gone."""
    queue_id: int
    first: int
    """Ordering index of the message, or of the first of `messages`."""
    messages: int
    id: bytes
    lease_id: int
    producer: bytes
    """Client id, or the request id of a unary call."""
    sequence: int
    payload: bytes | None
    """None: the row has none, it was not asked for, or the message was volatile."""
    attributes: Sent | None


class JournalPage:
    """Some rows in the order of the log: the columns as they came, and rows that are made when they are asked for."""

    def __init__(self, reply: pb.ReadJournalPageResponse) -> None:
        self.columns = reply.columns
        """As the contract has them: packed, little-endian. Their buffers serve Arrow or NumPy as they are."""
        self.member = reply.header.member
        self.domain = reply.header.domain
        self.next = position_of(reply.next)
        """From where the page after this one is read."""
        self.at_end = reply.at_end
        """Nothing follows now."""

    def __len__(self) -> int:
        return self.columns.count

    def rows(self) -> Iterator[JournalRow]:
        """The rows one by one, for who wants convenience and not speed. None where they were only counted."""
        columns = self.columns
        if not columns.log_indexes:
            return
        names = {queue.queue_id: queue.name for queue in columns.queues}
        log_indexes, epochs = _column("Q", columns.log_indexes), _column("Q", columns.epochs)
        times, queue_ids = _column("q", columns.times_ms), _column("I", columns.queue_ids)
        indexes, counts = _column("Q", columns.indexes), _column("Q", columns.counts)
        leases, sequences = _column("Q", columns.lease_ids), _column("Q", columns.sequences)
        producers, ends = _column("I", columns.producers), _column("i", columns.payload_offsets)
        extra = _column("i", columns.attribute_offsets)
        # Each look at a column of bytes copies it.
        kinds, ids, states = columns.kinds, columns.ids, columns.payload_states
        payloads, attributes = columns.payloads, columns.attributes
        for at in range(columns.count):
            kind = JournalKind(kinds[at])
            entered = kind is JournalKind.ENQUEUED
            present = states[at] == pb.JOURNAL_PAYLOAD_PRESENT
            yield JournalRow(
                log_indexes[at],
                epochs[at],
                datetime.fromtimestamp(times[at] / 1000, UTC),
                kind,
                names.get(queue_ids[at], ""),
                queue_ids[at],
                indexes[at],
                counts[at],
                ids[at * ID_BYTES : (at + 1) * ID_BYTES] if entered else b"",
                leases[at],
                columns.producer_ids[producers[at] - 1] if producers[at] else b"",
                sequences[at],
                payloads[ends[at] : ends[at + 1]] if present else None,
                Sent.FromString(attributes[extra[at] : extra[at + 1]]) if extra and entered else None,
            )


def _column(code: str, data: bytes) -> array[int]:
    values: array[int] = array(code, data)
    if sys.byteorder == "big":
        values.byteswap()
    return values


async def journal_head(
    client: Linked, queues: Sequence[str] = (), *, domain: str = "", this_member: bool = False
) -> JournalHead:
    """Where the journal begins and ends, and where these queues do, at the member that answers.

    this_member: ask the first named endpoint for its own copy; it refuses (SYNCING) while it is not in step.
    """
    link, names = _at(client, queues)
    asking = _Asking(link, client.links.policy, domain or _domain_of(link, names), here=this_member)
    return _head(await asking.head(domain, names))


async def read_journal(
    client: Linked,
    queues: Sequence[str] = (),
    start: JournalPosition | JournalStart | None = None,
    *,
    domain: str = "",
    kinds: Sequence[JournalKind] = (),
    until_log_index: int = 0,
    max_rows: int = 0,
    payloads: bool = True,
    attributes: bool = False,
    this_member: bool = False,
    reader: str = "",
    rows: bool = True,
    every_record: bool = False,
) -> AsyncIterator[JournalPage]:
    """The committed operations from `start` on, up to the commit index at the first page; then it ends.

    start: None is the first that any member keeps; a `JournalStart` is in one queue, so name exactly that one. Go
    on later from the last page's `next`. A page may be empty though more follow. reader: read on behalf of this
    named one, and without `start` from its place, which renews it.
    rows: False counts them by an index at the member: a page's length says how many it stands for, the last one
    ends behind the record that has the last of max_rows. An older member gives rows. every_record: those that did
    nothing to a queue have a row too (NOTHING), if the member's head says that it can.
    Raises Refused with reason OUT_OF_RANGE when what follows `start` is trimmed at every member that can be asked,
    EPOCH_DIVERGED when the history that was read was given up; PAIR_CHANGED when it is another pair, or this one
    before it was started anew, READER_LOST when the named reader has lost its place.
    """
    link, names = _at(client, queues)
    asking = _Asking(link, client.links.policy, home := domain or _domain_of(link, names), here=this_member)
    selection = pb.JournalSelection(
        domain=domain,
        queues=names,
        until_log_index=until_log_index,
        kinds=[pb.JournalKind.Name(kind) for kind in kinds],
        without_payloads=not payloads or not rows,
        without_rows=not rows,
        with_attributes=attributes,
        this_member=this_member,
        reader=reader,
        every_record=every_record,
    )
    if isinstance(start, JournalStart):
        selection.index.CopyFrom(_index_of(start))
    elif start is None and reader:  # the master knows it best: a replica is up to a heartbeat behind
        selection.position.CopyFrom(message_of((await advance_reader(client, reader, domain=home)).position))
    else:
        selection.position.CopyFrom(message_of(start or await asking.earliest(domain, names)))
    await asking.find_master()
    left, most, at_first = max_rows, PAGE_ROWS if rows else COUNTED_MAX, start is None and not reader
    while True:
        request = pb.ReadJournalPageRequest(selection=selection, max_rows=min(left, most))
        at = selection.position.log_index
        try:
            reply = await asking.ask("ReadJournalPage", request, pb.ReadJournalPageResponse, at)
        except Refused as error:
            if not at_first or error.reason != "OUT_OF_RANGE":
                raise
            first = await asking.earliest(domain, names)
            if first.log_index <= at:
                raise
            selection.position.CopyFrom(message_of(first))  # what was the first record is trimmed since
            continue
        at_first = False
        selection.until_log_index = selection.until_log_index or reply.header.commit_index + 1
        selection.position.CopyFrom(reply.next)
        yield JournalPage(reply)
        left -= reply.columns.count if max_rows else 0
        if reply.at_end or (max_rows and left <= 0):
            return


def _at(client: Linked, queues: Sequence[str]) -> tuple[Link, list[str]]:
    places = [client.links.at(queue) for queue in queues]
    return (places[0][0] if places else client.links.own), [name for _, name in places]


class _Asking:
    """Whom one reader asks: a member that keeps what is wanted and has not failed him; of two the one that follows."""

    def __init__(self, link: Link, policy: retry.Policy, domain: str, *, here: bool) -> None:
        self._link = link
        self._policy = policy
        self._domain = domain or "main"
        self._here = here
        self._begins: dict[str, int] = {}
        """First log index that a member keeps, where it has said so."""
        self._failed: set[str] = set()

    async def _endpoints(self, log_index: int = 0) -> list[str]:
        """Those that may be asked for a record, in the order in which they are."""
        members = self._link.members
        await members.located()
        if self._here:
            return list(members.named[:1])
        master = members.masters.endpoint(self._domain)

        def rank(endpoint: str) -> tuple[bool, bool, bool]:
            return self._begins.get(endpoint, 0) > log_index, endpoint in self._failed, endpoint == master

        return sorted(members.endpoints(self._domain), key=rank)

    async def find_master(self) -> None:
        """So that the first page of a new client, too, is read at the other one: it costs far more than a head."""
        members = self._link.members
        await members.located()
        if not self._here and len(members.named) > 1 and not members.masters.endpoint(self._domain):
            await self.head(self._domain, ())

    async def head(self, domain: str, names: Sequence[str]) -> pb.GetJournalHeadResponse:
        request = pb.GetJournalHeadRequest(domain=domain, queues=names, this_member=self._here)
        return await self.ask("GetJournalHead", request, pb.GetJournalHeadResponse)

    async def earliest(self, domain: str, names: Sequence[str]) -> JournalPosition:
        """The first place that any member keeps; a member that does not answer by itself is left out."""
        found = [_head(await self.head(domain, names)).first]
        request = pb.GetJournalHeadRequest(domain=domain, queues=names, this_member=True)
        for endpoint in await self._endpoints():
            try:
                timeout_s = self._policy.attempt_s
                reply = await self._link.caller.once(
                    endpoint, JOURNAL_SERVICE + "GetJournalHead", request, pb.GetJournalHeadResponse, timeout_s
                )
            except TandemqError:
                continue
            self._link.members.learn(reply.header)
            self._begins[endpoint] = reply.first.log_index
            found.append(_head(reply).first)
        return min(found)

    async def ask(self, method: str, request: Message, reply: type[Reply], log_index: int = 0) -> Reply:
        """The answer of the first member that gives one. Raises OUT_OF_RANGE when each says so."""
        endpoints = await self._endpoints(log_index)
        attempts = Attempts(self._link.members, self._policy, self._domain)
        attempts.endpoint = endpoints[0]
        trimmed: dict[str, TandemqError] = {}
        while True:
            endpoint = attempts.endpoint
            timeout_s = min(self._policy.attempt_s, attempts.remaining_s)
            try:
                answer = await self._link.caller.once(endpoint, JOURNAL_SERVICE + method, request, reply, timeout_s)
            except TandemqError as error:
                if error.reason == "OUT_OF_RANGE":
                    trimmed[endpoint] = error
                    self._begins[endpoint] = int(error.metadata.get("first_log_index", 0))
                    rest = [each for each in endpoints if each not in trimmed]
                    if rest:
                        attempts.endpoint = rest[0]
                        continue
                    if not _one_for_another(trimmed.values()) or attempts.remaining_s < FORWARDED_S:
                        raise
                    trimmed.clear()
                    self._begins.clear()
                    attempts.endpoint = endpoints[0]
                    await asyncio.sleep(FORWARDED_S)
                    continue
                if retry.failure_of(error) is None:
                    raise
                self._failed.add(endpoint)
                delay_s = attempts.failed(error)
                if attempts.exhausted:
                    raise next(iter(trimmed.values()), error) from error
                if self._here:
                    attempts.endpoint = endpoint
                await asyncio.sleep(delay_s)
            else:
                assert isinstance(answer, pb.GetJournalHeadResponse | pb.ReadJournalPageResponse)
                self._link.members.learn(answer.header)
                return answer


def _one_for_another(refusals: Iterable[TandemqError]) -> bool:
    """Whether one member answered twice: the other one has not heard of a queue yet, and sent the call on. What its own
    journal keeps nobody has said then.
    """
    members = [error.metadata.get("member", "") for error in refusals]
    return all(members) and len(set(members)) < len(members)


def _index_of(start: JournalStart) -> pb.JournalIndex:
    return pb.JournalIndex(index=start.at, epoch=start.epoch, history_id=bytes.fromhex(start.history_id))


def _domain_of(link: Link, names: Sequence[str]) -> str:
    return link.members.masters.domain_of(names[0]) if names else ""


def _head(reply: pb.GetJournalHeadResponse) -> JournalHead:
    heads = (QueueHead(each.queue, each.queue_id, each.first_index, each.next_index) for each in reply.queues)
    header = reply.header
    return JournalHead(
        header.member,
        header.domain,
        header.epoch,
        position_of(reply.first),
        position_of(reply.next),
        tuple(heads),
        reply.every_record,
    )
