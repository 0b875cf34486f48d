"""Named readers of the journal over the wire: requests become calls of the domain, which its master orders. It reads no
record and trims nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import grpc

from replica.machine import AdvanceCall, ForgetCall, ReaderPlace, Refused, RegisterCall
from replica.machine.features import readers
from replica.node.journal import RowPlace, bounds_of, epoch_before, history_id_of, problem_of, problem_of_history
from replica.rpc.refusals import abort, refusal
from replica.rpc.requests import Context, check_request_id, fingerprint, fingerprint_of, parse
from replica.services import forward
from replica.services.answers import Answered, header_of
from tandemq.v1 import journal_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.domain import Domain
    from replica.core.state.outcomes import Failed, QueueDone
    from replica.core.state.shared import Shared
    from replica.machine import Reader
    from replica.machine.state.state import State
    from replica.rpc.handlers import Method
    from replica.services.admin.queues import AdminHandlers

TTL_S_MAX = 1 << 32
"""Of the wire: what is longer is refused by its number, not by its type."""


class ReaderHandlers:
    """Their handlers."""

    def __init__(self, admin: AdminHandlers) -> None:
        self.admin = admin
        self.members = admin.members

    def methods(self) -> dict[str, Method]:
        """For JournalService."""
        unary = grpc.unary_unary_rpc_method_handler
        return {
            "RegisterReader": unary(self.register),
            "AdvanceReader": unary(self.advance),
            "DeleteReader": unary(self.delete),
            "ListReaders": unary(self.list),
        }

    async def register(self, request: bytes, context: Context) -> bytes:
        """See JournalService.RegisterReader."""
        parsed = await parse(pb.RegisterReaderRequest, request, context)
        if not 0 <= parsed.ttl.seconds < TTL_S_MAX or parsed.ttl.nanos < 0:
            text = f"ttl is {parsed.ttl.seconds} s; a reader is kept for 1 s to 30 days"
            await abort(context, refusal(Reason.REASON_BAD_REQUEST, text))
        ttl_ms = parsed.ttl.ToMilliseconds()
        digest = fingerprint_of("register reader", parsed)

        def call_of(shared: Shared, state: State) -> RegisterCall:
            place = _begins(shared, state, parsed)
            return RegisterCall(parsed.name, place, ttl_ms, parsed.restart, parsed.request_id, digest)

        def reply(domain: Domain, done: QueueDone) -> pb.RegisterReaderResponse:
            return pb.RegisterReaderResponse(reader=_reader_of(domain.shared, parsed.name), duplicate=done.duplicate)

        return await self._order("RegisterReader", parsed, request, context, call_of, reply)

    async def advance(self, request: bytes, context: Context) -> bytes:
        """See JournalService.AdvanceReader."""
        parsed = await parse(pb.AdvanceReaderRequest, request, context)
        digest = fingerprint_of("advance reader", parsed)

        def call_of(shared: Shared, state: State) -> AdvanceCall:
            return AdvanceCall(parsed.name, _reached(shared, state, parsed), parsed.request_id, digest)

        def reply(domain: Domain, done: QueueDone) -> pb.AdvanceReaderResponse:
            return pb.AdvanceReaderResponse(reader=_reader_of(domain.shared, parsed.name), duplicate=done.duplicate)

        return await self._order("AdvanceReader", parsed, request, context, call_of, reply)

    async def delete(self, request: bytes, context: Context) -> bytes:
        """See JournalService.DeleteReader."""
        parsed = await parse(pb.DeleteReaderRequest, request, context)
        digest = fingerprint(b"delete reader", parsed.name.encode())

        def call_of(_shared: Shared, _state: State) -> ForgetCall:
            return ForgetCall(parsed.name, parsed.request_id, digest)

        def reply(_domain: Domain, done: QueueDone) -> pb.DeleteReaderResponse:
            return pb.DeleteReaderResponse(duplicate=done.duplicate)

        return await self._order("DeleteReader", parsed, request, context, call_of, reply)

    async def list(self, request: bytes, context: Context) -> bytes:
        """See JournalService.ListReaders."""
        parsed = await parse(pb.ListReadersRequest, request, context)
        home = await self._home(parsed.domain, context)

        async def local(domain: Domain) -> Answered:
            machine = domain.shared.machine
            assert machine is not None
            known = [_words(domain.shared, reader) for reader in readers.all_readers(machine.state)]
            return pb.ListReadersResponse(header=header_of(self.members, domain), readers=known).SerializeToString()

        return await forward.unary(self.members, "JournalService/ListReaders", request, context, lambda: home, local)

    async def _order(
        self,
        method: str,
        parsed: Any,
        request: bytes,
        context: Context,
        call_of: Callable[[Shared, State], RegisterCall | AdvanceCall | ForgetCall],
        reply: Callable[[Domain, QueueDone], Any],
    ) -> bytes:
        await check_request_id(parsed.request_id, context)
        home = await self._home(parsed.domain, context)

        async def local(domain: Domain) -> Answered:
            shared = domain.shared
            assert shared.machine is not None
            # Ordered at once: nobody is sent here while calls would be parked, and the place trimmed meanwhile.
            call = call_of(shared, shared.machine.state)
            return await self.admin.run(domain, call, lambda done: reply(domain, done))

        return await forward.unary(self.members, f"JournalService/{method}", request, context, lambda: home, local)

    async def _home(self, name: str, context: Context) -> Domain:
        members = self.members
        return await forward.domain_named(members, name, context) if name else members.of_queue("")


def _begins(shared: Shared, state: State, parsed: pb.RegisterReaderRequest) -> ReaderPlace | Refused:
    try:
        if not parsed.restart and parsed.name in state.readers:
            readers.named_reader(state, parsed.name)  # one that has lost its place says so, wherever it asks to begin
        return _first_place(shared, parsed)
    except Refused as refused:
        return refused


def _reached(shared: Shared, state: State, parsed: pb.AdvanceReaderRequest) -> ReaderPlace | Refused | None:
    try:
        return _place_of(shared, readers.named_reader(state, parsed.name), parsed)
    except Refused as refused:
        return refused


def _first_place(shared: Shared, parsed: pb.RegisterReaderRequest) -> ReaderPlace:
    """Where a new reader begins. Refused when that is trimmed, about to be, or was never ordered."""
    bounds = bounds_of(shared)
    assert shared.machine is not None
    first = min(
        max(bounds.first, shared.progress.trimming + 1, readers.first_not_given_up(shared.machine.state)), bounds.end
    )
    if parsed.at_end:
        return ReaderPlace(bounds.end, epoch_before(shared, bounds.end) or 0)
    asked = parsed.position
    _check_history(shared, asked)
    if not asked.log_index:
        return ReaderPlace(first, epoch_before(shared, first) or 0)
    if bounds.first <= asked.log_index < first:
        text = f"log index {asked.log_index} is about to be trimmed at {shared.member}: the journal begins at {first}"
        raise Refused(Reason.REASON_OUT_OF_RANGE, text, {"first_log_index": str(first), "member": shared.member})
    return _checked(shared, asked)


def _place_of(shared: Shared, reader: Reader, parsed: pb.AdvanceReaderRequest) -> ReaderPlace | None:
    """How far it has read; None: it stays where it is. What lies behind its place is no concern of anybody any more.
    What lies before this copy, which was filled, was read at the other member: it moves once it has read up to here.
    """
    asked = parsed.position
    _check_history(shared, asked)
    if not asked.log_index or (asked.log_index, asked.row) <= (reader.place.log_index, reader.place.row):
        return None
    if asked.log_index < bounds_of(shared).first:
        return None
    return _checked(shared, asked)


def _checked(shared: Shared, asked: pb.JournalPosition) -> ReaderPlace:
    epoch = asked.epoch
    if not epoch and not asked.row and asked.log_index <= shared.progress.commit_index + 1:
        epoch = epoch_before(shared, asked.log_index) or 0
    _refuse(problem_of(shared, RowPlace(asked.log_index, epoch, asked.row), is_master=True))
    return ReaderPlace(asked.log_index, epoch, asked.row)


def _check_history(shared: Shared, asked: pb.JournalPosition) -> None:
    """Of a place behind the reader's own, too, and of one that is there already: it is another reader of that name."""
    _refuse(problem_of_history(shared, asked.history_id))


def _refuse(problem: Failed | None) -> None:
    if problem is not None:
        raise Refused(problem.reason, problem.message, problem.metadata, problem.retry_after_ms)


def _reader_of(shared: Shared, name: str) -> pb.JournalReader:
    assert shared.machine is not None
    return _words(shared, readers.named_reader(shared.machine.state, name))


def _words(shared: Shared, reader: Reader) -> pb.JournalReader:
    place = reader.place
    made = pb.JournalReader(
        name=reader.name,
        position=pb.JournalPosition(
            log_index=place.log_index, epoch=place.epoch, row=place.row, history_id=history_id_of(shared)
        ),
        lost_until_log_index=reader.lost_until,
        lost_because=reader.lost_because,
        lag_records=max(0, bounds_of(shared).end - place.log_index),
    )
    made.ttl.FromMilliseconds(reader.ttl_ms)
    made.expires_at.FromMilliseconds(reader.expires_ms)
    made.registered_at.FromMilliseconds(reader.registered_ms)
    return made
