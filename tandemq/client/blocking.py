"""The blocking client: the asyncio client on one background thread, with the same calls. It decides nothing.

with tandemq.connect("host:7600,host:7610") as client:
    with client.producer("orders") as producer:
        receipt = producer.send(b"...")
    for delivery in client.consumer("orders"):
        delivery.ack()
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Self

from tandemq.client import aio
from tandemq.client.admin import MemberAnswer
from tandemq.client.blocking_streams import Consumer, Producer
from tandemq.client.consumer import Mode
from tandemq.client.delivery import MessageBatch, ReceivedMessage
from tandemq.client.loop_thread import LoopThread
from tandemq.client.outgoing import Outgoing
from tandemq.client.receipts import Receipts
from tandemq.client.settling import Act, Lost, Range
from tandemq.client.target import Target
from tandemq.v1 import manager_admin_service_pb2 as manager
from tandemq.v1 import queue_admin_service_pb2 as admin

__all__ = ["Client", "Consumer", "Producer", "ReceivedBatch", "connect"]

BROWSE_CHUNK = 256  # messages that cross between the threads together


def connect(
    target: str | Sequence[str] | Target | None = None,
    *,
    timeout: float = aio.TIMEOUT_S,
    attempt_timeout: float = 5.0,
    follow_master: bool = True,
) -> Client:
    """A blocking client; the arguments are those of tandemq.aio.connect. Close it, or use it in a `with` block."""
    return Client(aio.connect(target, timeout=timeout, attempt_timeout=attempt_timeout, follow_master=follow_master))


class ReceivedBatch(MessageBatch):
    """The answer of one dequeue: messages under one lease. The verbs wait for the answer and raise LeaseLost."""

    __slots__ = ("_inner", "_thread")

    def __init__(self, thread: LoopThread, inner: aio.ReceivedBatch) -> None:
        super().__init__(inner.queue, inner.lease_id, inner.parts)
        self._thread, self._inner = thread, inner

    def ack(self) -> None:
        """Done: remove them."""
        self._thread.run(self._inner.ack())

    def release(self) -> None:
        """Not done: give them to somebody, at their old places."""
        self._thread.run(self._inner.release())

    def reject(self, reason: str = "") -> None:
        """Never: to the dead-letter queue, or removed if there is none."""
        self._thread.run(self._inner.reject(reason))

    def extend(self, lease: timedelta | None = None) -> None:
        """Still working: the lease lasts for `lease` from now on; None: the queue's duration."""
        self._thread.run(self._inner.extend(lease))


class Client:
    """Talks to one pair from any thread. Calls raise what those of aio.Client raise, and repeat as those do."""

    def __init__(self, inner: aio.Client) -> None:
        self._inner = inner
        self._thread = LoopThread("tandemq client")

    @property
    def target(self) -> Target:
        """Where its members are."""
        return self._inner.target

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes its producers (which flush) and consumers (which give back), then the connections. May be repeated."""
        if not self._thread.loop.is_closed():
            try:
                self._thread.run(self._inner.close())
            finally:
                self._thread.close()

    def epoch(self, domain: str = "main") -> int:
        """Highest epoch that replies have told of; 0 when none has."""
        return self._inner.epoch(domain)

    def master(self, domain: str = "main") -> str:
        """host:port of the master that replies have told of; empty when none has."""
        return self._inner.master(domain)

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
    ) -> Producer:
        """A producer for one queue; see aio.Client.producer."""

        async def make() -> aio.Producer:
            return self._inner.producer(
                queue,
                client_id=client_id,
                min_copies=min_copies,
                max_batch_messages=max_batch_messages,
                max_batch_bytes=max_batch_bytes,
                max_unanswered_batches=max_unanswered_batches,
                max_pending_bytes=max_pending_bytes,
                max_pending_messages=max_pending_messages,
            )

        return Producer(self._thread, self._thread.run(make()), max_pending_bytes, max_pending_messages)

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
    ) -> Consumer:
        """A consumer of one queue; see aio.Client.consumer. `on_lost` runs on the client's thread."""

        async def make() -> aio.Consumer:
            return self._inner.consumer(
                queue,
                client_id=client_id,
                credit_messages=credit_messages,
                credit_bytes=credit_bytes,
                lease=lease,
                mode=mode,
                on_lost=on_lost,
            )

        return Consumer(self._thread, self._thread.run(make()))

    # -- single calls --------------------------------------------------------------------------------------------

    def enqueue(
        self, queue: str, messages: Iterable[bytes | Outgoing], *, min_copies: int = 0, request_id: bytes | None = None
    ) -> Receipts:
        """Sends up to 10,000 messages by one call; see aio.Client.enqueue."""
        return self._thread.run(self._inner.enqueue(queue, messages, min_copies=min_copies, request_id=request_id))

    def dequeue(
        self,
        queue: str,
        max_messages: int = 1,
        *,
        max_bytes: int = 0,
        wait: timedelta | None = None,
        lease: timedelta | None = None,
        mode: Mode | None = None,
        client_id: bytes | str | None = None,
        request_id: bytes | None = None,
    ) -> ReceivedBatch:
        """Receives up to `max_messages`; see aio.Client.dequeue."""
        call = self._inner.dequeue(
            queue,
            max_messages,
            max_bytes=max_bytes,
            wait=wait,
            lease=lease,
            mode=mode,
            client_id=client_id,
            request_id=request_id,
        )
        return ReceivedBatch(self._thread, self._thread.run(call))

    def settle(
        self, queue: str, settlements: Sequence[tuple[Act, Sequence[Range]]], *, request_id: bytes | None = None
    ) -> list[Lost]:
        """Settles leased messages; the settlements that were refused."""
        return self._thread.run(self._inner.settle(queue, settlements, request_id=request_id))

    def browse(self, queue: str, *, from_index: int = 0, max_messages: int = 0) -> Iterator[ReceivedMessage]:
        """Reads messages without changing anything, lowest index first; see aio.Client.browse."""
        source = self._inner.browse(queue, from_index=from_index, max_messages=max_messages)

        async def chunk() -> list[ReceivedMessage]:
            found: list[ReceivedMessage] = []
            async for message in source:
                found.append(message)
                if len(found) == BROWSE_CHUNK:
                    break
            return found

        while found := self._thread.run(chunk()):
            yield from found

    # -- administration: see tandemq.client.admin ----------------------------------------------------------------

    def create_queue(self, name: str, config: admin.QueueConfig | None = None) -> admin.QueueInfo:
        """Creates a queue and opens it on every member."""
        return self._thread.run(self._inner.create_queue(name, config))

    def create_replicated_queue(self, name: str, config: admin.QueueConfig | None = None) -> admin.QueueInfo:
        """Creates a queue on both members of the pair."""
        return self._thread.run(self._inner.create_replicated_queue(name, config))

    def open_replicated_queue(self, name: str, *, master_required: bool = False) -> admin.QueueInfo:
        """Opens the instance of the member that is asked."""
        return self._thread.run(self._inner.open_replicated_queue(name, master_required=master_required))

    def close_replicated_queue(self, name: str) -> admin.QueueInfo:
        """Closes the instance of the member that is asked."""
        return self._thread.run(self._inner.close_replicated_queue(name))

    def destroy_replicated_queue(self, name: str, *, both_members: bool = False) -> bool:
        """Destroys the instance of the member that is asked, or both; True when the queue is gone from the pair."""
        return self._thread.run(self._inner.destroy_replicated_queue(name, both_members=both_members))

    def get_queue(self, name: str) -> admin.QueueInfo:
        """Describes one queue."""
        return self._thread.run(self._inner.get_queue(name))

    def list_queues(self, prefix: str = "") -> list[admin.QueueInfo]:
        """Describes the queues whose names begin with `prefix`, by name."""
        return self._thread.run(self._inner.list_queues(prefix))

    def update_queue(
        self, name: str, config: admin.QueueConfig, fields: Sequence[str], *, expected_version: int = 0
    ) -> admin.QueueInfo:
        """Changes the attributes that `fields` names to their values in `config`."""
        return self._thread.run(self._inner.update_queue(name, config, fields, expected_version=expected_version))

    def delete_queue(self, name: str, *, if_empty: bool = False) -> int:
        """Deletes a queue; how many messages went with it."""
        return self._thread.run(self._inner.delete_queue(name, if_empty=if_empty))

    def purge_queue(self, name: str) -> int:
        """Removes every message that is not leased; how many."""
        return self._thread.run(self._inner.purge_queue(name))

    def manager_info(self) -> manager.GetManagerResponse:
        """Versions, limits and totals of the first member that answers."""
        return self._thread.run(self._inner.manager_info())

    def pair_status(self) -> list[MemberAnswer]:
        """What every endpoint says of the pair."""
        return self._thread.run(self._inner.pair_status())
