"""What a power loss may leave of the files that a process wrote; never who wrote them, nor what is in them.

The rule: what a sync covered stays, of everything else any part may be lost. A part is a whole write, or, in torn
images, one page of 4 KiB or one sector of 512 bytes of it: a sector is never torn. Sizes grow with what stays. Names
are lost by other rules: those of one power loss are undone from the last one back, in the order in which they were
made, as every journalling file system does; syncing a file does not sync its name, syncing its directory does.

A device that lies answers a sync and loses the last writes that it covered: up to `LIED_MAX`, the earliest of them
perhaps only in part. To lose a write and keep a later one is the control: that no store without checksums can survive.
"""

from __future__ import annotations

import os
import random
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import PurePosixPath

from chaos.sim.images.trace import Event, Named, NamesSynced, Renamed, Resize, Said, Synced, Unnamed, Write

_PAGE, _SECTOR = 4096, 512
LIED_MAX = 3


class Loss(Enum):
    """What is lost of that which no sync covered."""

    ALL = "all"
    NOTHING = "nothing"
    WRITES = "some writes"
    PAGES = "some pages"
    SECTORS = "some sectors"


@dataclass(frozen=True, slots=True)
class Kept:
    """What of the unsynced is still there: sectors by (number of the write, place of the sector in it), and names."""

    sectors: frozenset[tuple[int, int]]
    names: int
    lied: frozenset[tuple[int, int]] = frozenset()
    """Sectors of writes that a sync had covered, and that are gone all the same."""


class Disk:
    """Files and names as they are, and which of it would survive. Paths are relative to the root."""

    def __init__(self, root: str) -> None:
        self._root = PurePosixPath(root)
        self._files: dict[int, bytearray] = {}
        self._names: dict[str, int | None] = {}
        self._changes: list[Write | Resize] = []
        self._last: list[Write | Resize] = []
        """The last that became durable, in that order, and are not in `_files` yet."""
        self._new_names: list[Named | Renamed | Unnamed] = []
        self.version = 0
        """Grows with each sync that made something durable."""

    def apply(self, event: Event) -> None:
        match event:
            case Write() | Resize():
                self._changes.append(event)
            case Synced(file, first, last):
                left: list[Write | Resize] = []
                for change in self._changes:
                    if change.file == file and first <= change.number <= last:
                        self._last.append(change)
                    else:
                        left.append(change)
                self.version += len(left) < len(self._changes)
                self._changes = left
                while len(self._last) > LIED_MAX:
                    self._carry_out(self._files, self._last.pop(0))
            case Named() | Renamed() | Unnamed():
                self._new_names.append(event)
            case NamesSynced(directory):
                for name_change in self._new_names:
                    if _directory_of(name_change) == directory:
                        self._rename(self._names, name_change)
                        self.version += 1
                self._new_names = [name for name in self._new_names if _directory_of(name) != directory]
            case Said():
                pass

    @property
    def is_clean(self) -> bool:
        """Whether nothing can be lost now."""
        return not self._changes and not self._new_names

    def keep(self, loss: Loss, draw: random.Random, *, only: Collection[int | None] | None = None) -> Kept:
        """One way in which the power may fail now. With `only` what no sync covered is left of these files alone."""
        if loss is Loss.ALL:
            return Kept(frozenset(), 0)
        kept: list[tuple[int, int]] = []
        share = 1.0 if loss is Loss.NOTHING else draw.choice((0.15, 0.5, 0.85))
        for change in self._changes:
            unit = -1
            stays = False
            for place, sector in enumerate(_sectors(change)):
                found = _unit_of(sector, loss)
                if found != unit:
                    unit, stays = found, draw.random() < share
                if stays and (only is None or change.file in only):
                    kept.append((change.number, place))
        names = len(self._new_names)
        return Kept(frozenset(kept), names if loss is Loss.NOTHING else draw.randint(0, names))

    def lie(
        self, count: int, draw: random.Random, *, torn: bool, keep_last: bool = False
    ) -> frozenset[tuple[int, int]]:
        """What is gone when the device loses so many of its last durable writes; the control keeps the very last one.

        `torn`: of the earliest of them some sectors are there.
        """
        lost = self._last[:-1][-count:] if keep_last else self._last[len(self._last) - count :]
        gone = [(change.number, place) for change in lost for place, _ in enumerate(_sectors(change))]
        if torn and lost:
            gone = [each for each in gone if each[0] != lost[0].number or draw.random() < 0.5]
        return frozenset(gone)

    def image(self, kept: Kept) -> dict[str, bytes | None]:
        """The files that are left, by path; None: a directory."""
        files = {file: bytearray(data) for file, data in self._files.items()}
        for change in self._last:
            for place, sector in enumerate(_sectors(change)):
                if (change.number, place) not in kept.lied:
                    self._carry_out(files, sector)
        for change in self._changes:
            for place, sector in enumerate(_sectors(change)):
                if (change.number, place) in kept.sectors:
                    self._carry_out(files, sector)
        names = dict(self._names)
        for name_change in self._new_names[: kept.names]:
            self._rename(names, name_change)
        left: dict[str, bytes | None] = {}
        for path, file in sorted(names.items()):
            parent = str(PurePosixPath(path).parent)
            if parent == str(self._root) or parent in names:
                where = str(PurePosixPath(path).relative_to(self._root))
                left[where] = None if file is None else bytes(files.get(file, b""))
        return left

    @staticmethod
    def _carry_out(files: dict[int, bytearray], change: Write | Resize) -> None:
        data = files.setdefault(change.file, bytearray())
        size = change.size if isinstance(change, Resize) else change.offset + len(change.data)
        if len(data) < size:
            data.extend(bytes(size - len(data)))
        if isinstance(change, Resize):
            del data[size:]
        else:
            data[change.offset : size] = change.data

    @staticmethod
    def _rename(names: dict[str, int | None], change: Named | Renamed | Unnamed) -> None:
        match change:
            case Named(path, file):
                names[path] = file
            case Renamed(old, new, file):
                names.pop(old, None)  # which may never have been durable
                names[new] = file
            case Unnamed(path):
                names.pop(path, None)


def _directory_of(change: Named | Renamed | Unnamed) -> str:
    return str(PurePosixPath(change.new if isinstance(change, Renamed) else change.path).parent)


def _sectors(change: Write | Resize) -> Iterator[Write | Resize]:
    """The parts that are lost or kept each for itself at the least, in order."""
    if isinstance(change, Resize):
        yield change
        return
    at = change.offset
    end = change.offset + len(change.data)
    while at < end:
        following = min(end, (at // _SECTOR + 1) * _SECTOR)
        yield Write(change.file, change.number, at, change.data[at - change.offset : following - change.offset])
        at = following


def _unit_of(sector: Write | Resize, loss: Loss) -> int:
    """Which of the parts of its write it belongs to, that this kind of loss takes or leaves as one."""
    if isinstance(sector, Resize) or loss not in (Loss.PAGES, Loss.SECTORS):
        return 0
    return sector.offset // (_PAGE if loss is Loss.PAGES else _SECTOR)


def write_image(files: dict[str, bytes | None], directory: str, skipped: Collection[str] = ()) -> None:
    """Lays the files of an image under a directory that is there."""
    for path, data in sorted(files.items()):  # a directory sorts before what is in it
        place = PurePosixPath(path)
        if place.name in skipped:
            continue
        target = f"{directory}/{path}"
        if data is None:
            os.makedirs(target, mode=0o700, exist_ok=True)  # noqa: PTH103  # as below
        else:
            with open(target, "wb") as file:  # noqa: PTH123  # thousands of them: a Path costs more than the file
                file.write(data)
