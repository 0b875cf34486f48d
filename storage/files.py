"""Named files of one directory, for what is kept beside the store; knows nothing of what is in them.

The order of durability belongs to the caller: what was written is durable after `sync`, a name after `rename`.
"""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO, Protocol

from storage.directory import make_directory, sync_directory


class Files(Protocol):
    """One thread writes a file; any may read. Every method raises OSError as the system does."""

    @property
    def where(self) -> str:
        """For messages to people."""
        ...

    def create(self, name: str) -> BinaryIO:
        """A new file, or an old one emptied, to be written from its beginning to its end."""
        ...

    def sync(self, file: BinaryIO) -> None:
        """What was written to it is durable when this returns."""
        ...

    def read(self, name: str) -> BinaryIO:
        """To be read at any place. FileNotFoundError when there is none of that name."""
        ...

    def rename(self, name: str, new: str) -> None:
        """Durable when this returns; takes the place of a file that had the new name."""
        ...

    def remove(self, name: str) -> None:
        """One that is not there is fine."""
        ...

    def names(self) -> list[str]:
        """Of all files, sorted; empty when the directory was never made."""
        ...


class DirectoryFiles:
    """A directory of the file system, made with the first file."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @property
    def where(self) -> str:
        """See Files."""
        return str(self.directory)

    def create(self, name: str) -> BinaryIO:
        """See Files."""
        make_directory(self.directory)
        return open(self.directory / name, "wb", opener=_private)  # the caller closes it

    def sync(self, file: BinaryIO) -> None:
        """See Files."""
        file.flush()
        os.fsync(file.fileno())

    def read(self, name: str) -> BinaryIO:
        """See Files."""
        return (self.directory / name).open("rb")

    def rename(self, name: str, new: str) -> None:
        """See Files."""
        (self.directory / name).replace(self.directory / new)
        sync_directory(self.directory)

    def remove(self, name: str) -> None:
        """See Files."""
        (self.directory / name).unlink(missing_ok=True)

    def names(self) -> list[str]:
        """See Files."""
        with suppress(FileNotFoundError):
            return sorted(entry.name for entry in os.scandir(self.directory) if entry.is_file())
        return []


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)
