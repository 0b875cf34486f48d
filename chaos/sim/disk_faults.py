"""Kinds of fault that strike disks, one class each; `faults` says how a new one is made."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING, NamedTuple

from chaos.sim.client_plans import OWNED
from chaos.sim.faults import _after, _member, _spread
from chaos.sim.invariants import NUMBER, STATE
from chaos.sim.kinds import KINDS, MEMBERS, Drawn, kind
from replica.state import decode_state
from storage.errors import CorruptRecord
from storage.records import PREFIX_SIZE, read_prefix, verify_stored

if TYPE_CHECKING:
    from collections.abc import Iterator

    from chaos.sim.member import SimMember
    from chaos.sim.plan import Fault
    from chaos.sim.world import World

__all__ = ["KINDS"]  # with these: whoever goes on with the list imports it from here


def _has_whole_peer(world: World, member: SimMember) -> bool:
    """Whether its own copy may go: damage that nobody has found yet counts, for a transfer will find it."""
    return world.is_whole() and not world.members[member.peer].machine.disk.is_damaged


@kind("slow_disk")
class SlowDisk:
    """Commits take many times as long, for a while."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"factor": stream.choice((10, 60, 400)), "for_ms": _spread(stream, 300, 2000)}

    @staticmethod
    def strike(world: World, fault: Fault) -> bool:
        until_s = world.loop.now + float(fault.args["for_ms"]) / 1000
        _member(world, fault).machine.disk.slow(float(fault.args["factor"]), until_s)
        return True


@kind("hung_disk")
class HungDisk:
    """Nothing comes back from the disk, for a while."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"for_ms": _spread(stream, 300, 2500)}

    @staticmethod
    def strike(world: World, fault: Fault) -> bool:
        disk = _member(world, fault).machine.disk
        disk.hang()
        _after(world, fault, "for_ms", disk.release)
        return True


@kind("fsync")
class FailingSync:
    """The next sync fails: the process must end, and what became of the batch is open.

    `after`, in plans made by hand: so many are done before it.
    """

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {}

    @staticmethod
    def strike(world: World, fault: Fault) -> bool:
        member = _member(world, fault)
        return member.up and bool(member.machine.disk.strike("fsync", str(fault.args.get("after", 0))))


@kind("full_disk")
class FullDisk:
    """There is no room, for anything or only for records, for a while."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        how = stream.choice(("enospc", "map_full"))
        return stream.choice(MEMBERS), {"for_ms": _spread(stream, 300, 2000), "how": how}

    @staticmethod
    def strike(world: World, fault: Fault) -> bool:
        disk = _member(world, fault).machine.disk
        disk.strike(str(fault.args["how"]))
        _after(world, fault, "for_ms", disk.heal)
        return True


@kind("lost_disk")
class LostDisk:
    """A machine burns and is replaced by an empty one: only while the other member holds everything."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"down_ms": _spread(stream, 50, 1000)}

    @staticmethod
    def strike(world: World, fault: Fault) -> bool:
        member = _member(world, fault)
        if not _has_whole_peer(world, member):
            return False
        member.kill(silently=True)
        member.machine.disk.strike("lost")
        world.is_harmed = True
        member.machine.salvaged.clear()
        _after(world, fault, "down_ms", member.start_if_down)
        return True


@kind("bit_flip")
class BitFlip:
    """A stored record or checkpoint changes, and the process starts anew: only while the other copy is whole."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {
            "what": stream.choice(("record", "checkpoint", "")),
            "down_ms": _spread(stream, 50, 800),
        }

    @staticmethod
    def strike(world: World, fault: Fault) -> bool:
        member = _member(world, fault)
        if not _has_whole_peer(world, member):
            return False
        held = list(_messages(world))
        member.kill()
        struck = member.machine.disk.strike("corrupt", str(fault.args["what"]))
        world.is_harmed = True
        for stored in held:  # the start takes it for good where it lies below the checkpoint
            if member.machine.disk.has_flipped((NUMBER, stored.log_index)):
                world.books[stored.queue].damaged.update(stored.indexes)
        _after(world, fault, "down_ms", member.start_if_down)
        return bool(struck)


ROT_S, ROT_LOOK_S = 1.0, 0.005
"""For so long it waits for something that it may strike, and looks so often."""


class Stored(NamedTuple):
    """One record of messages of a queue."""

    queue: str
    log_index: int
    indexes: range


@kind("bit_rot", ("ab",), is_apart=True)
class BitRot:
    """Bits of stored messages turn over under a running member, its master most often, and nobody is told.

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
    def strike(world: World, fault: Fault) -> bool:
        stream, until_s = world.plan.stream(f"bit_rot {fault.at_ms}"), world.loop.now + ROT_S

        def look() -> None:
            if world.healed:
                return
            member = _who(world, is_serving=fault.args["who"] == "master")
            found = list(_that_may_rot(world, member)) if member is not None else []
            if member is not None and found:
                world.count(f"fault.{fault.kind}")
                for stored in stream.sample(found, min(len(found), int(fault.args["count"]))):
                    _rot(world, member, stored, stream.random(), is_body=fault.args["part"] == "body")
            elif world.loop.now < until_s:
                world.loop.at(world.loop.now + ROT_LOOK_S, None, look)

        look()
        return True


def _who(world: World, *, is_serving: bool) -> SimMember | None:
    if not world.is_whole():
        return None
    return next(each for each in world.members.values() if each.is_serving == is_serving)


def _messages(world: World) -> Iterator[Stored]:
    """All that the master has applied."""
    master = _who(world, is_serving=True)
    machine = master.domain.shared.machine if master is not None and master.domain is not None else None
    if machine is not None:
        for name in machine.names():
            for log_index, first, count in machine.queue(machine.queue_id(name) or 0).segments.after(0):
                yield Stored(name, log_index, range(first, first + count))


def _that_may_rot(world: World, member: SimMember) -> Iterator[Stored]:
    """None while something is ordered and not committed: it may be on its way out."""
    own, peer = member.domain, world.members[member.peer].domain
    assert own is not None
    assert peer is not None
    shared = (own if member.is_serving else peer).shared
    machine = shared.machine
    if machine is None or shared.commit_index < machine.applied_index:
        return
    for name in machine.names():
        if name == OWNED:
            continue  # its only client asks for exactly what must be in it
        queue = machine.queue(machine.queue_id(name) or 0)
        leased = [run for lease in queue.leases.values() for run in lease.ranges]
        held = {part.log_index for start, end in leased for part in queue.segments.parts(start, end)}
        for log_index, first, count in queue.segments.after(0):
            is_of_old = log_index < own.shared.checkpoint_index and own.shared.log.get(log_index) is None
            if is_of_old and log_index not in held and _is_whole_at_both(world, log_index):
                yield Stored(name, log_index, range(first, first + count))


def _is_whole_at_both(world: World, log_index: int) -> bool:
    one, other = (each.machine.disk.record(NUMBER, log_index) for each in world.members.values())
    if one is None or one != other:
        return False
    try:
        verify_stored(one)
    except CorruptRecord:
        return False
    return True


def _rot(world: World, member: SimMember, stored: Stored, share: float, *, is_body: bool) -> None:
    """One bit of what is in the record, or of what is said about that."""
    disk = member.machine.disk
    record = disk.record(NUMBER, stored.log_index)
    assert record is not None
    body_at = PREFIX_SIZE + read_prefix(record).header_len
    first, end = (body_at, len(record)) if is_body and body_at < len(record) else (0, body_at)
    disk.flip((NUMBER, stored.log_index), (first + share * (end - first)) / len(record))
    world.books[stored.queue].damaged.update(stored.indexes)
    world.note(member.name, "fault", f"one bit of record {stored.log_index}")


def _shows_what_it_did_alone(world: World, member: SimMember) -> bool:
    """Whether the peer's log goes back to what the image's owner acknowledged alone. Where it was trimmed, nothing
    proves that it is there, and an operator is asked (DIVERGED, see GUARANTEES); there is none here.
    """
    stored = member.machine.disk.meta_of("image", STATE)
    since = decode_state(stored).solo_since if stored is not None else 0
    peer = world.members[member.peer].domain
    return not since or (peer is not None and peer.shared.log.base_index < since)


@kind("old_image")
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
    def strike(world: World, fault: Fault) -> bool:
        member = _member(world, fault)
        if not _has_whole_peer(world, member) or not member.imaged or member.imaged >= member.starts:
            member.image()
            return False
        if not _shows_what_it_did_alone(world, member):
            return False
        member.kill()
        member.machine.disk.strike("restore", "image")
        world.is_harmed = True
        _after(world, fault, "down_ms", lambda: _start(world, fault, member, int(fault.args["ends"])))
        return True


@kind("lost_writes", is_apart=True)
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
    def strike(world: World, fault: Fault) -> bool:
        hurt, other = _member(world, fault), world.members[_member(world, fault).peer]
        if not world.is_whole():
            return False
        committed = max(each.domain.shared.commit_index for each in (hurt, other) if each.domain is not None)
        for member in (hurt, other):
            member.kill(silently=True)
        if bool(fault.args["both"]):
            _lose_unanswered(world, other, committed)
        struck = hurt.machine.disk.strike("lost_writes", str(fault.args["count"]))
        world.note(hurt.name, "fault", f"its disk has lost {struck}")
        world.is_harmed = True
        _after(world, fault, "down_ms", hurt.start_if_down)
        _after(world, fault, "other_ms", other.start_if_down)
        return bool(struck)


def _lose_unanswered(world: World, member: SimMember, committed: int) -> None:
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
    world.note(member.name, "fault", "its disk has lost what nobody was answered for")


def _start(world: World, fault: Fault, member: SimMember, ends: int) -> None:
    def end() -> None:
        member.kill()
        _start(world, fault, member, ends - 1)

    member.start_if_down()
    if ends:
        _after(world, fault, "end_ms", end)
