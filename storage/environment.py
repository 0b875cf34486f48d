"""Decides what a directory's LMDB environment must be like, and whose; never what goes into it later.

LMDB 0.9 files, default sync and metasync, no writemap: anything else lost or tore acknowledged commits in crash images.
"""

from __future__ import annotations

import errno
import os
import re
import struct
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import lmdb
from lmdb.verify import VerifyError, _Verifier

from storage.errors import CorruptRecord, NewerFormat, StoreFailed, StoreFull
from storage.identity import check_identity, new_identity
from storage.log_format import LogState, decode_state
from storage.meta_pages import META_BYTES, MetaPages, meta_pages
from storage.store import META_FORMAT, META_LOG, RESERVED_META, STORE_FORMAT

META = b"meta"
DATA_FILE = "data.mdb"
LOCK_FILE = "lock.mdb"
CHECKED_BYTES_MAX = 32 << 20
"""Of a database whose pages are looked at before it is opened: a second and a half where its records are tiny."""
_SHRUNK = re.compile(
    r"overflow page \d+ header mp_pages (?P<has>\d+) != OVPAGES\(\d+\)=(?P<needs>\d+)$"
    r"|: walked (?P<needs_all>\d+) overflow pages, record says (?P<has_all>\d+)$"
    r"|^\d+ page\(s\) are neither reachable nor in the freeDB"
)
"""What the verifier says of a long value that a shorter one took the place of within one transaction: LMDB keeps its
pages, counts all of them, and frees all of them with it.
"""
_READERS_MAX = 1022  # reads at the same moment; a slot is 64 bytes
_DAMAGED = (lmdb.CorruptedError, lmdb.PageNotFoundError, lmdb.InvalidError, lmdb.BadTxnError)


def make_environment(directory: Path, map_bytes: int, pair: str, member: str) -> None:
    """A new one that says whose it is."""
    with read_errors(str(directory)), open_environment(directory, map_bytes, 0) as env:
        check_owner(env, directory, pair, member)


def open_environment(directory: Path, map_bytes: int, max_domains: int, *, readonly: bool = False) -> lmdb.Environment:
    """With `readonly` nothing is made, and whoever has the directory's lock is alone with it.

    Raises CorruptRecord, NewerFormat, StoreFailed.
    """
    check_pages(directory)
    try:
        return lmdb.Environment(
            os.fspath(directory),
            map_size=map_bytes,
            max_dbs=max_domains + 1,
            max_readers=_READERS_MAX,
            mode=0o600,
            readonly=readonly,
            create=not readonly,
            lock=not readonly,
            sync=True,
            metasync=True,
            writemap=False,
            lib_version=0,
        )
    except lmdb.Error as error:
        if isinstance(error, lmdb.VersionMismatchError) or _is_of_newer_engine(directory):
            raise NewerFormat("The file was written by a newer LMDB", str(directory)) from error
        if isinstance(error, _DAMAGED):
            raise CorruptRecord(f"LMDB cannot read this file: {error}", str(directory)) from error
        raise StoreFailed(f"LMDB cannot open this directory: {error}", str(directory)) from error


def read_meta_pages(directory: Path) -> MetaPages | None:
    """As they are before LMDB has the file; it takes the one that says the higher number, and says nothing."""
    try:
        with (directory / DATA_FILE).open("rb") as file:
            return meta_pages(file.read(META_BYTES))
    except OSError:
        return None  # LMDB meets the same, and says what it is


def check_pages(directory: Path) -> None:
    """Raises CorruptRecord where LMDB cannot be given the file. It reads through a map and trusts what a page says:
    a page beyond the end, or a damaged one that leads there, would end the process (SIGBUS, an assertion), or hold it.

    Pages at the end that are free need not have been written. So a file that is short is read whole, which takes a
    second for each 50 MB or so of pages that are no long values. Another one is read up to `CHECKED_BYTES_MAX`: in a
    larger one such a page is met when it is used.
    """
    pages = read_meta_pages(directory)
    if pages is None:
        return
    file = directory / DATA_FILE
    length = file.stat().st_size
    is_short = pages.used_bytes > length
    if not is_short and pages.used_bytes > CHECKED_BYTES_MAX:
        return
    if why := _problem(file, length):
        what = f"The file has {length} bytes, and its last transaction used {pages.used_bytes}: {why}"
        raise CorruptRecord(what if is_short else f"The database is damaged: {why}", str(file))


def _problem(file: Path, length: int) -> str:
    """What is the matter with the pages in use; empty: nothing, at most free pages are missing. What the meta pages say
    of each other is a doubt (`storage.doubt`), and no problem here.

    `lmdb.verify.verify` itself looks at the first page of a long value alone, so the pages that it found in use are
    asked for: a name of its own that is not public, of a version that is pinned.
    """
    with file.open("rb") as opened:
        verifier = _Verifier(opened, length)  # type: ignore[no-untyped-call]  # ships no types
        verifier.MAX_ERRORS = sys.maxsize  # it stops at so many, and then misses what it has not come to
        try:
            problems: list[str] = verifier.verify()  # type: ignore[no-untyped-call]  # as above
        except VerifyError as error:
            return str(error)
        if damage := next(filter(_is_damage, problems), ""):
            return damage
        lost: int = verifier.live.find(1, length // verifier.psize)
        return f"page {lost} is in use, and beyond the end" if lost >= 0 else ""


def _is_damage(problem: str) -> bool:
    """Whether the verifier's words are of what LMDB does not write, or must not follow."""
    if problem.startswith("meta page"):
        return False
    found = _SHRUNK.search(problem)
    if found is None:
        return True
    has, needs = found["has"] or found["has_all"] or 0, found["needs"] or found["needs_all"] or 0
    return int(has) < int(needs)


def _is_of_newer_engine(directory: Path) -> bool:
    """The 0.9 engine calls such a file no LMDB file at all; moving it away would be the wrong advice."""
    try:
        lmdb.Environment(os.fspath(directory), readonly=True, lock=False, create=False, lib_version=1).close()
    except lmdb.Error:
        return False
    return True


def check_owner(env: lmdb.Environment, directory: Path, pair: str, member: str) -> None:
    """Whose directory this is; writes it if nothing was ever committed here, and raises an older format to ours."""
    with env.begin(write=True) as txn:
        if txn.stat()["entries"] == 0:
            meta = env.open_db(META, txn=txn)
            for key, value in new_identity(pair, member, os.urandom(16)).items():
                txn.put(key.encode(), value, db=meta)
            return
    found = identity_in(env, directory)
    check_identity(found, pair, member, str(directory))
    if found[META_FORMAT] != b"%d" % STORE_FORMAT:
        with env.begin(write=True) as txn:
            txn.put(META_FORMAT.encode(), b"%d" % STORE_FORMAT, db=env.open_db(META, txn=txn, create=False))


def identity_in(env: lmdb.Environment, directory: Path) -> dict[str, bytes | None]:
    """Its reserved values. Raises CorruptRecord where there are none of ours at all."""
    return _values(env, directory, sorted(RESERVED_META))


def log_state_in(env: lmdb.Environment, directory: Path) -> LogState | None:
    """What it says of its commit log; None: it has none. Raises CorruptRecord."""
    stored = _values(env, directory, [META_LOG])[META_LOG]
    return decode_state(stored, str(directory)) if stored is not None else None


def _values(env: lmdb.Environment, directory: Path, keys: list[str]) -> dict[str, bytes | None]:
    try:
        meta = env.open_db(META, create=False)
    except lmdb.NotFoundError:
        raise CorruptRecord("The directory holds data that is not Tandemq's", str(directory)) from None
    with env.begin() as txn:
        return {key: txn.get(key.encode(), db=meta) for key in keys}


def copy_environment(env: lmdb.Environment, into: Path) -> None:
    """The pages in use, as a new file in this directory, which is not synced. Raises StoreFull, StoreFailed,
    CorruptRecord."""
    try:
        env.copy(os.fspath(into), compact=True)
    except _DAMAGED as error:
        raise CorruptRecord(f"LMDB found damage: {error}", str(into)) from error
    except lmdb.Error as error:
        if error.code in (errno.ENOSPC, errno.EDQUOT):
            raise StoreFull("The disk has no room for the copy", str(into)) from error
        raise StoreFailed(f"The copy could not be made: {error}", str(into)) from error


@contextmanager
def read_errors(where: str) -> Iterator[None]:
    """Says what a failed read means."""
    try:
        yield
    except _DAMAGED as error:
        raise CorruptRecord(f"LMDB found damage: {error}", where) from error
    except struct.error as error:
        raise CorruptRecord(f"A key is none of ours: {error}", where) from error
    except lmdb.Error as error:
        raise StoreFailed(f"Reading failed: {error}", where) from error
