"""Puts messages that were cut from a member's log back into their queues, each at most once; removes nothing.

Whether a message is there already is asked first, under the identity that it had: with a demand for more copies than a
pair has, a repetition is answered as one and anything new is refused. What is missing goes in under an identity made
from (pair, domain, epoch, log index), so that an import that is repeated or broken off leaves one message of each.
"""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator
from enum import StrEnum
from typing import Any, NamedTuple

import grpc
import grpc.aio

from tandemq.channels import Open, open_channel
from tandemq.errors import OUTCOME, STORED, TandemqError, from_rpc_error
from tandemq.v1 import pair_service_pb2 as pair
from tandemq.v1 import pair_service_pb2_grpc, queue_service_pb2_grpc
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_service_pb2 import (
    EnqueueBatch,
    EnqueueRequest,
    ProduceOpen,
    ProduceRequest,
    ProduceResponse,
)

CALL_S = 10.0
COPIES_NEVER = 1_000
"""More than any pair has: nothing new is accepted with it, and what was executed is still answered."""
COLUMNS = (
    "payloads", "priorities", "persistence", "ttls_ms", "content_types", "correlation_ids", "reply_tos", "group_ids",
    "properties", "delays_ms", "deliver_at_ms", "dedup_ids", "inerts",
    "group_sequences", "lasts_in_group",
)  # fmt: skip


class Outcome(StrEnum):
    """What became of one operation."""

    IMPORTED = "imported"
    IMPORTED_BEFORE = "imported before"
    THERE = "already there"
    DONE = "settled or expired there"
    UNACKNOWLEDGED = "not acknowledged"
    PERHAPS = "perhaps acknowledged"
    NOT_A_MESSAGE = "no message"
    NO_BODY = "body was not stored"
    INTERNAL = "moved by the manager"
    REFUSED = "refused"


class Imported(NamedTuple):
    """One operation and what became of it."""

    log_index: int
    epoch: int
    operation: str
    queue: str
    messages: int
    acknowledged: bool
    outcome: Outcome
    detail: str = ""


async def list_salvage(endpoint: str, opener: Open = open_channel) -> list[pair.SalvageFile]:
    """The files of the member at this endpoint. Raises TandemqError."""
    async with opener(endpoint, ()) as channel:
        stub: Any = pair_service_pb2_grpc.PairServiceStub(channel)
        try:
            return list((await stub.ListSalvage(pair.ListSalvageRequest(), timeout=CALL_S)).files)
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from error


async def read_salvage(
    endpoint: str, name: str, opener: Open = open_channel
) -> AsyncIterator[pair.ReadSalvageResponse]:
    """The operations of one file, in log order. Raises TandemqError, also in the middle of a damaged file."""
    async with opener(endpoint, (("grpc.max_receive_message_length", 64 << 20),)) as channel:
        stub: Any = pair_service_pb2_grpc.PairServiceStub(channel)
        try:
            async for operation in stub.ReadSalvage(pair.ReadSalvageRequest(name=name)):
                yield operation
        except grpc.aio.AioRpcError as error:
            raise from_rpc_error(error) from error


def identity_of(operation: pair.ReadSalvageResponse) -> bytes:
    """The producer under which this operation is imported, by anybody, whenever: (pair, domain, epoch, log index)."""
    chain = hashlib.blake2b(digest_size=16)
    for part in (operation.pair.encode(), operation.domain.encode()):
        chain.update(len(part).to_bytes(8, "big") + part)
    chain.update(operation.epoch.to_bytes(8, "big") + operation.log_index.to_bytes(8, "big"))
    return b"salvage/" + chain.digest()


def without(batch: MessageBatch, done: set[int]) -> MessageBatch:
    """The rest of a batch; a column of one entry is for all of them, and stays."""
    if not done:
        return batch
    count = len(batch.payloads)
    out = MessageBatch()
    for name in COLUMNS:
        column = getattr(batch, name)
        kept = [value for place, value in enumerate(column) if place not in done] if len(column) == count else column
        getattr(out, name).extend(kept)
    return out


class Importer:
    """Imports into the pair that the member at `endpoint` belongs to; any member takes it."""

    def __init__(self, endpoint: str, *, everything: bool = False, opener: Open = open_channel) -> None:
        self.endpoint, self._opener = endpoint, opener
        self.everything = everything
        """Also what may not have been acknowledged, or was not: its producer may still be repeating it."""

    async def run(self, operations: AsyncIterator[pair.ReadSalvageResponse]) -> AsyncIterator[Imported]:
        """One after the other, in log order. Raises TandemqError when a call fails: repeat the whole import then."""
        options = (("grpc.max_send_message_length", 64 << 20),)
        async with self._opener(self.endpoint, options) as channel:
            self._stub: Any = queue_service_pb2_grpc.QueueServiceStub(channel)
            async for operation in operations:
                try:
                    outcome, detail = await self._one(operation)
                except grpc.aio.AioRpcError as error:
                    raise from_rpc_error(error) from error
                yield Imported(
                    operation.log_index,
                    operation.epoch,
                    operation.operation,
                    operation.queue,
                    operation.count - len(operation.done),
                    operation.acknowledged,
                    outcome,
                    detail,
                )

    async def _one(self, operation: pair.ReadSalvageResponse) -> tuple[Outcome, str]:
        if operation.operation != "enqueue":
            return Outcome.NOT_A_MESSAGE, ""
        if not operation.acknowledged and not self.everything:
            if operation.certainty == pair.ACKNOWLEDGEMENT_NONE:
                return Outcome.UNACKNOWLEDGED, "its producer was not told; use --all to import it too"
            return Outcome.PERHAPS, "its producer may have been told; use --all to import it, if it does not repeat it"
        if not operation.batch:
            return Outcome.NO_BODY, "volatile"
        if len(operation.done) >= operation.count:
            return Outcome.DONE, ""
        if not operation.client_id and not operation.request_id:
            return Outcome.INTERNAL, "the master decides it again"
        if await self._is_there(operation):
            return Outcome.THERE, ""
        batch = EnqueueBatch.FromString(operation.batch)
        rest = EnqueueBatch(queue=batch.queue, first_sequence=1, messages=without(batch.messages, set(operation.done)))
        return await self._enqueue(identity_of(operation), rest)

    # -- is it there? ----------------------------------------------------------------------------------------------

    async def _is_there(self, operation: pair.ReadSalvageResponse) -> bool:
        if operation.request_id:
            request = EnqueueRequest(
                queue=operation.queue,
                request_id=operation.request_id,
                messages=operation.messages,
                min_copies=COPIES_NEVER,
            )
            try:
                await self._stub.Enqueue(request, timeout=CALL_S)
            except grpc.aio.AioRpcError as error:
                return _is_known(from_rpc_error(error))
            return True
        batch = EnqueueBatch.FromString(operation.batch)
        answer = await self._produce(operation.client_id, batch, COPIES_NEVER)
        if answer.HasField("reject"):
            return answer.reject.error.metadata[OUTCOME] == STORED
        return answer.HasField("ack")

    # -- put it there ----------------------------------------------------------------------------------------------

    async def _enqueue(self, client_id: bytes, batch: EnqueueBatch) -> tuple[Outcome, str]:
        answer = await self._produce(client_id, batch, 0)
        kind = answer.WhichOneof("frame")
        if kind == "reject":
            error = answer.reject.error
            known = "last_sequence" in error.metadata and error.metadata["last_sequence"] != "0"
            if error.reason == Reason.REASON_DEDUP_EXPIRED and known:
                return Outcome.IMPORTED_BEFORE, ""
            return Outcome.REFUSED, f"{Reason.Name(error.reason).removeprefix('REASON_')}: {error.message}"
        if kind != "ack":
            raise TandemqError("NO_MASTER", "the mastership moves; run the import again")
        if answer.ack.errors:
            first = answer.ack.errors[0].error
            text = f"{len(answer.ack.errors)} of {len(batch.messages.payloads)} messages: "
            return Outcome.REFUSED, f"{text}{Reason.Name(first.reason).removeprefix('REASON_')}"
        return (
            Outcome.IMPORTED_BEFORE if answer.ack.duplicate else Outcome.IMPORTED
        ), f"index {answer.ack.first_index}"

    async def _produce(self, client_id: bytes, batch: EnqueueBatch, min_copies: int) -> ProduceResponse:
        """One batch on a stream of its own; the first answer to it."""
        call = self._stub.Produce(timeout=CALL_S)
        try:
            open_ = ProduceOpen(client_id=client_id, queue=batch.queue, min_copies=min_copies)
            await call.write(ProduceRequest(open=open_))
            await call.read()
            await call.write(ProduceRequest(batch=batch))
            answer = await call.read()
            if not isinstance(answer, ProduceResponse):  # what else ends a stream, its reading has raised
                raise TandemqError("UNREACHABLE", f"{self.endpoint} ended the stream; run the import again")
            return answer
        finally:
            call.cancel()


def _is_known(error: TandemqError) -> bool:
    """A refusal that only a call which was executed can get."""
    return error.metadata.get(OUTCOME) == STORED or error.reason == "REQUEST_MISMATCH"
