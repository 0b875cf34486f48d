"""Reads what a stopped process has on disk, from a copy of its files, so that reading changes nothing of them."""

from __future__ import annotations

import re
import shutil
import tempfile
from pathlib import Path

from chaos.lying.pages import DATA_FILE, LOG_FILE, MARK_FILE
from storage.disk import open_to_read
from storage.errors import StorageError

_TOKEN = re.compile(rb"<[0-9]{1,9}:[0-9]{1,9}>")


def token(producer: int, number: int) -> bytes:
    """What a message is known by, wherever it is found."""
    return b"<%d:%d>" % (producer, number)


def tokens_in(data: bytes) -> list[bytes]:
    """In the order in which they are there."""
    return _TOKEN.findall(data)


def copy_files(directory: Path, to: Path) -> None:
    """The files that hold a member's or a witness's data. Whoever writes them must stand still."""
    to.mkdir(parents=True)
    for name in (DATA_FILE, LOG_FILE, MARK_FILE):
        if (directory / name).exists():
            shutil.copyfile(directory / name, to / name)


def messages_in(directory: Path) -> set[bytes] | None:
    """Tokens of all messages that a member's copy holds; None: it cannot be opened, which a start would notice."""
    with tempfile.TemporaryDirectory(prefix="tandemq-lying-") as scratch:
        copy = Path(scratch) / "copy"
        copy_files(directory, copy)
        try:
            store = open_to_read(copy)
        except StorageError:
            return None
        found: set[bytes] = set()
        try:
            view = store.view()
            for domain in view.domains():
                at = 0
                while rows := store.scan(domain, at):
                    for _, record in rows:
                        found.update(tokens_in(record))
                    at = rows[-1][0] + 1
        finally:
            store.close()
        return found
