"""Kinds of fault that strike at the moment that matters, or several at once: while a sync is under way, as a member
becomes master, while a claim is. Chance alone meets those moments once in thousands of runs.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from chaos.sim.faults.kinds import DIRECTIONS, MEMBERS, Drawn
from chaos.sim.faults.machines import _after, _member, _spread
from chaos.sim.judges.invariants import STATE
from failover.marks import Role
from replica.core.state.durable import decode_state

if TYPE_CHECKING:
    from chaos.sim.pair.member import SimMember
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import Fault


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
    def strike(pair: Pair, fault: Fault) -> bool:
        stream, at_s, member = pair.run.plan.stream(f"flap {fault.at_ms}"), pair.run.loop.now, _member(pair, fault)
        struck = bool(pair.run.network.between("a", "b"))
        if fault.args["kill"] and member.up:
            member.kill()
            member.start()

        def once() -> None:
            if pair.run.healed:
                return
            for connection in pair.run.network.between("a", "b"):
                connection.reset(stream)
            if stream.random() < 0.3:
                pair.members[stream.choice(MEMBERS)].believe_lost(refused=True)

        for _ in range(int(fault.args["times"])):
            pair.run.loop.at(at_s, None, once)
            at_s += 2 * stream.random() * float(fault.args["gap_ms"]) / 1000
        return struck


class KillInSync:
    """A process is killed while a sync of its disk takes long, so that the other member has what it has not."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {
            "hold_ms": _spread(stream, 5, 40, 200),
            "down_ms": _spread(stream, 0, 0, 10, 800),
        }

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        member = _member(pair, fault)
        if not member.up:
            return False
        member.machine.disk.hang()

        def kill() -> None:
            member.kill()
            member.machine.disk.release()
            _after(pair, fault, "down_ms", member.start_if_down)

        _after(pair, fault, "hold_ms", kill)
        return True


class HalfAdded:
    """A member comes back, and as the register is asked to name it again the link breaks and the answer is lost."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"down_ms": _spread(stream, 100, 300), "for_ms": _spread(stream, 800, 2000)}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        if not pair.is_whole():
            return False
        _member(pair, fault).kill()
        _after(pair, fault, "down_ms", _member(pair, fault).start_if_down)
        until_s = pair.run.loop.now + 3.0

        def look() -> None:
            asking = [
                each for each in pair.members.values() if each.domain and each.domain.mastership.commit.publishing
            ]
            if asking and not pair.run.healed:
                route = asking[0].route
                route.cut(requests=False, answers=True)
                _after(pair, fault, "for_ms", route.heal)
                for each in DIRECTIONS:
                    _cut(pair, fault, each)
                pair.members[asking[0].peer].believe_lost(refused=True)
            elif pair.run.loop.now < until_s and not pair.run.healed:
                pair.run.loop.at(pair.run.loop.now + 0.0003, None, look)

        look()
        return True


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
    def strike(pair: Pair, fault: Fault) -> bool:
        until_s = pair.run.loop.now + 1.5

        def look() -> None:
            ceding = [each for each in pair.members.values() if _is_ceding(each)]
            if ceding and not pair.run.healed:
                _die_half_ceded(pair, fault, ceding[0])
            elif pair.run.loop.now < until_s and not pair.run.healed:
                pair.run.loop.at(pair.run.loop.now + 0.0003, None, look)

        look()
        return True


def _is_ceding(member: SimMember) -> bool:
    return member.domain is not None and member.domain.shared.role is Role.CEDING


def _die_half_ceded(pair: Pair, fault: Fault, member: SimMember) -> None:
    pair.run.count(f"fault.{fault.kind}")
    member.machine.disk.hang()
    route = pair.members[member.peer].route
    route.cut()
    _after(pair, fault, "for_ms", route.heal)

    def die() -> None:
        promised = member.domain.shared.state.promised_epoch if member.domain is not None else 0
        member.kill()
        member.machine.disk.release()
        if promised > _promised_on_disk(member):
            pair.run.sometimes("a promise lost in a crash")
        for each in DIRECTIONS:
            _cut(pair, fault, each)
        _after(pair, fault, "down_ms", member.start_if_down)
        _believe_once_up(pair, member, pair.run.loop.now + 0.7)

    _after(pair, fault, "hold_ms", die)


def _promised_on_disk(member: SimMember) -> int:
    stored = member.machine.disk.meta(STATE)
    return decode_state(stored).promised_epoch if stored is not None else 0


def _believe_once_up(pair: Pair, member: SimMember, until_s: float) -> None:
    """It takes its peer for lost as soon as there is a process that can."""
    if not member.believe_lost(refused=True) and pair.run.loop.now < until_s and not pair.run.healed:
        pair.run.loop.at(pair.run.loop.now + 0.005, None, _believe_once_up, pair, member, until_s)


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
    def strike(pair: Pair, fault: Fault) -> bool:
        first, other = _member(pair, fault), pair.members[_member(pair, fault).peer]
        if not (first.up and other.up):
            return False
        first.machine.disk.hang()

        def fall() -> None:
            for member in (first, other):
                member.kill(silently=True)
            first.machine.disk.release()
            _after(pair, fault, "down_ms", first.start_if_down)
            _after(pair, fault, "alone_ms", other.start_if_down)

        _after(pair, fault, "hold_ms", fall)
        return True


class Split:
    """The members cannot hear each other for a while, and what one of them asks of the register meanwhile is late."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"for_ms": _spread(stream, 1500, 3000), "heard": stream.choice((0, 1, 1))}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        if any(pair.run.network.direction(*each.split(">")).cut for each in DIRECTIONS):
            return False
        for each in DIRECTIONS:
            _cut(pair, fault, each)
        route = _member(pair, fault).route
        for _ in range(int(fault.args["heard"])):
            route.delay_set(0.0)
        for _ in range(2):
            route.delay_set(float(fault.args["for_ms"]) / 1000)
        return True


class Newborn:
    """A member is killed and started again at once; the next one that becomes master is not heard by the other one."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"after_ms": stream.choice((0, 0, 1, 4)), "how": stream.choice(("cut", "reset"))}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        if not pair.is_whole():
            return False
        _member(pair, fault).kill()
        _member(pair, fault).start()
        known, until_s = {name: _epoch_served(each) for name, each in pair.members.items()}, pair.run.loop.now + 3.0

        def look() -> None:
            born = [name for name, each in pair.members.items() if _epoch_served(each) > known[name]]
            if born and not pair.run.healed:
                _after(pair, fault, "after_ms", lambda: _unheard(pair, born[0], cut=fault.args["how"] == "cut"))
            elif pair.run.loop.now < until_s and not pair.run.healed:
                pair.run.loop.at(pair.run.loop.now + 0.0005, None, look)

        look()
        return True


def _epoch_served(member: SimMember) -> int:
    domain = member.domain
    return domain.shared.state.epoch if domain is not None and domain.shared.serving else 0


def _unheard(pair: Pair, master: str, *, cut: bool) -> None:
    other = pair.members[master].peer
    stream = pair.run.plan.stream(f"unheard {pair.run.loop.now}")
    if cut:
        pair.run.network.cut(master, other)

        def heal() -> None:
            if not pair.run.healed:
                pair.run.network.heal(master, other)

        pair.run.loop.at(pair.run.loop.now + 1.0, None, heal)
    for connection in pair.run.network.between(master, other):
        connection.reset(stream)
    pair.members[other].believe_lost(refused=True)


def _cut(pair: Pair, fault: Fault, direction: str) -> None:
    source, _, target = direction.partition(">")
    pair.run.network.cut(source, target)
    _after(pair, fault, "for_ms", lambda: pair.run.network.heal(source, target))
