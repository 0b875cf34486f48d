"""JournalService: reads what happened to queues for whoever asks, off the loop, one page at a time.

A member that follows its master, or is master, answers from its own store; any other one asks the master. So readers
take nothing from the master while there is a replica, and the journals of both members can be compared.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import grpc

from replica.core.state.outcomes import Failed
from replica.machine import Refused
from replica.machine.features import readers
from replica.node.counting import until_committed
from replica.node.journal import (
    PAGE_BYTES,
    Begins,
    Bounds,
    RowPlace,
    Trimmed,
    bounds_of,
    epoch_before,
    find,
    history_id_of,
    is_in_step,
    problem_of,
    problem_of_history,
    read_page,
)
from replica.node.journal_counts import RowCounts
from replica.node.journal_rows import JournalRows, Wanted
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import Context, parse
from replica.services import forward
from replica.services.answers import header_of
from replica.services.locality import check_origin, is_remote, problem_of_remote
from storage.errors import CorruptRecord
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.journal_service_pb2 import (
    GetJournalHeadRequest,
    GetJournalHeadResponse,
    JournalColumns,
    JournalKind,
    JournalPosition,
    JournalQueue,
    JournalQueueHead,
    JournalSelection,
    ReadJournalPageRequest,
    ReadJournalPageResponse,
    ReadJournalRequest,
    ReadJournalResponse,
)

if TYPE_CHECKING:
    from replica.core.domain import Domain
    from replica.core.state.shared import Shared
    from replica.machine import Reader
    from replica.node.members import Members
    from replica.rpc.handlers import Method

SERVICE = "tandemq.v1.JournalService"
ROWS, ROWS_MAX = 4_096, 16_384
COUNTED_MAX = (1 << 32) - 1
"""What a page can say that it has; without rows only."""
QUEUES_MAX = 1_000
SYNCING_RETRY_MS = 100
_UNHEARD = (
    Reason.REASON_QUEUE_NOT_FOUND,
    Reason.REASON_READER_NOT_FOUND,
    Reason.REASON_READER_LOST,
    Reason.REASON_SYNCING,
)
"""A replica may not have heard of it yet, or that it registered anew: the master has."""

T = TypeVar("T")


class JournalHandlers:
    """The handlers of JournalService."""

    def __init__(self, members: Members) -> None:
        self.members = members
        self._begins: dict[int, Begins] = {}
        self._counts: dict[int, RowCounts] = {}
        self._reading = asyncio.Lock()
        """One page at a time: a reader in a hurry takes one thread of this member, and no more."""

    def handler(self, others: dict[str, Method]) -> grpc.GenericRpcHandler:
        """For the server, with the methods that others have of the service; requests and replies are bytes."""
        return grpc.method_handlers_generic_handler(
            SERVICE,
            {
                "GetJournalHead": grpc.unary_unary_rpc_method_handler(self.head),
                "ReadJournal": grpc.unary_stream_rpc_method_handler(self.read),
                "ReadJournalPage": grpc.unary_unary_rpc_method_handler(self.page),
                **others,
            },
        )

    # -- calls -----------------------------------------------------------------------------------------------------

    async def head(self, request: bytes, context: Context) -> bytes:
        """See JournalService.GetJournalHead."""
        parsed = await parse(GetJournalHeadRequest, request, context)

        async def local(domain: Domain) -> bytes | Failed:
            return await self._head(domain, parsed)

        return await self._answer(
            "GetJournalHead", request, context, parsed.domain, parsed.queues, local, here=parsed.this_member
        )

    async def page(self, request: bytes, context: Context) -> bytes:
        """See JournalService.ReadJournalPage."""
        parsed = await parse(ReadJournalPageRequest, request, context)
        selection = parsed.selection
        if (problem := _problem_of(selection)) is not None:
            await abort(context, problem)
        rows_max = min(parsed.max_rows or ROWS, ROWS_MAX)
        if selection.without_rows:
            rows_max = parsed.max_rows or COUNTED_MAX

        remote = is_remote(context)

        async def local(domain: Domain) -> bytes | Failed:
            return await self._page(domain, selection, rows_max, remote=remote)

        return await self._answer(
            "ReadJournalPage", request, context, selection.domain, selection.queues, local, here=selection.this_member
        )

    async def read(self, request: bytes, context: Context) -> None:
        """See JournalService.ReadJournal: page by page, each from where the last one ended."""
        parsed = await parse(ReadJournalRequest, request, context)
        selection, left = parsed.selection, parsed.max_rows or (1 << 62)
        while left > 0:
            asked = ReadJournalPageRequest(selection=selection, max_rows=min(left, ROWS))
            page = ReadJournalPageResponse.FromString(await self.page(asked.SerializeToString(), context))
            if not selection.until_log_index:
                selection.until_log_index = page.header.commit_index + 1  # what comes meanwhile is for the next call
            frame = ReadJournalResponse(header=page.header, columns=page.columns, next=page.next, at_end=page.at_end)
            await context.write(frame.SerializeToString())
            left -= page.columns.count
            selection.position.CopyFrom(page.next)
            if page.at_end:
                return

    # -- where -----------------------------------------------------------------------------------------------------

    async def _answer(
        self,
        method: str,
        request: bytes,
        context: Context,
        name: str,
        queues: Any,
        local: Any,
        *,
        here: bool,
    ) -> bytes:
        """From this member's own store when it is in step, else from the master's."""
        if len(queues) > QUEUES_MAX:
            text = f"{len(queues)} queues; a call may name {QUEUES_MAX}"
            await abort(context, refusal(Reason.REASON_BAD_REQUEST, text))
        for queue in queues:
            await check_origin(self.members, queue, context)
        if name:
            await forward.domain_named(self.members, name, context)

        def domain_of() -> Domain:
            if name:
                return self.members.by_name[name]
            return self.members.of_queue(queues[0] if queues else "")

        domain = domain_of()
        if is_in_step(domain):
            result = await local(domain)
            if isinstance(result, bytes):
                return result
            if here or domain.mastership.commit.can_read or result.reason not in _UNHEARD:
                await abort(context, result)
        elif here:
            text = f"{self.members.member} is not in step with the master of domain {domain.shared.name}; ask later"
            await abort(context, Failed(Reason.REASON_SYNCING, text, {}, SYNCING_RETRY_MS))
        return await forward.unary(self.members, f"JournalService/{method}", request, context, domain_of, local)

    # -- answers ---------------------------------------------------------------------------------------------------

    async def _head(self, domain: Domain, request: GetJournalHeadRequest) -> bytes | Failed:
        shared, store = domain.shared, self.members.node.store
        numbers = _numbers_of(self.members, domain, request.queues)
        if isinstance(numbers, Failed):
            return numbers
        begins = self._begins.setdefault(shared.domain, Begins())
        if numbers and (lacking := _lacking(shared)) is not None:
            return lacking
        was = [_following(shared, number) or 0 for number in numbers]

        def look(bounds: Bounds) -> list[int]:
            return [begins.find(store, shared.domain, number, bounds) for number in numbers]

        found = await self._off_the_loop(domain, look) if numbers else []
        if isinstance(found, Failed):
            return found
        if numbers and (lacking := _lacking(shared)) is not None:
            return lacking
        bounds = bounds_of(shared)
        heads = []
        for name, number, first, before in zip(request.queues, numbers, found, was, strict=True):
            # Found meanwhile to be gone: its rows are still there, its name is not.
            following = _following(shared, number)
            if following is None:
                return _no_queue(name)
            # Where none was kept, the first one that came while that was looked for is the first that is kept.
            heads.append(
                JournalQueueHead(queue=name, queue_id=number, first_index=first or before, next_index=following)
            )
        first_epoch, last_epoch = epoch_before(shared, bounds.first), epoch_before(shared, bounds.end)
        history_id = history_id_of(shared)
        return GetJournalHeadResponse(
            header=header_of(self.members, domain),
            first=JournalPosition(log_index=bounds.first, epoch=first_epoch or 0, history_id=history_id),
            next=JournalPosition(log_index=bounds.end, epoch=last_epoch or 0, history_id=history_id),
            queues=heads,
            every_record=True,
        ).SerializeToString()

    async def _page(
        self, domain: Domain, selection: JournalSelection, rows_max: int, *, remote: bool
    ) -> bytes | Failed:
        shared, store = domain.shared, self.members.node.store
        numbers = _numbers_of(self.members, domain, selection.queues)
        if isinstance(numbers, Failed):
            return numbers
        reader = await self._reader_of(domain, selection.reader)
        if isinstance(reader, Failed):
            return reader
        if reader is not None and selection.WhichOneof("from") is None:
            at = reader.place
            selection.position.CopyFrom(JournalPosition(log_index=at.log_index, epoch=at.epoch, row=at.row))
        place = await self._place_of(domain, selection, numbers)
        if isinstance(place, Failed):
            return place
        problem = problem_of(shared, place, is_master=domain.mastership.commit.can_read)
        if problem is not None:
            return problem
        wanted = Wanted(
            frozenset(numbers),
            frozenset(selection.kinds),
            payloads=not selection.without_payloads,
            attributes=selection.with_attributes,
            every_record=selection.every_record,
        )
        number = shared.domain
        counts = self._counts.setdefault(number, RowCounts())

        def fill(bounds: Bounds) -> tuple[bytes, RowPlace, bool, set[int]]:
            if selection.without_rows:
                until = selection.until_log_index
                counted = counts.find(store, number, place, bounds, until, wanted, rows_max)
                columns = JournalColumns(count=counted.rows).SerializeToString()
                return columns, counted.following, counted.at_end, counted.queue_ids
            rows = JournalRows(number, wanted, rows_max=rows_max, bytes_max=PAGE_BYTES)
            page = read_page(store, number, place, bounds, selection.until_log_index, rows)
            return rows.columns().SerializeToString(), page.following, page.at_end, rows.queue_ids()

        found = await self._off_the_loop(domain, fill, place)
        if isinstance(found, Failed):
            return found
        columns, following, at_end, queue_ids = found
        names = _names(domain, queue_ids)
        for each in names if remote else ():
            if each.name and (problem := problem_of_remote(self.members, each.name)) is not None:
                return problem  # whoever names no queue gets all of them, or none
        response = ReadJournalPageResponse(
            header=header_of(self.members, domain),
            next=JournalPosition(
                log_index=following.log_index,
                epoch=following.epoch,
                row=following.row,
                history_id=history_id_of(shared),
            ),
            at_end=at_end,
        )
        response.columns.MergeFromString(columns)
        response.columns.queues.extend(names)
        return response.SerializeToString()

    @staticmethod
    async def _reader_of(domain: Domain, name: str) -> Reader | Failed | None:
        """As below. A loss that a takeover may still take back is reported to nobody: he would start over for
        nothing.
        """
        found = _reader_of(domain, name)
        if isinstance(found, Failed) and domain.shared.serving:
            if not await until_committed(domain):
                text = f"the mastership of domain {domain.shared.name} moved meanwhile; repeat the call"
                return Failed(Reason.REASON_SYNCING, text, {}, SYNCING_RETRY_MS)
            found = _reader_of(domain, name)
        return found

    async def _place_of(self, domain: Domain, selection: JournalSelection, numbers: list[int]) -> RowPlace | Failed:
        """Where to begin, with the epoch that the reader has seen there, or else the one that is there."""
        shared = domain.shared
        if selection.HasField("index"):
            return await self._place_of_index(domain, selection, numbers[0])
        asked = selection.position
        log_index = asked.log_index or bounds_of(shared).first
        epoch = asked.epoch
        if not epoch and not asked.row and log_index <= shared.progress.commit_index + 1:
            epoch = epoch_before(shared, log_index) or 0
        return RowPlace(log_index, epoch, asked.row, asked.history_id)

    async def _place_of_index(self, domain: Domain, selection: JournalSelection, number: int) -> RowPlace | Failed:
        """The place of a message, once the one before it was seen to be of the epoch that the reader says."""
        shared, store = domain.shared, self.members.node.store
        asked, name = selection.index, selection.queues[0]
        if (changed := problem_of_history(shared, asked.history_id)) is not None:
            return changed
        index = asked.index
        begins = self._begins.setdefault(shared.domain, Begins())

        def look(bounds: Bounds) -> tuple[Bounds, int, Any, Any]:
            first = begins.find(store, shared.domain, number, bounds)
            at = find(store, shared.domain, number, index, bounds) if first and index >= first else None
            before = find(store, shared.domain, number, index - 1, bounds) if asked.epoch and index > 1 else None
            return bounds, first, at, before

        while True:
            if (lacking := _lacking(shared)) is not None:
                return lacking
            following = _following(shared, number)
            found = await self._off_the_loop(domain, look)
            if isinstance(found, Failed):
                return found
            now = _following(shared, number)
            if following is None or now is None:
                return _no_queue(name)
            if not following < index <= now:
                break  # else it came while it was looked for, and the look says nothing of it
        bounds, first, at, before = found
        facts = {"queue": name, "first_index": str(first or following), "next_index": str(following)}
        if index < (first or following) or (asked.epoch and index > 1 and before is None and index <= following):
            text = (
                f"the journal of queue {name} at {shared.member} begins at index {first or following}: {index} is "
                "trimmed, or the message before it is, and its epoch cannot be compared; go on from there knowingly, "
                "with epoch 0"
            )
            return refusal(Reason.REASON_OUT_OF_RANGE, text, {**facts, "member": shared.member})
        if index > following:
            if not domain.mastership.commit.can_read:
                text = f"{shared.member} has not heard yet of message {index} of queue {name}; repeat the call"
                return Failed(Reason.REASON_SYNCING, text, facts, SYNCING_RETRY_MS)
            text = f"queue {name} ends before index {following}; {index} was never ordered"
            return refusal(Reason.REASON_OUT_OF_RANGE, text, facts)
        if before is not None and before.epoch != asked.epoch:
            text = (
                f"message {index - 1} of queue {name} was read in epoch {asked.epoch}, at {shared.member} it is of "
                f"epoch {before.epoch}: the history that was read was given up; read anew"
            )
            return refusal(Reason.REASON_EPOCH_DIVERGED, text, {**facts, "epoch": str(before.epoch)})
        if at is None:  # the next one: it comes behind what was looked at, whatever is committed since
            return RowPlace(bounds.end, epoch_before(shared, bounds.end) or 0)
        epoch = at.epoch if at.row else epoch_before(shared, at.log_index)
        return RowPlace(at.log_index, epoch or 0, at.row)

    async def _off_the_loop(
        self, domain: Domain, work: Callable[[Bounds], T], place: RowPlace | None = None
    ) -> T | Failed:
        """Read the store in a thread. What was trimmed or given up meanwhile is judged anew."""
        shared = domain.shared
        async with self._reading:
            while True:
                bounds = bounds_of(shared)
                if place is not None:
                    problem = problem_of(shared, place, is_master=domain.mastership.commit.can_read)
                    if problem is not None:
                        return problem
                try:
                    found = await asyncio.get_running_loop().run_in_executor(None, work, bounds)
                except Trimmed:
                    if bounds_of(shared) == bounds:
                        text = f"the log of domain {shared.name} at {shared.member} has a gap above {bounds.first}"
                        return refusal(Reason.REASON_CORRUPT_STORE, text, {"member": shared.member})
                    continue
                except CorruptRecord as corrupt:
                    return refusal(Reason.REASON_CORRUPT_STORE, str(corrupt), {"member": shared.member})
                if shared.progress.generation == bounds.generation:
                    return found


def _problem_of(selection: JournalSelection) -> Failed | None:
    if selection.HasField("index") and len(selection.queues) != 1:
        text = f"a position by index is one queue's; {len(selection.queues)} queues are named"
        return refusal(Reason.REASON_BAD_REQUEST, text)
    if selection.HasField("index") and not selection.index.index:
        return refusal(Reason.REASON_BAD_REQUEST, "indexes begin at 1; 0 is none")
    unknown = [kind for kind in selection.kinds if kind not in JournalKind.values() or not kind]
    if unknown:
        return refusal(Reason.REASON_BAD_REQUEST, f"kind {unknown[0]} is unknown; leave kinds empty for all of them")
    return None


def _reader_of(domain: Domain, name: str) -> Reader | Failed | None:
    """The named reader, if one is named, that may go on."""
    machine = domain.shared.machine
    if not name or machine is None:
        return None
    try:
        return readers.named_reader(machine.state, name)
    except Refused as refused:
        return Failed(refused.reason, refused.message, dict(refused.metadata))


def _numbers_of(members: Members, domain: Domain, names: Any) -> list[int] | Failed:
    """The numbers of queues, all of that domain."""
    machine = domain.shared.machine
    numbers = []
    for name in names:
        number = machine.queue_id(name) if machine is not None else None
        if number is None and (other := members.of_queue(name)) is not domain and _has(other, name):
            text = f"queue {name} is of domain {other.shared.name}, not {domain.shared.name}; read one domain at a time"
            return refusal(Reason.REASON_CROSS_DOMAIN, text, {"queue": name, "domain": other.shared.name})
        if number is None:
            return _no_queue(name)
        numbers.append(number)
    return numbers


def _following(shared: Shared, number: int) -> int | None:
    """Index of a queue's next message; None: there is no such queue."""
    machine = shared.machine
    if machine is None or not machine.has_queue(number):
        return None
    return machine.queue(number).visible_index + 1


def _lacking(shared: Shared) -> Failed | None:
    """Where the queues count messages that this disk does not have yet: a replica that is in step and not required
    has heard of their commit (J1), and what it says of a queue would not fit what it gives of it.
    """
    if shared.progress.durable_index >= shared.progress.commit_index:
        return None
    text = f"{shared.member} has heard of commits in domain {shared.name} that its disk lacks yet; repeat the call"
    return Failed(Reason.REASON_SYNCING, text, {}, SYNCING_RETRY_MS)


def _has(domain: Domain, name: str) -> bool:
    return domain.shared.machine is not None and domain.shared.machine.queue_id(name) is not None


def _no_queue(name: str) -> Failed:
    return refusal(Reason.REASON_QUEUE_NOT_FOUND, f"there is no queue {name!r}; create it first", {"queue": name})


def _names(domain: Domain, numbers: set[int]) -> list[JournalQueue]:
    machine = domain.shared.machine
    return [
        JournalQueue(
            queue_id=number,
            name=machine.queue(number).name if machine is not None and machine.has_queue(number) else "",
        )
        for number in sorted(numbers)
    ]
