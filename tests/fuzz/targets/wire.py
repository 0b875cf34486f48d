"""Any bytes at any method of a real manager: a reply of its kind or a typed refusal, and a core that still adds up."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
from google.protobuf import message_factory
from google.protobuf.message import Message
from google.rpc import error_details_pb2, status_pb2

from failover.marks import DataMark
from failover.register import Register, RegisterState
from replica.core.state.durable import DomainState, state_key
from replica.core.state.log import DomainLog
from replica.node.members import domain_number
from replica.node.recovery import StoreReader, rebuild
from storage.records import ZERO_DIGEST
from storage.store import Append, WriteBatch
from tandemq.errors import DETAILS_KEY, RULES
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import (
    batch_service_pb2,
    journal_service_pb2,
    manager_admin_service_pb2,
    message_pb2,
    pair_service_pb2,
    queue_admin_service_pb2,
    queue_service_pb2,
    reaction_service_pb2,
    stage_service_pb2,
    transaction_service_pb2,
    weights_service_pb2,
)
from tests.fuzz.loop import pass_time
from tests.fuzz.messages import as_bytes, fill
from tests.fuzz.source import Source
from tests.fuzz.world import AbortedError, Context, World

CALLS_MAX = 25
CALL_S = 1.0
FILES = (
    queue_service_pb2,
    queue_admin_service_pb2,
    manager_admin_service_pb2,
    pair_service_pb2,
    transaction_service_pb2,
    reaction_service_pb2,
    stage_service_pb2,
    batch_service_pb2,
    journal_service_pb2,
    weights_service_pb2,
)
METHODS = [
    method for file in FILES for service in file.DESCRIPTOR.services_by_name.values() for method in service.methods
]
QUEUE_METHODS = [method for method in METHODS if method.containing_service.name == "QueueService"]
SETTLED = ("Settle", "Dequeue", "Enqueue", "Produce", "Consume", "CreateQueue")
OFTEN = [method for method in METHODS if method.name in SETTLED]
IN_UNITS = [
    method for method in METHODS if method.name in ("Begin", "Transact", "Commit", "Rollback", "React", *SETTLED[:3])
]
QUEUES = ("q", "q", "r", "own")
FACES = ("unpaired", "solo", "probe")


def one(data: bytes) -> None:
    source = Source(data)
    face = source.pick(FACES)
    world = World(paired=face != "unpaired")
    if face == "solo":
        pair_of_one(world)
    world.run(lambda at: _story(at, source, face))


def pair_of_one(world: World) -> None:
    """A disk and a register of a pair that was in step: with its peer gone, this member goes on alone."""
    number = domain_number("main")
    log = DomainLog(
        number, base_index=0, base_digest=ZERO_DIGEST, base_epoch=0, reader=StoreReader(world.store, number)
    )
    role = record_pb2.RoleOp(owner="a", in_sync_set=["a", "b"])
    entry = log.build(record_pb2.RecordHeader(time_ms=1, role=role), b"", 1, volatile_body=False, held=None)
    state = DomainState("main", epoch=1, owner="a", data=DataMark.IN_SYNC, in_sync_set=["a", "b"], history=[(1, 1)])
    world.store.commit(WriteBatch(appends=[Append(number, 1, entry.stored)], meta={state_key(number): state.encode()}))
    both = frozenset({"a", "b"})
    world.registers._registers["main"] = Register(2, 1, "a", both, both, RegisterState.COMMITTED, b"n")


class Story:
    """The calls of one input, one after another and beside each other."""

    def __init__(self, world: World, source: Source) -> None:
        self.world, self.source = world, source
        self.leases = [1, (1 << 64) - 1]
        self.units = [b""]
        self.under_way: list[asyncio.Task[None]] = []
        self.hints = {
            "queue": lambda source: source.pick(QUEUES),
            "name": lambda source: source.pick(QUEUES),
            "request_id": lambda source: bytes([source.byte() % 8]) * 16,
            "client_id": lambda source: source.pick((b"one", b"two", b"x" * 64)),
            "first_sequence": lambda source: source.number(1, 8),
            "lease_id": lambda source: source.pick(self.leases),
            "last_lease_id": lambda source: source.pick(self.leases),
            "first": lambda source: source.u64(1),
            "count": lambda source: source.u64(1),
            "epoch": lambda _source: 0,
            "unit_id": lambda source: source.pick(self.units),
            "writer": lambda source: source.pick(("", "", "w")),
            "number": lambda source: source.number(0, 8),
            "after": lambda source: source.number(0, 8),
            "query_id": lambda _source: "",
            "forwarder": lambda _source: "",
            "domain": lambda _source: "",
            "min_copies": lambda source: source.number(0, 2),
            "priorities": lambda source: source.number(0, 9),
            "persistence": lambda source: source.number(0, 2),
            "replication": lambda source: source.number(0, 3),
            "ttls_ms": lambda source: source.pick((0, 20, 1 << 40, (1 << 64) - 1)),
            "payload": lambda source: source.blob(),
            "payloads": lambda source: source.blob(),
            # A field that is filled at random refuses nearly every call: what comes after would never be met.
            "config": lambda _source: queue_admin_service_pb2.QueueConfig(),
            "filter": lambda _source: message_pb2.MessageFilter(),
            "configuring": lambda _source: False,
            "deliver_at": lambda _source: None,
            "deliver_at_ms": lambda _source: None,
            "delays_ms": lambda _source: None,
        }

    def request(self, kind: Any) -> bytes:
        if self.source.rarely():
            return self.source.blob(200)
        return as_bytes(self.source, fill(self.source, kind, self.hints))

    async def step(self) -> None:
        source = self.source
        choice = source.byte() % 16
        if choice == 15:
            await pass_time(source.pick((0.03, 0.03, 0.5, 5.0)))
            return
        method = source.pick(
            OFTEN if choice < 6 else QUEUE_METHODS if choice < 8 else IN_UNITS if choice < 11 else METHODS
        )
        frames = source.number(1, 5) if method.client_streaming else 1
        requests = [self.request(method.input_type) for _ in range(frames)]
        if "open" in method.input_type.fields_by_name and not source.rarely():
            requests[0] = self.opening(method.input_type)
        task = asyncio.create_task(self.call(method, requests))
        if choice % 3:
            await asyncio.wait({task}, timeout=CALL_S)
        else:
            await pass_time(0)
        self.under_way.append(task)
        if task.done():
            self.raise_failures()

    def opening(self, kind: Any) -> bytes:
        first: Any = message_factory.GetMessageClass(kind)()
        opened = kind.fields_by_name["open"].message_type
        first.open.CopyFrom(fill(self.source, opened, self.hints))
        data: bytes = first.SerializeToString()
        return data

    async def call(self, method: Any, requests: list[bytes]) -> None:
        """As grpc would make it; the answer is looked at, or the refusal."""
        handler: Any = self.world.handler(f"/{method.containing_service.full_name}/{method.name}")
        kind = message_factory.GetMessageClass(method.output_type)
        context = Context([*requests[1:], grpc.aio.EOF] if method.client_streaming else (), seconds=CALL_S)
        if method.client_streaming:
            context = Context([*requests, *([grpc.aio.EOF] if self.source.flag() else [])], seconds=CALL_S)
        behaviour = next(
            found
            for found in (handler.unary_unary, handler.unary_stream, handler.stream_unary, handler.stream_stream)
            if found is not None
        )
        first: Any = None if method.client_streaming else requests[0]
        try:
            async with asyncio.timeout(CALL_S):
                replied = await behaviour(first, context)
        except AbortedError as refused:
            check_refusal(refused, f"{method.name}")
            replied = None
        except TimeoutError:
            replied = None
        for reply in [*context.written, *([replied] if isinstance(replied, bytes) else [])]:
            self.look(kind.FromString(reply))

    def look(self, reply: Message) -> None:
        """Remembers what a client would use again."""
        anything: Any = reply
        names = reply.DESCRIPTOR.fields_by_name
        if "lease_id" in names and anything.lease_id:
            self.leases.append(anything.lease_id)
        if "deliveries" in names and anything.deliveries.lease_id:
            self.leases.append(anything.deliveries.lease_id)
        if "unit_id" in names and anything.unit_id:
            self.units.append(anything.unit_id)
        if "begun" in names and anything.begun.unit_id:
            self.units.append(anything.begun.unit_id)

    def raise_failures(self) -> None:
        for task in [task for task in self.under_way if task.done()]:
            self.under_way.remove(task)
            if not task.cancelled():
                task.result()

    async def end(self) -> None:
        if self.under_way:
            await asyncio.wait(self.under_way, timeout=2 * CALL_S)
        assert all(task.done() for task in self.under_way), "a call outlives its deadline"
        self.raise_failures()


def check_refusal(refused: AbortedError, method: str) -> None:
    """A status, our reason, and words."""
    assert refused.text, f"{method} is refused without a word"
    assert refused.code not in (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL), f"{method}: {refused}"
    details = dict(refused.trailers).get(DETAILS_KEY)
    if details is None:
        return  # the words of another member, or of grpc, passed on
    status, info = status_pb2.Status.FromString(details), error_details_pb2.ErrorInfo()
    status.details[0].Unpack(info)
    assert info.reason in RULES, f"{method}: reason {info.reason!r}"
    assert info.reason not in ("UNSPECIFIED", "INTERNAL"), f"{method}: {refused}"


async def _story(world: World, source: Source, face: str) -> None:
    await pass_time(0.1 if face != "solo" else 6.0)  # alone it waits for its peer first (failover.meet_ms)
    main = world.members.by_name["main"]
    assert main.shared.serving == (face != "probe"), f"{face} is {main.shared.role}: {main.shared.last_change}"
    story = Story(world, source)
    for name, attributes in (
        ("q", {"reactions_enabled": True}),
        ("own", {"replication": queue_admin_service_pb2.REPLICATION_NONE}),
    ):
        if face == "probe" and name == "q":
            continue
        config = queue_admin_service_pb2.QueueConfig(**attributes)
        request = queue_admin_service_pb2.CreateQueueRequest(name=name, config=config, request_id=name.encode() * 16)
        request.request_id = request.request_id[:16]
        await story.call(_method("CreateQueue"), [request.SerializeToString()])
    for _ in range(CALLS_MAX):
        if not source.more:
            break
        await story.step()
        world.check_alive()
    await story.end()
    await check_core(world)


def _method(name: str) -> Any:
    return next(method for method in METHODS if method.name == name)


async def check_core(world: World) -> None:
    """The state is the fold of the log; counts add up; nothing that is gone is still counted."""
    await world.node.flush()
    for domain in world.node.domains.values():
        machine = domain.shared.machine
        assert machine is not None
        again = await rebuild(world.store, domain.shared, domain.shared.log.last_index)
        assert again.digest() == machine.digest(), f"domain {domain.shared.name}: the state is not the fold of the log"
        for name in machine.names():
            info = machine.queue_info(name, "a")
            number = machine.queue_id(name)
            assert number is not None
            queue = machine.queue(number)
            assert info.leased == sum(lease.ranges.size for lease in queue.leases.values())
            if domain.shared.progress.commit_index == domain.shared.log.last_index:
                assert info.length == sum(part.count for part in machine.browse(number, 0, 0))
