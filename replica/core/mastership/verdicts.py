"""What was asked about a lost peer, what was answered, and what that lets this member do; it never asks and never
claims by itself.

An answer counts for one link generation: a connection that comes up takes every earlier answer away. What an answer may
do is judged anew each time it is looked at, because the authority may have come or gone since.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from failover.classifier import OWN_FAULTS, Answer, DomainFacts, EventKind, Evidence, SafetyClass, Verdict
from failover.gate import MASTERS, Consequence, Ruling, Situation, rule
from failover.marks import Link, Role
from replica.core.state.durable import data_of
from replica.core.state.effects import AskVerdict, Note
from tandemq.v1.pair_service_pb2 import PairEventKind

if TYPE_CHECKING:
    from replica.core.mastership.peer import Peer
    from replica.core.mastership.register_view import RegisterView
    from replica.core.state.shared import Shared
    from tandemq.peer.v1.peer_service_pb2 import DomainHello

ROLE_NUMBERS = frozenset(role.value for role in Role)
BY_AUTHORITY = "authority"
NOT_ASKED = Ruling(Consequence.WAIT, "nobody has been asked yet")
NOT_KNOWN_WHOLE = (
    "the authority cannot be asked, and when it was asked last it did not name this copy among those that hold "
    "everything: bring the authority or the peer back, or accept the loss that `tandemq pair failover --force` states"
)


@dataclass(frozen=True, slots=True)
class Policy:
    """What the configuration says about verdicts."""

    has_authority: bool = True
    by_authority: bool = True
    """Nobody needs to be asked: whoever may claim does, and the register decides (classifier `witness` or `etcd`)."""
    shadow: bool = False
    """Somebody is asked all the same, for the journal."""
    safety: SafetyClass = SafetyClass.A
    accept_unproven: bool = False
    cold_start_ms: int = 0
    """Without an authority: how long a start alone waits before it is a question."""


class Verdicts:
    """The verdicts on the peer of one domain at one member."""

    def __init__(self, shared: Shared, view: RegisterView, peer: Peer) -> None:
        self.shared = shared
        self.view = view
        self.peer = peer
        self.policy = Policy()
        self.generation = 0
        """Connections made since the start; 0 = none yet."""
        self.role_at_loss = Role.PROBE
        self.met = False
        """This member was master, or a replica in step, when the last connection ended."""
        self.peer_index = 0
        """Highest log index that the peer is known to hold durably."""
        self.peer_said: DomainHello | None = None
        """What it said last over the connection that ended last; None: nothing, ever."""
        self.asked: dict[EventKind, int] = {}
        """Questions of this generation, and when each was asked."""
        self.answer: Answer | None = None
        self.answered_ms = 0
        self.kind = EventKind.PEER_LOST
        self.paused = False
        """An operator wants no automatic change of role here: answers are recorded."""
        self.flapping = False
        """Too many changes of role in a short time, which no authority granted."""
        self.reported = ""

    # -- what is configured, and what an operator orders --------------------------------------------------------------

    def set_policy(self, policy: Policy) -> None:
        """From whoever asks the classifier: what its word is worth stands in there."""
        self.policy = policy

    def pause(self, *, paused: bool) -> None:
        """Whether answers are only recorded."""
        self.paused = paused

    def set_flapping(self, *, flapping: bool) -> None:
        """Whether masterships change too often to go on without an operator."""
        self.flapping = flapping

    # -- the link --------------------------------------------------------------------------------------------------

    def on_connected(self) -> None:
        """A connection came up: what was said about its absence is void."""
        self.generation += 1
        self.asked.clear()
        self.answer = None
        self.reported = ""

    def on_disconnected(self, peer_index: int) -> None:
        """The connection is gone; the role held now is what a verdict will be about."""
        self.peer_index = peer_index
        self.peer_said = self.peer.hello or self.peer_said
        self.role_at_loss = self.shared.role
        if self.shared.link is not Link.DOWN:
            self.met = self.shared.link is Link.PAIRED or self.shared.role in MASTERS
        self.asked.clear()
        self.answer = None  # about a peer that was slow, not gone

    # -- questions and answers -------------------------------------------------------------------------------------

    def ask_about_loss(self, now_ms: int, started_ms: int, cause: str) -> None:
        """The peer counts as lost: ask once in this generation."""
        kind = EventKind.PEER_LOST
        if self.generation == 0:
            if now_ms - started_ms < self.policy.cold_start_ms:
                return
            kind = EventKind.COLD_START_ALONE
        elif self.role_at_loss is Role.CEDING:
            kind = EventKind.HANDOFF_IN_DOUBT
        self.ask(kind, now_ms, cause)

    def forget(self, kind: EventKind) -> None:
        """What was asked has passed: the next time it is asked again."""
        self.asked.pop(kind, None)

    def ask(self, kind: EventKind, now_ms: int, cause: str) -> None:
        """Ask once in this generation."""
        if kind in self.asked:
            return
        self.asked[kind] = now_ms
        if self.policy.by_authority and kind not in OWN_FAULTS:
            self.kind, self.answered_ms = kind, now_ms
            self.answer = Answer("", self.generation, self._by_role(), "the register decides", by=BY_AUTHORITY)
            if not self.policy.shadow:
                return
        self.shared.outbox.add(AskVerdict(kind, self.generation, self.facts(), cause))

    def _by_role(self) -> Verdict:
        return Verdict.CONTINUE_AS_MASTER if self.role_in_question() in MASTERS else Verdict.ASSUME_MASTERSHIP

    def role_in_question(self) -> Role:
        """What a verdict is about: the mastership held, or the role held when the connection ended."""
        return self.shared.role if self.shared.role in MASTERS else self.role_at_loss

    def facts(self) -> DomainFacts:
        """This domain, for the event."""
        shared, said = self.shared, self.peer.hello or self.peer_said
        return DomainFacts(
            name=shared.name,
            role=self.role_in_question(),
            data=shared.state.data,
            epoch=shared.state.epoch,
            last_index=shared.log.last_index,
            durable_index=shared.progress.durable_index,
            commit_index=shared.progress.commit_index,
            peer_index=self.peer.last_index if self.peer.connected else self.peer_index,
            peer_role=Role(said.role).name if said is not None and said.role in ROLE_NUMBERS else "",
            peer_data=data_of(said.data_state).name if said is not None else "",
            peer_epoch=said.epoch if said is not None else 0,
            in_sync_set=tuple(sorted(self.view.in_sync_set)),
        )

    def take(self, answer: Answer, kind: EventKind, now_ms: int) -> Ruling:
        """An answer arrived. An operator's stands against a later one of a classifier."""
        ruling = self.ruling_of(answer, kind)
        held = self.answer
        if ruling.effect is Consequence.DROP or answer.verdict is None:
            return ruling
        if held is not None and held.evidence is Evidence.OPERATOR and answer.evidence is not Evidence.OPERATOR:
            return Ruling(Consequence.DROP, "an operator has decided already", answer.by)
        self.answer, self.kind, self.answered_ms = answer, kind, now_ms
        return ruling

    def current(self, now_ms: int) -> Ruling:
        """What the answer held lets this member do now."""
        answer = self.answer
        if answer is None:
            return NOT_ASKED
        if answer.valid_for_ms and now_ms > self.answered_ms + answer.valid_for_ms:
            return Ruling(Consequence.DROP, f"the answer was valid for {answer.valid_for_ms} ms", answer.by)
        return self.ruling_of(answer, self.kind)

    def ruling_of(self, answer: Answer, kind: EventKind) -> Ruling:
        """What this answer lets this member do, with connection, authority and copy as they are now."""
        policy = self.policy
        if policy.by_authority and answer.by == BY_AUTHORITY and answer.verdict is not None:
            # Whoever lost its peer in the middle of a claim is master by now: the register decides that as well.
            answer = replace(answer, verdict=self._by_role())
        now = Situation(
            kind=kind,
            link_generation=self.generation,
            role=self.role_in_question(),
            data=self.shared.state.data,
            connected=self.peer.connected,
            has_authority=policy.has_authority,
            authority_readable=self.view.readable,
            safety=policy.safety,
            accept_unproven=policy.accept_unproven,
            paused=self.paused,
            flapping=self.flapping,
            met=self.met or self.shared.role in MASTERS,
        )
        ruling = rule(answer, now)
        if ruling.effect is Consequence.CLAIM_UNRECORDED and not self.held_everything():
            return Ruling(Consequence.REFUSE, NOT_KNOWN_WHOLE, ruling.by)
        return ruling

    def held_everything(self) -> bool:
        """P5 without a register to read: what it said last, or the set that this member was in when it was written.

        Says nothing of what the peer did alone after the link broke: that is for whoever decides to know.
        """
        return self.shared.state.data.is_good and self.shared.member in self.view.in_sync_set

    def report(self, ruling: Ruling, verdict: Verdict | None) -> None:
        """Say what was made of an answer, once for each change."""
        name = verdict.name if verdict is not None else "none"
        text = f"verdict {name} by {ruling.by or 'nobody'}: {ruling.effect.value}: {ruling.why}"
        if text == self.reported:
            return
        self.reported = text
        facts = {"verdict": name, "by": ruling.by, "effect": ruling.effect.value, "why": ruling.why}
        self.shared.outbox.add(Note(PairEventKind.PAIR_EVENT_KIND_VERDICT, text, facts))

    def report_current(self, ruling: Ruling) -> None:
        """The same of the answer that is held."""
        self.report(ruling, self.answer.verdict if self.answer is not None else None)


__all__ = ["NOT_ASKED", "Policy", "Verdicts"]
