"""Decides what a copy cannot prove about its last writes when it is opened; never what follows from that.

A disk that answered before it had written, or that lost what it had, leaves files that are whole and of an earlier
moment. What cannot be seen from inside is no doubt here, and only the peer knows more. Nothing is said of a store whose
writes are all there, except `LAST_ENTRY`: a power loss in the middle of a write that was never reported leaves that as
well.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    from storage.meta_pages import MetaPages


class EndOfLog(NamedTuple):
    """Where a log ends, as far as it can be read."""

    number: int
    """Of the last entry that is whole, or that the database holds."""
    is_torn: bool
    """The entry after it is there and not whole."""


class DoubtKind(Enum):
    """What was noticed."""

    DATABASE_BEHIND = "database-behind"
    """The database is of a moment before a transaction that was reported durable."""
    LOG_BEHIND = "log-behind"
    """The commit log ends before an entry that was reported durable."""
    META_PAGE = "meta-page"
    """The database's meta pages are not as any two transactions leave them: one is damaged, perhaps the newer one."""
    LOG_SHORT = "log-short"
    """The commit log's file is shorter than it was made."""
    LAST_ENTRY = "last-entry"
    """Behind the last whole entry of the commit log is one that is not: torn before it was reported, or damaged."""


class Reported(NamedTuple):
    """What was said to be durable."""

    entry: int = 0
    """Number of the commit log's last entry; 0: none, or unknown."""
    transaction: int = 0
    """The last transaction of LMDB that carried a batch, not only what was pending; 0: none, or unknown."""


PROVEN = frozenset((DoubtKind.DATABASE_BEHIND, DoubtKind.LOG_BEHIND))
"""Something that was reported durable is gone. The others leave open whether."""


class Doubt(NamedTuple):
    """One thing that this copy cannot prove about its last writes."""

    kind: DoubtKind
    what: str
    """One sentence for people."""
    where: str
    """The file."""

    @property
    def is_proven(self) -> bool:
        """Whether something that was reported durable is certainly gone."""
        return self.kind in PROVEN

    def __str__(self) -> str:
        return f"{self.what} ({self.where})"


def doubts_of_database(pages: MetaPages | None, transaction: int, reported: Reported, where: str) -> list[Doubt]:
    """`transaction`: the one that LMDB goes on from."""
    found = []
    if reported.transaction > transaction:
        what = f"The database ends with transaction {transaction}, and {reported.transaction} was reported durable"
        found.append(Doubt(DoubtKind.DATABASE_BEHIND, what, where))
    if pages is not None and not pages.fits:
        what = f"The meta pages are of transactions {pages.first} and {pages.second}, which do not follow each other"
        found.append(Doubt(DoubtKind.META_PAGE, what, where))
    return found


def doubts_of_log(end: EndOfLog, file_bytes: int, made_bytes: int, reported: Reported, where: str) -> list[Doubt]:
    """`made_bytes`: how long the file was made."""
    found = []
    if reported.entry > end.number:
        what = f"The commit log ends with entry {end.number}, and {reported.entry} was reported durable"
        found.append(Doubt(DoubtKind.LOG_BEHIND, what, where))
    if file_bytes < made_bytes:
        what = f"The commit log has {file_bytes} bytes, and was made with {made_bytes}"
        found.append(Doubt(DoubtKind.LOG_SHORT, what, where))
    if end.is_torn:
        what = f"Entry {end.number + 1} of the commit log is not whole: it was torn unreported, or is damaged"
        found.append(Doubt(DoubtKind.LAST_ENTRY, what, where))
    return found


def said(doubts: Sequence[Doubt]) -> str:
    """In one line, for a log and a status; empty without any."""
    return "; ".join(str(doubt) for doubt in doubts)
