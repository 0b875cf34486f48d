"""Backups: what was changed on its way is told from what was written; whole frames of nonsense are refused in words."""

from __future__ import annotations

import tempfile
import time
from contextlib import closing
from pathlib import Path

from replica.offline.examine import examine
from replica.offline.restoring import check_copies
from storage.backup import BackupHead, DomainHead, Packer, open_backup
from storage.errors import StorageError
from tests.fuzz.source import Source

HEAD = BackupHead(
    *("p", "b", "a", b"i" * 16, 3, "1", 1, 1, 5, True),
    domains=(DomainHead(1, "main", 2, 9, b"d" * 16, "IN_SYNC", 5),),
    bytes_estimate=100,
)
KEYS = ("domain/00000001/state", "domain/00000001/checkpoint", "domain/00000002/state", "pair", "member", "")
_FILE = Path(tempfile.gettempdir()) / f"tandemq-fuzz-{time.time_ns()}.tqb"


def one(data: bytes) -> None:
    source = Source(data)
    source.pick(PARTS)(source)


def _is_whole(written: bytes) -> bool:
    _FILE.write_bytes(written)
    try:
        open_backup(_FILE).close()
    except StorageError as refused:
        assert str(refused)
        return False
    finally:
        _FILE.unlink()
    return True


def _packed(source: Source) -> bytes:
    packer = Packer()
    parts = [packer.begin(HEAD)]
    for _ in range(source.number(0, 3)):
        if source.flag():
            parts.append(packer.meta([(source.pick(KEYS), source.blob()) for _ in range(source.number(0, 3))]))
        else:
            first = source.number(1, 9)
            rows = [(first + place, source.blob()) for place in range(source.number(1, 4))]
            parts.append(packer.records(source.number(1, 2), rows))
    return b"".join([*parts, packer.end()])


def changed(source: Source) -> None:
    """A few bytes are other ones, or missing, or too many."""
    written = _packed(source)
    broken = source.mutated(written)
    assert broken == written or not _is_whole(broken), "changed bytes pass"


def nonsense(source: Source) -> None:
    """Every checksum is right, what it protects is not."""
    head = HEAD
    if source.flag():
        domain = DomainHead(
            source.number(0, 3), source.text(), source.u64(), source.u64(), source.blob(), source.text(), 0
        )
        head = BackupHead(
            *(source.text(), source.text(), source.text(), source.blob(), source.u64(), source.text()),
            *(source.u64(), source.u64(), source.u64(), source.flag()),
            domains=(domain,),
            bytes_estimate=source.u64(),
        )
    packer = Packer()
    parts = [packer.begin(head)]
    for _ in range(source.number(0, 3)):
        parts.append(packer.meta([(source.pick(KEYS), source.blob()) for _ in range(source.number(0, 3))]))
        rows = [(source.number(0, 9), source.blob()) for _ in range(source.number(0, 3))]
        parts.append(packer.records(source.number(0, 2), rows))
    _FILE.write_bytes(b"".join([*parts, packer.end()]))
    try:
        with closing(open_backup(_FILE)) as backup:
            check_copies(backup.head, _FILE)
            examine(backup, backup.head)
    except StorageError as refused:
        assert str(refused)
    finally:
        _FILE.unlink()


PARTS = (changed, nonsense)
