"""Keeps a member's commit log, one file: what `append` has written is durable. Never decides what goes there.

The file has its full length from the start, in zeros, so that a write changes no size and no block map, and syncing it
costs one write. A write never touches a block of an entry that is durable and not yet in the database.
"""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import NamedTuple

from storage.directory import sync_directory
from storage.doubt import Doubt, Reported, doubts_of_log
from storage.errors import CorruptRecord, StoreFailed
from storage.log_format import (
    BLOCK_BYTES,
    ID_BYTES,
    Content,
    LogEntry,
    LogState,
    content_of,
    encode_entry,
    encode_first_block,
)

NO_SPACE = (errno.ENOSPC, errno.EDQUOT)
LOG_NAME = "commit.log"
LOG_BYTES = 4 << 20
_NEARLY_FULL = 0.75


class LogFullError(Exception):
    """The file system has no room for what it already has: one that copies on write."""


class CommitLog:
    """Used by the writer alone; `close` by whoever knows that it has ended."""

    def __init__(self, descriptor: int, log_id: bytes, *, last: int, end: int) -> None:
        self.log_id = log_id
        self.size = os.fstat(descriptor).st_size
        self.last = last
        """Number of the last entry; it counts up for ever."""
        self.end = end
        """Where the next entry begins."""
        self._descriptor = descriptor

    @property
    def is_nearly_full(self) -> bool:
        """Time to fold."""
        return self.end > self.size * _NEARLY_FULL

    def prepare(self, content: Content, *, empty: bool) -> bytes | None:
        """The bytes of the next entry; None: there is no room. `empty`: the database holds all that was written."""
        if empty:
            self.end = BLOCK_BYTES
        data = encode_entry(self.log_id, self.last + 1, content)
        return data if self.end + len(data) <= self.size else None

    def append(self, data: bytes) -> int:
        """Writes what was prepared; durable when this returns. Its number.

        LogFull: it is void once the database says that it holds `last`. OSError: whether it is there is unknown.
        """
        self.last += 1
        try:
            if os.pwrite(self._descriptor, data, self.end) != len(data):
                raise LogFullError
            os.fdatasync(self._descriptor)
        except OSError as error:
            if error.errno in NO_SPACE:
                raise LogFullError from error
            raise
        self.end += len(data)
        return self.last

    def close(self) -> None:
        """Once."""
        os.close(self._descriptor)


def make_log(directory: Path) -> CommitLog:
    """A new and empty one, durable, in place of whatever has its name. Raises OSError."""
    path = directory / LOG_NAME
    path.unlink(missing_ok=True)
    log_id = os.urandom(ID_BYTES)
    with open(path, "xb", opener=_private) as file:
        file.write(encode_first_block(log_id).ljust(LOG_BYTES, b"\0"))
        file.flush()
        os.fsync(file.fileno())
    sync_directory(directory)
    return CommitLog(_open_to_write(path), log_id, last=0, end=BLOCK_BYTES)


class LogRead(NamedTuple):
    """A log as it was found."""

    entries: list[LogEntry]
    """What the database does not hold."""
    doubts: list[Doubt]


def read_log(directory: Path, state: LogState, reported: Reported) -> LogRead:
    """Writes nothing. Raises CorruptRecord."""
    path = directory / LOG_NAME
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise CorruptRecord(f"{LOG_NAME} is missing, and may hold commits that were reported", str(directory)) from None
    entries, end = content_of(data, state, str(path))
    return LogRead(entries, doubts_of_log(end, len(data), LOG_BYTES, reported, str(path)))


def open_log(directory: Path, state: LogState, reported: Reported) -> tuple[CommitLog, LogRead]:
    """The log to go on with, and what was found. Raises CorruptRecord, StoreFailed."""
    read = read_log(directory, state, reported)
    entries = read.entries
    path = directory / LOG_NAME
    descriptor = _open_to_write(path)
    if entries:
        try:
            # What a killed process wrote may be seen and not yet be on the disk; from here on it counts as reported.
            os.fsync(descriptor)
        except OSError as error:
            os.close(descriptor)
            raise StoreFailed(f"The commit log cannot be synced: {error}", str(path)) from error
    last, end = (entries[-1].number, entries[-1].end) if entries else (state.folded, BLOCK_BYTES)
    return CommitLog(descriptor, state.log_id, last=last, end=end), read


def _open_to_write(path: Path) -> int:
    return os.open(path, os.O_WRONLY | os.O_CLOEXEC)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_CLOEXEC, 0o600)
