"""Kinds of fault that strike what is between two pairs, or the second one as a whole, one class
each, as in `machines`.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from chaos.sim.faults.kinds import MEMBERS, OTHER, Drawn
from chaos.sim.faults.machines import _after, _spread
from chaos.sim.pair.member import endpoint_of

if TYPE_CHECKING:
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import Fault

BETWEEN = ("ab",)
"""Links and proxies lead from one pair to the other."""


class LinkCut:
    """Members of the second pair are cut off from the first one, in one direction or both; or connections between them
    break, at any byte.
    """

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return "ab", {
            "from": stream.choice((*OTHER, "cd", "cd")),
            "ways": stream.choice((1, 2, 3)),
            "for_ms": _spread(stream, 100, 900, 2500),
            "breaks": stream.random() < 0.4,
        }

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        network, ways, struck = pair.run.network, int(fault.args["ways"]), False
        stream = pair.run.plan.stream(f"link cut {fault.at_ms}")
        for one, other in ((one, other) for one in fault.target for other in str(fault.args["from"])):
            if fault.args["breaks"]:
                for connection in network.between(one, other):
                    connection.reset(stream)
                    struck = True
                continue
            for way, ends in ((1, (one, other)), (2, (other, one))):
                if ways & way and not network.direction(*ends).cut:
                    struck = True
                    network.cut(*ends)
                    _after(pair, fault, "for_ms", lambda ends=ends: network.heal(*ends))  # type: ignore[misc]  # bound now
        return struck


class Hang:
    """Both members of the second pair stand still (SIGSTOP): it takes calls, and answers none."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return "".join(OTHER), {"for_ms": _spread(stream, 400, 1_500, 3_500)}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        struck = [each for each in pair.members.values() if each.process is not None and not each.process.paused]
        for member in struck:
            member.pause()
            _after(pair, fault, "for_ms", member.resume)
        return bool(struck)


class Impostor:
    """Where the first pair knows the second one, another manager answers: a member of the first pair itself."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return "ab", {"to": stream.choice(MEMBERS), "for_ms": _spread(stream, 100, 900, 2_500)}

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        network, stream = pair.run.network, pair.run.plan.stream(f"impostor {fault.at_ms}")
        if network.moved:
            return False
        for machine, other in ((machine, other) for machine in fault.target for other in OTHER):
            network.move(machine, endpoint_of(other), endpoint_of(str(fault.args["to"])), stream)
        _after(pair, fault, "for_ms", lambda: heal(pair))
        return True


def heal(pair: Pair) -> None:
    """Each address leads where it led at first."""
    network = pair.run.network
    stream = pair.run.plan.stream(f"impostors end {network.loop.now}")
    for machine, address in list(network.moved):
        network.move(machine, address, "", stream)
