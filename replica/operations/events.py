"""Keeps what happened at this member, numbered, in memory and in a file that outlives the process; decides nothing.

An event is numbered at once, written by a thread of its own, and only then shown to anybody: whoever has seen a number
finds it again after `kill -9`. The file is on disk within `FSYNC_S`; a crash of the machine may take that much of it.
No part of the pair waits for this file, and a full disk costs history, never service. Syncs have a thread of their own:
of a disk that hangs, events say so while it hangs.

Format: JSON lines, `number` first. `events.jsonl` is the newer half, `events.1.jsonl` the older one.
"""

from __future__ import annotations

import asyncio
import logging
import os
import re
import time
from bisect import bisect_left
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING

import msgspec

from storage.directory import sync_directory
from tandemq.ambient import wall_ms
from tandemq.v1.common_pb2 import Role
from tandemq.v1.pair_service_pb2 import PairEvent, PairEventKind

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path
    from typing import BinaryIO

log = logging.getLogger("tandemq.events")

KEEP = 2_000
"""Events in memory, and in each half of the file: what can be asked for."""
FSYNC_S = 1.0
HANGS_S = 1.0
"""A sync that takes longer hangs: events are shown without it."""
TEXT_CHARS_MAX = 1_000
FACTS_MAX = 32
FILE, OLDER = "events.jsonl", "events.1.jsonl"
_TORN_NUMBER = re.compile(rb'\{"number":(\d+)\D')
_KIND, _ROLE = "PAIR_EVENT_KIND_", "ROLE_"


class EventLine(msgspec.Struct, frozen=True, kw_only=True):
    """An event as it stands in the file."""

    number: int
    time_ms: int
    member: str
    kind: str
    domain: str = ""
    epoch: int = 0
    role: str = ""
    text: str = ""
    facts: dict[str, str] = {}


class EventLog:
    """The events of one member. Every method belongs to the loop, except `add_from_thread`."""

    def __init__(self, directory: Path, member: str) -> None:
        self.member = member
        self.lost = 0
        """Events that could not be written; they are shown all the same."""
        self.changed = asyncio.Event()
        """Set and replaced when events are shown."""
        self.watchers = 0
        self._directory = directory
        self._loop = asyncio.get_running_loop()
        self._shown: list[PairEvent] = []
        self._pending: list[PairEvent] = []
        self._wake = asyncio.Event()
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tandemq-events")
        self._sync_pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="tandemq-events-sync")
        self._syncing: asyncio.Future[None] | None = None
        """The sync that is under way, or the last one."""
        self._file: BinaryIO | None = None
        self._named = False
        """The open file's name is on disk."""
        self._lines = 0
        self._unsynced_since: float | None = None
        self._next = 1
        self._load()

    # -- adding ----------------------------------------------------------------------------------------------------

    def add(
        self,
        kind: PairEventKind | int,
        text: str,
        *,
        domain: str = "",
        epoch: int = 0,
        role: int = 0,
        facts: Mapping[str, str] | None = None,
    ) -> int:
        """Number an event; returns the number. Costs no disk."""
        few = dict(list((facts or {}).items())[:FACTS_MAX])
        event = PairEvent(
            number=self._next,
            member=self.member,
            domain=domain,
            kind=kind,  # type: ignore[arg-type]  # enum number
            epoch=epoch,
            role=role,  # type: ignore[arg-type]  # enum number
            text=text[:TEXT_CHARS_MAX],
            facts={str(name)[:64]: str(value)[:TEXT_CHARS_MAX] for name, value in few.items()},
        )
        event.time.FromMilliseconds(wall_ms())
        self._next += 1
        self._pending.append(event)
        self._wake.set()
        return event.number

    def add_from_thread(self, kind: PairEventKind | int, text: str, *, domain: str, facts: Mapping[str, str]) -> None:
        """The same from another thread than the loop's."""
        self._loop.call_soon_threadsafe(lambda: self.add(kind, text, domain=domain, facts=facts))

    async def run(self) -> None:
        """Write and show; ends only by cancellation."""
        while True:
            if self._unsynced_since is None or self._wake.is_set():
                await self._wake.wait()
            else:
                # wait_for would swallow a cancellation that meets an event
                with suppress(TimeoutError):
                    async with asyncio.timeout(FSYNC_S):
                        await self._wake.wait()
            if self._wake.is_set():
                await self._write_pending()
            else:
                await self._maybe_sync()

    async def _maybe_sync(self) -> None:
        """Once what is written has waited for long enough. One that hangs is waited for once, and not for long."""
        since, before = self._unsynced_since, self._syncing
        if since is None or time.monotonic() - since < FSYNC_S or (before is not None and not before.done()):
            return
        self._syncing = self._loop.run_in_executor(self._sync_pool, self._sync)
        await asyncio.wait([self._syncing], timeout=HANGS_S)

    async def _write_pending(self) -> None:
        self._wake.clear()
        batch, self._pending = self._pending, []
        await self._loop.run_in_executor(self._pool, self._write, batch)
        await self._maybe_sync()
        self._show(batch)

    def _show(self, batch: list[PairEvent]) -> None:
        self._shown += batch
        del self._shown[:-KEEP]
        self.changed.set()
        self.changed = asyncio.Event()

    async def close(self) -> None:
        """Write what is pending, to the disk."""
        if self._pending:
            await self._write_pending()
        await self._loop.run_in_executor(self._sync_pool, self._sync)
        self._sync_pool.shutdown(wait=True)
        self._pool.shutdown(wait=True)
        if self._file is not None:
            self._file.close()
            self._file = None

    # -- asking ----------------------------------------------------------------------------------------------------

    @property
    def next_number(self) -> int:
        """Of the first event that nobody has been shown."""
        return self._pending[0].number if self._pending else self._next

    @property
    def oldest_number(self) -> int:
        """Of the oldest event at hand; `next_number` when there is none."""
        return self._shown[0].number if self._shown else self.next_number

    def since(self, number: int, limit: int = KEEP) -> list[PairEvent]:
        """Events from a number on, oldest first."""
        start = bisect_left(self._shown, number, key=lambda event: event.number)
        return self._shown[start : start + limit]

    def last(self, limit: int, domain: str = "") -> list[PairEvent]:
        """The newest events of a domain, or of all, oldest first. Events about all domains belong to each."""
        found = self._shown if not domain else [event for event in self._shown if event.domain in ("", domain)]
        return found[-limit:]

    # -- the file (in the writer's thread, but for `_load`; `_sync` in its own, too) ---------------------------------

    def _load(self) -> None:
        for name in (OLDER, FILE):
            path = self._directory / name
            try:
                data = path.read_bytes()
            except FileNotFoundError:
                continue
            except OSError as error:
                log.error("cannot read %s, its events are not shown: %s", path, error)
                continue
            lines = data.split(b"\n")
            torn = lines.pop()
            found = [event for line in lines if (event := _read(line, path)) is not None]
            self._shown += found
            self._lines = len(lines) if name == FILE else 0
            self._next = max(self._next, *(event.number + 1 for event in found), 1)
            if torn:
                # The process was killed while it wrote. The number counts as used up: the machine may have died after
                # the event was shown and before all of it was on disk.
                log.warning("%s ends in the middle of an event; that event is lost", path)
                match = _TORN_NUMBER.match(torn)
                self._next = max(self._next, int(match[1])) + 1 if match else self._next + 1
                self._mend(path, len(data) - len(torn))
        self._shown.sort(key=lambda event: event.number)
        del self._shown[:-KEEP]

    def _mend(self, path: Path, size: int) -> None:
        try:
            os.truncate(path, size)
        except OSError as error:
            log.error("cannot write %s: %s", path, error)

    def _write(self, batch: list[PairEvent]) -> None:
        try:
            file = self._open()
            file.write(b"".join(_line(event) for event in batch))
            file.flush()
            self._lines += len(batch)
            self._unsynced_since = self._unsynced_since or time.monotonic()
            if self._lines >= KEEP:
                self._rotate()
        except (OSError, ValueError) as error:  # ValueError: a sync failed meanwhile, and the file is closed
            self._fail(len(batch), error)

    def _open(self) -> BinaryIO:
        if self._file is None:
            self._file = (self._directory / FILE).open("ab")
            self._named = False
        return self._file

    def _sync(self) -> None:
        file = self._file
        if self._unsynced_since is None or file is None:
            return
        self._unsynced_since = None
        try:
            os.fsync(file.fileno())
            if not self._named:
                sync_directory(self._directory)  # a file's own sync does not keep its name
                self._named = file is self._file
        except OSError as error:
            self._fail(0, error)
        except ValueError:  # it was closed meanwhile, by whoever makes the next one; that one synced it
            return

    def _rotate(self) -> None:
        self._sync()
        if self._file is not None:
            self._file.close()
            self._file = None
        (self._directory / FILE).replace(self._directory / OLDER)
        self._lines = 0

    def _fail(self, count: int, error: OSError | ValueError) -> None:
        if not self.lost:
            log.error("cannot write %s, events are shown but not kept: %s", self._directory / FILE, error)
        self.lost += count
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None


def _line(event: PairEvent) -> bytes:
    line = EventLine(
        number=event.number,
        time_ms=event.time.ToMilliseconds(),
        member=event.member,
        kind=PairEventKind.Name(event.kind).removeprefix(_KIND),
        domain=event.domain,
        epoch=event.epoch,
        role=Role.Name(event.role).removeprefix(_ROLE),
        text=event.text,
        facts=dict(event.facts),
    )
    return msgspec.json.encode(line) + b"\n"


def _read(data: bytes, path: Path) -> PairEvent | None:
    if not data:
        return None
    try:
        line = msgspec.json.decode(data, type=EventLine)
        event = PairEvent(
            number=line.number,
            member=line.member,
            domain=line.domain,
            kind=PairEventKind.Value(_KIND + line.kind),  # type: ignore[arg-type]  # enum number
            epoch=line.epoch,
            role=Role.Value(_ROLE + line.role),  # type: ignore[arg-type]  # enum number
            text=line.text,
            facts=line.facts,
        )
        event.time.FromMilliseconds(line.time_ms)
    except (msgspec.MsgspecError, ValueError) as error:
        log.warning("%s: an event cannot be read and is left out: %s", path, error)
        return None
    return event
