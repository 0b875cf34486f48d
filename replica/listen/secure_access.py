"""Connections of one manager with its credentials: to others, and to its own port. Decides nothing."""

from __future__ import annotations

import asyncio
import logging
import ssl
from typing import TYPE_CHECKING

from tandemq.credentials import names
from tandemq.credentials.bad import BadCredentials
from tandemq.credentials.channels import SecureOpen
from tandemq.credentials.files import client_context
from tandemq.credentials.own import of_member, who_is

if TYPE_CHECKING:
    from tandemq.config import ManagerConfig

OUT_OF_TIME = (9, 10)
"""Not yet valid, and expired, in OpenSSL's x509_vfy.h."""

log = logging.getLogger("tandemq.credentials")


class SecureAccess:
    """Of one manager. Raises ConfigError for credentials of somebody else, or of no use."""

    def __init__(self, config: ManagerConfig) -> None:
        self.credentials = of_member(config)
        self.open = SecureOpen(self.credentials)
        self._own_name = names.dns(who_is(config))
        self._context: ssl.SSLContext | None = None
        self._made = 0
        """With which generation of the credentials."""
        self._warned = 0
        """Of which generation the log says that nobody takes its certificate."""

    async def connect(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter] | None:
        """To this manager's own port, as a client that has its certificate. None: the port answers with its own
        certificate, which has expired or is not valid yet; the log says so, once for each. Raises OSError.
        """
        generation = self.credentials.generation()
        if self._context is None or generation != self._made:
            try:
                self._context, self._made = client_context(self.credentials.directory), generation
            except BadCredentials as error:  # exchanged at this moment
                raise OSError(str(error)) from error
        try:
            return await asyncio.open_connection(host, port, ssl=self._context, server_hostname=self._own_name)
        except ssl.SSLCertVerificationError as error:
            if error.verify_code not in OUT_OF_TIME:
                raise
            if self._made != self._warned:
                self._warned = self._made
                why = error.verify_message or str(error)
                log.error("no new connection is taken: the certificate in %s: %s", self.credentials.directory, why)
            return None
