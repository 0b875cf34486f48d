"""Where a pair is, and whose credentials there are, as an attacker is given it: one JSON document."""

from __future__ import annotations

import ssl
from pathlib import Path

import msgspec

from tandemq.credentials.files import AUTHORITY, CHAIN, KEY


class Target(msgspec.Struct, frozen=True):
    """One pair with its witness."""

    clients: dict[str, str]
    """Endpoints by member; the first one is the master's."""
    peers: dict[str, str]
    https: dict[str, str]
    """Of the ports for health and metrics."""
    bearers: dict[str, str]
    """Of the ports for tokens."""
    tokens: dict[str, str]
    """By what is wrong with each."""
    witness: str
    credentials: str
    impostors: str

    @property
    def master(self) -> str:
        """Endpoint for clients."""
        return next(iter(self.clients.values()))

    def who(self, name: str) -> str:
        """The directory of that one's credentials."""
        return str(Path(self.credentials) / name)

    def tls(self, name: str) -> ssl.SSLContext:
        """Of a raw connection that shows that one's certificate."""
        directory = Path(self.credentials) / name
        context = ssl.create_default_context(cafile=str(directory / AUTHORITY))
        context.load_cert_chain(directory / CHAIN, directory / KEY)
        context.check_hostname = False
        context.set_alpn_protocols(["h2"])
        return context


def address_of(endpoint: str) -> tuple[str, int]:
    """As sockets want it."""
    host, _, port = endpoint.rpartition(":")
    return host, int(port)
