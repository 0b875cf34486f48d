"""Which named points a profile alone must meet: what a campaign of some profiles is asked for."""

from __future__ import annotations

from types import MappingProxyType

from chaos.sim.judges.links import AT_SOURCE, AT_TARGET, AWAY, FOUND_AGAIN
from chaos.sim.judges.macro_points import POINTS as MACRO_POINTS
from chaos.sim.judges.proxy_points import POINTS as PROXY_POINTS
from chaos.sim.judges.rights_points import POINTS as RIGHTS_POINTS
from chaos.sim.judges.rows import UNIT_AT_TAKEOVER
from chaos.sim.judges.sides import BY_QUESTION, KNOWN_OUTPUT, OTHERS_STATE, OVER_TAKEOVER, PLACE_LOST, SUSPENDED_SIDE

HOMES = MappingProxyType(
    {
        "units": (
            UNIT_AT_TAKEOVER,
            "a commit asked for again by a client that had died",
            "a unit known by its number alone",
            "a unit refused: the lease was lost",
            "a unit repeated after its answer, at either member",
            "an open unit committed",
            "an open unit rolled back",
            "an open unit was aborted",
            "puts came with their commit",
        ),
        "twins": (SUSPENDED_SIDE, OVER_TAKEOVER, PLACE_LOST, OTHERS_STATE, KNOWN_OUTPUT, BY_QUESTION),
        "links_between": (AT_SOURCE, AT_TARGET, AWAY, FOUND_AGAIN),
        "macro": tuple(MACRO_POINTS),
        "rights": tuple(RIGHTS_POINTS),
        "proxies": tuple(PROXY_POINTS),
        "reactions": (
            "a delayed message cancelled, moved or changed",
            "a kept reaction that acted on what arrived",
            "a kept reaction that acted on what came back",
            "a reaction carried out at several queues",
            "a reaction in a unit that its commit carried out",
            "a reaction in a unit that was left to its deadline",
            "a reaction in a unit that was rolled back",
            "a reaction repeated after its answer, at either member",
            "a reaction that acted: ask",
            "a reaction that acted: cancel",
            "a reaction that acted: change",
            "a reaction that acted: move",
            "a reaction that found its messages with a consumer",
            "a reactive message was sent by Enqueue",
        ),
    }
)
"""By profile. Those of other profiles are met by several together, and asked for over all of them."""
