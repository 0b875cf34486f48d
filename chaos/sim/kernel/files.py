"""The files on a simulated disk, beside its store: kept as `storage.files` promises, and no better.

A process that is killed leaves what it wrote; a machine that loses power keeps what was synced, and of the rest of a
file as much as the disk's stream says. Where the disk has no room or is gone, they fail as its store does.
"""

from __future__ import annotations

import errno
import io
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import BinaryIO, cast


@dataclass(slots=True)
class Kept:
    """One file: what was written, and how much of it is durable."""

    data: bytearray = field(default_factory=bytearray)
    synced: int = 0


class _Writing(io.RawIOBase):
    def __init__(self, name: str, kept: Kept, check: Callable[[], None]) -> None:
        super().__init__()
        self.name, self.kept, self._check = name, kept, check

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        self._check()
        view = memoryview(data)  # type: ignore[arg-type]  # whatever bytes can be made of
        self.kept.data += view
        return view.nbytes

    def tell(self) -> int:
        return len(self.kept.data)


class _Reading(io.BytesIO):
    def __init__(self, name: str, data: bytes) -> None:
        super().__init__(data)
        self.name = name


class SimFiles:
    """One directory; see `storage.files.Files`. `has_room` is asked at each write and each sync."""

    def __init__(self, where: str, has_room: Callable[[], bool]) -> None:
        self.where = where
        self._has_room = has_room
        self.kept: dict[str, Kept] = {}

    def create(self, name: str) -> BinaryIO:
        """See Files."""
        kept = self.kept[name] = Kept()
        return cast("BinaryIO", _Writing(name, kept, self._check))

    def sync(self, file: BinaryIO) -> None:
        """See Files."""
        self._check()
        assert isinstance(file, _Writing)
        file.kept.synced = len(file.kept.data)

    def read(self, name: str) -> BinaryIO:
        """See Files."""
        kept = self.kept.get(name)
        if kept is None:
            raise FileNotFoundError(errno.ENOENT, "No such file", f"{self.where}/{name}")
        return _Reading(name, bytes(kept.data))

    def rename(self, name: str, new: str) -> None:
        """See Files."""
        if name not in self.kept:
            raise FileNotFoundError(errno.ENOENT, "No such file", f"{self.where}/{name}")
        self.kept[new] = self.kept.pop(name)

    def remove(self, name: str) -> None:
        """See Files."""
        self.kept.pop(name, None)

    def names(self) -> list[str]:
        """See Files."""
        return sorted(self.kept)

    def _check(self) -> None:
        if not self._has_room():
            raise OSError(errno.ENOSPC, "No space left on device", self.where)

    # -- the disk ------------------------------------------------------------------------------------------------------

    def lose_power(self, fates: random.Random) -> None:
        """Of what was not synced a part stays, from its beginning; a name without anything under it may go."""
        for name in sorted(self.kept):
            kept = self.kept[name]
            if kept.synced == len(kept.data):
                continue
            del kept.data[fates.randint(kept.synced, len(kept.data)) :]
            if not kept.data and fates.random() < 0.5:
                del self.kept[name]

    def copy(self) -> SimFiles:
        """As in an image of the disk."""
        image = SimFiles(self.where, self._has_room)
        image.put_back(self)
        return image

    def put_back(self, image: SimFiles | None) -> None:
        """Holds what the image holds; nothing, without one."""
        others = {} if image is None else image.kept
        self.kept = {name: Kept(bytearray(kept.data), kept.synced) for name, kept in others.items()}
