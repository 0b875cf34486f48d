"""No payload, key or token stands in anything that a member writes or shows, at the most talkative level either: they
are planted everywhere, and then looked for in logs, events, the audit log, metrics and a bundle of the doctor.
"""

from __future__ import annotations

import asyncio
import contextlib
import tarfile
from collections.abc import Iterator
from pathlib import Path

import grpc
import grpc.aio
import pytest
from click.testing import CliRunner

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.cli import root
from tandemq.config import BEARER_OFFSET, member_ports
from tandemq.config_tokens import Tokens
from tandemq.credentials.chosen import opener_of
from tandemq.errors import TandemqError
from tandemq.v1 import pair_service_pb2 as pb
from tandemq.v1 import pair_service_pb2_grpc as pb_grpc
from tests.integration.support import http_get, roles
from tests.support import tokens
from tests.support.secured import secured
from tests.support.until import OUTER_S

pytestmark = [pytest.mark.process, pytest.mark.slow]

PAYLOAD, PROPERTY, SPOILT = "canary-payload-7f3a", "canary-property-91bc", "canary-spoilt-55d0"
STORES = ("data.mdb", "lock.mdb", "commit.log")
"""What a member keeps messages in."""


@pytest.fixture
def pair(tmp_path: Path) -> Iterator[Cluster]:
    keys = tmp_path / "keys.pem"
    keys.write_bytes(tokens.pem(tokens.key_of("ES256")))
    cluster = secured(tmp_path, "billing")
    said = Tokens(keys=str(keys), issuer=tokens.ISSUER, audience=tokens.AUDIENCE)
    cluster.settings = {name: {"listen_bearer": bearer_port(cluster, name), "tokens": said} for name in ("a", "b")}
    for child in cluster.children.values():
        child.arguments += ["--log-level", "debug"]
    asyncio.run(cluster.start())
    yield cluster
    asyncio.run(cluster.stop())


def bearer_port(pair: Cluster, member: str) -> str:
    return f"127.0.0.1:{member_ports(pair.base_port, ['a', 'b'].index(member)).client + BEARER_OFFSET}"


def secrets(pair: Cluster) -> dict[str, bytes]:
    """What must stand nowhere, by what it is."""
    found = {name: text.encode() for name, text in zip(("payload", "property", "spoilt"), planted(), strict=True)}
    for directory in Path(pair.credentials).parent.iterdir():
        key = (directory / "key.pem").read_bytes().splitlines()
        found[f"key of {directory.name}"] = key[1]
    return found


def planted() -> tuple[str, ...]:
    return PAYLOAD, PROPERTY, SPOILT


async def work(pair: Cluster, client: aio.Client) -> None:
    """What goes well, and what is refused, by a client that may do some of it."""
    body, more = PAYLOAD.encode(), {"note": PROPERTY}
    await client.send("orders", body, properties=more, correlation_id=PROPERTY)
    async with client.producer("orders") as producer:
        await producer.send_many([body] * 3)
    async with client.consumer("orders", credit_messages=1) as consumer:
        (await anext(aiter(consumer))).reject(PROPERTY)
    assert [bytes(each.payload) async for each in client.browse("orders")]
    for attempt in (
        lambda: client.send("nowhere", body, properties=more),
        lambda: client.send("orders", body * 200_000),
        lambda: client.send("secret", body),
        lambda: client.purge_queue("orders"),
    ):
        with contextlib.suppress(TandemqError):
            await attempt()


async def spoil(pair: Cluster, member: str) -> None:
    """Bytes that are no message, and metadata that nobody asked for."""
    own = str(Path(pair.credentials).with_name("billing"))
    async with opener_of(own)(pair.endpoint(member), ()) as channel:
        for path in ("QueueService/Enqueue", "QueueAdminService/CreateQueue", "RightsService/GrantRight"):
            call = channel.unary_unary(f"/tandemq.v1.{path}")
            with contextlib.suppress(grpc.aio.AioRpcError):
                said = (("x-tandemq-principal", SPOILT), ("authorization", f"Bearer {SPOILT}"))
                await call(b"\xff" + SPOILT.encode(), metadata=said, timeout=OUTER_S)  # type: ignore[misc,arg-type]  # bytes


async def with_token(pair: Cluster, member: str, said: str) -> None:
    trusted = grpc.ssl_channel_credentials((Path(pair.credentials) / "ca.pem").read_bytes())
    async with grpc.aio.secure_channel(bearer_port(pair, member), trusted) as channel:
        call = channel.unary_unary("/tandemq.v1.QueueService/Dequeue")
        with contextlib.suppress(grpc.aio.AioRpcError):
            metadata = (("authorization", f"Bearer {said}"),)
            await call(b"", metadata=metadata, timeout=OUTER_S)  # type: ignore[misc,arg-type]  # bytes


async def test_no_secret_stands_in_what_a_member_writes_or_shows(pair: Cluster, tmp_path: Path) -> None:
    own = Path(pair.credentials)
    good, foreign = tokens.token("billing", "ES256"), tokens.token(key=tokens.key_of("ES256", 1))
    async with aio.connect(pair.target, credentials=own, timeout=OUTER_S) as ops:
        for name in ("orders", "secret"):
            await ops.create_queue(name)
        for right in ("produce", "consume", "browse"):
            await ops.grant_right("billing", right, "orders")
        for member in await roles(pair):
            endpoint = pair.endpoint(member)
            shown = own.with_name("billing")
            async with aio.connect(endpoint, credentials=shown, timeout=OUTER_S, follow_master=False) as client:
                await work(pair, client)
            await spoil(pair, member)
            for said in (good, foreign, f"{SPOILT}.{SPOILT}.{SPOILT}"):
                await with_token(pair, member, said)
        master, _ = await roles(pair)
        pair.kill(master)
        await ops.send("orders", PAYLOAD.encode())
        await pair.restart(master)
        await pair.wait_ready()
    wanted = {**secrets(pair), "token": good.encode(), "part of a token": good.rpartition(".")[2].encode()}
    wanted["token of another key"] = foreign.encode()
    places = {**written(pair), **await shown_by(pair, tmp_path)}
    assert {"logs/a.log", "logs/b.log", "a/audit.jsonl", "metrics of a", "bundle"} <= set(places) | {
        name.partition(":")[0] for name in places
    }
    assert b"DEBUG" in places["logs/a.log"].upper(), "the most talkative level"
    found = [(what, place) for what, secret in wanted.items() for place, text in places.items() if secret in text]
    assert found == []
    kept = [each.read_bytes() for name in STORES for each in pair.data_dir.rglob(name)]
    assert any(PAYLOAD.encode() in each for each in kept), "the search finds what is there"


def written(pair: Cluster) -> dict[str, bytes]:
    """Every file of the pair but those that messages are kept in."""
    files = [each for each in pair.data_dir.rglob("*") if each.is_file() and each.name not in STORES]
    return {str(each.relative_to(pair.data_dir)): each.read_bytes() for each in files}


async def shown_by(pair: Cluster, folder: Path) -> dict[str, bytes]:
    """Metrics, events, and a bundle of the doctor with all logs."""
    found = {}
    for place, member in enumerate(("a", "b")):
        _, page = await http_get(member_ports(pair.base_port, place).http, "/metrics")
        found[f"metrics of {member}"] = page.encode()
    bundle = folder / "case.tar.gz"
    logs = [word for child in pair.children.values() for word in ("--log", str(child.log))]
    shown = ("--target", pair.target, "--credentials", pair.credentials)
    words = ["doctor", "--bundle", str(bundle), *logs, *shown]
    result = await asyncio.to_thread(CliRunner().invoke, root, words)
    assert bundle.exists(), result.output
    with tarfile.open(bundle) as archive:
        for each in archive.getmembers():
            file = archive.extractfile(each)
            if file is not None:
                found[f"bundle:{each.name}"] = file.read()
    for member in ("a", "b"):
        async with opener_of(pair.credentials)(pair.endpoint(member), ()) as channel:
            events = await pb_grpc.PairServiceStub(channel).ListEvents(pb.ListEventsRequest(), timeout=OUTER_S)
        assert events.events
        found[f"events of {member}"] = events.SerializeToString()
    return found
