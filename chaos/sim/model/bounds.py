"""The bounds that `make model` searches to their end, each with its name. Decides nothing about a search.

Fine: each frame arrives alone, and a register call lands in one step and is answered in another. Coarse: both in one.
What is found with two faults is found coarse; the fine ones look between with one fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from chaos.sim.model.state import Bound

_CALM = Bound(operations=0, coarse=True)
_TWO = replace(_CALM, lone_epoch=2)
FULL: Mapping[str, Bound] = MappingProxyType(
    {
        "reset (one wrong verdict), fine": Bound(reset=1, operations=0),
        "crash, fine": Bound(crash=1, operations=0),
        "reset, operation": Bound(reset=1, coarse=True),
        "crash, operation": Bound(crash=1, coarse=True),
        "crash + reset": replace(_TWO, crash=1, reset=1),
        "two crashes": replace(_TWO, crash=2),
        "two resets": replace(_TWO, reset=2),
        "reset + late register call": replace(_CALM, reset=1, unknown=1),
        "crash + late register call": replace(_TWO, crash=1, unknown=1),
        "crash + witness outage": replace(_TWO, crash=1, outage=1),
        "reset, late reads": replace(_CALM, reset=1, late_reads=True, lone_epoch=1),
        "alone: reset, operation": Bound(reset=1, coarse=True, start="alone"),
        "alone: late register call, operation": Bound(unknown=1, coarse=True, start="alone"),
        "a lost tail: operation": Bound(coarse=True, start="tail"),
        "both crash, a last write is lost, operation": Bound(crash=2, lie=1, coarse=True, lone_epoch=2),
        "a lost disk": replace(_CALM, crash=1, wipe=1),
        "from nothing: crash": replace(_CALM, crash=1, start="nothing"),
        "handoff + crash, operation": Bound(handoff_a=1, crash=1, lone_epoch=2, coarse=True),
        "handoff + reset, operation": Bound(handoff_a=1, reset=1, lone_epoch=2, coarse=True),
        "handoff + deadline, operation": Bound(handoff_a=1, deadline=1, coarse=True),
        "handoff + reset + deadline": replace(_TWO, handoff_a=1, reset=1, deadline=1),
        "handoff + late register call, operation": Bound(handoff_a=1, unknown=1, coarse=True),
        "handoff + witness outage, operation": Bound(handoff_a=1, outage=1, coarse=True),
        "crossing handoffs + reset": replace(_TWO, handoff_a=1, handoff_b=1, reset=1),
        "crossing handoffs + crash": replace(_TWO, handoff_a=1, handoff_b=1, crash=1),
    }
)

REDUCED: Mapping[str, Bound] = MappingProxyType(
    {
        "reset, coarse": replace(_TWO, reset=1),
        "crash, coarse": replace(_TWO, crash=1),
        "an operation, fine": Bound(),
        "a last write is lost": Bound(crash=1, lie=1, coarse=True, lone_epoch=1, epoch=3),
        "from nothing, fine": Bound(operations=0, start="nothing"),
        "from nothing, crash": replace(_CALM, crash=1, start="nothing", lone_epoch=1, epoch=2),
        "handoff + witness outage": replace(_TWO, handoff_a=1, outage=1),
    }
)
"""In the normal test run: a few seconds."""
