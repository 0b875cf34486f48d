"""Says in one sentence why a TLS connection does not come about: gRPC says "Socket closed" to most of it.

It tries the handshake itself, once, beside gRPC, and judges how that ends. Called when a client gives up; it never
decides whether somebody may connect.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from tandemq.channels import PLAIN
from tandemq.credentials.bad import BadCredentials
from tandemq.credentials.files import CHAIN, TOKEN, client_context

LOOK_S = 2.0
"""What a client with credentials that has given up waits for the reason, at most."""
PLAIN_LOOK_S = 0.5
"""The same without credentials: a server that has TLS says so at once, and one that hangs is no matter of it."""
SETTINGS = bytes((4,))  # the type of the first frame of HTTP/2 that a server sends
FIRST_WORD = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_EXPIRED, _NOT_YET, _WRONG_HOST, _WRONG_ADDRESS = 10, 9, 62, 64  # of OpenSSL's x509_vfy.h
_UNKNOWN = (2, 18, 19, 20, 21)
_PURPOSE = 26
# What a server says before it closes, by what OpenSSL calls it here.
_REFUSALS: Mapping[str, str] = MappingProxyType(
    {
        "CERTIFICATE_REQUIRED": "wants a certificate",
        "UNKNOWN_CA": "does not know the authority of this client's certificate",
        "CERTIFICATE_EXPIRED": "says that this client's certificate has expired",
        "BAD_CERTIFICATE": "does not take this client's certificate",
        "UNSUPPORTED_CERTIFICATE": "does not take this client's certificate for a client's",
        "CERTIFICATE_UNKNOWN": "does not take this client's certificate",
        "HANDSHAKE_FAILURE": "does not take this client's certificate",
    }
)


async def why_not(endpoint: str, directory: str, expected: str = "") -> str:
    """What is wrong between this client and the port at host:port; empty: nothing that has to do with TLS, or nobody
    is there. `directory`: of the client's credentials; empty: it has none. `expected`: the name that who answers
    must have; empty: the host's. Ends within `LOOK_S`.
    """
    host, _, port = endpoint.rpartition("/")[2].rpartition(":")
    if endpoint.startswith(PLAIN) or not port.isdecimal():
        return ""
    try:
        async with asyncio.timeout(LOOK_S if directory else PLAIN_LOOK_S):
            return await asyncio.to_thread(_why_not, host.strip("[]"), int(port), endpoint, directory, expected)
    except (TimeoutError, UnicodeError):  # a name that no host can have
        return ""


def _why_not(host: str, port: int, endpoint: str, directory: str, expected: str) -> str:
    if not directory:
        return _why_not_plain(host, port, endpoint)
    try:
        context = client_context(Path(directory))
        with _connected(host, port) as sock, context.wrap_socket(sock, server_hostname=expected or host) as tls:
            if tls.recv(1):  # nothing is sent before: what a server did not read may cost us what it said
                return _of_key(directory)
            return _refused(endpoint, directory)  # as gRPC does it, without an alert
    except BadCredentials as error:
        return str(error)
    except ssl.SSLCertVerificationError as error:
        return _of_certificate(error, host, port, endpoint, expected or host)
    except ssl.SSLError as error:
        return _of_handshake(error, host, port, endpoint, directory)
    except OSError:
        return _plain(host, port, endpoint, directory)


def _why_not_plain(host: str, port: int, endpoint: str) -> str:
    """A client without credentials: TLS that asks for a certificate still shows its own."""
    try:
        with _connected(host, port, PLAIN_LOOK_S) as sock, _trusting().wrap_socket(sock):
            return (
                f"{endpoint} speaks TLS and wants a certificate: name a directory of credentials with --credentials, "
                "credentials=, or $TANDEMQ_CREDENTIALS"
            )
    except (ssl.SSLError, OSError):
        return ""


def _of_certificate(error: ssl.SSLCertVerificationError, host: str, port: int, endpoint: str, name: str) -> str:
    code = error.verify_code
    if code in _UNKNOWN:
        return f"{endpoint} shows a certificate of an authority that is not in ca.pem of this client's credentials"
    if code in (_EXPIRED, _NOT_YET):
        begins, ends, _ = _shown(host, port)
        return (
            f"the certificate of {endpoint} expired at {ends}: renew it there"
            if code == _EXPIRED
            else f"the certificate of {endpoint} is valid from {begins} on: compare the clocks"
        )
    if code in (_WRONG_HOST, _WRONG_ADDRESS):
        _, _, names = _shown(host, port)
        return f"{endpoint} shows a certificate for {names or 'nobody'}, not for {name}: is it another server?"
    if code == _PURPOSE:
        return f"{endpoint} shows a certificate that is a client's: issue one for a member there"
    return f"the certificate of {endpoint} is not valid: {error.verify_message}"


def _of_handshake(error: ssl.SSLError, host: str, port: int, endpoint: str, directory: str) -> str:
    reason = error.reason or ""
    said = next((text for alert, text in _REFUSALS.items() if reason.endswith(alert)), "")
    if not said:
        return _plain(host, port, endpoint, directory) or f"no TLS with {endpoint}: {reason or error}"
    return _refused(endpoint, directory, said)


def _refused(endpoint: str, directory: str, said: str = "does not take this client's certificate") -> str:
    """It has seen the certificate and ended the connection: what this client can see in it by itself, else what the
    server says.
    """
    from tandemq.credentials.reading import problem_of_key, problem_of_time, shown

    if (Path(directory) / TOKEN).exists():
        return (
            f"{endpoint} wants a certificate, and this client has a token ({directory}): name the port for tokens "
            "there (manager.listen_bearer), or give the client a certificate"
        )
    path = Path(directory) / CHAIN
    try:
        found = shown(path.read_bytes())
    except (OSError, ValueError) as error:
        return f"{path}: {error}"
    text = f"{endpoint} {said}, {path}: it was issued by {found.authority}; does the member know that authority?"
    return problem_of_time(found, str(path)) or problem_of_key(found, str(path)) or text


def _of_key(directory: str) -> str:
    """Python's ssl makes connections with kinds of keys that gRPC does not."""
    from tandemq.credentials.reading import problem_of_key, shown

    path = Path(directory) / CHAIN
    try:
        return problem_of_key(shown(path.read_bytes()), str(path))
    except (OSError, ValueError):
        return ""  # exchanged since


def _plain(host: str, port: int, endpoint: str, directory: str) -> str:
    """Whether the port speaks without TLS."""
    with contextlib.suppress(OSError), _connected(host, port) as sock:
        sock.sendall(FIRST_WORD)
        if sock.recv(4)[3:] == SETTINGS:
            return (
                f"{endpoint} has no TLS, and this client has credentials ({directory}): give the member some "
                "([security] credentials), or leave the client's out"
            )
    return ""


def _shown(host: str, port: int) -> tuple[str, str, str]:
    """From when until when the certificate there is valid, and for which names."""
    from tandemq.credentials.reading import from_der

    try:
        with _connected(host, port) as sock, _trusting().wrap_socket(sock) as tls:
            data = tls.getpeercert(binary_form=True)
    except (ssl.SSLError, OSError):
        data = None
    if data is None:
        return "?", "?", ""
    found = from_der(data)
    return found.begins.isoformat(), found.ends.isoformat(), ", ".join(found.names)


def _trusting() -> ssl.SSLContext:
    """To look at a certificate, and for nothing else: nothing is said over it."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


def _connected(host: str, port: int, timeout_s: float = 0.0) -> socket.socket:
    return socket.create_connection((host, port), timeout=timeout_s or LOOK_S)
