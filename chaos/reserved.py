"""Keeps ranges of ports for one process each, of all on this machine that ask here; it listens on none.

A range is a locked file. The lock goes with its process, however that ends.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from chaos.cluster import ClusterError, base_ports, ports_in_use


@contextlib.contextmanager
def reserved_base_port() -> Iterator[int]:
    """A base port whose range is free, and that nobody else is given until the block ends. Raises ClusterError."""
    directory = Path(tempfile.gettempdir()) / f"tandemq-ports-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    for base in base_ports():
        with (directory / f"{base}.lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                continue
            if ports_in_use(base):
                continue
            yield base
            return
    raise ClusterError("no free range of ports is left; are there many pairs on this machine?")
