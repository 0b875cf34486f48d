"""What a client is connected to: endpoints, or a name that resolvers know. A value; it asks nobody."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tandemq.finding.resolver import Manager


@dataclass(frozen=True, slots=True)
class Target:
    """Where the members of a pair serve clients, or by which name that is found out."""

    endpoints: tuple[
        str, ...
    ]  # host:port or unix:/path, in the order they are tried; empty: look it up by what follows
    source: str  # what named them, for messages to people
    pair: str = ""  # from the context; empty when unknown
    data_dir: str = ""  # from the context; empty when unknown
    manager: str = ""  # the name by which it was asked for; empty when endpoints were given
    queue: str = ""  # relative; what else the name said
    candidates: tuple[Manager, ...] = ()  # the first one that can be reached is used
    credentials: str = ""  # from the context, where it is of this pair: the directory of this user's; empty: none

    def with_credentials(self, directory: str) -> Target:
        """The same, with these; empty: with none."""
        return replace(self, credentials=directory)

    def __str__(self) -> str:
        if self.endpoints:
            return ",".join(self.endpoints)
        if self.candidates:
            return " or ".join(f"//{manager.name}" for manager in self.candidates)
        return f"//{self.manager}" if self.manager else f"///{self.queue}"
