"""Kinds of fault that strike processes, links and the register, one class each: what a kind draws, how it strikes, how
it is healed. `between` has those between two pairs, `disks` those of disks, `moments` those that wait for a moment.

A new kind is one more class in one of these files, a line in `table`, and nothing anywhere else.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING

from chaos.sim.faults.kinds import DIRECTIONS, MEMBERS, Drawn
from chaos.sim.kernel.judging import HARMLESS, MOODS

if TYPE_CHECKING:
    from chaos.sim.pair.member import SimMember
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import Fault

ENDS = ("a b", "a *", "b *")
"""Of connections; "*": all clients."""


def _member(pair: Pair, fault: Fault) -> SimMember:
    return pair.members[fault.target]


def _is_one_copy(pair: Pair) -> bool:
    """A copy was harmed and the pair not whole since: if the register went too, only an operator could decide."""
    if pair.run.is_harmed and pair.is_whole():
        pair.run.is_harmed = False
    return pair.run.is_harmed


def _after(pair: Pair, fault: Fault, name: str, then: Callable[[], object]) -> None:
    """Undo it after args[name] milliseconds, unless everything was healed before."""
    pair.run.loop.at(
        pair.run.loop.now + float(fault.args[name]) / 1000, None, lambda: None if pair.run.healed else then()
    )


def _spread(stream: random.Random, *lengths_ms: int) -> int:
    return round(stream.choice(lengths_ms) * (0.5 + stream.random()))


# -- processes ---------------------------------------------------------------------------------------------------------


class Crash:
    """kill -9, or power loss, and a restart after a while."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {
            "down_ms": _spread(stream, 0, 20, 300, 1500, 4000),
            "power": stream.random() < 0.2,
        }

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        member = _member(pair, fault)
        if not member.up:
            return False
        member.kill(silently=bool(fault.args["power"]))
        _after(pair, fault, "down_ms", member.start_if_down)
        return True


class Pause:
    """SIGSTOP, and SIGCONT after a while. For an odd time its loop alone stands still."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"for_ms": _spread(stream, 100, 900, 3000)}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        member = _member(pair, fault)
        if member.process is None or member.process.paused:
            return False
        member.pause(hung=int(fault.args["for_ms"]) % 2 == 1)
        _after(pair, fault, "for_ms", member.resume)
        return True


class Clock:
    """A member's wall clock steps, in either direction."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"by_ms": stream.choice((-1, 1)) * _spread(stream, 50, 5_000, 86_400_000)}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        off_ms = pair.run.ambient.off_ms
        off_ms[fault.target] = off_ms.get(fault.target, 0) + int(fault.args["by_ms"])
        return True


class WrongVerdict:
    """A member believes that its peer is lost, and finds that its port refuses, whatever is true."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"refused": stream.random() < 0.7}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        return _member(pair, fault).believe_lost(refused=bool(fault.args["refused"]))


class Classifier:
    """A member's classifier is slow, silent or wrong, for a while; where nobody keeps the register, not wrong."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"mood": stream.choice(MOODS[1:]), "for_ms": _spread(stream, 500, 4000)}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        judging, mood = _member(pair, fault).judging, str(fault.args["mood"])
        if pair.run.judge == "register" or (pair.run.judge == "alone" and mood not in HARMLESS):
            return False
        judging.strike(mood)
        _after(pair, fault, "for_ms", judging.heal)
        return True


# -- the network -------------------------------------------------------------------------------------------------------


class Cut:
    """Nothing gets through in one direction, for a while."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(DIRECTIONS), {"for_ms": _spread(stream, 100, 700, 2500)}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        source, _, target = fault.target.partition(">")
        if pair.run.network.direction(source, target).cut:
            return False
        pair.run.network.cut(source, target)
        _after(pair, fault, "for_ms", lambda: pair.run.network.heal(source, target))
        return True


class ClientCut:
    """A member is cut off from the clients, in one direction or both."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"for_ms": _spread(stream, 100, 900, 2500), "ways": stream.choice((1, 2, 3))}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        network, ways, struck = pair.run.network, int(fault.args["ways"]), False
        for client in pair.run.clients:
            name = client.name
            for way, ends in ((1, (name, fault.target)), (2, (fault.target, name))):
                if ways & way and not network.direction(*ends).cut:
                    struck = True
                    network.cut(*ends)
                    _after(pair, fault, "for_ms", lambda ends=ends: network.heal(*ends))  # type: ignore[misc]  # bound now
        return struck


class Reset:
    """Connections between two machines break, at any byte; or nobody hears that they have."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        ends = stream.choice(("a b", "a b", "a b", "a *", "b *"))
        return ends, {"silently": stream.random() < 0.2}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        one, _, other = fault.target.partition(" ")
        others = [other] if other != "*" else [client.name for client in pair.run.clients]
        stream = pair.run.plan.stream(f"reset {fault.at_ms}")
        struck = False
        for name in others:
            for connection in pair.run.network.between(one, name):
                struck = True
                if fault.args["silently"]:
                    connection.go_silent()
                else:
                    connection.reset(stream)
        return struck


class SlowLink:
    """Packets take up to so much longer in one direction, each its own time, for a while."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(DIRECTIONS), {
            "up_to_ms": _spread(stream, 3, 30, 200),
            "for_ms": _spread(stream, 300, 2000),
        }

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        direction = pair.run.network.direction(*fault.target.split(">"))
        direction.hostile_s = float(fault.args["up_to_ms"]) / 1000

        def heal() -> None:
            direction.hostile_s = 0.0

        _after(pair, fault, "for_ms", heal)
        return True


# -- the register ------------------------------------------------------------------------------------------------------


class RegisterAway:
    """One member, or both, cannot reach the register: one way, both ways, or their connections are refused."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        target = stream.choice(("a", "b", "ab"))
        return target, {
            "for_ms": _spread(stream, 200, 1500, 4000),
            "how": stream.choice(("both", "answers", "refused")),
        }

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        how = fault.args["how"]
        for name in fault.target:
            route = pair.members[name].route
            route.cut(requests=how == "both", answers=how != "refused", refused=how == "refused")
            _after(pair, fault, "for_ms", route.heal)
        return True


class RegisterDown:
    """Its process is gone, with its machine or alone, and comes back with what it had acknowledged."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return "register", {"for_ms": _spread(stream, 50, 800, 3000), "silent": stream.random() < 0.5}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        if pair.run.registers.is_down:
            return False
        pair.run.registers.down(silent=bool(fault.args["silent"]))
        _after(pair, fault, "for_ms", pair.run.registers.up)
        return True


class LateSet:
    """A member's next sets arrive late: when their caller has given up, was started again, or long forgot.

    `skip`, in plans made by hand: so many sets are on time before.
    """

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"by_ms": _spread(stream, 600, 3000, 20_000), "count": stream.choice((1, 1, 3))}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        for _ in range(int(fault.args.get("skip", 0))):
            _member(pair, fault).route.delay_set(0.0)
        for _ in range(int(fault.args["count"])):
            _member(pair, fault).route.delay_set(float(fault.args["by_ms"]) / 1000)
        return True


class UnheardSet:
    """A member's next sets are made, and it never hears of it."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {"count": stream.choice((1, 1, 2))}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        _member(pair, fault).route.lose_answers(int(fault.args["count"]))
        return True


class RegisterLost:
    """The witness loses its disk and starts with an empty one: only while no member's copy is harmed.

    What its copy proved is gone: no old image after it.
    """

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return "register", {"for_ms": _spread(stream, 20, 600)}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        if pair.run.registers.is_down or _is_one_copy(pair):
            return False
        for member in pair.members.values():
            member.forget_image()
        pair.run.registers.down()
        pair.run.registers.wipe()
        _after(pair, fault, "for_ms", pair.run.registers.up)
        return True
