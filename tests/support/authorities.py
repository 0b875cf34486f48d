"""Two members before one authority of each shipped kind, which a test can take away and give back."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path

from chaos.sim.kernel.register import Route, SimAuthority, SimRegister
from failover.authority import Authority, CasDone, MemoryAuthority, MemoryRegisters, Unreachable, WitnessAuthority
from failover.etcd import EtcdAuthority
from failover.local_authority import Kept, LocalAuthority
from failover.register import Register, claim, commit
from failover.witness import WitnessServer
from tests.support.etcd import EtcdServer
from tests.support.until import OUTER_S

A, B = "a", "b"


@dataclass(frozen=True, slots=True)
class World:
    """Two members before one authority, which the test can take away and give back."""

    a: Authority
    b: Authority
    cut: Callable[[], Awaitable[None]]
    heal: Callable[[], Awaitable[None]]


class LocalCopy:
    """A member's own copy of the registers, and what it tells its peer of each change while they are connected."""

    def __init__(self, member: str) -> None:
        self.authority = LocalAuthority(member)
        self.disk: dict[str, bytes] = {}
        self.peer: LocalCopy | None = None
        self.authority.attach(Kept(self.disk.get, self._write, self._on_change))

    async def _write(self, key: str, data: bytes) -> None:
        self.disk[key] = data

    def _on_change(self, domain: str, data: bytes) -> None:
        if self.peer is not None and (adopting := self.peer.authority.adopt(domain, data)) is not None:
            with contextlib.suppress(StopIteration):
                adopting.__await__().send(None)  # a write to a dict is durable at once

    def restarted(self) -> LocalAuthority:
        """The same disk, another process."""
        self.authority = LocalAuthority(self.authority.member)
        self.authority.attach(Kept(self.disk.get, self._write, self._on_change))
        return self.authority


def met(a: LocalCopy, b: LocalCopy) -> None:
    """They are connected, and tell each other what they have."""
    a.peer, b.peer = b, a
    for each in (a, b):
        each._on_change("main", each.authority.as_bytes("main"))


async def local_world(_folder: Path) -> AsyncIterator[World]:
    """Two members that are connected, each with a copy of its own; nobody takes that away."""
    a, b = LocalCopy(A), LocalCopy(B)
    met(a, b)

    async def nothing() -> None:
        """There is nobody else."""

    yield World(a.authority, b.authority, nothing, nothing)


async def memory_world(_folder: Path) -> AsyncIterator[World]:
    registers = MemoryRegisters()
    a, b = MemoryAuthority(registers, A), MemoryAuthority(registers, B)

    async def set_unreachable(unreachable: bool) -> None:
        for authority in (a, b):
            authority.unreachable = unreachable

    yield World(a, b, lambda: set_unreachable(True), lambda: set_unreachable(False))


async def simulated_world(_folder: Path) -> AsyncIterator[World]:
    register = SimRegister(random.Random(1))
    a, b = (SimAuthority(Route(name, register, random.Random(name), delay_s=0.0)) for name in (A, B))

    async def cut() -> None:
        register.down()

    async def heal() -> None:
        register.up()

    yield World(a, b, cut, heal)


async def witness_world(folder: Path) -> AsyncIterator[World]:
    servers = [WitnessServer("127.0.0.1:0", folder)]
    port = await servers[0].start()
    a, b = (WitnessAuthority(f"127.0.0.1:{port}", "pair", name, timeout_s=OUTER_S) for name in (A, B))

    async def cut() -> None:
        await servers.pop().stop()

    async def heal() -> None:
        servers.append(WitnessServer(f"127.0.0.1:{port}", folder))
        await servers[0].start()

    await connected(a, b)
    yield World(a, b, cut, heal)
    for authority in (a, b):
        await authority.close()
    for server in servers:
        await server.stop()


async def etcd_world(folder: Path) -> AsyncIterator[World]:
    server = EtcdServer(folder)
    await server.start()
    a, b = (EtcdAuthority([server.endpoint], "/tandemq/", "pair", name, timeout_s=OUTER_S) for name in (A, B))
    await connected(a, b)
    yield World(a, b, server.kill, server.start)
    for authority in (a, b):
        await authority.close()
    await server.kill()


APART = [memory_world, simulated_world, witness_world, etcd_world]
"""Those that are no member, and may be away from one or from both."""


def name_of(made: Callable[[Path], AsyncIterator[World]]) -> str:
    return made.__name__.removesuffix("_world")


async def done(authority: Authority, expected: Register, desired: Register, domain: str = "main") -> Register:
    assert await authority.compare_and_set(domain, expected, desired) == CasDone(desired)
    return desired


async def formed(authority: Authority) -> Register:
    """a owns epoch 1, alone."""
    first = claim(Register(), member=A, epoch=1, members=frozenset({A}), nonce=b"1")
    return await done(authority, await done(authority, Register(), first), commit(first, nonce=b"2"))


async def connected(*authorities: Authority) -> None:
    """Each has had an answer: how long the first connection takes is no matter of the register."""
    for authority in authorities:
        await read_until(authority, Register)
        assert authority.connected


async def read_until(authority: Authority, wanted: type[Register | Unreachable]) -> Register | Unreachable:
    async with asyncio.timeout(OUTER_S):
        while True:
            if isinstance(found := await authority.get("main"), wanted):
                return found
            await asyncio.sleep(0)
