"""Where clients on the same host reach a manager without a network: a socket file, whose permissions say who may.

It makes the way free for one manager and never takes it from a process that is alive. Serves nothing itself.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

from tandemq.errors import TandemqError, error_of

LOCK_SUFFIX = ".lock"


class UnixSocket:
    """One socket file, from `bind` to `close`. Beside it lies a lock, so that of two managers one is refused."""

    def __init__(self, path: str, mode: int) -> None:
        self.path = Path(path)
        self._mode = mode
        self._lock: int | None = None
        self._bound: tuple[int, int] | None = None

    def bind(self, listen: Callable[[str], int]) -> None:
        """Has `listen` bind a path and puts that socket in its place, with its permissions from the first moment on.

        Raises TandemqError (PORT_IN_USE): a process serves there, the directory is missing or closed to us, or
        something that is no socket is in the way.
        """
        try:
            self._take_lock()
            self._clear()
            # gRPC binds with whatever mode the process makes files: nobody else looks into this directory meanwhile.
            import tempfile

            with tempfile.TemporaryDirectory(prefix=".tq-", dir=self.path.parent) as private:
                made = Path(private) / "s"
                if not listen(f"unix:{made}"):
                    raise _refusal(self.path, "it cannot be bound")
                made.chmod(self._mode)
                made.replace(self.path)
            status = self.path.lstat()
            self._bound = status.st_dev, status.st_ino
        except OSError as error:
            self.close()
            raise _refusal(self.path, error.strerror or str(error)) from error
        except (RuntimeError, TandemqError):
            self.close()
            raise

    def close(self) -> None:
        """Takes the file away if it is still ours. May be repeated."""
        with contextlib.suppress(FileNotFoundError):
            status = self.path.lstat()
            if (status.st_dev, status.st_ino) == self._bound:
                self.path.unlink()
        self._bound = None
        if self._lock is not None:
            os.close(self._lock)  # the lock file stays: whoever removed it could remove one that another has locked
            self._lock = None

    def _take_lock(self) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
        self._lock = os.open(f"{self.path}{LOCK_SUFFIX}", flags, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise _refusal(self.path, "another manager serves there") from error

    def _clear(self) -> None:
        """What a manager left that was killed goes; what is alive, or no socket, stays and is a refusal."""
        try:
            status = self.path.lstat()
        except FileNotFoundError:
            return
        if not stat.S_ISSOCK(status.st_mode):
            raise _refusal(self.path, "there is a file that is no socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.settimeout(1.0)
            try:
                probe.connect(str(self.path))
            except ConnectionRefusedError:
                self.path.unlink()
                return
        raise _refusal(self.path, "another process serves there")


def _refusal(path: Path, why: str) -> TandemqError:
    return error_of("PORT_IN_USE", f"cannot listen on unix:{path}: {why}; stop whoever uses it, or choose another path")
