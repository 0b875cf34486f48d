"""Connections of one manager with its credentials: to others, and to its own port. Decides nothing."""

from __future__ import annotations

import asyncio
import ssl
from typing import TYPE_CHECKING

from tandemq.credentials import names
from tandemq.credentials.bad import BadCredentials
from tandemq.credentials.channels import SecureOpen
from tandemq.credentials.files import client_context
from tandemq.credentials.own import of_member, who_is

if TYPE_CHECKING:
    from tandemq.config import ManagerConfig


class SecureAccess:
    """Of one manager. Raises ConfigError for credentials of somebody else, or of no use."""

    def __init__(self, config: ManagerConfig) -> None:
        self.credentials = of_member(config)
        self.open = SecureOpen(self.credentials)
        self._own_name = names.dns(who_is(config))
        self._context: ssl.SSLContext | None = None
        self._made = 0
        """With which generation of the credentials."""

    async def connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        """To this manager's own port, as a client that has its certificate. Raises OSError."""
        generation = self.credentials.generation()
        if self._context is None or generation != self._made:
            try:
                self._context, self._made = client_context(self.credentials.directory), generation
            except BadCredentials as error:  # exchanged at this moment
                raise OSError(str(error)) from error
        return await asyncio.open_connection(host, port, ssl=self._context, server_hostname=self._own_name)
