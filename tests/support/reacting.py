"""The commands of a script by which somebody acts on messages that were put before, or will be.

What the service does is repeated here (`replica.services.messages.react`): turn by turn until the record is ordered,
and the queue of those that are kept is made when the first one comes.
"""

from __future__ import annotations

from typing import Any

from replica.core.ordering.reacting import Reacting as Turns
from replica.core.ordering.reaction import Reaction, ToKeep, outcome_of
from replica.core.selection.filters import filter_of
from replica.core.state.outcomes import ReactionDone
from tandemq.v1 import reaction_service_pb2 as pb
from tandemq.v1.queue_admin_service_pb2 import OVERFLOW_REJECT, QUEUE_TYPE_ONE_WAY
from tests.support.clients import Waiter, create
from tests.support.grammar import CommandError, command
from tests.support.working import Working, said_of

KEPT = "SYSTEM.REACTIVE/q"
COUNTED = ("applied", "locked", "inert", "dying", "refused", "unreported")


class Reacting(Working):
    """Whoever cancels, changes and moves messages of q; each call by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.reactions: dict[str, tuple[bytes, str]] = {}
        """Request id of each, and what was asked."""

    @command("react OP at MEMBER to ACTION SCOPE with WITH")
    def react(self, name: str, member: str, action: str, scope: str, attributes: str) -> list[str]:
        """Of the messages of q with that group, call (correlation id) or id (of which message): the first one, or all,
        are deleted, changed or moved; report=r is a queue that hears of it, exceptions=full its senders. Prints the
        answer. Under the same name it is the same call once more.
        """
        return self._react(name, member, (action, scope, attributes), None)

    @command("react OP at MEMBER to ACTION SCOPE with WITH and keep it for MS")
    def react_and_keep(self, name: str, member: str, action: str, scope: str, attributes: str, ms: str) -> list[str]:
        """As above; and it stays for what comes later, and what comes back."""
        return self._react(name, member, (action, scope, attributes), int(ms))

    def _react(self, name: str, member_name: str, asked: tuple[str, str, str], kept_ms: int | None) -> list[str]:
        member, text = self.member(member_name), " ".join(asked)
        request_id, before = self.reactions.setdefault(name, (name.encode().rjust(16), text))
        if before != text:
            raise CommandError(f"{name!r} was: {before}")
        wanted = self._asked(*asked)
        if kept_ms is not None:
            wanted.ttl.FromMilliseconds(kept_ms)
            self._make_store(member.name)
        found = filter_of(wanted.target)
        if found is None:
            raise CommandError("say which messages: group, call or id")
        reaction = Reaction(
            "q",
            found,
            wanted.scope == pb.REACTION_SCOPE_FIRST,
            request_id,
            1,
            to=wanted.move.queue,
            update=wanted.update if wanted.HasField("update") else None,
            report_to=wanted.report_to,
            correlation_id=name,
            exceptions=wanted.exception_report,
            keep=None if kept_ms is None else ToKeep(kept_ms, wanted.SerializeToString(deterministic=True)),
        )
        core = member.core
        turns = Turns(core.shared, core.orders, core.dying.read, core.consumers.exact_of)
        waiter = Waiter(lambda done: self.teller.say(f"reaction {name}: {self._answer_text(done)}"))
        self.note_ids()
        while not turns.turn(reaction, waiter, self.pair.wall_ms):
            member.dispatch(core)
        member.dispatch(core)
        said_now = self._moved()
        self.note_ids()
        return said_now

    def _asked(self, action: str, scope: str, attributes: str) -> pb.Reaction:
        said = said_of(attributes)
        scopes = {"first": pb.REACTION_SCOPE_FIRST, "all": pb.REACTION_SCOPE_ALL}
        wanted = pb.Reaction(scope=scopes[scope], report_to=said.get("report", ""))
        for name, field in (("group", "group_id"), ("call", "correlation_id")):
            if name in said:
                setattr(wanted.target, field, said[name])
        if "id" in said:
            wanted.target.ids.append(self._id_of(said["id"]))
        if "exceptions" in said:
            wanted.exception_report = pb.ExceptionReport.Value(f"EXCEPTION_REPORT_{said['exceptions'].upper()}")
        verb, _, what = action.partition("=")
        if verb == "move":
            wanted.move.queue = what
        elif verb == "update":
            wanted.update.payload = f"{what}/1".encode()
        else:
            wanted.delete.SetInParent()
        return wanted

    def _id_of(self, name: str) -> bytes:
        if name not in self.ids:
            raise CommandError(f"nobody knows the id of {name}; known: {', '.join(self.ids) or 'none'}")
        return self.ids[name]

    def _make_store(self, member: str) -> None:
        if self._machine(member).queue_id(KEPT) is None:
            off: dict[str, Any] = {"enqueue_enabled": False, "dequeue_enabled": False, "dead_letter_queue": ""}
            create(self.pair, KEPT, overflow=OVERFLOW_REJECT, queue_type=QUEUE_TYPE_ONE_WAY, **off)

    def _answer_text(self, done: Any) -> str:
        if not isinstance(done, ReactionDone):
            return self._why(done)
        outcome = pb.ReactionOutcome.Name(outcome_of(done.counts)).removeprefix("REACTION_OUTCOME_")
        found = [f"{each} {getattr(done.counts, each)}" for each in COUNTED if getattr(done.counts, each)]
        found += ["kept"] if done.counts.kept else []
        found += ["as before"] if done.duplicate else []
        return ", ".join([outcome, *found])

    @command("look at what is kept at MEMBER")
    def look_at_kept(self, member: str) -> list[str]:
        """How many reactions wait for messages of q."""
        return [*self.said(), f"kept at {member}: {len(self._rows(self.member(member), KEPT))}"]

    @command("reactions are off at q")
    def turn_off(self) -> list[str]:
        """An administrator sets reactions_enabled."""
        return self._update("q", reactions_enabled=False)

    @command("reactions are on at q")
    def turn_on(self) -> list[str]:
        """As above."""
        return self._update("q", reactions_enabled=True)
