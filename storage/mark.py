"""Keeps in a second place, `last.mark`, which writes of a store were reported durable; never decides what follows.

It is written after each commit and never synced, so it costs no wait. The other way round it proves something: what it
names was reported, so where the files hold less, they have lost it. It says nothing where it is missing, older, torn,
or of another file: a mark that could not be written, a power loss, a restored or compacted database.

    magic "TQMARK", version u8 | inode of data.mdb u64 | id of the directory, 16 bytes | last entry of the log u64
    | last transaction that carried a batch to the database u64 | CRC-32 of all before, u32. Big-endian.

What does not change is packed once, and its checksum starts with it: each commit waits for `report`.
"""

from __future__ import annotations

import contextlib
import os
from pathlib import Path
from struct import Struct
from zlib import crc32

from storage.doubt import Reported

MARK_FILE = "last.mark"
_MAGIC = b"TQMARK\x01"
_WHOSE = Struct(">7sQ16s")
_SAID = Struct(">QQ")
_ENTRY = Struct(">QQI")
_BYTES = _WHOSE.size + _ENTRY.size


class Mark:
    """Of one store; used by the writer alone."""

    def __init__(self, directory: Path, data_file: str, instance: bytes) -> None:
        self._path = directory / MARK_FILE
        self._whose = _WHOSE.pack(_MAGIC, inode_of(directory / data_file), instance)
        self._crc_of_head = crc32(self._whose)
        self._descriptor = -1
        self._entry = self._transaction = 0

    def read(self) -> Reported:
        """What it says; nothing where it is missing, damaged or of another file."""
        with contextlib.suppress(OSError):
            data = self._path.read_bytes()
            if len(data) == _BYTES and data.startswith(self._whose):
                entry, transaction, crc = _ENTRY.unpack_from(data, _WHOSE.size)
                if crc == crc32(data[: -_ENTRY.size + _SAID.size]):
                    self._entry, self._transaction = entry, transaction
        return Reported(self._entry, self._transaction)

    def begin(self) -> None:
        """From here on what is reported is written. Without a file nothing is: that only leaves less to be noticed."""
        with contextlib.suppress(OSError):
            self._descriptor = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def report(self, entry: int, transaction: int) -> None:
        """These were made durable; 0: what was reported before still stands."""
        entry = self._entry = entry or self._entry
        transaction = self._transaction = transaction or self._transaction
        if self._descriptor < 0:
            return
        crc = crc32(_SAID.pack(entry, transaction), self._crc_of_head)
        try:
            os.pwrite(self._descriptor, self._whose + _ENTRY.pack(entry, transaction, crc), 0)
        except OSError:
            self.close()

    def close(self) -> None:
        """Reports nothing any more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


def inode_of(path: Path) -> int:
    """By which a mark knows its file again."""
    return path.stat().st_ino
