"""Judges what a SYNC would take away from this member's log; never takes anything away, and asks nobody.

Two histories (decision 0005): this member acknowledged operations alone, from `DomainState.solo_since` on, and
somebody else became master without them; or it knows that operations are committed, on every copy that must have
them, and the master lacks them, so that its disk has lost what it acknowledged (P21). Following would wipe them in
silence, or could not be done at all, so such a SYNC is refused. Records that no client was answered do not count: an
epoch without entries diverges from nothing (DRBD's lazy rule), nor does what a master decides by its clock, for the
next master decides it again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from failover.marks import DataMark
from replica.core.state.effects import Note, Salvage, Send
from tandemq.peer.v1.peer_service_pb2 import OpenAck, PeerFrame
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from replica.core.state.log import DomainLog
    from replica.core.state.shared import Shared
    from tandemq.peer.v1.peer_service_pb2 import EpochBoundary, SyncBegin

UNANSWERED = ("role", "expire")
"""Operations that no client is answered."""


class Loss(NamedTuple):
    """What a SYNC would take away although this member has acknowledged it."""

    common: int
    """Last log index that both histories have, as far as the SYNC says."""
    first: int
    """First operation that would go."""
    last: int


def common_point(shared: Shared, begin: SyncBegin) -> int:
    """Highest log index that the sender of this SYNC has as we do, as far as it is proven.

    A delta proves it by its base. A full transfer is compared by epochs, as the master compares a HELLO: two members
    that were in one epoch together have the same records in it up to where the shorter one ends (P11).
    """
    return _end_of_shared(shared, begin.history, begin.base_index) if begin.full else begin.base_index


def point_before(shared: Shared, epoch: int, theirs: Iterable[EpochBoundary]) -> int:
    """The same for an epoch that both claim to own: where the history ends that they had before it."""
    log = shared.log
    known = list(theirs)
    ends = [boundary.first_index - 1 for boundary in known if boundary.epoch == epoch]
    mine = [boundary.first_index - 1 for boundary in log.history if boundary.epoch == epoch]
    before = [boundary for boundary in known if boundary.epoch < epoch]
    return min([*mine, _end_of_shared(shared, before, min(ends))]) if ends else 0


def _end_of_shared(shared: Shared, theirs: Sequence[EpochBoundary], last_index: int) -> int:
    """Where the last epoch that both were in ends at the one that has less of it. One number is not one epoch: without
    a register two members may have taken it, each for itself, and then their first records differ.
    """
    log = shared.log
    mine = {boundary.epoch: boundary.first_index for boundary in log.history}
    for position in range(len(theirs) - 1, -1, -1):
        boundary = theirs[position]
        end = log.end_of_epoch(boundary.epoch)
        if end is None or mine.get(boundary.epoch, boundary.first_index) != boundary.first_index:
            continue
        later = theirs[position + 1 :]
        end = min(end, later[0].first_index - 1 if later else last_index)
        own = log.digest_at(boundary.first_index) if boundary.digest else None
        if own is None:
            return as_far_as_not_alone(shared, end)
        if own[1] == boundary.digest:
            return end
    return 0


def as_far_as_not_alone(shared: Shared, end: int) -> int:
    """Of an epoch whose first record is trimmed at either member: nothing says whose it was. What we acknowledged alone
    the peer has never confirmed, so we do not believe that it is there.
    """
    return min(end, shared.state.solo_since - 1) if shared.state.solo_since else end


def first_operation(log: DomainLog, first: int, held_from: int) -> int:
    """First log index from there on whose operation a client may have been answered; 0 when there is none.

    What is not held any more was committed, and counts: it was trimmed, and only the queues' state still shows it.
    """
    if first < held_from <= log.last_index:
        return first
    for log_index in range(first, log.last_index + 1):
        header = log.header_at(log_index)
        if header is None or header.WhichOneof("op") not in UNANSWERED:
            return log_index
    return 0


def judge(shared: Shared, begin: SyncBegin) -> Loss | None:
    """What following would take away of what this member acknowledged alone; None: it may follow."""
    state, log = shared.state, shared.log
    if not state.solo_since or state.data in (DataMark.EMPTY, DataMark.SYNCING):
        return None
    common = common_point(shared, begin)
    found = first_operation(log, max(common + 1, state.solo_since), state.kept_from)
    return Loss(common, found, log.last_index) if found else None


def lacks_committed(shared: Shared, begin: SyncBegin) -> Loss | None:
    """What the sender of this SYNC should have and does not: its history ends below this member's commit index (P21).

    None where its history does not reach back far enough to say so.
    """
    state, log = shared.state, shared.log
    committed = log.digest_at(shared.progress.commit_index)
    if committed is None or state.data in (DataMark.EMPTY, DataMark.SYNCING):
        return None
    epoch = committed[0]
    later = next((boundary.first_index for boundary in begin.history if boundary.epoch > epoch), 0)
    end = later - 1 if later else begin.target_index
    if shared.progress.commit_index <= end or not any(boundary.epoch <= epoch for boundary in begin.history):
        return None
    found = first_operation(log, end + 1, state.kept_from)
    return Loss(end, found, log.last_index) if 0 < found <= shared.progress.commit_index else None


def cut_above(shared: Shared, begin: SyncBegin) -> int:
    """Where a delta cuts. What is committed with the peer is in the master's log as in ours, whatever the HELLO said
    that the SYNC answers (P10, P12); what this member committed alone need not be.
    """
    committed, solo_since = shared.progress.commit_index, shared.state.solo_since
    guard = min(committed, solo_since - 1) if solo_since else committed
    return max(begin.base_index, guard)


def salvage_above(shared: Shared, common: int, why: str) -> None:
    """Have what is above the common point copied, if anything in it is an operation; precedes the Persist of the cut.

    Acknowledged for certain: what this member answered alone, which is all that it has while it has a solo index; else
    what it knew to be committed. Certainly not: what this very process ordered beyond that and never sent, for nobody
    else could have answered it. Everything else may have been: a master tells its commit index late, a process that
    ended forgot it, a peer that was sent a record may have taken over and answered it, and one that lacks it need not
    have lacked it then, if its disk lost its last writes.
    """
    log = shared.log
    if shared.state.data in (DataMark.EMPTY, DataMark.SYNCING):
        return  # what the log says is gone from the store already
    copied = shared.state.salvaged
    if copied[0] <= common + 1 and log.last_index <= copied[1]:
        return
    first = first_operation(log, common + 1, shared.state.kept_from)
    if first:
        known = log.last_index if shared.state.solo_since else shared.progress.commit_index
        never = (
            max(shared.progress.ordered_from, known + 1, shared.progress.sent_up_to + 1)
            if shared.progress.ordered_from
            else 0
        )
        shared.outbox.add(Salvage(common + 1, log.last_index, known, why, never))
        text = f"{common + 1} to {log.last_index} of the log go to salvage: {why}"
        shared.outbox.add(Note(PairEventKind.PAIR_EVENT_KIND_TRANSFER, text, {"first": str(first)}))


def refuse(shared: Shared, epoch: int, begin: SyncBegin) -> None:
    """Refuse a SYNC in the epoch of the SYNC, which is not ours: the peer would not hear a lower one (P13)."""
    refusal = OpenAck(sync_id=begin.sync_id, refusal=shared.state.diverged, diverged=True)
    shared.outbox.add(Send(PeerFrame(domain=shared.domain, epoch=epoch, open_ack=refusal)))
