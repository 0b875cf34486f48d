"""Plays a drill on a stage: steady state, method, drain, probes; heals everything whatever happens."""

from __future__ import annotations

import asyncio
import secrets
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from chaos import checker, scenario
from chaos.account import Span
from chaos.drill.plan import Drill
from chaos.drill.stages import Stage
from chaos.drill.verdict import Line, lines, unseen, verdict
from chaos.faults import NO_NETWORK, NO_PRELOAD, Injector
from chaos.healing import heal
from chaos.history import History, Struck
from chaos.scenario import Result
from chaos.workload import Workload
from tandemq import aio
from tandemq.cli.view import PairView
from tandemq.errors import TandemqError

PATIENCE_S = 0.5
SHOW_S = 0.2
BEYOND_S = 15.0  # the drill is given up before its clients give up
BATCH, PRODUCERS = 5, 2
GIVEN_UP = "healing was ended before it was over; it is not known what is still hurt"
ACKED_SHARE_MIN = 0.05  # of what is sent while all is well; below it a drill proves nothing


class DrillError(RuntimeError):
    """The drill itself went wrong; the message ends with what is not healed, if anything is."""


class GuardError(RuntimeError):
    """The drill was not started, or was given up, to spare the pair."""


class Note(NamedTuple):
    """Something worth a line."""

    at_s: float
    phase: str  # steady, fault, healed, verify, rollback
    text: str


@dataclass(slots=True)
class Progress:
    """What there is to show while a drill runs. Times are the history's."""

    drill: Drill
    origin: str
    history: History = field(default_factory=History)
    struck: list[Struck] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)
    view: PairView | None = None
    now_s: float = 0.0


class Screen(Protocol):
    """What people see while a drill runs."""

    def note(self, note: Note) -> None: ...
    def show(self, progress: Progress) -> None: ...


class Healed(NamedTuple):
    """What healing at the end came to."""

    left: tuple[str, ...] = ()  # what could not be undone, a sentence each
    queue: str = ""  # why the drill's queue is still there

    @property
    def text(self) -> str:
        """For people."""
        said = f"NOT HEALED: {'; '.join(self.left)}" if self.left else "everything is healed"
        return f"{said}; {self.queue}" if self.queue else said


class Outcome(NamedTuple):
    """What a drill came to."""

    drill: Drill
    result: Result
    lines: list[Line]
    verdict: str
    progress: Progress
    seconds: float


class Player:
    """One drill on one stage. `play` once."""

    def __init__(self, drill: Drill, stage: Stage, screen: Screen) -> None:
        self._drill, self._stage, self._screen = drill, stage, screen
        interval_s = PRODUCERS * BATCH / drill.steady.rate
        self._workload = Workload(
            stage.pair,
            producers=PRODUCERS,
            batch=BATCH,
            interval_s=interval_s,
            queue=f"drill-{drill.name}-{secrets.token_hex(4)}",
            patience_s=PATIENCE_S,
            timeout_s=drill.rollback.pause_s_max + BEYOND_S,
            alone=stage.alone,
        )
        self.progress = Progress(drill, stage.origin, self._workload.history)
        self._injector = Injector(
            stage.pair, stage.hands, self._workload.history, lambda: self._workload.now_s, self.progress.struck
        )
        self._spans: list[Span] = []
        self._healing: asyncio.Task[Healed] | None = None
        self._given_up = False
        self.healed: Healed | None = None
        """None until healing has ended."""

    async def play(self) -> Outcome:
        """Raises GuardError, or DrillError; either way everything was healed that can be.

        A cancellation does not stop the healing, and comes out after it; only `give_up` ends it before.
        """
        began_s = time.monotonic()
        guards: list[str] = []
        failures: list[str] = []
        try:
            async with self._healed_at_end():
                await self._steady()
                async with self._redrawn(), self._workload.running():
                    try:
                        await self._warm_up()
                        await self._rounds()
                    except (RuntimeError, TandemqError, TimeoutError, OSError, ExceptionGroup) as error:
                        self.note("rollback", f"it went wrong, all is healed now: {'; '.join(_reasons(error))}")
                        raise
                    self.note("verify", "sending has ended; what is left is taken")
        except* GuardError as group:
            guards = _reasons(group)
        except* (RuntimeError, TandemqError, TimeoutError, OSError) as group:
            failures = _reasons(group)
        if failures:
            raise DrillError("; ".join([*failures, *guards]))
        if guards:
            raise GuardError("; ".join(guards))
        drill, history = self._drill, self._workload.history
        seconds = time.monotonic() - began_s
        checks = [check for check in checker.CHECKS if self._stage.alone or check not in checker.OF_A_QUIET_PAIR]
        result = scenario.judged(drill.name, 0, 0.0, history, self.progress.struck, self._spans, checks)
        floor = round(ACKED_SHARE_MIN * drill.steady.rate * self._workload.now_s)
        if result.account.acknowledged < floor:
            result.invalid.append(f"only {result.account.acknowledged} acknowledged, the floor is {floor}")
        result.invalid += unseen(drill, result.account)
        found = lines(drill, result.account, result.broken)
        return Outcome(drill, result, found, verdict(found, result.invalid), self.progress, seconds)

    # -- phases --------------------------------------------------------------------------------------------------

    async def _steady(self) -> None:
        for text in self._stage.mended:
            self.note("healed", f"left by an earlier drill: {text}")
        if self._drill.needs_network and self._stage.hands.network is None:
            raise GuardError(f"{NO_NETWORK}; nothing was hurt")
        if self._drill.needs_preload and self._stage.hands.preload is None:
            raise GuardError(f"{NO_PRELOAD}; nothing was hurt")
        within_s = self._drill.steady.whole_within_s
        try:
            await self._stage.pair.wait_for(PairView.whole, "whole before anything is hurt", within_s)
        except RuntimeError as error:
            raise GuardError(f"the steady state was not seen, nothing was hurt: {error}") from error
        self.note("steady", f"{self._stage.origin}: a master and a replica in sync")

    async def _warm_up(self) -> None:
        steady = self._drill.steady
        await self._workload.goes_on()
        before, began_s = len(self._workload.history.acked), time.monotonic()
        await asyncio.sleep(steady.warm_up_s)
        rate = (len(self._workload.history.acked) - before) / max(time.monotonic() - began_s, 0.1)
        if rate < steady.acknowledged_per_s_min:
            raise GuardError(
                f"the steady state was not seen, nothing was hurt: {rate:.0f} messages a second are acknowledged, "
                f"steady.acknowledged_per_s_min is {steady.acknowledged_per_s_min:g}"
            )
        self.note("steady", f"{rate:,.0f} messages a second are acknowledged")

    async def _rounds(self) -> None:
        drill = self._drill
        for number in range(1, drill.repeat + 1):
            from_s = self._workload.now_s
            what = ", ".join(f"{step.fault} {step.on}" for step in drill.method)
            self.note("fault", f"round {number} of {drill.repeat}: {what}")
            async with asyncio.timeout(drill.round_s + drill.rollback.within_s):
                await self._unless_it_stands_still(drill)
            self._spans.append(Span(from_s, max(each.to_s for each in self.progress.struck)))
            self.note("healed", f"round {number}: healed, the pair is whole")
            await self._workload.goes_on()
            await asyncio.sleep(drill.quiet_s)

    async def _unless_it_stands_still(self, drill: Drill) -> None:
        """One round; given up when nothing is acknowledged for too long."""
        round_task = asyncio.create_task(self._injector.round([step.struck() for step in drill.method]))
        acked, since_s = len(self._workload.history.acked), time.monotonic()
        try:
            while not round_task.done():
                await asyncio.wait([round_task], timeout=SHOW_S)
                if len(self._workload.history.acked) > acked:
                    acked, since_s = len(self._workload.history.acked), time.monotonic()
                elif time.monotonic() - since_s > drill.rollback.pause_s_max:
                    raise GuardError(f"given up: nothing was acknowledged for {drill.rollback.pause_s_max:g} s")
            await round_task
        finally:
            round_task.cancel()
            await asyncio.gather(round_task, return_exceptions=True)

    # -- healing -------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _healed_at_end(self) -> AsyncIterator[None]:
        try:
            yield
        finally:
            cancelled = await self._healing_ended()
            self.healed = self._found()
            self.note("rollback", self.healed.text)
            if self.healed.left:
                raise DrillError(f"not healed: {'; '.join(self.healed.left)}")
            if cancelled:
                raise asyncio.CancelledError

    async def _healing_ended(self) -> bool:
        """Healing is over; whether somebody wanted to cancel it meanwhile."""
        cancelled = False
        self._healing = asyncio.create_task(self._heal())
        if self._given_up:
            self._healing.cancel()
        while not self._healing.done():
            try:
                await asyncio.wait([self._healing])
            except asyncio.CancelledError:
                cancelled = True
        return cancelled

    def _found(self) -> Healed:
        assert self._healing is not None
        if self._healing.cancelled():
            return Healed((GIVEN_UP,), f"queue {self._workload.queue} may be left")
        return self._healing.result()

    def give_up(self) -> None:
        """Heals no more: whatever is hurt stays hurt."""
        self._given_up = True
        if self._healing is not None:
            self._healing.cancel()

    async def _heal(self) -> Healed:
        """Undoes whatever a fault may have left."""
        left, is_whole = await heal(self._stage.pair, self._stage.hands, self._drill.rollback.within_s)
        queue = f"queue {self._workload.queue} is left"
        return Healed(tuple(left), await self._remove_queue() if is_whole else queue if self._workload.began else "")

    async def _remove_queue(self) -> str:
        """Why it could not be removed."""
        pair = self._stage.pair
        async with aio.connect(pair.target, timeout=10.0, credentials=pair.credentials) as client:
            try:
                await client.delete_queue(self._workload.queue)
            except TandemqError as error:
                if error.reason != "QUEUE_NOT_FOUND":  # it was given up before there was one
                    return f"queue {self._workload.queue} is left: {error}"
        return ""

    # -- notes ---------------------------------------------------------------------------------------------------

    @asynccontextmanager
    async def _redrawn(self) -> AsyncIterator[None]:
        task = asyncio.create_task(self._show())
        try:
            yield
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)

    async def _show(self) -> None:
        while True:
            self.progress.view = await self._stage.pair.status()
            self.progress.now_s = self._workload.now_s
            self._screen.show(self.progress)
            await asyncio.sleep(SHOW_S)

    def note(self, phase: str, text: str) -> None:
        """A line for the screen and the journal."""
        note = Note(round(self._workload.now_s, 3), phase, text)
        self.progress.notes.append(note)
        self._screen.note(note)


def _reasons(error: BaseException) -> list[str]:
    """What went wrong, out of nested groups, each once."""
    if isinstance(error, BaseExceptionGroup):
        return list(dict.fromkeys(line for inner in error.exceptions for line in _reasons(inner)))
    return [str(error) or "it took too long"]
