"""What etcd, its operators and the network in between do to a register; the shared contract is test_authority.py."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.relay import Relays, Way
from failover.authorities import make
from failover.authority import CasDone, CasRefused, CasUnknown, Unreachable
from failover.etcd import EtcdAuthority
from failover.etcd_wire import from_value, key_of, to_value
from failover.register import Register, add_member, claim, commit
from failover.wire import BadRegisterError
from tandemq.config import ConfigError, load
from tandemq.credentials.authority import create, issue
from tests.support.etcd import EtcdServer, cluster
from tests.support.ports import free_port
from tests.support.starvation import Soon
from tests.support.until import OUTER_S, until

A, B = "a", "b"
PREFIX = "/tandemq/"
KEY = "/tandemq/pair/main"
SHORT_S = 0.5


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[EtcdServer]:
    started = EtcdServer(tmp_path / "etcd")
    await started.start()
    yield started
    await started.kill()


@pytest.fixture
async def authority(server: EtcdServer) -> AsyncIterator[EtcdAuthority]:
    """Connected. Whoever takes the server's answers away sets `timeout_s`."""
    opened = EtcdAuthority([server.endpoint], PREFIX, "pair", A, timeout_s=OUTER_S)
    await readable(opened)
    yield opened
    await opened.close()


async def done(authority: EtcdAuthority, expected: Register, desired: Register) -> Register:
    assert await authority.compare_and_set("main", expected, desired) == CasDone(desired)
    return desired


async def formed(authority: EtcdAuthority) -> Register:
    first = claim(Register(), member=A, epoch=1, members=frozenset({A}), nonce=b"1")
    return await done(authority, await done(authority, Register(), first), commit(first, nonce=b"2"))


async def readable(authority: EtcdAuthority) -> Register:
    async with asyncio.timeout(OUTER_S):
        while True:
            if isinstance(found := await authority.get("main"), Register):
                return found
            await asyncio.sleep(0)


# ---- certificates


@pytest.mark.process
async def test_a_register_is_kept_in_an_etcd_that_wants_certificates(tmp_path: Path) -> None:
    folder = create(tmp_path / "authority").parent
    for name, who in (("etcd", "witness/etcd"), ("member", "principal/pair-a")):
        issue(folder, who, tmp_path / name)
    issue(create(tmp_path / "another").parent, "principal/pair-a", tmp_path / "stranger")
    server = EtcdServer(tmp_path / "data", secured=(tmp_path / "etcd", tmp_path / "member"))
    await server.start()
    peer = {"peer_member": B, "peer_address": "h:1", "peer_endpoint": "h:2"}
    pair = {"pair": "pair", "member": A, "data_dir": "/d", **peer}
    opened = []
    try:
        for name in ("member", "stranger", ""):
            etcd = {"endpoints": [server.endpoint], "credentials": str(tmp_path / name) if name else ""}
            made = make(load(None, {**pair, "etcd": etcd}, {}))
            assert isinstance(made, EtcdAuthority)
            opened.append(made)
            if name == "member":
                made.timeout_s = OUTER_S
                await formed(made)
            else:
                assert isinstance(await made.get("main"), Unreachable), name
        with pytest.raises(ConfigError, match=r"etcd\.credentials = .*no such directory"):
            make(load(None, {**pair, "etcd": {**etcd, "credentials": "/nowhere"}}, {}))
    finally:
        for each in opened:
            await each.close()
        await server.kill()


# ---- the server


@pytest.mark.process
@pytest.mark.slow
async def test_what_was_answered_done_survives_kill_9(server: EtcdServer, authority: EtcdAuthority) -> None:
    register = Register()
    for epoch in range(1, 4):
        claimed = claim(register, member=A, epoch=epoch, members=frozenset({A}), nonce=bytes([epoch]))
        for desired in (claimed, commit(claimed, nonce=bytes([epoch, epoch]))):
            register = await done(authority, register, desired)
            await server.kill()
            await server.start()
            assert await readable(authority) == register


@pytest.mark.process
@pytest.mark.clock
async def test_a_frozen_etcd_is_unknown_within_the_timeout(server: EtcdServer, authority: EtcdAuthority) -> None:
    committed = await formed(authority)
    watch = authority.watch("main")
    assert await anext(watch) == committed
    desired = add_member(committed, member_added=B, nonce=b"3")
    authority.timeout_s = SHORT_S
    await server.freeze()
    try:
        with Soon("two calls", 4 * authority.timeout_s):
            assert isinstance(await authority.compare_and_set("main", committed, desired), CasUnknown)
            assert isinstance(await authority.get("main"), Unreachable)
        assert not authority.connected
    finally:
        server.thaw()
    authority.timeout_s = OUTER_S
    found = await readable(authority)
    assert found in (committed, desired)  # P1: known only from this read
    # P1: what may still land is cancelled by the next successful set
    settled = claim(found, member=A, epoch=2, members=frozenset({A}), nonce=b"4")
    outcome = await authority.compare_and_set("main", found, settled)
    if isinstance(outcome, CasRefused):
        assert outcome.register == desired
        settled = await done(authority, desired, claim(desired, member=A, epoch=2, members=frozenset({A}), nonce=b"4"))
    async with asyncio.timeout(OUTER_S):
        while await anext(watch) != settled:
            pass
    await watch.aclose()  # type: ignore[attr-defined]
    assert await authority.get("main") == settled


@pytest.mark.process
@pytest.mark.slow  # keepalive: etcd allows a ping every 5 s
async def test_a_frozen_etcd_is_noticed_by_a_watch_that_nobody_calls_beside(server: EtcdServer) -> None:
    watcher = EtcdAuthority([server.endpoint], PREFIX, "pair", A, timeout_s=0.5)
    watch = watcher.watch("main")
    assert await anext(watch) == Register()
    waiting = asyncio.ensure_future(anext(watch))
    await server.freeze()
    try:
        # Keepalive finds it; nothing is sent on a silent watch.
        await until(lambda: not watcher.connected, "the watch has ended")
    finally:
        server.thaw()
    async with asyncio.timeout(OUTER_S):
        assert await waiting == Register()  # told again after the reconnection
    await watch.aclose()  # type: ignore[attr-defined]
    await watcher.close()


@pytest.mark.process
@pytest.mark.slow
async def test_without_a_majority_nothing_is_read_or_set(tmp_path: Path) -> None:
    """A lone member of three still answers calls; what it has may be old, so it must not answer these."""
    servers = cluster(tmp_path, 3)
    try:
        for server in servers:
            await server.spawn()
        authority = EtcdAuthority([each.endpoint for each in servers], PREFIX, "pair", A, timeout_s=2.0)
        await readable(authority)
        committed = await formed(authority)
        await servers[0].kill()
        assert await readable(authority) == committed  # the next endpoint answers
        watcher = EtcdAuthority([servers[2].endpoint], PREFIX, "pair", B)
        watch = watcher.watch("main")
        assert await anext(watch) == committed
        told = asyncio.ensure_future(anext(watch))
        await servers[1].kill()
        # Nobody calls beside: the member itself must end the watch.
        await until(lambda: not watcher.connected, "the watch has ended")
        desired = add_member(committed, member_added=B, nonce=b"3")
        async with asyncio.timeout(OUTER_S):
            while isinstance(await authority.get("main"), Register):  # until the last one has missed its leader
                pass
        assert isinstance(await authority.compare_and_set("main", committed, desired), CasUnknown)
        assert not authority.connected
        await servers[0].spawn()
        assert await readable(authority) in (committed, desired)
        async with asyncio.timeout(OUTER_S):
            assert await told in (committed, desired)
        await watch.aclose()  # type: ignore[attr-defined]
        await watcher.close()
        await authority.close()
    finally:
        for server in servers:
            await server.kill()


# ---- the network


@pytest.mark.process
async def test_a_set_whose_answer_is_lost_is_unknown_and_has_landed(server: EtcdServer) -> None:
    listen = f"127.0.0.1:{free_port()}"
    with Relays() as relays:
        relay = relays.open(listen, server.endpoint)
        authority = EtcdAuthority([listen], PREFIX, "pair", A, timeout_s=OUTER_S)
        await readable(authority)
        committed = await formed(authority)
        desired = add_member(committed, member_added=B, nonce=b"3")
        authority.timeout_s = SHORT_S
        relay.silence(Way.FROM_TARGET)
        assert isinstance(await authority.compare_and_set("main", committed, desired), CasUnknown)
        relay.heal()
        authority.timeout_s = OUTER_S
        assert await readable(authority) == desired
        # The caller may repeat it: the nonce says that it is the same attempt.
        assert await authority.compare_and_set("main", committed, desired) == CasDone(desired)
        await authority.close()


@pytest.mark.process
async def test_a_set_may_land_after_its_caller_gave_up_or_not_at_all(
    server: EtcdServer, authority: EtcdAuthority
) -> None:
    register = await formed(authority)
    for number in range(20):
        desired = claim(register, member=A, epoch=register.epoch + 1, members=frozenset({A}), nonce=bytes([number]))
        call = asyncio.ensure_future(authority.compare_and_set("main", register, desired))
        for _ in range(number):
            await asyncio.sleep(0)
        call.cancel()
        await asyncio.wait([call])
        assert await authority.get("main") in (register, desired)
        settled = claim(register, member=A, epoch=register.epoch + 1, members=frozenset({A}), nonce=b"settle")
        outcome = await authority.compare_and_set("main", register, settled)
        assert isinstance(outcome, CasDone | CasRefused)
        register = outcome.register


@pytest.mark.process
async def test_a_read_tries_every_endpoint_and_a_set_one(server: EtcdServer) -> None:
    dead = f"127.0.0.1:{free_port()}"
    with Relays() as relays:
        black_hole = relays.open(f"127.0.0.1:{free_port()}", server.endpoint)
        black_hole.silence()
        first = claim(Register(), member=A, epoch=1, members=frozenset({A}), nonce=b"1")
        for endpoint in (dead, black_hole.listen):
            authority = EtcdAuthority([endpoint, server.endpoint], PREFIX, "pair", A)
            outcome = await authority.compare_and_set("main", Register(), first)
            assert isinstance(outcome, CasUnknown)
            assert endpoint in outcome.why
            assert await authority.get("main") == Register()  # nothing was sent to the other one
            await authority.close()

            authority = EtcdAuthority([endpoint, server.endpoint], PREFIX, "pair", A)
            assert await authority.get("main") == Register()
            assert authority.connected
            watch = authority.watch("main")
            async with asyncio.timeout(OUTER_S):
                assert await anext(watch) == Register()
            await watch.aclose()  # type: ignore[attr-defined]
            await authority.close()
        # After a read has found the one that answers, a set goes there.
        authority = EtcdAuthority([dead, server.endpoint], PREFIX, "pair", A)
        await authority.get("main")
        await done(authority, Register(), first)
        await authority.close()
        unreachable = EtcdAuthority([dead, black_hole.listen], PREFIX, "pair", A, timeout_s=0.5)
        found = await unreachable.get("main")
        assert isinstance(found, Unreachable)
        assert dead in found.why
        assert black_hole.listen in found.why
        await unreachable.close()


# ---- its operators


@pytest.mark.process
async def test_a_key_deleted_by_hand_vouches_for_nobody(server: EtcdServer, authority: EtcdAuthority) -> None:
    committed = await formed(authority)
    watch = authority.watch("main")
    assert await anext(watch) == committed
    await server.ctl("del", KEY)
    found = await authority.get("main")
    assert found == Register()
    assert found.vouches_for_nobody
    outcome = await authority.compare_and_set("main", committed, add_member(committed, member_added=B, nonce=b"3"))
    assert outcome == CasRefused(Register(), "the register has changed: it is at version 0, expected was 2")
    async with asyncio.timeout(OUTER_S):
        assert await anext(watch) == Register()
    again = await formed(authority)
    async with asyncio.timeout(OUTER_S):
        while await anext(watch) != again:
            pass
    await watch.aclose()  # type: ignore[attr-defined]


REGISTER = claim(Register(), member=A, epoch=1, members=frozenset({A}), nonce=b"1")
VALUE = to_value(REGISTER, "pair", "main").decode()


def changed(**fields: object) -> str:
    return json.dumps({**json.loads(VALUE), **fields}, separators=(",", ":"))


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("", "it is no register"),
        ("hello", "it is no register"),
        ("{}", "missing required field"),
        (changed(extra=1), "unknown field"),
        (changed(epoch="1"), "Expected `int`"),
        (changed(format=2), "format 2, this program reads 1"),
        (changed(pair="other"), "register of pair 'other', domain 'main'"),
        (changed(domain="other"), "register of pair 'pair', domain 'other'"),
        (changed(state="LOST"), "'LOST' is not known"),
        (changed(nonce="xyz"), "nonce is not hexadecimal"),
        (changed(nonce=""), "nonce is empty"),
        (changed(version=0), "version 0"),
        (changed(version=2**64 - 1), "lie in 0.."),
        (changed(in_sync_set=["a", "b", "c"]), "at most 2 members"),
        (changed(in_sync_set=["a", "a"]), "not written by a member"),
        (VALUE.replace(",", ", "), "not written by a member"),
    ],
)
def test_what_no_member_wrote_is_no_register(value: str, words: str) -> None:
    with pytest.raises(BadRegisterError, match=words):
        from_value(value.encode(), "pair", "main")


def test_before_the_first_call_nothing_is_known_of_a_connection() -> None:
    assert not EtcdAuthority(["127.0.0.1:1"], PREFIX, "pair", A).connected


def test_a_register_reads_back_as_itself() -> None:
    committed = commit(REGISTER, nonce=bytes(range(64)))
    for register in (REGISTER, committed, add_member(committed, member_added=B, nonce=b"\xff")):
        assert from_value(to_value(register, "pair", "start/a"), "pair", "start/a") == register


@pytest.mark.process
async def test_garbage_in_the_key_is_unreachable_and_says_what_to_do(
    server: EtcdServer, authority: EtcdAuthority
) -> None:
    committed = await formed(authority)
    watch = authority.watch("main")
    assert await anext(watch) == committed
    waiting = asyncio.ensure_future(anext(watch))
    value = (await server.ctl("get", KEY, "--print-value-only")).strip().decode()
    await server.ctl("put", KEY, "garbage")
    found = await authority.get("main")
    assert isinstance(found, Unreachable)
    assert KEY in found.why
    assert "it is no register" in found.why
    assert "delete the key" in found.why
    desired = add_member(committed, member_added=B, nonce=b"3")
    for outcome in (
        await authority.compare_and_set("main", committed, desired),
        await authority.compare_and_set(
            "main", Register(), claim(Register(), member=A, epoch=1, members=frozenset({A}), nonce=b"x")
        ),
        await authority.force("main", 2, 9, B, "because"),
    ):
        assert isinstance(outcome, CasUnknown)
        assert KEY in outcome.why
    assert await server.ctl("get", KEY, "--print-value-only") == b"garbage\n"
    assert not waiting.done()  # a watch tells registers, never this
    await server.ctl("put", KEY, value)
    assert await readable(authority) == committed
    async with asyncio.timeout(OUTER_S):
        assert await waiting == committed
    await watch.aclose()  # type: ignore[attr-defined]


@pytest.mark.process
async def test_two_pairs_of_one_name_live_under_different_prefixes(server: EtcdServer) -> None:
    here, there = (EtcdAuthority([server.endpoint], prefix, "pair", A) for prefix in ("/site-1", "/site-2/"))
    committed = await formed(here)
    assert await there.get("main") == Register()
    other = await formed(there)
    await done(here, committed, add_member(committed, member_added=B, nonce=b"3"))
    assert await there.get("main") == other
    keys = (await server.ctl("get", "", "--prefix", "--keys-only")).split()
    assert keys == [b"/site-1/pair/main", b"/site-2/pair/main"]
    for each in (here, there):
        await each.close()


def test_a_prefix_needs_no_slash_of_its_own() -> None:
    assert key_of("/x", "p", "d") == key_of("/x/", "p", "d") == b"/x/p/d"


# ---- the rules that a witness would enforce


@pytest.mark.process
async def test_a_set_that_no_witness_would_let_in_is_refused_here(server: EtcdServer, authority: EtcdAuthority) -> None:
    committed = await formed(authority)
    both = add_member(committed, member_added=B, nonce=b"3")
    for desired, words in (
        (replace(both, version=9), "version 9 does not follow 2"),
        (replace(claim(committed, member=A, epoch=2, members=frozenset({A}), nonce=b"4"), epoch=1), "epoch above 1"),
        (claim(committed, member=A, epoch=2, members=frozenset({A, B}), nonce=b"4"), "never adds one"),
        (
            claim(committed, member=B, epoch=2, members=frozenset({B}), nonce=b"4"),
            "'a' asks for a register held by 'b'",
        ),
    ):
        outcome = await authority.compare_and_set("main", committed, desired)
        assert isinstance(outcome, CasRefused)
        assert words in outcome.why
        assert outcome.register == committed == await authority.get("main")
    assert isinstance(await authority.compare_and_set("main", committed, Register()), CasUnknown)
    assert await authority.get("main") == committed


@pytest.mark.process
async def test_a_watch_goes_on_over_compaction_and_restart(server: EtcdServer, authority: EtcdAuthority) -> None:
    watch = authority.watch("main")
    register = Register()
    async with asyncio.timeout(OUTER_S):
        assert await anext(watch) == register
        for epoch in range(1, 4):
            await server.kill()
            await server.start()
            await readable(authority)
            claimed = claim(register, member=A, epoch=epoch, members=frozenset({A}), nonce=bytes([epoch]))
            register = await done(authority, register, claimed)
            await server.ctl("put", "/elsewhere", "x")  # so that what the watch wants to begin with is compacted
            revision = json.loads(await server.ctl("get", KEY, "-w", "json"))["header"]["revision"]
            await server.ctl("compact", str(revision))
            while await anext(watch) != register:
                pass
    await watch.aclose()  # type: ignore[attr-defined]
