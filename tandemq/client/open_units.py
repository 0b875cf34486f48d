"""Units of work that are open over several calls: what is taken, settled and sent in one happens at its commit, or
nothing of it does. It decides nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import NamedTuple, Self, TypeVar, Unpack

from google.protobuf.message import Message

from tandemq.client.calls import QUEUE_SERVICE, REACTION_SERVICE, TRANSACTION_SERVICE
from tandemq.client.delivery import MessageBatch
from tandemq.client.filtering import Where, to_filter
from tandemq.client.identity import new_client_id, new_request_id
from tandemq.client.links import Link, Linked
from tandemq.client.outgoing import Attributes, Outgoing, rows_of, to_message
from tandemq.client.parts import RowsPart
from tandemq.client.reactions import Cancel, Change, Exceptions, MoveTo, Reacted, reacted_of, to_reaction
from tandemq.client.receipts import Receipts, receipts_of
from tandemq.client.settling import Act, Range, to_settlement
from tandemq.client.waits import Wait, to_wait
from tandemq.errors import TandemqError, UnitAborted, error_of
from tandemq.finding.names import is_full, parse_queue
from tandemq.v1 import queue_service_pb2, reaction_service_pb2
from tandemq.v1 import transaction_service_pb2 as pb

Reply = TypeVar("Reply", bound=Message)
Result = TypeVar("Result")

HELD_BYTES_MAX = 1 << 20
"""Of the puts that a unit holds for its commit; what is more is sent before it."""
RETRIES = 3
"""Of work that is run in a unit, where its caller does not say: the first takeover is met by one."""


class Unit:
    """One unit of work: begun by its first call, ended once, by `commit`, `rollback`, its timeout, or a takeover.

    `async with` commits at the normal end of the block and rolls back at an exception. Its queues are of one domain of
    one manager. Every call raises UnitAborted when the unit has ended without a commit: nothing of it happened, and the
    work is to be begun anew. A message that is given back after a rollback or a timeout has been delivered once more,
    so one that always fails reaches its queue's limit; a takeover counts nothing.
    """

    def __init__(
        self,
        client: Linked,
        timeout: timedelta | None,
        min_copies: int,
        client_id: bytes | str | None,
        *,
        puts_at_commit: bool = False,
    ) -> None:
        self._client = client
        self._client_id = new_client_id(client_id) if client_id is not None else b""
        self._timeout = timeout
        self._min_copies = min_copies
        self._link: Link | None = None
        self._beginning = asyncio.Lock()
        self._queue = ""
        """The first one, at its manager."""
        self._names: dict[str, str] = {}
        """What the caller calls each queue that it sends to, by its name at the manager."""
        self._used = self._ended = False
        self._committed = False
        """Or may be: its commit was asked for, and not refused."""
        self._puts_at_commit = puts_at_commit
        self.held: list[queue_service_pb2.EnqueueRequest] = []
        """Puts that go with the commit, in order. They stay when it is refused: what the unit has by then, it knows.
        Whoever repeats the commit by hand sends them again.
        """
        self._held_bytes = 0
        self._unanswered = 0
        """Calls of which it is not known whether they are a part of it."""
        self.id = b""
        """16 bytes; empty before the first call."""
        self.receipts: dict[str, Receipts] = {}
        """Of what was sent, by queue; empty before the commit."""

    @property
    def is_undone(self) -> bool:
        """Nothing of it happened, as far as it has said: work that ended with UnitAborted may be run again."""
        return not self._committed

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._ended:
            return
        if kind is not None:
            with contextlib.suppress(TandemqError):  # the timeout does it, else; what was raised says more
                await self.rollback()
            return
        try:
            await self.commit()
        except TandemqError as refused:
            if refused.definite and not self._ended:
                with contextlib.suppress(TandemqError):
                    await self.rollback()
            raise

    async def dequeue(
        self,
        queue: str,
        max_messages: int = 1,
        *,
        max_bytes: int = 0,
        wait: Wait | None = None,
        where: str | Where | None = None,
    ) -> MessageBatch:
        """Receives up to `max_messages`, and locks them until the unit ends: its commit acknowledges them.

        wait: for the first one, seconds; by default not at all. May be empty. A request of a TWO_WAY queue is not
        acknowledged: it is answered by `reply`, released or rejected, else the commit is refused (REPLY_REQUIRED).
        """
        _, name = await self._at(queue)
        request = queue_service_pb2.DequeueRequest(
            queue=name,
            request_id=new_request_id(),
            max_messages=max_messages,
            max_bytes=max_bytes,
            filter=to_filter(where),
            unit_id=self.id,
            epoch=self._epoch(name),
        )
        if message_wait := to_wait(wait):
            request.wait.FromTimedelta(message_wait)
        path = QUEUE_SERVICE + "Dequeue"
        reply = await self._add(path, request, queue_service_pb2.DequeueResponse, name, message_wait)
        batch = MessageBatch(queue, reply.lease_id, [RowsPart(reply.messages)])
        self._used = self._used or len(batch) > 0
        return batch

    async def enqueue(self, queue: str, messages: Iterable[bytes | Outgoing]) -> None:
        """Adds messages, which nobody sees before the commit; `receipts` has them after it.

        What can be refused now is, and the unit stays as it was; whether there is room is seen at the commit. With
        `puts_at_commit` they are held here, up to 1 MiB, and it is the commit that is refused.
        A queue of another manager (`//manager/queue`) than the one that the unit has begun at gets its messages later,
        through a transmission queue that they enter with the unit; `receipts` has them under that one's name.
        """
        _, name = await self._at(queue, may_go_on=True)
        here = self._queue if is_full(name) else name
        rows = rows_of(messages)
        if not rows:
            return
        request = queue_service_pb2.EnqueueRequest(
            queue=name, request_id=new_request_id(), messages=rows, unit_id=self.id, epoch=self._epoch(here)
        )  # fmt: skip
        self._names.setdefault(name, queue)
        self._used = True
        if not self._puts_at_commit or is_full(name):
            await self._put(request, here)
            return
        self.held.append(request)
        self._held_bytes += request.ByteSize()
        if self._held_bytes > HELD_BYTES_MAX:
            await self._put_held()

    async def _put(self, request: queue_service_pb2.EnqueueRequest, queue: str) -> None:
        await self._add(QUEUE_SERVICE + "Enqueue", request, queue_service_pb2.EnqueueResponse, queue)

    async def _put_held(self) -> None:
        """Each stays held until the unit has it. Another task may be at the same one: it is put once all the same."""
        while self.held:
            first = self.held[0]
            await self._put(first, first.queue)
            if self.held and self.held[0] is first:
                self._held_bytes -= self.held.pop(0).ByteSize()

    async def settle(self, queue: str, settlements: Sequence[tuple[Act, Sequence[Range]]]) -> None:
        """Settles at the commit what a lease holds: one outside of the unit, or one of it, of which the rest is
        acknowledged. Raises LeaseLost when a lease does not hold its messages; the unit stays as it was.
        """
        _, name = await self._at(queue)
        request = queue_service_pb2.SettleRequest(
            queue=name,
            request_id=new_request_id(),
            settlements=[to_settlement(act, ranges) for act, ranges in settlements],
            unit_id=self.id,
            epoch=self._epoch(name),
        )
        self._used = True
        await self._add(QUEUE_SERVICE + "Settle", request, queue_service_pb2.SettleResponse, name)

    async def reply(
        self, queue: str, lease_id: int, index: int, payload: bytes, **attributes: Unpack[Attributes]
    ) -> None:
        """TWO_WAY: answers at the commit a request that a lease holds, one of the unit or outside of it. Nobody sees
        the answer before. Raises LeaseLost, AlreadyExists (ALREADY_REPLIED) and Refused (NOT_TWO_WAY) as outside, and
        the unit stays as it was.
        """
        _, name = await self._at(queue)
        request = queue_service_pb2.ReplyRequest(
            queue=name,
            request_id=new_request_id(),
            lease_id=lease_id,
            index=index,
            message=to_message(payload, attributes),
            unit_id=self.id,
            epoch=self._epoch(name),
        )
        self._used = True
        await self._add(QUEUE_SERVICE + "Reply", request, queue_service_pb2.ReplyResponse, name)

    async def ack(self, batch: MessageBatch) -> None:
        """Acknowledges at the commit what was taken outside of the unit. What it took itself needs no word."""
        await self._settle(batch, Act(batch.lease_id, queue_service_pb2.OUTCOME_ACK))

    async def release(self, batch: MessageBatch, delay: timedelta | None = None) -> None:
        """Gives back at the commit what was taken, by the unit or outside of it."""
        await self._settle(batch, Act(batch.lease_id, queue_service_pb2.OUTCOME_RELEASE, delay=delay))

    async def reject(self, batch: MessageBatch, reason: str = "") -> None:
        """At the commit: to the dead-letter queue, or removed if there is none."""
        await self._settle(batch, Act(batch.lease_id, queue_service_pb2.OUTCOME_REJECT, reason=reason))

    async def _settle(self, batch: MessageBatch, act: Act) -> None:
        if batch.lease_id and batch:
            await self.settle(batch.queue, [(act, batch.ranges())])

    async def react(
        self,
        queue: str,
        where: str | Where,
        action: Cancel | MoveTo | Change,
        *,
        everything: bool = False,
        sticky: timedelta | None = None,
        report_to: str = "",
        correlation_id: str = "",
        exceptions: Exceptions = Exceptions.NONE,
        timeout: float = 0.0,
    ) -> Reacted:
        """Cancels, moves or changes at the commit what fits now and nobody has; the arguments are those of `aio.react`.

        What it finds is locked for the unit (`held`): nobody else is given it or acts on it, and without a commit it
        stays as and where it is, and no delivery counts. `sticky`: it is kept by the commit. What the unit itself has
        got, or has locked by another reaction, counts as `locked`.

        One call of a unit puts something into a queue by a reaction: InvalidRequest (BAD_REQUEST) where another one
        puts, moves, changes or reports there. TXN_TOO_LARGE when the unit has no room for what fits.
        """
        _, name = await self._at(queue)
        await self._put_held()  # which of the two is refused does not hang on what is held
        reaction = to_reaction(
            where,
            action,
            everything=everything,
            sticky=sticky,
            report_to=report_to,
            correlation_id=correlation_id,
            exceptions=exceptions,
        )
        request = reaction_service_pb2.ReactRequest(
            queue=name, request_id=new_request_id(), reaction=reaction, unit_id=self.id, epoch=self._epoch(name)
        )
        self._used = True
        path, wait = REACTION_SERVICE + "React", timedelta(seconds=timeout)
        return reacted_of(await self._add(path, request, reaction_service_pb2.ReactResponse, name, wait))

    async def commit(self) -> dict[str, Receipts]:
        """Does all of it; the receipts of what was sent, by queue.

        Nothing was done when it raises, and the unit is open until its timeout: ResourceExhausted (QUEUE_FULL) when one
        message has no room, NotFound and Refused; it may be committed again. LeaseLost and UnitAborted have ended it.
        So is what refuses a put with `puts_at_commit`, and then it is refused each time.
        All of it was done when NOT_ENOUGH_COPIES says that it is stored. TimedOut and InDoubt say that it is not known:
        commit again, which never has a second effect.

        It is rolled back, and UnitAborted, where a call of it was cut off or timed out: what that took would be
        acknowledged although nobody has seen it.
        """
        if not self._used:
            await self.rollback()
            return {}
        if self._unanswered and not self._ended:
            with contextlib.suppress(TandemqError):  # its timeout does it, else
                await self.rollback()
            self._ended = True
            text = "a call of the unit of work was cut off before its answer: nothing of it happened, and never will"
            raise error_of("TXN_ABORTED", text)
        epoch = self._epoch(self._queue)
        request = pb.CommitRequest(unit_id=self.id, min_copies=self._min_copies, epoch=epoch, puts=self.held)
        self._committed = True
        try:
            reply = await self._ask(TRANSACTION_SERVICE + "Commit", request, pb.CommitResponse, self._queue)
        except UnitAborted as aborted:
            self._ended, self._committed = True, False
            # Definite, although earlier attempts were not answered: none of them did anything, or ever will.
            raise UnitAborted(aborted.reason, aborted.message, aborted.metadata, definite=True) from aborted
        except TandemqError as refused:
            self._ended = refused.reason == "LEASE_LOST"
            self._committed = not refused.definite
            raise
        self._ended = True
        self.receipts = {
            self._names.get(put.queue, put.queue): receipts_of(reply.header, put.results, duplicate=reply.duplicate)
            for put in reply.puts
        }
        return self.receipts

    async def rollback(self) -> int:
        """Gives back what it took, to the old places, and forgets the rest; says how many messages went back: none
        where the unit had ended before. May be repeated, and not after a commit.
        """
        returned = 0
        if self.id and not self._ended:
            request = pb.RollbackRequest(unit_id=self.id, epoch=self._epoch(self._queue))
            reply = await self._ask(TRANSACTION_SERVICE + "Rollback", request, pb.RollbackResponse, self._queue)
            returned = reply.returned
        self._ended = True
        return returned

    async def _at(self, queue: str, *, may_go_on: bool = False) -> tuple[Link, str]:
        """The unit's connection, and a queue's name there. Begins it."""
        if self._ended:
            raise error_of("TXN_ABORTED", "the unit of work has ended; begin another one")
        link, name = self._client.links.at(queue, may_go_on=may_go_on)
        async with self._beginning:  # by one of several tasks: the others are in the same unit
            if self._link is None:
                await self._begin(link, name)
        assert self._link is not None, "it has begun"
        if is_full(queue) and may_go_on and (link is not self._link or parse_queue(queue).domain):
            return self._link, str(parse_queue(queue))
        if link is not self._link:
            raise error_of("CROSS_DOMAIN", f"a unit of work has the queues of one manager; {queue} is of another one")
        return link, name

    async def _begin(self, link: Link, name: str) -> None:
        masters = link.members.masters
        epoch = masters.epoch(masters.domain_of(name))
        request = pb.BeginRequest(
            queue=name, request_id=new_request_id(), client_id=self._client_id, epoch=epoch
        )  # fmt: skip
        if self._timeout is not None:
            request.timeout.FromTimedelta(self._timeout)
        reply = await self._client.links.carrier(link).begin(request)
        if reply is None:
            reply = await link.caller.call(TRANSACTION_SERVICE + "Begin", request, pb.BeginResponse, queue=name)
        self._link, self._queue, self.id = link, name, reply.unit_id
        self._puts_at_commit = self._puts_at_commit and reply.puts_at_commit

    def _epoch(self, queue: str) -> int:
        assert self._link is not None, "a unit is begun before anything is asked of it"
        masters = self._link.members.masters
        return masters.epoch(masters.domain_of(queue))

    async def _add(
        self, path: str, request: Message, reply: type[Reply], queue: str, wait: timedelta | None = None
    ) -> Reply:
        """A call that makes something a part of the unit."""
        known = False
        self._unanswered += 1
        try:
            answer = await self._ask(path, request, reply, queue, wait)
            known = True
        except TandemqError as refused:
            known = refused.definite
            raise
        finally:
            self._unanswered -= known
        return answer

    async def _ask(
        self, path: str, request: Message, reply: type[Reply], queue: str, wait: timedelta | None = None
    ) -> Reply:
        assert self._link is not None, "a unit is begun before anything is asked of it"
        return await self._link.caller.call(path, request, reply, queue=queue, wait=wait)


def unit(
    client: Linked,
    *,
    timeout: timedelta | None = None,
    min_copies: int = 0,
    client_id: bytes | str | None = None,
    puts_at_commit: bool = False,
) -> Unit:
    """A unit of work: what is taken, settled and sent in it happens at its commit, all at once, or nothing does.

    Use it in a `with` block, which commits at its normal end and rolls back at an exception; see Unit. Nothing is asked
    of the manager before its first call.

    timeout: how long it may be open, 30 s by default, at most an hour; min_copies: refuse to commit
    (NOT_ENOUGH_COPIES) rather than on fewer copies; 0 means 1; client_id: for whoever lists the units that are open;
    puts_at_commit: what is sent is held here and goes with the commit, one call less for each put. What refuses it, as
    NotFound does, is raised by `commit` then.
    """
    return Unit(client, timeout, min_copies, client_id, puts_at_commit=puts_at_commit)


async def in_unit(
    client: Linked,
    work: Callable[[Unit], Awaitable[Result]],
    *,
    retries: int = RETRIES,
    timeout: timedelta | None = None,
    min_copies: int = 0,
    client_id: bytes | str | None = None,
    puts_at_commit: bool = False,
) -> Result:
    """Runs `work` in a unit of work, which is committed when it returns and rolled back when it raises; its result.

    Where the unit ended without a commit, by a takeover or its timeout, nothing of it happened, and `work` is run again
    in another one: up to `retries` more times, then UnitAborted is raised. It is run again for no other reason, and
    never where a commit may have been done. What it does beside the unit, to a database or a file, is done by each run.

    `work` may commit by itself, for the receipts: what it does afterwards is outside of the unit. The others are those
    of `unit`.
    """
    if retries < 0:
        raise error_of("BAD_REQUEST", f"retries must be 0 or more, not {retries}")
    while True:
        made = Unit(client, timeout, min_copies, client_id, puts_at_commit=puts_at_commit)
        try:
            async with made:
                return await work(made)
        except UnitAborted:
            if not retries or not made.is_undone:
                raise
            retries -= 1


class UnitState(NamedTuple):
    """A unit of work that is open somewhere."""

    id: bytes
    client_id: bytes
    """As its client calls itself; may be empty."""
    age: timedelta
    left: timedelta
    """Until its deadline."""
    messages_locked: int
    """That it took, or that its reactions are to act on."""
    messages_put: int
    """That it is to send."""
    queues: tuple[str, ...]
    """By name."""
    reactions: int = 0
    """That its commit carries out."""


async def list_units(client: Linked, max_units: int = 1_000, *, domain: str = "") -> list[UnitState]:
    """Those that are open in a domain now, the oldest first; up to 10,000."""
    request = pb.ListUnitsRequest(domain=domain, max_units=max_units)
    path = TRANSACTION_SERVICE + "ListUnits"
    found = await client.links.own.caller.call(path, request, pb.ListUnitsResponse)
    return [
        UnitState(
            each.unit_id,
            each.client_id,
            each.age.ToTimedelta(),
            each.left.ToTimedelta(),
            each.messages_locked,
            each.messages_put,
            tuple(each.queues),
            each.reactions,
        )
        for each in found.units
    ]
