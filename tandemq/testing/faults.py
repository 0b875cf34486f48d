"""Faults for tests: struck for a time, held for a block, or drawn from the test's seed; it decides no outcome."""

from __future__ import annotations

import random
from collections.abc import Sequence
from types import TracebackType
from typing import Any

from tandemq.testing.host import Host, TandemqTestError

FOR_S_MAX = 60.0
KINDS = ("kill", "freeze", "cut", "one-way", "reset", "slow", "flap", "isolate", "no-witness", "handoffs")
HELD = tuple(kind for kind in KINDS if kind not in ("flap", "handoffs"))  # the others go on by themselves
STORM = ("kill", "freeze", "cut", "one-way", "isolate", "handoffs")
ROLES = ("master", "replica")
SLOW_S = 0.15


class Held:
    """A fault that holds for a block; see Chaos.held."""

    def __init__(self, host: Host, fault: dict[str, Any]) -> None:
        self._host, self._fault = host, fault
        self._hold = 0

    def __enter__(self) -> list[str]:
        found = self._host.ask("hold", fault=self._fault)
        self._hold = found["hold"]
        return list(found["members"])

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None or issubclass(kind, Exception):  # after Ctrl-C all of the pair is ended anyway
            self._host.ask("release", hold=self._hold, whole=kind is None)


class Chaos:
    """Given by the fixture `tandemq_chaos`: Toxiproxy carries every word between the members and to the witness.

    | kind | what happens |
    |---|---|
    | `kill`, `freeze` | the process is killed with -9 and started again; is stopped and goes on |
    | `cut`, `one-way` | no word between the members; no word of the one that is named |
    | `reset`, `flap`, `slow` | connections are reset; the link comes and goes; each way takes `delay_s` longer |
    | `isolate`, `no-witness` | it is cut off from its peer and the witness; from the witness alone |
    | `handoffs` | one handoff after the other |

    `on` is "master", "replica", "both" or a member's name. What has no effect that can be seen makes the verdict of
    `tandemq_workload` invalid. All raise TandemqTestError; everything is healed at the end whatever happens.
    """

    def __init__(self, host: Host, seed: int) -> None:
        self._host = host
        self.seed = seed
        self.random = random.Random(seed)
        """For what the test draws by itself."""

    def strike(self, kind: str, on: str = "master", for_s: float = 2.0, *, delay_s: float = SLOW_S) -> list[str]:
        """In force for that long; returns when it is healed and the pair is whole, with who was struck."""
        fault = _fault(kind, on, for_s, delay_s, KINDS)
        return [name for struck in self._host.ask("strike", faults=[fault]) for name in struck["members"]]

    def held(self, kind: str, on: str = "master", *, delay_s: float = SLOW_S) -> Held:
        """In force while the `with` block runs, which is given who was struck; after it all is healed.

        It then waits until the pair is whole, unless the block was left by an exception.
        """
        return Held(self._host, _fault(kind, on, 0.0, delay_s, HELD))

    def storm(self, rounds: int = 3, kinds: Sequence[str] = STORM, for_s: float = 2.0) -> list[str]:
        """That many faults one after the other, each drawn from the seed: what, at whom, for how long. Returns them."""
        told = []
        for _ in range(rounds):
            kind, on = self.random.choice(list(kinds)), self.random.choice(ROLES)
            length_s = round(self.random.uniform(0.7, 1.3) * for_s, 2)
            told.append(f"{kind} of {on} for {length_s:g} s")
            self.strike(kind, on, length_s)
        return told

    def heal(self) -> None:
        """Takes everything back, starts who is gone, and waits until the pair is whole."""
        self._host.ask("heal")


def _fault(kind: str, on: str, for_s: float, delay_s: float, known: Sequence[str]) -> dict[str, Any]:
    if kind not in known:
        held = "; it goes on by itself: use strike" if kind in KINDS else ""
        raise TandemqTestError(f"no fault {kind!r} here{held}; there are {', '.join(known)}")
    if not 0 <= for_s <= FOR_S_MAX:
        raise TandemqTestError(f"for_s is {for_s:g}: give at most {FOR_S_MAX:g} s")
    return {"kind": kind, "on": on, "for_s": for_s, "delay_s": delay_s}
