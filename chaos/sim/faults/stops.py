"""The kind of fault that is none: a member gets the signal to stop, does so in good order, and is started again."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from chaos.sim.faults.kinds import MEMBERS, Drawn
from chaos.sim.faults.machines import _member, _spread

if TYPE_CHECKING:
    from chaos.sim.pair.members import Pair
    from chaos.sim.pair.plan import Fault


class Stop:
    """SIGTERM, as a supervisor sends it: kill -9 for who is not done within its time, and a restart after a while."""

    @staticmethod
    def draw(stream: random.Random) -> Drawn:
        return stream.choice(MEMBERS), {
            "within_ms": _spread(stream, 4, 300, 8000),
            "down_ms": _spread(stream, 0, 20, 300, 1500),
        }

    @staticmethod
    def strike(pair: Pair, fault: Fault) -> bool:
        within_ms, down_ms = float(fault.args["within_ms"]), float(fault.args["down_ms"])
        return _member(pair, fault).stop(within_ms / 1000, down_ms / 1000)
