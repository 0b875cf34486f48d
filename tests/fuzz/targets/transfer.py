"""A full state transfer between two real managers, its frames cut short, repeated, reordered, moved between queues.

Either the copy that comes of it is complete and equal, or it is refused; and once nobody meddles any more, it comes.
"""

from __future__ import annotations

from typing import Any

from google.protobuf.message import DecodeError

import replica.peer.transfer
from failover.marks import DataMark
from replica.core.state.durable import decode_state, state_key
from storage.records import split
from tandemq.peer.v1.peer_service_pb2 import TransferFrame
from tests.fuzz.clients import Client
from tests.fuzz.loop import pass_time
from tests.fuzz.pair import NUMBER, Pair, WatchedStore, handler_of
from tests.fuzz.source import Source

SLICE_BYTES, WRITE_BYTES = 80, 300
"""So small that a transfer of a few messages has many frames and several transactions."""
QUEUES = ("q", "r", "s")
HEAL_S = 30
LOST_S = 2.0


def one(data: bytes) -> None:
    kept = replica.peer.transfer.SLICE_BYTES, replica.peer.transfer.WRITE_BYTES
    replica.peer.transfer.SLICE_BYTES, replica.peer.transfer.WRITE_BYTES = SLICE_BYTES, WRITE_BYTES
    try:
        source = Source(data)
        Pair().run(lambda pair: _story(pair, source))
    finally:
        replica.peer.transfer.SLICE_BYTES, replica.peer.transfer.WRITE_BYTES = kept


class Meddler:
    """Keeps the frames of the transfer back, and lets go of something else."""

    def __init__(self, pair: Pair, source: Source) -> None:
        self.pair, self.source = pair, source
        self.frames: list[bytes] = []
        self.older: list[bytes] = []
        """Of transfers before this one: they may come again."""
        pair.tamper = self.tamper

    def tamper(self, sender: str, kind: str, frame: bytes) -> list[bytes]:
        if kind != "Transfer" or sender != "a" or not self.source.more:
            return [frame]
        if TransferFrame.FromString(frame).WhichOneof("frame") == "member":
            return [frame]
        self.frames.append(frame)
        if TransferFrame.FromString(frame).WhichOneof("frame") != "end":
            return []
        out, self.frames = self.meddle(self.frames), []
        self.older += out
        return out

    def meddle(self, frames: list[bytes]) -> list[bytes]:
        source = self.source
        out = list(frames)
        for _ in range(source.number(1, 4)):
            if not out:
                break
            at, to = source.number(0, len(out) - 1), source.number(0, len(out) - 1)
            match source.byte() % 11:
                case 0:
                    del out[at]
                case 1:
                    out.insert(to, out[at])
                case 2:
                    out[at], out[to] = out[to], out[at]
                case 3:
                    del out[at:]
                case 4:
                    low, high = sorted((at, to))
                    out[to:to] = out[low : high + 1]
                case 5:
                    low, high = sorted((at, to))
                    del out[low : high + 1]
                case 6:
                    out[at] = self.changed(out[at], out[to])
                case 8 | 9:
                    out = self.moved(out)
                case 7 if self.older:
                    out.insert(to, self.renumbered(source.pick(self.older), out[at]))
                case _:
                    out[at] = source.mutated(out[at])
        return out

    def moved(self, frames: list[bytes]) -> list[bytes]:
        """One queue, whole, in the place of another, beside it, or not at all."""
        ends = [at for at, frame in enumerate(frames) if _kind(frame) == "queue_end"]
        starts = [0, *(end + 1 for end in ends)][: len(ends)]
        queues = [frames[low : end + 1] for low, end in zip(starts, ends, strict=True)]
        if not queues:
            return frames
        rest = frames[ends[-1] + 1 :]
        at, to = self.source.number(0, len(queues) - 1), self.source.number(0, len(queues) - 1)
        match self.source.byte() % 4:
            case 0:
                queues[to] = queues[at]
            case 1:
                queues.insert(to, queues[at])
            case 2:
                del queues[at]
            case _:
                queues[at], queues[to] = queues[to], queues[at]
        return [frame for queue in queues for frame in queue] + rest

    def changed(self, data: bytes, other: bytes) -> bytes:
        """A frame with a field that another one has, or that is near its own."""
        frame, model = _frame(data), _frame(other)
        if frame is None or model is None:
            return data
        source, kind = self.source, frame.WhichOneof("frame")
        if kind == "segments":
            records = list(frame.segments.records)
            theirs = list(model.segments.records) or records
            choice = source.byte() % 4
            if choice == 0:
                records.append(source.pick(theirs))
            elif choice == 1:
                records.pop(source.number(0, len(records) - 1))
            elif choice == 2:
                records.reverse()
            else:
                at = source.number(0, len(records) - 1)
                records[at] = source.mutated(records[at])
            frame.segments.records[:] = records
        elif kind == "queue_begin":
            frame.queue_begin.queue_id = source.u64(frame.queue_begin.queue_id) & 0xFFFFFFFF
        elif kind == "queue_end":
            end = frame.queue_end
            end.records = source.u64(end.records)
            if source.flag():
                end.queue_id = source.u64(end.queue_id) & 0xFFFFFFFF
        elif kind == "state":
            frame.state.data = source.mutated(frame.state.data)
        elif kind == "end":
            frame.end.queues = source.u64(frame.end.queues)
            if source.rarely():
                frame.end.log_digest = source.take(16)
        return frame.SerializeToString()

    def renumbered(self, old: bytes, now: bytes) -> bytes:
        frame, current = _frame(old), _frame(now)
        if frame is None or current is None:
            return old
        if self.source.flag():
            frame.sync_id = current.sync_id
        return frame.SerializeToString()


def _frame(data: bytes) -> TransferFrame | None:
    try:
        return TransferFrame.FromString(data)
    except DecodeError:
        return None


def _kind(data: bytes) -> str | None:
    frame = _frame(data)
    return None if frame is None else frame.WhichOneof("frame")


async def _story(pair: Pair, source: Source) -> None:
    client = Client(lambda member, method: handler_of(pair, member, method))
    for name in "ab":
        await pair.start(name)
    await pass_time(0.3)
    for queue in QUEUES[: source.number(1, 3)]:
        assert await client.create("a", queue)
    for _ in range(source.number(1, 8)):
        queue = source.pick(QUEUES)
        volatile = {"persistent": False} if source.rarely() else {}
        await client.send("a", queue, [source.blob(60)] * source.number(1, 4), **volatile)
        if source.rarely():
            await client.receive("a", queue, source.number(1, 3), ack=source.flag())
    await pair.stop("b")
    await pass_time(LOST_S)  # sooner, another process would be taken for a copy of the one that was there
    pair.stores["b"] = WatchedStore("b")  # a new disk
    meddler = Meddler(pair, source)
    await pair.start("b")
    for _ in range(source.number(1, 4)):
        await pass_time(0.3)
        look(pair)
        pair.check_alive()
        if source.rarely():
            await client.send("a", "q", [b"meanwhile"])
        if source.rarely():
            pair.cut()
    source.rest()
    meddler.frames.clear()
    pair.cut()
    for _ in range(HEAL_S * 5):
        await pass_time(0.2)
        look(pair)
        pair.check_alive()
        if pair.domain("b").target.opened:
            break
    else:
        raise AssertionError(f"no transfer succeeds any more: {pair.domain('b').shared.last_change}")
    await pass_time(0.1)
    look(pair)
    check_equal(pair)


def look(pair: Pair) -> None:
    """Whoever says that its copy is whole has a whole copy."""
    state = _state(pair, "b")
    if state is None or state.data is not DataMark.IN_SYNC:
        return
    domain: Any = pair.domain("b")
    assert domain.shared.machine is not None
    pair.stores["b"].check_chain(NUMBER)
    for _, log_index in domain.shared.machine.live_log_indexes():
        mine, theirs = (pair.stores[name].read(NUMBER, log_index) for name in "ba")
        if theirs is None:
            continue  # consumed there meanwhile
        assert mine is not None, f"the copy at b is said to be whole and lacks record {log_index}"
        assert split(mine) == split(theirs), f"record {log_index} is another one at b"


def check_equal(pair: Pair) -> None:
    """Both have the same state, as far as both have applied the same log."""
    a, b = (pair.domain(name).shared for name in "ab")
    if a.machine.applied_index == b.machine.applied_index:
        assert a.machine.digest() == b.machine.digest(), "two copies, two states"
        assert a.log.digest == b.log.digest


def _state(pair: Pair, member: str) -> Any:
    data = pair.stores[member].get_meta(state_key(NUMBER))
    return None if data is None else decode_state(data)
