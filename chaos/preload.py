"""Makes the disk of a running member slow, full or hung and its wall clock wrong, without rights: a small library that
is loaded before libc (`preload.c`) does it, directed by a file of seven numbers for each member. It decides nothing.
"""

from __future__ import annotations

import mmap
import shutil
import struct
import subprocess
from collections.abc import Sequence
from pathlib import Path

SOURCE = Path(__file__).with_suffix(".c")
CONTROL = struct.Struct("=qqqqqqq")  # as in preload.c
DIRECTED = struct.Struct("=qqqqq")  # of these, what is directed; the others are counted
CONTROL_VARIABLE = "TANDEMQ_PRELOAD_CONTROL"


class PreloadError(RuntimeError):
    """The library cannot be made here."""


class Preload:
    """For the members of one pair; what it needs is in `directory`."""

    def __init__(self, directory: Path, members: Sequence[str]) -> None:
        self._directory, self._members = directory, members

    def prepare(self) -> None:
        """Builds the library. Raises PreloadError where there is no C compiler, or it fails."""
        compiler = shutil.which("cc")
        if compiler is None:
            raise PreloadError("a C compiler (cc) is needed for faults of disk and clock")
        self._directory.mkdir(parents=True, exist_ok=True)
        command = [compiler, "-shared", "-fPIC", "-O2", "-o", str(self._library), str(SOURCE), "-ldl"]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode:
            raise PreloadError(f"{SOURCE.name} does not compile: {built.stderr.strip()[:300]}")
        for member in self._members:
            self._control(member).write_bytes(bytes(CONTROL.size))

    @property
    def _library(self) -> Path:
        return self._directory / "preload.so"

    def _control(self, member: str) -> Path:
        return self._directory / f"{member}.control"

    def environment(self, member: str) -> dict[str, str]:
        """What a member's process must be started with."""
        return {"LD_PRELOAD": str(self._library), CONTROL_VARIABLE: str(self._control(member))}

    def hurt(
        self,
        member: str,
        *,
        fsync_s: float = 0.0,
        fsync_every: int = 1,
        hung: bool = False,
        full: bool = False,
        ahead_s: float = 0.0,
    ) -> None:
        """In force at once. What is not named is well.

        fsync_every: one sync of so many takes `fsync_s` longer. hung: no sync ends before this is taken back.
        """
        numbers = (round(fsync_s * 1e6), fsync_every, hung, full, round(ahead_s * 1e9))
        self._write(member, DIRECTED.pack(*numbers))

    def calm(self, member: str) -> None:
        """Takes everything back."""
        self.hurt(member)

    def felt(self, member: str) -> int:
        """How often this member has felt any of it."""
        felt: int = CONTROL.unpack(self._control(member).read_bytes())[-1]
        return felt

    def _write(self, member: str, data: bytes) -> None:
        with self._control(member).open("r+b") as file, mmap.mmap(file.fileno(), CONTROL.size) as control:
            control[: len(data)] = data
