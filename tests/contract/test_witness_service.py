"""The witness as a gRPC service: what it refuses and in which words, whom it tells, and that it is the only one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator, Awaitable
from pathlib import Path

import grpc
import grpc.aio
import pytest
from google.rpc import error_details_pb2
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from grpc_status import rpc_status

from failover import witness as witness_module
from failover.authority import CasDone, CasRefused, WitnessAuthority
from failover.register import Register, claim
from failover.wire import to_message
from failover.witness import SERVICE_NAME, WitnessServer
from failover.witness_store import DirectoryInUseError, QuotaExceededError, StoreBrokenError, StoreFullError
from tandemq.witness.v1 import witness_service_pb2 as pb
from tandemq.witness.v1 import witness_service_pb2_grpc as pb_grpc
from tests.support.authorities import A, B, formed
from tests.support.until import OUTER_S, until


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


NAMES = {"pair": "pair", "domain": "main"}
SET = pb.CompareAndSetRequest(**NAMES, member=A, expected=to_message(Register()), desired=FIRST)
FORCE = pb.ForceRegisterRequest(**NAMES, holder=A, epoch=1, reason="because")
CALLS = {
    "GetRegister": pb.GetRegisterRequest(**NAMES),
    "ListRegisters": pb.ListRegistersRequest(),
    "CompareAndSet": SET,
    "ForceRegister": FORCE,
}


async def reason_of(call: Awaitable[object]) -> tuple[grpc.StatusCode, str]:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    info = error_details_pb2.ErrorInfo()
    assert rpc_status.from_call(caught.value).details[0].Unpack(info)
    return caught.value.code(), info.reason


@pytest.mark.parametrize("name", CALLS)
async def test_a_witness_whose_disk_failed_answers_no_call(
    witness: WitnessServer, channel: grpc.aio.Channel, name: str
) -> None:
    stub = pb_grpc.WitnessServiceStub(channel)
    witness.failed.set()
    assert await reason_of(getattr(stub, name)(CALLS[name])) == (grpc.StatusCode.DATA_LOSS, "CORRUPT_STORE")
    watch = stub.WatchRegister(pb.WatchRegisterRequest(**NAMES))
    assert await reason_of(watch.read()) == (grpc.StatusCode.DATA_LOSS, "CORRUPT_STORE")


@pytest.mark.parametrize(
    ("error", "expected"),
    [
        (StoreFullError("no room"), (grpc.StatusCode.RESOURCE_EXHAUSTED, "STORAGE_FULL")),
        (QuotaExceededError("too many"), (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED")),
        (StoreBrokenError("unknown"), (grpc.StatusCode.DATA_LOSS, "CORRUPT_STORE")),
    ],
)
@pytest.mark.parametrize("name", ["CompareAndSet", "ForceRegister"])
async def test_a_set_that_the_store_does_not_take_names_the_reason(  # fixtures and parameters
    witness: WitnessServer,
    channel: grpc.aio.Channel,
    monkeypatch: pytest.MonkeyPatch,
    name: str,
    error: Exception,
    expected: tuple[grpc.StatusCode, str],
) -> None:
    def refuse(*_: object) -> None:
        raise error

    monkeypatch.setattr(witness._store, "_put", refuse)
    assert await reason_of(getattr(pb_grpc.WitnessServiceStub(channel), name)(CALLS[name])) == expected


async def test_an_order_stands_in_the_log_with_what_came_of_it(
    channel: grpc.aio.Channel, caplog: pytest.LogCaptureFixture
) -> None:
    stub = pb_grpc.WitnessServiceStub(channel)
    assert (await stub.ForceRegister(FORCE)).done
    refused = await stub.ForceRegister(FORCE)
    assert not refused.done
    said = [record.getMessage() for record in caplog.records if "an operator's word" in record.getMessage()]
    assert [line.partition("pair/main to a: ")[2] for line in said] == [
        "version 1, epoch 1; reason: because",
        f"refused: {refused.refusal}; reason: because",
    ]


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
    authority = WitnessAuthority(f"127.0.0.1:{witness.port}", "pair", A, timeout_s=OUTER_S)
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
    async with asyncio.timeout(OUTER_S):
        while await anext(watch) != register:
            pass
    await watch.aclose()  # type: ignore[attr-defined]
    await authority.close()


async def test_at_its_end_a_witness_ends_the_watches_itself(witness: WitnessServer, channel: grpc.aio.Channel) -> None:
    """A watch would else hold it for the whole grace, and be broken off then."""
    call = pb_grpc.WitnessServiceStub(channel).WatchRegister(pb.WatchRegisterRequest(pair="pair", domain="main"))
    assert (await call.read()).register == to_message(Register())
    witness.grace_s = OUTER_S
    ending = asyncio.create_task(witness.stop())
    async with asyncio.timeout(OUTER_S):
        assert await call.read() is grpc.aio.EOF
        assert await call.code() is grpc.StatusCode.OK
        await ending


async def test_watches_are_bounded_and_one_that_ends_makes_room(
    channel: grpc.aio.Channel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(witness_module, "WATCH_COUNT_MAX", 2)
    watch = pb_grpc.WitnessServiceStub(channel).WatchRegister
    open_ones = [watch(pb.WatchRegisterRequest(pair="pair", domain=domain)) for domain in ("main", "other")]
    for each in open_ones:
        assert (await each.read()).register == to_message(Register())
    refused = (grpc.StatusCode.RESOURCE_EXHAUSTED, "QUOTA_EXCEEDED")
    assert await reason_of(watch(pb.WatchRegisterRequest(pair="pair", domain="main")).read()) == refused
    open_ones[0].cancel()

    async def opens() -> bool:
        again = watch(pb.WatchRegisterRequest(pair="pair", domain="third"))
        try:
            return (await again.read()).register == to_message(Register())
        except grpc.aio.AioRpcError:
            return False

    await until(opens, "the place of the one that ended is free")
