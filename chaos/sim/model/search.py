"""Breadth first through every state that a bound allows; finds the shortest way to a state that must not be. Never
decides what a step does.

Every state is kept whole, as a tuple of small numbers (no hash stands in for one), with the state it was reached from
and the free steps that lead out of it: about 400 bytes for each. At the end the free steps are walked backwards from
all states that are a pair, or beyond the bound, or wait for an operator: what is not met is stuck.
"""

from __future__ import annotations

import time
from array import array
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TYPE_CHECKING

from chaos.sim.model.core import NOW_MS
from chaos.sim.model.member import MEMBERS, RuleBroken
from chaos.sim.model.pair import Pair
from chaos.sim.model.starts import first_state
from chaos.sim.model.state import FAR, LINK, LINKED, LONE, REGISTER
from failover.marks import Role
from failover.promotion import Why, row_of
from tandemq.peer.v1.peer_service_pb2 import PeerFrame

if TYPE_CHECKING:
    from collections.abc import Callable

    from chaos.sim.model.state import Bound, Label, State

OPERATOR = (Why.NONE_ELIGIBLE, Why.BLANK_UNCLEAR)
"""What a connected member without a role says when only a person can go on."""
PROGRESS_STATES = 100_000


@dataclass(slots=True)
class Found:
    """What a search came to."""

    states: int = 0
    transitions: int = 0
    depth: int = 0
    seconds: float = 0.0
    """Of processor time: what else runs on the machine does not count."""
    core_steps: int = 0
    """Times that the product's core was run; all other steps were known from then on."""
    pairs: int = 0
    """States that are a pair at rest."""
    beyond: int = 0
    """States with a step that the bound leaves out."""
    operator: int = 0
    """States in which only a person can go on."""
    complete: bool = True
    """Every state was looked at; else the search had to stop at so many."""
    broken: str = ""
    trace: list[str] = field(default_factory=list)


class Search:
    """One bound, searched to its end or to the first violation."""

    def __init__(self, bound: Bound, *, states_max: int = 0, progress: Callable[[str], None] | None = None) -> None:
        self.pair = Pair(bound)
        self.states_max = states_max
        self.progress = progress
        self.number_of: dict[State, int] = {}
        self.states: list[State] = []
        self.came_from = array("I")
        self.sources, self.targets = array("I"), array("I")
        """Free steps."""
        self.ends: list[int] = []
        """Numbers of states from which nothing more is asked."""
        self.found = Found()

    def run(self) -> Found:
        """Searches; the first violation ends it."""
        began, found = time.process_time(), self.found
        at = 0
        try:
            self._keep(first_state(self.pair), 0)
            at = self._explore()
        except RuleBroken as broken:
            at = self._expanding
            found.broken = str(broken)
            found.trace = [*self._steps_to(at), self._sentence(self.pair.label)]
        found.states, found.core_steps = len(self.states), self.pair.members.ran
        if not found.broken and found.complete:
            self._find_stuck()
        found.depth = self._depth()
        found.seconds = round(time.process_time() - began, 1)
        return found

    # -- forwards --------------------------------------------------------------------------------------------------

    _expanding = 0

    def _keep(self, state: State, parent: int) -> int:
        number = len(self.states)
        self.number_of[state] = number
        self.states.append(state)
        self.came_from.append(parent)
        return number

    def _explore(self) -> int:
        pair, number_of, states, found = self.pair, self.number_of, self.states, self.found
        sources, targets = self.sources, self.targets
        at = 0
        while at < len(states):
            state = states[at]
            self._expanding = at
            beyond = False
            for _, costs, after in pair.steps(state):
                found.transitions += 1
                number = number_of.get(after)
                if number is None:
                    if after is LONE or after is FAR:
                        beyond |= after is LONE
                        continue
                    number = self._keep(after, at)
                if not costs:
                    sources.append(at)
                    targets.append(number)
            self._note(at, state, beyond=beyond)
            at += 1
            if self.states_max and len(states) > self.states_max:
                found.complete = False
                break
            if self.progress is not None and at % PROGRESS_STATES == 0:
                self.progress(f"{at} states looked at, {len(states) - at} to go")
        return at

    def _note(self, at: int, state: State, *, beyond: bool) -> None:
        found = self.found
        if self.pair.is_paired(state):
            found.pairs += 1
            self.ends.append(at)
        elif beyond:
            found.beyond += 1
            self.ends.append(at)
        elif self.waits_for_operator(state):
            found.operator += 1
            self.ends.append(at)

    def waits_for_operator(self, state: State) -> bool:
        """Two connected members of which neither may go on, and both say so; or two histories."""
        if not state[LINK] & LINKED:
            return False
        members = self.pair.members
        locals_ = [members.locals[state[who]] for who in (0, 1)]
        facts = [members.facts[state[who]] for who in (0, 1)]
        if any(each.role == Role.DIVERGED.name for each in facts):
            return True
        if any(each.role != Role.PROBE.name or not each.in_session for each in facts):
            return False
        return all(row_of(members.woken(local).mastership.facts(NOW_MS)).why in OPERATOR for local in locals_)

    # -- backwards -------------------------------------------------------------------------------------------------

    def _find_stuck(self) -> None:
        count = len(self.states)
        first = array("I", bytes(4 * (count + 1)))
        for target in self.targets:
            first[target + 1] += 1
        for number in range(count):
            first[number + 1] += first[number]
        place = array("I", first)
        before = array("I", bytes(4 * len(self.sources)))
        for source, target in zip(self.sources, self.targets, strict=True):
            before[place[target]] = source
            place[target] += 1
        met = bytearray(count)
        todo = self.ends[:]
        for number in todo:
            met[number] = 1
        while todo:
            number = todo.pop()
            for source in before[first[number] : first[number + 1]]:
                if not met[source]:
                    met[source] = 1
                    todo.append(source)
        stuck = met.find(0)
        if stuck >= 0:
            number = met.count(0)
            self.found.broken = f"no way back to a pair, from {number} of {count} states"
            self.found.trace = [*self._steps_to(stuck), f"stuck: {self.describe(self.states[stuck])}"]

    # -- words -----------------------------------------------------------------------------------------------------

    def _way_to(self, number: int) -> list[int]:
        way = [number]
        while way[-1]:
            way.append(self.came_from[way[-1]])
        return way[::-1]

    def _depth(self) -> int:
        return len(self._way_to(len(self.states) - 1)) - 1 if self.states else 0

    def _steps_to(self, number: int) -> list[str]:
        way = self._way_to(number)
        out = []
        for before, after in pairwise(way):
            wanted = self.states[after]
            out.append(
                next(self._sentence(label) for label, _, s in self.pair.steps(self.states[before]) if s == wanted)
            )
        return out

    def _sentence(self, label: Label) -> str:
        if not label:
            return "at the start"
        name, who, *rest = label
        parts = [MEMBERS[who].upper()] if isinstance(who, int) and who >= 0 else []
        if name == "arrives" and isinstance(rest[0], tuple):
            parts.append("reads " + ", ".join(self._frame_words(number) for number in rest[0]))
        else:
            parts += [str(name), *(str(word) for word in rest)]
        return " ".join(parts)

    def _frame_words(self, number: int) -> str:
        frame = self.pair.members.frames[number]
        if not isinstance(frame, PeerFrame):
            return f"the whole state up to {frame[2]}"
        if frame.HasField("hello"):
            said = frame.hello.domains[0]
            epochs = f"epoch {said.epoch} promised {said.promised_epoch}"
            return f"HELLO ({Role(said.role).name} {epochs} last {said.last_index})"
        kind = str(frame.WhichOneof("frame")).upper()
        extra = ""
        if frame.HasField("op"):
            extra = f" {len(frame.op.entries)} record(s), commit {frame.op.commit_index}"
        elif frame.HasField("op_ack"):
            extra = f" {frame.op_ack.durable_index}"
        return f"{kind} (epoch {frame.epoch}{extra})"

    def describe(self, state: State) -> str:
        """Both members and the register, for a person."""
        members = self.pair.members
        parts = []
        for who, name in enumerate(MEMBERS):
            local, facts = members.locals[state[who]], members.facts[state[who]]
            if local.core is None:
                parts.append(f"{name.upper()} is off")
                continue
            core = members.woken(local)
            shared = core.shared
            why = row_of(core.mastership.facts(NOW_MS)).why.value
            parts.append(
                f"{name.upper()} {facts.role} epoch {facts.epoch} promised {shared.state.promised_epoch} "
                f"{shared.state.data.name} log {shared.log.last_index} commit {shared.progress.commit_index} "
                f"{shared.link.name} source {core.source.phase.name} opened {core.target.opened} "
                f"handoff {core.handoff.state.value}; the table says: {why}"
            )
        register = self.pair.registers.things[state[REGISTER]]
        names = "{" + ",".join(sorted(register.in_sync_set)) + "}"
        parts.append(f"register: epoch {register.epoch} {register.holder} {names} {register.state.name}")
        return ". ".join(parts)
