"""Keeps snapshots of a twin's state in a directory of its own: whole or not at all, and known to be whole when read."""

from __future__ import annotations

import fcntl
import json
import logging
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from hashlib import blake2b
from pathlib import Path

from tandemq.twin.faults import DirectoryFault, StateInUse

MAGIC_OF_ALL = b"tandemq-twin "
MAGIC = MAGIC_OF_ALL + b"1 "
SUFFIX, MADE, REFUSED = ".snapshot", ".new", ".refused"
KEPT = 2
"""The newest, and the one before it for the case that the newest cannot be read."""
log = logging.getLogger("tandemq.twin")


class SnapshotCutError(ValueError):
    """These bytes are no whole snapshot."""


@dataclass(frozen=True, slots=True)
class TwinSnapshot:
    """Of one process, behind one input."""

    name: str
    """Of the twins."""
    version: str
    queue: str
    """Whose inputs, and which queue of that name."""
    index: int
    """The last input that the state has seen; 0: none."""
    chain: int
    """Digest of all outputs up to there."""
    sent: int
    """The last input with outputs, up to there."""
    state: bytes
    last_id: str = ""
    """Of that last input, in hex: another message has its number where an older copy of the pair was put back. Empty:
    none was seen, or it is not known.
    """

    def to_bytes(self) -> bytes:
        """With a checksum of everything in front."""
        facts = json.dumps({**asdict(self), "state": len(self.state)}).encode()
        rest = facts + b"\n" + self.state
        return MAGIC + blake2b(rest, digest_size=16).hexdigest().encode() + b"\n" + rest


def snapshot_from(data: bytes) -> TwinSnapshot:
    """Raises SnapshotCutError."""
    head, _, rest = data.partition(b"\n")
    if not head.startswith(MAGIC):
        raise SnapshotCutError("it does not begin as a snapshot of this version does")
    if head.removeprefix(MAGIC) != blake2b(rest, digest_size=16).hexdigest().encode():
        raise SnapshotCutError("its checksum is another one: it was cut, or changed")
    facts, _, state = rest.partition(b"\n")
    return TwinSnapshot(**{**json.loads(facts), "state": state})


class Snapshots:
    """Those of one process."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory

    @contextmanager
    def locked(self) -> Iterator[None]:
        """For this process alone. Raises StateInUse, DirectoryFault."""
        with self._faults():
            self.directory.mkdir(parents=True, exist_ok=True)
            file = (self.directory / "lock").open("ab")
        with file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                text = f"another process has the snapshots in {self.directory}; give each twin a directory of its own"
                raise StateInUse("TWIN_TAKEN", text) from None
            with self._faults():
                for cut in self.directory.glob(f"*{MADE}"):  # of a process that died in the middle
                    cut.unlink()
            yield

    @contextmanager
    def _faults(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            text = (
                f"the directory of snapshots {self.directory} cannot be used: {error.strerror or error}; nothing is "
                "lost, what is not saved comes again"
            )
            raise DirectoryFault("TWIN_DIRECTORY", text) from error

    def paths(self) -> list[Path]:
        """The newest first."""
        return sorted(self.directory.glob(f"*{SUFFIX}"), reverse=True)

    def newest(self) -> TwinSnapshot | None:
        """The newest one that is whole; None: there is none. Those that are not are put aside, so that they do not
        count among those that are kept. Raises DirectoryFault.
        """
        with self._faults():
            for path in self.paths():
                try:
                    return snapshot_from(path.read_bytes())
                except SnapshotCutError as error:
                    log.warning("%s is refused: %s; the one before it is used", path, error)
                    path.rename(path.with_suffix(REFUSED))
            return None

    def write(self, snapshot: TwinSnapshot) -> None:
        """Durable when it returns, and those before it are gone but one. Raises DirectoryFault."""
        with self._faults():
            self._write(snapshot)

    def _write(self, snapshot: TwinSnapshot) -> None:
        path = self.directory / f"{snapshot.index:020d}{SUFFIX}"
        made = path.with_suffix(MADE)
        with made.open("wb") as file:
            file.write(snapshot.to_bytes())
            file.flush()
            os.fsync(file.fileno())
        made.rename(path)
        folder = os.open(self.directory, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
        for old in self.paths()[KEPT:]:
            old.unlink()
