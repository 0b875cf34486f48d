"""Asks several classifiers at once and hands their answers to `failover.tally`; it has no opinion of its own.

Shipped: `combine`. Each member has the same limit, a little below the call's own, so that one that hangs costs its own
vote and not the others'. What a member does wrong (no answer in time, an error, an answer for another event) makes it
unknown.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace

from failover.classifier import Answer, Classifier, Event, Outcome, SafetyClass
from failover.tally import Vote, safety_of, tally

SHARE = 0.9  # of the time that is left, for the members
CANCEL_S = 0.5  # for a member that was cancelled to clean up behind itself


class Combine:
    """All of, any of, veto, or k of `members`; see failover.tally."""

    name = "combine"

    def __init__(self, members: Sequence[Classifier], rule: str = "all") -> None:
        self.members, self.rule = tuple(members), rule

    @property
    def safety(self) -> SafetyClass:
        """By the members: see safety_of."""
        return safety_of(self.rule, [member.safety for member in self.members])

    async def classify(self, event: Event) -> Answer:
        """See Classifier."""
        clock = asyncio.get_running_loop().time
        began = clock()
        limit_ms = int(event.decide_by_ms * SHARE)
        part = replace(event, decide_by_ms=limit_ms)
        tasks = [asyncio.ensure_future(member.classify(part)) for member in self.members]
        try:
            await asyncio.wait(tasks, timeout=limit_ms / 1000)
            votes = [
                Vote(member.name, _answer(event, task, limit_ms))
                for member, task in zip(self.members, tasks, strict=True)
            ]
        finally:
            await _end([task for task in tasks if not task.done()])
        result = tally(self.rule, votes)
        return Answer(
            event.event_id,
            event.link_generation,
            result.verdict,
            result.reason,
            result.evidence,
            result.token,
            result.valid_for_ms,
            result.retry_ms,
            round((clock() - began) * 1000),
            self.name,
        )

    async def preflight(self) -> list[str]:
        """What each member has to say, under its name."""
        results = await asyncio.gather(*(member.preflight() for member in self.members), return_exceptions=True)
        found = []
        for member, lines in zip(self.members, results, strict=True):
            found += (
                [f"{member.name}: {lines!r}"]
                if isinstance(lines, BaseException)
                else [f"{member.name}: {line}" for line in lines]
            )
        return found

    async def report(self, outcome: Outcome) -> None:
        """To each member."""
        await asyncio.gather(*(member.report(outcome) for member in self.members), return_exceptions=True)

    async def close(self) -> None:
        """Of each member that has something to close."""
        for member in self.members:
            if (close := getattr(member, "close", None)) is not None:
                result = close()
                if asyncio.iscoroutine(result):
                    await result


def _answer(event: Event, task: asyncio.Future[Answer], limit_ms: int) -> Answer:
    """A member's answer, or why there is none."""
    none = Answer(event.event_id, event.link_generation, None)
    if not task.done():
        return replace(none, reason=f"no answer within {limit_ms} ms")
    if task.cancelled() or (error := task.exception()) is not None:
        return replace(none, reason="cancelled" if task.cancelled() else f"failed: {error!r}")
    answer = task.result()
    if (answer.event_id, answer.link_generation) != (event.event_id, event.link_generation):
        return replace(none, reason="answered for another event")
    return answer


async def _end(tasks: Sequence[asyncio.Future[Answer]]) -> None:
    for task in tasks:
        task.cancel()
    if tasks:
        await asyncio.wait(tasks, timeout=CANCEL_S)
