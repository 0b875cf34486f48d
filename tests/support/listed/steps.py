"""Says what can be done to a pair, step by step, as plain data; draws lists of steps, and carries nothing out.

The numbers of a step choose among what there is when it is carried out (the second lease of three, ...), so a list
with steps left out is still a list of steps.
"""

from __future__ import annotations

import random
from typing import NamedTuple

from hypothesis import strategies as st

# What is done, and how often compared with the others.
KINDS = {
    "send": 10,
    "receive": 9,
    "settle": 7,
    "reply": 3,
    "unit": 6,
    "transact": 2,
    "react": 6,
    "check": 2,
    "browse": 1,
    "look": 1,
    "again": 3,
    "create": 1,
    "update": 2,
    "purge": 1,
    "delete": 1,
    "alias": 1,
    "state": 1,
    "strike": 1,
    "calm": 1,
    "time": 2,
}
# What strikes a member or the way between them; each ends by itself.
FAULTS = ("kill master", "kill replica", "hand over", "pause master", "pause replica", "cut", "stop master")
NUMBERS = 3
NUMBER_MAX = 999
FAULT_SHARE = 20
"""One call of so many is struck while it is under way."""


class Fault(NamedTuple):
    """Strikes so long after the step has begun, and is over after a while."""

    kind: str
    after_us: int
    for_ms: int


class Choices:
    """Small numbers out of those of a step, one after the other."""

    def __init__(self, numbers: tuple[int, int, int]) -> None:
        first, second, third = numbers
        self._left = (third * (NUMBER_MAX + 1) + second) * (NUMBER_MAX + 1) + first

    def of(self, count: int) -> int:
        """From 0 on; 0 when there are no more."""
        self._left, found = divmod(self._left, count)
        return found


class Step(NamedTuple):
    kind: str
    via: str
    """The member that is asked first."""
    numbers: tuple[int, int, int] = (0, 0, 0)
    fault: Fault | None = None


_WEIGHTED = tuple(kind for kind, weight in KINDS.items() for _ in range(weight))
_LENGTHS_MS = (5, 250, 900)
_AFTER_US = (0, 400, 900, 1_500, 2_200, 3_000)

_faults = st.builds(Fault, st.sampled_from(FAULTS), st.sampled_from(_AFTER_US), st.sampled_from(_LENGTHS_MS))
_numbers = st.tuples(*[st.integers(0, NUMBER_MAX)] * NUMBERS)


def _step(kind: str, via: str, numbers: tuple[int, int, int], fault: Fault, *, struck: bool) -> Step:
    return Step(kind, via, numbers, fault if struck or kind == "strike" else None)


_steps = st.builds(
    _step,
    st.sampled_from(_WEIGHTED),
    st.sampled_from("ab"),
    _numbers,
    _faults,
    struck=st.integers(1, FAULT_SHARE).map(lambda number: number == FAULT_SHARE),
)


def lists_of(count: int) -> st.SearchStrategy[list[Step]]:
    """For Hypothesis: it leaves steps out of a list that fails."""
    return st.lists(_steps, min_size=count, max_size=count)


def drawn(stream: random.Random, fault_share: int = FAULT_SHARE) -> Step:
    """The next one of an endless run."""
    numbers = (stream.randint(0, NUMBER_MAX), stream.randint(0, NUMBER_MAX), stream.randint(0, NUMBER_MAX))
    fault = Fault(stream.choice(FAULTS), stream.choice(_AFTER_US), stream.choice(_LENGTHS_MS))
    kind, via = stream.choice(_WEIGHTED), stream.choice("ab")
    return _step(kind, via, numbers, fault, struck=not stream.randrange(fault_share))
