"""What a query's sink keeps beside its checkpoint: which batch it has published last, and where the journal was then.

Spark keeps nothing for a sink. A pair that was wiped and begun anew has never heard of the writer, and would take its
next batch for the first of an unknown one. Spark's own files are not touched. Only a checkpoint on the driver's file
system has this file: elsewhere the number of the batch alone says that there were others before it.
"""

from __future__ import annotations

import contextlib
import json
import os
from pathlib import Path
from typing import NamedTuple

from tandemq.client.places import JournalPosition
from tandemq.errors import InvalidRequest

FILE = "tandemq-writer.json"
SPARKS = ("metadata", "offsets")
"""What a checkpoint has before its first batch is published."""


class Kept(NamedTuple):
    """Of the last batch."""

    writer: str
    query_id: str
    batch: int
    position: JournalPosition


def folder_of(location: str) -> Path | None:
    """The directory of a checkpoint; None: it is on no file system of this machine, or nobody has begun it."""
    scheme, colon, rest = location.partition(":")
    if not colon or "/" in scheme:
        path = Path(location)
    elif scheme == "file":
        path = Path("/" + rest.lstrip("/"))
    else:
        return None
    try:
        return path if any((path / name).exists() for name in SPARKS) else None
    except OSError:
        return None


def load(folder: Path, writer: str) -> Kept | None:
    """None: nothing was kept yet, or for another writer. Raises InvalidRequest with reason BAD_CHECKPOINT."""
    path = folder / FILE
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        place = JournalPosition(int(found["log_index"]), int(found["epoch"]), history_id=str(found["history_id"]))
        bytes.fromhex(place.history_id)
        kept = Kept(str(found["writer"]), str(found["query_id"]), int(found["batch"]), place)
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise _bad(path, f"it cannot be read: {error!r}") from error
    return kept if kept.writer == writer else None


def save(folder: Path, kept: Kept) -> None:
    """Whole or not at all, and on the disk when this returns. Raises InvalidRequest with reason BAD_CHECKPOINT."""
    path, place = folder / FILE, kept.position
    told = {"writer": kept.writer, "query_id": kept.query_id, "batch": kept.batch}
    told |= {"log_index": place.log_index, "epoch": place.epoch, "history_id": place.history_id}
    beside = path.with_name(f".{FILE}.{os.getpid()}")
    try:
        with beside.open("w", encoding="utf-8") as file:
            file.write(json.dumps(told) + "\n")
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            beside.unlink(missing_ok=True)
        raise _bad(path, f"it cannot be written: {error}") from error


def _bad(path: Path, why: str) -> InvalidRequest:
    return InvalidRequest("BAD_CHECKPOINT", f"{path}: {why}", {"checkpoint": str(path)}, definite=True)
