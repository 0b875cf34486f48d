"""What a witness promises an operator: the list of registers, and a register put right by an operator's word."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import grpc
import grpc.aio
import pytest

from failover.authority import CasDone, CasRefused, WitnessAuthority
from failover.register import Register, RegisterState, claim, commit
from failover.wire import from_message
from failover.witness import REASON_BYTES_MAX, WitnessServer
from failover.witness_store import WitnessStore
from tandemq.witness.v1 import witness_service_pb2 as pb
from tandemq.witness.v1 import witness_service_pb2_grpc as pb_grpc
from tests.contract.test_witness_process import kill, spawn
from tests.support.authorities import A, B
from tests.support.until import OUTER_S

ALONE = frozenset({B})
WORD = {"pair": "pair", "domain": "main", "expected_version": 2, "epoch": 9, "holder": B, "reason": "a burnt down"}


@pytest.fixture
async def stub(witness: WitnessServer) -> AsyncIterator[pb_grpc.WitnessServiceAsyncStub]:
    async with grpc.aio.insecure_channel(f"127.0.0.1:{witness.port}") as channel:
        yield pb_grpc.WitnessServiceStub(channel)


async def formed(port: int, domain: str = "main") -> Register:
    """Epoch 1 of member a, at version 2."""
    authority = WitnessAuthority(f"127.0.0.1:{port}", "pair", A, timeout_s=OUTER_S)
    claimed = claim(Register(), member=A, epoch=1, members=frozenset({A}), nonce=b"1")
    committed = commit(claimed, nonce=b"2")
    assert await authority.compare_and_set(domain, Register(), claimed) == CasDone(claimed)
    assert await authority.compare_and_set(domain, claimed, committed) == CasDone(committed)
    await authority.close()
    return committed


async def test_a_forced_register_lets_only_its_holder_claim(
    witness: WitnessServer, stub: pb_grpc.WitnessServiceAsyncStub
) -> None:
    await formed(witness.port)
    reply = await stub.ForceRegister(pb.ForceRegisterRequest(**WORD))
    assert (reply.done, reply.refusal) == (True, "")
    register = from_message(reply.register)
    assert (register.version, register.epoch, register.holder) == (3, 9, B)
    assert (register.in_sync_set, register.committed_set) == (ALONE, ALONE)
    assert register.state is RegisterState.CLAIMED
    assert len(register.nonce) == 16

    a, b = (WitnessAuthority(f"127.0.0.1:{witness.port}", "pair", name, timeout_s=OUTER_S) for name in (A, B))
    wrong = claim(register, member=A, epoch=10, members=frozenset({A}), nonce=b"x")
    refusal = await a.compare_and_set("main", register, wrong)
    assert isinstance(refusal, CasRefused)
    assert "not in the committed set {b}" in refusal.why
    right = claim(register, member=B, epoch=10, members=ALONE, nonce=b"y")
    assert await b.compare_and_set("main", register, right) == CasDone(right)
    for authority in (a, b):
        await authority.close()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"expected_version": 1}, "is at version 2, the operator has seen 1"),
        ({"expected_version": 0}, "is at version 2"),
        ({"epoch": 1}, "epoch 1 does not lie in 2.."),
        ({"epoch": 0}, "epoch 0"),
        ({"epoch": 2**63}, "does not lie in"),
        ({"reason": "  "}, "no reason"),
    ],
    ids=str,
)
async def test_a_refused_word_is_an_answer_and_changes_nothing(
    witness: WitnessServer, stub: pb_grpc.WitnessServiceAsyncStub, change: dict[str, object], words: str
) -> None:
    before = await formed(witness.port)
    reply = await stub.ForceRegister(pb.ForceRegisterRequest(**{**WORD, **change}))
    assert not reply.done
    assert words in reply.refusal
    assert from_message(reply.register) == before


@pytest.mark.parametrize(
    "change", [{"pair": ""}, {"domain": "a b"}, {"holder": ""}, {"holder": "x" * 65}, {"reason": "x" * 1_001}], ids=str
)
async def test_a_malformed_word_is_invalid_argument(
    stub: pb_grpc.WitnessServiceAsyncStub, change: dict[str, str]
) -> None:
    assert REASON_BYTES_MAX == 1_000
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.ForceRegister(pb.ForceRegisterRequest(**{**WORD, **change}))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_word_that_was_given_twice_counts_once(
    witness: WitnessServer, stub: pb_grpc.WitnessServiceAsyncStub
) -> None:
    await formed(witness.port)
    assert (await stub.ForceRegister(pb.ForceRegisterRequest(**WORD))).done
    again = await stub.ForceRegister(pb.ForceRegisterRequest(**WORD))
    assert not again.done
    assert again.register.version == 3


async def test_a_member_is_known_by_its_starts_too(
    witness: WitnessServer, stub: pb_grpc.WitnessServiceAsyncStub
) -> None:
    await formed(witness.port)
    start = {**WORD, "domain": "start/b", "expected_version": 0, "epoch": 1}
    assert (await stub.ForceRegister(pb.ForceRegisterRequest(**start))).done
    reply = await stub.ForceRegister(pb.ForceRegisterRequest(**{**WORD, "holder": "zz"}))
    assert (reply.done, reply.register.version) == (False, 2)
    assert reply.refusal == "'zz' is no member of this pair: its members are a and b"
    assert (await stub.ForceRegister(pb.ForceRegisterRequest(**WORD))).done


async def test_registers_are_listed_by_pair_and_domain(
    witness: WitnessServer, stub: pb_grpc.WitnessServiceAsyncStub
) -> None:
    for domain in ("main", "audit", "start/a"):
        await formed(witness.port, domain)
    listed = await stub.ListRegisters(pb.ListRegistersRequest())
    assert [(each.pair, each.domain, each.register.epoch) for each in listed.registers] == [
        ("pair", "audit", 1),
        ("pair", "main", 1),
        ("pair", "start/a", 1),
    ]
    assert listed.register_count_max == 10_000
    assert listed.version
    assert not (await stub.ListRegisters(pb.ListRegistersRequest(pair="other"))).registers
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.ListRegisters(pb.ListRegistersRequest(pair="a b"))
    assert caught.value.code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_the_quota_holds_for_a_forced_register_too(tmp_path: Path) -> None:
    request = pb.ForceRegisterRequest(**{**WORD, "expected_version": 0})
    with closing(WitnessStore(tmp_path, register_count_max=1)) as store:
        assert store.force(request, b"n")[1] is None
        request.domain = "other"
        with pytest.raises(Exception, match="keeps 1 registers"):
            store.force(request, b"n")


@pytest.mark.process
async def test_a_word_that_was_answered_done_survives_kill_9_and_stands_in_the_journal(tmp_path: Path) -> None:
    process, port = await spawn(tmp_path)
    try:
        await formed(port)
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            reply = await pb_grpc.WitnessServiceStub(channel).ForceRegister(pb.ForceRegisterRequest(**WORD))
        assert reply.done
    finally:
        await kill(process)
    with closing(WitnessStore(tmp_path)) as store:
        assert store.get("pair", "main") == from_message(reply.register)
        last = [entry for _, entry in store.journal("pair", "main")][-1]
    assert last.member == "operator: a burnt down"
    assert from_message(last.desired) == from_message(reply.register)
