"""Reads a domain back from the store: where its log ends, and the queues' state by applying the log through the core's
own machine.
"""

from __future__ import annotations

import asyncio
import logging
import struct
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from failover.marks import DataMark
from replica.core.state.durable import Boundary, DomainState, checkpoint_key, decode_checkpoint, decode_state, state_key
from replica.core.state.log import DomainLog
from replica.core.state.shared import Shared
from replica.machine import Machine, Refused
from storage.errors import CorruptRecord, NewerFormat
from storage.records import ZERO_DIGEST, is_bare, split, verify_stored, verify_stored_head
from storage.store import META_INSTANCE, place_checked
from tandemq.peer.v1.record_pb2 import RecordHeader

if TYPE_CHECKING:
    from replica.machine.state.limits import Limits
    from storage.records import Prefix
    from storage.store import Store

log = logging.getLogger("tandemq.recovery")

SLICE_RECORDS = 512
"""Applied between two turns of the loop: about 10 ms."""


class StoreReader:
    """What the core may ask of older records."""

    def __init__(self, store: Store, domain: int) -> None:
        self._store = store
        self._domain = domain

    def prefix_at(self, log_index: int) -> Prefix | None:
        """Prefix of a stored record, or None; also when its checksum fails: a digest is compared, and written down."""
        record = self._store.read(self._domain, log_index)
        try:
            return (
                place_checked(verify_stored_head(record), self._domain, log_index, "") if record is not None else None
            )
        except CorruptRecord:
            return None

    def has_body(self, log_index: int) -> bool:
        """Whether a record is stored with its body."""
        record = self._store.read(self._domain, log_index)
        try:
            return record is not None and not is_bare(record)
        except CorruptRecord:
            return False

    def header_at(self, log_index: int) -> RecordHeader | None:
        """Header of a stored record, or None; also when its checksum fails."""
        record = self._store.read(self._domain, log_index)
        if record is None:
            return None
        try:
            verify_stored(record)
            _, header, _ = split(record)
            return RecordHeader.FromString(bytes(header))
        except (CorruptRecord, DecodeError):
            return None


def open_shared(
    store: Store, domain: int, name: str, member: str, peer: str, incarnation: int, limits: Limits
) -> Shared:
    """The domain as its disk has it; the queues' state is not rebuilt yet."""
    stored = store.get_meta(state_key(domain))
    state = decode_state(stored) if stored is not None else DomainState(name=name)
    reader = StoreReader(store, domain)
    domain_log = DomainLog(
        domain, base_index=state.base_index, base_digest=state.base_digest, base_epoch=state.base_epoch, reader=reader
    )
    try:
        checkpoint = store.get_meta(checkpoint_key(domain))
        checkpoint_index = decode_checkpoint(checkpoint)[0] if checkpoint is not None else 0
    except CorruptRecord:
        checkpoint_index = 0  # `recover` says so
    bounds = store.bounds(domain)
    history = [Boundary(*pair) for pair in state.history]
    if bounds is not None and bounds[1] > state.base_index and state.data is not DataMark.SYNCING:
        try:
            prefix, late = _end_of(store, domain, bounds[1], history, checkpoint_index)
            domain_log.restore(bounds[1], prefix.epoch, prefix.digest, late)
        except CorruptRecord:
            # `recover` says so; until then the log keeps its length, for what is cut from it is copied.
            domain_log.restore(bounds[1], state.epoch, ZERO_DIGEST, history)
    else:
        domain_log.restore(state.base_index, state.base_epoch, state.base_digest, history)
    return Shared(
        domain,
        member,
        peer,
        incarnation,
        state,
        domain_log,
        limits,
        checkpoint_index=checkpoint_index,
        doubts=store.doubts,
        instance=store.get_meta(META_INSTANCE) or b"",
    )


def _end_of(
    store: Store, domain: int, last_index: int, history: list[Boundary], checkpoint_index: int
) -> tuple[Prefix, list[Boundary]]:
    """Prefix of the last record, and the boundaries up to there. Raises CorruptRecord where a record should say so."""
    record = store.read(domain, last_index)
    if record is None:
        raise CorruptRecord(f"record {last_index} of domain {domain:#x} is missing")
    prefix = verify_stored(record)
    return prefix, _with_late_epochs(store, domain, history, prefix.epoch, checkpoint_index)


def _with_late_epochs(
    store: Store, domain: int, history: list[Boundary], last_epoch: int, checkpoint_index: int
) -> list[Boundary]:
    """Boundaries that came with records after the facts were written last, which a checkpoint is written with."""
    if history and history[-1].epoch >= last_epoch:
        return history
    out = list(history)
    index = max(out[-1].first_index, checkpoint_index + 1) if out else 0
    while True:
        prefixes = store.scan_prefixes(domain, index)
        for log_index, prefix, _ in prefixes:
            if not out or prefix.epoch > out[-1].epoch:
                out.append(Boundary(prefix.epoch, log_index))
        if not prefixes or (out and out[-1].epoch >= last_epoch):
            return out
        index = prefixes[-1][0] + 1


async def rebuild(store: Store, shared: Shared, up_to: int) -> Machine:
    """The queues' state at a log index: the checkpoint, then every record after it, each one verified."""
    domain = shared.domain
    machine, index, digest = _from_checkpoint(store, shared, up_to)
    while index < up_to:
        rows = store.scan(domain, index + 1, limit_records=SLICE_RECORDS)
        if not rows or rows[0][0] != index + 1:
            found = f"found {rows[0][0]}" if rows else "found the end"
            raise CorruptRecord(f"domain {shared.name}: record {index + 1} is missing, {found}")
        for log_index, record in rows:
            if log_index > up_to:
                break
            prefix = verify_stored(record, previous_digest=digest)
            if log_index != index + 1:
                raise CorruptRecord(f"domain {shared.name}: record {index + 1} is missing, found {log_index}")
            _, header, _ = split(record)
            machine.apply(log_index, prefix.epoch, RecordHeader.FromString(bytes(header)))
            index, digest = log_index, prefix.digest
        await asyncio.sleep(0)
    return machine


def _from_checkpoint(store: Store, shared: Shared, up_to: int) -> tuple[Machine, int, bytes | None]:
    domain = shared.domain
    stored = store.get_meta(checkpoint_key(domain))
    if stored is not None:
        index, snapshot = decode_checkpoint(stored)
        if index <= up_to:
            machine = _restore(snapshot, shared)
            found = shared.log.digest_at(index)
            return machine, index, found[1] if found is not None else None
    if shared.log.base_index or shared.state.kept_from > 1:
        raise CorruptRecord(
            f"domain {shared.name}: no checkpoint at or below {up_to}, and the log before {shared.state.kept_from} "
            "is gone; this copy needs a full transfer from its peer"
        )
    return Machine(domain, members_of(shared), shared.limits), 0, shared.state.base_digest


def members_of(shared: Shared) -> list[str]:
    """The members of the domain."""
    return sorted({shared.member, shared.peer} - {""})


def _restore(snapshot: bytes, shared: Shared) -> Machine:
    """The snapshot's state; whatever it cannot be read as is said in words."""
    try:
        return Machine.restore(snapshot, members_of(shared), shared.limits)
    except Refused as refused:
        raise NewerFormat(f"domain {shared.name}: {refused.message}") from refused
    except (ValueError, IndexError, EOFError, struct.error) as error:
        raise CorruptRecord(f"domain {shared.name}: the snapshot of the queues cannot be read: {error!r}") from error


async def recover(store: Store, shared: Shared) -> Machine:
    """The queues' state at the end of the log. A damaged copy gets an empty one, a mark, and no vote."""
    if shared.state.data is DataMark.SYNCING:
        return Machine(shared.domain, members_of(shared), shared.limits)
    last = shared.log.last_index
    try:
        if last > shared.log.base_index:
            history = [Boundary(*pair) for pair in shared.state.history]
            _end_of(store, shared.domain, last, history, shared.progress.checkpoint_index)
        return await rebuild(store, shared, last)
    except CorruptRecord as corrupt:
        if not shared.peer:
            raise
        log.error("domain %s is damaged here and needs a full transfer: %s", shared.name, corrupt, extra=shared.tags)
        shared.mark(DataMark.DAMAGED)
        return Machine(shared.domain, members_of(shared), shared.limits)
