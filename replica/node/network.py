"""What a manager asks of the network: connections to other processes, and whether one answers at its port."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    import grpc

    from tandemq.channels import Open


class Network(Protocol):
    """The real one is `replica.listen.machine_access`, the simulator has another."""

    def channel(self, address: str, options: Sequence[tuple[str, Any]]) -> grpc.aio.Channel:
        """A connection to another process, made when it is first used."""

    def opener(self) -> Open:
        """What makes those; for who keeps them and has them made anew."""

    async def is_refused(self, address: str) -> bool:
        """Whether that port refuses: its process is gone, or its host answers for it."""

    async def takes_clients(self, address: str) -> bool:
        """Whether a new client is taken at that address (host:port, or unix:/path)."""
