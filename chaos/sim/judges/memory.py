"""What the judges of one simulated run remember while it lasts, and what clients report to them; it judges nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from chaos.sim.judges.invariants import Invariants
from chaos.sim.judges.links import Links
from chaos.sim.judges.places import Places
from chaos.sim.judges.proxy_points import Elsewhere
from chaos.sim.judges.publications import Publications
from chaos.sim.judges.sides import Sides
from chaos.sim.judges.units import Units

if TYPE_CHECKING:
    from chaos.sim.judges.rights import Event
    from chaos.sim.judges.weights import Asked


@dataclass(frozen=True, slots=True)
class Memory:
    """Of one pair: a pair that is made anew begins another one."""

    invariants: Invariants
    places: Places
    publications: Publications = field(default_factory=Publications)
    units: Units = field(default_factory=Units)
    links: Links = field(default_factory=Links)
    """One of both pairs."""
    sides: Sides = field(default_factory=Sides)
    weights: list[Asked] = field(default_factory=list)
    """What publishers and readers of routing weights asked and heard, in the order of their asking."""
    elsewhere: Elsewhere = field(default_factory=Elsewhere)
    """What macro queues gave of queues of another pair."""
    rights: list[Event] = field(default_factory=list)
    """What was asked and heard of rights, in the order of the asking."""
