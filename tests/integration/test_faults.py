"""What may be wrong around a member: peer, directory, ports, room. It says so, and serves on or stays out."""

from __future__ import annotations

import asyncio
import itertools
import os
import shutil
import socket
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import lmdb
import msgspec
import pytest

from chaos.cluster import WITNESS, Cluster
from tandemq.cli.view import DomainView, PairView
from tandemq.config import Limits, member_ports, to_toml
from tandemq.peer.v1.peer_service_pb2 import (
    DomainHello,
    HeartbeatFrame,
    Hello,
    Op,
    OpEntry,
    PeerFrame,
    SyncBegin,
    TransferFrame,
)
from tandemq.peer.v1.peer_service_pb2_grpc import PeerServiceStub
from tandemq.v1.pair_service_pb2 import GetPairStatusRequest
from tests.integration.support import (
    CHANNEL_OPTIONS,
    configured,
    member_view,
    new_name,
    raw_to,
    refused,
    still_serves,
    stopped_at_end,
)
from tests.support.clusters import patient
from tests.support.until import OUTER_S, POLL_S, until

pytestmark = pytest.mark.process

STATE = grpc.StatusCode.FAILED_PRECONDITION
PEER = "/tandemq.peer.v1.PeerService/"


# -- the peer port -----------------------------------------------------------------------------------------------------


@pytest.fixture
async def lonely(tmp_path: Path) -> AsyncIterator[Cluster]:
    """Member a and the witness; b is whoever dials the peer port."""
    cluster = configured(tmp_path)
    async with stopped_at_end(cluster):
        for name in (WITNESS, "a"):
            cluster.spawn(name)
            await cluster.wait_answers(name)
        yield cluster
        cluster.spawn("b")
        await cluster.wait_ready()
        await still_serves(cluster)


@pytest.fixture
async def peer_port(lonely: Cluster) -> AsyncIterator[grpc.aio.Channel]:
    address = f"127.0.0.1:{member_ports(lonely.base_port, 0).peer}"
    async with grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
        yield channel


def _hello(**changes: Any) -> Hello:
    facts = {
        "pair": "pair",
        "member": "b",
        "instance_id": os.urandom(16).hex(),
        "incarnation": 1,
        "protocol_min": 1,
        "protocol_max": 1,
        "endpoint": "127.0.0.1:1",
    }
    return Hello(**{**facts, **changes})


async def _end_of(call: Any) -> None:
    """Reads until the stream ends; raises how it ended unless that was in good order."""
    while await call.read() is not grpc.aio.EOF:
        pass
    if await call.code() is not grpc.StatusCode.OK:
        raise grpc.aio.AioRpcError(
            await call.code(), await call.initial_metadata(), await call.trailing_metadata(), await call.details()
        )


WRONG_PEERS: list[tuple[dict[str, Any], str, tuple[str, ...]]] = [
    ({"pair": "other"}, "WRONG_PAIR", ("'other'", "'pair'", "check")),
    ({"member": "c"}, "WRONG_PAIR", ("'c'", "'b'", "check")),
    ({"member": "a"}, "WRONG_PAIR", ("'a'", "'b'", "check")),
    ({"protocol_min": 7, "protocol_max": 9}, "NEWER_FORMAT", ("7 to 9", "upgrade")),
]


@pytest.mark.promise
async def test_p13_a_wrong_peer_is_refused(lonely: Cluster, peer_port: grpc.aio.Channel) -> None:
    async with raw_to(lonely.endpoint("a")) as [member]:
        own = (await member.pair.GetPairStatus(GetPairStatusRequest(), timeout=OUTER_S)).member.instance_id
    copy = ({"instance_id": own}, "WRONG_PAIR", ("copies of one data directory", "empty one"))
    for hello, reason, words in (*WRONG_PEERS, copy):
        call = PeerServiceStub(peer_port).Data(timeout=OUTER_S)
        await call.write(PeerFrame(hello=_hello(**hello)))
        with refused(reason, STATE, *words):
            await _end_of(call)


async def test_garbage_on_the_peer_port_is_refused(peer_port: grpc.aio.Channel) -> None:
    for stream in ("Data", "Heartbeat", "Transfer"):
        call = peer_port.stream_stream(PEER + stream)(timeout=OUTER_S)
        await call.write(b"\xff\xff\xff garbage")
        with refused("BAD_REQUEST", grpc.StatusCode.INVALID_ARGUMENT, stream):
            await _end_of(call)


async def test_a_first_frame_that_is_no_hello_is_refused(peer_port: grpc.aio.Channel) -> None:
    invalid, stub = grpc.StatusCode.INVALID_ARGUMENT, PeerServiceStub(peer_port)
    data = stub.Data(timeout=OUTER_S)
    await data.write(PeerFrame(domain=1, epoch=1, op=Op(commit_index=1)))
    with refused("BAD_REQUEST", invalid, "must be HELLO"):
        await _end_of(data)
    for call, frame in (
        (stub.Heartbeat(timeout=OUTER_S), HeartbeatFrame(number=1)),
        (stub.Transfer(timeout=OUTER_S), TransferFrame(member="c")),
    ):
        await call.write(frame)
        with refused("WRONG_PAIR", STATE, "only b"):
            await _end_of(call)


class FakePeer:
    """Member b as far as its three streams."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        stub = PeerServiceStub(channel)
        self.raw = channel.stream_stream(PEER + "Data")()
        self.beat = stub.Heartbeat()
        self.transfer = stub.Transfer()
        self._beating: asyncio.Task[None]

    async def connect(self, **changes: Any) -> Hello:
        """Opens all three; returns the other side's HELLO."""
        await self.raw.write(PeerFrame(hello=_hello(**changes)).SerializeToString())
        first = PeerFrame.FromString(await asyncio.wait_for(self.raw.read(), OUTER_S))
        assert first.HasField("hello"), first
        await self.beat.write(HeartbeatFrame(member="b"))
        await self.transfer.write(TransferFrame(member="b"))
        self._beating = asyncio.create_task(self._beats())
        return first.hello

    async def _beats(self) -> None:
        """A peer whose frames are bad is not a silent one."""
        for number in itertools.count(2):
            await self.beat.write(HeartbeatFrame(number=number))
            await asyncio.sleep(POLL_S)

    def leave(self) -> None:
        self._beating.cancel()
        self.raw.cancel()

    async def send(self, frame: PeerFrame) -> None:
        await self.raw.write(frame.SerializeToString())

    async def ended(self) -> None:
        """Returns when the member has ended the connection."""
        async with asyncio.timeout(OUTER_S):
            while await self.raw.read() is not grpc.aio.EOF:
                pass


async def _connected(cluster: Cluster) -> bool:
    view = await member_view(cluster, "a")
    return view is not None and view.peer_connected


async def test_a_malformed_frame_ends_the_session_and_nothing_else(
    lonely: Cluster, peer_port: grpc.aio.Channel
) -> None:
    """A reader that died of a frame left a session that beat on and carried nothing: the pair stood still for good."""

    async def connected() -> bool:
        return await _connected(lonely)

    async def disconnected() -> bool:
        return not await _connected(lonely)

    async def follows() -> bool:
        view = await member_view(lonely, "a")
        domain = view.domain("main") if view else None
        return domain is not None and (domain.role, domain.epoch) == ("REPLICA", 1)

    top = (1 << 64) - 1
    domains = [DomainHello(domain=number, name=name) for number, name in ((1, "nowhere"), (2, ""))]
    for kind in ("garbage", "no record", "huge", "unknown domain"):
        peer = FakePeer(peer_port)
        hello = await peer.connect(domains=domains)
        main = next(domain for domain in hello.domains if domain.name == "main")
        await until(connected, "the session of the fake peer")
        if kind == "garbage":
            await peer.raw.write(b"\xff\xff\xff garbage")
            await peer.ended()
        elif kind == "no record":  # first it makes the member follow, then it sends what is none
            begin = SyncBegin(sync_id=1, base_digest=bytes(16), target_index=1)
            await peer.send(PeerFrame(domain=main.domain, epoch=1, sync_begin=begin))
            await until(follows, "that it follows epoch 1")
            op = Op(entries=[OpEntry(record=b"TQ")], commit_index=1)
            await peer.send(PeerFrame(domain=main.domain, epoch=1, op=op))
            await peer.ended()
        elif kind == "huge":
            await peer.send(PeerFrame(domain=main.domain, epoch=top, digest_query={"index": top}))
            await peer.send(PeerFrame(domain=main.domain, epoch=top, fetch_body={"indexes": [top]}))
            await peer.send(PeerFrame(domain=main.domain, epoch=top, op_ack={"durable_index": top}))
        else:
            await peer.send(PeerFrame(domain=main.domain ^ 1, epoch=1, op=Op()))
            await peer.send(PeerFrame())
        assert lonely.children["a"].running
        peer.leave()
        await until(disconnected, "the end of the session")


@pytest.mark.promise
async def test_p13_a_frame_of_an_old_epoch_has_no_effect(tmp_path: Path) -> None:
    """Frames of epoch 1 at a master of epoch 2 are dropped, and answered by HELLO."""
    async with stopped_at_end(configured(tmp_path)) as cluster:
        await cluster.start()
        name = new_name()
        async with raw_to(cluster.endpoint("a")) as [member]:
            await member.create(name)
            await member.send(name, b"kept")
            cluster.kill("b")
            await cluster.wait_for(lambda view: _epoch(view, "a") == 2, "epoch 2 at a")
            async with grpc.aio.insecure_channel(
                f"127.0.0.1:{member_ports(cluster.base_port, 0).peer}", options=CHANNEL_OPTIONS
            ) as channel:
                peer = FakePeer(channel)
                hello = await peer.connect(incarnation=2)  # start 1 was here already
                main = next(domain for domain in hello.domains if domain.name == "main")
                assert main.epoch == 2
                await cluster.wait_for(lambda view: _link(view, "a") == "HANDSHAKE", "the session at a's core")
                before = await member_view(cluster, "a")
                record = OpEntry(record=b"\x00" * 80)
                for frame in ({"op": Op(entries=[record], commit_index=99)}, {"op_ack": {"durable_index": 99}}):
                    await peer.send(PeerFrame(domain=main.domain, epoch=1, **frame))
                async with asyncio.timeout(OUTER_S):
                    while True:
                        answer = PeerFrame.FromString(await peer.raw.read())
                        if answer.HasField("hello"):
                            break
                after = await member_view(cluster, "a")
                assert before is not None
                assert after is not None
                then, now = before.domain("main"), after.domain("main")
                assert then is not None
                assert now is not None
                assert msgspec.structs.replace(now, peer_lag_ms=then.peer_lag_ms) == then, "only time has passed"
                peer.leave()
            assert await member.take(name) == [b"kept"]
        await cluster.restart("b")  # as start 2, whose place is taken
        await cluster.restart("b")
        await cluster.wait_for(PairView.equal, "equal members")
        await still_serves(cluster)


def _main(view: PairView, name: str) -> DomainView | None:
    member = next((member for member in view.members if member.name == name), None)
    return member.domain("main") if member else None


def _epoch(view: PairView, name: str) -> int:
    domain = _main(view, name)
    return domain.epoch if domain is not None and domain.role == "MASTER" else 0


def _link(view: PairView, name: str) -> str:
    domain = _main(view, name)
    return domain.link_state if domain is not None else ""


# -- the directory -----------------------------------------------------------------------------------------------------


async def _ends(cluster: Cluster, name: str) -> str:
    """Waits until the process has ended with exit code 1; what it wrote."""
    child = cluster.children[name]
    assert child.process is not None
    assert await asyncio.to_thread(child.process.wait, 15) == 1, child.tail()
    if child.process.stdin:
        child.process.stdin.close()
    return child.log.read_text()


def _says(text: str, reason: str, *words: str) -> None:
    for word in (f"error: {reason}", *words):
        assert word in text, f"{word!r} is not in: {text}"


def _solo(data_dir: Path, **settings: Any) -> Cluster:
    return configured(data_dir, members=("a",), **settings)


async def _stopped(cluster: Cluster) -> None:
    """A directory that was used, and whose process has ended in order."""
    async with cluster.running():
        await still_serves(cluster)


async def test_a_directory_of_another_pair_or_member_is_refused(tmp_path: Path) -> None:
    pair = configured(tmp_path / "pair")
    await _stopped(pair)
    stranger = configured(tmp_path / "stranger", pair="elsewhere")
    shutil.copytree(pair.data_dir / "a", stranger.data_dir / "a")
    shutil.copytree(pair.data_dir / "a", stranger.data_dir / "b")
    for name, owner in (("a", "member a of pair pair"), ("b", "member a of pair pair")):
        stranger.spawn(name)
        _says(await _ends(stranger, name), "WRONG_PAIR", owner, str(stranger.data_dir / name), "its own directory")
    async with stopped_at_end(pair):
        await pair.start()
        await still_serves(pair)


async def test_a_directory_of_a_newer_format_is_refused_and_left_alone(tmp_path: Path) -> None:
    cluster = _solo(tmp_path)
    await _stopped(cluster)
    directory = cluster.data_dir / "a"

    def set_format(value: bytes) -> bytes:
        with lmdb.Environment(os.fspath(directory), max_dbs=8, lib_version=0) as environment:
            meta = environment.open_db(b"meta")
            with environment.begin(write=True, db=meta) as txn:
                [key] = [bytes(key) for key, _ in txn.cursor() if b"format" in bytes(key)]
                old = txn.get(key)
                assert old is not None
                txn.put(key, value)
                return bytes(old)

    old = set_format(b"99")
    cluster.spawn("a")
    _says(await _ends(cluster, "a"), "NEWER_FORMAT", "format 99", str(directory), "Run the version")
    set_format(old)
    async with stopped_at_end(cluster):
        await cluster.start()
        await still_serves(cluster)


async def test_a_second_process_on_a_directory_is_refused(tmp_path: Path) -> None:
    first = _solo(tmp_path / "first")
    async with stopped_at_end(first):
        await first.start()
        second = _solo(tmp_path / "second")
        config = msgspec.structs.replace(second.config("a"), data_dir=str(first.data_dir / "a"))
        second.config_file("a").write_text(to_toml(config))
        second.spawn("a")
        holder = f"process {first.children['a'].pid}"
        _says(await _ends(second, "a"), "DIRECTORY_IN_USE", holder, str(first.data_dir / "a"), "Stop that process")
        await still_serves(first)


# -- ports -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", [0, 1, 2], ids=["client", "peer", "http"])
async def test_a_port_in_use_is_named(tmp_path: Path, place: int) -> None:
    cluster = configured(tmp_path)
    port = member_ports(cluster.base_port, 0)[place]
    with socket.socket() as taken:
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", port))
        taken.listen()
        cluster.spawn("a")
        _says(await _ends(cluster, "a"), "PORT_IN_USE", f"127.0.0.1:{port}", "choose another port")
    async with stopped_at_end(cluster):
        await cluster.start()  # nothing was left locked or half made
        await still_serves(cluster)


# -- room --------------------------------------------------------------------------------------------------------------


@pytest.mark.promise
@pytest.mark.parametrize("members", [("a", "b"), ("a",)], ids=["pair", "unpaired"])
async def test_a_full_store_refuses_sending_and_still_settles(tmp_path: Path, members: tuple[str, ...]) -> None:
    """Only a pair looked at its room: an unpaired manager took all until a commit could not be written."""
    cluster = patient(tmp_path, members=members, limits=Limits(map_bytes=16 << 20))
    async with cluster.running(), raw_to(*cluster.endpoints) as raws:
        first, last, name = raws[0], raws[-1], new_name()
        await first.create(name)
        exhausted = grpc.StatusCode.RESOURCE_EXHAUSTED
        sent = 0
        with refused("STORAGE_FULL", exhausted, "map_bytes", "consume"):
            while sent < 200:
                await last.send(name, b"x" * 100_000)
                sent += 1
        assert 60 < sent < 170
        for member in raws:
            with refused("STORAGE_FULL", exhausted):
                await member.send(name, b"x")
        got = await last.receive(name, 10)
        assert len(got.messages) == 10
        assert [result.settled for result in (await first.ack(name, got)).results] == [10]
        assert all(child.running for child in cluster.children.values())
