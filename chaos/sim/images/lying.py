"""Judges what a device left that lied about its last writes: it answered their sync and lost them.

Then something promised is gone, and nothing can bring it back here. What must hold: the store refuses the image, or
what it takes for whole is exactly what some step had left, never a hole or a mixture; and where it says that a loss is
proven there is one. Whether the others are noticed is counted, not demanded: a copy that lacks its last transaction as
if it had never been shows nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import storage.commit_log
import storage.mark
from chaos.sim.images.driver import LOG_BYTES, MAP_BYTES, PAIR, one_inode
from chaos.sim.images.judges import (
    HALF,
    INVALID,
    NOTICED,
    PROVEN,
    REFUSED,
    UNDOUBTED,
    UNNOTICED,
    Finding,
    Moment,
    StoreJudge,
    content_of,
    file_faults,
)
from storage.disk import open_disk
from storage.doubt import said
from storage.errors import StorageError
from storage.store import META_INSTANCE

if TYPE_CHECKING:
    from storage.disk import DiskStore

FALSE = "false"


class LyingJudge(StoreJudge):
    """A member's store on such a device."""

    def find(self, directory: Path, moment: Moment) -> list[Finding]:
        """See Judge."""
        faults = file_faults(directory / "data" / "data.mdb", moment)
        with self._as_it_was_made():
            try:
                opened = open_disk(directory / "data", pair=PAIR, member="a", map_bytes=MAP_BYTES, ballast_bytes=0)
            except StorageError:
                self.seen[REFUSED] += 1
                return []
            with closing(opened):
                return self._of(opened, faults, moment)

    def _of(self, store: DiskStore, faults: list[Finding], moment: Moment) -> list[Finding]:
        found = content_of(store, self.domains)
        if store.get_meta(META_INSTANCE) != self.story.facts["instance"]:
            if found == self.states[0]:
                return []  # all of it was among the last writes: it is new and empty, and calls itself so
            return [Finding(INVALID, "another directory is taken for this one")]
        if faults:
            return [Finding(INVALID, f"it is taken for whole, and {faults[0].text}")]
        steps = [step for step in range(moment.doing + 1) if self.states[step] == found]
        if not steps:
            return [Finding(HALF, "what is taken for whole is what no step had left")]
        lost, doubts = max(steps) < moment.done, store.doubts
        proven = any(doubt.is_proven for doubt in doubts)
        if proven and max(steps) == moment.doing:  # what was on disk and not promised yet may have gone too
            return [Finding(FALSE, f"nothing is lost, and yet: {said(doubts)}")]
        if lost:
            self.seen[PROVEN if proven else NOTICED if doubts else UNNOTICED] += 1
        elif not doubts:
            self.seen[UNDOUBTED] += 1
        return []

    @staticmethod
    @contextmanager
    def _as_it_was_made() -> Iterator[None]:
        """An image is a copy: what knows its file by the inode has to know it again."""
        before = storage.commit_log.LOG_BYTES, storage.mark.inode_of
        storage.commit_log.LOG_BYTES, storage.mark.inode_of = LOG_BYTES, one_inode
        try:
            yield
        finally:
            storage.commit_log.LOG_BYTES, storage.mark.inode_of = before
