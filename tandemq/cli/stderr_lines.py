"""Turns what native code writes to stderr into log records, where the log is JSON: gRPC's C core writes lines of its
own there. Decides which level such a line has, never what is logged.

The lines go through a pipe and a thread, so those that come in the very moment in which the process is killed may be
lost; Python's own fatal errors go to the real stderr.
"""

from __future__ import annotations

import contextlib
import faulthandler
import io
import logging
import os
import re
import sys
import threading
from collections.abc import Iterator
from types import MappingProxyType

STDERR = 2
LINE_BYTES_MAX = 16 << 10
"""A longer line is cut."""
_CORE = re.compile(r"(?P<level>[IWEF])[0-9]{4} [0-9:.]+ +[0-9]+ (?P<place>[^ \]]+:[0-9]+)\] (?P<text>.*)", re.DOTALL)
_LEVELS = MappingProxyType({"I": logging.INFO, "W": logging.WARNING, "E": logging.ERROR, "F": logging.CRITICAL})

core = logging.getLogger("grpc.core")
others = logging.getLogger("tandemq.stderr")


def log_line(line: str) -> None:
    """One line that somebody wrote to stderr, as a record."""
    if found := _CORE.fullmatch(line):
        core.log(_LEVELS[found["level"]], "%s", found["text"], extra={"place": found["place"]})
    elif line.strip():
        others.warning("%s", line)


@contextlib.contextmanager
def taken(handler: logging.StreamHandler[io.TextIOBase]) -> Iterator[None]:
    """Until the block ends, what is written to stderr becomes records; `handler` writes to the real one.

    What the real one does not take, as when its reader is gone, is lost: `logging` would report that on stderr, where
    it would become a record again, for ever.
    """
    raising, logging.raiseExceptions = logging.raiseExceptions, False
    sys.stderr.flush()
    real = os.dup(STDERR)
    reading, writing = os.pipe()
    was = handler.stream
    stream = os.fdopen(os.dup(real), "w", encoding="utf-8", errors="backslashreplace", buffering=1)
    handler.setStream(stream)
    faulthandler.enable(real)
    os.dup2(writing, STDERR)
    os.close(writing)
    reader = threading.Thread(target=_read, args=(reading,), name="tandemq-stderr", daemon=True)
    reader.start()
    try:
        yield
    finally:
        sys.stderr.flush()
        os.dup2(real, STDERR)  # closes the pipe's last end: a child may have one still, and is not waited for
        reader.join(1.0)
        handler.setStream(was)
        logging.raiseExceptions = raising
        faulthandler.disable()
        with contextlib.suppress(OSError):
            stream.close()
        os.close(real)


def _read(reading: int) -> None:
    with os.fdopen(reading, "rb") as lines:
        while line := lines.readline(LINE_BYTES_MAX):
            log_line(line.decode("utf-8", "backslashreplace").rstrip("\r\n"))
