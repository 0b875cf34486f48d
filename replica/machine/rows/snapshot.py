"""Writes the whole state as bytes and reads it back; never decides when.

Format 1: magic, format, commit index, then sections (length, msgpack): the domain, its queues by id, the producers by
last use, the requests by age. To change the format: add a field at the end of a struct with a default; for anything
else raise FORMAT and keep reading the old one. The commit index is no part of the state and stands outside the digest.
A row is written anew only if something has touched its queue or producer since the last snapshot.
"""

from __future__ import annotations

import hashlib
import struct
from array import array
from collections import deque

import msgspec

from replica.machine.apply.groups import keep_lines, read_lines
from replica.machine.features.batches import BatchRow, batch_rows, batches_of
from replica.machine.features.macros import MacroRow, macro_rows, macros_of
from replica.machine.features.proxies import ProxyRow, proxies_of, proxy_rows
from replica.machine.features.readers import ReaderRow, reader_of, reader_row
from replica.machine.features.rights import RightRow, right_rows, rights_of
from replica.machine.features.weights import WeightRow, weight_rows, weights_of
from replica.machine.rows.completions import CompletionRow, completion_row, completions_of
from replica.machine.rows.kept import rows_of
from replica.machine.rows.producers import ProducerRow, producer_of, producer_row
from replica.machine.rows.stages import StagesRow, stages_of, stages_row
from replica.machine.sets.packing import bytes_of, column_of, range_set
from replica.machine.sets.pages import PagedSet
from replica.machine.sets.spans import Spans
from replica.machine.state.dedup_ids import DedupIds, IdRow
from replica.machine.state.errors import Refused
from replica.machine.state.gathering import GroupRow, WholeGroups
from replica.machine.state.kept import KeptIndex, KeptRow
from replica.machine.state.limits import Limits
from replica.machine.state.lockstep import SideLoss, SideOf
from replica.machine.state.queue import Lease, QueueState, Totals, Unsaved
from replica.machine.state.segments import COLUMNS, Extra, Segments, extra_of
from replica.machine.state.selection import SideOrder
from replica.machine.state.state import State
from replica.machine.state.versions import Versions
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2

FORMAT = 1
_MAGIC = b"TQS"
_HEAD = struct.Struct(">3sBQ")
_LENGTH = struct.Struct(">Q")


class _DomainRow(msgspec.Struct, array_like=True):
    domain: int
    applied_index: int
    time_ms: int
    next_queue_id: int
    queues: int
    producers: int
    defaults: bytes = b""
    defaults_version: int = 1
    gone: list[int] = msgspec.field(default_factory=list)
    readers: list[ReaderRow] = msgspec.field(default_factory=list)
    readers_lost: int = 0
    reader_records: tuple[int, int] = (0, 0)
    stages: StagesRow | None = None
    batches: list[BatchRow] = msgspec.field(default_factory=list)
    weights: list[WeightRow] = msgspec.field(default_factory=list)
    weights_version: int = 0
    history_id: bytes = b""
    shared: list[tuple[int, int]] = msgspec.field(default_factory=list)
    macros: list[MacroRow] = msgspec.field(default_factory=list)
    rights: list[RightRow] = msgspec.field(default_factory=list)
    rights_version: int = 0
    proxies: list[ProxyRow] = msgspec.field(default_factory=list)


class _LeaseRow(msgspec.Struct, array_like=True):
    lease_id: int
    edges: bytes
    client_id: bytes
    expires_at_ms: int
    duration_ms: int
    since_ms: int = 0
    unit: bytes = b""
    locked: list[bytes] | None = None
    macro_id: int = 0


class _ExtraRow(msgspec.Struct, array_like=True):
    place: int
    ordinals: bytes
    priorities: bytes
    expires_at_ms: bytes
    groups: bytes = b""


class _LifeRow(msgspec.Struct, array_like=True):
    aliases: list[str]
    configuring: bool
    idle_since_ms: int


class _QueueRow(msgspec.Struct, array_like=True):
    queue_id: int
    name: str
    config: bytes
    version: int
    members: list[str]
    open_members: list[str]
    closed_members: list[str]
    created_ms: int
    last_activity_ms: int
    next_index: int
    length: int
    payload_bytes: int
    timed: int
    totals: list[int]
    segments: list[bytes]
    extras: list[_ExtraRow]
    ready: list[bytes]
    volatile: bytes
    leases: list[_LeaseRow]
    deliveries: list[tuple[int, int]]
    settled: list[tuple[int, bytes]]
    completions: CompletionRow | None = None
    delayed: list[bytes] = msgspec.field(default_factory=list)
    dedup_ids: list[IdRow] | None = None
    life: _LifeRow | None = None
    dying: list[bytes] = msgspec.field(default_factory=list)
    reasons: list[str] = msgspec.field(default_factory=list)
    unsaved: tuple[int, int, bool] | None = None
    blocked: list[bytes] = msgspec.field(default_factory=list)
    versions: list[tuple[int, list[int]]] = msgspec.field(default_factory=list)
    kept: tuple[int, list[KeptRow]] | None = None
    gatherings: list[GroupRow] = msgspec.field(default_factory=list)
    passed: list[tuple[str, int]] | None = None
    side: tuple[int, bytes, int] | None = None
    behind: list[tuple[str, int]] = msgspec.field(default_factory=list)
    lost: list[tuple[str, int, int, int, str]] = msgspec.field(default_factory=list)
    restarted_ms: list[tuple[str, int]] = msgspec.field(default_factory=list)
    side_restarted_ms: int = 0
    denied: list[tuple[int, bytes]] = msgspec.field(default_factory=list)
    selection: tuple[int, int, list[bytes]] | None = None


class _RequestRows(msgspec.Struct, array_like=True):
    rows: list[tuple[bytes, bytes]]
    marks: list[tuple[int, int]]
    seen: int


def sections(state: State, *, anew: bool) -> list[bytes]:
    """Each behind its length; equal for equal states. Not anew: what was not touched is as it was written before."""
    encode = msgspec.msgpack.Encoder().encode

    def framed(row: msgspec.Struct) -> bytes:
        section = encode(row)
        return _LENGTH.pack(len(section)) + section

    queues = [queue for _, queue in sorted(state.queues.items())]
    producers = state.producers.dump()
    domain = _DomainRow(
        state.domain,
        state.applied_index,
        state.time_ms,
        state.next_queue_id,
        len(queues),
        len(producers),
        state.defaults.SerializeToString(deterministic=True) if state.defaults is not None else b"",
        state.defaults_version,
        state.gone.row(),
        [reader_row(reader) for _, reader in sorted(state.readers.items())],
        state.readers_lost,
        state.reader_records,
        stages_row(state.stages),
        batch_rows(state),
        weight_rows(state),
        state.weights_version,
        state.history_id,
        sorted(state.shared.items()),
        macro_rows(state),
        right_rows(state),
        state.rights.version,
        proxy_rows(state),
    )
    return [
        framed(domain),
        *rows_of(queues, lambda place: framed(_queue_row(queues[place])), anew=anew),
        *rows_of([each for _, each in producers], lambda place: framed(producer_row(*producers[place])), anew=anew),
        framed(_RequestRows(*state.requests.dump())),
    ]


def _queue_row(queue: QueueState) -> _QueueRow:
    columns, extras = queue.segments.columns()
    return _QueueRow(
        queue_id=queue.queue_id,
        name=queue.name,
        config=queue.config.SerializeToString(deterministic=True),
        version=queue.version,
        members=sorted(queue.members),
        open_members=sorted(queue.open_members),
        closed_members=sorted(queue.closed_members),
        created_ms=queue.created_ms,
        last_activity_ms=queue.last_activity_ms,
        next_index=queue.next_index,
        length=queue.length,
        payload_bytes=queue.bytes,
        timed=queue.timed,
        totals=queue.totals.row(),
        segments=[bytes_of(column) for column in columns],
        extras=[
            _ExtraRow(
                place,
                bytes_of(extra.ordinals),
                extra.priorities,
                bytes_of(extra.expires_at_ms),
                bytes_of(extra.groups),
            )
            for place, extra in sorted(extras.items())
        ],
        ready=[bytes_of(level.edges()) if level.size else b"" for level in queue.ready],
        volatile=bytes_of(queue.volatile.edges()),
        leases=[
            _LeaseRow(
                lease.lease_id,
                bytes_of(lease.ranges.edges()),
                lease.client_id,
                lease.expires_at_ms,
                lease.duration_ms,
                lease.since_ms,
                lease.unit,
                None if lease.locked is None else [bytes_of(column) for column in lease.locked.columns()],
                lease.macro_id,
            )
            for _, lease in sorted(queue.leases.items())
        ],
        deliveries=sorted(queue.deliveries.items()),
        settled=[(key, bytes_of(array("Q", queue.settled[key]))) for key in queue.settled_order],
        completions=completion_row(queue.completions) if queue.completions is not None else None,
        delayed=[bytes_of(column) for column in queue.delayed.columns()] if queue.delayed.size else [],
        dedup_ids=None if queue.dedup_ids is None else queue.dedup_ids.rows(),
        life=_LifeRow(list(queue.aliases), queue.configuring, queue.idle_since_ms),
        dying=[bytes_of(column) for column in queue.dying.columns()] if queue.dying.size else [],
        reasons=queue.reasons,
        unsaved=None if queue.unsaved is None else (*queue.unsaved,),
        blocked=[bytes_of(level.edges()) for level in queue.groups.blocked] if queue.groups is not None else [],
        versions=queue.versions.rows() if queue.versions is not None else [],
        kept=(queue.kept.queue_id, queue.kept.rows()) if queue.kept else None,
        gatherings=queue.groups.rows() if isinstance(queue.groups, WholeGroups) else [],
        passed=None if queue.passed is None else sorted(queue.passed.items()),
        side=None if queue.side is None else (queue.side.domain, queue.side.history_id, queue.side.queue_id),
        behind=sorted(queue.behind.items()),
        lost=[(member, *loss) for member, loss in sorted(queue.lost.items())],
        restarted_ms=sorted(queue.restarted_ms.items()),
        side_restarted_ms=0 if queue.side is None else queue.side.restarted_ms,
        denied=queue.kept.denied_rows() if queue.kept else [],
        selection=None if queue.selection is None else _selection_row(queue.selection),
    )


def _selection_row(selection: SideOrder) -> tuple[int, int, list[bytes]]:
    return selection.first, selection.lease_id, [bytes_of(column) for column in selection.columns()]


def _selection(row: tuple[int, int, list[bytes]]) -> SideOrder:
    first, lease_id, columns = row
    indexes, logs, lasts = (column_of("Q", data) for data in columns)
    return SideOrder.from_columns(first, lease_id, (indexes, logs, lasts))


def snapshot(state: State) -> bytes:
    return b"".join((_HEAD.pack(_MAGIC, FORMAT, state.commit_index), *sections(state, anew=False)))


def digest(state: State) -> bytes:
    return hashlib.blake2b(b"".join(sections(state, anew=True)), digest_size=16).digest()


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)
        self._at = _HEAD.size

    def section(self) -> memoryview:
        (length,) = _LENGTH.unpack_from(self._data, self._at)
        start = self._at + _LENGTH.size
        self._at = start + length
        assert self._at <= len(self._data), "the snapshot is cut short"
        return self._data[start : self._at]

    def check_end(self) -> None:
        assert self._at == len(self._data), "the snapshot goes on"


def restore(data: bytes, limits: Limits) -> State:
    magic, version, commit_index = _HEAD.unpack_from(data)
    assert magic == _MAGIC, "not a snapshot"
    if version > FORMAT:
        raise Refused(
            common_pb2.REASON_NEWER_FORMAT, f"the snapshot has format {version}, this version reads up to {FORMAT}"
        )
    reader = _Reader(data)
    head = msgspec.msgpack.decode(reader.section(), type=_DomainRow)
    state = State(head.domain, limits)
    state.applied_index, state.time_ms, state.next_queue_id = head.applied_index, head.time_ms, head.next_queue_id
    state.commit_index = commit_index
    state.defaults = admin_pb2.QueueConfig.FromString(head.defaults) if head.defaults else None
    state.defaults_version = head.defaults_version
    state.gone = Totals(*head.gone)
    state.readers = {reader.name: reader for reader in map(reader_of, head.readers)}
    state.batches = batches_of(head.batches)
    state.weights, state.weights_version = weights_of(head.weights), head.weights_version
    state.history_id, state.shared = head.history_id, dict(head.shared)
    state.macros = macros_of(head.macros)
    state.proxies = proxies_of(head.proxies)
    state.rights = rights_of(head.rights, head.rights_version, commit_index)
    state.readers_lost, state.reader_records = head.readers_lost, head.reader_records
    if head.stages is not None:
        state.stages = stages_of(head.stages)
    queue_decoder = msgspec.msgpack.Decoder(_QueueRow)
    for _ in range(head.queues):
        row = queue_decoder.decode(reader.section())
        queue = _queue(row)
        if row.completions is not None:
            queue.completions = completions_of(state, queue.queue_id, row.completions)
        state.queues[queue.queue_id] = queue
        for name in (queue.name, *queue.aliases):
            state.ids[name] = queue.queue_id
        state.leases |= queue.leases
    producer_decoder = msgspec.msgpack.Decoder(ProducerRow)
    for _ in range(head.producers):
        made = producer_decoder.decode(reader.section())
        state.producers.put(made.queue_id, made.client_id, producer_of(made))
    requests = msgspec.msgpack.decode(reader.section(), type=_RequestRows)
    state.requests.load(iter(requests.rows), iter(requests.marks), requests.seen)
    reader.check_end()
    _derive(state)
    return state


def _derive(state: State) -> None:
    """What is not in the snapshot because it follows from it."""
    pending, selecting = [], []
    for queue in state.queues.values():
        if queue.dying.size:
            state.dying[queue.queue_id] = None
        if queue.unsaved is not None:
            state.saving[queue.queue_id] = None
        if queue.kept is not None and queue.kept.queue_id in state.queues:
            state.kept[queue.kept.queue_id] = queue
        if queue.passed is not None:
            state.sided[queue.queue_id] = queue
        if queue.side is not None:
            state.own_sides[queue.queue_id] = queue
        state.owners.begin(queue)
        if queue.selection is not None:
            queue.selection.visible = queue.selection.committed(state.commit_index)
            later = queue.selection.beyond(state.commit_index)
            selecting += [(log_index, queue.queue_id, last) for log_index, last in later]
        beyond = queue.segments.after(state.commit_index)
        committed = (beyond[0][1] if beyond else queue.next_index) - 1
        queue.visible_index = state.stages.seen(queue.queue_id, committed)
        pending += [(log_index, queue.queue_id, first + count - 1) for log_index, first, count in beyond]
    state.beyond_first = bool(state.sided or state.macros.by_name or state.proxies.by_name or state.rights.grants)
    state.remember_senders()
    state.pending.extend(sorted(pending))
    state.selecting.extend(sorted(selecting))
    state.rebuild_schedules()


def _queue(row: _QueueRow) -> QueueState:
    queue = QueueState(row.queue_id, row.name, admin_pb2.QueueConfig.FromString(row.config), row.created_ms)
    queue.version = row.version
    queue.members, queue.open_members = set(row.members), set(row.open_members)
    queue.closed_members = set(row.closed_members)
    queue.last_activity_ms = row.last_activity_ms
    queue.next_index, queue.length, queue.bytes, queue.timed = (
        row.next_index,
        row.length,
        row.payload_bytes,
        row.timed,
    )
    queue.totals = Totals(*row.totals)
    columns = [column_of(kind, data) for kind, data in zip(COLUMNS, row.segments, strict=True)]
    queue.segments = Segments.from_columns(columns, {extra.place: _extra(extra) for extra in row.extras})
    queue.ready = [range_set(edges) for edges in row.ready]
    queue.volatile = range_set(row.volatile)
    queue.leases = {
        lease.lease_id: Lease(
            lease.lease_id,
            row.queue_id,
            range_set(lease.edges),
            lease.client_id,
            lease.expires_at_ms,
            lease.duration_ms,
            lease.since_ms,
            lease.unit,
            None if lease.locked is None else Spans.from_columns([column_of("Q", data) for data in lease.locked]),
            lease.macro_id,
        )
        for lease in row.leases
    }
    queue.deliveries = dict(row.deliveries)
    queue.settled = {key: tuple(column_of("Q", edges)) for key, edges in row.settled}
    queue.settled_order = deque(queue.settled)
    if row.delayed:
        queue.delayed = Spans.from_columns([column_of("Q", data) for data in row.delayed])
    queue.dedup_ids = None if row.dedup_ids is None else DedupIds(row.dedup_ids)
    if row.life is not None:
        queue.aliases, queue.configuring = tuple(row.life.aliases), row.life.configuring
        queue.idle_since_ms = row.life.idle_since_ms
    if row.dying:
        queue.dying = Spans.from_columns([column_of("Q", data) for data in row.dying])
    queue.reasons = row.reasons
    queue.unsaved = None if row.unsaved is None else Unsaved(*row.unsaved)
    queue.versions = Versions(row.versions) if row.versions else None
    queue.kept = KeptIndex(*row.kept) if row.kept is not None else None
    if queue.kept is not None:
        queue.kept.read_denied(row.denied)
    queue.passed = None if row.passed is None else dict(row.passed)
    queue.side = None if row.side is None else SideOf(*row.side, row.side_restarted_ms)
    queue.restarted_ms = dict(row.restarted_ms)
    queue.behind = dict(row.behind)
    queue.lost = {each[0]: SideLoss(*each[1:]) for each in row.lost}
    queue.selection = None if row.selection is None else _selection(row.selection)
    keep_lines(queue)
    if queue.groups is not None:
        queue.groups.blocked = [PagedSet(range_set(edges)) for edges in row.blocked]
        read_lines(queue)
    if isinstance(queue.groups, WholeGroups):
        queue.groups.read(row.gatherings)
    return queue


def _extra(row: _ExtraRow) -> Extra:
    groups = column_of("Q", row.groups)
    return extra_of(column_of("H", row.ordinals), row.priorities, column_of("Q", row.expires_at_ms), groups)
