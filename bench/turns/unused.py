"""What a message costs that has nothing to do with what is measured: instructions, beside those of before."""

from __future__ import annotations

import json

from bench.guard.run import BASELINE, GuardError, about, counted
from bench.turns.figures import Bound, Figure, Missing, Turn


def unused(*, quick: bool) -> Figure | Missing:
    """Every workload of `make guard` is a turn; in a quick run, one of them."""
    baseline = json.loads(BASELINE.read_text(encoding="utf-8"))
    names = list(baseline["figures"])
    try:
        now = counted(names[:1] if quick else ())
        surroundings = about()
    except (GuardError, FileNotFoundError) as failure:
        return Missing(str(failure))
    if other := [name for name, value in surroundings.items() if baseline["about"].get(name) != value]:
        return Missing(f"the baseline was counted with another {', '.join(other)}")
    turns = [Turn(now[name], before) for name, before in baseline["figures"].items() if name in now]
    what = "instructions of each workload of make guard / those of bench/results/guard.json"
    return Figure(what, "instructions a batch", Bound(1.03), turns)
