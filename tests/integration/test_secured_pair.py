"""A pair with certificates, in processes: who gets in and who does not, over kills and exchanged certificates.

Without certificates a second process with the pair's name and an empty directory became the in-sync replica while the
real one was down, and then the master. Here such a process gets nowhere.
"""

from __future__ import annotations

import asyncio
import json
import re
import socket
import ssl
import time
import urllib.request
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import msgspec
import pytest
from click.testing import CliRunner

from chaos.cluster import CLIENT, WITNESS, Child, Cluster
from failover.authority import WitnessAuthority
from failover.register import Register
from replica.peer.wire import SERVICE, STREAMS, PeerStub
from tandemq import aio
from tandemq.channels import Open, expecting
from tandemq.cli import root
from tandemq.cli.view import PairView, look
from tandemq.config import ManagerConfig, member_ports, to_toml
from tandemq.config_security import Security
from tandemq.credentials import trouble
from tandemq.credentials.authority import create, issue
from tandemq.credentials.channels import port_credentials
from tandemq.credentials.chosen import opener_of
from tandemq.credentials.files import Credentials, client_context
from tandemq.v1 import pair_service_pb2 as pb
from tandemq.v1 import pair_service_pb2_grpc as pb_grpc
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

QUEUE = "orders"
PEOPLE = {
    "a": "member/pair/a",
    "b": "member/pair/b",
    WITNESS: "witness/witness",
    CLIENT: "principal/billing",
    "elsewhere": "member/elsewhere/a",
}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("credentials")
    issue_all(made)
    for name in ("a", "b"):
        issue(create(made / f"foreign-{name}").parent, PEOPLE[name], made / f"stranger-{name}")
    return made


def issue_all(folder: Path) -> None:
    authority = folder / "authority"
    if not authority.exists():
        create(authority)
    for name, who in PEOPLE.items():
        issue(authority, who, folder / name)


@pytest.fixture(scope="module")
def pair(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Whole at the beginning of each test."""
    cluster = patient(tmp_path_factory.mktemp("pair"), secured=folder, operators=["billing"])

    async def begin() -> None:
        await cluster.start()
        async with aio.connect(cluster.target, credentials=folder / CLIENT, timeout=OUTER_S) as client:
            await client.create_queue(QUEUE)

    asyncio.run(begin())
    yield cluster
    asyncio.run(cluster.stop())


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason may take as long as the machine does: here it is what is looked at."""
    monkeypatch.setattr(trouble, "LOOK_S", OUTER_S)


@pytest.fixture
async def client(pair: Cluster, folder: Path) -> AsyncIterator[aio.Client]:
    async with aio.connect(pair.target, credentials=folder / CLIENT, timeout=OUTER_S) as made:
        yield made


async def roles(pair: Cluster) -> tuple[str, str]:
    """Master and replica of a pair that is whole."""
    (master,) = (await pair.wait_ready()).masters()
    return master, "b" if master == "a" else "a"


def stands_alone(name: str) -> Any:
    def holds(view: PairView) -> bool:
        member = next((each for each in view.members if each.name == name), None)
        main = member.domain("main") if member is not None else None
        return main is not None and main.role == "MASTER" and main.in_sync_set == (name,)

    return holds


def peer_port(pair: Cluster, name: str) -> str:
    return f"127.0.0.1:{member_ports(pair.base_port, ['a', 'b'].index(name)).peer}"


@asynccontextmanager
async def impostor(pair: Cluster, name: str, credentials: str, data_dir: Path) -> AsyncIterator[Child]:
    """A process with everything that the member's configuration says, an empty directory and these credentials."""
    security = Security(credentials=credentials, administrators=("billing",))
    config = msgspec.structs.replace(pair.config(name), data_dir=str(data_dir / "data"), security=security)
    child = Child("impostor", ["tandemq", "serve", "--config", str(written(data_dir, config))], data_dir / "log")
    child.spawn(None)
    try:
        yield child
    finally:
        child.signal(9)
        assert child.process is not None
        await asyncio.to_thread(child.process.wait)
        if child.process.stdin is not None:
            child.process.stdin.close()


def written(data_dir: Path, config: ManagerConfig) -> Path:
    data_dir.mkdir()
    file = data_dir / "impostor.toml"
    file.write_text(to_toml(config))
    return file


async def test_a_process_with_the_pairs_name_never_becomes_part_of_the_pair(
    pair: Cluster, folder: Path, client: aio.Client, tmp_path: Path
) -> None:
    await send(client, b"before")
    master, replica = await roles(pair)
    pair.kill(replica)
    await pair.wait_for(stands_alone(master), "alone")
    dialler = "b"
    for number, credentials in enumerate(("", str(folder / f"stranger-{replica}"))):
        async with impostor(pair, replica, credentials, tmp_path / str(number)) as child:
            log = child.log if dialler == replica else pair.children[master].log
            await until(lambda log=log: log.exists() and "no connection to" in log.read_text(), "it is refused")
            own = opener_of(credentials)

            async def waits(opener: Open = own) -> PairView | None:
                view = await look([pair.endpoint(replica)], OUTER_S, opener)
                return view if any(each.name == replica and each.reachable for each in view.members) else None

            seen = await until(waits, "it serves at its own port")
            main = next(each for each in seen.members if each.name == replica).domain("main")
            assert main is not None
            assert main.role != "MASTER"
            assert main.data_state != "IN_SYNC"
            await send(client, b"meanwhile")
            view = await pair.status()
            assert stands_alone(master)(view)
            assert not next(each for each in view.members if each.name == master).peer_connected
            assert child.running
    await pair.restart(replica)
    await pair.wait_ready()
    payloads = [await take(client) for _ in range(3)]
    assert payloads == [b"before", b"meanwhile", b"meanwhile"]


async def send(client: aio.Client, payload: bytes) -> None:
    async with client.producer(QUEUE) as producer:
        await producer.send(payload)


async def take(client: aio.Client) -> bytes:
    async with client.consumer(QUEUE, credit_messages=1) as consumer:
        delivery = await anext(aiter(consumer))
        delivery.ack()
        return bytes(delivery.payload)


@pytest.mark.parametrize("name", [CLIENT, "elsewhere", "own"])
async def test_whoever_is_not_the_peer_is_refused_before_his_first_word(pair: Cluster, folder: Path, name: str) -> None:
    """All of these have certificates of the pair's authority: of a client, of a member a of another pair, its own."""
    for member in ("a", "b"):
        opener = opener_of(str(folder / (member if name == "own" else name)))
        async with opener(peer_port(pair, member), expecting(f"{member}.pair.member.tandemq")) as channel:
            stub = PeerStub(channel)
            for stream in (stub.Data, stub.Heartbeat, stub.Transfer):
                call = stream(timeout=OUTER_S)
                with pytest.raises(grpc.aio.AioRpcError, match="may call this port") as caught:
                    await call.read()
                assert caught.value.code() is grpc.StatusCode.PERMISSION_DENIED
    assert (await pair.status()).whole()


async def test_a_client_goes_on_after_a_kill_and_the_survivor_dials_nobody_else(
    pair: Cluster, folder: Path, client: aio.Client
) -> None:
    master, _ = await roles(pair)
    async with client.producer(QUEUE) as producer:
        await producer.send(b"1")
        pair.kill(master)
        await producer.send(b"2")
    assert [await take(client), await take(client)] == [b"1", b"2"]
    if master == "a":  # b dials it
        called: list[str] = []
        async with listening(peer_port(pair, "a"), folder / "elsewhere", called):
            log = pair.children["b"].log
            await until(lambda: "Hostname Verification" in log.read_text(), "another member at its place is refused")
        assert called == [], "not a word was said to it"
    await pair.restart(master)
    await pair.wait_ready()


@asynccontextmanager
async def listening(address: str, directory: Path, called: list[str]) -> AsyncIterator[None]:
    """Somebody else of the same authority, at the peer's place."""

    async def call(_request: object, context: Any) -> None:
        called.append(str(context.peer()))

    handlers = {name: grpc.stream_stream_rpc_method_handler(call) for name in STREAMS}
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    server.add_secure_port(address, port_credentials(Credentials(directory)))
    await server.start()
    try:
        yield
    finally:
        await server.stop(0)


def handshake(endpoint: str, context: ssl.SSLContext) -> tuple[str | None, object]:
    host, _, number = endpoint.rpartition(":")
    plain = socket.create_connection((host, int(number)), timeout=OUTER_S)
    with plain, context.wrap_socket(plain, server_hostname=host) as tls:
        return tls.version(), (tls.getpeercert() or {})["serialNumber"]


async def test_exchanged_certificates_are_used_at_the_next_handshake_without_a_restart(
    pair: Cluster, folder: Path, client: aio.Client
) -> None:
    ports = [*pair.endpoints, *(peer_port(pair, name) for name in ("a", "b")), pair.witness_endpoint]

    async def shown() -> list[object]:
        context = client_context(folder / CLIENT)
        found = [await asyncio.to_thread(handshake, each, context) for each in ports]
        assert {version for version, _ in found} == {"TLSv1.3"}
        return [serial for _, serial in found]

    before = await shown()
    await send(client, b"old")
    issue_all(folder)
    after = await shown()
    assert not set(before) & set(after)
    await send(client, b"new")
    _, replica = await roles(pair)
    await pair.restart(replica)  # the connection between the members begins with the new ones
    await pair.wait_ready()
    assert [await take(client), await take(client)] == [b"old", b"new"]


async def test_older_tls_and_clear_text_get_nothing(pair: Cluster, folder: Path) -> None:
    older = client_context(folder / CLIENT)
    older.minimum_version = older.maximum_version = ssl.TLSVersion.TLSv1_2
    for endpoint in (*pair.endpoints, peer_port(pair, "a"), pair.witness_endpoint):
        with pytest.raises(OSError, match=r"EOF|reset|alert"):
            await asyncio.to_thread(handshake, endpoint, older)
        reader, writer = await asyncio.open_connection(*endpoint.split(":"))
        writer.write(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0)))
        async with asyncio.timeout(OUTER_S):
            assert await reader.read(1) == b""
        writer.close()


async def test_the_witness_takes_sets_of_the_members_alone(pair: Cluster, folder: Path) -> None:
    for name in (CLIENT, "elsewhere", "b"):
        asked = WitnessAuthority(pair.witness_endpoint, "pair", "a", OUTER_S, opener_of(str(folder / name)))
        known = await asked.get("main")
        assert isinstance(known, Register)
        outcome = await asked.compare_and_set("main", known, claimed(known))
        assert "PERMISSION_DENIED" in repr(outcome)
        assert await asked.get("main") == known
        await asked.close()


def claimed(known: Register) -> Register:
    """A set that would be refused for nothing but who asks."""
    from failover.register import claim

    return claim(known, member="a", epoch=known.epoch + 1, members=frozenset({"a"}), nonce=b"impostor")


async def test_the_page_about_security_connects(pair: Cluster, folder: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "SECURITY.md").read_text(encoding="utf-8")
    (snippet,) = re.findall(r"^```python\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    first, second = pair.endpoints
    code = snippet.replace("127.0.0.1:7600", first).replace("127.0.0.1:7610", second)
    code = code.replace('"./billing"', repr(str(folder / CLIENT)))
    await asyncio.to_thread(exec, compile(code, "SECURITY.md", "exec"), {})


async def test_commands_show_credentials_and_orders_are_journalled_by_name(pair: Cluster, folder: Path) -> None:
    async def run(*words: str, code: int = 0) -> str:
        result = await asyncio.to_thread(CliRunner().invoke, root, [*words, "--target", pair.target])
        assert result.exit_code == code, result.output
        return result.output

    shown = ("--credentials", str(folder / CLIENT))
    where = await run("config", "where", *shown, "-o", "json")
    assert [each["state"] for each in json.loads(where)["managers"]] == ["answers, used"] * 2, where
    assert '"IN_SYNC"' in await run("pair", "status", "-o", "json", *shown)
    assert QUEUE in await run("queue", "ls", *shown)
    assert "wants a certificate" in await run("queue", "ls", "--timeout", "1s", code=3)
    assert "wants a certificate" in await run("pair", "maintenance", "on", "--member", "a", "--yes", code=3)
    _, replica = await roles(pair)
    async with opener_of(str(folder / CLIENT))(pair.endpoint(replica), ()) as channel:
        stub = pb_grpc.PairServiceStub(channel)
        order = pb.SetAutomationRequest(paused=True, reason="to see who it was")
        await stub.SetAutomation(order, timeout=OUTER_S)
        await stub.SetAutomation(pb.SetAutomationRequest(paused=False, reason="that was all"), timeout=OUTER_S)

        async def orders() -> list[str]:
            events = (await stub.ListEvents(pb.ListEventsRequest(), timeout=OUTER_S)).events
            found = [each.facts["by"] for each in events if each.kind == pb.PAIR_EVENT_KIND_OPERATOR]
            return found if len(found) == 2 else []

        by = await until(orders, "both orders are journalled")
    assert all(each.startswith("principal/billing at ipv4:127.0.0.1:") for each in by)


async def test_a_member_is_forced_after_an_operator_has_named_it_at_the_witness(pair: Cluster, folder: Path) -> None:
    """Left alone with an old copy: the witness takes no word of a member, which says what is to be done first."""
    master, other = await roles(pair)
    pair.kill(other)
    await pair.wait_for(stands_alone(master), "alone")
    pair.kill(master)
    await pair.restart(other)
    async with opener_of(str(folder / CLIENT))(pair.endpoint(other), ()) as channel:
        stub = pb_grpc.PairServiceStub(channel)

        async def asked() -> pb.ForceFailoverResponse:
            order = pb.ForceFailoverRequest(reason="the other burnt down")
            seen = await stub.ForceFailover(order, timeout=OUTER_S, wait_for_ready=True)
            order = pb.ForceFailoverRequest(confirmed=True, accept_loss_after=seen.last_index, reason="burnt down")
            return await stub.ForceFailover(order, timeout=OUTER_S)

        async def refused() -> str:
            text = (await asked()).text
            return text if "set-epoch" in text else ""

        text = await until(refused, "the register is read, and names another member")
        assert "PERMISSION_DENIED for members" in text
        (epoch,) = re.findall(r"set-epoch --pair pair --domain main --epoch (\d+) --holder", text)
        order = f"witness set-epoch --pair pair --epoch {epoch} --holder {other} --reason x --yes".split()
        at = ("--target", pair.witness_endpoint, "--credentials")
        for name, code in ((other, 1), (CLIENT, 0)):
            result = await asyncio.to_thread(CliRunner().invoke, root, [*order, *at, str(folder / name)])
            assert result.exit_code == code, result.output

        async def done() -> bool:
            answer = await asked()
            return answer.done or "is master of main already" in answer.text  # once it is named, it may not wait

        await until(done, "it is master")
    await pair.wait_for(stands_alone(other), "master")
    await pair.restart(master)
    await pair.wait_ready()


async def test_files_that_cannot_be_used_are_reported_and_the_last_good_ones_stay(
    pair: Cluster, folder: Path, client: aio.Client
) -> None:
    """The ones that were put there since would end the member's next start."""
    master, _ = await roles(pair)
    path = folder / master / "cert.pem"
    good = path.read_bytes()
    port = member_ports(pair.base_port, ["a", "b"].index(master)).http

    async def metric(name: str) -> float:
        page = await asyncio.to_thread(read_page, f"http://127.0.0.1:{port}/metrics")
        return float(re.findall(rf"(?m)^{name} (\S+)$", page)[0])

    assert await metric("tandemq_certificate_ends_seconds") > time.time()
    path.write_text("half a fi")
    try:

        async def refused() -> bool:
            return await metric("tandemq_credentials_refused") == 1

        await until(refused, "the member has seen the files")
        await send(client, b"meanwhile")
        async with opener_of(str(folder / CLIENT))(pair.endpoint(master), ()) as channel:
            events = (await pb_grpc.PairServiceStub(channel).ListEvents(pb.ListEventsRequest(), timeout=OUTER_S)).events
        said = [each.text for each in events if each.kind == pb.PAIR_EVENT_KIND_FAULT]
        assert any(text.startswith("the credentials that were in force stay: ") for text in said), said
    finally:
        path.write_bytes(good)
    assert await take(client) == b"meanwhile"

    async def used() -> bool:
        return await metric("tandemq_credentials_refused") == 0

    await until(used, "the files that were in force are back")


def read_page(url: str) -> str:
    with urllib.request.urlopen(url, timeout=OUTER_S) as answer:
        return bytes(answer.read()).decode()
