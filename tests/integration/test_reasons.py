"""Every reason of the contract, through gRPC and through the command line: the status, the exit code, and words that
say what, where and what to do. One row a reason; a reason without a row or a place where it is proven instead fails.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Iterator
from functools import partial
from pathlib import Path

import grpc
import grpc.aio
import pytest
from click.testing import CliRunner

from tandemq.cli import root
from tandemq.cli.session import GENERAL_STEPS, NEXT_STEPS
from tandemq.config import Failover, Limits
from tandemq.errors import status_for, to_error
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1.common_pb2 import Error, Reason
from tests.integration.reasons import (
    SOON,
    TWO_WAY,
    VOLATILE_BYTES,
    Elsewhere,
    Row,
    World,
    acked,
    aliased,
    another_pair,
    answered,
    asked,
    command,
    consumed,
    created,
    damaged,
    dead_name,
    deleted_if_empty,
    described,
    described_at,
    exported_elsewhere,
    full,
    leased,
    made,
    many_wait,
    moved_elsewhere,
    newer,
    nothing,
    opened,
    opened_alone,
    opened_as_master,
    receives,
    refilled,
    replied,
    replied_again,
    replies_again,
    row_of_place,
    same_directory,
    same_ports,
    sends,
    sent,
    sent_from_epoch,
    sent_twice,
    streamed,
    updated,
    volatile_ones,
    with_alias,
    with_message,
    with_own,
)
from tests.integration.support import check_refusal, configured, gone, new_name, raw_to
from tests.support.clusters import patient

pytestmark = pytest.mark.process

REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("reasons")
    limits = Limits(volatile_bytes=VOLATILE_BYTES)
    pair = patient(folder / "pair", limits=limits)
    asyncio.run(pair.start())
    suspended = patient(folder / "suspended", witnessed=False, limits=SOON, failover=Failover(classifier="suspend"))
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


OWN_IDENTITY = "the client chooses ids and sequences itself, and repeats them as they were"
AT_START = "no server runs: it is said at the start"
IN_CLIENT = "the client finds it out before it asks a server"

ROWS: dict[str, Row | Elsewhere] = {
    "UNSPECIFIED": Elsewhere("stands for a newer server's word", "tests/unit/client/test_errors.py"),
    "QUEUE_NOT_FOUND": Row(described, command("queue", "info", "{q}"), ("create it",), nothing),
    "MANAGER_NOT_FOUND": Row(
        IN_CLIENT, command("queue", "info", "//nobody/q"), ("nobody",), nothing, names_queue=False
    ),
    "MESSAGE_NOT_FOUND": Elsewhere("of moves whose bodies are gone", "tests/unit/replica/core/ordering/test_sweeps.py"),
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
    "DRAINING": Elsewhere("said to a peer by a member in maintenance", "tests/unit/replica/peer/test_link.py"),
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
    "LOOP_LIMIT": Elsewhere("why dead letters are held back", "tests/unit/replica/core/ordering/test_dying.py"),
    "MANAGER_UNREACHABLE": Row(IN_CLIENT, dead_name, ("127.0.0.1:1",), nothing, exit_code=3, names_queue=False),
    "REMOTE_NOT_ALLOWED": Elsewhere("of calls from other hosts", "tests/unit/replica/services/test_locality.py"),
    "OUT_OF_RANGE": row_of_place(1 << 40, 0, "is not committed"),
    "EPOCH_DIVERGED": row_of_place(2, 1_000, "epoch 1000", "given up"),
    "READER_NOT_FOUND": Elsewhere("of named readers alone", "tests/integration/test_named_readers.py"),
    "PAIR_CHANGED": Elsewhere("needs a pair that is begun anew", "tests/integration/test_history_id.py"),
    **dict.fromkeys(("BATCH_GONE", "BATCH_GAP"), Elsewhere("of batches", "tests/integration/test_batches.py")),
    "READER_LOST": Elsewhere("needs a journal that overflows", "tests/integration/test_named_readers.py"),
    **dict.fromkeys(("WEIGHTS_NOT_FOUND", "BAD_WEIGHTS"), Elsewhere("of weights", "tests/integration/test_weights.py")),
    **dict.fromkeys(
        ("PERMISSION_DENIED", "RIGHT_NOT_FOUND"), Elsewhere("of certificates", "tests/integration/test_rights.py")
    ),
    **dict.fromkeys(
        ("TOKEN_REQUIRED", "TOKEN_REFUSED", "TOKEN_EXPIRED", "TOKEN_KEYS_MISSING"),
        Elsewhere("of the port for tokens", "tests/integration/test_tokens.py"),
    ),
    "GROUP_MISMATCH": Elsewhere("of groups", "tests/integration/test_whole_groups.py"),
    "RELATIONSHIP_MISMATCH": Elsewhere("of macro queues", "tests/integration/test_macros.py"),
    "TWIN_TAKEN": Elsewhere("needs two consumers", "tests/integration/test_producer_queues.py"),
    "SIDE_LOST": Elsewhere("needs a side that stands", "tests/integration/test_side_lost.py"),
    "REACTION_DISABLED": Elsewhere("of reactions", "tests/integration/test_reactions.py"),
    "TXN_TOO_LARGE": Elsewhere("no command", "tests/integration/test_units.py"),
    "TXN_ABORTED": Elsewhere("no command", "tests/integration/test_open_units.py"),
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
