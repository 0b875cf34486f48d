"""Keeps the witness's registers in an LMDB environment of its own; it never answers before the disk has, never serves.

One writer: every method but `get` and the constructor must be called from one and the same thread. A register is in
memory only once it is durable, so `get` may be called from anywhere.

Format 1, three named databases:
  meta       "format" -> b"1"
  registers  pair NUL domain -> CRC32C (4 bytes, big-endian) + tandemq.witness.v1.Register
  journal    the same key + version (8 bytes, big-endian) -> CRC32C + wall time in ms (8 bytes) + CompareAndSetRequest
To change it: raise FORMAT, and read the older one in `_load`. A higher format than ours is refused, not guessed at.
"""

from __future__ import annotations

import fcntl
import os
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import google_crc32c
import lmdb

from failover.register import STARTS, Register, check_force, check_set, forced
from failover.wire import BadRegisterError, from_message, to_message
from storage.directory import LOCK_NAME, make_directory, make_whole, sync_directory
from storage.entries import check_database, check_files
from storage.environment import DATA_FILE, LOCK_FILE, check_pages, read_meta_pages
from storage.errors import CorruptRecord
from tandemq.witness.v1 import witness_service_pb2 as pb

FORMAT = 1
REGISTERS = "registers"
"""The directory of the environment, within the witness's own."""
REGISTER_COUNT_MAX = 10_000  # pairs x domains
JOURNAL_COUNT_MAX = 1_000  # sets kept for each register
# Sparse. Worst case 10,000 registers x 1,000 sets x 0.5 KiB = 5 GiB; copy-on-write needs some more.
MAP_BYTES = 8 * 1024**3
_CRC, _WALL, _VERSION = struct.Struct(">I"), struct.Struct(">Q"), struct.Struct(">Q")


class DirectoryInUseError(RuntimeError):
    """Another process has the data directory open."""


class StoreDamagedError(RuntimeError):
    """What is on disk cannot be trusted; a witness that guessed could make two masters."""


class QuotaExceededError(RuntimeError):
    """No further register is taken in; existing ones go on."""


class StoreFullError(RuntimeError):
    """Disk or map is full; the set was not made."""


class StoreBrokenError(RuntimeError):
    """A write failed and what is on disk is not known; the process must end, and a restart will read it."""


class WitnessStore:
    """Registers by (pair, domain)."""

    def __init__(
        self, data_dir: Path, *, register_count_max: int = REGISTER_COUNT_MAX, map_bytes: int = MAP_BYTES
    ) -> None:
        self._broken: str | None = None
        make_directory(data_dir)
        with ExitStack() as opened:
            registers = data_dir / REGISTERS
            with _damage():
                check_files(data_dir, (LOCK_NAME,))
                opened.callback(os.close, _lock(data_dir))
                if registers.exists() and not registers.is_dir():
                    raise CorruptRecord(f"{REGISTERS} is no directory", str(data_dir))
                make_directory(registers)
                check_files(registers, (DATA_FILE, LOCK_FILE))
                check_database(registers, (LOCK_FILE,))
                make_whole(registers, DATA_FILE, lambda making: _make_environment(making, map_bytes))
                self._env = _open_environment(registers, map_bytes)
                opened.callback(self._env.close)
                _check_names(self._env)
                self._meta_db = self._env.open_db(b"meta")
                self._registers_db = self._env.open_db(b"registers")
                self._journal_db = self._env.open_db(b"journal")
                self._registers = self._load()
            # LMDB syncs what is in its file, never the file's name: without this a power loss may leave a witness that
            # has answered and knows nothing. Each time: the process that made the files may have died before it did.
            sync_directory(registers)
            sync_directory(data_dir)
            self.register_count_max = register_count_max
            self._opened = opened.pop_all()

    def get(self, pair: str, domain: str) -> Register:
        """The durable register; a new one when never set."""
        return self._registers.get(_key(pair, domain), Register())

    def __len__(self) -> int:
        return len(self._registers)

    def compare_and_set(self, request: pb.CompareAndSetRequest) -> tuple[Register, str | None]:
        """The register in force and why the set was refused, or None: then it is durable. Blocks for an fsync.

        The request is valid. Raises QuotaExceededError and StoreFullError with nothing changed, and StoreBrokenError.
        """
        if self._broken is not None:
            raise StoreBrokenError(self._broken)
        key = _key(request.pair, request.domain)
        current = self._registers.get(key, Register())
        expected, desired = from_message(request.expected), from_message(request.desired)
        if current == desired and not desired.is_new:
            return current, None  # a repetition of the set that is in force: the nonce says so
        if (why := check_set(current, expected, desired)) is not None:
            return current, why
        self._put(key, current, desired, request)
        return desired, None

    def force(self, request: pb.ForceRegisterRequest, nonce: bytes) -> tuple[Register, str | None]:
        """As `compare_and_set`, by an operator's word: only `check_force` objects, and only the holder may claim next.

        In the journal it stands as a set by "operator: REASON".
        """
        if self._broken is not None:
            raise StoreBrokenError(self._broken)
        key = _key(request.pair, request.domain)
        current = self._registers.get(key, Register())
        epoch, holder = request.epoch, request.holder
        started = frozenset(
            domain.removeprefix(STARTS) for _, domain, _ in self.registers(request.pair) if domain.startswith(STARTS)
        )
        if (why := check_force(current, request.expected_version, epoch, holder, request.reason, started)) is not None:
            return current, why
        desired = forced(current, epoch=epoch, holder=holder, nonce=nonce)
        journalled = pb.CompareAndSetRequest(
            pair=request.pair,
            domain=request.domain,
            expected=to_message(current),
            desired=to_message(desired),
            member=f"operator: {request.reason}",
        )
        self._put(key, current, desired, journalled)
        return desired, None

    def registers(self, pair: str = "") -> list[tuple[str, str, Register]]:
        """(pair, domain, register) of one pair, or of all, sorted."""
        found = []
        for key, register in sorted(self._registers.items()):
            owner, _, domain = key.decode().partition("\0")
            if pair in ("", owner):
                found.append((owner, domain, register))
        return found

    def _put(self, key: bytes, current: Register, desired: Register, request: pb.CompareAndSetRequest) -> None:
        if current.is_new and len(self._registers) >= self.register_count_max:
            raise QuotaExceededError(f"this witness keeps {self.register_count_max} registers and has them all")
        try:
            with self._env.begin(write=True) as txn:
                txn.put(key, _sealed(to_message(desired).SerializeToString()), db=self._registers_db)
                entry = _WALL.pack(time.time_ns() // 1_000_000) + request.SerializeToString()
                txn.put(key + _VERSION.pack(desired.version), _sealed(entry), db=self._journal_db)
                if desired.version > JOURNAL_COUNT_MAX:  # versions are dense, so one goes as one comes
                    txn.delete(key + _VERSION.pack(desired.version - JOURNAL_COUNT_MAX), db=self._journal_db)
        except (lmdb.MapFullError, lmdb.DiskError) as error:
            raise StoreFullError(str(error)) from error  # the transaction is void, the disk is as it was
        except lmdb.Error as error:
            # After a failed fsync the pages count as clean: asking again would be answered from a cache. Stop for good.
            self._broken = str(error)
            raise StoreBrokenError(self._broken) from error
        self._registers[key] = desired

    def journal(self, pair: str, domain: str) -> Iterator[tuple[int, pb.CompareAndSetRequest]]:
        """The last sets of one register, oldest first, each with its wall time in milliseconds."""
        prefix = _key(pair, domain)
        with self._env.begin() as txn, txn.cursor(self._journal_db) as cursor:
            entries = []
            found = cursor.set_range(prefix + _VERSION.pack(0))
            while found and len(cursor.key()) == len(prefix) + _VERSION.size and cursor.key().startswith(prefix):
                entries.append(_opened(cursor.key(), cursor.value()))
                found = cursor.next()
        for entry in entries:
            (wall_ms,) = _WALL.unpack_from(entry)
            yield wall_ms, pb.CompareAndSetRequest.FromString(entry[_WALL.size :])

    def close(self) -> None:
        """Frees the directory. Nothing is pending: every set was durable when it returned."""
        self._opened.close()

    def _load(self) -> dict[bytes, Register]:
        with self._env.begin(write=True) as txn:
            found = txn.get(b"format", db=self._meta_db)
            if found is None:
                txn.put(b"format", str(FORMAT).encode(), db=self._meta_db)
            elif found != str(FORMAT).encode():
                raise StoreDamagedError(f"the witness's data has format {found.decode()}, this program reads {FORMAT}")
            with txn.cursor(self._registers_db) as cursor:
                registers = {bytes(key): _register(bytes(key), bytes(value)) for key, value in cursor}
            for key, register in registers.items():
                # A checksum is of what stands under a name, not of the name: the journal says it a second time.
                if txn.get(key + _VERSION.pack(register.version), db=self._journal_db) is None:
                    raise StoreDamagedError(f"the journal knows nothing of the record at {key!r}")
            return registers


def _check_names(env: lmdb.Environment) -> None:
    """A name that is none of ours was one: under it lie registers, and LMDB would begin empty ones."""
    if others := sorted(set(env.dbs()) - {b"meta", b"registers", b"journal"}):
        raise StoreDamagedError(f"the witness's data has a database {others[0]!r}, which is none of its own")


@contextmanager
def _damage() -> Iterator[None]:
    """What keeps a directory from being opened, as StoreDamagedError. Other processes and full disks are none."""
    try:
        yield
    except CorruptRecord as corrupt:
        raise StoreDamagedError(f"{corrupt.what} ({corrupt.where})") from corrupt
    except (lmdb.MapFullError, lmdb.DiskError):
        raise
    except lmdb.Error as error:
        raise StoreDamagedError(f"LMDB cannot read the registers: {error}") from error


def _open_environment(directory: Path, map_bytes: int) -> lmdb.Environment:
    # lib_version=0: the format of new files is ours to choose, not an environment variable's. sync and metasync stay
    # on: anything less may lose the last commit, and the last commit is what was promised.
    check_pages(directory)
    pages = read_meta_pages(directory)
    if pages is not None and not pages.fits:
        # LMDB would go on from the older one, and the witness would answer what it has answered before once more.
        what = f"The meta pages are of transactions {pages.first} and {pages.second}, which do not follow each other"
        raise CorruptRecord(what, str(directory / DATA_FILE))
    return lmdb.open(os.fspath(directory), map_size=map_bytes, max_dbs=3, mode=0o600, lib_version=0)


def _make_environment(directory: Path, map_bytes: int) -> None:
    """A new one that says its format."""
    with _open_environment(directory, map_bytes) as env:
        meta_db = env.open_db(b"meta")
        with env.begin(write=True) as txn:
            txn.put(b"format", str(FORMAT).encode(), db=meta_db)


def _key(pair: str, domain: str) -> bytes:
    return pair.encode() + b"\0" + domain.encode()


def _sealed(payload: bytes) -> bytes:
    # LMDB's pages carry no checksum; a register with a flipped bit would be believed.
    return _CRC.pack(google_crc32c.value(payload)) + payload


def _opened(key: bytes, value: bytes) -> bytes:
    payload = value[_CRC.size :]
    if len(value) < _CRC.size or _CRC.unpack_from(value)[0] != google_crc32c.value(payload):
        raise StoreDamagedError(f"the record at {key!r} fails its checksum")
    return payload


def _register(key: bytes, value: bytes) -> Register:
    payload = _opened(key, value)
    try:
        return from_message(pb.Register.FromString(payload))
    except BadRegisterError as error:
        raise StoreDamagedError(f"the record at {key!r} is no register: {error}") from error


def _lock(data_dir: Path) -> int:
    """LMDB lets two processes write one file; two witnesses on one directory would then take turns in being wrong."""
    fd = os.open(data_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        owner = os.pread(fd, 32, 0).decode(errors="replace").strip() or "unknown"
        os.close(fd)
        raise DirectoryInUseError(f"{data_dir} is in use by process {owner}") from None
    os.ftruncate(fd, 0)
    os.pwrite(fd, f"{os.getpid()}\n".encode(), 0)
    return fd
