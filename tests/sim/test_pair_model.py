"""Random operations at either member of a pair, with failovers between and during them, against the list model.

A simulated pair on virtual time, with the product's own managers, calls and client retries (`tests.support.listed`).
`make pair-model` does the same to real processes. A failure prints the steps as a story, and as code that repeats them.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from hypothesis import Phase, given, seed, settings
from hypothesis import strategies as st

from chaos.sim.bugs import planted
from replica.machine.apply import apply as applying
from replica.machine.apply import time
from replica.machine.plan import dead_letters, dropping
from replica.machine.state.queue import QueueState
from replica.machine.state.state import State
from tests.support import profiles
from tests.support.listed import admin, steps
from tests.support.listed.again import again
from tests.support.listed.steps import FAULTS, Step

pytestmark = pytest.mark.wide
EXAMPLES, STEPS = 500, 50
_kinds = st.sampled_from((*range(len(admin.CONFIGS)), 1))  # requests are drawn twice as often
met: Counter[str] = Counter()
"""What was asked and how it ended, and what struck, over all examples."""

LEAST = {
    **{f"{method} OK": 1_000 for method in ("Enqueue", "Dequeue", "Settle", "BrowsePage")},
    **{f"{method} OK": 100 for method in ("CheckCompletion", "CloseQueue", "CreateAlias", "DeleteQueue", "PurgeQueue")},
    **{f"{method} OK": 100 for method in ("UpdateQueue", "GetQueue")},
    **{f"{method} OK": 100 for method in ("Begin", "Commit", "Transact", "React")},
    "Rollback OK": 40,
    "Commit TXN_ABORTED": 20,
    **{f"Commit {reason}": 2 for reason in ("QUEUE_FULL", "REPLY_REQUIRED")},
    **{f"React {outcome}": 50 for outcome in ("APPLIED", "STORED", "LOCKED", "DISCARDED")},
    **{f"React in a unit: {outcome}": 20 for outcome in ("HELD", "STORED", "DISCARDED")},
    **{f"React {reason}": 20 for reason in ("REACTION_DISABLED", "BAD_REQUEST")},
    "kept reactions act": 20,
    "unit gone with its master": 20,
    "unit ended by time": 5,
    "Reply OK": 50,
    "OpenQueue OK": 20,
    "DeleteAlias OK": 5,
    **{f"struck {kind}": 100 for kind in FAULTS},
    **{f"Enqueue {reason}": 20 for reason in ("INVALID_STATE", "ENQUEUE_DISABLED")},
    **{f"Reply {reason}": 5 for reason in ("ALREADY_REPLIED", "LEASE_LOST")},
    "ConfigureQueue OK": 5,
    "UpdateQueue VERSION_MISMATCH": 20,
    "time passes": 500,
    "time kills": 30,
}
"""A run that has done less has shown nothing."""


def agree(with_settings: settings, first_seed: int | None = None) -> None:
    """So many lists of steps, each at a new pair."""

    @with_settings
    @given(st.tuples(_kinds, _kinds), steps.lists_of(STEPS))
    def each(kinds: tuple[int, int], done: list[Step]) -> None:
        met.update(again(kinds, done).asked)

    (each if first_seed is None else seed(first_seed)(each))()


def lacking() -> dict[str, int]:
    """What was met too rarely."""
    return {what: met[what] for what, least in LEAST.items() if met[what] < least}


# A failure is worth the minutes that it takes to make it small.
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_pair_and_the_model_agree() -> None:
    met.clear()
    agree(profiles.of(EXAMPLES))
    for more in (1, 2):  # what is drawn leans on the modules that happen to be imported
        if lacking():
            agree(profiles.of(EXAMPLES // 2), more)
    assert not lacking()


# -- it can fail -------------------------------------------------------------------------------------------------------


def requests_are_forgotten_by_the_next_master(patch: pytest.MonkeyPatch) -> None:
    original = applying._role

    def role(state: State, time_ms: int) -> Any:
        state.requests.load(iter(()), iter(()), 0)
        return original(state, time_ms)

    patch.setattr(applying, "_role", role)


def a_rejected_delivery_does_not_count(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(applying, "count_delivery", lambda *_: None)


def the_newest_is_dropped(patch: pytest.MonkeyPatch) -> None:
    def heads(queue: QueueState, messages: int, size: int, _leaving: object) -> Iterator[tuple[int, int, int]]:
        del size
        ready = [index for level in queue.ready for start, end in level for index in range(start, end)]
        for index in sorted(ready, reverse=True)[: max(0, messages)]:
            yield index, index + 1, 10

    patch.setattr(dropping, "_heads", heads)


def one_delivery_too_many(patch: pytest.MonkeyPatch) -> None:
    def deliveries_max(queue: QueueState) -> int:
        limit = dead_letters.deliveries_max(queue)
        return limit and limit + 1

    patch.setattr(time, "deliveries_max", deliveries_max)


SIMULATED = (
    "leases-lost-at-takeover",
    "repeated-dequeue-is-empty",
    "lease-cut-short",
    "rollback-not-counted",
    "units-outlive-their-master",
    "kept-used-again",
)
"""Of `chaos/sim/bugs`, which has more of units and of reactions."""
PLANTED: dict[str, Callable[[pytest.MonkeyPatch], None]] = {
    each.__name__: each
    for each in (
        requests_are_forgotten_by_the_next_master,
        a_rejected_delivery_does_not_count,
        the_newest_is_dropped,
        one_delivery_too_many,
    )
}


def must_differ() -> None:
    only_look = settings(profiles.of(EXAMPLES), phases=(Phase.generate,), report_multiple_bugs=False)
    with pytest.raises(AssertionError) as caught:
        agree(only_look)
    assert "copies" in str(caught.value) or "model" in str(caught.value), caught.value


@pytest.mark.slow
@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_bug_is_found(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    PLANTED[name](monkeypatch)
    must_differ()


@pytest.mark.slow
@pytest.mark.parametrize("name", SIMULATED)
def test_a_bug_of_the_simulator_is_found(name: str) -> None:
    with planted(name):
        must_differ()
