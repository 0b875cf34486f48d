"""The commands of a script by which clients, consumers and operators ask something of a pair."""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.authority import CasDone
from failover.classifier import Evidence, Verdict
from tests.support.clients import create
from tests.support.describing import Told, register_text
from tests.support.grammar import CommandError, command
from tests.support.moving import Moving
from tests.support.pair import NAME, Member

if TYPE_CHECKING:
    from replica.core.handoff.attempt import HandoffOutcome

VERDICTS = {
    "continue": Verdict.CONTINUE_AS_MASTER,
    "assume": Verdict.ASSUME_MASTERSHIP,
    "failed": Verdict.FAILED_INSTANCE,
    "wait": Verdict.WAIT,
    "alive": Verdict.PEER_ALIVE,
}
NO_REASON = "because"
"""What the harness gives as the reason of a verdict."""


class Calling(Moving):
    """What is asked from outside."""

    # -- clients ---------------------------------------------------------------------------------------------------

    @command("create the queue")
    def create_queue(self) -> list[str]:
        """At the master; every `given a pair` has it."""
        create(self.pair)
        self.has_queue = True
        return self.said()

    @command("send OP to MEMBER")
    def send(self, name: str, member: str) -> list[str]:
        """A client of its own sends this message there."""
        if name in self.clients:
            raise CommandError(f"{name!r} was sent already: repeat {name} to {member}?")
        client = self.clients[name] = Told(self.teller, name)
        client.send(self.member(member))
        return self.said()

    @command("repeat OP to MEMBER")
    def repeat(self, name: str, member: str) -> list[str]:
        """Its client sends it once more, with the same sequence."""
        client = self.op(name)
        client.submit(client.ops[0], self.member(member))
        return self.said()

    @command("consume at MEMBER")
    def consume(self, member: str) -> list[str]:
        """A consumer asks for up to ten messages there."""
        before = len(self.reader.delivered)
        self.reader.attach(self.member(member), 10)
        self._run()
        for _, index, payload in self.reader.delivered[before:]:
            self.teller.say(f"consumer: {payload.decode().split('/')[0]}, index {index}")
        return self.said()

    @command("acknowledge at MEMBER")
    def acknowledge(self, member: str) -> list[str]:
        """The consumer settles everything that it was given."""
        self.reader.ack(self.member(member))
        return self.said()

    # -- operators -------------------------------------------------------------------------------------------------

    @command("verdict for MEMBER is VERDICT")
    def verdict(self, name: str, verdict: str) -> list[str]:
        """Its classifier answers the question that it was asked last."""
        asked = self.member(name).asked
        return self._verdict(name, verdict, Evidence.NONE, asked[-1].link_generation if asked else -1)

    @command("proven verdict for MEMBER is VERDICT")
    def proven_verdict(self, name: str, verdict: str) -> list[str]:
        """As above, and the classifier can show that the peer has marked its copy STALE."""
        return self._verdict(name, verdict, Evidence.PEER_OUTDATED, -1)

    @command("operator's verdict for MEMBER is VERDICT")
    def operators_verdict(self, name: str, verdict: str) -> list[str]:
        """An operator answers, about the present, and vouches for it."""
        return self._verdict(name, verdict, Evidence.OPERATOR, -1)

    def _verdict(self, name: str, verdict: str, evidence: Evidence, generation: int) -> list[str]:
        ruling = self.member(name).verdict(VERDICTS[verdict], evidence=evidence, generation=generation)
        why = "" if ruling.why == NO_REASON else f": {ruling.why}"
        self.teller.lines.insert(0, f"gate of {name}: {ruling.effect.value}{why}")
        return self.said()

    @command("force MEMBER")
    def force(self, name: str) -> list[str]:
        """An operator makes it master against the register, and accepts what that loses."""
        member = self.member(name)
        return self._ordered(member, member.core.mastership.force("test"), accepted=True)

    @command("force MEMBER at the witness")
    def force_at_the_witness(self, name: str) -> list[str]:
        """An operator tells the witness, not the members, who may be master next."""
        register = self.pair.register
        answer = self.pair.registers.force(NAME, register.version, register.epoch + 1, name, "test")
        self._excuse()
        self.teller.say(register_text(self.pair.register) if isinstance(answer, CasDone) else f"refused: {answer}")
        return self.said()

    @command("accept the loss of OP")
    def accept_loss(self, name: str) -> list[str]:
        """An operator has stated that this acknowledged message may be gone."""
        self.op(name)
        self.accepted.add(name)
        self.pair.checks.excused = True
        return self.said()

    @command("resolve: MEMBER gives way")
    def gives_way(self, name: str) -> list[str]:
        """An operator keeps the other one's history; this one sets its own aside and follows."""
        member = self.member(name)
        return self._ordered(member, member.core.mastership.copy_orders.give_up_history("test"))

    @command("MEMBER is outdated by its peer")
    def is_outdated(self, name: str) -> list[str]:
        """Its peer reached it by another way than the link, and had it mark its copy STALE."""
        member = self.member(name)
        epoch = member.peer.shared.state.epoch
        why_not = member.core.mastership.copy_orders.outdate("test", by_member=member.peer_name, epoch=epoch)
        return self._ordered(member, why_not)

    @command("pause automation at MEMBER")
    def pause(self, name: str) -> list[str]:
        """An operator wants no automatic change of role there."""
        self.member(name).core.mastership.verdicts.pause(paused=True)
        return self.said()

    @command("order a full resync at MEMBER")
    def resync(self, name: str) -> list[str]:
        """An operator wants it to take everything anew; it says so when it connects again."""
        member = self.member(name)
        return self._ordered(member, member.core.mastership.copy_orders.resync("test", full=True))

    def _ordered(self, member: Member, why_not: str, *, accepted: bool = False) -> list[str]:
        self.teller.say(f"operator: refused, {why_not}" if why_not else "operator: begun")
        if accepted and not why_not:
            self._excuse()
        member.dispatch(member.core)
        return self.said()

    def _excuse(self) -> None:
        """What is forced excuses what it says that it costs."""
        self.pair.checks.highest = None
        self.pair.seen.clear()

    @command("bar handoffs at MEMBER for REASON")
    def bar(self, name: str, reason: str) -> list[str]:
        """Something there speaks against giving or taking the role."""
        self.member(name).core.handoff.bars.add(reason)
        return self.said()

    @command("begin a handoff at MEMBER")
    def begin_handoff(self, name: str) -> list[str]:
        """An operator asks there; the master offers its role, the replica asks for it."""
        told: list[HandoffOutcome] = []

        def on_told(outcome: HandoffOutcome) -> None:
            self.teller.say(f"operator at {name}: {outcome_text(outcome)}")
            told.append(outcome)

        member = self.member(name)
        self.told.append((member, member.incarnation, told))
        member.core.orders.now_ms = self.pair.wall_ms
        member.core.handoff.start("asked", dry_run=False, automatic=False, on_end=on_told)
        member.dispatch(member.core)
        return self.said()

    @command("abort the handoff at MEMBER")
    def abort_handoff(self, name: str) -> list[str]:
        """It wants it no more."""
        member = self.member(name)
        member.core.handoff.abort("TIMEOUT")
        member.dispatch(member.core)
        return self.said()


def outcome_text(outcome: HandoffOutcome) -> str:
    if outcome.done:
        return "done"
    reasons = [reason for reason in outcome.reasons if reason != "IN_DOUBT"]
    how = "refused" if len(reasons) == len(outcome.reasons) else "in doubt"
    return f"{how} {','.join(reasons)}".strip()
