"""Says which files a stretch of the lake has, and finds what was done to them since. It repairs nothing.

The manifest stands in the stretch's folder and is published with it, by the same rename. It names the lake, the member
and the stretch, so that a folder that was copied or renamed has the manifest of another one.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from pipeline.sealed import opened, sealed

NAME = "_manifest.json"
VERSION = 1
BLOCK_BYTES = 1 << 20


def unwatched(*_: object) -> None:
    """Nobody is notified how far something is."""


class File(msgspec.Struct, frozen=True, kw_only=True):
    """As it was when it was published."""

    name: str
    bytes: int
    sha256: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Of one stretch."""

    version: int = VERSION
    lake: str
    """The lake's name; empty: nobody has claimed it."""
    member: str
    stretch: str
    rows: int
    merged: tuple[str, ...] = ()
    """Stretches that it was put together from: they do not count any more."""
    files: tuple[File, ...]

    @property
    def bytes(self) -> int:
        """Of its files."""
        return sum(file.bytes for file in self.files)

    def text(self) -> str:
        """Of the file."""
        return sealed(msgspec.to_builtins(self))


class Fault(NamedTuple):
    """Something that is not as it was published."""

    path: Path
    what: str
    added: bool = False
    """It belongs to no manifest; else something of the lake is gone or damaged."""


class DamageError(Exception):
    """Why a file of the lake proves nothing."""

    def __init__(self, path: Path, what: str) -> None:
        super().__init__(f"{path} {what}")
        self.fault = Fault(path, what)


def made(folder: Path, *, lake: str, member: str, stretch: str, rows: int, merged: tuple[str, ...] = ()) -> Manifest:
    """Of what is in a folder now. Raises OSError, and DamageError for what no manifest can name."""
    shutil.rmtree(folder / "_temporary", ignore_errors=True)  # a task that Spark gave up may have started it again
    files = []
    for path in sorted(folder.iterdir()):
        if path.name != NAME:
            if what := _no_file(path.lstat().st_mode):
                raise DamageError(path, what)
            files.append(File(name=path.name, bytes=path.stat().st_size, sha256=digest(path)))
    return Manifest(lake=lake, member=member, stretch=stretch, rows=rows, merged=merged, files=tuple(files))


def read(folder: Path) -> Manifest:
    """Of a stretch that was published. Raises DamageError."""
    path = folder / NAME
    try:
        if what := _no_file(path.lstat().st_mode):
            raise DamageError(path, what)
        found = msgspec.convert(opened(path.read_text(encoding="utf-8"), strict=True), Manifest)
    except FileNotFoundError as error:
        raise DamageError(path, "is gone") from error
    except OSError as error:
        raise DamageError(path, f"cannot be read: {error.strerror or error}") from error
    except ValueError as error:  # msgspec's is one, and those of JSON and UTF-8
        raise DamageError(path, f"is damaged: {error}") from error
    if found.version != VERSION:
        raise DamageError(path, f"has version {found.version}, and this program knows {VERSION}")
    return found


def differences(
    folder: Path, manifest: Manifest, *, digests: bool, on_bytes: Callable[[int], None] = unwatched
) -> Iterator[Fault]:
    """What is in the folder against its manifest: names and sizes, and what is in the files if `digests`.

    on_bytes: called for every block that was read.
    """
    try:
        there = {path.name: path for path in folder.iterdir()}
    except OSError as error:
        yield Fault(folder, _unreadable(error))
        return
    there.pop(NAME, None)
    for file in manifest.files:
        path = there.pop(file.name, None)
        if path is None:
            yield Fault(folder / file.name, "is gone")
        elif what := _differs(path, file, on_bytes if digests else None):
            yield Fault(path, what)
    yield from (Fault(path, "is in no manifest", added=True) for _, path in sorted(there.items()))


def digest(path: Path, on_bytes: Callable[[int], None] = unwatched) -> str:
    """SHA-256 of a file, in hexadecimal. Raises OSError."""
    found = hashlib.sha256()
    block = memoryview(bytearray(BLOCK_BYTES))
    with path.open("rb", buffering=0) as file:
        while count := file.readinto(block):
            found.update(block[:count])
            on_bytes(count)
    return found.hexdigest()


def _differs(path: Path, file: File, on_bytes: Callable[[int], None] | None) -> str:
    """How; empty: it does not. on_bytes: None leaves what is in it unread."""
    try:
        there = path.lstat()
        if what := _no_file(there.st_mode):
            return what
        if there.st_size != file.bytes:
            return f"has {there.st_size:,} bytes, and had {file.bytes:,} when it was published"
        if on_bytes is not None and digest(path, on_bytes) != file.sha256:
            return "is damaged: it does not fit the SHA-256 that it was published with"
    except OSError as error:
        return _unreadable(error)
    return ""


def _no_file(mode: int) -> str:
    """What is there instead of a file; a symbolic link may lead to something else tomorrow."""
    if stat.S_ISREG(mode):
        return ""
    return "is a symbolic link, not a file of its own" if stat.S_ISLNK(mode) else "is no file"


def _unreadable(error: OSError) -> str:
    return f"cannot be read: {error.strerror or os.strerror(error.errno or 0)}"
