"""Which programs a peer runs: the machine's own, or those of a newer Debian in a root beside it, and which are newer.

A program of the root runs in a view of mounts of its own in which the root's /usr lies over the machine's, for reading
alone. All else is as it was: folders, users, ports, process ids, the working directory by which the benchmark knows its
processes. The view ends with its last process, however that ends, so that nothing has to be undone, and no mount is
ever where something is removed.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple, Self

from bench.peers.place import KEPT, ROOT, BenchError

NEWEST = KEPT / "newest"
"""A link to the root, which `tools/install_newest_peers.sh` sets when the root is whole."""
OVER = Path("/usr")
INSIDE = ("unshare", "--mount", "--propagation", "private", "--", "sh", "-c")
LAID_OVER = f'mount -n -o bind,ro "$0" {OVER} && exec "$@"'
"""Each becomes the next, so that the process that was started is the program, and is killed with who started it."""


class Programs(NamedTuple):
    """Of the machine (`root` is None) or of a root."""

    root: Path | None = None

    @property
    def prefix(self) -> tuple[str, ...]:
        """What is started with a command behind it."""
        return () if self.root is None else (*INSIDE, LAID_OVER, str(self.root / "usr"))

    def seen(self, path: Path) -> Path:
        """From outside, a path below /usr."""
        return path if self.root is None else self.root / path.relative_to("/")

    def have(self, program: str) -> bool:
        """A path, or a name on PATH."""
        if self.root is None:
            return shutil.which(program) is not None
        folders = [Path(folder) for folder in os.environ.get("PATH", os.defpath).split(os.pathsep)]
        paths = [Path(program)] if Path(program).is_absolute() else [folder / program for folder in folders]
        # What is not below /usr, or a link to there, is the machine's own in either view.
        inside = [path for path in map(merged, paths) if path.is_relative_to(OVER)]
        return any(os.access(self.seen(path), os.X_OK) for path in inside)

    @property
    def title(self) -> str:
        """For readers."""
        where = os_release(self.seen(OVER / "lib/os-release"))
        return f"{where}, the machine's own" if self.root is None else f"{where}, in a root beside the machine's own"


def merged(path: Path) -> Path:
    """/bin, /sbin and /lib are links into /usr."""
    return OVER / path.relative_to("/") if path.parts[1:2] and path.parts[1] in ("bin", "sbin", "lib") else path


def os_release(path: Path) -> str:
    """The name that a system gives itself."""
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown system"
    named = [line.partition("=")[2].strip('"') for line in lines if line.startswith("PRETTY_NAME=")]
    return named[0] if named else "unknown system"


OWN = Programs()


class Found(NamedTuple):
    """The root, or why there is none."""

    root: Programs | None
    why: str = ""


def root_at(link: Path, *, privileged: bool, place: Path, works: Callable[[Programs], str]) -> Found:
    """The root that a link leads to. `works` says what is wrong with running a program in it; "" is nothing."""
    if not link.is_dir():
        return Found(None, "`make bench-deps` makes one, or says why not")
    if not privileged:
        return Found(None, "only root runs programs in one")
    if place.is_relative_to(OVER):
        return Found(None, f"{place} would be hidden in it")
    programs = Programs(link.resolve())
    wrong = works(programs)
    return Found(None, wrong) if wrong else Found(programs)


def refusal(programs: Programs) -> str:
    """Of this machine, to run something there."""
    try:
        done = subprocess.run([*programs.prefix, "true"], capture_output=True, text=True, check=False)
    except OSError as failure:
        return str(failure)
    said = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
    return said[-1] if done.returncode else ""


@cache
def newest_root() -> Found:
    """Of this clone."""
    return root_at(NEWEST, privileged=os.geteuid() == 0, place=ROOT, works=refusal)


class Version(NamedTuple):
    """To be compared, and as it is written."""

    numbers: tuple[int, ...]
    text: str

    @classmethod
    def of(cls, text: str) -> Self:
        """Of "17.12": numbers and dots."""
        try:
            return cls(tuple(int(part) for part in text.split(".")), text)
        except ValueError:
            raise BenchError(f"{text!r} is no version") from None

    @property
    def series(self) -> str:
        """8.0 of 8.0.2; of PostgreSQL, which has no third number, all."""
        return ".".join(map(str, self.numbers[:2]))


class Installed(NamedTuple):
    """One version of one peer."""

    version: Version
    programs: Programs


def by_age(found: Sequence[Installed]) -> list[Installed]:
    """Newest first, each version once: of the machine's own and the same in a root, the machine's own."""
    out: list[Installed] = []
    for each in sorted(found, key=lambda one: (one.version.numbers, one.programs.root is None), reverse=True):
        if not out or out[-1].version.numbers != each.version.numbers:
            out.append(each)
    return out
