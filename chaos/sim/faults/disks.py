"""Kinds of fault that strike disks, one class each; `machines` says how a new one is made."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from chaos.sim.faults.kinds import MEMBERS, Drawn
from chaos.sim.faults.machines import _after, _member, _spread
from chaos.sim.judges.invariants import NUMBER, STATE
from chaos.sim.pair.plan import OWNED
from replica.core.state.durable import decode_state
from storage.errors import CorruptRecord
from storage.records import PREFIX_SIZE, read_prefix, verify_stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.sim.pair.member import SimMember
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import Fault


def _has_whole_peer(pair: Pair, member: SimMember) -> bool:
    """Whether its own copy may go: damage that nobody has found yet counts, for a transfer will find it."""
    return pair.is_whole() and not pair.members[member.peer].machine.disk.is_damaged


class SlowDisk:
    """Commits take many times as long, for a while."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"factor": stream.choice((10, 60, 400)), "for_ms": _spread(stream, 300, 2000)}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        until_s = pair.run.loop.now + float(fault.args["for_ms"]) / 1000
        _member(pair, fault).machine.disk.slow(float(fault.args["factor"]), until_s)
        return True


class HungDisk:
    """Nothing comes back from the disk, for a while."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"for_ms": _spread(stream, 300, 2500)}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        disk = _member(pair, fault).machine.disk
        disk.hang()
        _after(pair, fault, "for_ms", disk.release)
        return True


class FailingSync:
    """The next sync fails: the process must end, and what became of the batch is open.

    `after`, in plans made by hand: so many are done before it.
    """

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        member = _member(pair, fault)
        return member.up and bool(member.machine.disk.strike("fsync", str(fault.args.get("after", 0))))


class FullDisk:
    """There is no room, for anything or only for records, for a while."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        how = stream.choice(("enospc", "map_full"))
        return stream.choice(MEMBERS), {"for_ms": _spread(stream, 300, 2000), "how": how}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        disk = _member(pair, fault).machine.disk
        disk.strike(str(fault.args["how"]))
        _after(pair, fault, "for_ms", disk.heal)
        return True


class LostDisk:
    """A machine burns and is replaced by an empty one: only while the other member holds everything."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"down_ms": _spread(stream, 50, 1000)}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        member = _member(pair, fault)
        if not _has_whole_peer(pair, member):
            return False
        member.kill(silently=True)
        member.machine.disk.strike("lost")
        pair.run.is_harmed = True
        member.machine.salvaged.clear()
        _after(pair, fault, "down_ms", member.start_if_down)
        return True


class BitFlip:
    """A stored record or checkpoint changes, and the process starts anew: only while the other copy is whole."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {
            "what": stream.choice(("record", "checkpoint", "")),
            "down_ms": _spread(stream, 50, 800),
        }

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        member = _member(pair, fault)
        if not _has_whole_peer(pair, member):
            return False
        held = list(_messages(pair))
        member.kill()
        struck = member.machine.disk.strike("corrupt", str(fault.args["what"]))
        pair.run.is_harmed = True
        for stored in held:  # the start takes it for good where it lies below the checkpoint
            if member.machine.disk.has_flipped((NUMBER, stored.log_index)):
                pair.run.books[stored.queue].damaged.update(stored.indexes)
        _after(pair, fault, "down_ms", member.start_if_down)
        return bool(struck)


ROT_S, ROT_LOOK_S = 1.0, 0.005
"""For so long it waits for something that it may strike, and looks so often."""


class Stored(NamedTuple):
    """One record of messages of a queue."""

    queue: str
    log_index: int
    indexes: range


class BitRot:
    """Bits of stored messages turn over under a running member, its master most often, and nobody hears of it.

    It waits for messages that nobody holds, in records that memory has let go of, that the next start takes for good
    (they lie below the checkpoint), and that the other member has as they were written. Where everything is in memory
    there are none: it needs a profile in which little is.
    """

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return "ab", {
            "who": stream.choice(("master", "master", "master", "replica")),
            "part": stream.choice(("body", "body", "head")),
            "count": stream.choice((1, 1, 3)),
        }

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        stream, until_s = pair.run.plan.stream(f"bit_rot {fault.at_ms}"), pair.run.loop.now + ROT_S

        def look() -> None:
            if pair.run.healed:
                return
            member = _who(pair, is_serving=fault.args["who"] == "master")
            found = list(_that_may_rot(pair, member)) if member is not None else []
            if member is not None and found:
                pair.run.count(f"fault.{fault.kind}")
                for stored in stream.sample(found, min(len(found), int(fault.args["count"]))):
                    _rot(pair, member, stored, stream.random(), is_body=fault.args["part"] == "body")
            elif pair.run.loop.now < until_s:
                pair.run.loop.at(pair.run.loop.now + ROT_LOOK_S, None, look)

        look()
        return True


def _who(pair: Pair, *, is_serving: bool) -> SimMember | None:
    if not pair.is_whole():
        return None
    return next(each for each in pair.members.values() if each.is_serving == is_serving)


def _messages(pair: Pair) -> Iterator[Stored]:
    """All that the master has applied."""
    master = _who(pair, is_serving=True)
    machine = master.domain.shared.machine if master is not None and master.domain is not None else None
    if machine is not None:
        for name in machine.names():
            for log_index, first, count in machine.queue(machine.queue_id(name) or 0).segments.after(0):
                yield Stored(name, log_index, range(first, first + count))


def _that_may_rot(pair: Pair, member: SimMember) -> Iterator[Stored]:
    """None while something is ordered and not committed: it may be on its way out."""
    own, peer = member.domain, pair.members[member.peer].domain
    assert own is not None
    assert peer is not None
    shared = (own if member.is_serving else peer).shared
    machine = shared.machine
    if machine is None or shared.progress.commit_index < machine.applied_index:
        return
    for name in machine.names():
        if name == OWNED:
            continue  # its only client asks for exactly what must be in it
        queue = machine.queue(machine.queue_id(name) or 0)
        leased = [run for lease in queue.leases.values() for run in lease.ranges]
        held = {part.log_index for start, end in leased for part in queue.segments.parts(start, end)}
        for log_index, first, count in queue.segments.after(0):
            is_of_old = log_index < own.shared.progress.checkpoint_index and own.shared.log.get(log_index) is None
            if is_of_old and log_index not in held and _is_whole_at_both(pair, log_index):
                yield Stored(name, log_index, range(first, first + count))


def _is_whole_at_both(pair: Pair, log_index: int) -> bool:
    one, other = (each.machine.disk.record(NUMBER, log_index) for each in pair.members.values())
    if one is None or one != other:
        return False
    try:
        verify_stored(one)
    except CorruptRecord:
        return False
    return True


def _rot(pair: Pair, member: SimMember, stored: Stored, share: float, *, is_body: bool) -> None:
    """One bit of what is in the record, or of what is said about that."""
    disk = member.machine.disk
    record = disk.record(NUMBER, stored.log_index)
    assert record is not None
    body_at = PREFIX_SIZE + read_prefix(record).header_len
    first, end = (body_at, len(record)) if is_body and body_at < len(record) else (0, body_at)
    disk.flip((NUMBER, stored.log_index), (first + share * (end - first)) / len(record))
    pair.run.books[stored.queue].damaged.update(stored.indexes)
    pair.run.note(member.name, "fault", f"one bit of record {stored.log_index}")


def _shows_what_it_did_alone(pair: Pair, member: SimMember) -> bool:
    """Whether the peer's log goes back to what the image's owner acknowledged alone. Where it was trimmed, nothing
    proves that it is there, and an operator is asked (DIVERGED, see GUARANTEES); there is none here.
    """
    stored = member.machine.disk.meta_of("image", STATE)
    since = decode_state(stored).solo_since if stored is not None else 0
    peer = pair.members[member.peer].domain
    return not since or (peer is not None and peer.shared.log.base_index < since)


class OldImage:
    """A directory is put back from an image of an earlier start: only while the other member has all of it to show.

    Some of the processes that start on it end soon, perhaps before anybody has counted them.
    """

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        ends = stream.choice((0, 0, 1, 2))
        return stream.choice(MEMBERS), {
            "down_ms": _spread(stream, 0, 50, 1000),
            "ends": ends,
            "end_ms": stream.choice((1, 2, 4, 30)) if ends else 0,
        }

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        member = _member(pair, fault)
        if not _has_whole_peer(pair, member) or not member.imaged or member.imaged >= member.starts:
            member.image()
            return False
        if not _shows_what_it_did_alone(pair, member):
            return False
        member.kill()
        member.machine.disk.strike("restore", "image")
        pair.run.is_harmed = True
        _after(pair, fault, "down_ms", lambda: _start(pair, fault, member, int(fault.args["ends"])))
        return True


class LostWrites:
    """Both machines lose power, and the disk of one of them had answered for its last writes before it had them.

    Both are started again, in either order, and neither is kept from the other: what one disk has lost is on the other
    one. `both`: that one has lost its last write too, if nothing was answered for it. Wants a profile in which nothing
    else keeps the two apart.
    """

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {
            "count": stream.choice((1, 1, 2, 3)),
            "both": stream.random() < 0.3,
            "down_ms": _spread(stream, 0, 50, 1000),
            "other_ms": _spread(stream, 0, 50, 1000),
        }

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        hurt, other = _member(pair, fault), pair.members[_member(pair, fault).peer]
        if not pair.is_whole():
            return False
        committed = max(each.domain.shared.progress.commit_index for each in (hurt, other) if each.domain is not None)
        for member in (hurt, other):
            member.kill(silently=True)
        if bool(fault.args["both"]):
            _lose_unanswered(pair, other, committed)
        struck = hurt.machine.disk.strike("lost_writes", str(fault.args["count"]))
        pair.run.note(hurt.name, "fault", f"its disk has lost {struck}")
        pair.run.is_harmed = True
        _after(pair, fault, "down_ms", hurt.start_if_down)
        _after(pair, fault, "other_ms", other.start_if_down)
        return bool(struck)


def _lose_unanswered(pair: Pair, member: SimMember, committed: int) -> None:
    """Its last write, where that holds nothing that was committed, nor a change of what the copy is."""
    disk = member.machine.disk
    disk.strike("snapshot", "lost_writes")
    before = disk.meta(STATE)
    disk.strike("lost_writes", "1")
    kept = disk.meta(STATE)
    whole = before == kept and (disk.record(NUMBER, committed) is not None or not committed)
    if not whole:
        disk.strike("restore", "lost_writes")
        return
    pair.run.note(member.name, "fault", "its disk has lost what nobody was answered for")


def _start(pair: Pair, fault: Fault, member: SimMember, ends: int) -> None:
    def end() -> None:
        member.kill()
        _start(pair, fault, member, ends - 1)

    member.start_if_down()
    if ends:
        _after(pair, fault, "end_ms", end)
