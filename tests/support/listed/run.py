"""Carries out steps at a pair and at the model, and compares every answer; knows neither processes nor simulators.

A call is made until it is answered, whatever strikes meanwhile, as clients repeat it under its request id; so it has
one effect, and the model does it once. What ends by itself is stepped over: before a call that may take long nothing
may end soon, so no call depends on who was first.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Any, Protocol

from google.protobuf.message import Message as Proto

from tandemq.client.calls import QUEUE_SERVICE, TRANSACTION_SERVICE
from tandemq.errors import TandemqError
from tandemq.v1.queue_admin_service_pb2 import QueueInfo, QueueState
from tandemq.v1.queue_service_pb2 import BrowsePageRequest, BrowsePageResponse
from tandemq.v1.transaction_service_pb2 import ListUnitsRequest, ListUnitsResponse
from tests.support.listed.model import SLACK_MS, Queue, Refusal, Within
from tests.support.listed.pair_model import Pair
from tests.support.listed.reaction_model import ask, ask_again, check_ended, kept_of
from tests.support.listed.steps import Fault, Step
from tests.support.listed.unit import Unit
from tests.support.listed.unit_model import abort

UNSURE_MS = 1_500
"""So long after something has struck there may be another master."""
AGAIN = 8
"""So many calls are remembered, to be repeated."""


class Driver(Protocol):
    """A pair, and time."""

    calm_ms: int
    """How long a call may take when all is well."""
    struck_ms: int
    """And when something strikes."""
    late_ms: int
    """What ends by itself is seen so soon after, and a dead letter is moved: of the product in virtual time alone."""

    def now_ms(self) -> float:
        """By the members' clocks, which agree."""
        ...

    def ask(self, via: str, path: str, request: Proto, reply: type[Proto]) -> Proto:
        """The answer of a call that is repeated until answered, asked of that member first. Raises TandemqError."""
        ...

    def strike(self, fault: Fault) -> None:
        """It strikes when its time has come, and is over after a while."""
        ...

    def calm(self) -> None:
        """Nothing is wrong any more, and the pair is whole, with equal copies. Raises AssertionError."""
        ...

    def pass_to(self, now_ms: float) -> None:
        """Wait until then."""
        ...

    def wait_for(self, holds: Callable[[], bool], within_ms: float) -> bool:
        """Whether it came to hold."""
        ...

    def look(self, names: Sequence[str]) -> dict[str, QueueInfo]:
        """What the master says of these queues, those that there are."""
        ...


@dataclass(frozen=True, slots=True)
class Asked:
    """What a call was answered, and between which moments it was carried out."""

    reply: Any
    refused: str
    now: Within
    text: str


@dataclass(frozen=True, slots=True)
class Recorded:
    """A call that had an effect: what it is answered when it comes again, as long as that can be said."""

    path: str
    request: Proto
    reply: type[Proto]
    check: Callable[[Asked], None]
    holds: Callable[[], bool]
    text: str


class DisagreementError(AssertionError):
    """The pair and the model say different things."""


class Run:
    """One list of steps at one pair."""

    def __init__(self, driver: Driver, kinds: tuple[int, int]) -> None:
        self.driver = driver
        self.kinds = kinds
        """Of the first queues."""
        self.model = Pair()
        self.story: list[str] = []
        self.steps: list[Step] = []
        self.recorded: deque[Recorded] = deque(maxlen=AGAIN)
        self.struck = False
        """Something has struck since the pair was whole."""
        self.serial = 0
        self.replied: tuple[Queue, int, int] | None = None
        """The last reply that counted: of a queue, under a lease, to a message."""
        self.requests = 0
        self.touched: set[str] = set()
        self.epoch = 0
        """In which the open units were seen last."""
        self.over: deque[Unit] = deque(maxlen=3)
        """Units of work that ended without a commit."""
        self.leases: dict[Queue, list[tuple[int, list[int]]]] = {}
        """All that were given, by queue, the last one last."""
        self.asked: dict[str, int] = {}
        """How often, by what it was and how it ended: what a run is worth."""

    def __str__(self) -> str:
        return "\n".join(self.story)

    # -- steps ---------------------------------------------------------------------------------------------------------

    def carry_out(self, step: Step, do: Callable[[Run, Step], None]) -> None:
        """See the module. Raises DisagreementError."""
        self.steps.append(step)
        self.tell(f"-- {len(self.steps)}. {step.kind} {step.via} {step.numbers}")
        try:
            self.clear_the_way(self.driver.struck_ms if self.struck or step.fault is not None else self.driver.calm_ms)
            if step.fault is not None:
                self.strike(step.fault)
                if self.model.is_stuck() or (self.model.units and step.kind != "unit"):
                    # Whether there is another master shows when all is well: only a unit's commit is never in doubt.
                    self.be_sure(step.fault)
            do(self, step)
            self.ask_kept()
            if self.struck and self.model.units:
                self.calm()
            self.settle_down()
        except Refusal as refusal:
            raise self.differs(f"the model refuses this with {refusal}, and was not asked") from refusal

    def strike(self, fault: Fault) -> None:
        self.struck = True
        self.count("struck", fault.kind)
        self.tell(f"   ! after {fault.after_us} us: {fault.kind}, for {fault.for_ms} ms")
        self.driver.strike(fault)

    def be_sure(self, fault: Fault) -> None:
        """It has struck, and whether there is another master is known."""
        self.driver.pass_to(self.driver.now_ms() + fault.for_ms + UNSURE_MS)
        self.calm()

    def clear_the_way(self, ms: int) -> None:
        """Nothing ends by itself within that time."""
        while (due := self.model.next_due()) is not None and due.low <= self.driver.now_ms() + ms:
            self.calm()
            self.step_over()

    def calm(self) -> None:
        if self.struck:
            self.tell("   everything heals")
            try:
                self.driver.calm()
            except AssertionError as error:
                raise self.differs(str(error)) from error
            self.struck = False
            self._see_units()
            self.model.renew_leases(int(self.driver.now_ms()) + 1)
            self.touched.update(self.model.queues)
            self.settle_down()

    def ask_kept(self) -> None:
        """The reactions that are kept, about what came by the last call."""
        now = Within(int(self.driver.now_ms()) - self.driver.calm_ms, int(self.driver.now_ms()) + 1)
        self._ask_kept(now, by_time=False)

    def _ask_kept(self, now: Within, *, by_time: bool) -> None:
        touched = ask(self.model, now, by_time=by_time)
        if touched:
            self.count("kept", "reactions act")
        self.touched.update(touched)

    def _see_units(self) -> None:
        """Those of this epoch are open, and no others (U10)."""
        if not self.model.units and not self.model.is_stuck():
            return
        call = TRANSACTION_SERVICE + "ListUnits", ListUnitsRequest(), ListUnitsResponse
        asked = self.ask("a", *call, "see which units are open")
        self.answered(asked)
        if asked.reply.header.epoch != self.epoch:
            ask_again(self.model)
        self.epoch = asked.reply.header.epoch
        for unit in self.model.units[:]:
            if unit.epoch != asked.reply.header.epoch:
                abort(self.model, unit)
                self.count("unit", "gone with its master")
        listed = {each.unit_id: each.messages_locked for each in asked.reply.units}
        self.equal("which units are open", listed, {unit.unit_id: unit.locked for unit in self.model.units})
        self.ask_kept()

    def step_over(self) -> None:
        """Let pass what ends next, and all that may end at the same time or follows from it."""
        due = self.model.next_due()
        if due is None:
            return
        began_ms = self.driver.now_ms()
        until = max(due.low, int(began_ms))  # what a unit of work gave back may have been over for long
        while due is not None and due.low <= until + self.driver.calm_ms:
            until = max(until, due.high)
            for when in sorted(self.model.due()):
                if when.low <= until + self.driver.calm_ms:
                    until = max(until, when.high)
            self.driver.pass_to(until + 2)
            self._pass_to(until + 2)
            due = self.model.next_due()
        self.tell(f"   time passes: {self.driver.now_ms() - began_ms:.0f} ms")
        self.count("time", "passes")
        self.touched.update(self.model.queues)
        if self.model.is_dying():
            self.touched.update(self.model.bury(self._deaths()))
            self.ask_kept()
        self.compare(self.touched, self.driver.late_ms)
        self.touched.clear()

    def _pass_to(self, now_ms: int) -> None:
        """One after the other, as what came back is asked about before the next thing ends."""
        began_ms = self.model.next_due()
        for moment in (*sorted({when.high + 1 for when in self.model.due() if when.high < now_ms}), now_ms):
            kept = kept_of(self.model)
            self._end_by_time(moment)
            check_ended(self.model, kept)
            now = Within(began_ms.low if began_ms is not None else moment, moment + SLACK_MS)
            self._ask_kept(now, by_time=True)

    def _end_by_time(self, now_ms: int) -> None:
        before = self.model.units
        self.model.pass_to(now_ms)
        for unit in before:
            if unit not in self.model.units:
                self.over.append(unit)
                self.count("unit", "ended by time")

    def _deaths(self) -> list[bytes]:
        """Messages died of time, some of them perhaps at once: in which order, nobody can say but the pair."""
        self.count("time", "kills")
        probe = deepcopy(self.model)
        self.compare_with(probe, {*self.touched, *probe.bury([])}, self.driver.late_ms)
        order: list[bytes] = []
        for queue in list(self.model.queues.values()):
            if queue.dying() and queue.dead_name in probe.queues:
                call = self._until_shown(queue.dead_name, len(probe.queues[queue.dead_name].messages))
                asked = self.ask("a", *call, f"see who is in {queue.dead_name}")
                self.answered(asked)
                order += [each.message.payload for each in asked.reply.messages]
        return order

    def _until_shown(self, name: str, count: int) -> tuple[str, BrowsePageRequest, type[BrowsePageResponse]]:
        """So many are shown there: what was compared counts what is not committed yet, and so is given to nobody. Says
        how it is asked.
        """
        call = QUEUE_SERVICE + "BrowsePage", BrowsePageRequest(queue=name, max_messages=1_000), BrowsePageResponse
        self.driver.wait_for(lambda: len(self.driver.ask("a", *call).messages) == count, self.driver.late_ms)
        return call

    def settle_down(self, late_ms: int = 0) -> None:
        """Dead letters go their way, and what was touched is compared."""
        due = self.model.next_due()
        if not self.struck and due is not None and due.low <= self.driver.now_ms():
            # To heal took as long; or it was leased, and its time was over meanwhile.
            self.step_over()
            return
        buried: set[str] = set()
        if self.model.is_dying():
            if self.struck:
                self.calm()
                return
            buried = set(self.model.bury([]))
            self.touched.update(buried)
            self.ask_kept()
            late_ms = self.driver.late_ms if buried else late_ms
        if not self.struck:
            self.compare(self.touched, late_ms)
            for name in sorted(buried):
                self._until_shown(name, len(self.model.queues[name].messages))
            self.touched.clear()

    # -- asking --------------------------------------------------------------------------------------------------------

    def ask(self, via: str, path: str, request: Proto, reply: type[Proto], text: str) -> Asked:
        """`text`: what it is, for the story."""
        began_ms = self.driver.now_ms()
        answer: Proto | None = None
        refused = ""
        try:
            answer = self.driver.ask(via, path, request, reply)
        except TandemqError as error:
            refused = error.reason
        ended_ms = self.driver.now_ms()
        self.tell(f"   {began_ms % 1e7:.1f} {text} via {via}: {refused or 'done'} after {ended_ms - began_ms:.1f} ms")
        limit_ms = self.driver.struck_ms if self.struck else self.driver.calm_ms
        if ended_ms - began_ms > limit_ms:
            raise self.differs(f"it was answered after {ended_ms - began_ms:.0f} ms; {limit_ms} may pass")
        self.count(path.rpartition("/")[2], refused or "OK")
        return Asked(answer, refused, Within(int(began_ms), int(ended_ms) + 1), text)

    def request_id(self) -> bytes:
        self.requests += 1
        return self.requests.to_bytes(16, "little")  # planted bugs count theirs the other way

    def record(
        self,
        asked: tuple[str, Proto, type[Proto]],
        text: str,
        check: Callable[[Asked], None],
        holds: Callable[[], bool] = lambda: True,
    ) -> None:
        """It may come again."""
        self.recorded.append(Recorded(*asked, check, holds, text))

    # -- comparing -----------------------------------------------------------------------------------------------------

    def refused(self, asked: Asked, refusal: Refusal) -> None:
        """It must have been."""
        self.equal("the refusal", asked.refused or "done", str(refusal))

    def answered(self, asked: Asked) -> None:
        """It must not have been refused."""
        self.equal("the refusal", asked.refused, "")

    def equal(self, what: str, found: object, expected: object) -> None:
        if found != expected:
            raise self.differs(f"{what}\n  of the pair:  {found}\n  of the model: {expected}")

    def differs(self, text: str) -> DisagreementError:
        script = "\n".join(f"    {step!r}," for step in self.steps)
        again = f"from tests.support.listed.again import *\nagain({self.kinds}, [\n{script}\n])"
        return DisagreementError(f"{text}\n\nwhat was done:\n{self}\n\nto do it again:\n{again}")

    def compare(self, names: Iterable[str], late_ms: int = 0) -> None:
        """The pair's words about these queues and the model's, at once or after a while."""
        self.compare_with(self.model, names, late_ms)

    def compare_with(self, model: Pair, names: Iterable[str], late_ms: int) -> None:
        """The same, with another model."""
        expected = {name: picture(model.queues[name]) for name in sorted(names) if name in model.queues}
        if not expected:
            return

        def seen() -> dict[str, dict[str, object]]:
            return {name: view(info) for name, info in self.driver.look(list(expected)).items()}

        found = seen()
        if late_ms and found != expected and self.driver.wait_for(lambda: seen() == expected, late_ms):
            return
        for name, each in expected.items():
            self.equal(f"queue {name}", *different(found.get(name, {}), each))

    def tell(self, text: str) -> None:
        self.story.append(text)

    def count(self, what: str, how: str) -> None:
        key = f"{what} {how}"
        self.asked[key] = self.asked.get(key, 0) + 1


def different(found: dict[str, object], expected: dict[str, object]) -> tuple[dict[str, object], dict[str, object]]:
    """Only what is not the same."""
    keys = [key for key in expected if found.get(key) != expected[key]]
    return {key: found.get(key) for key in keys}, {key: expected[key] for key in keys}


TOTALS = ("enqueued", "acked", "rejected", "expired", "dropped", "purged", "replied", "dead_lettered", "reacted")


def picture(queue: Queue) -> dict[str, object]:
    """A queue of the model in numbers."""
    messages, waiting, delayed = queue.messages, queue.waiting(), queue.delayed()
    dying = len(queue.dying())
    seen: dict[str, object] = {
        "state": queue.state,
        "version": queue.version,
        "length": len(messages),
        "ready": len(waiting) - len(delayed),
        "delayed": len(delayed),
        "dying": dying,
        "leased": len(messages) - len(waiting) - dying,
        "locked": sum(each.lease is not None and each.lease.unit != b"" for each in messages.values()),
        "bytes": sum(message.size for message in messages.values()),
        "last_index": queue.next_index - 1,
        "aliases": sorted(queue.aliases),
    }
    return seen | {f"{name}_total": getattr(queue.totals, name) for name in TOTALS}


def view(info: QueueInfo) -> dict[str, object]:
    """What the pair says, in the same numbers."""
    names = ("version", "length", "ready", "delayed", "dying", "leased", "locked", "bytes", "last_index")
    seen: dict[str, object] = {name: getattr(info, name) for name in names}
    seen["state"] = QueueState.Name(info.state).removeprefix("QUEUE_STATE_")
    seen["aliases"] = sorted(info.aliases)
    return seen | {f"{name}_total": getattr(info, f"{name}_total") for name in TOTALS}
