"""How far one domain's log has come at one member: written, committed, applied, kept. Asserts what must hold of these
places; decides none of them.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from replica.core.state.log import DomainLog
    from tandemq.peer.v1.record_pb2 import RecordHeader


class Pending(NamedTuple):
    """A record in the log that is not applied to the queues yet (replica)."""

    log_index: int
    epoch: int
    header: RecordHeader


class Progress:
    """Everybody reads; whoever moves a place calls a method, which asserts what it could break.

    Invariants:
    - durable <= last and commit <= last;
    - what this member commits itself, as master, is durable here. A replica that catches up may know more committed
      than its own disk has: its master does not wait for it yet, and a replica counts its copy by `durable_index`;
    - a replica applies no record above the commit index. What it applied when it started, from its own log, and what a
      former master applied, may be above it: nobody is answered by `applied_index` alone (P14);
    - trimming <= checkpoint <= last: what is gone from the log is in the snapshot.
    """

    def __init__(self, log: DomainLog, *, checkpoint_index: int = 0) -> None:
        self._log = log
        self.durable_index = log.last_index
        self.commit_index = 0
        self.pending: deque[Pending] = deque()
        """At a replica: accepted and not applied, in log order."""
        self.checkpoint_index = checkpoint_index
        """Of the stored snapshot of the queues: their state can be made anew from there on, and from nowhere before it
        once records are gone.
        """
        self.trimming = 0
        """Records up to here are gone, or about to go: a place there is promised to nobody."""
        self.generation = 0
        """Grows when the log is cut, so that a late `durable` of a cut record is not believed."""
        self.ordered_from = 0
        """From here to its end the log was ordered by this process as master; 0: by others, or before it started."""
        self.sent_up_to = 0
        """Of that, what the peer was sent: it may hold it, take over and answer it, whatever this member hears."""

    # -- forwards --------------------------------------------------------------------------------------------------

    def on_durable(self, log_index: int) -> None:
        """A group commit of the current generation has ended: records up to there are on disk."""
        assert log_index <= self._log.last_index, f"{log_index} is durable, the log ends at {self._log.last_index}"
        self.durable_index = max(self.durable_index, log_index)
        self._log.on_stored(log_index)

    def commit(self, log_index: int) -> None:
        """At the master: every member that must hold it does."""
        assert self.commit_index < log_index <= self.durable_index, (
            f"commit of {log_index}: {self.commit_index} is committed, {self.durable_index} durable here"
        )
        self.commit_index = log_index

    def follow_commit(self, log_index: int) -> int:
        """At a replica: its master has committed up to there (P14). Returns the commit index, which never falls."""
        log_index = min(log_index, self._log.last_index)
        if log_index > self.commit_index:
            self.commit_index = log_index
        return self.commit_index

    def accept(self, record: Pending) -> None:
        """At a replica: the next record is in the log, and waits for its commit."""
        self.pending.append(record)

    def drop_pending(self) -> None:
        """The queues' state is made anew from the log: nothing waits to be applied to the old one."""
        self.pending.clear()

    def order_from_here(self) -> None:
        """This process orders what follows, if it does not already."""
        self.ordered_from = self.ordered_from or self._log.last_index + 1

    def on_sent(self, log_index: int) -> None:
        """The peer was sent records up to there."""
        self.sent_up_to = max(self.sent_up_to, log_index)

    def follow_another(self) -> None:
        """Another process orders what follows."""
        self.ordered_from = self.sent_up_to = 0

    def on_checkpoint(self, log_index: int) -> None:
        """A snapshot of what was committed when it was made is durable."""
        assert self.checkpoint_index <= log_index <= self._log.last_index, (
            f"checkpoint at {log_index}: {self.checkpoint_index} stands, the log ends at {self._log.last_index}"
        )
        self.checkpoint_index = log_index

    def trim(self, log_index: int) -> None:
        """Records up to there are about to go."""
        assert log_index <= self.checkpoint_index, f"trimming to {log_index}, the checkpoint is {self.checkpoint_index}"
        self.trimming = max(self.trimming, log_index)

    def trim_anew(self) -> None:
        """What was trimmed was of another log."""
        self.trimming = 0

    # -- backwards -------------------------------------------------------------------------------------------------

    def uncommit(self, log_index: int) -> None:
        """An operator has kept the peer's history: nothing above the common point stands in the way of the cut."""
        self.commit_index = min(self.commit_index, log_index)

    def cut(self, log_index: int) -> None:
        """Records above are taken out of the log (P10)."""
        self.commit_index = min(self.commit_index, log_index)
        self.generation += 1
        self._log.cut(log_index)
        self.durable_index = min(self.durable_index, log_index)
        while self.pending and self.pending[-1].log_index > log_index:
            self.pending.pop()

    def wipe(self) -> None:
        """A full transfer takes the place of everything; the log keeps its length until the base is there."""
        self.generation += 1
        self.pending.clear()
        self.durable_index = self.commit_index = self.checkpoint_index = 0

    def on_base(self, log_index: int) -> None:
        """All of a full transfer is stored; its snapshot is the checkpoint that is being written."""
        assert log_index == self._log.base_index, f"base {log_index} of a log that stands on {self._log.base_index}"
        self.checkpoint_index = log_index

    def on_base_durable(self, log_index: int) -> None:
        """The snapshot is durable: what it holds is, and is committed."""
        assert log_index == self.checkpoint_index, f"base {log_index}, the checkpoint is at {self.checkpoint_index}"
        self.durable_index = self.commit_index = log_index
