"""Connections and ports with credentials; never decides who may do what there.

A channel keeps the credentials with which it was made, for all its connections: when others come into force, whoever
keeps it (`tandemq.channels.Kept`) opens a new one. A port asks for them at each handshake.
"""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable
from typing import Any

import grpc
import grpc.aio

from tandemq.channels import PLAIN, Renewed, open_channel
from tandemq.credentials.files import TOKEN, Credentials
from tandemq.grpc_engine import NONE_OLDER, SUITES, takes_older_tls

log = logging.getLogger("tandemq.credentials")

REPLACED_S = 0.05
"""Between the last handshake that may begin with old credentials and their end: it takes hold of them long before."""


class SecureOpen(Renewed):
    """Opens channels with mutual TLS, or with TLS and a token that each call shows; those that need no network are
    opened as they are.
    """

    def __init__(self, credentials: Credentials) -> None:
        """Raises BadCredentials for a token that cannot be sent."""
        self.credentials = credentials
        self._shows: grpc.CallCredentials | None = None
        if credentials.material.shows_token:
            from tandemq.credentials.token import TokenFile, TokenMetadata

            file = TokenFile(credentials.directory / TOKEN)
            self._shows = grpc.metadata_call_credentials(TokenMetadata(file), name="tandemq-token")

    @property
    def generation(self) -> int:
        """See Renewed."""
        return self.credentials.generation()

    @property
    def directory(self) -> str:
        """See Renewed."""
        return str(self.credentials.directory)

    @property
    def keeps_to_named(self) -> bool:
        """See Renewed: members name their ports for certificates."""
        return self._shows is not None

    def __call__(self, endpoint: str, options: Iterable[tuple[str, Any]] = ()) -> grpc.aio.Channel:
        """As `open_channel`."""
        if endpoint.startswith(PLAIN):
            return open_channel(endpoint, options)
        now = self.credentials.now()
        if self._shows is not None:
            # gRPC never sends what it gets from a call's credentials over a plain connection.
            trusted = grpc.ssl_channel_credentials(now.authority)
            return open_channel(endpoint, options, grpc.composite_channel_credentials(trusted, self._shows))
        return open_channel(endpoint, options, grpc.ssl_channel_credentials(now.authority, now.key, now.chain))


def port_credentials(credentials: Credentials, *, asks: bool = True) -> grpc.ServerCredentials:
    """For a port that takes nobody without a certificate of the same authority; `asks` is False: for one that shows
    its own and asks for none. Says so in the log where it takes TLS 1.2 too.
    """
    if takes_older_tls(os.environ):
        log.warning(
            "a port of this process takes TLS 1.2 too: its gRPC was imported before anybody could say otherwise; set "
            "%s=%s before the application starts, or run the manager with `tandemq serve`",
            *(SUITES, NONE_OLDER),
        )

    given = credentials.now()

    def configuration() -> grpc.ServerCertificateConfiguration:
        return grpc.ssl_server_certificate_configuration([(given.key, given.chain)], given.authority if asks else None)

    def changed() -> Any:  # None: as before, which the stubs of grpc do not know
        """gRPC frees what it has at every other answer, while another thread may be about to take hold of it: processes
        died of that (docs/decisions/0098-handshakes.md). It begins no handshake while it waits for this one.
        """
        nonlocal given
        now = credentials.now()
        if now == given:
            return None
        given = now
        time.sleep(REPLACED_S)
        return configuration()

    return grpc.dynamic_ssl_server_credentials(configuration(), changed, require_client_authentication=asks)
