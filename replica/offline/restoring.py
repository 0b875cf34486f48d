"""Makes a member's data directory from a backup, whole or not at all; overwrites nothing, and starts nothing.

The directory must be empty. It counts as half restored until everything is durable in it: a member refuses to start
from it then, and the restore may be repeated.
"""

from __future__ import annotations

import os
from contextlib import closing, contextmanager
from typing import TYPE_CHECKING, NamedTuple

import msgspec

from failover.marks import DataMark
from replica.node.members import LOCAL
from replica.offline.backup import belongs, head_of, restored_meta, states_in
from replica.offline.examine import examine
from storage.backup import open_backup
from storage.directory import begin_restoring, end_restoring, lock_directory, make_directory
from storage.disk import open_disk, open_to_read
from storage.errors import CorruptRecord, WrongPair
from storage.seal import seal
from storage.store import META_MEMBER, META_PAIR, Append, WriteBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from storage.backup import BackupHead
    from storage.store import Store

BATCH_BYTES = 8 << 20
MAP_BYTES_MIN = 64 << 30
RESTORED = "restored"
"""Named value of a directory that was made from a backup: whose, and of what time."""


class RestoredFrom(msgspec.Struct, frozen=True):
    """What a directory was made from."""

    member: str
    instance: bytes
    time_ms: int
    digest: bytes


class Restored(NamedTuple):
    """What was done."""

    head: BackupHead
    member: str
    records: int
    left_out: tuple[str, ...]
    """Names of domains that belong to the other member alone."""


def restore(
    path: Path,
    directory: Path,
    *,
    pair: str | None = None,
    member: str | None = None,
    on_progress: Callable[[str, int, int], None] = lambda _what, _done, _all: None,
) -> Restored:
    """Fill the directory; `path`: a backup, or the directory of a member that does not run. `member`: None is the one
    whose it is, `pair`: None is any. Not from a running event loop.

    Raises StorageError (DamagedBackup, NewerFormat, WrongPair, DirectoryNotEmpty, DirectoryInUse, StoreFull), OSError.
    """
    with _open(path, on_progress) as source:
        head = source.head
        member = head.member if member is None else member
        _check_owner(head, pair, member, path)
        check_copies(head, path)
        # Before anything is written: what cannot be read as queues is no use in a new place either.
        examine(source.store, head, lambda done: on_progress("examined", done, head.records))
        make_directory(directory)
        lock = lock_directory(directory)
        try:
            making = begin_restoring(directory)
            size = max(MAP_BYTES_MIN, 4 * source.store.usage().file_bytes)
            # Without a log: the one file is all that gets its place.
            made = open_disk(making, pair=head.pair, member=member, map_bytes=size, ballast_bytes=0, commit_log=False)
            with closing(made) as store:
                records = _fill(store, source, member, on_progress)
            end_restoring(directory, "data.mdb")
        finally:
            os.close(lock)
    left_out = tuple(domain.name for domain in head.domains if not belongs(head, member, domain.number))
    return Restored(head, member, records, left_out)


class Source(NamedTuple):
    """A store to restore from, and what it says of itself."""

    store: Store
    head: BackupHead
    digest: bytes


@contextmanager
def _open(path: Path, on_progress: Callable[[str, int, int], None]) -> Iterator[Source]:
    if not path.is_dir():
        with closing(open_backup(path, lambda done, size: on_progress("read", done, size))) as backup:
            yield Source(backup, backup.head, backup.foot.digest)
        return
    with closing(open_to_read(path)) as store:
        yield Source(store, head_of_directory(store), b"")


def head_of_directory(store: Store) -> BackupHead:
    """What a backup of this store would say, now that no member has it. Raises CorruptRecord."""
    pair, member = ((store.get_meta(key) or b"").decode() for key in (META_PAIR, META_MEMBER))
    states = states_in(store.meta_items("")).values()
    names = {name for state in states if state.name != LOCAL for name in (state.owner, *state.in_sync_set)}
    others = sorted(names - {member, ""}) if pair else []
    with closing(store.view()) as view:
        peer = others[0] if len(others) == 1 else ""
        size = store.usage().used_bytes
        return head_of(view, pair=pair, member=member, peer=peer, product="", time_ms=0, size=size, whole=False)


def _check_owner(head: BackupHead, pair: str | None, member: str, path: Path) -> None:
    if pair is not None and pair != head.pair:
        its = f"pair {head.pair}" if head.pair else f"the unpaired manager {head.member}"
        ours = f"pair {pair}" if pair else "no pair"
        raise WrongPair(f"The backup is of {its}, this member is of {ours}", str(path))
    known = [head.member, head.peer] if head.peer else [head.member]
    if member not in known:
        raise WrongPair(f"The backup is of {' and '.join(known)}, and not of {member}", str(path))


def check_copies(head: BackupHead, path: Path) -> None:
    """Raises CorruptRecord when a domain in it is half a copy, or one that was found damaged."""
    for domain in head.domains:
        if domain.data not in DataMark.__members__:
            raise CorruptRecord(f"Domain {domain.name} is {domain.data!r} there: no such state of a copy", str(path))
        if DataMark[domain.data] in (DataMark.SYNCING, DataMark.DAMAGED):
            raise CorruptRecord(f"Domain {domain.name} is {domain.data} there: not a whole copy", str(path))


def _fill(store: Store, source: Source, member: str, on_progress: Callable[[str, int, int], None]) -> int:
    """The records, and last what says that they are there."""
    head = source.head
    done = 0
    for number in (domain.number for domain in head.domains):
        if not belongs(head, member, number):
            continue
        at = 0
        while rows := source.store.scan(number, at, limit_records=1 << 30, limit_bytes=BATCH_BYTES):
            store.commit(WriteBatch(appends=[Append(number, index, record) for index, record in rows]))
            at = rows[-1][0] + 1
            done += len(rows)
            on_progress("restored", done, head.records)
    meta = {key: restored_meta(head, member, key, value) for key, value in source.store.meta_items("")}
    origin = RestoredFrom(head.member, head.instance, head.time_ms, source.digest)
    meta[RESTORED] = seal(msgspec.msgpack.encode(origin))
    store.commit(WriteBatch(meta={key: value for key, value in meta.items() if value is not None}))
    return done
