"""Says in how many ways storage can fail, and what the operator can do about each; never decides who retries.

Only `StoreFull` leaves a store that goes on working. After `StoreFailed` nothing is known about what is on disk, so the
process stops: a second fsync that succeeds does not bring back what the first one lost.
"""

from __future__ import annotations

from typing import ClassVar


class StorageError(Exception):
    """What happened, where, and what to do, in one line; `what` and `where` are kept apart for logs."""

    remedy: ClassVar[str] = "See the log for what came before."

    def __init__(self, what: str, where: str = "") -> None:
        super().__init__(what, where)
        self.what = what
        self.where = where

    def __str__(self) -> str:
        place = f" ({self.where})" if self.where else ""
        return f"{self.what}{place}. {self.remedy}"


class CorruptRecord(StorageError):  # noqa: N818 - named by what is the matter, as callers match on it
    """Stored or received bytes contradict their checksums, their chain or themselves."""

    remedy = "Do not use this copy: move the directory away, restart with an empty one and let the member rejoin."


class NewerFormat(StorageError):  # noqa: N818 - named by what is the matter, as callers match on it
    """The bytes are in a format that this version does not know."""

    remedy = "Run the version of Tandemq that wrote this, or a later one; nothing was changed."


class DirectoryInUse(StorageError):  # noqa: N818 - named by what is the matter, as callers match on it
    """Another process, or another store of this process, has the directory open."""

    remedy = "Stop that process first, or give this member a directory of its own."


class WrongPair(StorageError):  # noqa: N818 - named by what is the matter, as callers match on it
    """The directory was made for another member or another pair."""

    remedy = "Point this member at its own directory; nothing was changed."


class DirectoryNotEmpty(StorageError):  # noqa: N818 - named by what is the matter, as callers match on it
    """A backup goes into an empty directory only: nothing that is there is ever mixed or overwritten."""

    remedy = "Name an empty directory, or move this one away; nothing was changed."


class RestoreUnfinished(StorageError):  # noqa: N818 - named by what is the matter, as callers match on it
    """The directory holds a part of a backup; a member that began with it would begin empty."""

    remedy = "Repeat the restore into the same directory, or remove the directory; nothing was changed."


class StoreFull(StorageError):  # noqa: N818 - named by what is the matter, as callers match on it
    """There is no room for this batch: nothing of it was done, and the store goes on working."""

    remedy = "Consume messages or free disk space, then repeat."


class StoreFailed(StorageError):  # noqa: N818 - named by what is the matter, as callers match on it
    """The outcome of a commit is unknown, or an invariant of the store is broken: stop the process, never retry."""

    remedy = "The member must stop; check the disk, then restart it. What was acknowledged is on the other member."
