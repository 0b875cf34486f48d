"""What a running pair looks like to those who load it, watch it and hurt it, whoever started its processes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from chaos.network import Network
from chaos.preload import Preload
from tandemq.cli.view import PairView


class Pair(Protocol):
    """Where a pair is, and how it does. `chaos.cluster.Cluster` is one."""

    @property
    def pair(self) -> str: ...
    @property
    def members(self) -> Sequence[str]: ...
    @property
    def target(self) -> str:
        """What a client is given."""
        ...

    @property
    def witness_endpoint(self) -> str:
        """Of the witness itself, past any relay; empty: it cannot be asked."""
        ...

    @property
    def credentials(self) -> str:
        """A directory of an administrator's credentials; empty: the pair is plain."""
        ...

    def endpoint(self, name: str) -> str:
        """A member's client port."""
        ...

    async def status(self) -> PairView: ...
    async def wait_for(self, condition: Callable[[PairView], bool], what: str, deadline_s: float = ...) -> PairView:
        """The first view for which `condition` holds. Raises RuntimeError at the deadline, saying what was seen."""
        ...


class Hands(Protocol):
    """What can be done to the processes of a pair. All may raise RuntimeError, saying why it cannot be done here."""

    @property
    def network(self) -> Network | None:
        """Its wires; None: they cannot be hurt here."""
        ...

    @property
    def preload(self) -> Preload | None:
        """Its members' disks and clocks; None: they cannot be hurt here."""
        ...

    async def kill(self, name: str) -> None:
        """kill -9; returns when it is gone. One that is gone already is left alone."""
        ...

    def freeze(self, name: str) -> None:
        """SIGSTOP."""
        ...

    def thaw(self, name: str) -> None:
        """SIGCONT."""
        ...

    async def start(self, name: str) -> None:
        """Starts what is gone; returns when it answers. One that runs is left alone."""
        ...

    def check_alive(self, may_end: Sequence[str]) -> None:
        """Raises RuntimeError when it is known that something ended that nobody killed and that is not one of these."""
        ...

    async def ended(self, name: str) -> bool:
        """Its process is known to be gone; False where that cannot be known."""
        ...
