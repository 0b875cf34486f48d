"""Asks the classifier about a lost peer, once for all domains that lost it in one role, and hands its answer to them;
it never decides what an answer may do.

Rulings.md 7: at most two questions at a time, one for what this member was master of and one for the rest. An answer
goes to the domains that asked, with the link generation of their question: what came too late has no effect there.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
from collections import deque
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from failover.classifier import (
    CONNECTED_KINDS,
    Answer,
    AuthorityClassifier,
    Event,
    EventKind,
    Evidence,
    Outcome,
    SafetyClass,
    Verdict,
)
from failover.crash_loop import failures_lately
from failover.gate import MASTERS, Consequence
from failover.marks import Role
from failover.runner import Runner
from replica.core.mastership.verdicts import Policy
from tandemq.ambient import monotonic_ms

if TYPE_CHECKING:
    from collections.abc import Callable

    from failover.classifier import Classifier
    from failover.gate import Ruling
    from failover.journal import Journal
    from replica.core.domain import Domain
    from replica.core.state.effects import AskVerdict, RoleChanged
    from replica.node.loop import Node
    from tandemq.config import ManagerConfig

log = logging.getLogger("tandemq.judge")

PAUSED = "failover/paused"
AUTHORITIES = ("witness", "etcd")
RETRY_MS_MIN = 200


@dataclass(slots=True, eq=False)
class Question:
    """What was asked, by whom."""

    event: Event
    asked: list[tuple[Domain, AskVerdict]]
    task: asyncio.Task[None] | None = None
    times: int = 1


class Judge:
    """The classifier of one manager. Raises ConfigError when there is none of the configured name."""

    def __init__(
        self,
        node: Node,
        config: ManagerConfig,
        journal: Journal | None,
        about: Callable[[], dict[str, object]],
        incarnation: int,
        make: Callable[[ManagerConfig], Classifier],
    ) -> None:
        self.node, self.config, self.incarnation = node, config, incarnation
        self.about = about
        """Fields of Event that the manager knows: how long ago the peer was heard, the authority."""
        failover = config.failover
        limits = (failover.call_ms, failover.attempts, failover.total_ms)
        self.runners = {was_master: Runner(make(config), journal, *limits) for was_master in (True, False)}
        """By whether this member was master."""
        self.failures = failures_lately(Path(config.data_dir), dt.datetime.now(dt.UTC))
        """How often this member was the failed instance lately, over its starts."""
        self.questions: dict[tuple[EventKind, bool], Question] = {}
        self._arrived: list[tuple[Domain, AskVerdict]] = []
        self._changes: dict[str, deque[int]] = {}
        self.name = self.runners[True].classifier.name
        self.safety = SafetyClass.A if self.has_authority else self.runners[True].classifier.safety
        self.not_ready: list[str] = []
        self.paused = self.node.store.get_meta(PAUSED) == b"1"
        for domain in self.node.paired():
            domain.mastership.verdicts.set_policy(self._policy())
            domain.mastership.verdicts.pause(paused=self.paused)

    @property
    def has_authority(self) -> bool:
        """Whether somebody besides the two members keeps the register."""
        return self.config.authority != "none"

    def _policy(self) -> Policy:
        failover = self.config.failover
        acts = failover.mode == "enforce"
        return Policy(
            has_authority=self.has_authority,
            by_authority=self.has_authority and (not acts or self.name in AUTHORITIES),
            shadow=failover.mode == "observe" and self.name not in AUTHORITIES,
            safety=self.runners[True].classifier.safety,
            accept_unproven=failover.accept_unproven,
            cold_start_ms=0 if self.has_authority else failover.cold_start_ms,
        )

    async def preflight(self) -> None:
        """Says in the log what would keep the classifier from answering: at the start, not in the hour of need."""
        self.not_ready = await self.runners[True].preflight()
        for why in self.not_ready:
            log.warning("classifier %s is not ready: %s", self.name, why)

    # -- questions -------------------------------------------------------------------------------------------------

    def on_ask(self, domain: Domain, ask: AskVerdict) -> None:
        """A domain asks; those that ask in the same turn of the loop ask together."""
        if not self._arrived:
            asyncio.get_running_loop().call_soon(self._ask_together)
        self._arrived.append((domain, ask))

    def _ask_together(self) -> None:
        arrived, self._arrived = self._arrived, []
        groups: dict[tuple[EventKind, bool], list[tuple[Domain, AskVerdict]]] = {}
        for domain, ask in arrived:
            groups.setdefault((ask.kind, ask.facts.role in MASTERS), []).append((domain, ask))
        for key, asked in groups.items():
            self._put(key, Question(self._event(asked, 1), asked))

    def _event(self, asked: list[tuple[Domain, AskVerdict]], times: int) -> Event:
        first = asked[0][1]
        event = Event(
            event_id=f"{self.loss_id(first.link_generation)}.{first.kind.value}.{times}",
            kind=first.kind,
            link_generation=first.link_generation,
            pair=self.config.pair,
            member=self.config.member,
            peer=self.config.peer_member,
            domains=tuple(ask.facts for _, ask in asked),
            cause=first.cause,
            peer_address=self.config.peer_address,
            peer_endpoint=self.config.peer_endpoint,
            authority=self.config.authority,
        )
        return replace(event, **self.about())  # type: ignore[arg-type]  # fields of Event by name

    def loss_id(self, generation: int) -> str:
        """Names one absence of the peer: what an operator's verdict is about."""
        return f"{self.config.member}.{self.incarnation}.{generation}"

    def _put(self, key: tuple[EventKind, bool], question: Question) -> None:
        previous = self.questions.get(key)
        if previous is not None and previous.task is not None:
            previous.task.cancel()
        self.questions[key] = question
        question.task = asyncio.get_running_loop().create_task(self._work(key, question))
        question.task.add_done_callback(self._on_done)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None and not self.node.failed.done():
            self.node.failed.set_result(task.exception())  # type: ignore[arg-type]  # not None, asked above

    async def _work(self, key: tuple[EventKind, bool], question: Question) -> None:
        """Ask until an answer lets somebody act, or nobody asks any more."""
        runner = self.runners[key[1]]
        while True:
            answer = await self._answer(runner, question.event)
            retry_ms = await self._deliver(runner, question, answer)
            if retry_ms is None or self.config.failover.mode == "off":
                return
            await asyncio.sleep(retry_ms / 1000)
            question.asked = [each for each in question.asked if self._stands(*each)]
            if not question.asked:
                return
            question.times += 1
            question.event = self._event(question.asked, question.times)

    async def _answer(self, runner: Runner, event: Event) -> Answer:
        classifier = runner.classifier
        if self.config.failover.mode == "off":
            return Answer(
                event.event_id, event.link_generation, Verdict.WAIT, "mode off: nobody is asked", by=self.name
            )
        if isinstance(classifier, AuthorityClassifier):
            # Not awaited: a disk that hangs would keep the journal from being written, and that is what is asked about.
            answer = classifier.now(event)
            runner.record(event, answer)
            return answer
        return await runner.ask(event)

    async def _deliver(self, runner: Runner, question: Question, answer: Answer) -> int | None:
        """Hand an answer over; returns when to ask again, None = never."""
        if self.config.failover.mode != "enforce":
            await runner.report(Outcome(question.event.event_id, "observed", answer.reason))
            if self.has_authority:
                return None
            why = f"mode {self.config.failover.mode}: nobody is obeyed; it said {_said(answer)}"
            answer = replace(answer, verdict=Verdict.WAIT, reason=why)
        rulings = [self._hand(domain, ask, answer) for domain, ask in question.asked]
        best = max(rulings, key=lambda ruling: ruling.lets_claim)
        await runner.report(Outcome(question.event.event_id, best.effect.value, best.why))
        if best.lets_claim or best.effect in (Consequence.DROP, Consequence.FAIL):
            return None
        return max(RETRY_MS_MIN, best.retry_ms or self.config.failover.total_ms)

    def _hand(self, domain: Domain, ask: AskVerdict, answer: Answer) -> Ruling:
        given = replace(answer, link_generation=ask.link_generation)
        ruling = domain.on_verdict(given, ask.kind, monotonic_ms())
        self.node.dispatch(domain)
        return ruling

    def _stands(self, domain: Domain, ask: AskVerdict) -> bool:
        """Whether the question is still one."""
        mastership = domain.mastership
        if mastership.verdicts.generation != ask.link_generation:
            return False
        if ask.kind in CONNECTED_KINDS:
            return ask.kind in mastership.verdicts.asked
        return mastership.peer.lost_at_ms is not None and not mastership.peer.connected and not _goes_alone(domain)

    def on_connected(self) -> None:
        """The peer is back: nobody needs to know any more whether it lives."""
        for question in self.questions.values():
            if question.task is not None:
                question.task.cancel()
        self.questions.clear()

    # -- the operator ----------------------------------------------------------------------------------------------

    def waiting_event_id(self) -> str:
        """The absence of the peer that waits for a verdict; empty when none does."""
        waiting = [domain for domain in self.node.paired() if self._waits(domain)]
        return self.loss_id(waiting[0].mastership.verdicts.generation) if waiting else ""

    @staticmethod
    def _waits(domain: Domain) -> bool:
        mastership = domain.mastership
        return mastership.peer.lost_at_ms is not None and not mastership.peer.connected and not _goes_alone(domain)

    def decide(self, domain_name: str, event_id: str, verdict: int, reason: str) -> tuple[bool, str, str]:
        """An operator's verdict, for one domain or (empty) all that wait: whether it was taken, one sentence, event."""
        if not reason.strip():
            return False, "say why: the reason goes into the journal", event_id
        if verdict not in {each.value for each in Verdict}:
            return (
                False,
                f"{verdict} is no verdict; 20 continue, 21 assume, 22 failed, 23 wait, 24 peer alive",
                event_id,
            )
        waiting = [d for d in self.node.paired() if self._waits(d) and domain_name in ("", d.shared.name)]
        if not waiting:
            return False, "nothing waits for a verdict here: the peer is connected, or a master serves", event_id
        current = self.waiting_event_id()
        if event_id and event_id != current and not event_id.startswith(f"{current}."):
            return False, f"event {event_id} is over; what waits now is {current}", current
        rulings = []
        for domain in waiting:
            generation = domain.mastership.verdicts.generation
            answer = Answer(current, generation, Verdict(verdict), reason, evidence=Evidence.OPERATOR, by="operator")
            was_master = domain.mastership.verdicts.facts().role in MASTERS
            event = Event(
                current, EventKind.PEER_LOST, generation, self.config.pair, self.config.member,
                self.config.peer_member, (domain.mastership.verdicts.facts(),), cause="operator",
            )  # fmt: skip
            self.runners[was_master].record(event, answer)
            ruling = domain.on_verdict(answer, EventKind.PEER_LOST, monotonic_ms())
            self.runners[was_master].record_outcome(Outcome(current, ruling.effect.value, ruling.why))
            self.node.dispatch(domain)
            rulings.append(ruling)
            log.warning(
                "domain %s: an operator says %s: %s",
                domain.shared.name,
                _said(answer),
                reason,
                extra=domain.shared.tags,
            )
        best = max(rulings, key=lambda ruling: ruling.lets_claim)
        taken = best.effect not in (Consequence.REFUSE, Consequence.DROP)
        return taken, f"{best.effect.value}: {best.why}", current

    async def pause(self, *, paused: bool) -> None:
        """Whether verdicts are only recorded; durable when this returns."""
        self.paused = paused
        for domain in self.node.paired():
            domain.mastership.verdicts.pause(paused=paused)
        await self.node.write(lambda batch: batch.meta.__setitem__(PAUSED, b"1" if paused else b"0"))

    # -- flapping --------------------------------------------------------------------------------------------------

    def on_role(self, domain: Domain, change: RoleChanged) -> None:
        """Counts masterships that no authority granted."""
        if self.has_authority or change.role != Role.MASTER.value or not domain.shared.peer:
            return
        failover = self.config.failover
        changes = self._changes.setdefault(domain.shared.name, deque())
        now = monotonic_ms()
        changes.append(now)
        while changes and changes[0] < now - failover.flap_window_ms:
            changes.popleft()
        domain.mastership.verdicts.set_flapping(flapping=0 < failover.flap_changes < len(changes))

    async def close(self) -> None:
        """End what runs."""
        self.on_connected()
        for runner in self.runners.values():
            await runner.close()


def _goes_alone(domain: Domain) -> bool:
    return domain.shared.serving and domain.shared.role is Role.MASTER


def _said(answer: Answer) -> str:
    return answer.verdict.name if answer.verdict is not None else "nothing"
