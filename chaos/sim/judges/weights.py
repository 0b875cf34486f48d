"""Judges what publishers and readers of a table of routing weights were answered in a run; asks nobody."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from chaos.sim.pair.members import Pair

NAME = "a table of weights is what was answered last"


class Kind(Enum):
    """What was asked."""

    PUBLISH = "publish"
    READ = "read"
    DELETE = "delete"


@dataclass(slots=True)
class Asked:
    """One call, and its answer; of one that nobody answered it is not known whether it was done."""

    kind: Kind
    asked_s: float
    by: str
    """Whose table: of a publication its own name, of a read what it has read."""
    expected: int = 0
    """What a change was to replace; 0: none."""
    answered_s: float = float("inf")
    version: int = 0
    """Given, or read; 0: there is none."""
    epoch: int = 0
    """Of who answered."""
    refused: bool = False
    """Certainly not done."""
    may_be_old: bool = False
    """Of a read: asked without naming the newest epoch while a member that was replaced did not know it yet. For as
    long, such an answer may be of the past (docs/CLIENTS.md)."""

    @property
    def is_done(self) -> bool:
        return self.answered_s != float("inf")

    def ends(self, now_s: float, version: int, epoch: int = 0) -> None:
        """The answer."""
        self.answered_s, self.version, self.epoch = now_s, version, epoch


def broken(pair: Pair, events: list[Asked]) -> Iterator[str]:
    """What cannot be, whatever went wrong."""
    done = [each for each in events if each.is_done]
    published = [each for each in done if each.kind is Kind.PUBLISH]
    epochs = {each.version: each.epoch for each in published}
    if any(each.kind is Kind.READ and each.epoch > epochs.get(each.version, each.epoch) for each in done):
        pair.run.sometimes("weights read after a takeover")
    yield from _given_once(events, done)
    yield from _compared(published)
    yield from _in_real_time(events, done)
    highest = max((each.version for each in done), default=0)
    for name, member in pair.members.items():
        machine = member.domain.shared.machine if member.domain is not None else None
        if machine is not None and machine.state.weights_version < highest:
            yield f"{name} counts {machine.state.weights_version} publications, and version {highest} was answered"


def _given_once(events: list[Asked], done: list[Asked]) -> Iterator[str]:
    """A version is one publication's, and none's that was refused."""
    refused = {each.by for each in events if each.refused}
    whose: dict[int, str] = {}
    for each in done:
        if each.version and each.kind is not Kind.DELETE:
            known = whose.setdefault(each.version, each.by)
            if known != each.by:
                yield f"version {each.version} was answered as of {known}, and as of {each.by}"
            if each.by in refused:
                yield f"version {each.version} is of {each.by}, which was refused"


def _compared(published: list[Asked]) -> Iterator[str]:
    """There is one table: what a publication has replaced is the last one before it, unless that was deleted."""
    versions = sorted(each.version for each in published)
    for each in published:
        for version in versions:
            if each.expected and each.expected < version < each.version:
                yield f"{each.by} has replaced {each.expected} by {each.version}, and {version} came between"


def _in_real_time(events: list[Asked], done: list[Asked]) -> Iterator[str]:
    """What was answered is never taken back; that there is none is answered after a deletion alone."""
    by_end = sorted(done, key=lambda each: each.answered_s)
    for read in sorted((each for each in done if each.kind is Kind.READ), key=lambda each: each.asked_s):
        if read.may_be_old:
            continue
        before = max((each.version for each in by_end if each.answered_s < read.asked_s), default=0)
        if read.version:
            if read.version < before:
                yield f"version {before} was answered, and {read.version} at {read.answered_s:.3f} s"
        elif before and not _may_be_deleted(events, read, before):
            yield f"version {before} was answered, and that there is none at {read.answered_s:.3f} s"


def _may_be_deleted(events: list[Asked], read: Asked, version: int) -> bool:
    """Somebody had asked to delete that version, or a later one, before the read was answered."""
    return any(
        each.kind is Kind.DELETE and not each.refused and each.expected >= version and each.asked_s < read.answered_s
        for each in events
    )
