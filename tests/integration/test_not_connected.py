"""Whoever cannot connect hears why in one sentence: real handshakes with real ports, each wrong in one way.

gRPC itself says "Socket closed" to most of them.
"""

from __future__ import annotations

import asyncio
import shutil
import socket
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from datetime import timedelta
from pathlib import Path

import grpc
import grpc.aio
import pytest

import tandemq
from replica.listen.machine_access import MachineAccess
from tandemq import aio
from tandemq.config import ManagerConfig
from tandemq.config_security import Security
from tandemq.credentials import trouble
from tandemq.credentials.authority import create, issue
from tandemq.credentials.bad import BadCredentials
from tandemq.credentials.channels import port_credentials
from tandemq.credentials.files import Credentials, client_context
from tandemq.credentials.trouble import why_not
from tandemq.errors import TandemqError, Unreachable
from tests.support.until import OUTER_S

SHORT_S = 1.0
"""How long a client tries that shall not get anywhere."""


class Made:
    """Directories of credentials, of two authorities."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.first, self.second = create(folder / "first").parent, create(folder / "second").parent

    def of(self, who: str, *, authority: Path | None = None, lasts: timedelta = timedelta(days=1)) -> Path:
        out = self.folder / f"credentials-{len(list(self.folder.iterdir()))}"
        issue(authority or self.first, who, out, lasts=lasts)
        return out


@pytest.fixture(autouse=True)
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason may take as long as the machine does: here it is what is looked at."""
    monkeypatch.setattr(trouble, "LOOK_S", OUTER_S)
    monkeypatch.setattr(trouble, "PLAIN_LOOK_S", OUTER_S)


@pytest.fixture
def made(tmp_path: Path) -> Made:
    return Made(tmp_path)


@asynccontextmanager
async def port(directory: Path | None) -> AsyncIterator[str]:
    """A gRPC server with those credentials, or plain; it serves nothing."""
    server = grpc.aio.server()
    if directory is None:
        number = server.add_insecure_port("127.0.0.1:0")
    else:
        number = server.add_secure_port("127.0.0.1:0", port_credentials(Credentials(directory)))
    await server.start()
    try:
        yield f"127.0.0.1:{number}"
    finally:
        await server.stop(0)


async def test_who_is_right_hears_nothing(made: Made) -> None:
    async with port(made.of("member/orders/a")) as endpoint:
        client = str(made.of("principal/billing"))
        assert await why_not(endpoint, client) == ""
        assert await why_not(endpoint, client, "a.orders.member.tandemq") == ""


async def test_nobody_there_is_no_matter_of_certificates(made: Made) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        endpoint = f"127.0.0.1:{free.getsockname()[1]}"
    assert await why_not(endpoint, str(made.of("principal/billing"))) == ""
    assert await why_not(endpoint, "") == ""
    assert await why_not("unix:/run/tandemq.sock", "") == ""
    for no_host in ("orders..svc:7600", f"{'x' * 64}:7600", "orders", "orders:port"):
        assert await why_not(no_host, "") == ""


async def test_each_reason_has_its_sentence(made: Made) -> None:
    member, client = made.of("member/orders/a"), str(made.of("principal/billing"))
    async with port(member) as endpoint:
        assert "speaks TLS and wants a certificate" in await why_not(endpoint, "")
        stranger = str(made.of("principal/billing", authority=made.second))
        assert "authority that is not in ca.pem" in await why_not(endpoint, stranger)
        wrong = await why_not(endpoint, client, "b.orders.member.tandemq")
        assert "shows a certificate for a.orders.member.tandemq" in wrong
        assert "not for b.orders.member.tandemq" in wrong
        ended = made.of("principal/billing", lasts=timedelta(hours=-1))
        assert f"{ended / 'cert.pem'} expired at" in await why_not(endpoint, str(ended))
        # It knows the server's authority, and the server does not know its own.
        foreign = made.of("principal/billing", authority=made.second)
        (foreign / "ca.pem").write_bytes((member / "ca.pem").read_bytes())
        assert "does the member know that authority?" in await why_not(endpoint, str(foreign))
    async with port(None) as endpoint:
        assert "has no TLS, and this client has credentials" in await why_not(endpoint, client)
        assert await why_not(endpoint, "") == ""
    async with port(made.of("member/orders/a", lasts=timedelta(hours=-1))) as endpoint:
        assert f"the certificate of {endpoint} expired at 2" in await why_not(endpoint, client)
    async with port(made.of("principal/billing")) as endpoint:
        assert "that is a client's" in await why_not(endpoint, client)


async def test_the_client_says_it_where_it_gives_up(made: Made) -> None:
    async with port(made.of("member/orders/a")) as endpoint:
        async with aio.connect(endpoint, timeout=SHORT_S) as client:
            tries = (client.list_queues(), client.producer("q").send(b"x"), anext(aiter(client.consumer("q"))))
            for error in await asyncio.gather(*tries, return_exceptions=True):
                assert isinstance(error, TandemqError)
                assert "wants a certificate" in str(error)
        stranger = made.of("principal/billing", authority=made.second)

        def block() -> None:
            with tandemq.connect(endpoint, timeout=SHORT_S, credentials=stranger) as client:
                client.list_queues()

        with pytest.raises(Unreachable, match=r"authority that is not in ca\.pem"):
            await asyncio.to_thread(block)
    with pytest.raises(BadCredentials, match="no such directory"):
        aio.connect("127.0.0.1:1", credentials=made.folder / "nowhere")


async def test_a_client_finds_its_credentials_in_the_environment(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEMQ_CREDENTIALS", str(made.of("principal/billing")))
    async with port(made.of("member/orders/a")) as endpoint, aio.connect(endpoint, timeout=OUTER_S) as client:
        with pytest.raises(TandemqError, match="UNIMPLEMENTED"):  # it serves nothing, and says so over TLS
            await client.list_queues()


async def test_a_member_looks_at_its_own_port_as_a_client_with_its_certificate(made: Made, tmp_path: Path) -> None:
    """Where no client is taken a member hands over: a look in clear text would say so of every port with TLS."""
    own, peer = made.of("member/orders/a"), made.of("member/orders/b")
    access = MachineAccess(
        ManagerConfig(member="a", data_dir="", pair="orders", security=Security(credentials=str(own)))
    )
    async with port(own) as endpoint:
        assert await access.takes_clients(endpoint)
        issue(made.first, "member/orders/a", own)
        assert await access.takes_clients(endpoint)
        issue(made.first, "member/orders/a", ended := tmp_path / "ended", lasts=timedelta(seconds=-1))
        for name in ("ca.pem", "cert.pem", "key.pem"):
            shutil.copy(ended / name, own / name)
    async with port(own) as endpoint:
        assert await access.takes_clients(endpoint), "the peer's may be over as well: nothing is handed over"
    for other in (peer, None):
        async with port(other) as endpoint:
            assert not await access.takes_clients(endpoint)


@contextmanager
def handshake(endpoint: str, directory: Path) -> Iterator[ssl.SSLSocket]:
    host, _, number = endpoint.rpartition(":")
    plain = socket.create_connection((host, int(number)), timeout=OUTER_S)
    with plain, client_context(directory).wrap_socket(plain, server_hostname=host) as tls:
        yield tls


async def test_a_port_reads_its_files_at_each_handshake_and_keeps_the_last_good_ones(made: Made) -> None:
    member, client = made.of("member/orders/a"), made.of("principal/billing")

    def serial(endpoint: str) -> object:
        with handshake(endpoint, client) as tls:
            return (tls.getpeercert() or {})["serialNumber"]

    async with port(member) as endpoint:
        before = await asyncio.to_thread(serial, endpoint)
        issue(made.first, "member/orders/a", member)
        after = await asyncio.to_thread(serial, endpoint)
        assert after != before
        (member / "key.pem").chmod(0o644)
        (member / "cert.pem").write_text("half a fi")
        assert await asyncio.to_thread(serial, endpoint) == after


async def test_an_authority_is_exchanged_with_both_in_force_meanwhile(made: Made) -> None:
    member, old = made.of("member/orders/a"), made.of("principal/billing")
    new = made.of("principal/billing", authority=made.second)
    both = (made.first / "ca.pem").read_bytes() + (made.second / "ca.pem").read_bytes()
    async with port(member) as endpoint:
        assert "authority" in await why_not(endpoint, str(new))
        for each in (member, old, new):
            (each / "ca.pem").write_bytes(both)
        assert await why_not(endpoint, str(old)) == ""
        assert await why_not(endpoint, str(new)) == ""
        issue(made.second, "member/orders/a", member)  # and the old one is not trusted any more
        assert await why_not(endpoint, str(new)) == ""
        assert "does the member know that authority?" in await why_not(endpoint, str(old))
