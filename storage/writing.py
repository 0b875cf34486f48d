"""Decides how a batch is carried out in one transaction of the database; never when, nor what a failure means.

`append=True` answers False instead of raising when a key is not the highest, so every answer is checked.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from storage.errors import StoreFailed
from storage.log_format import LogState, encode_state
from storage.reading import KEY
from storage.store import LOG_INDEX_MAX, META_LOG, Append, WriteBatch, lacks

if TYPE_CHECKING:
    import lmdb

    from storage.recent import Recent


class Write:
    """One transaction: `pending` first, then `carry_out`. Raises StoreFailed and what LMDB raises; then abort it."""

    def __init__(
        self,
        env: lmdb.Environment,
        txn: lmdb.Transaction,
        meta: lmdb._Database,
        domains: Mapping[int, lmdb._Database],
        where: str,
    ) -> None:
        self.fresh: dict[int, lmdb._Database] = {}
        """Databases of domains that had none."""
        self._env = env
        self._txn = txn
        self._meta = meta
        self._domains = domains
        self._where = where

    def pending(self, recent: Recent, state: LogState) -> None:
        """What the log holds and the database does not, and that it does from now on."""
        for domain, tail in recent.tails.items():
            items = zip(tail.log_indexes[: tail.end], tail.records[: tail.end], strict=True)
            self._append(domain, [(KEY.pack(log_index), record) for log_index, record in items])
        for key, (_, value) in recent.meta.items():
            self._put_meta(key, value)
        self._put_meta(META_LOG, encode_state(state))

    def carry_out(self, batch: WriteBatch) -> None:
        """In the order of its fields."""
        for domain in batch.wipe & self._domains.keys():
            self._txn.drop(self._domains[domain], delete=False)
        for domain, last in batch.cut.items():
            if domain in self._domains:
                self._cut(domain, last)
        for domain, log_indexes in batch.drops.items():
            if domain in self._domains:
                for log_index in log_indexes:
                    self._txn.delete(KEY.pack(log_index), db=self._domains[domain])
        for entry in batch.inserts:
            self._txn.put(KEY.pack(entry.log_index), entry.record, db=self._made(entry.domain))
        for domain, items in _by_domain(batch.appends).items():
            self._append(domain, items)
        for entry in batch.bodies:
            self._complete(entry)
        for key, value in batch.meta.items():
            self._put_meta(key, value)

    def _cut(self, domain: int, last: int) -> None:
        """Deletes every record above `last`."""
        cursor = self._txn.cursor(self._domains[domain])
        if last < LOG_INDEX_MAX and cursor.set_range(KEY.pack(last + 1)):
            while cursor.delete():  # moves on to the next; False at the end
                pass

    def _append(self, domain: int, items: list[tuple[bytes, bytes]]) -> None:
        db = self._made(domain)
        if len(items) == 1:
            done = self._txn.put(*items[0], append=True, db=db)
        else:
            done = self._txn.cursor(db).putmulti(items, append=True) == (len(items), len(items))
        if not done:
            first, last = (KEY.unpack(items[at][0])[0] for at in (0, -1))
            raise not_rising(domain, first, last, self._where)

    def _complete(self, entry: Append) -> None:
        db = self._domains.get(entry.domain) or self.fresh.get(entry.domain)
        key = KEY.pack(entry.log_index)
        found = self._txn.get(key, db=db) if db is not None else None
        if found is not None and lacks(head := bytes(found), entry, self._where):
            self._txn.put(key, head + entry.record, db=db)

    def _made(self, domain: int) -> lmdb._Database:
        db = self._domains.get(domain) or self.fresh.get(domain)
        if db is None:
            db = self.fresh[domain] = self._env.open_db(b"d%08x" % domain, txn=self._txn)
        return db

    def _put_meta(self, key: str, value: bytes | None) -> None:
        if value is None:
            self._txn.delete(key.encode(), db=self._meta)
        else:
            self._txn.put(key.encode(), value, db=self._meta)


def not_rising(domain: int, first: int, last: int, where: str) -> StoreFailed:
    """Appends that are not the highest: whoever made them is wrong about what is there."""
    return StoreFailed(
        f"Appending log index {first} to {last} of domain {domain} would not leave them the highest", where
    )


def _by_domain(entries: Iterable[Append]) -> dict[int, list[tuple[bytes, bytes]]]:
    items: dict[int, list[tuple[bytes, bytes]]] = {}
    for entry in entries:
        items.setdefault(entry.domain, []).append((KEY.pack(entry.log_index), entry.record))
    return items
