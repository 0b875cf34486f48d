"""Decides whether the disk under a directory is full, and keeps a ballast to give away when it is; never deletes data.

A full disk must stop producers and nobody else, but LMDB copies pages even to delete: with no room at all consumers
would stop too. So some of the disk is occupied at the start by a file that is given up at the first sign of trouble,
and the room that it stood for is never reported as available.

LMDB reports a full disk as ENOSPC only if not one byte fits; if a part of its pages fits, the short write becomes EIO,
the same as a dying disk's. `cannot_take` distinguishes the two by looking at the disk.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from storage.store import WriteBatch

BALLAST_BYTES = 64 << 20
BALLAST_NAME = "ballast"
# Below this many times the ballast the disk is too small, or too full, to afford one.
_AFFORDABLE = 8
_PAGE_BYTES = 4096
_TREE_PAGES_MAX = 6  # pages that one put or delete may copy: a path through the tree, plus the list of free pages
_SLACK_BYTES = 1 << 20


class DirectoryRoom:
    """The disk under one directory. Methods may be called from any thread; `give_way` from the writer alone."""

    def __init__(self, directory: Path, ballast_bytes: int) -> None:
        self._directory = directory
        self._ballast = directory / BALLAST_NAME
        self._ballast_bytes = ballast_bytes
        self._wanted = ballast_bytes > 0
        self._reserved = self._ballast.exists()  # stays true once the ballast was given away
        self.restore_ballast()

    def available_bytes(self) -> int:
        """What the store may still take; the ballast's room is not part of it, whether it is in place or not."""
        free = self._free_bytes()
        if self._reserved and not self._ballast.exists():
            free -= self._ballast_bytes
        return max(free, 0)

    def affords(self, size: int) -> bool:
        """Whether a file of this size beside the data is nothing to speak of."""
        return self.available_bytes() >= _AFFORDABLE * size

    def cannot_take(self, load: Load) -> bool:
        """Whether a write of this load that failed can be explained by a full disk."""
        return self._free_bytes() < load.bytes_at_most

    def give_way(self) -> bool:
        """Frees the ballast; False if there is none to free."""
        try:
            self._ballast.unlink()
        except FileNotFoundError:
            return False
        return True

    def restore_ballast(self) -> None:
        """Puts the ballast (back) in place, once the disk can afford it."""
        if not self._wanted or self._ballast.exists() or self._free_bytes() < _AFFORDABLE * self._ballast_bytes:
            return
        descriptor = os.open(self._ballast, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(descriptor, 0, self._ballast_bytes)
        except OSError:
            # Somebody else was faster, or the file system cannot: a member without a ballast still works.
            self._ballast.unlink(missing_ok=True)
        else:
            self._reserved = True
        finally:
            os.close(descriptor)

    def _free_bytes(self) -> int:
        status = os.statvfs(self._directory)
        return status.f_bavail * status.f_frsize


class Load(NamedTuple):
    """What is to be written in one transaction."""

    size: int
    """Bytes of records and values."""
    changes: int

    @property
    def bytes_at_most(self) -> int:
        """What the database may need for it."""
        return self.size + self.changes * (1 + _TREE_PAGES_MAX) * _PAGE_BYTES + _SLACK_BYTES

    def plus(self, other: Load) -> Load:
        """Both."""
        return Load(self.size + other.size, self.changes + other.changes)


def load_of(batch: WriteBatch) -> Load:
    """Of all that a batch does."""
    size = sum([len(entry.record) for part in (batch.inserts, batch.appends, batch.bodies) for entry in part])
    size += sum([len(value) for value in batch.meta.values() if value is not None])
    count = len(batch.inserts) + len(batch.appends) + len(batch.bodies) + len(batch.meta)
    return Load(size, count + len(batch.cut) + len(batch.wipe) + sum(map(len, batch.drops.values())))
