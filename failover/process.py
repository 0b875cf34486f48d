"""Runs one process group to its end within a time limit and keeps what it wrote, bounded; it never reads a meaning.

Blocks its thread. It waits for the process it started, not for the pipes: a child that inherits them cannot hold it up.
Whatever is left of the group when that process has ended is killed.
"""

from __future__ import annotations

import os
import selectors
import shutil
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import IO

KEPT_BYTES_MAX = 64 << 10  # of each stream, unless who runs it wants more of stdout
READ_BYTES = 64 << 10  # what a pipe holds
TERM_GRACE_S = 1.0  # from SIGTERM to SIGKILL, unless who runs it says otherwise
KILL_GRACE_S = 1.0  # from SIGKILL to giving up on a process that the kernel does not let go
POLL_S = 0.01  # where the kernel cannot wake us at a process's end
FLOOD_PAUSE_S = 0.001  # for each read beyond what is kept: a flood must not take a core from the manager


class Ended(Enum):
    """How a run ended. Only EXIT has an exit code that means something."""

    EXIT = 1
    LIMIT = 2
    CANCELLED = 3
    NOT_STARTED = 4


@dataclass(frozen=True, slots=True)
class Ran:
    """What came of a run."""

    ended: Ended
    code: int = 0  # as subprocess gives it: negative = died of that signal
    why: str = ""  # unless EXIT
    stdout: bytes = b""
    stderr: bytes = b""
    stdout_cut: bool = False
    killed: bool = False  # SIGTERM did not end it within its grace
    left_open: bool = False  # it ended, and a child of it still held its stdout


@dataclass(slots=True)
class _Stream:
    bytes_max: int = KEPT_BYTES_MAX
    kept: bytearray = field(default_factory=bytearray)
    cut: bool = False

    def take(self, data: bytes) -> None:
        room = self.bytes_max - len(self.kept)
        self.kept += data[:room]
        if len(data) > room:
            self.cut = True
            time.sleep(FLOOD_PAUSE_S)


class Process:
    """One run. `run` may be called once; `kill` at any time, from any thread."""

    def __init__(
        self,
        argv: Sequence[str],
        stdin: bytes,
        limit_s: float,
        *,
        hold_stdin: bool = False,
        stdout_bytes_max: int = KEPT_BYTES_MAX,
        grace_s: float = TERM_GRACE_S,
    ) -> None:
        self.argv = tuple(argv)
        self._stdin = memoryview(stdin)
        self._limit_s = limit_s
        self._hold_stdin = hold_stdin  # never closed: what a stalled sender looks like
        self._lock = threading.Lock()
        self._group: int | None = None  # while its leader is not reaped: the number cannot be anybody else's
        self._cancelled = False
        self._grace_s = grace_s
        self._out, self._err = _Stream(stdout_bytes_max), _Stream()
        self._sent = 0
        self._killed = self._left_open = False

    def why_not_startable(self) -> str | None:
        """What would keep it from starting, as far as the file itself shows."""
        if not self.argv or not self.argv[0]:
            return "the command is empty"
        if shutil.which(self.argv[0]) is None:
            there = os.path.exists(self.argv[0])  # noqa: PTH110  # a path with a NUL byte is an answer here, no error
            return f"{self.argv[0]}: {'not executable; chmod +x it' if there else 'not found; give its whole path'}"
        return None

    def run(self) -> Ran:
        """Starts it, feeds it, and returns when its first process has ended, or within the limit and its graces."""
        limit = time.monotonic() + self._limit_s
        try:
            process = subprocess.Popen(
                self.argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,  # a group of its own, and no terminal to ask questions on
            )
        except (OSError, ValueError, IndexError) as error:  # ValueError: a NUL byte; IndexError: no argument at all
            why = self.why_not_startable() or str(error) or "it cannot be started"
            return Ran(Ended.NOT_STARTED, why=f"not started: {why}")
        with self._lock:
            self._group = process.pid
            if self._cancelled:
                _signal_group(process.pid, signal.SIGKILL)
        with ExitStack() as opened:
            for pipe in (process.stdin, process.stdout, process.stderr):
                assert pipe is not None
                os.set_blocking(pipe.fileno(), False)
                opened.callback(_close, pipe)
            signalled, gone = self._watch(process, limit, opened)
            if gone:
                assert process.stdout is not None
                assert process.stderr is not None
                self._left_open = not _drain(process.stdout, self._out)
                _drain(process.stderr, self._err)
        return self._ended(process, signalled=signalled, gone=gone)

    def kill(self) -> None:
        """SIGKILL to the whole group, if any of it can still be there."""
        with self._lock:
            self._cancelled = True
            if self._group is not None:
                _signal_group(self._group, signal.SIGKILL)

    def _watch(self, process: subprocess.Popen[bytes], limit: float, opened: ExitStack) -> tuple[bool, bool]:
        """Whether it got a signal to end, and whether it ended."""
        selector = opened.enter_context(selectors.DefaultSelector())
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        if not self._hold_stdin:
            selector.register(process.stdin, selectors.EVENT_WRITE)
        selector.register(process.stdout, selectors.EVENT_READ, self._out)
        selector.register(process.stderr, selectors.EVENT_READ, self._err)
        wakes = False
        with suppress(AttributeError, OSError):  # not on this system, or not allowed in this container
            exits = os.pidfd_open(process.pid)
            opened.callback(os.close, exits)
            selector.register(exits, selectors.EVENT_READ)
            wakes = True
        # What happens at each deadline; after the last one nothing is left to try.
        steps: list[tuple[float, int]] = [
            (limit, signal.SIGTERM),
            (limit + self._grace_s, signal.SIGKILL),
            (limit + self._grace_s + KILL_GRACE_S, 0),
        ]
        signalled = False
        while not _has_ended(process.pid):
            left_s = steps[0][0] - time.monotonic()
            if left_s <= 0:
                number = steps.pop(0)[1]
                if not number:
                    return signalled, False
                signalled, self._killed = True, number == signal.SIGKILL
                _signal_group(process.pid, number)
                continue
            for key, _ in selector.select(left_s if wakes else min(left_s, POLL_S)):
                if key.fileobj is process.stdin:
                    self._feed(selector, process.stdin)
                elif isinstance(key.data, _Stream):
                    _read(selector, key.fd, key.data)
        return signalled, True

    def _feed(self, selector: selectors.BaseSelector, pipe: IO[bytes]) -> None:
        try:
            self._sent += os.write(pipe.fileno(), self._stdin[self._sent :]) if self._sent < len(self._stdin) else 0
        except BlockingIOError:
            return
        except BrokenPipeError:  # it does not want to read: its right, the exit code counts
            self._stdin = self._stdin[: self._sent]
        if self._sent == len(self._stdin):
            selector.unregister(pipe)
            _close(pipe)

    def _ended(self, process: subprocess.Popen[bytes], *, signalled: bool, gone: bool) -> Ran:
        with self._lock:
            cancelled = self._cancelled
            _signal_group(process.pid, signal.SIGKILL)  # what it left behind
            self._group = None
            if gone:
                process.wait()
        within = f"no end within {self._limit_s:g} s"
        ended, why = Ended.EXIT, ""
        if cancelled:
            ended, why = Ended.CANCELLED, "cancelled: nobody waits for the answer any more"
        elif not gone:
            ended, why = Ended.LIMIT, f"{within}, and SIGKILL did not end it"
        elif signalled:
            ended, why = Ended.LIMIT, f"{within}, and SIGTERM did not end it" if self._killed else within
        return Ran(
            ended,
            process.returncode if ended is Ended.EXIT else 0,
            why,
            bytes(self._out.kept),
            bytes(self._err.kept),
            self._out.cut,
            self._killed,
            self._left_open,
        )


def _has_ended(pid: int) -> bool:
    """Without reaping it: until then its number stays taken, and a signal to the group cannot hit a stranger."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _signal_group(group: int, number: int) -> None:
    # PermissionError: a group of zombies on some systems, or a process that changed its user
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def _read(selector: selectors.BaseSelector, fd: int, stream: _Stream) -> None:
    try:
        data = os.read(fd, READ_BYTES)
    except BlockingIOError:
        return
    if data:
        stream.take(data)
    else:
        selector.unregister(fd)


def _drain(pipe: IO[bytes], stream: _Stream) -> bool:
    """Takes what it wrote before it ended. False: somebody else still holds the pipe, and is not waited for."""
    while not stream.cut:
        try:
            data = os.read(pipe.fileno(), READ_BYTES)
        except BlockingIOError:
            return False
        if not data:
            return True
        stream.take(data)
    return True


def _close(pipe: IO[bytes]) -> None:
    with suppress(BrokenPipeError):
        pipe.close()
