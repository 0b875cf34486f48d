"""Every reason of the contract, through gRPC and through the command line: the status, the exit code, and words that
say what, where and what to do. One row a reason; a reason without a row or a place where it is proven instead fails.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from click.testing import CliRunner

from chaos.cluster import Cluster
from storage.backup import MAGIC
from tandemq.cli import root
from tandemq.cli.session import GENERAL_STEPS, NEXT_STEPS
from tandemq.config import Failover, Limits
from tandemq.errors import status_for, to_error
from tandemq.v1 import journal_service_pb2 as journal
from tandemq.v1 import journal_service_pb2_grpc
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as service
from tandemq.v1.common_pb2 import Error, Reason
from tests.integration.support import CALL_S, Raw, check_refusal, configured, gone, new_id, new_name, raw_to

pytestmark = pytest.mark.process

REPOSITORY = Path(__file__).resolve().parents[2]
VOLATILE_BYTES = 1 << 20
WAITERS, WINDOW = 10_000, 250  # of one queue; batches that one stream sends ahead
SOON = Limits(park_ms=300)
TWO_WAY = admin.QUEUE_TYPE_TWO_WAY

# -- the world: a pair, a master without its peer, and a member that never met its peer --------------------------------


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


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("reasons")
    limits = Limits(volatile_bytes=VOLATILE_BYTES)
    pair = Cluster(folder / "pair", limits=limits)
    asyncio.run(pair.start())
    suspended = Cluster(folder / "suspended", witnessed=False, limits=SOON, failover=Failover(classifier="suspend"))
    asyncio.run(suspended.start())
    asyncio.run(gone(suspended, "b"))
    lone = configured(folder / "lone", witnessed=False, limits=SOON)
    lone.spawn("b")
    asyncio.run(lone.wait_answers("b"))
    try:
        for name in ("host.toml", "site.toml"):
            (folder / name).touch()
        yield World(pair, suspended, lone, folder)
    finally:
        for cluster in (pair, suspended, lone):
            asyncio.run(cluster.stop())


# -- rows --------------------------------------------------------------------------------------------------------------

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
    await at.raw.admin.UpdateQueue(request, timeout=CALL_S)


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
    await at.raw.admin.CreateAlias(request, timeout=CALL_S)


async def with_alias(at: World) -> None:
    await at.raw.create(f"{at.queue}.other")
    await aliased(at)


async def opened(at: World) -> None:
    await at.raw.admin.OpenQueue(admin.OpenQueueRequest(name=at.queue, request_id=new_id()), timeout=CALL_S)


async def opened_as_master(at: World) -> None:
    request = admin.OpenReplicatedQueueRequest(name=at.queue, request_id=new_id(), master_required=True)
    await at.other.admin.OpenReplicatedQueue(request, timeout=CALL_S)


async def opened_alone(at: World) -> None:
    async with raw_to(at.lone.endpoint("b")) as [raw]:
        request = admin.OpenReplicatedQueueRequest(name=at.queue, request_id=new_id())
        await raw.admin.OpenReplicatedQueue(request)


async def deleted_if_empty(at: World) -> None:
    request = admin.DeleteQueueRequest(name=at.queue, request_id=new_id(), if_empty=True)
    await at.raw.admin.DeleteQueue(request, timeout=CALL_S)


async def with_message(at: World, **config: Any) -> None:
    await at.create(**config)
    await at.raw.send(at.queue, b"x")


async def with_own(at: World) -> None:
    """Beside a queue of the pair, one of this member alone."""
    await with_message(at)
    await at.raw.create(f"{at.queue}.own", replication=admin.REPLICATION_NONE)


async def moved_elsewhere(at: World) -> None:
    request = admin.MoveMessagesRequest(name=at.queue, to=f"{at.queue}.own", request_id=new_id())
    await at.raw.admin.MoveMessages(request, timeout=CALL_S)


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
    await at.raw.queue.Reply(request, timeout=CALL_S)


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
    return (await at.raw.queue.CheckCompletion(request, timeout=CALL_S)).statuses[0].error


async def sent_twice(at: World) -> None:
    request_id = new_id()
    for payload in (b"one", b"another"):
        await at.raw.send(at.queue, payload, request_id=request_id)


async def journal_read(at: World, log_index: int, epoch: int) -> None:
    """At the master, which has all of it."""
    selection = {"position": {"log_index": log_index, "epoch": epoch}}
    stub: Any = journal_service_pb2_grpc.JournalServiceStub(at.raw.channel)
    await stub.ReadJournalPage(journal.ReadJournalPageRequest(selection=selection), timeout=CALL_S)


def row_of_place(log_index: int, epoch: int, *says: str) -> Row:
    words = command("queue", "journal", "--from-log-index", f"{log_index}:{epoch}")
    return Row(partial(journal_read, log_index=log_index, epoch=epoch), words, says, names_queue=False)


async def sent_from_epoch(at: World) -> None:
    await at.raw.send(at.queue, b"x", epoch=1_000)


async def streamed(at: World, *sequences: int) -> Error | None:
    """Batches with these first sequences; how the last one was refused."""
    call = at.raw.queue.Produce(timeout=CALL_S)
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
    at.held.append(at.raw.queue.Consume(timeout=CALL_S * 4))
    await at.held[0].write(service.ConsumeRequest(open={"client_id": b"first", "queue": at.queue}))
    await at.held[0].read()


async def many_wait(at: World) -> None:
    """As many as may, each with a batch of its own."""
    await full(at)
    for number in range(WAITERS // WINDOW):
        call = at.raw.queue.Produce(timeout=CALL_S * 4)
        opening = {"client_id": b"%d" % number, "queue": at.queue, "full_wait": {"seconds": 60}}
        await call.write(service.ProduceRequest(open=opening))
        await call.read()
        for sequence in range(1, WINDOW + 1):
            batch = service.EnqueueBatch(queue=at.queue, first_sequence=sequence, messages={"payloads": [b"x"]})
            await call.write(service.ProduceRequest(batch=batch))
        at.held.append(call)
    request = admin.GetQueueRequest(name=at.queue)
    while (await at.raw.admin.GetQueue(request, timeout=CALL_S)).queue.waiters < WAITERS:
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


OWN_IDENTITY = "the client chooses ids and sequences itself, and repeats them as they were"
AT_START = "no server runs: it is said at the start"
IN_CLIENT = "the client finds it out before it asks a server"

ROWS: dict[str, Row | Elsewhere] = {
    "UNSPECIFIED": Elsewhere("stands for a newer server's word", "tests/unit/client/test_errors.py"),
    "QUEUE_NOT_FOUND": Row(described, command("queue", "info", "{q}"), ("create it",), nothing),
    "MANAGER_NOT_FOUND": Row(
        IN_CLIENT, command("queue", "info", "//nobody/q"), ("nobody",), nothing, names_queue=False
    ),
    "MESSAGE_NOT_FOUND": Elsewhere("of moves whose bodies are gone", "tests/unit/replica/test_sweeps.py"),
    "INVALID_HANDLE": Row(
        asked, command("msg", "completion", "{q}", "0" * 32), ("completion_retention",), names_queue=False
    ),
    "QUEUE_EXISTS": Row(made, command("queue", "create", "{q}", "--max-length", "7"), ("exists",)),
    "E_MASTER_EXISTS": Row(
        opened_as_master, "no command opens one member's instance", ("without MASTER_REQUIRED",), names_queue=False
    ),
    "INVALID_STATE": Row(opened, command("queue", "open", "{q}"), ("open already",)),
    "ENQUEUE_DISABLED": Row(
        sends(), command("msg", "send", "{q}", "x"), ("enqueue_enabled",), created(enqueue_enabled=False)
    ),
    "DEQUEUE_DISABLED": Row(
        receives(), command("msg", "receive", "{q}"), ("dequeue_enabled",), created(dequeue_enabled=False)
    ),
    "CONFIG_MISMATCH": Row(IN_CLIENT, exported_elsewhere, ("theirs", "ours")),
    "CONFIG_ERROR": Row(
        partial(made, domain="nowhere"),
        command("queue", "create", "{q}", "--domain", "nowhere"),
        ("nowhere", "[manager] domains"),
        nothing,
        names_queue=False,
    ),
    "LEASE_LOST": Row(
        lambda at: replied(at, at.held[0].lease_id + 1),
        lambda at: [*replies_again(at)[:5], str(at.held[0].lease_id + 1), "--index", "1"],
        ("receive it again",),
        leased,
    ),
    "CROSS_DOMAIN": Row(
        moved_elsewhere, command("queue", "move", "{q}", "{q}.own"), ("within one domain",), with_own, names_queue=False
    ),
    "NOT_EMPTY": Row(
        deleted_if_empty, command("queue", "rm", "{q}", "--if-empty", "--yes"), ("1 message",), with_message
    ),
    "VERSION_MISMATCH": Row(
        partial(updated, config={"annotation": "x"}, path="annotation", expected_version=7),
        command("queue", "update", "{q}", "--annotation", "x", "--expected-version", "7"),
        ("version 1, not 7", "read it again"),
    ),
    "MESSAGE_TOO_LARGE": Row(
        lambda at: sent(at, b"hello"),
        command("msg", "send", "{q}", "hello"),
        ("max_message_bytes",),
        created(max_message_bytes=4),
    ),
    "BAD_NAME": Row(
        partial(made, name="a b"), command("queue", "create", "a b"), ("'a b'", "segments"), nothing, names_queue=False
    ),
    "BAD_ATTRIBUTE": Row(
        partial(made, max_length=0),
        command("queue", "create", "{q}", "--max-length", "0"),
        ("max_length must be at least 1",),
        nothing,
        names_queue=False,
    ),
    "READ_ONLY": Row(
        partial(updated, config={"queue_type": TWO_WAY}, path="queue_type"),
        command("queue", "update", "{q}", "--queue-type", "two_way"),
        ("queue_type",),
        names_queue=False,
    ),
    "BAD_REQUEST": Row(
        receives(lease_duration={"seconds": 90_000}),
        command("msg", "receive", "{q}", "--lease", "25h"),
        ("lease_duration", "43200"),
        names_queue=False,
    ),
    "QUEUE_FULL": Row(sends(), command("msg", "send", "{q}", "x"), ("max_length", "consume"), full),
    "QUOTA_EXCEEDED": Row(receives(), command("msg", "receive", "{q}"), ("max_consumers",), consumed),
    "STORAGE_FULL": Row(
        volatile_ones,
        refilled,
        ("volatile_bytes", "consume"),
        created(persistence=admin.PERSISTENCE_VOLATILE),
        names_queue=False,
    ),
    "TOO_MANY_WAITERS": Row(
        sends(wait={"seconds": 5}),
        command("msg", "send", "{q}", "x", "--wait", "5s"),
        ("10000", "repeat it later"),
        many_wait,
    ),
    "STALE_EPOCH": Row(sent_from_epoch, OWN_IDENTITY, ("1000", "repeat the call"), names_queue=False),
    "NO_MASTER": Row(
        partial(described_at, "lone", "b"),
        lambda at: ["queue", "info", at.queue, "--timeout", "1s", "--target", at.lone.endpoint("b")],
        ("no master in domain main", "repeat"),
        nothing,
        names_queue=False,
    ),
    "SYNCING": Row(
        opened_alone, "no command opens one member's instance", ("not synchronised",), nothing, names_queue=False
    ),
    "DRAINING": Elsewhere("said to a peer by a member in maintenance", "tests/unit/replica/test_link.py"),
    "SUSPENDED": Row(
        partial(described_at, "suspended", "a"),
        lambda at: ["queue", "info", at.queue, "--timeout", "1s", "--target", at.suspended.endpoint("a")],
        ("lost its peer", "repeat"),
        nothing,
        names_queue=False,
    ),
    "NOT_MASTER": Elsewhere("ends a stream whose master moved", "tests/integration/test_pair.py"),
    "NOT_ENOUGH_COPIES": Row(
        sends(min_copies=2),
        command("msg", "send", "{q}", "x", "--min-copies", "2"),
        ("2 are asked for", "ask for fewer"),
        created(replication=admin.REPLICATION_NONE),
        names_queue=False,
    ),
    "DEDUP_EXPIRED": Row(lambda at: streamed(at, 5), OWN_IDENTITY, ("begin at sequence 1",), names_queue=False),
    "REQUEST_MISMATCH": Row(sent_twice, OWN_IDENTITY, ("choose a new id",), names_queue=False),
    "SEQUENCE_GAP": Row(lambda at: streamed(at, 1, 5), OWN_IDENTITY, ("resend",), names_queue=False),
    "DIGEST_MISMATCH": Elsewhere("what `pair verify` ends with", "tests/unit/cli/test_pair_call.py"),
    "CORRUPT_STORE": Row(AT_START, damaged, ("no backup",), nothing, names_queue=False),
    "WRONG_PAIR": Row("said to a peer, in test_faults.py", another_pair, ("belongs to",), nothing, names_queue=False),
    "NEWER_FORMAT": Row(AT_START, newer, ("format 254",), nothing, names_queue=False),
    "DIRECTORY_IN_USE": Row(AT_START, same_directory, ("pair/a",), nothing, names_queue=False),
    "PORT_IN_USE": Row(AT_START, same_ports, ("127.0.0.1:",), nothing, names_queue=False),
    "INTERNAL": Elsewhere("a bug, or a disk that fails", "tests/fuzz/targets/wire.py"),
    "ALIAS_EXISTS": Row(
        aliased, command("queue", "alias", "add", "{q}.other", "{q}"), ("choose another name",), with_alias
    ),
    "ALREADY_REPLIED": Row(replied_again, replies_again, ("the first one counts",), answered),
    "REPLY_REQUIRED": Row(acked, command("msg", "receive", "{q}", "--ack"), ("reply",), leased),
    "NOT_TWO_WAY": Row(
        replied, command("msg", "reply", "{q}", "x", "--lease-id", "1", "--index", "1"), ("TWO_WAY",), with_message
    ),
    "BAD_SELECTOR": Row(
        receives(filter={"selector": "colour ="}),
        command("msg", "receive", "{q}", "--where", "colour ="),
        ("colour =",),
        names_queue=False,
    ),
    "LOOP_LIMIT": Elsewhere("why dead letters are held back", "tests/unit/replica/test_dying.py"),
    "MANAGER_UNREACHABLE": Row(IN_CLIENT, dead_name, ("127.0.0.1:1",), nothing, exit_code=3, names_queue=False),
    "REMOTE_NOT_ALLOWED": Elsewhere("of calls from other hosts", "tests/unit/replica/test_whereabouts.py"),
    "OUT_OF_RANGE": row_of_place(1 << 40, 0, "is not committed"),
    "EPOCH_DIVERGED": row_of_place(2, 1_000, "epoch 1000", "given up"),
    "READER_NOT_FOUND": Elsewhere("of named readers alone", "tests/integration/test_named_readers.py"),
    **dict.fromkeys(("BATCH_GONE", "BATCH_GAP"), Elsewhere("of batches", "tests/integration/test_batches.py")),
    "READER_LOST": Elsewhere("needs a journal that overflows", "tests/integration/test_named_readers.py"),
    **dict.fromkeys(("WEIGHTS_NOT_FOUND", "BAD_WEIGHTS"), Elsewhere("of weights", "tests/integration/test_weights.py")),
    **dict.fromkeys(("STAGE_NOT_FOUND", "WRITER_TAKEN"), Elsewhere("no command", "tests/integration/test_staging.py")),
}
REASONS = [name.removeprefix("REASON_") for name in Reason.DESCRIPTOR.values_by_name]
WITH_ROW = [name for name, row in ROWS.items() if isinstance(row, Row)]

# -- tests -------------------------------------------------------------------------------------------------------------


def test_every_reason_has_a_row_or_a_place_where_it_is_proven() -> None:
    assert sorted(ROWS) == sorted(REASONS)
    for name, row in ROWS.items():
        if isinstance(row, Elsewhere):
            assert name in (REPOSITORY / row.test).read_text(encoding="utf-8"), f"{name} is not in {row.test}"


@pytest.mark.parametrize("name", WITH_ROW)
def test_a_reason_says_what_where_and_what_to_do(name: str, world: World) -> None:
    row = ROWS[name]
    assert isinstance(row, Row)
    world.queue, world.held = new_name("reason"), []

    async def provoked() -> None:
        async with raw_to(*world.pair.endpoints) as (world.raw, world.other):
            await row.prepare(world)
            if not isinstance(row.call, str):
                check_call(name, row, world.queue, await answer_of(row.call(world)))
            if not isinstance(row.command, str):
                arguments = list(row.command(world))
                check_command(name, row, world.queue, *await asyncio.to_thread(run, world, arguments))
            world.file("site.toml", b"")
            for call in world.held:
                if isinstance(call, grpc.aio.Call):
                    call.cancel()

    asyncio.run(provoked())


async def answer_of(call: Awaitable[Error | None]) -> Error | grpc.aio.AioRpcError | None:
    try:
        return await call
    except grpc.aio.AioRpcError as error:
        return error


def check_call(name: str, row: Row, queue: str, answer: Error | grpc.aio.AioRpcError | None) -> None:
    words = (*row.says, queue) if row.names_queue else row.says
    assert answer is not None, "nothing was refused"
    if isinstance(answer, grpc.aio.AioRpcError):
        check_refusal(answer, name, status_for(name), *words)
        return
    assert to_error(answer).reason == name, answer
    for word in words:
        assert word in answer.message


def check_command(name: str, row: Row, queue: str, code: int, said: str) -> None:
    assert code == row.exit_code, said
    assert f"error: {name}\n" in said
    flat = " ".join(said.split())
    for word in (*row.says, queue) if row.names_queue else row.says:
        assert word in flat, f"{word!r} is not in: {said}"
    assert "next:" in said, said


def run(world: World, arguments: list[str]) -> tuple[int, str]:
    """Exit code and what stands on stderr. What serves runs in a process of its own."""
    environment = {
        "TANDEMQ_CONFIG_HOME": str(world.folder / "home"),
        "TANDEMQ_HOST_FILE": str(world.folder / "host.toml"),
        "TANDEMQ_SITE_FILE": str(world.folder / "site.toml"),
        "TANDEMQ_TARGET": world.target,
        "NO_COLOR": "1",
    }
    if arguments[0] == "serve":
        done = subprocess.run(
            [sys.executable, "-m", "tandemq", *arguments], env=environment, capture_output=True, text=True, check=False
        )
        return done.returncode, done.stderr
    result = CliRunner().invoke(root, arguments, env=environment)
    return result.exit_code, result.stderr


def test_every_command_that_is_refused_says_what_comes_next() -> None:
    reached = {name for name, row in ROWS.items() if isinstance(row, Row) and not isinstance(row.command, str)}
    assert sorted(reached - NEXT_STEPS.keys() - GENERAL_STEPS.keys()) == []
