"""Two simulated pairs: clients of one use a queue of the other by the name of a proxy, while both are struck (M11)."""

from __future__ import annotations

from chaos.sim.draw.profiles import draw
from chaos.sim.judges.proxies import FOUND_AGAIN
from chaos.sim.tools.product import run


def test_what_goes_through_a_proxy_is_done_once_whatever_strikes_either_pair() -> None:
    """The books are those of the pair that has the queue, and its judges find nothing."""
    met: set[str] = set()
    for seed in range(1, 4):
        outcome = run(draw("proxies", seed))
        assert outcome.violations == []
        met.update(outcome.coverage)
    assert FOUND_AGAIN in met
