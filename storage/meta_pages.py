"""Decides whether the two meta pages of an LMDB file are as its transactions leave them, and how long the file must be;
never which of the two pages is used.

Each transaction that commits writes one of them, in turn: number n the page n modulo 2. So one holds the last number,
the other the one before. LMDB takes the higher number for the newer page and has no checksum: a page that fell back, by
a bit or by a write that never reached the disk, leaves the other in force, and the last transaction is gone without an
error. Where the numbers no longer fit together that shows. A page that holds exactly what it held two transactions
before fits, and nothing in the file shows it.
"""

from __future__ import annotations

from struct import Struct
from typing import NamedTuple

META_BYTES = 2 * 65536  # the largest page that LMDB knows, twice
_PAGE_BYTES_AT = 40  # LMDB 0.9: a header of 16 bytes, magic, version, address, size of the map, then this
_LAST_PAGE_AT = 136
_TXN_AT = 144
_META_END = _TXN_AT + 8
_U32, _U64 = Struct("=I"), Struct("=Q")
_PAGE_BYTES_MIN = 512


class MetaPages(NamedTuple):
    """What both say."""

    first: int
    """Number of the transaction in page 0."""
    second: int
    """The same in page 1."""
    used_bytes: int = 0
    """Where the last page ends that the last transaction knows."""

    @property
    def last(self) -> int:
        """The transaction that LMDB goes on from."""
        return max(self.first, self.second)

    @property
    def fits(self) -> bool:
        """Whether transactions, each to its end or not at all, can have left these numbers."""
        if self.first == self.second == 0:
            return True  # just made
        return self.first % 2 == 0 and self.second % 2 == 1 and abs(self.first - self.second) == 1


def meta_pages(head: bytes) -> MetaPages | None:
    """The numbers in the first bytes of a file, `META_BYTES` of it or all; None: it is no such file, LMDB says why."""
    if len(head) < _META_END:
        return None
    (page_bytes,) = _U32.unpack_from(head, _PAGE_BYTES_AT)
    power_of_two = page_bytes & (page_bytes - 1) == 0
    if not power_of_two or page_bytes < _PAGE_BYTES_MIN or len(head) < page_bytes + _META_END:
        return None
    (first,), (second,) = _U64.unpack_from(head, _TXN_AT), _U64.unpack_from(head, page_bytes + _TXN_AT)
    (last_page,) = _U64.unpack_from(head, _LAST_PAGE_AT + (page_bytes if first < second else 0))
    return MetaPages(first, second, (last_page + 1) * page_bytes)
