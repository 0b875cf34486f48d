"""Decides how a backup looks as bytes, and whether bytes are a whole one; never what is in it, nor where it is put.

    magic "TQBACK", 0, version | frame: head | frame: meta ... | frame: records ... | frame: foot
    frame: u32 length, u32 CRC32C of kind and bytes, u8 kind, bytes (big-endian). Head and foot are MessagePack.
    meta: (u16 length, key, u32 length, value) ...    records: u32 domain, then (u64 log index, u32 length, record) ...

Rows and not the pages of a database: what comes from elsewhere is parsed with every length checked, where LMDB would
trust it, and any store can be made from it. A file without its foot was not finished; the foot's BLAKE2b is over all
that comes before it.
To change the format: raise the version, read the older ones.
"""

from __future__ import annotations

import os
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from hashlib import blake2b
from itertools import pairwise
from pathlib import Path
from struct import Struct
from struct import error as StructError  # noqa: N812 - a class, whatever the module calls it
from typing import BinaryIO, NamedTuple, TypeVar

import google_crc32c
import msgspec

from storage.doubt import Doubt
from storage.errors import CorruptRecord, NewerFormat, StoreFailed
from storage.records import Prefix, head_of, read_stored_prefix
from storage.store import Usage, View, WriteBatch, place_checked

VERSION = 1
MAGIC = b"TQBACK\x00"
HEAD, META, RECORDS, FOOT = 1, 2, 3, 4
FRAME_BYTES = 1 << 20  # of records; one that is larger is alone in its frame
DIGEST_BYTES = 32
UNFINISHED = "the backup was not finished, or a part of it is missing"

_FRAME = Struct(">IIB")
_DOMAIN, _ROW = Struct(">I"), Struct(">QI")
_KEY, _VALUE = Struct(">H"), Struct(">I")


class DomainHead(msgspec.Struct, frozen=True):
    """One domain, as it is in the backup."""

    number: int
    name: str
    epoch: int
    log_index: int
    digest: bytes
    data: str
    """Name of the copy's mark."""
    records: int


class BackupHead(msgspec.Struct, frozen=True):
    """Whose backup it is, and of what moment."""

    pair: str
    member: str
    peer: str
    instance: bytes
    incarnation: int
    product: str
    store_format: int
    record_format: int
    time_ms: int
    whole: bool
    """The copy held everything that was acknowledged when it was taken."""
    domains: tuple[DomainHead, ...]
    bytes_estimate: int

    @property
    def records(self) -> int:
        """In all domains."""
        return sum(domain.records for domain in self.domains)


class BackupFoot(msgspec.Struct, frozen=True):
    """How much there is, and the proof of it."""

    records: int
    size: int
    """Bytes before the foot's frame."""
    digest: bytes


class Packer:
    """The bytes of one backup, in order: `begin`, `meta` and `records` as often as needed, `end`."""

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self._digest = blake2b(digest_size=DIGEST_BYTES)

    def begin(self, head: BackupHead) -> bytes:
        """The first bytes."""
        return self._add(MAGIC + bytes([VERSION])) + self._add(_frame(HEAD, msgspec.msgpack.encode(head)))

    def meta(self, items: Iterable[tuple[str, bytes]]) -> bytes:
        """Some named values."""
        parts: list[bytes] = []
        for key, value in items:
            name = key.encode()
            parts += (_KEY.pack(len(name)), name, _VALUE.pack(len(value)), value)
        return self._add(_frame(META, b"".join(parts)))

    def records(self, domain: int, rows: Sequence[tuple[int, bytes]]) -> bytes:
        """Some records of a domain, above all that were given before."""
        parts = [_DOMAIN.pack(domain)]
        for log_index, record in rows:
            parts += (_ROW.pack(log_index, len(record)), record)
        self.count += len(rows)
        return self._add(_frame(RECORDS, b"".join(parts)))

    def end(self) -> bytes:
        """The last bytes."""
        foot = BackupFoot(self.count, self.bytes, self._digest.digest())
        return self._add(_frame(FOOT, msgspec.msgpack.encode(foot)))

    def digest(self) -> bytes:
        """Of all bytes so far, the foot's included once it was made."""
        return self._digest.digest()

    def _add(self, data: bytes) -> bytes:
        self.bytes += len(data)
        self._digest.update(data)
        return data


def _frame(kind: int, data: bytes) -> bytes:
    return b"".join((_FRAME.pack(len(data), _crc(kind, data), kind), data))


def _crc(kind: int, data: bytes) -> int:
    crc: int = google_crc32c.extend(google_crc32c.value(bytes([kind])), data)
    return crc


_Part = TypeVar("_Part", BackupHead, BackupFoot)


class DamagedBackup(CorruptRecord):
    """A file that is no backup, or not a whole one, or one whose bytes were changed."""

    remedy = "Do not restore from this file: take another backup, or use an older one."


class _Place(NamedTuple):
    first: int
    last: int
    at: int


class BackupFile:
    """A backup as a store that is only read (see `Store`); made by `open_backup`, and checked there to the last byte.

    What the records say is not looked at. Used by one thread.
    """

    def __init__(self, file: BinaryIO, path: Path) -> None:
        self.path = path
        self.foot = BackupFoot(0, 0, b"")
        self.bytes = 0
        self._file = file
        self._meta: dict[str, bytes] = {}
        self._places: dict[int, list[_Place]] = {}
        self._cached: tuple[int, list[tuple[int, bytes]]] = (-1, [])
        self.head = self._read_head()

    # -- reading it through ----------------------------------------------------------------------------------------

    def _read_head(self) -> BackupHead:
        self.bytes = self._file.seek(0, os.SEEK_END)
        self._file.seek(0)
        start = self._file.read(len(MAGIC) + 1)
        if start[: len(MAGIC)] != MAGIC[: len(start)]:
            raise self._damaged(f"It begins with {start.hex()}: this is no backup")
        if len(start) <= len(MAGIC):
            raise self._damaged(f"It ends after {len(start)} bytes: {UNFINISHED}")
        if start[-1] != VERSION:
            what = f"This backup has format {start[-1]}, this version reads {VERSION}"
            raise NewerFormat(what, str(self.path)) if start[-1] > VERSION else self._damaged(what)
        kind, data = self._next_frame()
        if kind != HEAD:
            raise self._damaged(f"The first frame is of kind {kind}, not the head")
        return self._decode(data, BackupHead, "head")

    def read_through(self, on_progress: Callable[[int, int], None]) -> None:
        """Every frame once, to the foot; bytes read and bytes in all are reported now and then."""
        digest = blake2b(digest_size=DIGEST_BYTES)
        end = self._file.tell()
        self._file.seek(0)
        digest.update(self._file.read(end))
        records = 0
        while True:
            at = self._file.tell()
            kind, data = self._next_frame()
            if kind == FOOT:
                self.foot = self._decode(data, BackupFoot, "foot")
                break
            digest.update(_FRAME.pack(len(data), _crc(kind, data), kind))
            digest.update(data)
            if kind == META:
                self._meta.update(self._meta_in(data, at))
            elif kind == RECORDS:
                records += self._note_records(data, at)
            else:
                raise self._damaged(f"The frame at byte {at} is of kind {kind}, which does not exist")
            on_progress(self._file.tell(), self.bytes)
        if self._file.tell() != self.bytes:
            raise self._damaged(f"{self.bytes - self._file.tell()} bytes follow its end")
        if (self.foot.records, self.foot.size, self.foot.digest) != (records, at, digest.digest()):
            raise self._damaged("Its foot describes other bytes than come before it: parts were changed or moved")
        on_progress(self.bytes, self.bytes)

    def _next_frame(self) -> tuple[int, bytes]:
        at = self._file.tell()
        start = self._file.read(_FRAME.size)
        if len(start) < _FRAME.size:
            raise self._damaged(f"It ends at byte {at + len(start)} without its foot: {UNFINISHED}")
        size, crc, kind = _FRAME.unpack(start)
        # The length may be damaged too: no more is read than there is.
        if size > self.bytes - self._file.tell():
            left = self.bytes - self._file.tell()
            raise self._damaged(f"The frame at byte {at} promises {size} bytes, {left} are left: {UNFINISHED}")
        data = self._file.read(size)
        if (found := _crc(kind, data)) != crc:
            raise self._damaged(f"The frame at byte {at} has CRC32C {found:08x}, not {crc:08x}")
        return kind, data

    def _meta_in(self, data: bytes, at: int) -> Iterator[tuple[str, bytes]]:
        view, place = memoryview(data), 0
        try:
            while place < len(data):
                (size,) = _KEY.unpack_from(data, place)
                key = bytes(view[place + _KEY.size : place + _KEY.size + size]).decode()
                place += _KEY.size + size
                (size,) = _VALUE.unpack_from(data, place)
                value = bytes(view[place + _VALUE.size : place + _VALUE.size + size])
                if len(value) < size:
                    raise self._damaged(f"The frame at byte {at} ends within the value of {key!r}")
                place += _VALUE.size + size
                yield key, value
        except (StructError, UnicodeDecodeError) as error:
            raise self._damaged(f"The frame at byte {at} holds no named values: {error}") from error

    def _note_records(self, data: bytes, at: int) -> int:
        domain, rows = self._rows_in(data, at)
        if not rows:
            raise self._damaged(f"The frame at byte {at} holds no record")
        places = self._places.setdefault(domain, [])
        indexes = [places[-1].last if places else -1, *(log_index for log_index, _ in rows)]
        for before, after in pairwise(indexes):
            if after <= before:
                raise self._damaged(f"In the frame at byte {at} record {after} of domain {domain:#x} follows {before}")
        places.append(_Place(rows[0][0], rows[-1][0], at))
        return len(rows)

    def _rows_in(self, data: bytes, at: int) -> tuple[int, list[tuple[int, bytes]]]:
        rows: list[tuple[int, bytes]] = []
        try:
            (domain,) = _DOMAIN.unpack_from(data)
            place = _DOMAIN.size
            while place < len(data):
                log_index, size = _ROW.unpack_from(data, place)
                place += _ROW.size
                record = data[place : place + size]
                if len(record) < size:
                    raise self._damaged(f"The frame at byte {at} ends within record {log_index}")
                rows.append((log_index, record))
                place += size
        except StructError as error:
            raise self._damaged(f"The frame at byte {at} holds no records: {error}") from error
        return domain, rows

    def _decode(self, data: bytes, kind: type[_Part], what: str) -> _Part:
        try:
            return msgspec.msgpack.decode(data, type=kind)
        except (msgspec.MsgspecError, UnicodeDecodeError) as error:
            raise self._damaged(f"Its {what} cannot be read: {error}") from error

    def _damaged(self, what: str) -> DamagedBackup:
        return DamagedBackup(what, str(self.path))

    # -- Store -----------------------------------------------------------------------------------------------------

    def commit(self, batch: WriteBatch) -> None:
        """Never."""
        del batch
        raise StoreFailed("A backup is only read", str(self.path))

    def domains(self) -> list[int]:
        """Numbers of the domains that have records."""
        return sorted(self._places)

    def read(self, domain: int, log_index: int) -> bytes | None:
        """See Store."""
        rows = self.scan(domain, log_index, limit_records=1)
        return rows[0][1] if rows and rows[0][0] == log_index else None

    def read_many(self, domain: int, log_indexes: Sequence[int]) -> list[bytes | None]:
        """See Store."""
        return [self.read(domain, log_index) for log_index in log_indexes]

    def scan(
        self, domain: int, first: int, *, limit_records: int = 256, limit_bytes: int = 4 << 20
    ) -> list[tuple[int, bytes]]:
        """See Store."""
        found: list[tuple[int, bytes]] = []
        size = 0
        places = self._places.get(domain, [])
        start = max(0, bisect_right(places, first, key=lambda place: place.first) - 1)
        for place in places[start:]:
            for log_index, record in self._frame_at(place.at):
                if log_index < first:
                    continue
                size += len(record)
                if len(found) >= limit_records or (found and size > limit_bytes):
                    return found
                found.append((log_index, record))
        return found

    def _frame_at(self, at: int) -> list[tuple[int, bytes]]:
        if self._cached[0] != at:
            self._file.seek(at)
            self._cached = (at, self._rows_in(self._next_frame()[1], at)[1])
        return self._cached[1]

    def scan_prefixes(self, domain: int, first: int, *, limit: int = 10_000) -> list[tuple[int, Prefix, int]]:
        """See Store."""
        return [
            (index, place_checked(read_stored_prefix(record), domain, index, str(self.path)), len(record))
            for index, record in self.scan(domain, first, limit_records=limit, limit_bytes=1 << 62)
        ]

    def scan_heads(self, domain: int, first: int, *, limit: int = 1_024) -> list[tuple[int, bytes]]:
        """See Store."""
        rows = self.scan(domain, first, limit_records=limit, limit_bytes=1 << 62)
        return [(index, head_of(record)) for index, record in rows]

    def scan_indexes(self, domain: int, first: int, *, limit: int = 10_000) -> list[int]:
        """See Store."""
        return [index for index, _ in self.scan(domain, first, limit_records=limit, limit_bytes=1 << 62)]

    def bounds(self, domain: int) -> tuple[int, int] | None:
        """See Store."""
        places = self._places.get(domain)
        return (places[0].first, places[-1].last) if places else None

    def get_meta(self, key: str) -> bytes | None:
        """See Store."""
        return self._meta.get(key)

    def meta_items(self, prefix: str) -> list[tuple[str, bytes]]:
        """See Store."""
        return sorted((key, value) for key, value in self._meta.items() if key.startswith(prefix))

    def usage(self) -> Usage:
        """See Store."""
        return Usage(self.bytes, self.bytes, self.bytes)

    @property
    def doubts(self) -> Sequence[Doubt]:
        """See Store."""
        return ()

    def reader_check(self) -> int:
        """See Store."""
        return 0

    def view(self) -> View:
        """Never: it is one."""
        raise StoreFailed("A backup is no store to take a backup of", str(self.path))

    def close(self) -> None:
        """See Store."""
        self._file.close()


def open_backup(path: Path, on_progress: Callable[[int, int], None] = lambda _done, _all: None) -> BackupFile:
    """The backup in this file, read through once. Raises DamagedBackup, NewerFormat, OSError."""
    with ExitStack() as undo:
        backup = BackupFile(undo.enter_context(path.open("rb")), path)
        backup.read_through(on_progress)
        undo.pop_all()
    return backup
