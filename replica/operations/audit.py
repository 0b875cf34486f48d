"""Keeps who was refused and who gave orders, in a file that outlives the process. Decides nothing, and nobody waits
for it: what cannot be written is counted.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import os
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from datetime import UTC, datetime
from io import FileIO
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from storage.directory import sync_directory
from tandemq.ambient import monotonic_ms, wall_ms
from tandemq.auditing import FILE, OLDER, AuditLine

if TYPE_CHECKING:
    from pathlib import Path

log = logging.getLogger("tandemq.audit")

PENDING_MAX = 10_000
"""Lines that wait for the disk; what comes beyond is lost, and counted."""
KEYS_MAX = 1_000
"""Principals and reasons that refusals are counted by at a time; those beyond share one count."""
FSYNC_S = 1.0
SECOND_MS = 1_000
TEXT_CHARS_MAX = 322
"""Of each text in a line: what the full name of a queue may have."""
_OTHERS = ("", "")


class Audited(NamedTuple):
    """The same, as it is said by whoever lets calls in."""

    principal: str
    address: str
    method: str
    object: str
    outcome: str
    request: str = ""


class _Count:
    """Refusals of one principal for one reason, in one second."""

    __slots__ = ("last", "left_out", "lines", "since_ms")

    def __init__(self, last: Audited, since_ms: int) -> None:
        self.last, self.since_ms = last, since_ms
        self.lines = self.left_out = 0


class AuditLog:
    """Of one member. Every method belongs to the loop but those of the writer's thread."""

    def __init__(self, directory: Path, member: str, *, bytes_max: int, refusals_max: int) -> None:
        """`bytes_max`: of both files together; `refusals_max`: lines in a second for one principal and reason."""
        self.member = member
        self.lost = 0
        """Lines that were not written."""
        self._directory = directory
        self._half_bytes, self._refusals_max = bytes_max // 2, refusals_max
        self._loop = asyncio.get_running_loop()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tandemq-audit")
        self._pending: list[bytes] = []
        self._writing: asyncio.Future[int] | None = None
        self._counts: dict[tuple[str, str], _Count] = {}
        self._file: FileIO | None = None
        self._size = 0
        self._synced_s = 0.0
        self._unsynced = False
        self._failed = False

    def ordered(self, line: Audited) -> None:
        """Somebody gave an order, and this is what came of it."""
        self._add(line)

    def refused(self, line: Audited) -> None:
        """Somebody was refused. Beyond so many in a second they are counted alone."""
        count = self._count_of(line)
        count.last = line
        if count.lines >= self._refusals_max:
            count.left_out += 1
            return
        count.lines += 1
        self._add(line, count.left_out)
        count.left_out = 0

    def look(self, _now_ms: int) -> None:
        """At each tick: what was left out in a second that is over gets its line, and what is written goes to disk."""
        if self._unsynced and self._writing is None and time.monotonic() - self._synced_s >= FSYNC_S:
            self._begin([])
        if not self._counts:
            return
        now_ms = monotonic_ms()
        for key, count in list(self._counts.items()):
            if now_ms - count.since_ms < SECOND_MS:
                continue
            del self._counts[key]
            if count.left_out:
                self._add(count.last, count.left_out)

    async def close(self) -> None:
        """What is pending is written, to the disk."""
        for count in self._counts.values():
            if count.left_out:
                self._add(count.last, count.left_out)
        self._counts.clear()
        while self._writing is not None:
            await asyncio.wait([self._writing])
            await asyncio.sleep(0)
        await self._loop.run_in_executor(self._pool, self._close)
        self._pool.shutdown(wait=True)

    def _count_of(self, line: Audited) -> _Count:
        now_ms = monotonic_ms()
        key = line.principal, line.outcome
        if key not in self._counts and len(self._counts) >= KEYS_MAX:
            key = _OTHERS
        count = self._counts.get(key)
        if count is None:
            count = self._counts[key] = _Count(line, now_ms)
        elif now_ms - count.since_ms >= SECOND_MS:
            count.since_ms, count.lines = now_ms, 0
        return count

    def _add(self, line: Audited, left_out: int = 0) -> None:
        if len(self._pending) >= PENDING_MAX:
            self.lost += 1
            return
        moment = datetime.fromtimestamp(wall_ms() / 1000, UTC).isoformat(timespec="milliseconds")
        texts = {name: str(value)[:TEXT_CHARS_MAX] for name, value in line._asdict().items()}
        made = AuditLine(time=moment, member=self.member, left_out=left_out, **texts)
        self._pending.append(msgspec.json.encode(made) + b"\n")
        self._write_on()

    def _write_on(self) -> None:
        if self._writing is None and self._pending:
            batch, self._pending = self._pending, []
            self._begin(batch)

    def _begin(self, batch: list[bytes]) -> None:
        self._writing = self._loop.run_in_executor(self._pool, self._write, batch)
        self._writing.add_done_callback(self._on_written)

    def _on_written(self, done: asyncio.Future[int]) -> None:
        self._writing = None
        self.lost += done.result()
        self._write_on()

    # -- in the writer's thread --------------------------------------------------------------------------------------

    def _write(self, batch: list[bytes]) -> int:
        """How many lines were lost."""
        written = 0
        try:
            for line in batch:
                file = self._open()
                if self._size + len(line) > self._half_bytes and self._size:
                    self._rotate()
                    file = self._open()
                if file.write(line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self._unsynced = True
                self._size += len(line)
                written += 1
            if self._unsynced and time.monotonic() - self._synced_s >= FSYNC_S:
                self._sync()
        except OSError as error:
            self._fail(error)
            return len(batch) - written
        self._failed = False
        return 0

    def _open(self) -> FileIO:
        if self._file is None:
            path = self._directory / FILE
            flags = os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
            self._file = file = FileIO(os.open(path, flags, 0o600), "a")
            os.fchmod(file.fileno(), 0o600)
            self._size = os.fstat(file.fileno()).st_size
            if self._size and os.pread(file.fileno(), 1, self._size - 1) != b"\n":
                self._size += file.write(b"\n")  # killed while it wrote: that line is no line
            sync_directory(self._directory)
        return self._file

    def _rotate(self) -> None:
        self._close()
        (self._directory / FILE).replace(self._directory / OLDER)

    def _sync(self) -> None:
        if self._file is not None:
            self._unsynced = False
            os.fsync(self._file.fileno())
            self._synced_s = time.monotonic()

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                os.fsync(file.fileno())
            file.close()

    def _fail(self, error: OSError) -> None:
        if not self._failed:
            log.error("cannot write %s, what is audited is lost meanwhile: %s", self._directory / FILE, error)
        self._failed = True
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None
