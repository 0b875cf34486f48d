"""Decides which process may use a directory, and makes it; never looks at what a store keeps in it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

from storage.errors import DirectoryInUse, DirectoryNotEmpty, RestoreUnfinished

RESTORING = "restore.making"
LOCK_NAME = "LOCK"
_PRIVATE_DIRECTORY = 0o700
_PRIVATE_FILE = 0o600


def make_directory(directory: Path) -> None:
    """Private, and durable together with the parents that had to be made."""
    if not directory.is_dir():
        _make_parents(directory.parent)
        directory.mkdir(mode=_PRIVATE_DIRECTORY, exist_ok=True)
        sync_directory(directory.parent)
    status = directory.stat()
    # A mounted volume may belong to somebody else; the files in it are private in any case.
    if status.st_mode & 0o077 and status.st_uid == os.geteuid():
        directory.chmod(_PRIVATE_DIRECTORY)


def _make_parents(directory: Path) -> None:
    if not directory.is_dir():
        _make_parents(directory.parent)
        directory.mkdir(exist_ok=True)
        sync_directory(directory.parent)


def sync_directory(directory: Path) -> None:
    """A new file survives a power loss only once its name does; LMDB leaves that to us."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_whole(directory: Path, name: str, fill: Callable[[Path], None]) -> None:
    """Makes a file that is there whole or not at all, however the process or the power ends; one that is there stays.

    `fill` makes it, durably, in a directory of its own. A file that is made in place may keep its name and only a part
    of its first bytes: then nothing was ever promised, yet it looks like a damaged copy, and a start would refuse it.
    """
    making = directory / f"{name}.making"
    remove_directory(making)  # of a process that did not come to the end
    if (directory / name).exists():
        return
    making.mkdir(mode=_PRIVATE_DIRECTORY)
    fill(making)
    (making / name).rename(directory / name)
    sync_directory(directory)
    remove_directory(making)


def begin_restoring(directory: Path) -> Path:
    """An empty place in this directory to fill. Until `end_restoring` the directory counts as half restored.

    Raises DirectoryNotEmpty when there is anything else in it.
    """
    making = directory / RESTORING
    found = sorted(path.name for path in directory.iterdir() if path.name not in (RESTORING, LOCK_NAME, "lost+found"))
    if found:
        raise DirectoryNotEmpty(
            f"The directory holds {', '.join(found[:5])}{' ...' * (len(found) > 5)}", str(directory)
        )
    remove_directory(making)
    making.mkdir(mode=_PRIVATE_DIRECTORY)
    sync_directory(directory)
    return making


def end_restoring(directory: Path, name: str) -> None:
    """What was filled, durably, becomes the file of this name."""
    (directory / RESTORING / name).rename(directory / name)
    sync_directory(directory)
    remove_directory(directory / RESTORING)


def check_restored(directory: Path, name: str) -> None:
    """Raises RestoreUnfinished where `begin_restoring` was not followed by `end_restoring`."""
    if (directory / RESTORING).is_dir():
        if not (directory / name).exists():
            raise RestoreUnfinished("A restore into this directory was broken off", str(directory))
        remove_directory(directory / RESTORING)


def remove_directory(directory: Path) -> None:
    """With its files; one that is not there is fine."""
    if directory.is_dir():
        for path in directory.iterdir():
            path.unlink()
        directory.rmdir()


def lock_directory(directory: Path) -> int:
    """A descriptor that holds the directory until it is closed or its process dies.

    The file stays: whoever removed it could let two processes lock two files of one name.
    """
    descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE_FILE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        raise DirectoryInUse(f"The directory is in use by process {holder}", str(directory)) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor
