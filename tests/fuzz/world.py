"""One real manager in this process: a loop of virtual time, a store in memory, and no port; see
`replica.listen.machine_access`.

Calls and streams go to the handlers that its servers would be given, as bytes, with a context that the test holds.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc

from chaos.sim.kernel.environment import SimWriter
from failover.authority import Authority, MemoryAuthority, MemoryRegisters
from failover.journal import Journal
from replica.listen.machine_access import MachineAccess
from replica.listen.ports import Ports, Served
from replica.manager import Manager
from storage.memory import MemoryStore
from tandemq import ambient
from tandemq.config import ManagerConfig
from tests.fuzz.loop import VirtualLoop

_SHM = Path("/dev/shm")
_DIRECTORY = Path(tempfile.mkdtemp(prefix="tandemq-fuzz-", dir=_SHM if _SHM.is_dir() else None))
_numbers = itertools.count()
WALL_NS = 1_700_000_000 * 10**9


@contextmanager
def alone(loop: VirtualLoop) -> Iterator[None]:
    """Nothing else happens in this process meanwhile: time and chance are the loop's, and nobody reads the log."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    ambient.install(VirtualAmbient(loop))
    try:
        yield
    finally:
        ambient.install(ambient.MACHINE)
        logging.disable(before)


class VirtualAmbient:
    """Time is the loop's, chance comes from one seed."""

    def __init__(self, loop: VirtualLoop) -> None:
        self._loop = loop
        self._random = random.Random(1)

    def monotonic_ns(self) -> int:
        return round(self._loop.time() * 1e9)

    def wall_ns(self) -> int:
        return WALL_NS + self.monotonic_ns()

    def random_bytes(self, count: int) -> bytes:
        return self._random.randbytes(count)

    def fraction(self) -> float:
        return self._random.random()


class InlineExecutor(Executor):
    """Does it at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        done: Future[Any] = Future()
        done.set_result(fn(*args, **kwargs))
        return done


class NoPorts(Ports):
    """Keeps what would be served."""

    served: Served

    def __init__(self, config: ManagerConfig) -> None:
        super().__init__(config)
        self.serving: set[asyncio.Task[None]] = set()

    async def open(self, served: Served) -> None:
        self.served = served

    async def close(self, grace_s: float = 0.0) -> None:
        """Ends what is being served, as a server does that stops."""
        del grace_s
        for task in list(self.serving):
            task.cancel()
        await asyncio.gather(*self.serving, return_exceptions=True)

    def handler(self, method: str) -> grpc.RpcMethodHandler[Any, Any]:
        """Who serves `/service/Method`."""

        class Details:
            invocation_metadata = ()

        details: Any = Details()
        details.method = method
        for handler in self.served.handlers:
            found = handler.service(details)
            if found is not None:
                return found
        raise AssertionError(f"nobody serves {method}")

    async def report_health(self, *, master: bool, readable: bool) -> None:
        """Nobody asks."""


class Nowhere:
    """A channel to a member that is not there."""

    def unary_unary(self, _method: str, **_more: Any) -> Callable[..., Any]:
        async def call(*_args: Any, **_more: Any) -> bytes:
            raise _unavailable()

        return call

    def stream_stream(self, _method: str, **_more: Any) -> Callable[..., Any]:
        return lambda **_kw: _NoStream()

    unary_stream = stream_unary = stream_stream

    async def close(self, _grace: float | None = None) -> None:
        """Nothing is open."""


class _NoStream:
    async def write(self, _message: Any) -> None:
        raise _unavailable()

    async def read(self) -> Any:
        raise _unavailable()

    def cancel(self) -> None:
        """Nothing is under way."""


def _unavailable() -> grpc.aio.AioRpcError:
    nothing = grpc.aio.Metadata()
    return grpc.aio.AioRpcError(grpc.StatusCode.UNAVAILABLE, nothing, nothing, "nobody there")


class OneMember(MachineAccess):
    """The world of a manager that is alone in it."""

    def __init__(self, store: MemoryStore, registers: MemoryRegisters) -> None:
        self._store, self._registers = store, registers
        self.open_ports: NoPorts | None = None

    def store(self, config: ManagerConfig) -> MemoryStore:
        return self._store

    def authority(self, config: ManagerConfig) -> Authority:
        return MemoryAuthority(self._registers, config.member)

    def writer(self) -> SimWriter:
        return SimWriter()

    def journal(self, config: ManagerConfig) -> Journal:
        journal = super().journal(config)
        journal._writer = InlineExecutor()  # type: ignore[assignment]
        return journal

    def ports(self, config: ManagerConfig) -> Ports:
        self.open_ports = NoPorts(config)
        return self.open_ports

    def channel(self, address: str, options: Sequence[tuple[str, Any]]) -> Any:
        return Nowhere()

    async def is_refused(self, address: str) -> bool:
        return True


class AbortedError(Exception):
    """The handler has refused the call, as grpc's own exception would say it."""

    def __init__(self, code: grpc.StatusCode, text: str, trailers: Sequence[tuple[str, Any]]) -> None:
        super().__init__(f"{code.name}: {text}")
        self.code, self.text, self.trailers = code, text, trailers


class Context:
    """A call as its handler sees it: frames to read, a deadline, and what was written."""

    def __init__(self, frames: Sequence[Any] = (), *, seconds: float | None = 3.0, hop: str = "") -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._until = None if seconds is None else loop.time() + seconds
        self._frames: asyncio.Queue[Any] = asyncio.Queue()
        for frame in frames:
            self._frames.put_nowait(frame)
        self._hop = hop
        self.written: list[Any] = []
        self._code: grpc.StatusCode | None = None
        self._details = ""

    def feed(self, frame: Any) -> None:
        self._frames.put_nowait(frame)

    async def read(self) -> Any:
        await asyncio.sleep(0)
        found = await self._frames.get()
        if isinstance(found, BaseException):
            raise found
        return found

    async def write(self, message: Any) -> None:
        await asyncio.sleep(0)
        self.written.append(message)

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Any = ()) -> None:
        self._code, self._details = code, details
        raise AbortedError(code, details, trailing_metadata)

    def code(self) -> grpc.StatusCode | None:
        return self._code

    def details(self) -> str:
        return self._details

    def cancelled(self) -> bool:
        return False

    def time_remaining(self) -> float | None:
        return None if self._until is None else max(0.0, self._until - self._loop.time())

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return (("x-tandemq-hop", self._hop),) if self._hop else ()

    def peer(self) -> str:
        return "test"


class World:
    """A manager that is started and stopped inside `with`."""

    def __init__(self, *, paired: bool, member: str = "a", registers: MemoryRegisters | None = None) -> None:
        self.directory = _DIRECTORY / str(next(_numbers))
        self.loop = VirtualLoop()
        peer = {"a": "b", "b": "a"}[member]
        pair = {
            "pair": "p",
            "peer_member": peer,
            "peer_address": "127.0.0.1:7611",
            "peer_endpoint": "127.0.0.1:7610",
            "witness": "127.0.0.1:7620",
        }
        self.config = ManagerConfig(member=member, data_dir=str(self.directory), **(pair if paired else {}))
        self.store = MemoryStore(member=member, pair="p" if paired else "", instance=member.encode() * 16)
        self.registers = registers if registers is not None else MemoryRegisters()
        self.access = OneMember(self.store, self.registers)

    def run(self, story: Callable[[World], Any]) -> None:
        """Start, the story, stop; whatever the manager could not take is raised."""
        self.directory.mkdir()
        try:
            with self.loop, alone(self.loop):
                self.loop.run_until_complete(self._run(story))
        finally:
            shutil.rmtree(self.directory, ignore_errors=True)

    async def _run(self, story: Callable[[World], Any]) -> None:
        self.manager = Manager(self.config, self.access)
        await self.manager.start()
        node = self.manager._node
        assert node is not None
        self.node = node
        assert self.manager._members is not None
        self.members = self.manager._members
        try:
            await story(self)
            self.check_alive()
        finally:
            await self.manager.stop()

    def check_alive(self) -> None:
        """The manager has not given up."""
        if self.node.failed.done():
            raise AssertionError("the manager stops") from self.node.failed.result()

    def handler(self, method: str) -> grpc.RpcMethodHandler[Any, Any]:
        """Who serves `/service/Method`."""
        assert self.access.open_ports is not None
        return self.access.open_ports.handler(method)
