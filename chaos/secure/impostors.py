"""Those who are not who they say, or are nobody: each tries its way in, and says whether it was refused."""

from __future__ import annotations

import asyncio
import os
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization

from tandemq.channels import expecting
from tandemq.credentials.authority import AUTHORITY_KEY, create, issue
from tandemq.credentials.chosen import opener_of
from tandemq.credentials.files import AUTHORITY, CHAIN
from tandemq.credentials.names import dns, member
from tandemq.errors import from_rpc_error
from tandemq.v1.queue_admin_service_pb2 import PurgeQueueRequest
from tandemq.v1.transaction_service_pb2 import TransactRequest

FIRST_WORD = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
ANSWER_S, CALL_S = 10.0, 20.0
LATER = timedelta(days=1)
SECRET = "secret"
CLAIMS = (("x-tandemq-hop", "b"), ("x-tandemq-principal", "principal/ops"), ("x-tandemq-own", "1"))
"""What only the other member may say of a call."""


class Port(NamedTuple):
    """One port of a member or of the witness."""

    name: str
    endpoint: str
    member: str = ""
    """Whose peer port it is; empty: none's."""


class Attempt(NamedTuple):
    """What an impostor was answered."""

    who: str
    where: str
    refused: bool
    said: str


def prepare_impostors(credentials: Path, authority: Path, pair: str) -> Path:
    """Certificates that must open nothing, each in a directory beside the good ones; where they are."""
    made = credentials.parent / "impostors"
    issue(authority, "principal/ops", made / "expired", lasts=-LATER)
    issue(authority, "principal/ops", made / "not yet valid")
    _put_off(authority, made / "not yet valid")
    foreign = create(made / "foreign-authority").parent
    for name, who in (("of another authority", "principal/ops"), ("b of another authority", member(pair, "b"))):
        issue(foreign, who, made / name)
        (made / name / AUTHORITY).write_bytes((authority / AUTHORITY).read_bytes())  # it believes the pair
    issue(authority, member("elsewhere", "a"), made / "a of another pair")
    return made


def _put_off(authority: Path, directory: Path) -> None:
    """The certificate there begins to be valid tomorrow."""
    old = x509.load_pem_x509_certificate((directory / CHAIN).read_bytes())
    key: Any = serialization.load_pem_private_key((authority / AUTHORITY_KEY).read_bytes(), None)
    now = datetime.now(UTC).replace(microsecond=0)
    builder = (
        x509.CertificateBuilder()
        .subject_name(old.subject)
        .issuer_name(old.issuer)
        .public_key(old.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now + LATER)
        .not_valid_after(now + 2 * LATER)
    )
    for each in old.extensions:
        builder = builder.add_extension(each.value, each.critical)
    (directory / CHAIN).write_bytes(builder.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM))


async def attempts(ports: Sequence[Port], credentials: Path, made: Path, pair: str, only: str = "") -> list[Attempt]:
    """Everybody at every port that is his to try, or `only` that one."""
    found: list[Attempt] = []
    for port in ports:
        for who, attempt in _at(port, credentials, made, pair):
            if only not in ("", who):
                continue
            said = await attempt()
            found.append(Attempt(who, port.name, bool(said), said or "let in"))
    return found


def _at(port: Port, credentials: Path, made: Path, pair: str) -> Iterator[tuple[str, Callable[[], Awaitable[str]]]]:
    """Each attempt returns how it was refused; empty: it was let in."""
    yield "in clear text", lambda: _in_clear_text(port)
    yield "without a certificate", lambda: _without(port, made)
    yield "of TLS 1.2", lambda: _older(port, credentials / "ops")
    for name in ("expired", "not yet valid", "of another authority"):
        yield name, lambda name=name: _handshaking(port, made / name)  # type: ignore[misc]  # as given
    if port.member:
        expected = dns(member(pair, port.member))
        others = {"a client": credentials / "billing", "the member itself": credentials / port.member}
        others["a of another pair"] = made / "a of another pair"
        for who, directory in others.items():
            yield f"{who} as the peer", lambda directory=directory: _as_peer(port, directory, expected)  # type: ignore[misc]  # as given
    elif port.name.startswith("client port"):
        for directory in (credentials / "billing", made / "a of another pair"):
            for claim in CLAIMS:
                yield (
                    f"{directory.name} with {claim[0]}",
                    lambda directory=directory, claim=claim: _claiming(port, directory, claim),  # type: ignore[misc]  # as given
                )
        yield "billing as a link", lambda: _as_link(port, credentials / "billing")


async def _in_clear_text(port: Port) -> str:
    host, _, number = port.endpoint.rpartition(":")
    reader, writer = await asyncio.open_connection(host, int(number))
    writer.write(FIRST_WORD)
    return await _ended(reader, writer)


async def _without(port: Port, made: Path) -> str:
    """Whoever believes the pair and shows nothing."""
    context = ssl.create_default_context(cafile=str(made / "expired" / AUTHORITY))
    return await _through(port, context)


async def _older(port: Port, directory: Path) -> str:
    context = _context(directory)
    context.minimum_version = context.maximum_version = ssl.TLSVersion.TLSv1_2
    return await _through(port, context)


async def _handshaking(port: Port, directory: Path) -> str:
    return await _through(port, _context(directory))


def _context(directory: Path) -> ssl.SSLContext:
    """Without the looks at it that the SDK takes."""
    context = ssl.create_default_context(cafile=str(directory / AUTHORITY))
    context.load_cert_chain(directory / CHAIN, directory / "key.pem")
    return context


async def _through(port: Port, context: ssl.SSLContext) -> str:
    context.check_hostname = False
    context.set_alpn_protocols(["h2"])
    host, _, number = port.endpoint.rpartition(":")
    try:
        reader, writer = await asyncio.open_connection(host, int(number), ssl=context)
    except (ssl.SSLError, OSError) as error:
        return f"in the handshake: {type(error).__name__}"
    writer.write(FIRST_WORD)
    return await _ended(reader, writer)


async def _ended(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> str:
    """How the connection ended without a word to it; empty: something was said, or nobody ended it."""
    try:
        async with asyncio.timeout(ANSWER_S):
            return "" if await reader.read(1) else "ended without a word"
    except TimeoutError:
        return ""
    except (ssl.SSLError, OSError) as error:
        return f"ended: {type(error).__name__}"
    finally:
        writer.close()


async def _as_peer(port: Port, directory: Path, expected: str) -> str:
    async with opener_of(str(directory))(port.endpoint, expecting(expected)) as channel:
        call: Any = channel.stream_stream("/tandemq.peer.v1.PeerService/Data")(timeout=CALL_S)
        return await _refusal(call.read())


async def _claiming(port: Port, directory: Path, claim: tuple[str, str]) -> str:
    request = PurgeQueueRequest(name=SECRET, request_id=os.urandom(16)).SerializeToString()
    async with opener_of(str(directory))(port.endpoint, ()) as channel:
        call: Any = channel.unary_unary("/tandemq.v1.QueueAdminService/PurgeQueue")
        return await _refusal(call(request, metadata=(claim,), timeout=CALL_S))


async def _as_link(port: Port, directory: Path) -> str:
    unit = TransactRequest(request_id=os.urandom(16), writer="xmit/elsewhere/main/pair", number=1)
    async with opener_of(str(directory))(port.endpoint, ()) as channel:
        call: Any = channel.unary_unary("/tandemq.v1.TransactionService/Transact")
        return await _refusal(call(unit.SerializeToString(), timeout=CALL_S))


async def _refusal(call: Awaitable[Any]) -> str:
    """The reason of a refusal, or its status, where that is PERMISSION_DENIED; anything else is none."""
    try:
        await call
    except grpc.aio.AioRpcError as error:
        reason = from_rpc_error(error).reason or error.code().name
        return reason if reason == "PERMISSION_DENIED" or error.code() is grpc.StatusCode.PERMISSION_DENIED else ""
    return ""
