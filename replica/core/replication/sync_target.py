"""A replica's side of state transfer and replication: takes what the master sends, in order, and says what is durable.
Never orders anything.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from google.protobuf.message import DecodeError

from failover.marks import DataMark, Link
from replica.core.replication.divergence import common_point, cut_above, salvage_above
from replica.core.state.durable import Boundary, checkpoint_key, encode_checkpoint, state_key
from replica.core.state.effects import Persist, Rebuild, StopTransfer
from replica.core.state.progress import Pending
from replica.core.state.write_tokens import BaseStored, OpenStored
from storage.errors import CorruptRecord
from storage.records import FLAG_VOLATILE_BODY, split
from tandemq.peer.v1.peer_service_pb2 import DigestReply, FetchBody, OpAck, OpenAck
from tandemq.peer.v1.record_pb2 import RecordHeader, SaveOp

if TYPE_CHECKING:
    from replica.core.replication.op_frame import OpFrame
    from replica.core.state.log import Entry, HeldRef
    from replica.core.state.shared import Shared
    from tandemq.peer.v1.peer_service_pb2 import SyncBegin, SyncEnd


class Held(Protocol):
    """The requests that this member holds for its clients until the master has ordered them."""

    def held_body(self, key: HeldRef, /) -> bytes | None:
        """The body that a record without one needs."""

    def on_applied(self, record: Pending, /) -> None:
        """A committed record was applied here."""

    def on_following(self) -> None:
        """A master is known and takes held requests."""


class TargetParts(Protocol):
    """The domain, as far as this part of it needs the others; they are built after it, as they need it."""

    @property
    def holding(self) -> Held: ...


class SyncTarget:
    """One session of receiving from the master."""

    def __init__(self, shared: Shared, parts: TargetParts) -> None:
        self.shared = shared
        self._parts = parts
        self.sync_id = 0
        self.active = False
        self.full = False
        self.base_index = 0
        self._history: list[Boundary] = []
        self._bodies: list[tuple[int, bytes]] = []
        """That the records of this frame want written beside them."""
        self.received = self.fills = 0
        """Records of this transfer; full transfers that have started here since the start."""
        self.ending: SyncEnd | None = None
        self.fetching = 0
        self.opened = False
        """The open was acknowledged: this copy holds everything that the master has acknowledged."""
        self.named_in = 0
        """The epoch that began with this member in its set, as after a handoff: its master commits nothing without it,
        for a set shrinks only with its epoch. Outlives the connection; after a restart the log says it.
        """

    @property
    def counts(self) -> bool:
        """What is durable here and committed is on both: the master may not commit it without this member."""
        state = self.shared.state
        return self.opened or (self.named_in == state.epoch and state.data is DataMark.IN_SYNC)

    def stop(self) -> None:
        """The connection is gone, or this member has become master."""
        if self.active and self.full:
            self.shared.outbox.add(StopTransfer())
        self.active = False
        self.full = False
        self.ending = None
        self.opened = False
        self.fetching = 0

    def expects(self, sync_id: int) -> bool:
        """Whether the full transfer of that number is the one that is under way."""
        return self.active and self.full and sync_id == self.sync_id

    def begin(self, frame_epoch: int, begin: SyncBegin) -> None:
        """A transfer begins; the caller has judged the epoch."""
        shared = self.shared
        self.stop()
        self.sync_id = begin.sync_id
        self.received = 0
        shared.follow(frame_epoch)  # before anything is said: a refusal of a lower epoch is not heard (P13)
        if not begin.full and (
            self._is_too_low(begin.base_index) or shared.log.digest_at(begin.base_index) != self.expected(begin)
        ):
            shared.outbox.send(open_ack=OpenAck(sync_id=begin.sync_id, refusal="no common point at the base index"))
            return
        self.active = True
        self.full = begin.full
        shared.set_link(Link.SYNC_DST)
        history = [Boundary(b.epoch, b.first_index) for b in begin.history]
        if begin.full:
            self._begin_full(history, begin)
        else:
            self._begin_delta(history, begin)

    def _is_too_low(self, base_index: int) -> bool:
        """Whether the queues' state cannot be made anew up to there, although the log may still say what stood there.

        Only a member that went on alone has a checkpoint above a base: what is committed with the peer is not cut.
        """
        shared = self.shared
        whole = shared.state.kept_from <= 1 and not shared.log.base_index
        return not whole and base_index < max(shared.progress.checkpoint_index, shared.log.base_index)

    def expected(self, begin: SyncBegin) -> tuple[int, bytes] | None:
        """What this log must say at the base: the master's digest there, whatever the epoch (the digest covers it)."""
        mine = self.shared.log.digest_at(begin.base_index)
        return mine if mine is not None and mine[1] == begin.base_digest else (-1, b"")

    def _begin_full(self, history: list[Boundary], begin: SyncBegin) -> None:
        shared = self.shared
        why = f"a full transfer of epoch {shared.state.epoch} replaced this copy"
        salvage_above(shared, common_point(shared, begin), why)
        shared.state.forget_alone()
        shared.progress.follow_another()
        shared.want_full(wanted=False)
        self.fills += 1
        shared.mark(DataMark.SYNCING)
        shared.progress.wipe()
        shared.volatile.wipe()
        shared.set_machine(None)
        self._history = history
        self.base_index = begin.base_index
        # The mark is durable before the first record goes: a half-filled copy is never promoted (P10).
        meta: dict[str, bytes | None] = {
            state_key(shared.domain): shared.state.encode(),
            checkpoint_key(shared.domain): None,
        }
        shared.outbox.add(Persist(wipe=True, meta=meta))

    def on_next_epoch(self) -> None:
        """The transfer under way goes on in another epoch: the master has forgotten what it was asked."""
        self._parts.holding.on_following()

    def on_transfer_done(self, log_index: int, log_digest: bytes, checkpoint: bytes) -> None:
        """Every record is stored and the state's digest was right: install the snapshot as the new base."""
        shared = self.shared
        if not (self.active and self.full):
            return
        history = [b for b in self._history if b.first_index <= log_index]
        base_epoch = history[-1].epoch if history else 0
        shared.log.reset(log_index, log_digest, base_epoch, history)
        shared.state.set_base(log_index, log_digest, base_epoch)
        shared.state.note_history(history)
        shared.state.keep_from(log_index + 1)
        shared.progress.on_base(log_index)
        meta: dict[str, bytes | None] = {
            state_key(shared.domain): shared.state.encode(),
            checkpoint_key(shared.domain): encode_checkpoint(log_index, checkpoint),
        }
        shared.outbox.add(Persist(meta=meta, token=BaseStored(self.sync_id, log_index)))
        shared.outbox.add(Rebuild(log_index))

    def _begin_delta(self, history: list[Boundary], begin: SyncBegin) -> None:
        shared = self.shared
        base = cut_above(shared, begin)
        cut = base < shared.log.last_index
        if cut:
            salvage_above(shared, base, f"the master of epoch {shared.state.epoch} does not have it")
            shared.progress.cut(base)
            shared.volatile.cut(base)
        shared.state.forget_alone()
        shared.progress.follow_another()
        shared.log.take_history(history)
        shared.state.note_history(shared.log.history)
        shared.outbox.persist_state(cut=base if cut else None)
        if self._is_named_up_to(base):
            self.named_in = shared.state.epoch
        machine = shared.machine
        if cut if machine is None else machine.applied_index > base:
            # Only a former master applies before commit; its state is made anew from what is left of the log. A rebuild
            # that was under way is of an older generation now, and will not be believed.
            shared.set_machine(None)
            shared.progress.drop_pending()
            shared.outbox.add(Rebuild(base))

    def _is_named_up_to(self, base: int) -> bool:
        """Whether the log says that the master's epoch began with this member in its set; up to the base it is the
        master's own log.
        """
        log, epoch = self.shared.log, self.shared.state.epoch
        first = next((first for each, first in reversed(log.history) if each == epoch), 0)
        header = log.header_at(first) if 0 < first <= base else None
        return header is not None and self._names_us(header)

    def _names_us(self, header: RecordHeader) -> bool:
        return header.HasField("role") and self.shared.member in header.role.in_sync_set

    # -- records ---------------------------------------------------------------------------------------------------

    def on_op(self, op: OpFrame) -> None:
        """Records in order; what does not follow the last one is ignored (a resend comes)."""
        if not self.active:
            return
        accepted: list[Entry] = []
        try:
            self._accept_all(op, accepted)
        finally:
            # Also when a later record of the frame is not taken: those before it are in the log in memory, and what a
            # HELLO says of this copy is on disk by then only if they are stored.
            if accepted:
                self._store(accepted)
        self.on_commit(op.commit_index)

    def _accept_all(self, op: OpFrame, accepted: list[Entry]) -> None:
        """Take the records of a frame up to the first that cannot be taken now. Raises CorruptRecord, NewerFormat."""
        for record, held in op.entries:
            if held is not None:
                body = self._parts.holding.held_body(held)
                if body is None:
                    self._fetch()
                    break
                record = record + body
            try:
                entry = self._accept(record)
            except CorruptRecord:
                if held is None:
                    raise
                self._fetch()  # what is held here under that key is not what was ordered: ask for the whole record
                break
            if entry is None:
                if self._gave_up():
                    break
                continue
            accepted.append(entry)

    def _store(self, accepted: list[Entry]) -> None:
        shared = self.shared
        bodies, self._bodies = self._bodies, []
        # Messages and the lease that was ordered with them (`delivery/ahead`); of a longer frame nobody asks.
        leased = int(len(accepted) == 2 and shared.progress.pending[-1].header.HasField("lease"))
        shared.outbox.add(Persist(appends=accepted, bodies=bodies, leased=leased))
        self.received += len(accepted)
        self.fetching = 0

    def _accept(self, record: bytes) -> Entry | None:
        shared = self.shared
        prefix, header, body = split(record)
        if prefix.log_index <= shared.log.last_index or (
            self.fetching and prefix.log_index > shared.log.last_index + 1
        ):
            return None
        volatile = prefix.flags & FLAG_VOLATILE_BODY
        if len(body) != prefix.body_len and not volatile:
            self._fetch()
            return None
        parsed = _parse(header)
        bodies: list[tuple[int, bytes]] = []
        if parsed.HasField("save"):
            found = self._bodies_for(parsed.save)
            if found is None:
                return None
            bodies = found
        entry = shared.log.accept(record)
        if bodies:
            self._bodies += bodies
            shared.volatile.save(entry.log_index, [index for index, _ in bodies])
        if volatile and len(body) == prefix.body_len:
            shared.volatile.keep(entry.log_index, bytes(body))
        elif volatile:
            # The master has no such body either: its messages are gone, and the next master says so.
            shared.volatile.miss((entry.log_index,))
        if self._names_us(parsed):
            self.named_in = entry.epoch
        shared.progress.accept(Pending(entry.log_index, entry.epoch, parsed))
        return entry

    def _bodies_for(self, save: SaveOp) -> list[tuple[int, bytes]] | None:
        """What this member stores with such a record. None: a restart has lost some of it here, so that nothing but a
        full transfer makes this copy whole; the master hears so, and what follows is not taken.
        """
        shared = self.shared
        found: list[tuple[int, bytes]] = []
        for part in save.bodies:
            for log_index in range(part.first, part.first + part.count):
                body = shared.volatile.bodies.get(log_index)
                if body is not None:
                    found.append((log_index, body))
                elif shared.log.is_volatile(log_index):
                    refusal = f"the volatile body of record {log_index}, which becomes persistent, is not here any more"
                    self.active = False
                    shared.outbox.send(open_ack=OpenAck(sync_id=self.sync_id, refusal=refusal))
                    return None
        return found

    def _gave_up(self) -> bool:
        return not self.active

    def _fetch(self) -> None:
        index = self.shared.log.last_index + 1
        if self.fetching != index:
            self.fetching = index
            self.shared.outbox.send(fetch_body=FetchBody(indexes=[index]))

    def on_digest_query(self, index: int) -> None:
        """Whoever asks: what this log says there."""
        found = self.shared.log.digest_at(index)
        epoch, digest = (max(found[0], 1), found[1]) if found is not None else (0, b"")
        self.shared.outbox.send(digest_reply=DigestReply(index=index, epoch=epoch, digest=digest))

    def on_commit(self, commit_index: int) -> None:
        """The master's commit progress: only this lets a replica apply and answer (P14)."""
        shared = self.shared
        if not self.active or self.full:
            return
        shared.apply_up_to(shared.progress.follow_commit(commit_index), self._parts.holding.on_applied)
        if shared.machine is not None:
            shared.machine.commit(shared.machine.applied_index)

    def on_end(self, end: SyncEnd) -> None:
        """The last record up to the target was sent: verify, then acknowledge the open once all of it is durable."""
        shared = self.shared
        if not self.active or end.sync_id != self.sync_id:
            return
        found = shared.log.digest_at(end.last_index)
        if found is None or found[1] != end.digest:
            raise CorruptRecord(
                f"state transfer of {shared.name}: the digest at {end.last_index} is not the master's; starting over"
            )
        self.ending = end
        self.maybe_open()

    def on_durable(self) -> None:
        """Records became durable here."""
        shared = self.shared
        if self.active and not self.full:
            applied = shared.machine.applied_index if shared.machine is not None else 0
            shared.outbox.send(
                op_ack=OpAck(durable_index=shared.progress.durable_index, applied_index=applied, index=0)
            )
            self.maybe_open()

    def on_base_durable(self, sync_id: int, log_index: int) -> None:
        """The snapshot is durable: the rest of the log may come."""
        if self.expects(sync_id):
            self.full = False
            self.shared.progress.on_base_durable(log_index)
            self.shared.outbox.send(op_ack=OpAck(durable_index=log_index))

    def maybe_open(self) -> None:
        """Acknowledge the open when all up to SYNC_END is durable and the queues' state is at hand (R115, R117)."""
        shared = self.shared
        end = self.ending
        if end is None or shared.progress.durable_index < end.last_index or shared.machine is None:
            return
        self.ending = None
        shared.mark(DataMark.IN_SYNC)
        shared.outbox.persist_state(token=OpenStored(end.sync_id))

    def on_opened(self, sync_id: int) -> None:
        """The mark is durable."""
        shared = self.shared
        if not self.active or sync_id != self.sync_id:
            return
        self.opened = True
        shared.set_link(Link.PAIRED)
        shared.outbox.send(open_ack=OpenAck(sync_id=sync_id, durable_index=shared.progress.durable_index, done=True))


def _parse(header: memoryview) -> RecordHeader:
    try:
        return RecordHeader.FromString(bytes(header))
    except DecodeError as error:
        raise CorruptRecord(f"the header of a record cannot be read: {error}") from error
