"""Keeps what classifiers were asked, what they said and what became of it, for operators and for replay.

One JSON object a line in `<data-dir>/classifier.jsonl`: a `call` with input, output, time and attempt, and later an
`outcome` with the same event id and its effect. Each line is synced before the call is acted upon, but for no longer
than WAIT_S: **a journal that cannot be written does not stop a takeover.** The failure is logged and counted, and the
answer counts. A pair that stood still because a log file could not grow would be the greater fault, and the register
keeps the facts that safety needs. The journal never decides anything.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from failover.classifier import Answer, Event, Evidence, Outcome, Verdict
from failover.event_json import BadEventError, document, from_document
from storage.directory import sync_directory

FILE_NAME = "classifier.jsonl"
FORMAT = 1
SIZE_MAX = 4 << 20  # of one file
KEPT_COUNT = 8  # older files beside it: .1 is the youngest
WAIT_S = 0.25
BACKLOG_MAX = 1000  # lines that wait for a disk which does not come along; further ones are lost, and counted

log = logging.getLogger("tandemq.classifier")


@dataclass(frozen=True, slots=True)
class RecordedCall:
    time: str  # ISO 8601, UTC
    event: Event
    answer: Answer
    outcomes: tuple[Outcome, ...] = ()


@dataclass(slots=True)
class History:
    """What a journal holds, oldest first, and where lines could not be read."""

    calls: list[RecordedCall] = field(default_factory=list)
    unreadable: list[str] = field(default_factory=list)  # file:line: why


class Journal:
    """Writes lines in the order of the calls. One loop uses it; the disk's work is done in one thread."""

    def __init__(self, directory: Path, *, size_max: int = SIZE_MAX, kept_count: int = KEPT_COUNT) -> None:
        self.path = directory / FILE_NAME
        self.lost_count = 0  # lines that are not on the disk
        self.lost_why = ""  # of the last one
        self._size_max, self._kept_count = size_max, kept_count
        self._writer = ThreadPoolExecutor(1, thread_name_prefix="classifier-journal")
        self._lock = threading.Lock()
        self._waiting = 0

    async def write(self, *lines: dict[str, Any]) -> bool:
        """Whether they are durable: waits for that at most WAIT_S. Never raises for the disk."""
        written = self.write_soon(*lines)
        if written is None:
            return False
        done, _ = await asyncio.wait({asyncio.wrap_future(written)}, timeout=WAIT_S)
        return bool(done) and written.result() is None

    def write_soon(self, *lines: dict[str, Any]) -> Future[OSError | None] | None:
        """Writes without being waited for; None when the backlog is full."""
        if self._waiting >= BACKLOG_MAX:
            self._lose(f"{BACKLOG_MAX} lines wait for the disk")
            return None
        data = b"".join(json.dumps(line, separators=(",", ":")).encode() + b"\n" for line in lines)
        with self._lock:
            self._waiting += 1
        return self._writer.submit(self._append, data)

    def close(self) -> None:
        """Waits for what is being written."""
        self._writer.shutdown()

    def _append(self, data: bytes) -> OSError | None:
        try:
            self._append_or_raise(data)
        except OSError as error:
            self._lose(error.strerror or str(error))
            return error
        finally:
            with self._lock:
                self._waiting -= 1
        return None

    def _append_or_raise(self, data: bytes) -> None:
        fd = self._open()
        try:
            size = os.fstat(fd).st_size
            if size and size + len(data) > self._size_max:
                os.close(fd)
                fd = -1
                self._rotate()
                fd = self._open()
                size = 0
            if size and os.pread(fd, 1, size - 1) != b"\n":
                data = b"\n" + data  # a line was torn by a crash; it stays one unreadable line
            try:
                if os.write(fd, data) < len(data):
                    raise OSError(None, "the disk took a part of the line")
                os.fsync(fd)
                if not size:
                    sync_directory(self.path.parent)  # a file's own sync does not keep its name
            except OSError:
                with suppress(OSError):
                    os.ftruncate(fd, size)
                raise
        finally:
            if fd >= 0:
                os.close(fd)

    def _open(self) -> int:
        return os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)

    def _rotate(self) -> None:
        for number in range(self._kept_count - 1, 0, -1):
            with suppress(FileNotFoundError):
                _numbered(self.path, number).rename(_numbered(self.path, number + 1))
        if self._kept_count:
            self.path.rename(_numbered(self.path, 1))
        else:
            self.path.unlink()

    def _lose(self, why: str) -> None:
        self.lost_count += 1
        self.lost_why = why
        log.error(
            "the classifier journal %s could not be written (%s); the answer counts all the same, %d lost so far",
            self.path,
            why,
            self.lost_count,
        )


def call_line(event: Event, answer: Answer) -> dict[str, Any]:
    """What is kept of a call."""
    return {
        "journal": FORMAT,
        "kind": "call",
        "time": _now(),
        "event_id": event.event_id,
        "by": answer.by,
        "verdict": None if answer.verdict is None else answer.verdict.name,
        "reason": answer.reason,
        "evidence": answer.evidence.value,
        "token": answer.token,
        "valid_for_ms": answer.valid_for_ms,
        "retry_ms": answer.retry_ms,
        "duration_ms": answer.duration_ms,
        "attempt": event.attempt,
        "event": document(event),
    }


def outcome_line(outcome: Outcome) -> dict[str, Any]:
    """What is kept of what became of it."""
    return {
        "journal": FORMAT,
        "kind": "outcome",
        "time": _now(),
        "event_id": outcome.event_id,
        "effect": outcome.effect,
        "why": outcome.why,
    }


def read(place: Path) -> History:
    """Everything in a journal file with its older files, or in a data directory.

    Raises FileNotFoundError when there is none. Lines that cannot be read, the torn last one of a crash among them, are
    listed and passed over.
    """
    path = place / FILE_NAME if place.is_dir() else place
    older = sorted(path.parent.glob(f"{path.name}.*"), key=_number, reverse=True)
    files = [file for file in older if _number(file) > 0] + ([path] if path.exists() else [])
    if not files:
        raise FileNotFoundError(f"{path}: no such file")
    history = History()
    outcomes: dict[str, list[Outcome]] = {}
    for file in files:
        for line, where in _lines(file):
            _take(line, where, history, outcomes)
    history.calls = [
        RecordedCall(call.time, call.event, call.answer, tuple(outcomes.get(call.event.event_id, ())))
        for call in history.calls
    ]
    return history


def _lines(file: Path) -> Iterator[tuple[bytes, str]]:
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield line, f"{file.name}:{number}"


def _take(line: bytes, where: str, history: History, outcomes: dict[str, list[Outcome]]) -> None:
    try:
        read_line = json.loads(line)
        if read_line["kind"] == "outcome":
            outcome = Outcome(str(read_line["event_id"]), str(read_line["effect"]), str(read_line["why"]))
            outcomes.setdefault(outcome.event_id, []).append(outcome)
        else:
            history.calls.append(_call(read_line))
    except (ValueError, KeyError, TypeError, RecursionError) as error:  # BadEventError is a ValueError
        detail = str(error) if isinstance(error, BadEventError) else f"no line of a journal ({type(error).__name__})"
        history.unreadable.append(f"{where}: {detail}")


def _call(line: dict[str, Any]) -> RecordedCall:
    event = from_document(line["event"])
    verdict = None if line["verdict"] is None else Verdict[line["verdict"]]
    answer = Answer(
        event.event_id,
        event.link_generation,
        verdict,
        str(line["reason"]),
        Evidence(line["evidence"]),
        str(line["token"]),
        int(line["valid_for_ms"]),
        int(line["retry_ms"]),
        int(line["duration_ms"]),
        str(line["by"]),
    )
    return RecordedCall(str(line["time"]), event, answer)


def _numbered(path: Path, number: int) -> Path:
    return path.with_name(f"{path.name}.{number}")


def _number(path: Path) -> int:
    suffix = path.suffix[1:]
    return int(suffix) if suffix.isdecimal() else 0


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
