"""Names that move: run by test_names.py, in a network of its own (tests/support/names.py)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import grpc
import msgspec
import pytest

import tandemq
from chaos.cluster import WITNESS, Cluster
from failover.authority import Authority, WitnessAuthority
from failover.etcd import EtcdAuthority
from failover.register import Register
from failover.witness import WitnessServer
from replica.listen.machine_access import MachineAccess
from tandemq import aio
from tandemq.channels import lasting, open_channel
from tandemq.cli.view import PairView
from tandemq.config import ManagerConfig, member_ports, to_toml, witness_port
from tandemq.v1 import pair_service_pb2
from tandemq.v1.pair_service_pb2_grpc import PairServiceStub
from tandemq.witness.v1.witness_service_pb2 import GetRegisterRequest
from tandemq.witness.v1.witness_service_pb2_grpc import WitnessServiceStub
from tests.integration.support import raw_to
from tests.support.etcd import EtcdServer
from tests.support.names import Zone, silent
from tests.support.starvation import Stopwatch
from tests.support.until import OUTER_S, until

FOUND_S, ACKNOWLEDGED_S = 2.0, 3.0
MISSES = 6  # gRPC by itself waits 1, 1.6, 2.6, 4.1, 6.6 s after them, in the end two minutes
OLD, NEW, OTHER = "127.0.0.11", "127.0.0.12", "127.0.0.21"
Move = Callable[[str], Awaitable[None]]

pytestmark = [pytest.mark.process, pytest.mark.clock]


@pytest.fixture
async def zone() -> AsyncIterator[Zone]:
    async with Zone() as opened:
        yield opened


def judge(what: str, watch: Stopwatch, bound_s: float) -> None:
    print(f"{what}: {watch.took_s:.2f} s, at most {bound_s:g}; withheld {watch.starved_s:.2f} s")  # noqa: T201
    watch.judge(what, bound_s)


# -- who keeps the register --------------------------------------------------------------------------------------------


@asynccontextmanager
async def witness(folder: Path) -> AsyncIterator[tuple[Authority, Move]]:
    servers = [WitnessServer(f"{OLD}:7620", folder)]
    await servers[0].start()

    async def move(address: str) -> None:
        await servers.pop().stop()
        if address:
            servers.append(WitnessServer(f"{address}:7620", folder))
            await servers[0].start()
        else:
            servers.append(WitnessServer("", folder))  # nothing to stop

    authority = WitnessAuthority("register.test:7620", "pair", "a")
    try:
        yield authority, move
    finally:
        await authority.close()
        await servers[0].stop()


@asynccontextmanager
async def etcd(folder: Path) -> AsyncIterator[tuple[Authority, Move]]:
    server = EtcdServer(folder)
    port = server.endpoint.rpartition(":")[2]
    server.endpoint = f"{OLD}:{port}"
    await server.start()

    async def move(address: str) -> None:
        if not address:
            await server.kill()
            return
        server.endpoint = f"{address}:{port}"
        await server.start()

    authority = EtcdAuthority([f"register.test:{port}"], "/tandemq", "pair", "a")
    try:
        yield authority, move
    finally:
        await authority.close()
        await server.kill()


async def found(authority: Authority) -> None:
    async def is_read() -> bool:
        return isinstance(await authority.get("main"), Register)

    await until(is_read, "the register is found")


@pytest.mark.parametrize("kind", [witness, etcd])
async def test_the_register_is_found_where_its_name_has_moved(
    kind: Callable[[Path], asynccontextmanager], zone: Zone, tmp_path: Path
) -> None:
    zone.names["register.test"] = (OLD,)
    async with kind(tmp_path) as (authority, move):
        await found(authority)
        await move("")
        asking = asyncio.create_task(found(authority))
        await zone.take_away("register.test", MISSES)  # a pod that is being replaced has no address
        await move(NEW)
        with Stopwatch() as watch:
            zone.names["register.test"] = (NEW,)
            await asking
        judge(f"{kind.__name__} after a time without an address", watch, FOUND_S)

        await move("")
        await move(OLD)
        with Stopwatch() as watch:
            zone.names["register.test"] = (OLD,)
            await found(authority)
        judge(f"{kind.__name__} from one address to another", watch, FOUND_S)


async def test_a_channel_that_nobody_renews_asks_again_too(zone: Zone, tmp_path: Path) -> None:
    """As of a command that goes on after a break, and of one call that is repeated on it."""
    zone.names["register.test"] = (OLD,)
    async with witness(tmp_path) as (_, move), open_channel("register.test:7620", lasting()) as channel:
        stub = WitnessServiceStub(channel)

        async def is_answered() -> bool:
            try:
                await stub.GetRegister(GetRegisterRequest(pair="pair", domain="main"), timeout=1)
            except grpc.aio.AioRpcError:
                return False
            return True

        async def answered() -> None:
            await until(is_answered, "the register answers")

        await answered()
        await move(NEW)
        with pytest.raises(grpc.aio.AioRpcError):  # it has asked for the name, and still heard of the old address
            await stub.GetRegister(GetRegisterRequest(pair="pair", domain="main"), timeout=1)
        with Stopwatch() as watch:
            zone.names["register.test"] = (NEW,)
            await answered()
        judge("a channel of before", watch, FOUND_S)


# -- a pair ------------------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Named(Cluster):
    """A cluster whose processes know each other by name."""

    zone: Zone | None = None

    def at(self, name: str) -> str:
        assert self.zone is not None
        return self.zone.names[f"{name}.test"][0]

    def endpoint(self, name: str) -> str:
        return f"{name}.test:{member_ports(self.base_port, list(self.members).index(name)).client}"

    @property
    def witness_endpoint(self) -> str:
        return f"{WITNESS}.test:{witness_port(self.base_port)}"

    def config(self, name: str) -> ManagerConfig:
        ordinal = list(self.members).index(name)
        own, other = member_ports(self.base_port, ordinal), member_ports(self.base_port, 1 - ordinal)
        config = msgspec.structs.replace(
            Cluster.config(self, name),
            listen_client=f"{self.at(name)}:{own.client}",
            listen_peer=f"{self.at(name)}:{own.peer}",
        )
        if not self.paired:
            return config
        return msgspec.structs.replace(
            config,
            peer_address=f"{self.members[1 - ordinal]}.test:{other.peer}",
            peer_endpoint=self.endpoint(self.members[1 - ordinal]),
            witness=self.witness_endpoint,
        )

    async def die(self, name: str) -> None:
        self.kill(name)
        process = self.children[name].process
        assert process is not None
        assert process.stdin is not None
        await asyncio.to_thread(process.wait)
        process.stdin.close()

    async def replace(self, name: str, address: str, misses: int) -> None:
        """It dies, its name goes, and comes back with the process at another address."""
        assert self.zone is not None
        await self.die(name)
        await self.zone.take_away(f"{name}.test", misses)
        self.zone.names[f"{name}.test"] = (address,)
        self.listens(name)
        await self.restart(name, OUTER_S)

    def listens(self, name: str) -> None:
        if name == WITNESS:
            arguments = self.children[name].arguments
            arguments[arguments.index("--listen") + 1] = f"{self.at(name)}:{witness_port(self.base_port)}"
        else:
            self.config_file(name).write_text(to_toml(self.config(name)), encoding="utf-8")


@asynccontextmanager
async def running(cluster: Named) -> AsyncIterator[None]:
    for name in cluster.children:
        if name == WITNESS:
            cluster.listens(name)
    async with cluster.running(OUTER_S):
        yield


async def test_a_pair_goes_on_where_names_have_moved(zone: Zone, tmp_path: Path) -> None:
    zone.names |= {"a.test": (OLD,), "b.test": (OTHER,), f"{WITNESS}.test": ("127.0.0.31",)}
    cluster = Named(tmp_path, zone=zone)
    async with AsyncExitStack() as stack:
        await stack.enter_async_context(running(cluster))
        client = await stack.enter_async_context(aio.connect(cluster.target, timeout=OUTER_S))
        await client.create_queue("q")
        await client.enqueue("q", [b"1"])
        async with raw_to(cluster.endpoint("b")) as [replica]:
            await replica.send("q", b"2")  # its channel to the master's client port is there from now on

        await cluster.replace(WITNESS, "127.0.0.32", 2 * MISSES)  # of both members
        cluster.kill("a")
        with Stopwatch() as watch:
            [receipt] = await client.enqueue("q", [b"3"])
        assert receipt.copies == 1
        judge("the master dies after the witness's pod was replaced", watch, ACKNOWLEDGED_S)

        with Stopwatch() as watch:
            await cluster.replace("a", NEW, MISSES)
            await cluster.wait_for(PairView.whole, "whole again", OUTER_S)
        print(f"a is back under its name, and in step, after {watch.took_s:.2f} s")  # noqa: T201
        async with grpc.aio.insecure_channel(cluster.endpoint("b")) as channel:
            request = pair_service_pb2.HandoffRequest(reason="names")
            answer = await PairServiceStub(channel).Handoff(request, timeout=OUTER_S)
            assert answer.done, answer.text
        async with raw_to(cluster.endpoint("b")) as [replica]:
            with Stopwatch() as watch:
                await replica.send("q", b"4")  # over the channel of before, whose name has moved
        judge("a call that b sends on to a", watch, FOUND_S)

        await cluster.wait_for(PairView.whole, "whole", OUTER_S)
        await cluster.replace("b", "127.0.0.22", MISSES)
        await cluster.wait_for(PairView.whole, "whole again", OUTER_S)
        cluster.kill("a")
        with Stopwatch() as watch:
            await client.enqueue("q", [b"5"])
        judge("the master dies after its peer was replaced", watch, ACKNOWLEDGED_S)
        async with raw_to(cluster.endpoint("b")) as [member]:
            assert await member.take("q", 10) == [b"1", b"2", b"3", b"4", b"5"]


async def sends_async(target: str, moved: Awaitable[None]) -> None:
    async with aio.connect(target, timeout=OUTER_S) as client:
        await client.create_queue("q")
        await moved
        await client.enqueue("q", [b"x"])


async def sends_blocking(target: str, moved: Awaitable[None]) -> None:
    client = await asyncio.to_thread(tandemq.connect, target, timeout=OUTER_S)
    try:
        await asyncio.to_thread(client.create_queue, "q")
        await moved
        await asyncio.to_thread(client.enqueue, "q", [b"x"])
    finally:
        await asyncio.to_thread(client.close)


@pytest.mark.parametrize("sends", [sends_async, sends_blocking])
async def test_a_client_finds_a_member_that_has_moved(
    sends: Callable[[str, Awaitable[None]], Awaitable[None]], zone: Zone, tmp_path: Path
) -> None:
    zone.names["a.test"] = (OLD,)
    cluster = Named(tmp_path, members=("a",), zone=zone)
    loop = asyncio.get_running_loop()
    connected, gone = asyncio.Event(), loop.create_future()

    async def moved() -> None:
        connected.set()
        await gone

    async with cluster.running(OUTER_S):
        sending = asyncio.create_task(sends(cluster.endpoint("a"), moved()))
        await connected.wait()
        await cluster.die("a")
        gone.set_result(None)
        await zone.take_away("a.test", MISSES)
        zone.names["a.test"] = (NEW,)
        cluster.listens("a")
        zone.names.pop("a.test")
        cluster.spawn("a")

        async def listens() -> bool:
            return not await refuses(NEW, member_ports(cluster.base_port, 0).client)

        await until(listens, "a listens where it has moved to")
        with Stopwatch() as watch:
            zone.names["a.test"] = (NEW,)
            await sending
        judge(f"{sends.__name__} to a member that has moved", watch, FOUND_S)


async def refuses(address: str, port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection(address, port)
    except OSError:
        return True
    writer.close()
    return False


# -- names of several addresses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["refuses", "is silent"])
async def test_a_dead_address_does_not_hide_the_next_one(first: str, zone: Zone, tmp_path: Path) -> None:
    zone.names["register.test"] = (NEW, OLD)
    dead = silent(NEW, 7620) if first == "is silent" else []
    async with witness(tmp_path) as (authority, _):
        with Stopwatch() as watch:
            await found(authority)
        judge(f"the first address {first}", watch, FOUND_S)
    for each in dead:
        each.close()


async def test_a_name_refuses_when_all_of_its_addresses_do(zone: Zone) -> None:
    access = MachineAccess()
    zone.names |= {"one.test": (OLD,), "two.test": (OLD, NEW)}
    assert await access.is_refused("one.test:7601")
    assert await access.is_refused("two.test:7601")
    assert not await access.is_refused("none.test:7601")
    dead = silent(NEW, 7601)
    assert not await access.is_refused("two.test:7601")
    for each in dead:
        each.close()
    async with await asyncio.start_server(lambda _reader, writer: writer.close(), NEW, 7601):
        assert not await access.is_refused("two.test:7601")
