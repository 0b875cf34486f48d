"""What a manager takes from the machine: its directory, its ports, connections to others. Decides nothing.

The simulator has one of its own (`chaos.sim.kernel.environment`), so that everything inside is the same code there.
"""

from __future__ import annotations

import asyncio
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from failover import authorities, shipped
from failover.journal import Journal
from replica.listen.ports import Ports
from replica.node.salvage import FOLDER, SalvageFiles
from replica.node.writer import WriterThread
from replica.operations.events import EventLog
from storage.disk import open_disk
from storage.files import DirectoryFiles
from tandemq.channels import Open, open_channel

if TYPE_CHECKING:
    from collections.abc import Sequence

    from failover.authority import Authority
    from failover.classifier import Classifier
    from replica.listen.secure_access import SecureAccess
    from replica.node.writer import DiskWriter
    from storage.store import Store
    from tandemq.config import ManagerConfig

PROBE_TIMEOUT_S = 0.3
TAKES_TIMEOUT_S = 1.0
FIRST_WORD = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
"""The preface and SETTINGS that say nothing."""


class MachineAccess:
    """The real world, as one manager meets it."""

    _secure: SecureAccess | None = None
    """None: connections are plain. A class attribute, because simulated machines have no other."""

    def __init__(self, config: ManagerConfig | None = None) -> None:
        """Raises ConfigError for credentials of somebody else, or of no use."""
        if config is not None and config.security.credentials:
            from replica.listen.secure_access import SecureAccess

            self._secure = SecureAccess(config)

    def store(self, config: ManagerConfig) -> Store:
        """The store of its directory. Raises StorageError."""
        return open_disk(
            Path(config.data_dir), pair=config.pair, member=config.member, map_bytes=config.limits.map_bytes
        )

    def writer(self) -> DiskWriter:
        """Who writes to that store; a new one for each manager."""
        return WriterThread()

    def authority(self, config: ManagerConfig) -> Authority:
        """Whoever keeps the register."""
        return authorities.make(config, self.opener())

    def events(self, config: ManagerConfig) -> EventLog:
        """Where an operator reads what happened."""
        return EventLog(Path(config.data_dir), config.member)

    def salvage(self, config: ManagerConfig) -> SalvageFiles:
        """Where records are copied to before they are cut."""
        return SalvageFiles(DirectoryFiles(Path(config.data_dir) / FOLDER), pair=config.pair, member=config.member)

    def journal(self, config: ManagerConfig) -> Journal:
        """Where the classifier's calls are kept."""
        return Journal(Path(config.data_dir))

    def classifier(self, config: ManagerConfig) -> Classifier:
        """Who says which member lives; a new one for each runner. Raises ConfigError."""
        return shipped.make(config)

    def ports(self, config: ManagerConfig) -> Ports:
        """Where it is reached."""
        return Ports(config, self._secure.credentials if self._secure is not None else None)

    def channel(self, address: str, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
        """A connection to another process, made when it is first used."""
        return (open_channel if self._secure is None else self._secure.open)(address, tuple(options))

    def opener(self) -> Open:
        """What makes those."""
        return self.channel if self._secure is None else self._secure.open

    async def is_refused(self, address: str) -> bool:
        """Whether that port refuses: its process is gone, or its host answers for it. A frozen process still
        accepts. A name may have several addresses: all of them have to refuse.
        """
        host, _, port = address.rpartition(":")
        loop = asyncio.get_running_loop()
        try:
            async with asyncio.timeout(PROBE_TIMEOUT_S):
                found = await loop.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM)
                return all(await asyncio.gather(*(_is_refused(loop, family, to) for family, _, _, _, to in found)))
        except (OSError, TimeoutError):
            return False

    async def takes_clients(self, address: str) -> bool:
        """Whether a new client is taken at that address (host:port, or unix:/path): the server says its first word of
        HTTP/2 on a new connection. False too where this process has no descriptor left to ask with.
        """
        path = address.removeprefix("unix:")
        host, _, port = address.rpartition(":")
        try:
            async with asyncio.timeout(TAKES_TIMEOUT_S):
                if path != address:
                    reader, writer = await asyncio.open_unix_connection(path)
                elif self._secure is not None:
                    opened = await self._secure.connect(host.strip("[]"), int(port))
                    if opened is None:
                        return True  # it answers; what is wrong with its certificate may be wrong with the peer's too
                    reader, writer = opened
                else:
                    reader, writer = await asyncio.open_connection(host.strip("[]"), int(port))
                try:
                    writer.write(FIRST_WORD)
                    return bool(await reader.read(1))
                finally:
                    writer.close()
        except (OSError, TimeoutError):
            return False


async def _is_refused(loop: asyncio.AbstractEventLoop, family: int, address: Any) -> bool:
    """Raises OSError when there is no answer: the host may be gone, or far."""
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            await loop.sock_connect(probe, address)
        except ConnectionRefusedError:
            return True
        return False
