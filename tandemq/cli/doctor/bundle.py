"""Decides how parts become one archive within a size limit, and what becomes of each: whole, the tail of it, left out,
or not there; it gathers nothing.

The archive is written beside its name and renamed: under its name it is whole or not at all.
"""

from __future__ import annotations

import enum
import io
import os
import tarfile
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from tandemq.escaping import json_text

MANIFEST = "manifest.json"
MANIFEST_BYTES = 64 << 10  # kept free for it; it names every part, of which there are some tens
LIMIT_BYTES_MIN, LIMIT_BYTES = 256 << 10, 20 << 20
TAR_BLOCK = 512


class BundleError(OSError):
    """The archive cannot be written; the message names the file and what to do."""


class Outcome(enum.StrEnum):
    """What became of a part."""

    WHOLE = "whole"
    TAIL = "tail"  # its newest lines; the limit had no room for the others
    LEFT_OUT = "left_out"  # the limit had no room for any of it
    MISSING = "missing"  # it could not be had


class Part(NamedTuple):
    """A file of the archive. `data` None: it could not be had, for the reason in `why`; else `why` says what of it is
    missing.
    """

    name: str
    data: bytes | None
    why: str = ""
    by_lines: bool = False
    """May be cut at its beginning, line by line."""


class Packed(NamedTuple):
    """What is in the archive, or why not."""

    name: str
    outcome: Outcome
    size: int
    why: str
    data: bytes = b""


def json_part(name: str, value: Any) -> Part:
    return Part(name, (json_text(value, indent=2, default=str) + "\n").encode())


def lines_part(name: str, lines: Iterable[str]) -> Part:
    return Part(name, "".join(f"{line}\n" for line in lines).encode(errors="replace"), by_lines=True)


def missing(name: str, why: str) -> Part:
    return Part(name, None, why)


def pack(parts: Iterable[Part], limit_bytes: int) -> list[Packed]:
    """Parts in the order of their worth: the first ones get the room."""
    left = limit_bytes - MANIFEST_BYTES
    packed = []
    for part in parts:
        one = _fit(part, left)
        packed.append(one)
        if one.data:
            left -= _in_tar(len(one.data))
    return packed


def _fit(part: Part, room: int) -> Packed:
    if part.data is None:
        return Packed(part.name, Outcome.MISSING, 0, part.why)
    size = len(part.data)
    if _in_tar(size) <= room:
        return Packed(part.name, Outcome.TAIL if part.why else Outcome.WHOLE, size, part.why, part.data)
    keep = room - 2 * TAR_BLOCK
    if part.by_lines and keep > 0:
        tail = part.data[-keep:]
        tail = tail[tail.find(b"\n") + 1 :]
        if tail:
            why = f"the newest {len(tail)} of {size} bytes: the size limit is reached"
            return Packed(part.name, Outcome.TAIL, len(tail), why, tail)
    return Packed(part.name, Outcome.LEFT_OUT, 0, f"{size} bytes: the size limit is reached")


def _in_tar(size: int) -> int:
    return TAR_BLOCK * (1 + -(-size // TAR_BLOCK))


def check_place(path: Path) -> None:
    """Raises BundleError where the archive could not be written; before any work is done for it."""
    if path.exists():
        raise BundleError(f"{path} is there already; choose another name, or remove it")
    if not path.parent.is_dir():
        raise BundleError(f"{path.parent} is no directory; make it, or choose another place")
    if not os.access(path.parent, os.W_OK):
        raise BundleError(f"{path.parent} cannot be written to; choose another place")


def write(path: Path, packed: Iterable[Packed], facts: Mapping[str, Any]) -> int:
    """The archive at this path, readable by its owner alone; its size. Raises BundleError."""
    packed = list(packed)
    listed = [{"name": each.name, "outcome": each.outcome, "bytes": each.size, "why": each.why} for each in packed]
    manifest = json_part(MANIFEST, {**facts, "files": listed})
    assert manifest.data is not None
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    now = time.time()
    try:
        descriptor = os.open(partial, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            with tarfile.open(fileobj=file, mode="w:gz") as archive:
                folder = path.name.removesuffix(".gz").removesuffix(".tar").removesuffix(".tgz") or "bundle"
                for name, data in [
                    (MANIFEST, manifest.data),
                    *((each.name, each.data) for each in packed if each.data),
                ]:
                    entry = tarfile.TarInfo(f"{folder}/{name}")
                    entry.size, entry.mtime, entry.mode = len(data), int(now), 0o600
                    archive.addfile(entry, io.BytesIO(data))
            file.flush()
            os.fsync(file.fileno())
        os.link(partial, path)  # never over somebody else's file
        return path.stat().st_size
    except FileExistsError as error:
        raise BundleError(f"{path} is there already; choose another name, or remove it") from error
    except OSError as error:
        raise BundleError(f"{path} cannot be written: {error.strerror or error}; choose another place") from error
    finally:
        partial.unlink(missing_ok=True)
