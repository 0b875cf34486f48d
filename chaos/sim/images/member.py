"""One member of a pair for a traced process: the product's own loop, core, session and upkeep on a given store; no
socket, and no watcher but whoever calls `lose`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from failover.authority import MemoryAuthority, MemoryRegisters
from failover.classifier import Answer, EventKind, Verdict
from replica.core.domain import Domain
from replica.core.ports import Settings, ports_of
from replica.core.replication.op_frame import OpFrame
from replica.core.state.calls import Consumer, PendingCall, PendingEnqueue
from replica.core.state.effects import AskVerdict
from replica.core.state.outcomes import EnqueueDone, LeaseDone, QueueDone, SettleDone
from replica.machine import EnqueueCall, Limits, QueueCall, SettleCall, columns_of
from replica.node.loop import Node
from replica.node.maintenance import NO_JOURNAL, Maintenance
from replica.node.recovery import open_shared, recover
from replica.node.writer import WriterThread
from replica.peer.identity import incarnation
from replica.peer.session import Session, held_call
from tandemq.ambient import monotonic_ms
from tandemq.peer.v1.peer_service_pb2 import DomainHello, HeartbeatFrame, Hello, PeerFrame
from tandemq.peer.v1.record_pb2 import QUEUE_ACTION_CREATE
from tandemq.v1.common_pb2 import IndexRange
from tandemq.v1.message_pb2 import MessageBatch
from tandemq.v1.queue_admin_service_pb2 import REPLICATION_FULL, REPLICATION_NONE, QueueConfig
from tandemq.v1.queue_service_pb2 import OUTCOME_ACK, EnqueueBatch, Settlement

if TYPE_CHECKING:
    from replica.core.state.calls import Call
    from replica.core.state.effects import Note, RoleChanged, Salvage
    from replica.node.loop import Salvager
    from storage.store import Store

NAME, NUMBER, QUEUE = "main", 7, "q"
OUTER_S = 120.0
"""By when what must come has come: met by failures alone, however long a disk takes."""
LOOK_S = 0.005
_BIAS_MS = 20
BEAT_S = 0.02


def limits_of(peer: str) -> Limits:
    """Of a member with this peer; none: "" ."""
    return Limits(replication=REPLICATION_FULL if peer else REPLICATION_NONE, domain_name=NAME, dedup_sequences=100)


class Caller:
    """A client's call."""

    def __init__(self) -> None:
        self.cancelled = False
        self.result: asyncio.Future[Any] = asyncio.get_running_loop().create_future()

    def answer(self, result: Any) -> None:
        if not self.result.done():
            self.result.set_result(result)

    deliver = answer


class Pipe:
    """One direction of a stream."""

    def __init__(self) -> None:
        self._frames: asyncio.Queue[object] = asyncio.Queue()

    async def read(self) -> object:
        return await self._frames.get()

    async def write(self, message: Any) -> None:
        kind = PeerFrame if isinstance(message, OpFrame) else type(message)
        await self._frames.put(kind.FromString(message.SerializeToString()))


class End:
    """What one side of a stream reads and writes."""

    def __init__(self, reads: Pipe, writes: Pipe) -> None:
        self.read, self.write = reads.read, writes.write


class KeepsNothing:
    """Nobody looks at what this member cuts."""

    def keep(self, store: Store, number: int, domain: str, salvage: Salvage) -> None:
        """See `replica.node.salvage`."""


class Member:
    """A member that runs, and all that listens to its loop and its sessions."""

    def __init__(
        self, store: Store, name: str, peer: str, registers: MemoryRegisters, salvager: Salvager | None = None
    ) -> None:
        self.name, self.peer, self.store = name, peer, store
        authority = MemoryAuthority(registers, name) if peer else None
        self.node = Node(store, authority, limits_of(peer), self, salvager or KeepsNothing(), WriterThread())
        self._sequence = 0
        self._verdict: Verdict | None = None

    async def start(self) -> None:
        """As `Manager` does."""
        node = self.node
        node.start()
        number = (await incarnation.begin(node, b"")).number
        self._client = f"{self.name} of start {number}".ljust(16).encode()  # a new producer each time
        shared = open_shared(self.store, NUMBER, NAME, self.name, self.peer, number, node.limits)
        self.domain = domain = Domain(
            shared, ports_of(self.store, shared, partial(held_call, member=self.peer)), Settings(bias_ms=_BIAS_MS)
        )
        shared.machine = await recover(self.store, shared)
        node.domains[NUMBER] = domain
        domain.start(monotonic_ms(), node.clock.now_ms())
        node.dispatch(domain)
        self.upkeep = Maintenance(node, domain, NO_JOURNAL)

    async def stop(self) -> None:
        """Its process ends; what nobody was told of may be gone."""
        await self.node.stop()

    def hello(self) -> Hello:
        return Hello(pair="p", member=self.name, domains=[self.domain.hello()])

    # -- what it listens to ----------------------------------------------------------------------------------------

    def on_role(self, _domain: Domain, _change: RoleChanged) -> None:
        """It is said at once."""
        if self.node.outbox_open:
            self.node.send_hello(self.hello())

    def on_stale(self, _domain: Domain) -> None:
        """A frame of a lower epoch is answered."""
        if self.node.outbox_open:
            self.node.send_hello(self.hello())

    def on_note(self, domain: Domain, note: Note) -> None:
        """Nobody reads events."""

    def on_fault(self, text: str) -> None:
        """Nobody reads events."""

    def on_mark(self) -> None:
        """Upkeep comes when it is called."""

    def on_domain_hello(self, domain: Domain, hello: DomainHello) -> None:
        """The register is elsewhere."""

    def on_beat(self, frame: HeartbeatFrame) -> None:
        """Nobody watches."""

    def on_verify(self, domain: Domain, frame: PeerFrame) -> None:
        """Nobody compares."""

    def know(self, hello: Hello) -> None:
        """There is one peer."""

    # -- who is master ---------------------------------------------------------------------------------------------

    def lose(self, verdict: Verdict) -> None:
        """The peer counts as lost, and this is what the classifier says."""
        self._verdict = verdict
        self.domain.on_lost(monotonic_ms(), refused=False)
        self.node.dispatch(self.domain)

    def on_ask(self, domain: Domain, ask: AskVerdict) -> None:
        if self._verdict is not None and ask.kind is not EventKind.DIVERGENCE:
            answer = Answer("event", ask.link_generation, self._verdict, "because", by="driver")
            self.node.spawn(self._rule(domain, answer, ask.kind))

    async def _rule(self, domain: Domain, answer: Answer, kind: EventKind) -> None:
        domain.on_verdict(answer, kind, monotonic_ms())
        self.node.dispatch(domain)

    async def until(self, condition: Callable[[], bool], what: str) -> None:
        """Raises TimeoutError naming what did not come."""
        last = monotonic_ms() + OUTER_S * 1000
        while monotonic_ms() < last:
            if self.node.failed.done():
                raise self.node.failed.result()
            if condition():
                return
            await asyncio.sleep(LOOK_S)
        shared = self.domain.shared
        state = f"{shared.role.name}, {shared.state.data.name}, {shared.link.name}: {shared.last_change}"
        raise TimeoutError(f"member {self.name}: {what} did not come; it is {state}")

    async def until_dead(self) -> None:
        """Its disk has failed it."""
        await self.node.failed
        await self.node.stop()

    async def until_serving(self) -> None:
        await self.until(lambda: self.domain.mastership.commit.can_commit, "the mastership")

    # -- clients ---------------------------------------------------------------------------------------------------

    async def _ask(self, caller: Caller, call: Call, expected: type) -> Any:
        self.domain.submit(call, self.node.clock.now_ms())
        self.node.dispatch(self.domain)
        async with asyncio.timeout(OUTER_S):
            result = await caller.result
        if not isinstance(result, expected):
            raise RuntimeError(f"member {self.name} answers {result}")
        return result

    async def create(self) -> None:
        caller = Caller()
        members = sorted({self.name, self.peer} - {""})
        call = PendingCall(
            caller, QueueCall(QUEUE_ACTION_CREATE, QUEUE, QueueConfig(), members=members, open_members=members)
        )
        await self._ask(caller, call, QueueDone)

    def enqueue_soon(self, sizes: Sequence[int]) -> Caller:
        """One batch, whose answer may never come."""
        caller = Caller()
        payloads = [(b"%d/%d " % (self._sequence, at) * size)[:size] for at, size in enumerate(sizes)]
        batch = EnqueueBatch(queue=QUEUE, first_sequence=self._sequence + 1, messages=MessageBatch(payloads=payloads))
        call = PendingEnqueue(
            caller,
            EnqueueCall(QUEUE, self._client, self._sequence + 1, columns_of(batch), self.name),
            batch.SerializeToString(),
        )
        self._sequence += len(sizes)
        self.domain.submit(call, self.node.clock.now_ms())
        self.node.dispatch(self.domain)
        return caller

    async def enqueue(self, sizes: Sequence[int]) -> None:
        async with asyncio.timeout(OUTER_S):
            result = await self.enqueue_soon(sizes).result
        if not isinstance(result, EnqueueDone):
            raise RuntimeError(f"member {self.name} answers {result}")

    async def consume(self, count: int) -> None:
        """Lease that many, at most, and acknowledge all of them but the last."""
        caller = Caller()
        consumer = Consumer(
            caller, QUEUE, b"consumer" * 2, 0,
            immediate=True, credit_messages=count, credit_bytes=1 << 30, one_shot=True, member=self.name,
        )  # fmt: skip
        self.domain.attach(consumer, self.node.clock.now_ms())
        self.node.dispatch(self.domain)
        async with asyncio.timeout(OUTER_S):
            lease = await caller.result
        if not isinstance(lease, LeaseDone):
            raise RuntimeError(f"member {self.name} answers {lease}")
        indexes = [part.first_index + at for part in lease.slices for at in range(part.count)]
        settler = Caller()
        ranges = [IndexRange(first=index, count=1) for index in indexes[:-1]]
        settlements = [Settlement(lease_id=lease.lease_id, ranges=ranges, outcome=OUTCOME_ACK)]
        await self._ask(settler, PendingCall(settler, SettleCall(QUEUE, settlements)), SettleDone)

    async def tidy(self) -> None:
        """A checkpoint, and all records gone that need not stay."""
        self.upkeep.mark()
        await self.upkeep.checkpoint()
        await self.upkeep._trim()  # noqa: SLF001  # its turn is a second


def _session(member: Member, data: End, beat: End, transfer: End) -> Session:
    return Session(member.node, data, beat, transfer, member, member.know, heartbeat_s=BEAT_S)


class Connection:
    """Both ends of a session, in one process."""

    def __init__(self, one: Member, other: Member) -> None:
        pipes = [(Pipe(), Pipe()) for _ in range(3)]
        self._ends = [
            _session(one, *(End(back, forth) for forth, back in pipes)),
            _session(other, *(End(forth, back) for forth, back in pipes)),
        ]
        hellos = one.hello(), other.hello()
        self._runs = [
            asyncio.ensure_future(self._ends[0].run(hellos[1])),
            asyncio.ensure_future(self._ends[1].run(hellos[0])),
        ]

    async def close(self) -> None:
        for end in self._ends:
            end.close("cut")
        await asyncio.gather(*self._runs)


def as_store(store: object) -> Store:
    """For a wrapper that hands on what it does not know."""
    return cast("Store", store)
