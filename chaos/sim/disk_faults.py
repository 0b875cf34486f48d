"""Kinds of fault that strike disks, one class each; `faults` says how a new one is made."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from chaos.sim.faults import _after, _member, _spread
from chaos.sim.invariants import STATE
from chaos.sim.kinds import KINDS, MEMBERS, Drawn, kind
from replica.state import decode_state

if TYPE_CHECKING:
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
        member.kill()
        struck = member.machine.disk.strike("corrupt", str(fault.args["what"]))
        world.is_harmed = True
        _after(world, fault, "down_ms", member.start_if_down)
        return bool(struck)


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
    """A directory is put back from an image of an earlier start: only while the other member has all of it to show."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"down_ms": _spread(stream, 50, 1000)}

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
        _after(world, fault, "down_ms", member.start_if_down)
        return True
