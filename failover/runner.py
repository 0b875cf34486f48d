"""Asks one classifier, within limits, again when there is no answer, and journals each call; it never acts on one.

A member that is master of some domains and replica of others asks two questions at a time (rulings.md 7): it has a
runner for each, with a classifier of its own. The journal may be shared.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from dataclasses import replace

from failover.classifier import Answer, Classifier, Event, Outcome, Verdict
from failover.journal import Journal, call_line, outcome_line
from failover.reasons import tidy

# Beyond the limit of a call: a classifier that keeps the contract ends a second after it (SIGKILL), a stuck one a
# second later.
OVERRUN_S = 2.5
PAUSE_S, PAUSE_S_MAX = 0.2, 2.0  # before another attempt, doubled each time

CANCELLED = "cancelled: the question no longer stands"

NO_ANSWER = "NO_ANSWER"
SAID = (*(verdict.name for verdict in Verdict), NO_ANSWER)
"""What a call can come to, as it is counted."""

log = logging.getLogger("tandemq.classifier")


class Runner:
    """One classifier and its limits, in milliseconds. `close` it in the end."""

    def __init__(
        self, classifier: Classifier, journal: Journal | None, call_ms: int, attempts: int, total_ms: int
    ) -> None:
        self.classifier, self.journal = classifier, journal
        self.call_ms, self.attempts, self.total_ms = call_ms, attempts, total_ms
        self.calls: Counter[str] = Counter()  # by name of the verdict, NO_ANSWER among them
        self.last_ms = 0  # how long the last call took
        self._one_at_a_time = asyncio.Lock()
        self._stuck: asyncio.Task[Answer] | None = None
        self._reports: set[asyncio.Task[None]] = set()

    async def ask(self, event: Event) -> Answer:
        """The first verdict of at most `attempts` calls within `total_ms`, or an answer without one that says why.

        Counts attempts on from the event's and sets decide_by_ms. WAIT is a verdict: it is the caller's to ask again.
        The last call may overrun the total by the time that ending its processes takes. Cancelled, it ends and
        journals the call.
        """
        loop = asyncio.get_running_loop()
        async with self._one_at_a_time:
            until, pause_s = loop.time() + self.total_ms / 1000, PAUSE_S
            answer = _none(event, self.classifier.name, "no time for a call")
            for attempt in range(event.attempt, event.attempt + self.attempts):
                left_ms = min(self.call_ms, round((until - loop.time()) * 1000))
                if left_ms <= 0:
                    break
                answer = await self._call(replace(event, attempt=attempt, decide_by_ms=left_ms))
                if answer.verdict is not None or attempt == event.attempt + self.attempts - 1:
                    break
                await asyncio.sleep(min(pause_s, max(0.0, until - loop.time())))
                pause_s = min(pause_s * 2, PAUSE_S_MAX)
            return answer

    def record(self, event: Event, answer: Answer) -> None:
        """Journals an answer that was made without a call: the authority's on the spot, an operator's."""
        self._count(event, answer)
        if self.journal is not None:
            self.journal.write_soon(call_line(event, answer))

    def record_outcome(self, outcome: Outcome) -> None:
        """Journals what became of an answer that the classifier was not asked for."""
        why = f": {outcome.why}" if outcome.why else ""
        log.info("event %s: %s%s", outcome.event_id, outcome.effect, why, extra={"event_id": outcome.event_id})
        if self.journal is not None:
            self.journal.write_soon(outcome_line(outcome))

    async def report(self, outcome: Outcome) -> None:
        """Journals what became of an answer and notifies the classifier, without waiting for either."""
        self.record_outcome(outcome)
        task = asyncio.ensure_future(self.classifier.report(outcome))
        self._reports.add(task)
        task.add_done_callback(self._reported)

    async def preflight(self) -> list[str]:
        """What would keep the classifier from answering; empty = ready."""
        task = asyncio.ensure_future(self.classifier.preflight())
        await asyncio.wait({task}, timeout=self.call_ms / 1000)
        if not task.done():
            task.cancel()
            return [f"{self.classifier.name}: preflight did not end within {self.call_ms} ms"]
        if (error := task.exception()) is not None:
            return [f"{self.classifier.name}: preflight raised {type(error).__name__}: {tidy(str(error))}"]
        return task.result()

    async def close(self) -> None:
        """Ends what the classifier keeps running. Calls must have ended or been cancelled."""
        for task in self._reports:
            task.cancel()
        if (close := getattr(self.classifier, "close", None)) is not None:
            result = close()
            if asyncio.iscoroutine(result):
                await result

    async def _call(self, event: Event) -> Answer:
        if self._stuck is not None and not self._stuck.done():
            answer = _none(event, self.classifier.name, "an earlier call has not ended although it was asked to")
            return await self._keep(event, answer)
        loop = asyncio.get_running_loop()
        began = loop.time()
        task = asyncio.ensure_future(self.classifier.classify(event))
        try:
            await asyncio.wait({task}, timeout=event.decide_by_ms / 1000 + OVERRUN_S)
        except asyncio.CancelledError:
            self._end(task)
            self.record(event, _none(event, self.classifier.name, CANCELLED))
            raise
        answer = self._judged(event, task)
        return await self._keep(event, replace(answer, duration_ms=round((loop.time() - began) * 1000)))

    def _judged(self, event: Event, task: asyncio.Task[Answer]) -> Answer:
        """What the classifier returned, if it keeps the contract."""
        name = self.classifier.name
        if not task.done():
            self._end(task)
            return _none(event, name, f"no end within {event.decide_by_ms} ms, and it could not be ended")
        if task.cancelled():
            return _none(event, name, "its call was cancelled, but not by us")
        if (error := task.exception()) is not None:
            return _none(event, name, tidy(f"it raised {type(error).__name__}: {error}"))
        answer: object = task.result()
        if not isinstance(answer, Answer) or not isinstance(answer.verdict, Verdict | None):
            return _none(event, name, f"it returned {type(answer).__name__}, which is no Answer with a Verdict")
        if (answer.event_id, answer.link_generation) != (event.event_id, event.link_generation):
            asked = f"{event.event_id!r} of link generation {event.link_generation}"
            return _none(event, name, f"it answers {tidy(str(answer.event_id))!r}, asked was {asked}")
        return replace(answer, by=answer.by or name)

    def _end(self, task: asyncio.Task[Answer]) -> None:
        task.cancel()
        self._stuck = task
        task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())  # is known already

    async def _keep(self, event: Event, answer: Answer) -> Answer:
        self._count(event, answer)
        if self.journal is not None:
            await self.journal.write(call_line(event, answer))
        return answer

    def _count(self, event: Event, answer: Answer) -> None:
        said = NO_ANSWER if answer.verdict is None else answer.verdict.name
        self.calls[said] += 1
        self.last_ms = answer.duration_ms
        level = logging.WARNING if answer.verdict is None else logging.INFO
        text = "classifier %s, %s, event %s, attempt %d: %s after %d ms: %s"
        asked = (event.kind.value, event.event_id, event.attempt)
        tags = {"event_id": event.event_id}
        log.log(
            level, text, answer.by, *asked, said, answer.duration_ms, answer.reason or "no reason given", extra=tags
        )

    def _reported(self, task: asyncio.Task[None]) -> None:
        self._reports.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            log.warning("classifier %s raised in report: %s: %s", self.classifier.name, type(error).__name__, error)


def _none(event: Event, by: str, why: str) -> Answer:
    return Answer(event.event_id, event.link_generation, None, why, by=by)
