"""A client with a token: what its directory has to be, and that nobody ever gets the token over a plain connection."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest
from click.testing import CliRunner

from tandemq import aio
from tandemq.cli import root
from tandemq.credentials import trouble
from tandemq.credentials.authority import create, issue
from tandemq.credentials.bad import BadCredentials
from tandemq.credentials.channels import port_credentials
from tandemq.credentials.chosen import opener_of
from tandemq.credentials.files import Credentials
from tandemq.credentials.token import TokenFile
from tandemq.errors import TandemqError, Unreachable
from tests.support import tokens
from tests.support.until import OUTER_S

SHORT_S = 1.0
"""How long a client tries that shall not get anywhere."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    create(tmp_path / "authority")
    issue(tmp_path / "authority", "member/orders/a", tmp_path / "a")
    return tmp_path


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(trouble, "LOOK_S", OUTER_S)


def shown(folder: Path, said: str) -> Path:
    return tokens.shown_in(folder / "billing", folder / "authority" / "ca.pem", said)


@asynccontextmanager
async def port(credentials: grpc.ServerCredentials | None, seen: list[str]) -> AsyncIterator[str]:
    """Notes what each call says of itself, and has no method."""

    class Handler(grpc.GenericRpcHandler):
        def service(self, handler_call_details: grpc.HandlerCallDetails) -> None:
            metadata = handler_call_details.invocation_metadata or ()
            seen.extend(str(value) for key, value in metadata if key == "authorization")
            seen.append("a call")

    server = grpc.aio.server(handlers=[Handler()])
    add = server.add_insecure_port if credentials is None else server.add_secure_port
    number = add("127.0.0.1:0", *filter(None, [credentials]))
    await server.start()
    try:
        yield f"127.0.0.1:{number}"
    finally:
        await server.stop(0)


async def call(endpoint: str, directory: Path) -> None:
    async with opener_of(str(directory))(endpoint, ()) as channel:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await channel.unary_unary("/tandemq.v1.QueueService/Enqueue")(b"", timeout=OUTER_S)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED, caught.value


async def test_the_token_of_now_goes_with_each_call_and_the_last_good_one_stays(folder: Path) -> None:
    seen: list[str] = []
    first, second = tokens.token("billing"), tokens.token("shop")
    directory = shown(folder, first)
    credentials = port_credentials(Credentials(folder / "a"), asks=False)
    async with port(credentials, seen) as endpoint, opener_of(str(directory))(endpoint, ()) as channel:

        async def calls() -> None:
            with pytest.raises(grpc.aio.AioRpcError, match="UNIMPLEMENTED"):
                await channel.unary_unary("/a/b")(b"", timeout=OUTER_S)

        await calls()
        shown(folder, second)
        await calls()
        shown(folder, "half a to")
        await calls()
        (directory / "token").unlink()
        await calls()
    assert [each for each in seen if each != "a call"] == [f"Bearer {each}" for each in (first, second, second, second)]


async def test_a_plain_port_never_gets_the_token(folder: Path) -> None:
    seen: list[str] = []
    directory = shown(folder, tokens.token())
    async with port(None, seen) as endpoint, aio.connect(endpoint, timeout=SHORT_S, credentials=directory) as client:
        with pytest.raises(Unreachable, match="has no TLS, and this client has credentials"):
            await client.list_queues()
    assert seen == []


async def test_at_a_port_for_certificates_it_is_said_which_port_is_for_tokens(folder: Path) -> None:
    seen: list[str] = []
    directory = shown(folder, tokens.token())
    async with (
        port(port_credentials(Credentials(folder / "a")), seen) as endpoint,
        aio.connect(endpoint, timeout=SHORT_S, credentials=directory) as client,
    ):
        with pytest.raises(Unreachable, match=r"wants a certificate, and this client has a token.*listen_bearer"):
            await client.list_queues()
    assert seen == []


async def test_a_directory_that_cannot_be_used_is_refused(folder: Path) -> None:
    directory = shown(folder, tokens.token())
    (directory / "token").chmod(0o644)
    with pytest.raises(BadCredentials, match="others may read or change it"):
        opener_of(str(directory))
    shown(folder, "no token")
    with pytest.raises(BadCredentials, match="is no token: three parts"):
        opener_of(str(directory))
    shown(folder, tokens.token())
    (directory / "cert.pem").write_bytes((folder / "a" / "cert.pem").read_bytes())
    with pytest.raises(BadCredentials, match=r"holds token and cert\.pem"):
        opener_of(str(directory))


def test_nothing_shows_the_token(folder: Path) -> None:
    said = tokens.token()
    directory = shown(folder, said)
    file = TokenFile(directory / "token")
    assert said not in repr(file)
    result = CliRunner().invoke(root, ["cert", "show", str(directory), "-o", "json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.output)["who"] == "principal/billing"
    assert said.rpartition(".")[2] not in result.output
    assert CliRunner().invoke(root, ["cert", "check", str(directory)]).exit_code == 0
    shown(folder, tokens.token(exp=time.time() - 1))
    result = CliRunner().invoke(root, ["cert", "check", str(directory)])
    assert (result.exit_code, "the token ended at" in result.output) == (1, True), result.output


async def test_a_member_with_a_token_does_not_start(folder: Path) -> None:
    from replica.listen.machine_access import MachineAccess
    from tandemq.config import ConfigError, ManagerConfig
    from tandemq.config_security import Security

    config = ManagerConfig(member="a", data_dir="", security=Security(credentials=str(shown(folder, tokens.token()))))
    with pytest.raises(ConfigError, match="holds a token, and member/a/a needs a certificate"):
        MachineAccess(config)
    with pytest.raises(TandemqError):
        async with aio.connect("127.0.0.1:1", timeout=0.1, credentials=folder / "billing") as client:
            await asyncio.wait_for(client.list_queues(), OUTER_S)
