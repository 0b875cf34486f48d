"""Asks the target of a link, under the numbers of one writer: each step is done there once. Decides nothing."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.message import Message

from replica.services.links.leaving import by_queue, reaction_step
from replica.services.passage import MEANT
from tandemq.client.calls import REACTION_SERVICE, STAGE_SERVICE, TRANSACTION_SERVICE
from tandemq.client.identity import new_request_id
from tandemq.errors import TandemqError, error_of
from tandemq.v1 import reaction_service_pb2 as reaction_pb
from tandemq.v1 import stage_service_pb2 as stage_pb
from tandemq.v1 import transaction_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Mapping

    from replica.services.links.leaving import Bound
    from tandemq import aio
    from tandemq.v1.common_pb2 import ResponseHeader

Reply = TypeVar("Reply", bound=Message)
LOOKS = timedelta(seconds=20)
"""More for a reaction, that looks through a deep queue."""


class FarSide:
    """Of one link."""

    def __init__(self, client: aio.Client, writer: str, forwarder: str, domain: str, manager: str = "") -> None:
        """`writer`: whose numbers are counted; `forwarder`: the manager that sends; `domain`: of the target, empty: its
        main one; `manager`: the target, by the name of its pair, empty: its name may be an alias of a resolver.
        """
        self.client, self.manager = client, manager
        self.writer, self.forwarder, self.domain = writer, forwarder, domain
        self.last: int | None = None
        """The writer's last number there; None: not asked yet."""
        self.there = domain
        """The domain of the target that it is known in; empty: the target has not said yet."""

    async def ask(self, lineage: str) -> None:
        """What the target has had: a batch that is new here must be new there. `lineage`: whose numbers these are."""
        request = stage_pb.GetWriterRequest(writer=self.writer, domain=self.domain)
        reply = await self._call(STAGE_SERVICE + "GetWriter", request, stage_pb.GetWriterResponse)
        self._check(reply.header)
        if reply.known and reply.query_id != lineage:
            text = (
                f"writer {self.writer} belongs to another manager of this name, or to what this one was before "
                f"(history {reply.query_id!r}): make sure that it sends no more, and release the writer there"
            )
            raise error_of("WRITER_TAKEN", text, {"query_id": reply.query_id, "batch": str(reply.batch)})
        self.last, self.there = reply.batch, reply.header.domain

    async def put(self, number: int, rows: list[Bound], lineage: str) -> None:
        """These messages enter their queues, by one unit. Raises TandemqError."""
        request = pb.TransactRequest(
            request_id=new_request_id(),  # of this attempt: what has time left to live is never the same
            writer=self.writer,
            number=number,
            after=self._before(number),
            query_id=lineage,
            forwarder=self.forwarder,
            domain=self.there,
        )
        for name, each in by_queue(rows).items():
            request.puts.add(queue=name).messages.extend(each)  # copied once; by a message of its own, twice
        reply = await self._call(TRANSACTION_SERVICE + "Transact", request, pb.TransactResponse)
        self._check(reply.header)
        self._has(number)

    async def react(self, number: int, row: Bound, lineage: str) -> None:
        """A reaction on its way is done, whatever it comes to (V17). Raises TandemqError."""
        request = reaction_step(row)
        request.request_id = new_request_id()
        request.writer, request.number, request.query_id = self.writer, number, lineage
        request.after, request.domain = self._before(number), self.there
        reply = await self._call(REACTION_SERVICE + "React", request, reaction_pb.ReactResponse, wait=LOOKS)
        self._check(reply.header)
        self._has(number)

    async def _call(self, path: str, request: Message, reply: type[Reply], *, wait: timedelta | None = None) -> Reply:
        """The master of that domain is asked first: it may be another member than that of the main one."""
        beside = ((MEANT, self.manager),) if self.manager else ()
        try:
            return await self.client.links.own.caller.call(
                path, request, reply, wait=wait, domain=self.there, beside=beside
            )
        except TandemqError as error:
            if error.reason != "WRONG_PAIR":
                raise
            raise _away(error.message, error.metadata, definite=error.definite) from error

    def _check(self, header: ResponseHeader) -> None:
        """Another manager at its address is nobody to this link: nothing that it says it has counts, and nothing is
        given to it. An older release does not look at what a call means, so its answer is looked at.
        """
        if header.pair == self.forwarder or (self.manager and header.pair != self.manager):
            meant = self.manager or "another manager"
            text = f"this address is that of {header.pair}, and {meant} is meant; correct where it is"
            raise _away(text, {"expected": self.manager, "pair": header.pair}, definite=False)

    def counts_on(self, error: TandemqError) -> bool:
        """It knows another number now, and may try again: the target was put back to a backup, or has released it."""
        assert self.last is not None
        if error.reason != "SEQUENCE_GAP" or int(error.metadata.get("last_number", self.last)) == self.last:
            return False
        self.last = int(error.metadata["last_number"])
        return True

    def _before(self, number: int) -> int:
        assert self.last is not None
        return min(self.last, number - 1)

    def _has(self, number: int) -> None:
        self.last = max(self.last or 0, number)


def _away(text: str, facts: Mapping[str, str], *, definite: bool) -> TandemqError:
    """For the link it is the target that is away: it waits, and makes no dead letters of what it has."""
    away = error_of("MANAGER_UNREACHABLE", text, facts)
    return away if definite else away.in_doubt()
