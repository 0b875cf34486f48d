"""The witness as a process that is killed and frozen."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

import pytest

from chaos.cluster import is_stopped
from failover.authority import CasUnknown, WitnessAuthority
from failover.register import Register, add_member, claim, commit
from tests.support.authorities import A, B, done, formed, read_until
from tests.support.starvation import Soon
from tests.support.until import OUTER_S, until

ROOT = Path(__file__).resolve().parents[2]

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
    async with asyncio.timeout(OUTER_S):
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
    authority = WitnessAuthority(f"127.0.0.1:{port}", "pair", A, timeout_s=OUTER_S)
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
@pytest.mark.clock
async def test_a_frozen_witness_is_unknown_within_the_timeout_and_noticed_by_the_watch(tmp_path: Path) -> None:
    process, port = await spawn(tmp_path)
    authority = WitnessAuthority(f"127.0.0.1:{port}", "pair", A, timeout_s=OUTER_S)
    watcher = WitnessAuthority(f"127.0.0.1:{port}", "pair", A)
    watch = watcher.watch("main")
    try:
        committed = await formed(authority)
        assert await anext(watch) == committed
        waiting = asyncio.ensure_future(anext(watch))
        authority.timeout_s = 0.3
        process.send_signal(signal.SIGSTOP)

        async def stopped() -> bool:
            return is_stopped(process.pid)

        await until(stopped, "the witness has stopped")
        desired = add_member(committed, member_added=B, nonce=b"3")
        with Soon("a call", 5 * authority.timeout_s):
            assert isinstance(await authority.compare_and_set("main", committed, desired), CasUnknown)
        async with asyncio.timeout(OUTER_S):
            while watcher.connected:  # noqa: ASYNC110 (keepalive finds it; nothing is sent on a silent watch)
                await asyncio.sleep(0)
        process.send_signal(signal.SIGCONT)
        async with asyncio.timeout(OUTER_S):
            # P1: whether the set landed is known only from a successful read.
            assert await waiting in (committed, desired)
    finally:
        process.send_signal(signal.SIGCONT)
        await watch.aclose()  # type: ignore[attr-defined]
        for each in (authority, watcher):
            await each.close()
        await kill(process)
