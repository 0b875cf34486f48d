"""What a manager takes from the machine: its directory, its ports, connections to others. Decides nothing.

The simulator has one of its own (`chaos.sim.outside`), so that everything inside is the same code there.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc

from failover import authorities, shipped
from failover.journal import Journal
from replica.events import EventLog
from replica.ports import Ports
from replica.salvage import FOLDER, SalvageFiles
from storage.disk import open_disk
from storage.files import DirectoryFiles

if TYPE_CHECKING:
    from collections.abc import Sequence

    from failover.authority import Authority
    from failover.classifier import Classifier
    from storage.store import Store
    from tandemq.config import ManagerConfig

PROBE_TIMEOUT_S = 0.3


class Outside:
    """The real world, as one manager meets it."""

    def store(self, config: ManagerConfig) -> Store:
        """The store of its directory. Raises StorageError."""
        return open_disk(
            Path(config.data_dir), pair=config.pair, member=config.member, map_bytes=config.limits.map_bytes
        )

    def authority(self, config: ManagerConfig) -> Authority:
        """Whoever keeps the register."""
        return authorities.make(config)

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
        return Ports(config)

    def channel(self, address: str, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
        """A connection to another process, made when it is first used."""
        return grpc.aio.insecure_channel(address, options=options)

    async def is_refused(self, address: str) -> bool:
        """Whether that port refuses: its process is gone, or its host answers for it. A frozen process still
        accepts.
        """
        host, _, port = address.rpartition(":")
        try:
            _, writer = await asyncio.wait_for(asyncio.open_connection(host.strip("[]"), int(port)), PROBE_TIMEOUT_S)
        except ConnectionRefusedError:
            return True
        except (OSError, TimeoutError):
            return False
        writer.close()
        return False
