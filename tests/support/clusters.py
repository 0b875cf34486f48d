"""The pairs that tests start: patient ones, and quick ones where it matters how soon a silent peer is lost.

A pause of the machine is silence too. Whoever shows that nothing changes, or only uses a pair, has a patient one: its
members lose each other by what is certain, a port at which nobody listens any more, and by no clock. Whoever freezes a
member, or cuts or wears a wire, asks for the product's own times by name.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from chaos.cluster import Cluster
from tandemq.config import Timers
from tests.support.until import OUTER_S

QUICK = Timers()
PATIENT = Timers(lost_ms=60_000, hung_ms=60_000)


def patient(data_dir: Path, **settings: Any) -> Cluster:
    """Not relayed: a relay whose target has died refuses nobody."""
    assert "timers" in settings or not settings.get("relayed")
    return Cluster(data_dir, **{"timers": PATIENT, "ready_s": OUTER_S, **settings})


def quick(data_dir: Path, **settings: Any) -> Cluster:
    """With the times that the product has of itself."""
    return Cluster(data_dir, **{"timers": QUICK, "ready_s": OUTER_S, **settings})
