"""What a resolver is asked and what it answers; the plug-ins in entry-point group `tandemq.resolvers` implement it.

Nothing here asks anybody or remembers an answer: `directory.py` does, and keeps the time limits.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass

from tandemq.client.target import NoTarget, parse_endpoints
from tandemq.errors import TandemqError
from tandemq.finding.names import check_manager, check_queue

ENDPOINTS_MAX = 16  # of one manager
PRIORITY_MAX = 65_535  # as of a DNS SRV record
MANAGERS_MAX = 64  # in one answer


class ResolverAway(Exception):  # noqa: N818 - reads well where it is caught
    """The resolver cannot answer now; another one may, or this one later. OSError and TimeoutError say the same."""


class BadEntry(ValueError):  # noqa: N818 - reads well where it is caught
    """What was found is no manager or no queue; the message says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Manager:
    """One manager, or a pair, and where its members serve clients. Raises BadEntry for what cannot be one."""

    name: str
    endpoints: tuple[str, ...]  # host:port, at least one
    priority: int = 0  # lowest first, as in DNS; the first that can be reached is used

    def __post_init__(self) -> None:
        if not self.endpoints:
            raise BadEntry(f"manager {self.name!r} has no endpoint; give host:port")
        if len(self.endpoints) > ENDPOINTS_MAX:
            raise BadEntry(f"manager {self.name!r} has {len(self.endpoints)} endpoints; at most {ENDPOINTS_MAX}")
        if not 0 <= self.priority <= PRIORITY_MAX:
            raise BadEntry(f"priority {self.priority} of manager {self.name!r} is not within 0 and {PRIORITY_MAX}")
        try:
            check_manager(self.name)
            object.__setattr__(self, "endpoints", parse_endpoints(",".join(self.endpoints)))
        except TandemqError as error:
            raise BadEntry(error.message) from error
        except NoTarget as error:
            raise BadEntry(str(error)) from error

    def __str__(self) -> str:
        return f"{self.name} at {','.join(self.endpoints)}"


@dataclass(frozen=True, slots=True)
class Exported:
    """A queue that was exported so that others find it."""

    queue: str  # relative
    manager: str
    endpoints: tuple[str, ...] = ()  # where it is to be reached instead of at the manager's own; empty: there

    def __post_init__(self) -> None:
        try:
            check_queue(self.queue)
            check_manager(self.manager)
            if self.endpoints:
                object.__setattr__(self, "endpoints", parse_endpoints(",".join(self.endpoints)))
        except TandemqError as error:
            raise BadEntry(error.message) from error
        except NoTarget as error:
            raise BadEntry(str(error)) from error


@dataclass(frozen=True, slots=True)
class Answer:
    """What a name leads to: managers, or another name."""

    managers: tuple[Manager, ...] = ()  # in order of priority
    alias_of: str = ""  # not empty exactly when `managers` is
    ttl_s: float | None = None  # how long it holds; None: the directory's default

    def __post_init__(self) -> None:
        if bool(self.managers) == bool(self.alias_of):
            raise BadEntry("an answer has managers, or is an alias, and never both")
        if len(self.managers) > MANAGERS_MAX:
            raise BadEntry(f"an answer has {len(self.managers)} managers; at most {MANAGERS_MAX}")
        object.__setattr__(self, "managers", tuple(sorted(self.managers, key=lambda manager: manager.priority)))


class Resolver(ABC):
    """Knows where managers are. Calls may come at the same time; each is bounded by the directory."""

    source: str = "resolver"  # for people: what it is and where it looks

    @abstractmethod
    async def resolve(self, name: str) -> Answer | None:
        """The managers of this name, best first; None when it knows none. Raises ResolverAway."""

    async def resolve_queue(self, queue: str) -> Exported | None:  # noqa: ARG002 - for those who can
        """An exported queue; None when it knows none. Raises ResolverAway."""
        return None

    async def close(self) -> None:
        """Lets go of what it holds."""
        return


class Registry(Resolver):
    """A resolver that can also be written to."""

    @abstractmethod
    async def export(self, entry: Exported, manager: Manager) -> bool:
        """Registers the queue, and the manager unless it is there; whether anything changed.

        Refuses (CONFIG_MISMATCH) when the queue is registered for another manager, or the manager elsewhere.
        """

    @abstractmethod
    async def withdraw(self, queue: str, manager: str) -> bool:
        """Takes the queue out; False when it was not there. Refuses (CONFIG_MISMATCH) when it is another manager's."""
