"""How each refusal of the contract is provoked: what is called, what is typed, and what must be there before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from chaos.cluster import Cluster
from storage.backup import MAGIC
from tandemq.config import Limits
from tandemq.v1 import journal_service_pb2 as journal
from tandemq.v1 import journal_service_pb2_grpc
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as service
from tandemq.v1.common_pb2 import Error
from tests.integration.support import Raw, new_id, raw_to
from tests.support.until import OUTER_S

VOLATILE_BYTES = 1 << 20
WAITERS, WINDOW = 10_000, 250  # of one queue; batches that one stream sends ahead
SOON = Limits(park_ms=300)
TWO_WAY = admin.QUEUE_TYPE_TWO_WAY


@dataclass
class World:
    """What the rows act on. Each row has a queue of its own."""

    pair: Cluster
    suspended: Cluster
    lone: Cluster
    folder: Path
    raw: Raw = field(init=False)
    other: Raw = field(init=False)
    queue: str = field(init=False)
    held: list[Any] = field(init=False)
    """Calls that stay open until the row is done."""

    @property
    def target(self) -> str:
        return self.pair.endpoint("a")

    def file(self, name: str, content: bytes) -> str:
        path = self.folder / name
        path.write_bytes(content)
        return str(path)

    async def create(self, **config: Any) -> None:
        await self.raw.create(self.queue, **config)


Call = Callable[[World], Awaitable[Error | None]]
Command = Callable[[World], Sequence[str]]


@dataclass(frozen=True)
class Row:
    """How a reason is provoked. The call raises, or returns the refusal that stands in a frame or a result."""

    call: Call | str
    """Or why no server says it."""
    command: Command | str
    """Or why no command can meet it."""
    says: tuple[str, ...] = ()
    """Words of the message beside the queue's name."""
    prepare: Callable[[World], Awaitable[None]] = World.create
    exit_code: int = 1
    names_queue: bool = True


@dataclass(frozen=True)
class Elsewhere:
    """Why a reason has no row, and the test that proves it where it arises."""

    why: str
    test: str


async def nothing(_: World) -> None:
    """No preparation."""


def created(**config: Any) -> Callable[[World], Awaitable[None]]:
    return lambda at: at.create(**config)


def command(*words: str) -> Command:
    """{q} is the row's queue."""
    return lambda at: [word.format(q=at.queue, folder=at.folder) for word in words]


async def sent(at: World, *payloads: bytes, **fields: Any) -> Error | None:
    """A message, or the refusal of the first one."""
    answer = await at.raw.send(at.queue, *(payloads or (b"x",)), **fields)
    return answer.results[0].error if answer.results[0].HasField("error") else None


def sends(**fields: Any) -> Call:
    return lambda at: sent(at, **fields)


async def full(at: World) -> None:
    await at.create(max_length=1)
    await at.raw.send(at.queue, b"x")


async def received(at: World, **fields: Any) -> None:
    await at.raw.receive(at.queue, **fields)


def receives(**fields: Any) -> Call:
    return lambda at: received(at, **fields)


async def updated(at: World, config: dict[str, Any], path: str, **fields: Any) -> None:
    request = admin.UpdateQueueRequest(
        name=at.queue, request_id=new_id(), config=config, update_mask={"paths": [path]}, **fields
    )
    await at.raw.admin.UpdateQueue(request, timeout=OUTER_S)


async def made(at: World, name: str = "", **config: Any) -> None:
    await at.raw.create(name or at.queue, **config)


async def described(at: World, raw: Raw | None = None) -> None:
    """Without a deadline: how long a member waits for a master is its own matter."""
    await (raw or at.raw).admin.GetQueue(admin.GetQueueRequest(name=at.queue))


async def described_at(cluster: str, member: str, at: World) -> None:
    async with raw_to(getattr(at, cluster).endpoint(member)) as [raw]:
        await described(at, raw)


async def aliased(at: World) -> None:
    request = admin.CreateAliasRequest(alias=at.queue, name=f"{at.queue}.other", request_id=new_id())
    await at.raw.admin.CreateAlias(request, timeout=OUTER_S)


async def with_alias(at: World) -> None:
    await at.raw.create(f"{at.queue}.other")
    await aliased(at)


async def opened(at: World) -> None:
    await at.raw.admin.OpenQueue(admin.OpenQueueRequest(name=at.queue, request_id=new_id()), timeout=OUTER_S)


async def opened_as_master(at: World) -> None:
    request = admin.OpenReplicatedQueueRequest(name=at.queue, request_id=new_id(), master_required=True)
    await at.other.admin.OpenReplicatedQueue(request, timeout=OUTER_S)


async def opened_alone(at: World) -> None:
    async with raw_to(at.lone.endpoint("b")) as [raw]:
        request = admin.OpenReplicatedQueueRequest(name=at.queue, request_id=new_id())
        await raw.admin.OpenReplicatedQueue(request)


async def deleted_if_empty(at: World) -> None:
    request = admin.DeleteQueueRequest(name=at.queue, request_id=new_id(), if_empty=True)
    await at.raw.admin.DeleteQueue(request, timeout=OUTER_S)


async def with_message(at: World, **config: Any) -> None:
    await at.create(**config)
    await at.raw.send(at.queue, b"x")


async def with_own(at: World) -> None:
    """Beside a queue of the pair, one of this member alone."""
    await with_message(at)
    await at.raw.create(f"{at.queue}.own", replication=admin.REPLICATION_NONE)


async def moved_elsewhere(at: World) -> None:
    request = admin.MoveMessagesRequest(name=at.queue, to=f"{at.queue}.own", request_id=new_id())
    await at.raw.admin.MoveMessages(request, timeout=OUTER_S)


async def leased(at: World) -> None:
    """A request that somebody has."""
    await with_message(at, queue_type=TWO_WAY)
    await at.raw.send(at.queue, b"another request")
    at.held.append(await at.raw.receive(at.queue))


async def answered(at: World) -> None:
    await leased(at)
    await replied(at, at.held[0].lease_id)


async def replied(at: World, lease_id: int = 1, payload: bytes = b"answer") -> None:
    request = service.ReplyRequest(
        queue=at.queue, request_id=new_id(), lease_id=lease_id, index=1, message={"payload": payload}
    )
    await at.raw.queue.Reply(request, timeout=OUTER_S)


async def replied_again(at: World) -> None:
    await replied(at, at.held[0].lease_id, b"another answer")


def replies_again(at: World) -> list[str]:
    return ["msg", "reply", at.queue, "a third", "--lease-id", str(at.held[0].lease_id), "--index", "1"]


async def acked(at: World, lease_id: int = 0) -> Error | None:
    got = service.DequeueResponse(lease_id=lease_id or at.held[0].lease_id, messages=[{"index": 1}])
    result = (await at.raw.ack(at.queue, got)).results[0]
    return result.error if result.HasField("error") else None


async def asked(at: World) -> Error | None:
    request = service.CheckCompletionRequest(queue=at.queue, handles=[bytes(16)])
    return (await at.raw.queue.CheckCompletion(request, timeout=OUTER_S)).statuses[0].error


async def sent_twice(at: World) -> None:
    request_id = new_id()
    for payload in (b"one", b"another"):
        await at.raw.send(at.queue, payload, request_id=request_id)


async def journal_read(at: World, log_index: int, epoch: int) -> None:
    """At the master, which has all of it."""
    selection = {"position": {"log_index": log_index, "epoch": epoch}}
    stub: Any = journal_service_pb2_grpc.JournalServiceStub(at.raw.channel)
    await stub.ReadJournalPage(journal.ReadJournalPageRequest(selection=selection), timeout=OUTER_S)


def row_of_place(log_index: int, epoch: int, *says: str) -> Row:
    words = command("queue", "journal", "--from-log-index", f"{log_index}:{epoch}")
    return Row(partial(journal_read, log_index=log_index, epoch=epoch), words, says, names_queue=False)


async def sent_from_epoch(at: World) -> None:
    await at.raw.send(at.queue, b"x", epoch=1_000)


async def streamed(at: World, *sequences: int) -> Error | None:
    """Batches with these first sequences; how the last one was refused."""
    call = at.raw.queue.Produce(timeout=OUTER_S)
    await call.write(service.ProduceRequest(open={"client_id": at.queue.encode(), "queue": at.queue}))
    await call.read()
    frame = service.ProduceResponse()
    for sequence in sequences:
        batch = service.EnqueueBatch(queue=at.queue, first_sequence=sequence, messages={"payloads": [b"x"]})
        await call.write(service.ProduceRequest(batch=batch))
        frame = await call.read()
    call.cancel()
    return frame.reject.error


async def consumed(at: World) -> None:
    """As many consumers as may be."""
    await at.create(max_consumers=1)
    at.held.append(at.raw.queue.Consume(timeout=OUTER_S * 4))
    await at.held[0].write(service.ConsumeRequest(open={"client_id": b"first", "queue": at.queue}))
    await at.held[0].read()


async def many_wait(at: World) -> None:
    """As many as may, each with a batch of its own."""
    await full(at)
    for number in range(WAITERS // WINDOW):
        call = at.raw.queue.Produce(timeout=OUTER_S * 4)
        opening = {"client_id": b"%d" % number, "queue": at.queue, "full_wait": {"seconds": 60}}
        await call.write(service.ProduceRequest(open=opening))
        await call.read()
        for sequence in range(1, WINDOW + 1):
            batch = service.EnqueueBatch(queue=at.queue, first_sequence=sequence, messages={"payloads": [b"x"]})
            await call.write(service.ProduceRequest(batch=batch))
        at.held.append(call)
    request = admin.GetQueueRequest(name=at.queue)
    while (await at.raw.admin.GetQueue(request, timeout=OUTER_S)).queue.waiters < WAITERS:
        pass  # each call waits for its answer


async def volatile_ones(at: World) -> None:
    await at.raw.send(at.queue, *[bytes(VOLATILE_BYTES // 3)] * 4)


def refilled(at: World) -> list[str]:
    return ["msg", "send", at.queue, "--body-file", at.file("big", bytes(VOLATILE_BYTES))]


def damaged(at: World) -> list[str]:
    return ["backup", "verify", at.file("damaged.tqb", b"no backup at all")]


def newer(at: World) -> list[str]:
    return ["backup", "verify", at.file("newer.tqb", MAGIC + b"\xfe")]


def exported_elsewhere(at: World) -> list[str]:
    text = f'[managers.theirs]\nendpoints = ["127.0.0.1:1"]\n[queues."{at.queue}"]\nmanager = "theirs"\n'
    return ["queue", "export", at.queue, "--to", at.file("registry.toml", text.encode()), "--as", "ours"]


def dead_name(at: World) -> list[str]:
    at.file("site.toml", b'[[resolvers]]\nkind = "ldap"\nurl = "ldap://127.0.0.1:1"\nbase = "dc=x"\n')
    return ["queue", "info", "//silent/q", "--timeout", "1s"]


def same_directory(at: World) -> list[str]:
    return ["serve", "--config", str(at.pair.config_file("a"))]


def same_ports(at: World) -> list[str]:
    return [*same_directory(at), "--data-dir", str(at.folder / "another")]


def another_pair(at: World) -> list[str]:
    text = at.suspended.config_file("b").read_text(encoding="utf-8").replace('"pair"', '"other"')
    return ["serve", "--config", at.file("other.toml", text.encode())]
