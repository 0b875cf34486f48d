"""Asks a classifier again what a journal says it was asked, and compares the verdicts; it acts on nothing."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass

from failover.classifier import Answer, Classifier
from failover.journal import RecordedCall
from failover.runner import CANCELLED, Runner

LIMIT_MS_MIN = 5_000  # a call at the end of its event's time had little; the comparison is of verdicts, not of haste


@dataclass(frozen=True, slots=True)
class Compared:
    """One recorded call, asked again."""

    call: RecordedCall
    now: Answer

    @property
    def same(self) -> bool:
        """Whether the verdict is the recorded one. A call that was cancelled had none to compare with."""
        return self.call.answer.verdict is self.now.verdict or self.call.answer.reason == CANCELLED


async def replay(calls: Iterable[RecordedCall], classifier: Classifier) -> AsyncIterator[Compared]:
    """Each recorded call once, oldest first, with the attempt that it had; nothing is written to the journal."""
    for call in calls:
        limit_ms = max(call.event.decide_by_ms, LIMIT_MS_MIN)
        runner = Runner(classifier, None, limit_ms, 1, limit_ms)
        yield Compared(call, await runner.ask(call.event))
