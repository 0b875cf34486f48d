"""What every authority promises, over the shipped double, a real witness and a real etcd, with real disks and gRPC."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import closing, suppress
from dataclasses import replace
from pathlib import Path

import grpc
import grpc.aio
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status

from chaos.cluster import is_stopped
from failover.authority import (
    Authority,
    CasDone,
    CasRefused,
    CasUnknown,
    MemoryAuthority,
    Unreachable,
    WitnessAuthority,
)
from failover.register import Register, add_member, claim, commit
from failover.wire import to_message
from failover.witness import SERVICE_NAME, WitnessServer, serve_witness
from failover.witness_store import (
    JOURNAL_COUNT_MAX,
    DirectoryInUseError,
    QuotaExceededError,
    StoreDamagedError,
    StoreFullError,
    WitnessStore,
)
from tandemq.witness.v1 import witness_service_pb2 as pb
from tandemq.witness.v1 import witness_service_pb2_grpc as pb_grpc
from tests.integration.support import until
from tests.support.authorities import A, B, World, etcd_world, memory_world, simulated_world, witness_world

ROOT = Path(__file__).resolve().parents[2]
WAIT_S = 10.0  # bound of every wait; reached only by a failure


@pytest.fixture(
    params=[memory_world, simulated_world, witness_world, etcd_world], ids=["memory", "simulated", "witness", "etcd"]
)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    async for each in request.param(tmp_path):
        yield each


async def done(authority: Authority, expected: Register, desired: Register, domain: str = "main") -> Register:
    assert await authority.compare_and_set(domain, expected, desired) == CasDone(desired)
    return desired


async def formed(authority: Authority) -> Register:
    """a owns epoch 1, alone."""
    first = claim(Register(), member=A, epoch=1, members=frozenset({A}), nonce=b"1")
    return await done(authority, await done(authority, Register(), first), commit(first, nonce=b"2"))


async def read_until(authority: Authority, wanted: type[Register | Unreachable]) -> Register | Unreachable:
    async with asyncio.timeout(WAIT_S):
        while True:
            if isinstance(found := await authority.get("main"), wanted):
                return found
            await asyncio.sleep(0)


async def test_a_register_that_nobody_set_is_new(world: World) -> None:
    assert await world.a.get("main") == Register()
    assert world.a.connected


async def test_claim_commit_add_are_seen_by_both_members(world: World) -> None:
    committed = await formed(world.a)
    assert await world.b.get("main") == committed
    both = await done(world.a, committed, add_member(committed, member_added=B, nonce=b"3"))
    assert await world.b.get("main") == both
    assert both.eligible_set == {A, B}


async def test_domains_are_apart(world: World) -> None:
    await formed(world.a)
    assert await world.a.get("other") == Register()


async def test_a_refusal_is_an_answer_and_changes_nothing(world: World) -> None:
    committed = await formed(world.a)
    stranger = claim(committed, member=B, epoch=2, members=frozenset({B}), nonce=b"x")
    outcome = await world.b.compare_and_set("main", committed, stranger)
    assert isinstance(outcome, CasRefused)
    assert outcome.register == committed
    assert "committed set" in outcome.why
    assert await world.a.get("main") == committed


async def test_the_whole_record_is_compared(world: World) -> None:
    """P1: equal in version, epoch, holder and sets is not enough."""
    committed = await formed(world.a)
    desired = add_member(committed, member_added=B, nonce=b"3")
    outcome = await world.a.compare_and_set("main", replace(committed, nonce=b"other"), desired)
    assert isinstance(outcome, CasRefused)
    assert await world.a.get("main") == committed


async def test_of_two_claims_on_one_record_one_is_done(world: World) -> None:
    committed = await formed(world.a)
    both = await done(world.a, committed, add_member(committed, member_added=B, nonce=b"3"))
    claims = {
        name: claim(both, member=name, epoch=2, members=frozenset({name}), nonce=name.encode()) for name in (A, B)
    }
    outcomes = await asyncio.gather(
        world.a.compare_and_set("main", both, claims[A]), world.b.compare_and_set("main", both, claims[B])
    )
    (winner,) = [outcome for outcome in outcomes if isinstance(outcome, CasDone)]
    (loser,) = [outcome for outcome in outcomes if isinstance(outcome, CasRefused)]
    assert loser.register == winner.register == await world.a.get("main")


async def test_repeating_the_set_that_is_in_force_is_done(world: World) -> None:
    """A caller whose answer was lost may send the same record again; the nonce says that it is the same attempt."""
    committed = await formed(world.a)
    desired = add_member(committed, member_added=B, nonce=b"3")
    await done(world.a, committed, desired)
    await done(world.a, committed, desired)
    assert await world.a.get("main") == desired


async def test_an_authority_that_is_away_gives_unreachable_and_unknown_and_comes_back(world: World) -> None:
    committed = await formed(world.a)
    await world.cut()
    assert isinstance(await read_until(world.a, Unreachable), Unreachable)
    desired = add_member(committed, member_added=B, nonce=b"3")
    assert isinstance(await world.a.compare_and_set("main", committed, desired), CasUnknown)
    assert not world.a.connected
    await world.heal()
    assert await read_until(world.a, Register) == committed
    assert world.a.connected


async def test_a_malformed_set_is_unknown_and_changes_nothing(world: World) -> None:
    first = claim(Register(), member=A, epoch=1, members=frozenset({A}), nonce=b"")
    assert isinstance(await world.a.compare_and_set("main", Register(), first), CasUnknown)
    assert await world.a.get("main") == Register()


async def test_a_watch_tells_the_register_now_its_changes_and_again_after_an_outage(world: World) -> None:
    watch = world.b.watch("main")
    async with asyncio.timeout(WAIT_S):
        assert await anext(watch) == Register()
        committed = await formed(world.a)
        while await anext(watch) != committed:
            pass
        waiting = asyncio.ensure_future(anext(watch))
        await asyncio.sleep(0)
        await world.cut()
        await world.heal()
        assert await waiting == committed  # told again although nothing changed (P7 reads at each reconnection)
        desired = add_member(committed, member_added=B, nonce=b"3")
        await read_until(world.a, Register)
        await done(world.a, committed, desired)
        while await anext(watch) != desired:
            pass
    await watch.aclose()  # type: ignore[attr-defined]


# ---- the double's knobs


async def test_memory_lands_a_set_late_unless_another_came_first() -> None:
    """P1: unknown is cancelled only by another successful set."""
    authority = MemoryAuthority(member=A)
    committed = await formed(authority)
    authority.lose_next = True
    added = add_member(committed, member_added=B, nonce=b"3")
    assert isinstance(await authority.compare_and_set("main", committed, added), CasUnknown)
    assert await authority.get("main") == committed
    assert authority.land_late() == [CasDone(added)]
    assert await authority.get("main") == added

    authority.lose_next = True
    claimed = claim(added, member=A, epoch=2, members=frozenset({A}), nonce=b"4")
    await authority.compare_and_set("main", added, claimed)
    other = await done(authority, added, claim(added, member=B, epoch=2, members=frozenset({B}), nonce=b"5"))
    (late,) = authority.land_late()
    assert isinstance(late, CasRefused)
    assert await authority.get("main") == other
    assert authority.late == []


async def test_memory_refuses_once() -> None:
    authority = MemoryAuthority(member=A)
    authority.refuse_once = "because"
    first = claim(Register(), member=A, epoch=1, members=frozenset({A}), nonce=b"1")
    assert await authority.compare_and_set("main", Register(), first) == CasRefused(Register(), "because")
    await done(authority, Register(), first)


# ---- the witness as a service


@pytest.fixture
async def witness(tmp_path: Path) -> AsyncIterator[WitnessServer]:
    server = WitnessServer("127.0.0.1:0", tmp_path)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def channel(witness: WitnessServer) -> AsyncIterator[grpc.aio.Channel]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{witness.port}") as opened:
        yield opened


FIRST = to_message(claim(Register(), member=A, epoch=1, members=frozenset({A}), nonce=b"1"))


def first_with(**fields: object) -> pb.Register:
    changed = pb.Register()
    changed.CopyFrom(FIRST)
    for name, value in fields.items():
        changed.ClearField(name)  # type: ignore[arg-type]
        changed.MergeFrom(pb.Register(**{name: value}))  # type: ignore[arg-type]
    return changed


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"pair": ""}, "BAD_NAME"),
        ({"pair": "p" * 65}, "BAD_NAME"),
        ({"pair": "a\0b"}, "BAD_NAME"),
        ({"domain": ""}, "BAD_NAME"),
        ({"domain": "d" * 256}, "BAD_NAME"),
        ({"domain": "a//b"}, "BAD_NAME"),
        ({"member": "ä"}, "BAD_NAME"),
        ({"member": ""}, "BAD_NAME"),
        ({"expected": None}, "BAD_REQUEST"),
        ({"desired": None}, "BAD_REQUEST"),
        ({"desired": to_message(Register())}, "BAD_REQUEST"),
        ({"desired": first_with(nonce=b"")}, "BAD_REQUEST"),
        ({"desired": first_with(nonce=b"n" * 65)}, "BAD_REQUEST"),
        ({"desired": first_with(state=7)}, "BAD_REQUEST"),
        ({"desired": first_with(holder="m" * 65)}, "BAD_REQUEST"),
        ({"desired": first_with(epoch=2**64 - 1)}, "BAD_REQUEST"),
        ({"desired": first_with(in_sync_set=["a", "a"])}, "BAD_REQUEST"),
        ({"desired": first_with(in_sync_set=["a", "b", "c"])}, "BAD_REQUEST"),
    ],
)
async def test_malformed_requests_are_invalid_argument_with_a_reason(
    channel: grpc.aio.Channel, change: dict[str, object], reason: str
) -> None:
    fields = {"pair": "pair", "domain": "main", "member": A, "expected": to_message(Register()), "desired": FIRST}
    stub = pb_grpc.WitnessServiceStub(channel)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.CompareAndSet(pb.CompareAndSetRequest(**{**fields, **change}))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT
    info = error_details_pb2.ErrorInfo()
    status = rpc_status.from_call(caught.value)
    assert status.details[0].Unpack(info)
    assert (info.domain, info.reason) == ("tandemq", reason)
    # nothing was set, and a correct request is served
    reply = await stub.CompareAndSet(pb.CompareAndSetRequest(**fields))
    assert reply.done


async def test_names_at_their_bounds_are_served(channel: grpc.aio.Channel) -> None:
    stub = pb_grpc.WitnessServiceStub(channel)
    holder = "m" * 64
    desired = to_message(claim(Register(), member=holder, epoch=1, members=frozenset({holder}), nonce=b"n" * 64))
    names = {"pair": "p" * 64, "domain": "d" * 255}
    request = pb.CompareAndSetRequest(**names, member=holder, expected=to_message(Register()), desired=desired)
    assert (await stub.CompareAndSet(request)).done
    assert (await stub.GetRegister(pb.GetRegisterRequest(**names))).register == desired


async def test_a_member_cannot_set_a_register_for_another(channel: grpc.aio.Channel) -> None:
    stub = pb_grpc.WitnessServiceStub(channel)
    request = pb.CompareAndSetRequest(
        pair="pair", domain="main", member=B, expected=to_message(Register()), desired=FIRST
    )
    reply = await stub.CompareAndSet(request)
    assert not reply.done
    assert "'b' asks" in reply.refusal


async def test_health_and_reflection(channel: grpc.aio.Channel) -> None:
    health = health_pb2_grpc.HealthStub(channel)
    for name in ("", SERVICE_NAME):
        reply = await health.Check(health_pb2.HealthCheckRequest(service=name))
        assert reply.status == health_pb2.HealthCheckResponse.SERVING
    reflect = reflection_pb2_grpc.ServerReflectionStub(channel)
    call = reflect.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
    names = [service.name async for reply in call for service in reply.list_services_response.service]
    assert SERVICE_NAME in names


async def test_one_directory_and_one_port_serve_one_witness(witness: WitnessServer, tmp_path: Path) -> None:
    with pytest.raises(DirectoryInUseError, match=f"in use by process {os.getpid()}"):
        await WitnessServer("127.0.0.1:0", witness.data_dir).start()
    other = WitnessServer(f"127.0.0.1:{witness.port}", tmp_path / "other")
    with pytest.raises(OSError, match="cannot listen"):
        await other.start()
    free = WitnessServer("127.0.0.1:0", tmp_path / "other")  # the failed start let go of its directory
    await free.start()
    await free.stop()


async def test_a_set_whose_caller_gave_up_may_land_and_is_told_to_watches(witness: WitnessServer) -> None:
    """P1: the deadline ends the call, not the set. Whether it lands is found out by reading."""
    authority = WitnessAuthority(f"127.0.0.1:{witness.port}", "pair", A)
    watch = authority.watch("main")
    assert await anext(watch) == Register()
    register = await formed(authority)
    for number in range(20):
        desired = claim(register, member=A, epoch=register.epoch + 1, members=frozenset({A}), nonce=bytes([number]))
        call = asyncio.ensure_future(authority.compare_and_set("main", register, desired))
        for _ in range(number):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        found = await authority.get("main")
        assert found in (register, desired)
        # A set that lands later is cancelled by the next successful one only: compare with what is read, every time.
        settled = claim(register, member=A, epoch=register.epoch + 1, members=frozenset({A}), nonce=b"settle")
        outcome = await authority.compare_and_set("main", register, settled)
        assert isinstance(outcome, CasDone | CasRefused)
        register = outcome.register
    async with asyncio.timeout(WAIT_S):
        while await anext(watch) != register:
            pass
    await watch.aclose()  # type: ignore[attr-defined]
    await authority.close()


# ---- the witness's store


def request(expected: Register, desired: Register, domain: str = "main") -> pb.CompareAndSetRequest:
    return pb.CompareAndSetRequest(
        pair="pair", domain=domain, member=A, expected=to_message(expected), desired=to_message(desired)
    )


def first(number: int = 1) -> Register:
    return claim(Register(), member=A, epoch=1, members=frozenset({A}), nonce=bytes([number]))


def set_epochs(store: WitnessStore, register: Register, count: int) -> Register:
    for _ in range(count):
        desired = claim(register, member=A, epoch=register.epoch + 1, members=frozenset({A}), nonce=b"x")
        assert store.compare_and_set(request(register, desired)) == (desired, None)
        register = desired
    return register


def test_store_keeps_registers_and_takes_no_more_than_its_quota(tmp_path: Path) -> None:
    with closing(WitnessStore(tmp_path, register_count_max=2)) as store:
        for domain in ("x", "y"):
            assert store.compare_and_set(request(Register(), first(), domain)) == (first(), None)
        with pytest.raises(QuotaExceededError, match="keeps 2"):
            store.compare_and_set(request(Register(), first(), "z"))
        committed = commit(first(), nonce=b"2")
        assert store.compare_and_set(request(first(), committed, "x")) == (committed, None)  # existing ones go on
    with closing(WitnessStore(tmp_path)) as store:
        assert (store.get("pair", "x"), store.get("pair", "y"), store.get("pair", "z")) == (
            committed,
            first(),
            Register(),
        )
        assert len(store) == 2


@pytest.mark.slow
def test_store_keeps_a_bounded_journal(tmp_path: Path) -> None:
    with closing(WitnessStore(tmp_path)) as store:
        store.compare_and_set(request(Register(), first(), "main2"))  # a neighbour whose key begins alike
        last = set_epochs(store, Register(), JOURNAL_COUNT_MAX)
        assert next(store.journal("pair", "main"))[1].desired.version == 1
        last = set_epochs(store, last, 3)
        entries = list(store.journal("pair", "main"))
    assert [entry.desired.version for _, entry in entries] == list(range(4, JOURNAL_COUNT_MAX + 4))
    assert entries[-1][1].desired == to_message(last)
    assert entries[-1][1].member == A
    assert entries[0][0] <= entries[-1][0]


def test_store_that_is_full_refuses_and_keeps_what_it_has(tmp_path: Path) -> None:
    with closing(WitnessStore(tmp_path, map_bytes=128 * 1024)) as store:
        register = Register()
        with suppress(StoreFullError):
            while True:
                register = set_epochs(store, register, 1)
        assert store.get("pair", "main") == register
    with closing(WitnessStore(tmp_path)) as store:
        assert store.get("pair", "main") == register
        set_epochs(store, register, 1)


def test_store_refuses_a_flipped_bit_and_a_format_that_it_does_not_know(tmp_path: Path) -> None:
    with closing(WitnessStore(tmp_path)) as store:
        store.compare_and_set(request(Register(), first()))
        with store._env.begin(write=True) as txn:
            value = bytearray(txn.get(b"pair\0main", db=store._registers_db))
            value[-1] ^= 1
            txn.put(b"pair\0main", bytes(value), db=store._registers_db)
    with pytest.raises(StoreDamagedError, match="checksum"):
        WitnessStore(tmp_path)
    with pytest.raises(StoreDamagedError, match="checksum"):  # and not "in use": the failed start let go
        WitnessStore(tmp_path)

    with closing(WitnessStore(tmp_path / "newer")) as store, store._env.begin(write=True) as txn:
        txn.put(b"format", b"2", db=store._env.open_db(b"meta", txn=txn))
    with pytest.raises(StoreDamagedError, match="format 2"):
        WitnessStore(tmp_path / "newer")


async def test_a_broken_disk_ends_the_witness_and_answers_nothing_more(tmp_path: Path) -> None:
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    server = WitnessServer("127.0.0.1:0", tmp_path)
    authority = WitnessAuthority(f"127.0.0.1:{await server.start()}", "pair", A)
    committed = await formed(authority)
    assert server._store is not None
    server._store._env.close()  # every write raises from here on
    desired = add_member(committed, member_added=B, nonce=b"3")
    assert isinstance(await authority.compare_and_set("main", committed, desired), CasUnknown)
    assert server.failed.is_set()
    assert isinstance(await authority.get("main"), Unreachable)
    assert isinstance(await authority.compare_and_set("main", committed, desired), CasUnknown)
    await authority.close()
    await server.stop()

    serving = asyncio.ensure_future(serve_witness("127.0.0.1:0", tmp_path, ready=port.set_result))
    again = WitnessAuthority(f"127.0.0.1:{await port}", "pair", A)
    assert await again.get("main") == committed  # only what was answered done
    serving.cancel()
    await asyncio.wait([serving])
    await again.close()
    with closing(WitnessStore(tmp_path)):
        pass  # cancelled in order: the directory is free


# ---- the witness as a process

PROGRAM = """
import asyncio, sys
from pathlib import Path
from failover.witness import serve_witness
asyncio.run(serve_witness(sys.argv[1], Path(sys.argv[2]), ready=lambda port: print(port, flush=True)))
"""


async def spawn(folder: Path, port: int = 0) -> tuple[asyncio.subprocess.Process, int]:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-c", PROGRAM, f"127.0.0.1:{port}", os.fspath(folder)),
        stdout=asyncio.subprocess.PIPE,
        cwd=ROOT,
    )
    assert process.stdout is not None
    async with asyncio.timeout(WAIT_S):
        return process, int(await process.stdout.readline())


async def kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        process.kill()
    await process.wait()


@pytest.mark.process
@pytest.mark.slow
async def test_what_was_answered_done_survives_kill_9(tmp_path: Path) -> None:
    """kill -9 right after each "done" and a restart on the same port, ten times in five epochs."""
    process, port = await spawn(tmp_path)
    authority = WitnessAuthority(f"127.0.0.1:{port}", "pair", A)
    try:
        register = Register()
        for epoch in range(1, 6):
            claimed = claim(register, member=A, epoch=epoch, members=frozenset({A}), nonce=bytes([epoch]))
            for desired in (claimed, commit(claimed, nonce=bytes([epoch, epoch]))):
                register = await done(authority, register, desired)
                await kill(process)
                process, _ = await spawn(tmp_path, port)
                assert await read_until(authority, Register) == register
    finally:
        await authority.close()
        await kill(process)


@pytest.mark.process
@pytest.mark.slow
async def test_a_frozen_witness_is_unknown_within_the_timeout_and_noticed_by_the_watch(tmp_path: Path) -> None:
    process, port = await spawn(tmp_path)
    authority = WitnessAuthority(f"127.0.0.1:{port}", "pair", A, timeout_s=0.3)
    watcher = WitnessAuthority(f"127.0.0.1:{port}", "pair", A)
    watch = watcher.watch("main")
    try:
        committed = await formed(authority)
        assert await anext(watch) == committed
        waiting = asyncio.ensure_future(anext(watch))
        process.send_signal(signal.SIGSTOP)

        async def stopped() -> bool:
            return is_stopped(process.pid)

        await until(stopped, "the witness has stopped")
        desired = add_member(committed, member_added=B, nonce=b"3")
        async with asyncio.timeout(5 * authority.timeout_s):
            assert isinstance(await authority.compare_and_set("main", committed, desired), CasUnknown)
        async with asyncio.timeout(WAIT_S):
            while watcher.connected:  # noqa: ASYNC110 (keepalive finds it; nothing is sent on a silent watch)
                await asyncio.sleep(0)
        process.send_signal(signal.SIGCONT)
        async with asyncio.timeout(WAIT_S):
            # P1: whether the set landed is known only from a successful read.
            assert await waiting in (committed, desired)
    finally:
        process.send_signal(signal.SIGCONT)
        await watch.aclose()  # type: ignore[attr-defined]
        for each in (authority, watcher):
            await each.close()
        await kill(process)
