"""One member's core as the model runs it: the product's own, over no queues. Decides nothing that the product decides.

An operation is a record without a queue; `NoQueues` counts how far records are applied.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from operator import attrgetter
from typing import TYPE_CHECKING, Any

from replica.core.domain import Domain
from replica.core.ordering.holding import Holding
from replica.core.ports import Settings, ShellPorts
from replica.core.state.durable import checkpoint_key, state_key
from replica.core.state.log import Entry
from replica.machine import Applied, Limits
from replica.machine.state.state import State
from replica.node.recovery import open_shared
from storage.memory import MemoryStore
from storage.records import PREFIX_SIZE
from storage.store import Append, WriteBatch
from tandemq.peer.v1.peer_service_pb2 import DomainHello
from tandemq.peer.v1.record_pb2 import RecordHeader

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.core.state.calls import PendingEnqueue
    from replica.core.state.progress import Pending
    from replica.core.state.shared import Shared
    from tandemq.peer.v1.peer_service_pb2 import PeerFrame

NAME, NUMBER = "main", 7
BIAS_MS = 300
NOW_MS = 10_000_000
"""Time stands still: what has begun is over only when the step "time" says so."""
LONG_MS = 5_000_000
LIMITS = Limits(dedup_sequences=1000)

Value = tuple[Any, ...]


class NoQueues:
    """Stands in for `replica.machine.Machine`: counts what is applied, holds no queue."""

    history_id = b"known"
    """No decision of a member rests on it."""

    state = State(0, LIMITS)
    """Of a domain without queues; nobody changes it."""

    def __init__(self, applied_index: int) -> None:
        self.applied_index = applied_index

    def apply(self, log_index: int, _epoch: int, _header: RecordHeader) -> Applied:
        """The next record."""
        assert log_index == self.applied_index + 1, f"record {log_index} is applied after {self.applied_index}"
        self.applied_index = log_index
        return Applied((), [])

    def commit(self, _log_index: int) -> list[int]:
        """Nothing becomes visible."""
        return []

    def plan_volatile_lost(self, _now_ms: int, _has_body: Callable[[int], bool]) -> None:
        """Nothing is volatile."""

    def publication(self) -> None:
        """Nobody stages rows."""

    def plan_expire(self, _now_ms: int) -> None:
        """Nothing ends by time."""

    def names(self) -> list[str]:
        """No queues."""
        return []

    def unit_leases(self) -> list[int]:
        """No unit is open."""
        return []

    def live_log_indexes(self) -> list[tuple[int, int]]:
        """No message."""
        return []

    def snapshot(self) -> bytes:
        """Empty."""
        return b""


class NoReader:
    """All records of a model are in memory."""

    def prefix_at(self, _log_index: int) -> None:
        """Never asked for one that is held."""

    def header_at(self, _log_index: int) -> None:
        """Never asked for one that is held."""

    def has_body(self, _log_index: int) -> bool:
        """Nothing is volatile."""
        return True


def never_asked(_frame: PeerFrame) -> PendingEnqueue:
    """No request is held here."""
    raise AssertionError("a HOLD frame in a model without one")


PORTS = ShellPorts(read=lambda _log_index: None, is_whole=lambda _log_index: True, held_call=never_asked)
"""All records of a model are in memory, and none is damaged."""


class NotedHolding(Holding):
    """As if each operation were a request that was held here."""

    def __init__(self, core: Core) -> None:
        super().__init__(core.shared, core.orders, core.target, never_asked)
        self._core = core

    def on_applied(self, record: Pending) -> None:
        """At the replica: a client whose request was held here is answered when its record is applied."""
        if record.header.HasField("enqueue"):
            self._core.answered.append((record.log_index, copies_at_replica(self._core, record.log_index)))


class Core(Domain):
    """The product's core, and a note of what clients were answered."""

    def __init__(self, shared: Shared) -> None:
        super().__init__(shared, PORTS, Settings(bias_ms=BIAS_MS))
        self.holding = NotedHolding(self)
        self.answered: list[tuple[int, int]] = []
        """(log index, copies) of operations."""
        self.answered_up_to = 0

    def on_committed(self) -> None:
        """At the master: a client whose operation is committed now hears of it now."""
        super().on_committed()
        for log_index in range(self.answered_up_to + 1, self.shared.progress.commit_index + 1):
            self._note(log_index, self.mastership.commit.copies)
        self.answered_up_to = self.shared.progress.commit_index

    def _note(self, log_index: int, copies: int) -> None:
        entry = self.shared.log.get(log_index)
        if entry is not None and is_operation(entry):
            self.answered.append((log_index, copies))


def copies_at_replica(core: Domain, log_index: int) -> int:
    """The product's own rule."""
    copies: int = attrgetter("_copies_of")(core.holding)(log_index)
    return copies


class Book:
    """Records by their chained digest, which names the whole history up to there."""

    def __init__(self) -> None:
        self.entries: dict[bytes, Entry] = {}
        self.operations: dict[bytes, frozenset[bytes]] = {}
        """Digest: the operations in the history that ends there."""
        self._headers: dict[bytes, RecordHeader] = {}
        self._hellos: dict[bytes, DomainHello] = {}

    def note(self, entry: Entry, parent: bytes) -> None:
        """A record and what it follows."""
        if entry.digest not in self.entries:
            self.entries[entry.digest] = entry
            before = self.operations.get(parent, frozenset())
            self.operations[entry.digest] = before | {entry.digest} if is_operation(entry) else before

    def header(self, digest: bytes) -> RecordHeader:
        """What the record says."""
        if digest not in self._headers:
            entry = self.entries[digest]
            self._headers[digest] = RecordHeader.FromString(entry.record[PREFIX_SIZE : entry.head_len])
        return self._headers[digest]

    def hello(self, data: bytes) -> DomainHello:
        """A HELLO that nobody changes."""
        if data not in self._hellos:
            self._hellos[data] = DomainHello.FromString(data)
        return self._hellos[data]


def is_operation(entry: Entry) -> bool:
    """Whether a client may be answered by it."""
    return RecordHeader.FromString(entry.record[PREFIX_SIZE : entry.head_len]).HasField("enqueue")


@dataclass(slots=True)
class Disk:
    """What outlives the process."""

    state: bytes | None = None
    checkpoint: int = -1
    records: tuple[bytes, ...] = ()
    """Digests, dense, above the base in the state."""

    def value(self) -> Value:
        """To compare and keep."""
        return self.state, self.checkpoint, self.records


def open_core(member: str, peer: str, incarnation: int, disk: Disk, book: Book) -> Core:
    """As `Manager` does at its start, over what this disk holds."""
    store = MemoryStore(member=member, instance=member.encode() * 16)
    batch = WriteBatch()
    for digest in disk.records:
        entry = book.entries[digest]
        batch.appends.append(Append(NUMBER, entry.log_index, entry.stored))
    if disk.state is not None:
        batch.meta[state_key(NUMBER)] = disk.state
    if disk.checkpoint >= 0:
        batch.meta[checkpoint_key(NUMBER)] = disk.checkpoint.to_bytes(8, "big")
    store.commit(batch)
    shared = open_shared(store, NUMBER, NAME, member, peer, incarnation, LIMITS)
    if shared.log.last_index > shared.log.base_index:  # of a copy that was being filled nothing counts
        shared.log.ring = deque(book.entries[digest] for digest in disk.records)
    setattr(shared.log, "_reader", NoReader())  # noqa: B010 - all of it is in the ring
    shared.machine = NoQueues(shared.log.last_index)  # type: ignore[assignment]  # stands in for it
    core = Core(shared)
    core.answered_up_to = 0
    return core
