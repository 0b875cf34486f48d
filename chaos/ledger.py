"""Decides from what a producer and a consumer saw whether a queue kept its promise; it never talks to a queue.

A row is known by its place in the input, from 0. The ledger takes facts as they become certain and counts what they
prove: a row that was acknowledged and never received is lost; one whose settlement was confirmed as new twice is a
duplicate; a first delivery behind a later row's is an order break. A row that is delivered again because it was not
settled is none of these and counted as redelivered, also when its earlier delivery died with a connection (late).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

FINDINGS_MAX = 20  # details kept for people; the counts are complete


class Kill(NamedTuple):
    """One process that was killed."""

    at_s: float
    member: str
    epoch: int


class Pause(NamedTuple):
    """A stretch without an acknowledgement although rows waited for one."""

    from_s: float
    to_s: float

    @property
    def length_ms(self) -> int:
        return round((self.to_s - self.from_s) * 1000)


class Totals(NamedTuple):
    """What the ledger proves. `verdict` is "pass" only when nothing is missing, doubled or out of order."""

    rows: int
    sent: int
    acknowledged: int
    received: int
    settled: int
    lost: int
    duplicates: int
    redelivered: int
    late: int
    order_breaks: int
    corrupt: int
    kills: int
    takeovers: int
    longest_pause_ms: int
    epochs: tuple[int, ...]
    verdict: str


@dataclass(slots=True)
class Ledger:
    """What happened to `rows` rows. Times are seconds since the run began, and never run backwards."""

    rows: int
    kills: list[Kill] = field(default_factory=list)
    epochs: list[int] = field(default_factory=list)  # of masterships that were seen to serve, rising
    longest_pause: Pause = field(default_factory=lambda: Pause(0.0, 0.0))
    findings: list[str] = field(default_factory=list)
    sent: int = 0
    acknowledged: int = 0
    received: int = 0
    settled: int = 0
    duplicates: int = 0
    redelivered: int = 0
    late: int = 0  # of the redelivered: received for the first time, behind later rows
    order_breaks: int = 0
    corrupt: int = 0
    _row_of: dict[int, int] = field(default_factory=dict)  # index of an acknowledged row to the row
    _first_index: dict[int, int] = field(default_factory=dict)  # received row to the index it first came with
    _acknowledged_rows: bytearray = field(default_factory=bytearray)
    _settled_rows: bytearray = field(default_factory=bytearray)
    _last_first_receipt: int = -1
    _waiting_since_s: float = 0.0

    def __post_init__(self) -> None:
        self._acknowledged_rows = bytearray(self.rows)
        self._settled_rows = bytearray(self.rows)

    def on_sent(self, count: int, now_s: float) -> None:
        """The next `count` rows were handed to the producer."""
        if self.sent == self.acknowledged:
            self._waiting_since_s = now_s
        self.sent += count

    def on_acknowledged(self, row: int, index: int, now_s: float) -> None:
        """The producer got the answer that `row` is ordered at `index`."""
        self._end_pause(now_s)
        if self._acknowledged_rows[row]:
            self._find(f"row {row} was acknowledged again, at index {index}")
            self.duplicates += 1
            return
        other = self._row_of.setdefault(index, row)
        if other != row:
            self._find(f"rows {other} and {row} were both acknowledged at index {index}")
            self.corrupt += 1
        self._acknowledged_rows[row] = 1
        self.acknowledged += 1

    def on_received(self, row: int, index: int, delivery_count: int = 1) -> None:
        """The consumer was given `row` at `index`; the member says that it is the delivery with this number."""
        first = self._first_index.get(row)
        if first is not None:
            if first != index:
                self._find(f"row {row} came at index {first} and again at index {index}")
                self.duplicates += 1
            self.redelivered += 1
            return
        self._first_index[row] = index
        self.received += 1
        self.redelivered += delivery_count > 1
        if row > self._last_first_receipt:
            self._last_first_receipt = row
        elif delivery_count > 1:
            self.late += 1
        else:
            self._find(f"row {row} was first delivered after row {self._last_first_receipt}")
            self.order_breaks += 1

    def on_corrupt(self, index: int) -> None:
        """The consumer was given something at `index` that is no row of the input."""
        self._find(f"the message at index {index} is not what was sent")
        self.corrupt += 1

    def on_settled(self, rows: Iterable[int]) -> None:
        """The consumer's settlement of one delivery of each row was confirmed by a member."""
        for row in rows:
            if row not in self._first_index:
                self._find(f"row {row} was settled and never received")
                self.corrupt += 1
            if self._settled_rows[row]:
                self._find(f"row {row} was settled in two deliveries")
                self.duplicates += 1
            else:
                self._settled_rows[row] = 1
                self.settled += 1

    def on_kill(self, member: str, epoch: int, now_s: float) -> None:
        self.kills.append(Kill(now_s, member, epoch))

    def on_master(self, epoch: int) -> None:
        """A master was seen that serves in this epoch."""
        if not self.epochs or epoch > self.epochs[-1]:
            self.epochs.append(epoch)

    def _end_pause(self, now_s: float) -> None:
        if now_s - self._waiting_since_s > self.longest_pause.to_s - self.longest_pause.from_s:
            self.longest_pause = Pause(self._waiting_since_s, now_s)
        self._waiting_since_s = now_s

    def _find(self, finding: str) -> None:
        if len(self.findings) < FINDINGS_MAX:
            self.findings.append(finding)

    def lost_rows(self) -> list[int]:
        """Acknowledged and never received: to be asked when the queue is drained."""
        return [row for row in range(self.rows) if self._acknowledged_rows[row] and row not in self._first_index]

    def takeovers(self) -> int:
        """Kills that were followed by a mastership of a later epoch."""
        return sum(1 for kill in self.kills if any(epoch > kill.epoch for epoch in self.epochs))

    def totals(self) -> Totals:
        """The account. Asked before the queue is drained, what is still in it counts as lost."""
        lost = len(self.lost_rows())
        clean = not (lost or self.duplicates or self.order_breaks or self.corrupt)
        complete = self.rows == self.sent == self.acknowledged == self.received == self.settled
        return Totals(
            rows=self.rows,
            sent=self.sent,
            acknowledged=self.acknowledged,
            received=self.received,
            settled=self.settled,
            lost=lost,
            duplicates=self.duplicates,
            redelivered=self.redelivered,
            late=self.late,
            order_breaks=self.order_breaks,
            corrupt=self.corrupt,
            kills=len(self.kills),
            takeovers=self.takeovers(),
            longest_pause_ms=self.longest_pause.length_ms,
            epochs=tuple(self.epochs),
            verdict="pass" if clean and complete and self.takeovers() == len(self.kills) else "fail",
        )
