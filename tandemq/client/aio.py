"""The asyncio client: what users call. It decides nothing: it fills in requests and hands them on.

async with tandemq.aio.connect("host:7600,host:7610") as client:
    async with client.producer("orders") as producer:
        receipt = await producer.send(b"...")
    async for delivery in client.consumer("orders"):
        delivery.ack()
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Self

from tandemq import retry
from tandemq.channels import Open, open_channel
from tandemq.client.admin import Admin, MemberAnswer
from tandemq.client.batches import Batches, LeasedBatch, TakenBatches
from tandemq.client.calls import QUEUE_SERVICE, Attempts
from tandemq.client.completion import Completion, Completions, Final, Handle, Reached
from tandemq.client.consumer import Consumer, Mode, to_mode
from tandemq.client.delivery import Delivery, DeliveryBatch, MessageBatch, ReceivedMessage
from tandemq.client.exporting import Export, Exporting
from tandemq.client.filtering import Where, to_filter
from tandemq.client.identity import new_client_id, new_request_id
from tandemq.client.journal import (
    JournalHead,
    JournalKind,
    JournalPage,
    JournalRow,
    Journals,
    JournalStart,
)
from tandemq.client.links import Links
from tandemq.client.outgoing import Attributes, Outgoing, to_message
from tandemq.client.parts import RowsPart
from tandemq.client.places import JournalPosition
from tandemq.client.producer import Producer
from tandemq.client.readers import JournalReader
from tandemq.client.receipts import (
    Level,
    PartlyRefused,
    Receipt,
    ReceiptRun,
    Receipts,
    Warned,
    checked,
    level_of,
    warning_of,
)
from tandemq.client.settling import Act, Lost, Range, to_settlement
from tandemq.client.staging import Published, PublishedRows, Staged, Staging, WriterState, new_stage_id
from tandemq.client.target import NoTarget
from tandemq.client.waits import Wait, to_wait
from tandemq.client.weights import PublishedWeights, Weighing, WeightTable
from tandemq.errors import TandemqError, to_error
from tandemq.finding.resolver import Resolver
from tandemq.finding.target import Target
from tandemq.v1 import queue_service_pb2

__all__ = [
    "Attributes",
    "Client",
    "Completion",
    "Consumer",
    "Delivery",
    "DeliveryBatch",
    "Export",
    "Final",
    "Handle",
    "JournalHead",
    "JournalKind",
    "JournalPage",
    "JournalPosition",
    "JournalReader",
    "JournalRow",
    "JournalStart",
    "LeasedBatch",
    "Level",
    "Lost",
    "MemberAnswer",
    "NoTarget",
    "Outgoing",
    "PartlyRefused",
    "Producer",
    "Published",
    "PublishedRows",
    "PublishedWeights",
    "Reached",
    "Receipt",
    "Receipts",
    "ReceivedBatch",
    "ReceivedMessage",
    "Staged",
    "TakenBatches",
    "TandemqError",
    "Target",
    "Warned",
    "WeightTable",
    "WriterState",
    "connect",
    "new_stage_id",
]

TIMEOUT_S = 30.0


def connect(
    target: str | Sequence[str] | Target | None = None,
    *,
    timeout: float = TIMEOUT_S,
    attempt_timeout: float = 5.0,
    follow_master: bool = True,
    resolvers: Sequence[Resolver] = (),
) -> Client:
    """A client for a pair: "host:port,host:port", or "//name"; else the default one of this user, host or site.

    "//orders" is looked up by `resolvers`, then by those of this machine's files (docs/CLIENTS.md, Finding a manager);
    "//orders/cf/hotline" connects to the same and lets `Client.queue` be "cf/hotline"; "///cf/hotline" finds a queue
    that was exported. Wherever a queue is named, a full name may stand: another manager's opens a connection there.

    Connects when something is asked of it. `timeout` (seconds) bounds every call with all its repetitions, and the time
    that producers and consumers go on without any answer; `attempt_timeout` one attempt. With `follow_master` the
    client goes to the master that replies name; without, it keeps to the named endpoints, which forward.
    Raises NoTarget.
    """
    if not isinstance(target, Target):
        from tandemq.finding.default import resolve_target  # its files and names are not needed beside a Target

        target = resolve_target(target if target is None or isinstance(target, str) else ",".join(target))
    policy = retry.Policy(total_s=timeout, attempt_s=attempt_timeout)
    return Client(target, policy, follow_master=follow_master, resolvers=resolvers)


class ReceivedBatch(MessageBatch):
    """The answer of one dequeue: messages under one lease, settled by calls that wait for their answer."""

    __slots__ = ("_client",)

    def __init__(self, client: Client, reply: queue_service_pb2.DequeueResponse, queue: str) -> None:
        super().__init__(queue, reply.lease_id, [RowsPart(reply.messages)])
        self._client = client

    async def ack(self) -> None:
        """Done: remove them. Raises LeaseLost when the member refused some."""
        await self._settle(Act(self.lease_id, queue_service_pb2.OUTCOME_ACK))

    async def release(self, delay: timedelta | None = None) -> None:
        """Not done: give them to somebody, at their old places, after `delay`."""
        await self._settle(Act(self.lease_id, queue_service_pb2.OUTCOME_RELEASE, delay=delay))

    async def reject(self, reason: str = "") -> None:
        """Never: to the dead-letter queue, or removed if there is none."""
        await self._settle(Act(self.lease_id, queue_service_pb2.OUTCOME_REJECT, reason=reason))

    async def extend(self, lease: timedelta | None = None) -> None:
        """Still working: the lease lasts for `lease` from now on; None: the queue's duration."""
        await self._settle(Act(self.lease_id, queue_service_pb2.OUTCOME_EXTEND, extension=lease))

    async def _settle(self, act: Act) -> None:
        if not self.lease_id or not self:
            return
        for loss in await self._client.settle(self.queue, [(act, self.ranges())]):
            raise loss.error


class Client(Admin, Exporting, Completions, Journals, Staging, Batches, Weighing):
    """Talks to one pair. Belongs to the event loop in which it is first used."""

    def __init__(
        self,
        target: Target,
        policy: retry.Policy,
        *,
        follow_master: bool = True,
        open_channel: Open = open_channel,
        resolvers: Sequence[Resolver] = (),
    ) -> None:
        self.target = target
        self._policy = policy
        self._links = Links(target, policy, follow_master=follow_master, open_channel=open_channel, extra=resolvers)
        self._members, self._caller = self._links.own
        self._init_completions()
        self._open: weakref.WeakSet[Producer | Consumer] = weakref.WeakSet()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Closes its producers (which flush) and consumers (which give back), then the connections."""
        await self._close_completions()
        await asyncio.gather(*(item.close() for item in list(self._open)))
        await self._links.close()

    @property
    def queue(self) -> str:
        """The queue that the target named beside the manager, relative to it; empty when it named none."""
        return self.target.queue

    async def locate(self) -> tuple[str, ...]:
        """Where its manager serves clients; looks it up when it was given by name. Raises MANAGER_NOT_FOUND,
        MANAGER_UNREACHABLE."""
        return await self._members.located()

    def epoch(self, domain: str = "main") -> int:
        """Highest epoch that replies have told of; 0 when none has."""
        return self._members.masters.epoch(domain)

    def master(self, domain: str = "main") -> str:
        """host:port of the master that replies have told of; empty when none has."""
        return self._members.masters.endpoint(domain)

    # -- streams -------------------------------------------------------------------------------------------------

    def producer(
        self,
        queue: str,
        *,
        client_id: bytes | str | None = None,
        min_copies: int = 0,
        max_batch_messages: int = 1000,
        max_batch_bytes: int = 1 << 20,
        max_unanswered_batches: int = 4,
        max_pending_bytes: int = 64 << 20,
        max_pending_messages: int = 1_000_000,
        full_wait: Wait | None = None,
    ) -> Producer:
        """A producer for one queue; connects when it is first used.

        client_id: names it over restarts of the application (1 to 56 bytes); None: a new one. One producer at a time:
            when batches of another one turn up under it, this one goes on as `<client_id>~1`.
        min_copies: refuse (NOT_ENOUGH_COPIES) rather than acknowledge on fewer; 0 means 1.
        max_pending_*: bound of what waits here; beyond it `send` waits and `send_nowait` raises.
        full_wait: how long a message may wait for room in a full queue, in the order in which it came to the master;
            seconds, -1 for ever; by default it is refused with QUEUE_FULL at once. `timeout` counts from then on.
        """
        link, queue = self._links.at(queue)
        producer = Producer(
            link.members,
            self._policy,
            queue,
            client_id=client_id,
            min_copies=min_copies,
            max_batch_messages=max_batch_messages,
            max_batch_bytes=max_batch_bytes,
            max_unanswered_batches=max_unanswered_batches,
            max_pending_bytes=max_pending_bytes,
            max_pending_messages=max_pending_messages,
            full_wait=to_wait(full_wait),
        )
        self._open.add(producer)
        return producer

    def consumer(
        self,
        queue: str,
        *,
        client_id: bytes | str | None = None,
        credit_messages: int = 1000,
        credit_bytes: int = 8 << 20,
        lease: timedelta | None = None,
        mode: Mode | None = None,
        on_lost: Callable[[Lost], None] | None = None,
        where: str | Where | None = None,
    ) -> Consumer:
        """A consumer of one queue; connects when it is first asked for a message.

        credit_*: how much may be on its way or buffered here.
        lease, mode: None: the queue's. Mode "immediate" removes at delivery: at most once.
        on_lost: called with settlements that were refused; they are counted in `Consumer.lost` as well.
        where: only these; a text is a selector.
        """
        link, queue = self._links.at(queue)
        consumer = Consumer(
            link.members,
            self._policy,
            queue,
            client_id=client_id,
            credit_messages=credit_messages,
            credit_bytes=credit_bytes,
            lease=lease,
            mode=mode,
            on_lost=on_lost,
            where=where,
        )
        self._open.add(consumer)
        return consumer

    # -- single calls --------------------------------------------------------------------------------------------

    async def enqueue(
        self,
        queue: str,
        messages: Iterable[bytes | Outgoing],
        *,
        min_copies: int = 0,
        wait: Wait | None = None,
        request_id: bytes | None = None,
    ) -> Receipts:
        """Sends up to 10,000 messages by one call. Raises PartlyRefused with the receipts when some were refused.

        wait: how long for room in a full queue, in the order in which calls came to the master; seconds, -1 for ever;
            by default not at all. All of them enter together; at the end of the wait, what has room.
        Repeating it with the same `request_id` (16 bytes; None: a new one) has one effect and the same answer.
        """
        request = queue_service_pb2.EnqueueRequest(
            queue=queue,
            request_id=request_id or new_request_id(),
            messages=[
                to_message(message, Attributes()) if isinstance(message, bytes) else to_message(*message)
                for message in messages
            ],
            min_copies=min_copies,
            epoch=self._epoch_of(queue),
        )
        if room_wait := to_wait(wait):
            request.wait.FromTimedelta(room_wait)
        reply = await self._caller.call(
            QUEUE_SERVICE + "Enqueue", request, queue_service_pb2.EnqueueResponse, queue=queue, wait=room_wait
        )
        runs = [
            ReceiptRun(
                position=place,
                count=1,
                first_index=result.index,
                epoch=reply.header.epoch,
                copies=reply.header.copies,
                level=level_of(reply.header.level),
                duplicate=reply.duplicate or result.duplicate,
                warning=warning_of(result.warning),
                ids=(result.id,),
                # What has ended within the wait may have an answer, which its sender asks for by the handle.
                handles=b"" if result.completed and not result.final_state else result.handle[:8],
            )
            for place, result in enumerate(reply.results)
            if not result.HasField("error")
        ]
        errors = {
            place: to_error(result.error) for place, result in enumerate(reply.results) if result.HasField("error")
        }
        return checked(Receipts(len(reply.results), runs, errors))

    async def dequeue(
        self,
        queue: str,
        max_messages: int = 1,
        *,
        max_bytes: int = 0,
        wait: Wait | None = None,
        lease: timedelta | None = None,
        mode: Mode | None = None,
        client_id: bytes | str | None = None,
        request_id: bytes | None = None,
        where: str | Where | None = None,
    ) -> ReceivedBatch:
        """Receives up to `max_messages`; waits for the first one for `wait`, by default not at all. May be empty.

        wait: seconds, -1 for ever.
        """
        request = queue_service_pb2.DequeueRequest(
            queue=queue,
            request_id=request_id or new_request_id(),
            max_messages=max_messages,
            max_bytes=max_bytes,
            client_id=new_client_id(client_id),
            epoch=self._epoch_of(queue),
            filter=to_filter(where),
        )
        if message_wait := to_wait(wait):
            request.wait.FromTimedelta(message_wait)
        if lease is not None:
            request.lease_duration.FromTimedelta(lease)
        if mode is not None:
            request.settle_mode = to_mode(mode)
        reply = await self._caller.call(
            QUEUE_SERVICE + "Dequeue", request, queue_service_pb2.DequeueResponse, queue=queue, wait=message_wait
        )
        return ReceivedBatch(self, reply, queue)

    async def settle(
        self, queue: str, settlements: Sequence[tuple[Act, Sequence[Range]]], *, request_id: bytes | None = None
    ) -> list[Lost]:
        """Settles leased messages; returns the settlements that were refused, an empty list when none was."""
        request = queue_service_pb2.SettleRequest(
            queue=queue,
            request_id=request_id or new_request_id(),
            settlements=[to_settlement(act, ranges) for act, ranges in settlements],
            epoch=self._epoch_of(queue),
        )
        reply = await self._caller.call(
            QUEUE_SERVICE + "Settle", request, queue_service_pb2.SettleResponse, queue=queue
        )
        return [
            Lost(
                act,
                tuple((entry.first, entry.count) for entry in result.refused) or tuple(ranges),
                to_error(result.error),
            )
            for (act, ranges), result in zip(settlements, reply.results, strict=False)
            if result.HasField("error")
        ]

    async def browse(
        self, queue: str, *, from_index: int = 0, max_messages: int = 0, where: str | Where | None = None
    ) -> AsyncIterator[ReceivedMessage]:
        """Reads messages without changing anything, lowest index first; 0 means from the first one, and all there are.

        A broken stream goes on behind the last message that was read.
        """
        (members, caller), queue = self._links.at(queue)
        attempts = Attempts(members, self._policy, members.masters.domain_of(queue) or "main")
        given = 0
        while True:
            request = queue_service_pb2.BrowseRequest(
                queue=queue,
                from_index=from_index,
                max_messages=max_messages - given if max_messages else 0,
                filter=to_filter(where),
            )
            try:
                async for reply in caller.stream(
                    await attempts.located(), QUEUE_SERVICE + "Browse", request, queue_service_pb2.BrowseResponse, None
                ):
                    attempts.progress()
                    members.learn(reply.header, queue)
                    for message in MessageBatch(queue, 0, [RowsPart(reply.messages)]):
                        given += 1
                        from_index = message.index + 1
                        yield message
                return
            except TandemqError as error:
                if retry.failure_of(error) is None or (max_messages and given >= max_messages):
                    raise
                delay_s = attempts.failed(error)
                if attempts.exhausted:
                    raise
                await asyncio.sleep(delay_s)

    def _epoch_of(self, queue: str) -> int:
        """Highest epoch seen of the queue's domain; 0 until a reply has told which domain that is."""
        return self._members.masters.epoch(self._members.masters.domain_of(queue))
