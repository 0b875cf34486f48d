"""The simulated classifier: what each member is answered about a lost peer, right or in one of five ways not.

It runs on the loop, in virtual time, behind the product's own runner, judge and gate, which decide what an answer may
do. `Oracle` knows what a right answer is; a `Judging` is one member's classifier over all its processes, in the mood
that a fault put it in.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from failover.classifier import OWN_FAULTS, Answer, SafetyClass, Verdict, by_authority
from failover.gate import MASTERS
from failover.marks import Role

if TYPE_CHECKING:
    from failover.classifier import Classifier, DomainFacts, Event, Outcome

NAME = "simulated"
RIGHT, SLOW, WRONG, FLAPPING, SILENT, CONTRADICTING = "right", "slow", "wrong", "flapping", "silent", "contradicting"
MOODS = (RIGHT, SLOW, WRONG, FLAPPING, SILENT, CONTRADICTING)
HARMLESS = (RIGHT, SLOW, SILENT)
"""Those in which it says nothing that is not true."""
ANSWER_S, SLOW_S_MAX = 0.05, 10.0
RETRY_MS = 500
"""After WAIT: how soon to ask again."""
_LETS_SERVE = (Verdict.CONTINUE_AS_MASTER, Verdict.ASSUME_MASTERSHIP)


@dataclass(frozen=True, slots=True)
class _Grant:
    member: str
    epoch: int


class Oracle:
    """What a right classifier says; one for both members, whose answers must fit together.

    With an authority everybody may ask it, and it decides. Without one nobody but this stands between two masters: who
    was answered to go on alone in an epoch is the only one to be answered so until a later epoch has reached both.
    """

    def __init__(self, is_up: Callable[[str], bool]) -> None:
        self._is_up = is_up
        self._grants: dict[str, _Grant] = {}

    def verdict(self, event: Event, *, given: bool = True) -> Verdict:
        """The right one for this event. It counts as given unless it is only asked for."""
        if event.authority != "none" or event.kind in OWN_FAULTS:
            return by_authority(event)
        wanted = _own_verdict(event)
        if wanted is Verdict.WAIT or not all(self._may(event.member, part) for part in event.domains):
            return Verdict.WAIT
        if wanted is Verdict.ASSUME_MASTERSHIP and self._is_up(event.peer):
            return Verdict.PEER_ALIVE  # the master will be ordered to continue
        for part in event.domains if given else ():
            self._grants[part.name] = _Grant(event.member, part.epoch)
        return wanted

    def _may(self, member: str, part: DomainFacts) -> bool:
        given = self._grants.get(part.name)
        return given is None or part.epoch > given.epoch or (member == given.member and part.epoch == given.epoch)


def _own_verdict(event: Event) -> Verdict:
    """What would let this member serve alone; WAIT where nothing may.

    Whoever has ceded its role may be followed, one epoch later, by a master that it has not heard of yet.
    """
    if any(part.role is Role.CEDING for part in event.domains):
        return Verdict.WAIT
    if event.is_master:
        return Verdict.CONTINUE_AS_MASTER
    if all(part.role in (Role.REPLICA, Role.PROBE) and part.data.is_good for part in event.domains):
        return Verdict.ASSUME_MASTERSHIP
    return Verdict.WAIT


class Judging:
    """One member's classifier; outlives its processes. `stream` belongs to it alone."""

    def __init__(self, oracle: Oracle, stream: random.Random) -> None:
        self.oracle = oracle
        self.mood = RIGHT
        self.calls: Counter[str] = Counter()
        """By mood."""
        self._stream = stream

    def strike(self, mood: str) -> None:
        """It answers like this until `heal`. Raises ValueError for a mood that there is not."""
        if mood not in MOODS:
            raise ValueError(f"a classifier knows no mood {mood!r}; it knows {', '.join(MOODS)}")
        self.mood = mood

    def heal(self) -> None:
        """It is right again, and quick."""
        self.mood = RIGHT

    def classifier(self) -> Classifier:
        """For one runner of one process."""
        return SimClassifier(self)

    def draw_delay_s(self) -> float:
        """How long it thinks; SILENT thinks for ever."""
        if self.mood == SLOW:
            return self._stream.random() * SLOW_S_MAX
        return self._stream.expovariate(1 / ANSWER_S)

    def draw_verdict(self, event: Event) -> Verdict | None:
        """What it says now, in its mood; None: nothing."""
        self.calls[self.mood] += 1
        match self.mood:
            case "wrong":
                return self._wrong(event)
            case "flapping":  # first this, then that
                return self._wrong(event) if self.calls[FLAPPING] % 2 else self.oracle.verdict(event)
            case "contradicting":  # whatever it said of this before
                return self._stream.choice(list(Verdict))
            case "silent":
                return None
            case _:
                return self.oracle.verdict(event)

    def _wrong(self, event: Event) -> Verdict:
        """Takes a dead peer for a live one, and a live one for dead."""
        right = self.oracle.verdict(event, given=False)
        if right in _LETS_SERVE:
            return self._stream.choice((Verdict.WAIT, Verdict.PEER_ALIVE, Verdict.FAILED_INSTANCE))
        masters = all(part.role in MASTERS for part in event.domains)
        return Verdict.CONTINUE_AS_MASTER if masters else Verdict.ASSUME_MASTERSHIP


class SimClassifier:
    """See `failover.classifier.Classifier`."""

    name = NAME
    safety = SafetyClass.B

    def __init__(self, judging: Judging) -> None:
        self._judging = judging

    async def classify(self, event: Event) -> Answer:
        """An answer after a while; a silent one may not come at all."""
        judging = self._judging
        await asyncio.sleep(judging.draw_delay_s())
        verdict = judging.draw_verdict(event)
        if verdict is None:
            await asyncio.get_running_loop().create_future()
        reason = f"simulated, {judging.mood}"
        return Answer(event.event_id, event.link_generation, verdict, reason, retry_ms=RETRY_MS, by=NAME)

    async def preflight(self) -> list[str]:
        """Always ready."""
        return []

    async def report(self, outcome: Outcome) -> None:
        """Learns nothing."""
