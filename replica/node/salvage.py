"""Keeps what is cut from a log: copies the records to a file before the transaction that takes them away; cuts nothing.

    <data-dir>/salvage/<domain>-<epoch>-<first>-<last>.salvage    epoch: of the last record in it

    magic "TQSALV", 0, version | frame: head | frame: record ... | frame: foot | u64: where the foot begins
    frame: u32 length, u32 CRC32C, bytes (big-endian). Head and foot are MessagePack, a record is as it was stored.

Called by the writer's thread, so the order is the durability order: the file and its name are fsynced, then the store
commits. Dying between the two repeats both: the same cut finds the same file and leaves it. A disk without room makes
the cut wait, as it makes every commit wait: nothing goes that was not copied.
To change the format: raise the version, read the older ones.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import re
from enum import Enum
from hashlib import blake2b
from struct import Struct
from typing import TYPE_CHECKING, NamedTuple

import google_crc32c
import msgspec
from google.protobuf.message import DecodeError

from replica.core.replication.divergence import UNANSWERED
from storage.errors import CorruptRecord, StoreFull
from storage.records import ZERO_DIGEST, Prefix, split, verify_stored
from tandemq.ambient import wall_ms
from tandemq.peer.v1.record_pb2 import RecordHeader

if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import BinaryIO

    from replica.core.state.effects import Salvage
    from storage.files import Files
    from storage.store import Store

log = logging.getLogger("tandemq.salvage")

MAGIC = b"TQSALV\x00\x01"
FOLDER, ENDING = "salvage", ".salvage"
FILES_MAX = 256
BYTES_MAX = 1 << 30
"""All files together: beyond either the oldest go that hold nothing acknowledged for certain, before them those that
hold nothing that may have been. The others only an operator removes.
"""
SCAN_RECORDS = 256
FRAME_BYTES_MAX = 64 << 20
_FRAME = Struct(">II")
_OFFSET = Struct(">Q")
_NAME = re.compile(r"[A-Za-z0-9._-]+\.salvage")
_NO_SPACE = (errno.ENOSPC, errno.EDQUOT)


class Certainty(Enum):
    """Whether somebody was told that a record is safe."""

    ACKNOWLEDGED = 1
    PERHAPS = 2
    UNACKNOWLEDGED = 3


class SalvageHead(msgspec.Struct):
    """Where the records come from."""

    pair: str
    member: str
    number: int
    domain: str
    first: int
    last: int
    acknowledged_up_to: int
    why: str
    time_ms: int
    unacknowledged_from: int = 0
    """See `effects.Salvage`. A file of an older version does not say it: all that is not certain may have been."""

    def certainty(self, log_index: int) -> Certainty:
        """Whether the record of this log index was acknowledged."""
        if log_index <= self.acknowledged_up_to:
            return Certainty.ACKNOWLEDGED
        if 0 < self.unacknowledged_from <= log_index:
            return Certainty.UNACKNOWLEDGED
        return Certainty.PERHAPS


class SalvageFoot(msgspec.Struct):
    """What is in the file; `operations` are the records that somebody may have been told of."""

    records: int = 0
    operations: int = 0
    acknowledged: int = 0
    """For certain."""
    unacknowledged: int = 0
    """Certainly not."""
    digest: bytes = ZERO_DIGEST
    """Chained digest of the last record: two cuts with one digest are one cut."""
    damaged: list[tuple[int, int]] = []
    """(place in the file from 0, log index) of records whose checksums no longer fit: kept as they were, not read. Each
    counts as an operation, for it may have been one.
    """

    @property
    def perhaps(self) -> int:
        """Operations that may have been acknowledged: this copy cannot tell."""
        return self.operations - self.acknowledged - self.unacknowledged


class SalvageInfo(NamedTuple):
    """One file."""

    name: str
    bytes: int
    head: SalvageHead
    foot: SalvageFoot


class SalvagedRecord(NamedTuple):
    """One record of a file."""

    log_index: int
    epoch: int
    header: RecordHeader
    body: bytes
    certainty: Certainty
    damaged: bool = False
    """The body is the whole record as it was stored, the header empty."""


class SalvageFiles:
    """The salvage of one member."""

    def __init__(self, files: Files, *, pair: str, member: str) -> None:
        self.files = files
        self.pair = pair
        self.member = member

    # -- writing (the writer's thread) -----------------------------------------------------------------------------

    def keep(self, store: Store, number: int, domain: str, salvage: Salvage) -> None:
        """As `write`, for the loop."""
        self.write(store, number, domain, salvage)

    def write(self, store: Store, number: int, domain: str, salvage: Salvage) -> str | None:
        """Copy the records; the file's name, None when there is no operation among those that are on disk.

        Raises StoreFull without room: nothing may be cut then. OSError otherwise: stop the process.
        """
        files, partial = self.files, f".{domain}-{salvage.first}.partial"
        head = SalvageHead(
            self.pair, self.member, number, domain,
            salvage.first, salvage.last, salvage.acknowledged_up_to, salvage.why, wall_ms(),
            salvage.unacknowledged_from,
        )  # fmt: skip
        try:
            with files.create(partial) as file:
                foot, epoch, last = _fill(file, store, head)
                files.sync(file)
            if not foot.operations:
                files.remove(partial)
                return None
            name = self._place(partial, f"{domain}-{epoch}-{salvage.first}-{last}", foot)
        except OSError as error:
            if error.errno in _NO_SPACE:
                with contextlib.suppress(OSError):
                    files.remove(partial)
                raise StoreFull("No room to copy what a cut would take away", files.where) from error
            raise
        log.warning(
            "domain %s: %d operations of %d to %d, %d acknowledged, %d perhaps, %d certainly not, are in %s: %s",
            domain, foot.operations, salvage.first, last, foot.acknowledged, foot.perhaps, foot.unacknowledged,
            f"{files.where}/{name}", salvage.why,
            extra={"domain": domain},
        )  # fmt: skip
        self._prune()
        return name

    def _place(self, partial: str, stem: str, foot: SalvageFoot) -> str:
        """Under its name; one that is there already with the same end is the same cut, and was copied first."""
        there = set(self.files.names())
        for suffix in ("", *(f"-{number}" for number in range(2, 1000))):
            name = f"{stem}{suffix}{ENDING}"
            if name not in there:
                self.files.rename(partial, name)
                return name
            known = self._info(name)
            if known is not None and known.foot.digest == foot.digest and known.foot.records >= foot.records:
                self.files.remove(partial)
                return name
        raise OSError(errno.EEXIST, "too many salvage files of one name; move some away", stem)

    def _prune(self) -> None:
        files = self.infos()
        total = sum(info.bytes for info in files)
        left = len(files)
        for info in sorted(files, key=lambda each: each.foot.perhaps > 0):  # stable: oldest first within both
            if left <= FILES_MAX and total <= BYTES_MAX:
                return
            if not info.foot.acknowledged:
                log.warning(
                    "%s goes: too many salvage files, and of what is in it %d operations may have been acknowledged",
                    info.name,
                    info.foot.perhaps,
                    extra={"domain": info.head.domain},
                )
                self.files.remove(info.name)
                left -= 1
                total -= info.bytes

    # -- reading (any thread) --------------------------------------------------------------------------------------

    def infos(self) -> list[SalvageInfo]:
        """Oldest first; a file that cannot be read is left out, and the log says so."""
        found = [self._info(name) for name in self._names()]
        return sorted((info for info in found if info is not None), key=lambda info: (info.head.time_ms, info.name))

    def unreadable(self) -> list[str]:
        """Names of the files that `infos` leaves out. Never removed: a part of one may still be read."""
        return [name for name in self._names() if self._info(name) is None]

    def _names(self) -> list[str]:
        return [name for name in self.files.names() if name.endswith(ENDING)]

    def _info(self, name: str) -> SalvageInfo | None:
        try:
            with self.files.read(name) as file:
                head = _head_of(file)
                _, foot = _foot_of(file)
                return SalvageInfo(name, file.seek(0, os.SEEK_END), head, foot)
        except (OSError, CorruptRecord) as error:
            log.error("salvage file %s/%s cannot be read: %s", self.files.where, name, error)
            return None

    def info(self, name: str) -> SalvageInfo | None:
        """One file; None when there is none of that name."""
        return self._info(name) if _NAME.fullmatch(name) and name in self._names() else None

    def records(self, name: str) -> Iterator[SalvagedRecord]:
        """Its records in order. Raises CorruptRecord where the file is damaged; what came before is good."""
        if not _NAME.fullmatch(name):
            return
        with self.files.read(name) as file:
            head = _head_of(file)
            end, foot = _foot_of(file)
            damaged = dict(foot.damaged)
            file.seek(len(MAGIC))
            _read_frame(file)
            count = 0
            while file.tell() < end:
                record = _read_frame(file)
                found = None if count in damaged else _taken_apart(record)
                if found is None:
                    log_index = damaged.get(count, 0)
                    yield SalvagedRecord(log_index, 0, RecordHeader(), record, head.certainty(log_index), damaged=True)
                else:
                    prefix, header, body = found
                    certainty = head.certainty(prefix.log_index)
                    yield SalvagedRecord(prefix.log_index, prefix.epoch, header, body, certainty)
                count += 1
            if count != foot.records:
                raise CorruptRecord(f"{name} has {count} of {foot.records} records")


def is_operation(header: RecordHeader) -> bool:
    """Whether a client may have been told of it."""
    return header.WhichOneof("op") not in UNANSWERED


def _fill(file: BinaryIO, store: Store, head: SalvageHead) -> tuple[SalvageFoot, int, int]:
    """Everything of the range that the store has; the foot, and epoch and log index of the last record."""
    foot = SalvageFoot()
    epoch = last = 0
    file.write(MAGIC)
    _write_frame(file, msgspec.msgpack.encode(head))
    at = head.first
    while at <= head.last and (rows := store.scan(head.number, at, limit_records=SCAN_RECORDS)):
        for log_index, record in rows:
            if log_index > head.last:
                break
            # What its checksum no longer fits is still better kept than lost, and must not hold up the cut.
            _write_frame(file, record)
            found = _taken_apart(record)
            last = log_index
            if found is None:
                text = "domain %s: record %d is damaged; it is kept as it is"
                log.error(text, head.domain, log_index, extra={"domain": head.domain})
                foot.damaged.append((foot.records, log_index))
                foot.digest = blake2b(foot.digest + record, digest_size=len(ZERO_DIGEST)).digest()
            else:
                foot.digest, epoch = found[0].digest, found[0].epoch
            foot.records += 1
            if found is None or is_operation(found[1]):
                foot.operations += 1
                certainty = head.certainty(log_index)
                foot.acknowledged += certainty is Certainty.ACKNOWLEDGED
                foot.unacknowledged += certainty is Certainty.UNACKNOWLEDGED
        at = rows[-1][0] + 1
    end = file.tell()
    _write_frame(file, msgspec.msgpack.encode(foot))
    file.write(_OFFSET.pack(end))
    return foot, epoch, last


def _taken_apart(record: bytes) -> tuple[Prefix, RecordHeader, bytes] | None:
    """Prefix, header and body; None: damaged."""
    try:
        verify_stored(record)
        prefix, header, body = split(record)
        return prefix, RecordHeader.FromString(bytes(header)), bytes(body)
    except (CorruptRecord, DecodeError):
        return None


def _write_frame(file: BinaryIO, data: bytes) -> None:
    file.write(_FRAME.pack(len(data), google_crc32c.value(data)))
    file.write(data)


def _read_frame(file: BinaryIO) -> bytes:
    start = file.read(_FRAME.size)
    if len(start) != _FRAME.size:
        raise CorruptRecord(f"{file.name} ends in the middle")
    size, crc = _FRAME.unpack(start)
    data = file.read(size) if size <= FRAME_BYTES_MAX else b""
    if len(data) != size or google_crc32c.value(data) != crc:
        raise CorruptRecord(f"{file.name} is damaged at {file.tell() - len(data)}")
    return data


def _foot_of(file: BinaryIO) -> tuple[int, SalvageFoot]:
    """Where it begins, and the foot. Raises CorruptRecord."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - _OFFSET.size))
    raw = file.read(_OFFSET.size)
    at = _OFFSET.unpack(raw)[0] if len(raw) == _OFFSET.size else size
    if not len(MAGIC) < at < size:
        raise CorruptRecord(f"{file.name} does not say where its foot begins, in its last {_OFFSET.size} bytes")
    file.seek(at)
    try:
        return at, msgspec.msgpack.decode(_read_frame(file), type=SalvageFoot)
    except msgspec.DecodeError as error:
        raise CorruptRecord(f"{file.name} has a foot that cannot be read: {error}") from error


def _head_of(file: BinaryIO) -> SalvageHead:
    magic = file.read(len(MAGIC))
    if magic != MAGIC:
        raise CorruptRecord(f"{file.name} begins with {magic.hex()}: no salvage file, or one of a newer version")
    try:
        return msgspec.msgpack.decode(_read_frame(file), type=SalvageHead)
    except msgspec.DecodeError as error:
        raise CorruptRecord(f"{file.name} has a head that cannot be read: {error}") from error
