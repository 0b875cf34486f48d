"""A whole pair inside the model: every step that may come next, and what must hold after it. Decides nothing itself.

Steps of the pair's own are free; faults, clients and operators have a budget.
"""

from __future__ import annotations

import traceback

from chaos.sim.model.core import NAME, Disk
from chaos.sim.model.member import MEMBERS, Call, Members, Moved, RuleBroken
from chaos.sim.model.state import (
    BUDGET,
    CALLS,
    CRASH,
    DEADLINE,
    FAR,
    GREETED,
    GREETED_A,
    GREETED_B,
    HANDOFF,
    KNOWN,
    LATE,
    LIE,
    LINK,
    LINKED,
    LONE,
    OPERATIONS,
    OUTAGE,
    PLENTY,
    REGISTER,
    RESET,
    UNKNOWN,
    WIPE,
    WIRE_A,
    WITNESS_AWAY,
    A,
    B,
    Bound,
    Budget,
    Known,
    Label,
    Numbers,
    Pending,
    State,
)
from failover.authority import MemoryRegisters, outcome_of
from failover.register import Register, RegisterState, SetOutcome


class BeyondBoundError(Exception):
    """The step claims an epoch that the bound leaves out."""

    def __init__(self, *, lone: bool) -> None:
        super().__init__("lone" if lone else "connected")
        self.lone = lone


class Keeper(MemoryRegisters):
    """The register, put back to where a state has it."""

    def answer(self, current: Register, call: Call) -> tuple[SetOutcome, Register | None]:
        """What comes of the call; the product's own rules decide."""
        self._registers[NAME] = current
        return outcome_of(self.set(NAME, call.expected, call.desired))


class Pair:
    """Successors of states, for one bound."""

    def __init__(self, bound: Bound) -> None:
        self.bound = bound
        self.members = Members(keeps_undo=bound.lie > 0)
        self.keeper = Keeper()
        self.wires: Numbers[tuple[tuple[int, ...], ...]] = Numbers()
        self.registers: Numbers[Register] = Numbers()
        self.pending: Numbers[Pending] = Numbers()
        self.calls: Numbers[tuple[int, ...]] = Numbers()
        self.known: Numbers[Known] = Numbers()
        self.budgets: Numbers[Budget] = Numbers()
        self.wires(())
        self.calls(())
        self.label: Label = ()
        """The step that is being tried."""
        self._pushed: dict[tuple[int, tuple[int, ...]], int] = {}
        self._fine: set[tuple[int, int, int]] = set()
        self._spent: dict[tuple[int, int], int] = {}
        self._arrivals: dict[tuple[int, ...], int] = {}
        self._answers: dict[int, int] = {}
        self._reads: dict[int, int] = {}
        event = self.members.event
        names = ("disk", "rebuilt", "received", "crash", "lose_disk", "lie", "start", "greet", "notice", "time")
        self._event = {name: event((name,)) for name in (*names, "deadline", "lost", "hand_over")}
        self._unreadable = event(("read", None))

    def blank(self) -> State:
        """Two members that are off, with empty disks, and a register that was never set."""
        known = self.known(Known((), ()))
        off = [self.members.off(member, Disk()) for member in (0, 1)]
        return (off[0], off[1], 0, 0, 0, self.registers(Register()), 0, 0, known, self.budgets(PLENTY))

    # -- steps -----------------------------------------------------------------------------------------------------

    def steps(self, state: State) -> list[tuple[Label, bool, State]]:
        """Each step that may come next: its name, whether it needs a budget, and the state after it.

        Raises RuleBroken where a check fails; `label` names the step then.
        """
        out: list[tuple[Label, bool, State]] = []
        for who in (0, 1):
            facts = self.members.facts[state[who]]
            if facts.up:
                self._own_steps(state, who, out)
                self._link_steps(state, who, out)
            else:
                self._go(out, state, ("starts", who), who, "start")
            self._asked_steps(state, who, out)
        self._register_steps(state, out)
        link = state[LINK]
        if not link & (LINKED | GREETED_A | GREETED_B):
            facts_a, facts_b = self.members.facts[state[A]], self.members.facts[state[B]]
            if facts_a.up and facts_b.up:
                self.label = ("connects", -1)
                out.append((self.label, False, self._connected(state)))
        return out

    def _go(
        self, out: list[tuple[Label, bool, State]], state: State, label: Label, who: int, event: str, spends: int = -1
    ) -> None:
        after = list(state)
        if spends >= 0:
            left = self._spend(state[BUDGET], spends)
            if left < 0:
                return
            after[BUDGET] = left
        self._try(out, state, after, label, who, self._event[event], costs=spends >= 0)

    def _try(
        self,
        out: list[tuple[Label, bool, State]],
        state: State,
        after: list[int],
        label: Label,
        who: int,
        event: int,
        *,
        costs: bool = False,
    ) -> None:
        self.label = label
        try:
            self._apply(after, who, event)
        except AssertionError as failed:
            raise RuleBroken(f"the core of {MEMBERS[who]} fails: {_where(failed)}") from failed
        except BeyondBoundError as beyond:
            out.append((label, costs, LONE if beyond.lone else FAR))
            return
        self._check(after)
        made = tuple(after)
        if made != state:
            out.append((label, costs, made))

    def _own_steps(self, state: State, who: int, out: list[tuple[Label, bool, State]]) -> None:
        facts = self.members.facts[state[who]]
        if facts.writes:
            self._go(out, state, ("is durable", who), who, "disk")
        if facts.can_rebuild:
            self._go(out, state, ("is rebuilt", who), who, "rebuilt")
        if facts.can_receive:
            self._go(out, state, ("is stored", who), who, "received")
        if facts.can_lose and not state[LINK] & GREETED[who]:
            self._go(out, state, ("is lost", who), who, "lost")
        if facts.serving or facts.role in ("PROBE", "MASTER_SUSPENDED"):
            self._go(out, state, ("time passes", who), who, "time")
        if facts.handing:
            self._go(out, state, ("deadline", who), who, "deadline", -1 if self._at_rest(state) else DEADLINE)

    def _at_rest(self, state: State) -> bool:
        """Nothing is under way but timers."""
        facts = self.members.facts
        busy = state[WIRE_A] or state[WIRE_A + 1] or state[CALLS]
        return not busy and not facts[state[A]].writes and not facts[state[B]].writes

    def _link_steps(self, state: State, who: int, out: list[tuple[Label, bool, State]]) -> None:
        link, greeted, incoming = state[LINK], GREETED[who], WIRE_A + 1 - who
        if link & greeted and state[incoming]:
            frames = self.wires.things[state[incoming]]
            after = list(state)
            after[incoming] = self.wires(frames[1:])
            event = self._arrivals.get(frames[0])
            if event is None:
                event = self._arrivals[frames[0]] = self.members.event(("frames", frames[0]))
            self._try(out, state, after, ("arrives", who, frames[0]), who, event)
        if link & greeted and not link & LINKED:
            after = list(state)
            after[LINK] &= ~greeted
            after[incoming] = 0
            self._try(out, state, after, ("notices", who), who, self._event["notice"])

    def _asked_steps(self, state: State, who: int, out: list[tuple[Label, bool, State]]) -> None:
        """Faults, clients, operators."""
        facts, budget = self.members.facts[state[who]], self.budgets.things[state[BUDGET]]
        if facts.up and budget.crash:
            self._crash(out, state, who, "crash")
            if budget.wipe:
                self._crash(out, state, who, "lose_disk")
            if budget.lie:
                self._crash(out, state, who, "lie")
        if who == A and budget.reset and state[LINK] & LINKED:
            self.label = ("breaks", -1)
            after = list(state)
            after[LINK] &= ~LINKED
            after[BUDGET] = self._spend(state[BUDGET], RESET)
            out.append((self.label, True, tuple(after)))
        if facts.can_order and budget.operations:
            after = list(state)
            after[BUDGET] = self._spend(state[BUDGET], OPERATIONS)
            number = PLENTY.crash + PLENTY.operations - budget.operations  # each budget gives another
            self._try(
                out, state, after, ("orders", who, number), who, self.members.event(("order", number)), costs=True
            )
        if facts.can_hand_over and (budget.handoff_a, budget.handoff_b)[who]:
            self._go(out, state, ("hands over", who), who, "hand_over", HANDOFF + who)

    def _crash(self, out: list[tuple[Label, bool, State]], state: State, who: int, how: str) -> None:
        after = list(state)
        after[BUDGET] = self._spend(state[BUDGET], CRASH)
        after[LINK] &= ~(LINKED | GREETED[who])
        after[WIRE_A + 1 - who] = 0
        calls, late = self.calls.things[state[CALLS]], set(self.calls.things[state[LATE]])
        things = self.pending.things
        late |= {call for call in calls if things[call].member == who and _may_land(things[call])}
        after[CALLS] = self.calls(tuple(call for call in calls if things[call].member != who))
        after[LATE] = self.calls(tuple(sorted(late)))
        self._tidy(after)
        label: Label = ("crashes", who)
        if how == "lose_disk":
            label = ("loses its disk", who)
            after[BUDGET] = self._spend(after[BUDGET], WIPE)
            after[who] = self.members.step(after[who], self._event["crash"]).local
        elif how == "lie":
            label = ("loses its last write", who)
            after[BUDGET] = self._spend(after[BUDGET], LIE)
            after[KNOWN] = self.known(self.known.things[after[KNOWN]]._replace(liar=who))
        self._try(out, state, after, label, who, self._event[how], costs=True)

    def _connected(self, state: State) -> State:
        after = list(state)
        after[LINK] |= LINKED | GREETED_A | GREETED_B
        for who in (0, 1):
            moved = self.members.step(state[who], self._event["greet"])
            after[WIRE_A + who] = self.wires((moved.frames,))
        return tuple(after)

    # -- the register ----------------------------------------------------------------------------------------------

    def _register_steps(self, state: State, out: list[tuple[Label, bool, State]]) -> None:
        away = state[LINK] & WITNESS_AWAY
        budget = self.budgets.things[state[BUDGET]]
        for number in self.calls.things[state[CALLS]]:
            pending = self.pending.things[number]
            if not away and not pending.outcome:
                self.label = ("lands", pending.member, pending.name)
                landed, number_then = self._landed(state, number, CALLS)
                outcome = self.pending.things[number_then].outcome
                if self.bound.coarse and pending.call is not None and outcome is not None:
                    self._answered(out, landed, number_then, outcome, costs=False)
                else:
                    out.append((self.label, False, landed))
            if not away and pending.outcome:
                self._answered(out, state, number, pending.outcome, costs=False)
            if away:
                self._answered(out, state, number, SetOutcome.UNKNOWN, costs=False)
            elif budget.unknown and pending.call is not None:
                self._answered(out, state, number, SetOutcome.UNKNOWN, costs=True)
        for number in self.calls.things[state[LATE]]:
            if not away:
                pending = self.pending.things[number]
                self.label = ("lands late", pending.member, pending.name)
                out.append((self.label, False, self._landed(state, number, LATE)[0]))
        if away or budget.outage:
            after = list(state)
            after[LINK] ^= WITNESS_AWAY
            if not away:
                after[BUDGET] = self._spend(state[BUDGET], OUTAGE)
            self.label = ("witness is back" if away else "witness goes away", -1)
            out.append((self.label, not away, tuple(after)))

    def _landed(self, state: State, number: int, where: int) -> tuple[State, int]:
        after = list(state)
        pending = self.pending.things[number]
        outcome, register = SetOutcome.DONE, self.registers.things[state[REGISTER]]
        if pending.call is not None:
            outcome, known = self.keeper.answer(register, pending.call)
            assert known is not None
            register = known
        if outcome is SetOutcome.DONE:
            after[REGISTER] = self.registers(register)
        rest = [call for call in self.calls.things[state[where]] if call != number]
        answered = self.pending(pending._replace(outcome=outcome, register=register))
        if where == CALLS:
            rest.append(answered)
        after[where] = self.calls(tuple(sorted(rest)))
        self._tidy(after)
        return tuple(after), answered

    def _answered(
        self, out: list[tuple[Label, bool, State]], state: State, number: int, outcome: SetOutcome, *, costs: bool
    ) -> None:
        pending = self.pending.things[number]
        after = list(state)
        after[CALLS] = self.calls(tuple(call for call in self.calls.things[state[CALLS]] if call != number))
        if costs:
            after[BUDGET] = self._spend(state[BUDGET], UNKNOWN)
        if outcome is SetOutcome.UNKNOWN and _may_land(pending):
            after[LATE] = self.calls(tuple(sorted({*self.calls.things[state[LATE]], number})))
        known = outcome is not SetOutcome.UNKNOWN
        key = 2 * number + known
        event = self._answers.get(key)
        if event is None:
            register = pending.register if known else None
            asked = ("read", register) if pending.call is None else ("answer", pending.call.purpose, outcome, register)
            event = self._answers[key] = self.members.event(asked)
        label = ("is answered" if known else "hears nothing", pending.member, pending.name, outcome)
        self._try(out, state, after, label, pending.member, event, costs=costs)

    def _tidy(self, after: list[int]) -> None:
        """A late call whose expected record is gone can do nothing any more."""
        late = self.calls.things[after[LATE]]
        if late:
            current = self.registers.things[after[REGISTER]]
            things = self.pending.things
            after[LATE] = self.calls(tuple(call for call in late if _expects(things[call], current)))

    # -- what a step of one member does to the pair ----------------------------------------------------------------

    def _apply(self, after: list[int], who: int, event: int) -> None:
        before = self.members.facts[after[who]]
        moved = self.members.step(after[who], event)
        after[who] = moved.local
        link = after[LINK]
        if moved.frames and link & LINKED:
            key = (after[WIRE_A + who], moved.frames)
            wire = self._pushed.get(key)
            if wire is None:
                sent = (moved.frames,) if self.bound.coarse else tuple((frame,) for frame in moved.frames)
                wire = self._pushed[key] = self.wires(self.wires.things[key[0]] + sent)
            after[WIRE_A + who] = wire
        if moved.broke_off:
            after[LINK] &= ~(LINKED | GREETED[who])
            after[WIRE_A + 1 - who] = 0
        if moved.calls:
            self._called(after, who, moved)
        facts = self.members.facts[moved.local]
        if facts.serving and not (before.serving and before.epoch == facts.epoch):
            self._begins(after, who)
        if moved.answered:
            self._on_answered(after, who, moved.answered)
        if moved.reads and self.bound.late_reads:
            reading = self.pending(Pending(who, self.members.locals[moved.local].incarnation, None))
            after[CALLS] = self.calls(tuple(sorted((*self.calls.things[after[CALLS]], reading))))
        elif moved.reads:
            read = self._unreadable
            if not link & WITNESS_AWAY:
                number = after[REGISTER]
                read = self._reads.get(number, -1)
                if read < 0:
                    read = self._reads[number] = self.members.event(("read", self.registers.things[number]))
            self._apply(after, who, read)

    def _called(self, after: list[int], who: int, moved: Moved) -> None:
        local = self.members.locals[moved.local]
        calls = list(self.calls.things[after[CALLS]])
        for call in moved.calls:
            if call.desired.state is RegisterState.CLAIMED:
                if not local.in_session and call.desired.epoch > self.bound.lone_epoch:
                    raise BeyondBoundError(lone=True)
                if call.desired.epoch > self.bound.epoch:
                    raise BeyondBoundError(lone=False)
            calls.append(self.pending(Pending(who, local.incarnation, call)))
        after[CALLS] = self.calls(tuple(sorted(calls)))

    # -- what must hold --------------------------------------------------------------------------------------------

    def _begins(self, after: list[int], who: int) -> None:
        facts, known = self.members.facts[after[who]], self.known.things[after[KNOWN]]
        owners = dict(known.owners)
        name = MEMBERS[who]
        if owners.setdefault(facts.epoch, who) != who:
            raise RuleBroken(f"epoch {facts.epoch} has two owners, {name} and {MEMBERS[1 - who]}")
        # What a later master has acknowledged is not for this one to know: it releases nothing without the peer.
        if any(digest not in facts.held for digest, epoch in known.answered if epoch <= facts.epoch):
            if who == known.liar and not facts.required_both:
                raise BeyondBoundError(lone=True)  # alone it cannot know (P20)
            raise RuleBroken(f"{name} serves epoch {facts.epoch} without an acknowledged operation")
        after[KNOWN] = self.known(known._replace(owners=tuple(sorted(owners.items()))))

    def _on_answered(self, after: list[int], who: int, answered: tuple[tuple[bytes, int], ...]) -> None:
        facts = [self.members.facts[after[member]] for member in (A, B)]
        operations, known = self.members.book.operations, self.known.things[after[KNOWN]]
        name, seen = MEMBERS[who], dict(known.answered)
        for digest, copies in answered:
            held = sum(digest in each.durable for each in facts)
            if held < copies and known.liar < 0:  # a disk that lies has answered for what it does not have
                raise RuleBroken(f"{name} answers copies={copies}, and {held} member(s) have the operation on disk")
            for other in seen:
                if other not in operations[digest] and digest not in operations[other]:
                    raise RuleBroken(
                        f"{name} acknowledges an operation of another history than one acknowledged before"
                    )
            for member, each in enumerate(facts):
                if each.serving and each.epoch >= facts[who].epoch and digest not in each.held:
                    raise RuleBroken(f"{name} acknowledges an operation that {MEMBERS[member]}, which serves, lacks")
            seen.setdefault(digest, facts[who].epoch)
        if len(seen) > len(known.answered):
            after[KNOWN] = self.known(known._replace(answered=tuple(sorted(seen.items()))))

    def _check(self, after: list[int]) -> None:
        """What a repetition is answered in this state."""
        key = (after[A], after[B], after[KNOWN])
        if key in self._fine:
            return
        for who in (0, 1):
            repeats = self.members.facts[after[who]].repeats
            if repeats:
                self._on_answered(after, who, repeats)
        self._fine.add((after[A], after[B], after[KNOWN]))

    def is_paired(self, state: State) -> bool:
        """Both members, one register, one log."""
        register = self.registers.things[state[REGISTER]]
        whole = register.state is RegisterState.COMMITTED and len(register.in_sync_set) == len(MEMBERS)
        if not whole or not state[LINK] & LINKED:
            return False
        holder = MEMBERS.index(register.holder)
        master, replica = self.members.facts[state[holder]], self.members.facts[state[1 - holder]]
        return (
            master.serving
            and master.epoch == register.epoch
            and master.required_both
            and replica.in_step
            and replica.epoch == master.epoch
            and master.tip == replica.tip
        )

    # -- budgets ---------------------------------------------------------------------------------------------------

    def _spend(self, budget: int, what: int) -> int:
        """The budget with one less of it; below 0: there is none."""
        key = (budget, what)
        left = self._spent.get(key)
        if left is None:
            had = self.budgets.things[budget]
            values = list(had)
            values[what] -= 1
            left = self._spent[key] = -1 if values[what] < 0 else self.budgets(Budget(*values))
        return left


def _may_land(pending: Pending) -> bool:
    return pending.call is not None and not pending.outcome


def _expects(pending: Pending, register: Register) -> bool:
    return pending.call is not None and pending.call.expected == register


def _where(failed: AssertionError) -> str:
    frames = traceback.extract_tb(failed.__traceback__)
    return f"{failed}, in {frames[-1].name}: {frames[-1].line}"
