"""Decides whether what lies in a directory under the names of a store can be opened at all; never looks into a file.

A start that opened whatever has the name would wait for ever at a pipe, and take a database that is gone, or was cut to
nothing, for one that was never there: it would serve, and know nothing of what it had acknowledged.
"""

from __future__ import annotations

import errno
import stat
from typing import TYPE_CHECKING

from storage.commit_log import LOG_NAME
from storage.directory import LOCK_NAME
from storage.environment import DATA_FILE, LOCK_FILE
from storage.errors import CorruptRecord
from storage.mark import MARK_FILE
from storage.room import BALLAST_NAME

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

MADE_AFTER_DATA = (LOG_NAME, MARK_FILE, LOCK_FILE)
"""Of a store: files that are made in a directory once its database is there."""


def check_store(directory: Path) -> None:
    """What a member's directory holds can be opened, or is not there; a mark that cannot be written stops nothing.

    Raises CorruptRecord, naming the entry.
    """
    check_files(directory, (LOCK_NAME, DATA_FILE, LOCK_FILE, LOG_NAME, BALLAST_NAME))
    check_database(directory, MADE_AFTER_DATA)


def check_files(directory: Path, names: Sequence[str]) -> None:
    """Each of these names is a file, or not there, and nothing else in the directory is a pipe or a device.

    A link counts as what it leads to. Raises CorruptRecord, naming the entry, and OSError.
    """
    for path in sorted({directory / name for name in names} | set(directory.iterdir())):
        try:
            mode = _mode(path)
        except OSError:
            if path.name in names:
                raise
            continue  # somebody else's: a place for backups whose mount is broken
        if mode is None:
            what = "a link that leads nowhere"
        elif stat.S_ISREG(mode) or not mode:
            continue
        elif stat.S_ISDIR(mode) or stat.S_ISSOCK(mode):
            what = "a directory" if stat.S_ISDIR(mode) else "a socket"
        else:
            raise CorruptRecord(f"{path.name} is a pipe or a device, where a file must be", str(directory))
        if path.name in names:
            raise CorruptRecord(f"{path.name} is {what}, where a file must be", str(directory))


def check_database(directory: Path, made_after: Sequence[str]) -> None:
    """The database is there where a file is that is made after it, and is not empty, for it is made whole.

    Raises CorruptRecord.
    """
    data = directory / DATA_FILE
    if data.exists():
        if not data.stat().st_size:
            raise CorruptRecord(f"{DATA_FILE} is empty: what was in it is lost", str(directory))
        return
    for name in made_after:
        if (directory / name).is_file():
            raise CorruptRecord(f"{DATA_FILE} is missing; {name}, which is made after it, is there", str(directory))


def _mode(path: Path) -> int | None:
    """Of what the name leads to; 0: there is no such name, None: it is a link that leads nowhere."""
    try:
        return path.stat().st_mode
    except OSError as error:
        if error.errno not in (errno.ENOENT, errno.ELOOP):
            raise
    return None if path.is_symlink() else 0
