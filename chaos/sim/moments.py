"""Kinds of fault that strike at the moment that matters, or several at once: while a sync is under way, as a member
becomes master, while a claim is. Chance alone meets those moments once in thousands of runs.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from chaos.sim.disk_faults import KINDS
from chaos.sim.faults import _after, _member, _spread
from chaos.sim.invariants import STATE
from chaos.sim.kinds import DIRECTIONS, MEMBERS, Drawn, kind
from failover.marks import Role
from replica.state import decode_state

if TYPE_CHECKING:
    from chaos.sim.member import SimMember
    from chaos.sim.plan import Fault
    from chaos.sim.world import World

__all__ = ["KINDS"]  # with those of this file: whoever draws plans imports them from here


@kind("flap")
class Flap:
    """The link breaks several times in a row, perhaps after one member was killed and started again at once.

    Now and then one of them believes the other lost meanwhile.
    """

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {
            "times": stream.choice((2, 4, 8)),
            "gap_ms": _spread(stream, 3, 15, 80),
            "kill": stream.random() < 0.5,
        }

    @staticmethod
    def strike(world: World, fault: Fault) -> bool:
        stream, at_s, member = world.plan.stream(f"flap {fault.at_ms}"), world.loop.now, _member(world, fault)
        struck = bool(world.network.between("a", "b"))
        if fault.args["kill"] and member.up:
            member.kill()
            member.start()

        def once() -> None:
            if world.healed:
                return
            for connection in world.network.between("a", "b"):
                connection.reset(stream)
            if stream.random() < 0.3:
                world.members[stream.choice(MEMBERS)].believe_lost(refused=True)

        for _ in range(int(fault.args["times"])):
            world.loop.at(at_s, None, once)
            at_s += 2 * stream.random() * float(fault.args["gap_ms"]) / 1000
        return struck


@kind("kill_in_sync")
class KillInSync:
    """A process is killed while a sync of its disk takes long, so that the other member has what it has not."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {
            "hold_ms": _spread(stream, 5, 40, 200),
            "down_ms": _spread(stream, 0, 0, 10, 800),
        }

    @staticmethod
    def strike(world: World, fault: Fault) -> bool:
        member = _member(world, fault)
        if not member.up:
            return False
        member.machine.disk.hang()

        def kill() -> None:
            member.kill()
            member.machine.disk.release()
            _after(world, fault, "down_ms", member.start_if_down)

        _after(world, fault, "hold_ms", kill)
        return True


@kind("half_added")
class HalfAdded:
    """A member comes back, and as the register is asked to name it again the link breaks and the answer is lost."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"down_ms": _spread(stream, 100, 300), "for_ms": _spread(stream, 800, 2000)}

    @staticmethod
    def strike(world: World, fault: Fault) -> bool:
        if not world.is_whole():
            return False
        _member(world, fault).kill()
        _after(world, fault, "down_ms", _member(world, fault).start_if_down)
        until_s = world.loop.now + 3.0

        def look() -> None:
            asking = [each for each in world.members.values() if each.domain and each.domain.replication.publishing]
            if asking and not world.healed:
                route = asking[0].route
                route.cut(requests=False, answers=True)
                _after(world, fault, "for_ms", route.heal)
                for each in DIRECTIONS:
                    _cut(world, fault, each)
                world.members[asking[0].peer].believe_lost(refused=True)
            elif world.loop.now < until_s and not world.healed:
                world.loop.at(world.loop.now + 0.0003, None, look)

        look()
        return True


@kind("half_ceded", ("ab",))
class HalfCeded:
    """Whoever gives its role away next dies while its promise is written. It is back soon and takes its peer for lost,
    which may have heard of the role, and reaches neither it nor the register.
    """

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return "ab", {
            "hold_ms": _spread(stream, 2, 10),
            "down_ms": _spread(stream, 0, 20, 300),
            "for_ms": _spread(stream, 1500, 3000),
        }

    @staticmethod
    def strike(world: World, fault: Fault) -> bool:
        until_s = world.loop.now + 1.5

        def look() -> None:
            ceding = [each for each in world.members.values() if _is_ceding(each)]
            if ceding and not world.healed:
                _die_half_ceded(world, fault, ceding[0])
            elif world.loop.now < until_s and not world.healed:
                world.loop.at(world.loop.now + 0.0003, None, look)

        look()
        return True


def _is_ceding(member: SimMember) -> bool:
    return member.domain is not None and member.domain.shared.role is Role.CEDING


def _die_half_ceded(world: World, fault: Fault, member: SimMember) -> None:
    world.count(f"fault.{fault.kind}")
    member.machine.disk.hang()
    route = world.members[member.peer].route
    route.cut()
    _after(world, fault, "for_ms", route.heal)

    def die() -> None:
        promised = member.domain.shared.state.promised_epoch if member.domain is not None else 0
        member.kill()
        member.machine.disk.release()
        if promised > _promised_on_disk(member):
            world.sometimes("a promise lost in a crash")
        for each in DIRECTIONS:
            _cut(world, fault, each)
        _after(world, fault, "down_ms", member.start_if_down)
        _believe_once_up(world, member, world.loop.now + 0.7)

    _after(world, fault, "hold_ms", die)


def _promised_on_disk(member: SimMember) -> int:
    stored = member.machine.disk.meta(STATE)
    return decode_state(stored).promised_epoch if stored is not None else 0


def _believe_once_up(world: World, member: SimMember, until_s: float) -> None:
    """It takes its peer for lost as soon as there is a process that can."""
    if not member.believe_lost(refused=True) and world.loop.now < until_s and not world.healed:
        world.loop.at(world.loop.now + 0.005, None, _believe_once_up, world, member, until_s)


@kind("blackout")
class Blackout:
    """Both machines lose power, one of them with a sync under way; that one is back first, and alone for a while."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {
            "hold_ms": _spread(stream, 5, 40),
            "down_ms": _spread(stream, 1, 200),
            "alone_ms": _spread(stream, 50, 1500, 3000),
        }

    @staticmethod
    def strike(world: World, fault: Fault) -> bool:
        first, other = _member(world, fault), world.members[_member(world, fault).peer]
        if not (first.up and other.up):
            return False
        first.machine.disk.hang()

        def fall() -> None:
            for member in (first, other):
                member.kill(silently=True)
            first.machine.disk.release()
            _after(world, fault, "down_ms", first.start_if_down)
            _after(world, fault, "alone_ms", other.start_if_down)

        _after(world, fault, "hold_ms", fall)
        return True


@kind("split")
class Split:
    """The members cannot hear each other for a while, and what one of them asks of the register meanwhile is late."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"for_ms": _spread(stream, 1500, 3000), "heard": stream.choice((0, 1, 1))}

    @staticmethod
    def strike(world: World, fault: Fault) -> bool:
        if any(world.network.direction(*each.split(">")).cut for each in DIRECTIONS):
            return False
        for each in DIRECTIONS:
            _cut(world, fault, each)
        route = _member(world, fault).route
        for _ in range(int(fault.args["heard"])):
            route.delay_set(0.0)
        for _ in range(2):
            route.delay_set(float(fault.args["for_ms"]) / 1000)
        return True


@kind("newborn")
class Newborn:
    """A member is killed and started again at once; the next one that becomes master is not heard by the other one."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"after_ms": stream.choice((0, 0, 1, 4)), "how": stream.choice(("cut", "reset"))}

    @staticmethod
    def strike(world: World, fault: Fault) -> bool:
        if not world.is_whole():
            return False
        _member(world, fault).kill()
        _member(world, fault).start()
        known, until_s = {name: _epoch_served(each) for name, each in world.members.items()}, world.loop.now + 3.0

        def look() -> None:
            born = [name for name, each in world.members.items() if _epoch_served(each) > known[name]]
            if born and not world.healed:
                _after(world, fault, "after_ms", lambda: _unheard(world, born[0], cut=fault.args["how"] == "cut"))
            elif world.loop.now < until_s and not world.healed:
                world.loop.at(world.loop.now + 0.0005, None, look)

        look()
        return True


def _epoch_served(member: SimMember) -> int:
    domain = member.domain
    return domain.shared.state.epoch if domain is not None and domain.replication.serving else 0


def _unheard(world: World, master: str, *, cut: bool) -> None:
    other = world.members[master].peer
    stream = world.plan.stream(f"unheard {world.loop.now}")
    if cut:
        world.network.cut(master, other)

        def heal() -> None:
            if not world.healed:
                world.network.heal(master, other)

        world.loop.at(world.loop.now + 1.0, None, heal)
    for connection in world.network.between(master, other):
        connection.reset(stream)
    world.members[other].believe_lost(refused=True)


def _cut(world: World, fault: Fault, direction: str) -> None:
    source, _, target = direction.partition(">")
    world.network.cut(source, target)
    _after(world, fault, "for_ms", lambda: world.network.heal(source, target))
