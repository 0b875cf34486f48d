"""A load whose every message is accounted for, and what it proves; it sends nothing itself."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tandemq.testing.host import Host, TandemqTestError

QUEUE = "tandemq-workload"
RATE_MAX = 5_000.0
JUDGE_S = 240.0


class PromiseBroken(AssertionError):  # noqa: N818 - what happened, in the report of a test
    """The verdict is not "held"; the message is the whole account."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a load came to. Times are in milliseconds; None where there was nothing to measure."""

    verdict: str  # held, broken, invalid: it proves nothing
    broken: Mapping[str, list[str]] = field(default_factory=dict)  # by promise: what broke it
    invalid: tuple[str, ...] = ()
    faults: Mapping[str, tuple[int, int]] = field(default_factory=dict)  # by kind: had an effect, were made
    acknowledged: int = 0
    delivered: int = 0
    redelivered: int = 0
    lost: int = 0  # acknowledged and never delivered
    duplicates: int = 0
    unexpected: int = 0  # delivered and never sent
    unknown: int = 0  # operations without an outcome
    order_breaks: int | None = 0  # None: somebody carried the messages, in an order of its own
    longest_pause_ms: int = 0  # between two acknowledgements
    no_master_ms: int = 0
    not_looked_ms: int = 0  # whoever watches was held up: whether there was a master then is not known
    two_masters_ms: int = 0
    degraded_ms: int | None = None
    recovery_ms: tuple[int, ...] = ()  # of each fault: its longest time without an acknowledgement
    resync_ms: tuple[int, ...] = ()

    @property
    def text(self) -> str:
        """For people."""
        counted = ("acknowledged", "delivered", "lost", "duplicates", "order_breaks", "unexpected", "unknown")
        figures = ", ".join(f"{name} {getattr(self, name)}" for name in counted if getattr(self, name) is not None)
        faults = [f"{kind}: {bitten} of {made} had an effect" for kind, (bitten, made) in self.faults.items()]
        broken = [f"BROKEN {name}: {line}" for name, lines in self.broken.items() for line in lines]
        invalid = [f"INVALID: {line}" for line in self.invalid]
        pauses = f"longest pause {self.longest_pause_ms} ms, without a master {self.no_master_ms} ms"
        pauses += f", not looked at {self.not_looked_ms} ms" if self.not_looked_ms else ""
        return "\n".join([f"tandemq: {self.verdict}", figures, pauses, *faults, *broken, *invalid])


def verdict_of(facts: Mapping[str, Any]) -> Verdict:
    """From what the keeper of the pair answers."""
    figures = {name: value for name, value in facts["figures"].items() if name in Verdict.__slots__}
    for name in ("recovery_ms", "resync_ms"):
        figures[name] = tuple(figures[name])
    if "order_breaks" not in figures:
        figures["order_breaks"] = None
    faults = {kind: (bitten, made) for kind, (bitten, made) in facts["faults"].items()}
    return Verdict(facts["verdict"], facts["broken"], tuple(facts["invalid"]), faults, **figures)


class Workload:
    """Given by the fixture `tandemq_workload`: three producers and a consumer beside the application, watched.

    It begins with `start`, and is judged at the end of a test that passed: the test fails unless the promise held, or
    when it was never started. One of the producers gives up early, so that there are operations of unknown outcome.
    """

    def __init__(self, host: Host) -> None:
        self._host = host
        self._doubled_max: int | None = 0
        self.started = False
        self.judged: Verdict | None = None

    def start(
        self,
        queue: str = QUEUE,
        *,
        take_from: str = "",
        rate: float = 500.0,
        duplicates_max: int | None = 0,
        drain_s: float = 30.0,
    ) -> None:
        """Sends `rate` messages a second from now on; returns when the first are acknowledged.

        take_from: another queue, into which the application carries what comes to `queue`, payloads as they are. Both
            queues must be there, and nobody else may send to the first or take from the second. The verdict is then
            over the application too: what was acknowledged in the first must arrive in the second.
        duplicates_max: of carried messages, how many may arrive once more; None: any number.
        drain_s: how long what was sent may take to arrive after the last was sent.
        """
        if self.started:
            raise TandemqTestError("the workload runs already; start it once, before anything else asks it")
        if not 1 <= rate <= RATE_MAX:
            raise TandemqTestError(f"rate is {rate:g}: give 1 to {RATE_MAX:g} messages a second")
        self._doubled_max = duplicates_max
        self._host.ask("load", queue=queue, take_from=take_from, rate=rate, drain_s=drain_s)
        self.started = True

    def goes_on(self, count: int = 50, within_s: float = 20.0) -> int:
        """Returns when so many more messages were acknowledged, with how many were in all."""
        self._check_started()
        return int(self._host.ask("goes_on", count=count, within_s=within_s))

    def verdict(self) -> Verdict:
        """Heals everything, ends the load, waits for what is under way, judges. Raises PromiseBroken unless it held.

        The plugin does this at the end of a test that does not.
        """
        self._check_started()
        if self.judged is None:
            self.judged = verdict_of(self._host.ask("judge", answer_s=JUDGE_S, doubled_max=self._doubled_max))
        if self.judged.verdict != "held":
            raise PromiseBroken(self.judged.text)
        return self.judged

    def _check_started(self) -> None:
        if not self.started:
            raise TandemqTestError("the workload was never started: call tandemq_workload.start() in the test")
