"""What the witness keeps: bounds, a disk that is full, damaged, of another format, or broken."""

from __future__ import annotations

import asyncio
from contextlib import closing, suppress
from pathlib import Path

import pytest

from failover import witness_store
from failover.authority import CasUnknown, Unreachable, WitnessAuthority
from failover.register import Register, add_member, claim, commit
from failover.wire import to_message
from failover.witness import WitnessServer, serve_witness
from failover.witness_store import (
    QuotaExceededError,
    StoreDamagedError,
    StoreFullError,
    WitnessStore,
)
from tandemq.witness.v1 import witness_service_pb2 as pb
from tests.support.authorities import A, B, formed
from tests.support.until import OUTER_S


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
def test_store_keeps_a_bounded_journal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(witness_store, "JOURNAL_COUNT_MAX", few := 30)
    with closing(WitnessStore(tmp_path)) as store:
        store.compare_and_set(request(Register(), first(), "main2"))  # a neighbour whose key begins alike
        last = set_epochs(store, Register(), few)
        assert next(store.journal("pair", "main"))[1].desired.version == 1
        last = set_epochs(store, last, 3)
        entries = list(store.journal("pair", "main"))
    assert [entry.desired.version for _, entry in entries] == list(range(4, few + 4))
    assert entries[-1][1].desired == to_message(last)
    assert entries[-1][1].member == A
    assert entries[0][0] <= entries[-1][0]


def test_store_that_is_full_refuses_and_keeps_what_it_has(tmp_path: Path) -> None:
    with closing(WitnessStore(tmp_path, map_bytes=96 * 1024)) as store:
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


@pytest.mark.parametrize(
    ("written", "why"),
    [
        (pb.Register(version=3, epoch=3, holder=A, state=99), "state 99 is not known"),
        (
            pb.Register(version=3, epoch=3, holder=A, state=pb.REGISTER_STATE_COMMITTED, in_sync_set=[A, A]),
            "names a member twice",
        ),
    ],
)
def test_a_store_that_holds_what_is_no_register_is_refused_whole(
    tmp_path: Path, written: pb.Register, why: str
) -> None:
    """Its checksum is right: somebody else wrote it. A witness that left it out would let both members begin anew."""
    with closing(WitnessStore(tmp_path)) as store, store._env.begin(write=True) as txn:
        value = witness_store._sealed(written.SerializeToString())
        txn.put(b"pair\0main", value, db=store._registers_db)
    with pytest.raises(StoreDamagedError, match=why):
        WitnessStore(tmp_path)


async def test_a_broken_disk_ends_the_witness_and_answers_nothing_more(tmp_path: Path) -> None:
    port: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    server = WitnessServer("127.0.0.1:0", tmp_path)
    authority = WitnessAuthority(f"127.0.0.1:{await server.start()}", "pair", A, timeout_s=OUTER_S)
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
    again = WitnessAuthority(f"127.0.0.1:{await port}", "pair", A, timeout_s=OUTER_S)
    assert await again.get("main") == committed  # only what was answered done
    serving.cancel()
    await asyncio.wait([serving])
    await again.close()
    with closing(WitnessStore(tmp_path)):
        pass  # cancelled in order: the directory is free
