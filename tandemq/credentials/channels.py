"""Connections and ports with credentials; never decides who may do what there.

A channel keeps the credentials with which it was made, for all its connections: when others come into force, whoever
keeps it (`tandemq.channels.Kept`) opens a new one. A port asks for them at each handshake.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import grpc
import grpc.aio

from tandemq.channels import PLAIN, Renewed, open_channel
from tandemq.credentials.files import Credentials


class SecureOpen(Renewed):
    """Opens channels with mutual TLS; those that need no network are opened as they are."""

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials

    @property
    def generation(self) -> int:
        """See Renewed."""
        return self.credentials.generation()

    @property
    def directory(self) -> str:
        """See Renewed."""
        return str(self.credentials.directory)

    def __call__(self, endpoint: str, options: Iterable[tuple[str, Any]] = ()) -> grpc.aio.Channel:
        """As `open_channel`."""
        if endpoint.startswith(PLAIN):
            return open_channel(endpoint, options)
        now = self.credentials.now()
        return open_channel(endpoint, options, grpc.ssl_channel_credentials(now.authority, now.key, now.chain))


def port_credentials(credentials: Credentials) -> grpc.ServerCredentials:
    """For a port that takes nobody without a certificate of the same authority."""

    def configuration() -> grpc.ServerCertificateConfiguration:
        now = credentials.now()
        return grpc.ssl_server_certificate_configuration([(now.key, now.chain)], now.authority)

    return grpc.dynamic_ssl_server_credentials(configuration(), configuration, require_client_authentication=True)
