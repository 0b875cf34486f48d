"""The blocking client: the asyncio client on one background thread, with the same calls. It decides nothing.

with tandemq.connect("host:7600,host:7610") as client:
    with client.producer("orders") as producer:
        receipt = producer.send(b"...")
    for delivery in client.consumer("orders"):
        delivery.ack()
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Sequence
from datetime import timedelta
from types import TracebackType
from typing import Self, Unpack
from weakref import WeakSet

from tandemq.client import aio
from tandemq.client.admin import RESTORE_TIMEOUT_S, Handoff, MemberAnswer
from tandemq.client.blocking_ahead import Ahead
from tandemq.client.blocking_batches import Batches
from tandemq.client.blocking_journal import Journals
from tandemq.client.blocking_moves import Moves
from tandemq.client.blocking_results import Handle, ReceivedBatch
from tandemq.client.blocking_staging import Staging
from tandemq.client.blocking_streams import Consumer, Producer
from tandemq.client.blocking_weights import Weighing
from tandemq.client.completion import Completion
from tandemq.client.consumer import Mode
from tandemq.client.delivery import ReceivedMessage
from tandemq.client.filtering import Where
from tandemq.client.loop_thread import LoopThread
from tandemq.client.outgoing import Attributes, Outgoing
from tandemq.client.receipts import Receipts
from tandemq.client.settling import Act, Lost, Range
from tandemq.client.waits import Wait
from tandemq.finding.names import FullName
from tandemq.finding.resolver import Registry, Resolver
from tandemq.finding.target import Target
from tandemq.v1 import manager_admin_service_pb2 as manager
from tandemq.v1 import queue_admin_service_pb2 as admin

__all__ = ["Client", "Consumer", "Handle", "Producer", "ReceivedBatch", "connect"]

BROWSE_CHUNK = 256  # messages that cross between the threads together


def connect(
    target: str | Sequence[str] | Target | None = None,
    *,
    timeout: float = aio.TIMEOUT_S,
    attempt_timeout: float = 5.0,
    follow_master: bool = True,
    resolvers: Sequence[Resolver] = (),
) -> Client:
    """A blocking client; the arguments are those of tandemq.aio.connect. Close it, or use it in a `with` block."""
    inner = aio.connect(
        target, timeout=timeout, attempt_timeout=attempt_timeout, follow_master=follow_master, resolvers=resolvers
    )
    return Client(inner)


async def _ended(source: AsyncIterator[Completion]) -> None:
    close = getattr(source, "aclose", None)
    if close is not None:
        await close()


class Client(Ahead, Moves, Journals, Staging, Batches, Weighing):
    """Talks to one pair from any thread. Calls raise what those of aio.Client raise, and repeat as those do."""

    def __init__(self, inner: aio.Client, thread: LoopThread | None = None) -> None:
        self._inner = inner
        self._thread = thread or LoopThread("tandemq client")
        self._own = thread is None
        self._closed = False
        self._asked = WeakSet()

    @property
    def target(self) -> Target:
        """Where its members are."""
        return self._inner.target

    @property
    def queue(self) -> str:
        """The queue that the target named beside the manager, relative to it; empty when it named none."""
        return self._inner.queue

    def locate(self) -> tuple[str, ...]:
        """Where its manager serves clients; see aio.Client.locate."""
        return self._thread.run(self._inner.locate())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Closes its producers (which flush) and consumers (which give back), then the connections. May be repeated."""
        if self._closed:
            return
        self._closed = True
        self._give_up()
        try:
            self._thread.run(self._inner.close())
        finally:
            if self._own:
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
        full_wait: Wait | None = None,
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
                full_wait=full_wait,
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
        where: str | Where | None = None,
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
                where=where,
            )

        return Consumer(self._thread, self._thread.run(make()))

    # -- single calls --------------------------------------------------------------------------------------------

    def enqueue(
        self,
        queue: str,
        messages: Iterable[bytes | Outgoing],
        *,
        min_copies: int = 0,
        wait: Wait | None = None,
        request_id: bytes | None = None,
    ) -> Receipts:
        """Sends up to 10,000 messages by one call; see aio.Client.enqueue."""
        return self._thread.run(
            self._inner.enqueue(queue, messages, min_copies=min_copies, wait=wait, request_id=request_id)
        )

    def send(
        self,
        queue: str,
        payload: bytes,
        *,
        wait: Wait | None = None,
        on_completion: Callable[[Handle, Completion], None] | None = None,
        min_copies: int = 0,
        request_id: bytes | None = None,
        **attributes: Unpack[Attributes],
    ) -> Handle:
        """Sends one message; see aio.Client.send. `on_completion` runs on the client's thread and must not block."""
        tell = None
        if on_completion is not None:
            told = on_completion

            def tell(inner: aio.Handle, completion: Completion) -> None:
                told(Handle(self._thread, inner), completion)

        call = self._inner.send(
            queue,
            payload,
            wait=wait,
            on_completion=tell,
            min_copies=min_copies,
            request_id=request_id,
            **attributes,
        )
        return Handle(self._thread, self._thread.run(call))

    def call(
        self, queue: str, payload: bytes, timeout: Wait | None = 30.0, **attributes: Unpack[Attributes]
    ) -> ReceivedMessage:
        """Sends a request to a TWO_WAY queue and waits for its answer; see aio.Client.call."""
        return self._thread.run(self._inner.call(queue, payload, timeout, **attributes))

    def handle(self, queue: str, value: bytes) -> Handle:
        """A handle that was kept: 16 bytes of `Handle.value`, from this client or another one."""
        return Handle(self._thread, self._inner.handle(queue, value))

    def check_completions(self, queue: str, handles: Iterable[bytes]) -> list[Completion]:
        """What is known of messages now, one for each handle."""
        return self._thread.run(self._inner.check_completions(queue, handles))

    def wait_completions(self, queue: str, handles: Iterable[bytes], timeout: Wait | None = -1) -> list[Completion]:
        """When all of them have ended, or what is known when the time is over; -1 waits for ever."""
        return self._thread.run(self._inner.wait_completions(queue, handles, timeout))

    def completions(self, queue: str, handles: Iterable[bytes | Handle]) -> Iterator[Completion]:
        """Each message once, when it has ended; see aio.Client.completions."""
        values = [handle.value if isinstance(handle, Handle) else handle for handle in handles]
        source = self._inner.completions(queue, values)

        async def following() -> Completion | None:
            return await anext(source, None)

        try:
            while (found := self._thread.run(following())) is not None:
                yield found
        finally:
            self._thread.run(_ended(source))

    def reply(
        self,
        queue: str,
        lease_id: int,
        index: int,
        payload: bytes,
        *,
        request_id: bytes | None = None,
        **attributes: Unpack[Attributes],
    ) -> bool:
        """TWO_WAY: answers a request that was dequeued; see aio.Client.reply."""
        return self._thread.run(self._inner.reply(queue, lease_id, index, payload, request_id=request_id, **attributes))

    def dequeue(
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
            where=where,
        )
        return ReceivedBatch(self._thread, self._thread.run(call))

    def settle(
        self, queue: str, settlements: Sequence[tuple[Act, Sequence[Range]]], *, request_id: bytes | None = None
    ) -> list[Lost]:
        """Settles leased messages; the settlements that were refused."""
        return self._thread.run(self._inner.settle(queue, settlements, request_id=request_id))

    def browse(
        self, queue: str, *, from_index: int = 0, max_messages: int = 0, where: str | Where | None = None
    ) -> Iterator[ReceivedMessage]:
        """Reads messages without changing anything, lowest index first; see aio.Client.browse."""
        source = self._inner.browse(queue, from_index=from_index, max_messages=max_messages, where=where)

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

    def create_queue(
        self, name: str, config: admin.QueueConfig | None = None, *, configuring: bool = False
    ) -> admin.QueueInfo:
        """Creates a queue and opens it on every member, or leaves it in CONFIGURING."""
        return self._thread.run(self._inner.create_queue(name, config, configuring=configuring))

    def create_replicated_queue(self, name: str, config: admin.QueueConfig | None = None) -> admin.QueueInfo:
        """Creates a queue on both members of the pair."""
        return self._thread.run(self._inner.create_replicated_queue(name, config))

    def open_replicated_queue(
        self, name: str, *, master_required: bool = False, options: admin.QueueConfig | None = None
    ) -> admin.QueueInfo:
        """Opens the instance of the member that is asked; see aio.Client.open_replicated_queue."""
        call = self._inner.open_replicated_queue(name, master_required=master_required, options=options)
        return self._thread.run(call)

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
        """Changes the attributes that `fields` names; a change of the persistence returns when it is carried out."""
        return self._thread.run(self._inner.update_queue(name, config, fields, expected_version=expected_version))

    def delete_queue(self, name: str, *, if_empty: bool = False, if_unused: bool = False) -> int:
        """Deletes a queue; how many messages went with it."""
        return self._thread.run(self._inner.delete_queue(name, if_empty=if_empty, if_unused=if_unused))

    def configure_queue(self, name: str) -> admin.QueueInfo:
        """Ends the configuration phase: its type cannot be changed any more."""
        return self._thread.run(self._inner.configure_queue(name))

    def open_queue(self, name: str) -> admin.QueueInfo:
        """Opens a configured or closed queue on every member that holds it."""
        return self._thread.run(self._inner.open_queue(name))

    def close_queue(self, name: str) -> admin.QueueInfo:
        """Sends its clients away on every member; persistent messages come back when it is opened."""
        return self._thread.run(self._inner.close_queue(name))

    def create_alias(self, alias: str, name: str) -> admin.QueueInfo:
        """Gives queue `name` one more name."""
        return self._thread.run(self._inner.create_alias(alias, name))

    def delete_alias(self, alias: str) -> None:
        """Takes such a name away; the queue stays."""
        self._thread.run(self._inner.delete_alias(alias))

    def get_defaults(self, domain: str = "") -> admin.GetDefaultsResponse:
        """What a new queue of the domain gets for what its creator leaves unset."""
        return self._thread.run(self._inner.get_defaults(domain))

    def update_defaults(
        self, config: admin.QueueConfig, fields: Sequence[str], *, domain: str = "", expected_version: int = 0
    ) -> admin.UpdateDefaultsResponse:
        """Changes that, for queues made from now on."""
        return self._thread.run(
            self._inner.update_defaults(config, fields, domain=domain, expected_version=expected_version)
        )

    def purge_queue(self, name: str) -> int:
        """Removes every message that is not leased; how many."""
        return self._thread.run(self._inner.purge_queue(name))

    def restore_queue(
        self, name: str, source: str = "", *, request_id: bytes = b"", timeout: float = RESTORE_TIMEOUT_S
    ) -> admin.RestoreQueueResponse:
        """Puts back what the queue held in `source`, a file in the backup directory of the master's machine."""
        return self._thread.run(self._inner.restore_queue(name, source, request_id=request_id, timeout=timeout))

    # -- finding: see tandemq.client.exporting ---------------------------------------------------------------------

    def find_queue(self, queue: str) -> FullName:
        """The full name of a queue that was exported."""
        return self._thread.run(self._inner.find_queue(queue))

    def export_queue(
        self, queue: str, to: Registry, *, manager: str = "", endpoints: tuple[str, ...] = ()
    ) -> aio.Export:
        """Registers an existing queue under its manager, so that others find it."""
        return self._thread.run(self._inner.export_queue(queue, to, manager=manager, endpoints=endpoints))

    def withdraw_queue(self, queue: str, source: Registry, *, manager: str = "") -> bool:
        """Takes an exported queue out; False when it was not there."""
        return self._thread.run(self._inner.withdraw_queue(queue, source, manager=manager))

    def manager_info(self) -> manager.GetManagerResponse:
        """Versions, limits and totals of the first member that answers."""
        return self._thread.run(self._inner.manager_info())

    def handoff(self, domain: str = "", *, to: str = "", dry_run: bool = False, reason: str = "") -> Handoff:
        """Asks for the mastership of a domain to be moved; see aio.Client.handoff. A refusal is an answer."""
        return self._thread.run(self._inner.handoff(domain, to=to, dry_run=dry_run, reason=reason))

    def pair_status(self) -> list[MemberAnswer]:
        """What every endpoint says of the pair."""
        return self._thread.run(self._inner.pair_status())
