"""The simulated witness and each member's way to it: answers as a witness does, late, twice delayed, or not at all.

What may follow what is decided by the product's own register (`MemoryRegisters`, `failover.register`); here are only
the ways in which a call ends (P1): done, refused, or *unknown*, when the set may have landed, may land in a second or
in a day, even after its caller was started again, or never. A `Route` outlives the processes that use it.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Callable
from contextvars import Context
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias, TypeVarTuple, Unpack

from failover.authority import CasOutcome, CasUnknown, MemoryRegisters, Unreachable
from failover.register import Register, RegisterState

DELAY_S = 0.0005
TAIL_SHARE, TAIL_S = 0.005, 1.5
"""One message in two hundred is up to so much later, which is later than its caller waits."""
RECONNECT_S = 0.5
TIMEOUT_S = 1.0

Found: TypeAlias = Register | CasOutcome
_Work: TypeAlias = Callable[[], Found]
_Answer: TypeAlias = "asyncio.Future[Found | str]"
_Args = TypeVarTuple("_Args")
_NOBODY = Context()


@dataclass(slots=True, eq=False)
class _Late:
    """A set that is still under way, its caller long gone."""

    work: _Work
    timer: asyncio.TimerHandle | None = None


class SimRegister(MemoryRegisters):
    """What the witness keeps, as long as its disk does."""

    def __init__(self, stream: random.Random) -> None:
        super().__init__(new_nonce=partial(stream.randbytes, 16))
        self.is_down = False
        self.is_silent = False
        """While it is down: nobody refuses a connection either, callers wait until they give up."""
        self.breaks = 0
        """How often every connection broke: watches start anew."""
        self.on_change: Callable[[str, Register, Register], None] = lambda _domain, _before, _after: None
        """Called for each set that was made: domain, register before and after."""
        self._images: dict[str, dict[str, Register]] = {}
        self._late: list[_Late] = []

    def begin_at(self, domain: str, epoch: int, holder: str) -> None:
        """As if a first claim had taken that epoch and its author had died before the commit: nobody is vouched for."""
        alone = frozenset({holder})
        self._registers[domain] = Register(1, epoch, holder, alone, frozenset(), RegisterState.CLAIMED, b"begin")

    def set(self, domain: str, expected: Register, desired: Register) -> CasOutcome:
        """See MemoryRegisters."""
        before = self.get(domain)
        outcome = super().set(domain, expected, desired)
        self._notify(domain, before)
        return outcome

    def force(self, domain: str, expected_version: int, epoch: int, holder: str, reason: str) -> CasOutcome:
        """See MemoryRegisters."""
        before = self.get(domain)
        outcome = super().force(domain, expected_version, epoch, holder, reason)
        self._notify(domain, before)
        return outcome

    def _notify(self, domain: str, before: Register) -> None:
        after = self.get(domain)
        if after != before:
            self.on_change(domain, before, after)

    def down(self, *, silent: bool = False) -> None:
        """Its process is gone; with its machine (`silent`), or alone."""
        self.is_down, self.is_silent = True, silent
        self.breaks += 1
        self.wake()

    def up(self) -> None:
        """It is back with what it had acknowledged, for it syncs before it answers."""
        self.is_down = False
        self.wake()

    def wipe(self) -> None:
        """Its disk was lost: nothing was ever set."""
        self._registers.clear()
        self._restarted()

    def snapshot(self, name: str = "") -> None:
        """Keep an image of it."""
        self._images[name] = dict(self._registers)

    def restore(self, name: str = "") -> bool:
        """Put an older image back; False when there is none of that name."""
        if name not in self._images:
            return False
        self._registers = dict(self._images[name])
        self._restarted()
        return True

    def _restarted(self) -> None:
        self.breaks += 1
        self.wake()

    def add_late(self, work: _Work, delay_s: float) -> None:
        """A set that arrives when its caller no longer waits."""
        late = _Late(work)
        late.timer = _later(delay_s, self._land, late)
        self._late.append(late)

    def land_late(self) -> int:
        """Every set that is still under way arrives now; how many there were."""
        count = len(self._late)
        while self._late:
            self._land(self._late[0])
        return count

    def _land(self, late: _Late) -> None:
        if late.timer is not None:
            late.timer.cancel()
        self._late.remove(late)
        if not self.is_down:
            late.work()


class Route:
    """One member's way to the register. `stream` belongs to it alone; `delay_s` 0 is no delay at all."""

    def __init__(self, member: str, register: SimRegister, stream: random.Random, *, delay_s: float = DELAY_S) -> None:
        self.member, self.register, self.delay_s = member, register, delay_s
        self.requests_lost = self.answers_lost = self.is_refused = False
        self.slow_factor = 1.0
        self.breaks = 0
        self.on_struck: Callable[[str], None] = lambda _kind: None
        """Called when a set met what was said of the next ones: "late_set" or "unheard_set"."""
        self._unheard = 0
        self._late_s: list[float] = []
        self._stream = stream

    # -- faults ----------------------------------------------------------------------------------------------------

    def cut(self, *, requests: bool = True, answers: bool = True, refused: bool = False) -> None:
        """This member's messages vanish, one way or both; or its connections are refused."""
        self.requests_lost, self.answers_lost, self.is_refused = requests, answers, refused
        self.breaks += 1
        self.register.wake()

    def heal(self) -> None:
        """Messages pass again, as fast as usual. A set that is late stays late."""
        self.requests_lost = self.answers_lost = self.is_refused = False
        self.slow_factor, self._unheard = 1.0, 0
        self._late_s.clear()
        self.register.wake()

    def lose_answers(self, count: int = 1) -> None:
        """The next sets are made, and their caller never hears of it."""
        self._unheard += count

    def delay_set(self, delay_s: float) -> None:
        """The next set for which nothing was said yet arrives so much later, whoever still waits; 0: it is on time."""
        self._late_s.append(delay_s)

    # -- messages --------------------------------------------------------------------------------------------------

    @property
    def is_open(self) -> bool:
        """Whether a message could come through from there to here."""
        return not (self.is_refused or self.answers_lost or self.requests_lost or self.register.is_down)

    def draw_delay_s(self) -> float:
        """How long one message is under way."""
        if not self.delay_s:
            return 0.0
        delay_s = self._stream.expovariate(1 / self.delay_s)
        if self._stream.random() < TAIL_SHARE:
            delay_s += self._stream.random() * TAIL_S
        return delay_s * self.slow_factor

    def draw_reconnect_s(self) -> float:
        """How long after an outage a watch is back."""
        return self._stream.random() * RECONNECT_S if self.delay_s else 0.0

    def send(self, work: _Work, answer: _Answer, *, is_set: bool) -> None:
        """A request is under way; `answer` is set when one comes back, to a text when the connection is refused."""
        if self.is_refused:
            _later(self.draw_delay_s(), _settle, answer, f"{self.member} cannot connect to the register")
        elif self.requests_lost:
            pass
        elif is_set and self._late_s and (late_s := self._late_s.pop(0)):
            self.on_struck("late_set")
            self.register.add_late(work, late_s)
        else:
            _later(self.draw_delay_s(), self._arrive, work, answer, is_set)

    def _arrive(self, work: _Work, answer: _Answer, is_set: bool) -> None:
        if self.register.is_down:
            if not self.register.is_silent:
                _later(self.draw_delay_s(), self._come_back, answer, "the register is down")
            return
        found = work()
        if is_set and self._unheard:
            self._unheard -= 1
            self.on_struck("unheard_set")
        else:
            _later(self.draw_delay_s(), self._come_back, answer, found)

    def _come_back(self, answer: _Answer, found: Found | str) -> None:
        if not self.answers_lost:
            _settle(answer, found)


def _later(delay_s: float, work: Callable[[Unpack[_Args]], object], *args: *_Args) -> asyncio.TimerHandle:
    """What is under way is nobody's: it arrives although its sender was killed meanwhile."""
    return asyncio.get_running_loop().call_later(delay_s, work, *args, context=_NOBODY)


def _settle(answer: _Answer, found: Found | str) -> None:
    if not answer.done():
        answer.set_result(found)


class SimAuthority:
    """The register as one process of a member sees it: the contract of `WitnessAuthority`, over a `Route`."""

    def __init__(self, route: Route, *, timeout_s: float = TIMEOUT_S) -> None:
        self.route, self.timeout_s = route, timeout_s
        self._no_answer = f"no answer within {timeout_s:g} s"
        self._connected = False

    @property
    def connected(self) -> bool:
        """See Authority."""
        return self._connected

    async def get(self, domain: str) -> Register | Unreachable:
        """See Authority."""
        found = await self._call(partial(self.route.register.get, domain), is_set=False)
        return found if isinstance(found, Register) else Unreachable(str(found))

    async def compare_and_set(self, domain: str, expected: Register, desired: Register) -> CasOutcome:
        """See Authority."""
        return _outcome(await self._call(partial(self.route.register.set, domain, expected, desired), is_set=True))

    async def force(self, domain: str, expected_version: int, epoch: int, holder: str, reason: str) -> CasOutcome:
        """See Authority."""
        work = partial(self.route.register.force, domain, expected_version, epoch, holder, reason)
        return _outcome(await self._call(work, is_set=True))

    async def watch(self, domain: str) -> AsyncIterator[Register]:
        """See Authority."""
        route, register = self.route, self.route.register
        changed = asyncio.Event()
        register.watches[changed] = None
        sent: Register | None = None
        breaks = self._breaks()
        try:
            while True:
                changed.clear()
                if breaks != self._breaks():
                    sent, breaks, self._connected = None, self._breaks(), False
                    await asyncio.sleep(route.draw_reconnect_s())
                    continue
                current = register.get(domain)
                if current == sent or not route.is_open:
                    await changed.wait()
                    continue
                sent = current
                await asyncio.sleep(route.draw_delay_s())
                if breaks == self._breaks():
                    self._connected = True
                    yield current
        finally:
            register.watches.pop(changed, None)

    async def close(self) -> None:
        """See Authority."""

    def _breaks(self) -> int:
        return self.route.breaks + self.route.register.breaks

    async def _call(self, work: _Work, *, is_set: bool) -> Found | str:
        loop = asyncio.get_running_loop()
        answer: _Answer = loop.create_future()
        self.route.send(work, answer, is_set=is_set)
        timer = loop.call_later(self.timeout_s, _settle, answer, self._no_answer)
        try:
            found = await answer
        finally:
            timer.cancel()
        self._connected = not isinstance(found, str)
        return found


def _outcome(found: Found | str) -> CasOutcome:
    if isinstance(found, str):
        return CasUnknown(found)
    assert not isinstance(found, Register)
    return found
