"""Decides which process may use a directory, and makes it; never looks at what a store keeps in it."""

from __future__ import annotations

import fcntl
import os
from pathlib import Path

from storage.errors import DirectoryInUse

_LOCK_NAME = "LOCK"
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


def lock_directory(directory: Path) -> int:
    """A descriptor that holds the directory until it is closed or its process dies.

    The file stays: whoever removed it could let two processes lock two files of one name.
    """
    descriptor = os.open(directory / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, _PRIVATE_FILE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        holder = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(descriptor)
        raise DirectoryInUse(f"The directory is in use by process {holder}", str(directory)) from None
    os.ftruncate(descriptor, 0)
    os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
    return descriptor
