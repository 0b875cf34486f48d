"""Writes small files of a lake so that they are there whole after a loss of power, or not at all, and reads them."""

from __future__ import annotations

import errno
import os
import uuid
from pathlib import Path
from typing import Any

from pipeline.problems import BAD_LAKE, DISK_FULL, PipelineError
from pipeline.sealed import opened, sealed

BESIDE = f"*.json.{'[0-9a-f]' * 32}"
"""What `write_json` writes before it has its name."""


def write_json(path: Path, value: dict[str, Any]) -> None:
    """Whole or not at all, with a digest of itself."""
    beside = path.with_name(f"{path.name}.{uuid.uuid4().hex}")
    try:
        beside.write_text(sealed(value), encoding="utf-8")
        sync(beside)
        beside.rename(path)
        sync(path.parent)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise unwritable(path, error) from error


def read_json(path: Path, *, strict: bool = False) -> dict[str, Any]:
    """What is in it, without its digest. strict: one without a digest is damaged, too; those of before have none.

    Raises PipelineError with reason BAD_LAKE.
    """
    try:
        found = opened(path.read_text(encoding="utf-8"), strict=strict)
    except FileNotFoundError as error:
        raise PipelineError(BAD_LAKE, f"{path} is gone") from error
    except (OSError, ValueError) as error:
        raise PipelineError(BAD_LAKE, f"{path} cannot be read: {error}") from error
    return found


def unwritable(path: Path, error: OSError) -> PipelineError:
    """Why nothing can be written there."""
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return PipelineError(DISK_FULL if full else BAD_LAKE, f"{path} cannot be written: {error.strerror or error}")


def make_folder(folder: Path) -> None:
    """A directory of the lake, which is there after a loss of power if anything in it is. Raises PipelineError."""
    try:
        if not folder.is_dir():
            folder.mkdir(exist_ok=True)  # two members may publish for the first time at once
            sync(folder.parent)
    except OSError as error:
        raise unwritable(folder, error) from error


def sync(path: Path) -> None:
    """Of a file or a directory; returns when the disk has it. Raises OSError."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)
