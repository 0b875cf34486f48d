"""Bearer tokens at a pair, in processes: who shows one that is believed is a principal as one with a certificate is,
at both members, before and after a kill -9; everybody else is refused by name.
"""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import jwt
import pytest

from chaos.cluster import Cluster
from replica.node.access import PRINCIPAL
from replica.node.members import HOP
from tandemq import aio
from tandemq.auditing import FILE, AuditLine, decoded
from tandemq.config import BEARER_OFFSET, member_ports
from tandemq.config_tokens import Tokens
from tandemq.credentials.bad import BadCredentials
from tandemq.errors import NotFound, TandemqError, from_rpc_error
from tandemq.v1 import queue_service_pb2 as pb
from tandemq.v1 import queue_service_pb2_grpc as pb_grpc
from tests.integration.support import new_id, roles, stopped_at_end
from tests.support import tokens
from tests.support.clusters import patient
from tests.support.secured import secured, start_secured
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

RIGHTS = (("billing", "produce"), ("shop", "produce"), ("shop", "consume"))


def port_of(pair: Cluster, member: str) -> str:
    return f"127.0.0.1:{member_ports(pair.base_port, ['a', 'b'].index(member)).client + BEARER_OFFSET}"


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """Whole at the beginning of each test."""
    folder = tmp_path_factory.mktemp("pair")
    keys = folder / "keys.pem"
    keys.write_bytes(tokens.pem(*(tokens.key_of(each) for each in ("RS256", "ES256", "EdDSA"))))
    cluster = secured(folder)
    said = Tokens(keys=str(keys), issuer=tokens.ISSUER, audience=tokens.AUDIENCE)
    cluster.settings = {name: {"listen_bearer": port_of(cluster, name), "tokens": said} for name in ("a", "b")}
    asyncio.run(start_secured(cluster, [(who, right, "orders") for who, right in RIGHTS], ["orders"]))
    yield cluster
    asyncio.run(cluster.stop())


def authority(pair: Cluster) -> Path:
    return Path(pair.credentials) / "ca.pem"


@asynccontextmanager
async def calling(pair: Cluster, member: str) -> AsyncIterator[pb_grpc.QueueServiceStub]:
    """A client without the SDK, and without any credentials but who is to be trusted."""
    trusted = grpc.ssl_channel_credentials(authority(pair).read_bytes())
    async with grpc.aio.secure_channel(port_of(pair, member), trusted) as channel:
        yield pb_grpc.QueueServiceStub(channel)


def with_token(said: str) -> tuple[tuple[str, str], ...]:
    return (("authorization", f"Bearer {said}"),)


async def send(stub: pb_grpc.QueueServiceStub, metadata: Sequence[tuple[str, str]]) -> pb.EnqueueResponse:
    request = pb.EnqueueRequest(queue="orders", request_id=new_id(), messages=[{"payload": b"x"}])
    return await stub.Enqueue(request, metadata=tuple(metadata), timeout=OUTER_S)


async def refused(pair: Cluster, metadata: Sequence[tuple[str, str]], member: str = "a") -> TandemqError:
    async with calling(pair, member) as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await send(stub, metadata)
    error = from_rpc_error(caught.value)
    expected = "UNAUTHENTICATED" if error.reason.startswith("TOKEN") else "PERMISSION_DENIED"
    assert caught.value.code().name == expected
    return error


def audited(pair: Cluster, member: str) -> list[AuditLine]:
    path = pair.data_dir / member / FILE
    lines, _ = decoded(path.read_bytes().split(b"\n")) if path.exists() else ([], 0)
    return lines


@pytest.mark.parametrize("algorithm", ["RS256", "ES256", "EdDSA"])
async def test_a_token_makes_its_principal_at_both_members(pair: Cluster, algorithm: str) -> None:
    """One of them carries the call to the other, with the principal and without the token."""
    for member in await roles(pair):
        async with calling(pair, member) as stub:
            assert (await send(stub, with_token(tokens.token("billing", algorithm)))).results[0].error.reason == 0
            request = pb.DequeueRequest(queue="orders", request_id=new_id(), max_messages=1)
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.Dequeue(request, metadata=with_token(tokens.token("billing", algorithm)), timeout=OUTER_S)
        error = from_rpc_error(caught.value)
        assert error.reason == "PERMISSION_DENIED"
        assert (error.metadata["principal"], error.metadata["right"]) == ("principal/billing", "consume")


def unsigned(**header: Any) -> str:
    parts = (json.dumps({"typ": "JWT", **header}).encode(), json.dumps(tokens.claims()).encode())
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


def by_secret() -> str:
    """HS256, whose secret is the public key that everybody knows: believed where a token may choose the algorithm."""
    return jwt.api_jws.encode(json.dumps(tokens.claims()).encode(), "x" * 32, algorithm="HS256")


STRANGERS = {
    "none": (lambda: unsigned(alg="none") + "e30", "algorithm"),
    "HS256": (by_secret, "algorithm"),
    "another key": (lambda: tokens.token(key=tokens.key_of("ES256", 1)), "key"),
    "another audience": (lambda: tokens.token(aud="elsewhere"), "audience"),
    "another issuer": (lambda: tokens.token(iss="https://evil.example"), "issuer"),
    "not yet valid": (lambda: tokens.token(nbf=tokens.claims()["exp"]), "time"),
    "no end": (lambda: tokens.token(exp=None), "claim"),
    "no audience": (lambda: tokens.token(aud=None), "claim"),
    "no issuer": (lambda: tokens.token(iss=None), "claim"),
    "nobody": (lambda: tokens.token(sub=None), "claim"),
    "a member": (lambda: tokens.token("member/pair/a"), "subject"),
    "no words": (lambda: "three.bare.words", "form"),
    "7 KB": (lambda: tokens.token(more="x" * 4_900), "size"),
}


@pytest.mark.parametrize("name", STRANGERS)
async def test_a_token_that_is_not_believed_is_refused_by_name(pair: Cluster, name: str) -> None:
    make, why = STRANGERS[name]
    said = make()
    error = await refused(pair, with_token(said))
    assert (error.reason, error.metadata.get("why"), error.definite) == ("TOKEN_REFUSED", why, True), error
    assert said.rpartition(".")[2][:20] not in error.message


async def test_a_token_that_has_expired_is_refused_beyond_what_clocks_may_differ(pair: Cluster) -> None:
    async with calling(pair, "a") as stub:
        await send(stub, with_token(tokens.token(exp=time.time() - 5)))
    error = await refused(pair, with_token(tokens.token(exp=time.time() - 100)))
    assert (error.reason, error.retry_after) == ("TOKEN_EXPIRED", None)


async def test_a_call_has_one_token(pair: Cluster) -> None:
    good = with_token(tokens.token())
    for metadata in ((), (*good, *good), (("authorization", f"Basic {tokens.token()}"),), (("authorization", ""),)):
        assert (await refused(pair, metadata)).reason == "TOKEN_REQUIRED"


async def test_a_token_of_4_mb_is_refused_before_anybody_reads_it(pair: Cluster, tmp_path: Path) -> None:
    """gRPC says both sizes, or ends the connection; our own client does not send it at all."""
    said = "x.y." + "z" * (4 << 20)
    with pytest.raises(BadCredentials, match="at most 6144 bytes"):
        aio.connect(port_of(pair, "a"), credentials=tokens.shown_in(tmp_path / "large", authority(pair), said))
    async with calling(pair, "a") as stub:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await send(stub, with_token(said))
        assert caught.value.code() in (grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.UNAVAILABLE), caught.value
        if caught.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED:
            assert "metadata size" in (caught.value.details() or "")
        await send(stub, with_token(tokens.token()))


async def test_while_nobody_says_which_keys_are_believed_a_token_may_be_shown_again(
    pair: Cluster, tmp_path: Path
) -> None:
    """That is no fault of the token. Whoever has a certificate is served as ever."""
    said = Tokens(
        keys="https://127.0.0.1:1/jwks.json",  # nobody answers there
        keys_authority=str(authority(pair)),
        issuer=tokens.ISSUER,
        audience=tokens.AUDIENCE,
    )
    alone = patient(tmp_path, secured=Path(pair.credentials).parent, operators=["ops"])
    alone.settings = {name: {"listen_bearer": port_of(alone, name), "tokens": said} for name in ("a", "b")}
    async with stopped_at_end(alone):
        await alone.start()
        async with calling(alone, "a") as stub:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await send(stub, with_token(tokens.token("billing")))
        assert caught.value.code() is grpc.StatusCode.UNAVAILABLE
        error = from_rpc_error(caught.value)
        assert (error.reason, error.definite) == ("TOKEN_KEYS_MISSING", True)
        async with aio.connect(alone.target, credentials=alone.credentials, timeout=OUTER_S) as ops:
            await ops.create_queue("orders")


async def test_whoever_has_a_token_is_no_member(pair: Cluster) -> None:
    """Neither mark that one member puts on what it carries is believed."""
    for claim in ((HOP, "b"), (PRINCIPAL, "principal/ops")):
        error = await refused(pair, (*with_token(tokens.token()), claim))
        assert (error.reason, error.metadata["principal"]) == ("PERMISSION_DENIED", "principal/billing")


async def test_refusals_stand_in_the_audit_log_without_the_token(pair: Cluster) -> None:
    said = tokens.token(key=tokens.key_of("EdDSA", 1), algorithm="EdDSA")
    await refused(pair, with_token(said), "b")
    await until(lambda: any(each.outcome == "TOKEN_REFUSED" for each in audited(pair, "b")), "it is written down")
    found = [each for each in audited(pair, "b") if each.outcome == "TOKEN_REFUSED"][-1]
    assert (found.principal, found.method) == ("", "QueueService/Enqueue")
    texts = [
        path.read_bytes() for path in pair.data_dir.rglob("*") if path.is_file() and path.suffix in (".jsonl", ".log")
    ]
    assert texts
    assert not any(said.rpartition(".")[2].encode() in text for text in texts)


async def test_the_sdk_shows_the_token_of_now_through_a_kill(pair: Cluster, tmp_path: Path) -> None:
    """The file is exchanged while the client lives; the call that the replica carried names the same principal."""
    master, replica = await roles(pair)
    shown = tokens.shown_in(tmp_path / "shop", authority(pair), tokens.token("shop"))
    target = ",".join(port_of(pair, each) for each in (replica, master))
    async with aio.connect(target, credentials=shown, timeout=OUTER_S) as shop:
        await shop.enqueue("orders", [b"before"])
        async with shop.producer("orders") as producer:
            await producer.send(b"streamed")
            pair.kill(master)
            await producer.send(b"after")
        tokens.shown_in(shown, authority(pair), tokens.token("billing", "RS256"))
        await shop.enqueue("orders", [b"as billing"])
        with pytest.raises(TandemqError) as caught:
            await shop.dequeue("orders", 1)
        assert (caught.value.reason, caught.value.metadata["principal"]) == ("PERMISSION_DENIED", "principal/billing")
        with pytest.raises(NotFound):
            await shop.get_queue("secret")
    await pair.restart(master)
    await pair.wait_ready()


async def read_all(call: Any) -> None:
    while await call.read() is not grpc.aio.EOF:
        pass


def soon() -> float:
    """An `exp` of which two seconds are left, with what clocks may differ."""
    return time.time() - Tokens().leeway_seconds + 2


async def test_a_stream_ends_with_its_token_by_name(pair: Cluster) -> None:
    _, replica = await roles(pair)
    async with calling(pair, replica) as stub:
        call = stub.Consume(metadata=with_token(tokens.token("shop", exp=soon())), timeout=OUTER_S)
        await call.write(pb.ConsumeRequest(open=pb.ConsumeOpen(queue="orders", client_id=new_id())))
        opened = await call.read()
        assert opened.HasField("opened")
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await read_all(call)
    error = from_rpc_error(caught.value)
    assert (error.reason, error.retryable, error.retry_after) == ("TOKEN_EXPIRED", True, timedelta(0))


async def test_a_call_that_waits_ends_with_its_token_and_may_be_repeated(pair: Cluster) -> None:
    """It might wait for years, and be given messages all the time."""
    for member in await roles(pair):
        async with calling(pair, member) as stub:
            request = pb.DequeueRequest(queue="orders", request_id=new_id(), filter={"selector": "nobody = 'sends it'"})
            request.wait.FromSeconds(10 * int(OUTER_S))
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.Dequeue(request, metadata=with_token(tokens.token("shop", exp=soon())), timeout=OUTER_S)
        error = from_rpc_error(caught.value)
        assert (error.reason, error.retryable, error.definite) == ("TOKEN_EXPIRED", True, False)


async def test_a_producer_goes_on_with_the_next_token(pair: Cluster, tmp_path: Path) -> None:
    _, replica = await roles(pair)

    def ended() -> int:
        return sum(each.outcome == "TOKEN_EXPIRED" and each.principal != "" for each in audited(pair, replica))

    shown = tokens.shown_in(tmp_path / "shop", authority(pair), tokens.token("shop", exp=soon()))
    before = ended()
    async with (
        aio.connect(port_of(pair, replica), credentials=shown, timeout=OUTER_S) as shop,
        shop.producer("orders") as producer,
    ):
        await producer.send(b"with the first one")
        tokens.shown_in(shown, authority(pair), tokens.token("shop"))
        await until(lambda: ended() > before, "its stream has ended")
        await producer.send(b"with the second one")
