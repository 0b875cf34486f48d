"""Keeps the named readers of a domain's journal: decides what they may be called and where they may go, and does what a
record says of them. What is trimmed is not decided here.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass, replace

import msgspec

from replica.machine.state.errors import Refused
from replica.machine.state.feature_rows import Reader, ReaderPlace
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2

TTL_MS, TTL_MS_MIN, TTL_MS_MAX = 7 * 86_400_000, 1_000, 30 * 86_400_000
RENEW_SHARE = 4
"""An advance over records of readers alone is worth a record once a quarter of the time to live has passed."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


@dataclass(frozen=True, slots=True)
class RegisterCall:
    name: str
    place: ReaderPlace | Refused  # of a new one, or of any when restart is set; or why it cannot begin there
    ttl_ms: int  # 0: as it is, or TTL_MS
    restart: bool
    request_id: bytes
    request_hash: int


@dataclass(frozen=True, slots=True)
class AdvanceCall:
    name: str
    place: ReaderPlace | Refused | None  # None: it is renewed alone; or why it cannot be there
    request_id: bytes
    request_hash: int


@dataclass(frozen=True, slots=True)
class ForgetCall:
    name: str
    request_id: bytes
    request_hash: int


def all_readers(state: State) -> list[Reader]:
    """By name, those that have lost their place too."""
    return [reader for _, reader in sorted(state.readers.items())]


def lowest_place(state: State) -> int | None:
    """First log index that a reader which has not lost its place still wants; None: nobody wants any."""
    return min((reader.place.log_index for reader in state.readers.values() if not reader.lost_until), default=None)


def first_not_given_up(state: State) -> int:
    """First log index that a reader may begin at: what lies before it was given up when another one, or the same one
    before, lost its place there, and is kept for nobody; 0: nothing was given up.
    """
    until = max((reader.lost_until for reader in state.readers.values()), default=0)
    wanted = lowest_place(state)
    return until if wanted is None else min(until, wanted)


def named_reader(state: State, name: str) -> Reader:
    """The reader; refused when it is not there, or has lost its place."""
    reader = state.readers.get(name)
    if reader is None:
        text = f"there is no reader {name!r} of the journal: register it first, it may have expired"
        raise Refused(common_pb2.REASON_READER_NOT_FOUND, text, {"reader": name})
    if reader.lost_until:
        raise lost(reader)
    return reader


def lost(reader: Reader) -> Refused:
    """Said to each read and each advance until somebody begins anew knowingly."""
    first, until = reader.place.log_index, reader.lost_until
    text = (
        f"reader {reader.name} has lost its place: it was at log index {first}, and what lies before {until} was given "
        f"up ({reader.lost_because}). Its later records may be there; register it with restart to go on knowingly"
    )
    facts = {
        "reader": reader.name,
        "lost_from_log_index": str(first),
        "lost_until_log_index": str(until),
        "because": reader.lost_because,
    }
    return Refused(common_pb2.REASON_READER_LOST, text, facts)


def check_reader_name(name: str) -> None:
    """Also of who takes numbered batches."""
    if not _NAME.fullmatch(name):
        text = f"{name!r} is no name of a reader: 1 to 64 of A-Z a-z 0-9 . _ -, beginning with a letter or digit"
        raise Refused(common_pb2.REASON_BAD_NAME, text)


def plan_register(state: State, now_ms: int, call: RegisterCall) -> record_pb2.RecordHeader:
    if isinstance(call.place, Refused):
        raise call.place
    known = state.readers.get(call.name)
    check_reader_name(call.name)
    if call.ttl_ms and not TTL_MS_MIN <= call.ttl_ms <= TTL_MS_MAX:
        text = f"a reader is kept for {TTL_MS_MIN // 1000} s to {TTL_MS_MAX // 86_400_000} days, not {call.ttl_ms} ms"
        raise Refused(common_pb2.REASON_BAD_REQUEST, text)
    if known is None and len(state.readers) >= state.limits.readers_max:
        text = f"there are {len(state.readers)} readers of the journal, which is the most there may be; delete one"
        raise Refused(common_pb2.REASON_QUOTA_EXCEEDED, text, {"limit": str(state.limits.readers_max)})
    if known is not None and not call.restart:
        known = named_reader(state, call.name)
        return _header(state, now_ms, call, known.place, call.ttl_ms or known.ttl_ms, record_pb2.READER_ACTION_ADVANCE)
    ttl_ms = call.ttl_ms or (known.ttl_ms if known is not None else TTL_MS)
    return _header(state, now_ms, call, call.place, ttl_ms, record_pb2.READER_ACTION_REGISTER)


def plan_advance(state: State, now_ms: int, call: AdvanceCall) -> record_pb2.RecordHeader | None:
    """None: nothing that would be worth a record. A reader that follows the end would else meet its own records there
    and answer each with another one.
    """
    if isinstance(call.place, Refused):
        raise call.place
    reader = named_reader(state, call.name)
    place = reader.place if call.place is None else max(reader.place, call.place)
    time_ms = state.at(now_ms)
    first, last = state.reader_records
    moves = place != reader.place and not (last == state.applied_index and reader.place.log_index >= first)
    if not moves and time_ms - reader.renewed_ms < reader.ttl_ms // RENEW_SHARE:
        return None
    return _header(state, now_ms, call, place, reader.ttl_ms, record_pb2.READER_ACTION_ADVANCE)


def _header(
    state: State,
    now_ms: int,
    call: RegisterCall | AdvanceCall,
    place: ReaderPlace,
    ttl_ms: int,
    action: record_pb2.ReaderAction,
) -> record_pb2.RecordHeader:
    op = record_pb2.ReaderOp(
        action=action, name=call.name, log_index=place.log_index, epoch=place.epoch, row=place.row, ttl_ms=ttl_ms
    )
    return record_pb2.RecordHeader(
        time_ms=state.at(now_ms), request_id=call.request_id, request_hash=call.request_hash, reader=op
    )


def plan_forget(state: State, now_ms: int, call: ForgetCall) -> record_pb2.RecordHeader:
    """One that has lost its place can be forgotten too."""
    if call.name not in state.readers:
        named_reader(state, call.name)
    op = record_pb2.ReaderOp(action=record_pb2.READER_ACTION_DELETE, name=call.name)
    return record_pb2.RecordHeader(
        time_ms=state.at(now_ms), request_id=call.request_id, request_hash=call.request_hash, reader=op
    )


def plan_lose(state: State, now_ms: int, name: str, until: int, because: str) -> record_pb2.RecordHeader:
    """The master gives up what a reader has not read."""
    op = record_pb2.ReaderOp(action=record_pb2.READER_ACTION_LOSE, name=name, log_index=until, because=because)
    return record_pb2.RecordHeader(time_ms=state.at(now_ms), reader=op)


def apply_reader(state: State, log_index: int, time_ms: int, op: record_pb2.ReaderOp) -> None:
    known = state.readers.get(op.name)
    place = ReaderPlace(op.log_index, op.epoch, op.row)
    match op.action:
        case record_pb2.READER_ACTION_REGISTER:
            state.readers[op.name] = Reader(op.name, place, op.ttl_ms, time_ms, time_ms)
        case record_pb2.READER_ACTION_ADVANCE:
            assert known is not None, "advanced a reader that is not there"
            assert place >= known.place, "a reader never goes back"
            state.readers[op.name] = replace(known, place=place, ttl_ms=op.ttl_ms, renewed_ms=time_ms)
        case record_pb2.READER_ACTION_LOSE:
            assert known is not None, "a reader that is not there has nothing to lose"
            state.readers[op.name] = replace(known, lost_until=op.log_index, lost_because=op.because)
            state.readers_lost += 1
        case _:
            assert op.action == record_pb2.READER_ACTION_DELETE, "an action without a meaning"
            del state.readers[op.name]
    first, last = state.reader_records
    state.reader_records = (first, log_index) if last == log_index - 1 else (log_index, log_index)


def forget_readers(state: State, names: Collection[str]) -> None:
    for name in names:
        del state.readers[name]


class ReaderRow(msgspec.Struct, array_like=True):
    """As it stands in a snapshot."""

    name: str
    log_index: int
    epoch: int
    row: int
    ttl_ms: int
    registered_ms: int
    renewed_ms: int
    lost_until: int
    lost_because: str


def reader_row(reader: Reader) -> ReaderRow:
    times = reader.ttl_ms, reader.registered_ms, reader.renewed_ms
    return ReaderRow(reader.name, *reader.place, *times, reader.lost_until, reader.lost_because)


def reader_of(row: ReaderRow) -> Reader:
    place = ReaderPlace(row.log_index, row.epoch, row.row)
    return Reader(row.name, place, row.ttl_ms, row.registered_ms, row.renewed_ms, row.lost_until, row.lost_because)
