"""Kinds of fault that strike what is between two pairs, one class each, as in `machines`."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from chaos.sim.faults.kinds import OTHER, Drawn
from chaos.sim.faults.machines import _after, _spread

if TYPE_CHECKING:
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import Fault

BETWEEN = ("ab",)
"""Links lead from one pair to the other."""


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
