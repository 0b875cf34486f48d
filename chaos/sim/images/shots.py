"""Chooses which images of a trace are looked at: after each write, each change of a name and each promise; every one of
them differs from the others in what is on the disk or in what had been promised. Builds none.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from chaos.sim.images.disk import LIED_MAX, Disk, Kept, Loss
from chaos.sim.images.judges import Moment
from chaos.sim.images.trace import Event, Named, NamesSynced, Said, Synced
from storage.mark import MARK_FILE

_RANDOM = (Loss.WRITES, Loss.PAGES, Loss.SECTORS)
_ROUNDS_MAX = 40


class Shot(NamedTuple):
    """The power fails after this event, and this is left of what no sync covered."""

    at: int
    kept: Kept
    moment: Moment
    version: int
    """Of what was durable then."""

    @property
    def sight(self) -> tuple[int, Kept, Moment]:
        """Two images of one sight are one image."""
        return self.version, self.kept, self.moment


def moments(events: Sequence[Event]) -> Iterator[Moment]:
    """What had been said after each event."""
    moment = Moment(ready=False, done=0, doing=0)
    for event in events:
        if isinstance(event, Said):
            word, _, number = event.text.partition(" ")
            if word == "ready":
                moment = moment._replace(ready=True)
            elif word == "doing":
                moment = moment._replace(doing=int(number))
            else:
                moment = moment._replace(done=int(number))
        yield moment


def choose(events: Sequence[Event], root: str, *, wanted: int, seed: int) -> list[Shot]:
    """The images, in the order of the trace: with all lost and with nothing lost at every point there is; besides them
    random ones, evenly spread, until there are `wanted`, but half as many at the least. Fewer when there are not as
    many that differ.
    """
    chosen = {shot.sight: shot for shot in _round(events, root, (Loss.ALL, Loss.NOTHING), random.Random())}
    share = max(wanted - len(chosen), wanted // 2)
    others: dict[tuple[int, Kept, Moment], Shot] = {}
    for number in range(_ROUNDS_MAX):
        for shot in _round(events, root, _RANDOM, random.Random(f"{seed}/{number}")):
            if shot.sight not in chosen:
                others.setdefault(shot.sight, shot)
        if len(others) >= share:
            break
    drawn = random.Random(seed).sample(list(others.values()), min(share, len(others)))
    return sorted([*chosen.values(), *drawn], key=lambda shot: shot.at)


def files_of_marks(events: Sequence[Event]) -> frozenset[int | None]:
    """Where a store keeps what it has reported; written after each commit, and never synced."""
    named = (event for event in events if isinstance(event, Named) and event.path.endswith(f"/{MARK_FILE}"))
    return frozenset(event.file for event in named)


def choose_lies(events: Sequence[Event], root: str, *, wanted: int, seed: int, control: bool) -> list[Shot]:
    """Images of a device that loses its last durable writes, at every sync that answered for one, and with them what no
    sync covered, for that came later. Only the mark, which is never synced, may be there. Besides them some of a device
    that loses nothing. Control: a write is gone and a later one is there.
    """
    draw = random.Random(f"{seed}/lies")
    found: dict[tuple[int, Kept, Moment], Shot] = {}
    disk = Disk(root)
    marks = files_of_marks(events)
    for at, (event, moment) in enumerate(zip(events, moments(events), strict=True)):
        before = disk.version
        disk.apply(event)
        if not moment.ready or not (isinstance(event, Said) or disk.version > before):
            continue
        for count in range(1, LIED_MAX if control else LIED_MAX + 1):
            for torn in (False, True):
                lied = disk.lie(count, draw, torn=torn, keep_last=control)
                loss = draw.choice((Loss.ALL, Loss.NOTHING))
                kept = replace(disk.keep(loss, draw, only=None if control else marks), lied=lied)
                shot = Shot(at, kept, moment, disk.version)
                found.setdefault(shot.sight, shot)
        honest = Shot(at, disk.keep(Loss.NOTHING, draw), moment, disk.version)
        found.setdefault(honest.sight, honest)
    return sorted(draw.sample(list(found.values()), min(wanted, len(found))), key=lambda shot: shot.at)


def _round(events: Sequence[Event], root: str, losses: Sequence[Loss], draw: random.Random) -> Iterator[Shot]:
    disk = Disk(root)
    for at, (event, moment) in enumerate(zip(events, moments(events), strict=True)):
        disk.apply(event)
        if isinstance(event, Synced | NamesSynced) or (isinstance(event, Said) and event.text.startswith("doing")):
            continue
        for loss in losses[: 1 if disk.is_clean else len(losses)]:
            yield Shot(at, disk.keep(loss, draw), moment, disk.version)
