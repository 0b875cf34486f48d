"""What whoever runs a twin may choose, and how its run may end. It decides nothing."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tandemq.client.target import is_local, parse_endpoints


class OnDivergence(enum.StrEnum):
    """What becomes of twins that differ. What entered first counts in each case."""

    LOG = "log"
    """Both go on."""
    STOP_LATER = "stop-later"
    """The one that came second stops."""
    STOP_BOTH = "stop-both"
    KEEP = "keep"
    """The one at the member that is named (`keep`) goes on, and the other one stops."""


class TwinEnd(enum.Enum):
    """Why `Twin.run` has returned."""

    STOPPED = enum.auto()
    RESTART = enum.auto()
    """It was asked to begin again, perhaps as a new version."""


@dataclass(frozen=True, slots=True)
class TwinOptions:
    """What both twins have in common but `side` and `directory`."""

    inputs: str
    """A queue with PRODUCER replication."""
    side: str
    """host:port of the member whose side this process takes."""
    directory: Path
    """Of its snapshots; its alone."""
    target: str = ""
    """The pair, for outputs; empty: through the same member."""
    version: str = "1"
    allow: Sequence[str] = ()
    """Other versions that do the same."""
    on_divergence: OnDivergence = OnDivergence.STOP_LATER
    keep: str = ""
    """With KEEP: a member."""
    mark_every: int = 1_000
    """Inputs between two digests of the state; the same for both."""
    snapshot_every: int = 10_000
    """Inputs between two snapshots, at most."""
    snapshot_s: float = 1.0
    """Seconds between two snapshots while anything is new, at most."""
    state_wait_s: float = 60.0
    """For how long the other twin is waited for when it is asked for its snapshot."""
    credentials: str | None = None

    def __post_init__(self) -> None:
        if self.side.startswith("//") or (not is_local(self.side) and len(parse_endpoints(self.side)) != 1):
            raise ValueError(f"the side of a twin is one member, by its host:port; not {self.side!r}")
        if min(self.mark_every, self.snapshot_every) < 1 or self.snapshot_s <= 0:
            raise ValueError("mark_every and snapshot_every are at least 1, and snapshot_s is above 0")
        if (self.on_divergence is OnDivergence.KEEP) != bool(self.keep):
            raise ValueError("on_divergence KEEP needs a member in `keep`, and nothing else does")
