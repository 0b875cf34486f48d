"""The commands of a script by which somebody acts on messages that were put before, or will be.

What the service does is repeated here (`replica.services.messages.react`): turn by turn until the record is ordered,
and the queue of those that are kept is made when the first one comes.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

from google.protobuf.duration_pb2 import Duration

from replica.core.ordering.reacting import Reacting as Turns
from replica.core.ordering.reaction import Advice, Effect, Reaction, ToKeep, outcome_of, total_of
from replica.core.selection.filters import filter_of
from replica.core.state.outcomes import ReactionDone
from tandemq.peer.v1.record_pb2 import ReactionCounts
from tandemq.v1 import reaction_service_pb2 as pb
from tandemq.v1.queue_admin_service_pb2 import OVERFLOW_REJECT, QUEUE_TYPE_ONE_WAY
from tests.support.clients import Waiter, create
from tests.support.grammar import CommandError, command
from tests.support.working import Working, said_of

KEPT = "SYSTEM.REACTIVE/q"
COUNTED = ("applied", "locked", "inert", "dying", "refused", "unreported", "left", "failed")


class Asking(NamedTuple):
    """A reaction whose program is asked now, at one member."""

    turns: Turns
    reaction: Reaction
    waiter: Waiter


class Reacting(Working):
    """Whoever cancels, changes and moves messages of q; each call by its name."""

    def __init__(self) -> None:
        super().__init__()
        self.reactions: dict[str, tuple[bytes, str]] = {}
        """Request id of each, and what was asked."""
        self.asking: dict[str, Asking] = {}

    @command("react OP at MEMBER to ACTION SCOPE with WITH")
    def react(self, name: str, member: str, action: str, scope: str, attributes: str) -> list[str]:
        """Of the messages of q with that group, call (correlation id) or id (of which message): the first one, or all,
        are deleted, changed or moved, or a program is asked about each; report=r is a queue that hears of it,
        exceptions=full its senders, also=s another queue that it acts on as well. Prints the answer, or what is asked.
        Under the same name it is the same call once more.
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
            asking=Advice("program") if wanted.HasField("custom") else None,
        )
        if also := said_of(asked[2]).get("also"):
            reaction.others = [replace(reaction, queue=also, asking=reaction.asking and Advice("program"))]
        core = member.core
        turns = Turns(core.shared, core.orders, core.dying.read, core.consumers.exact_of)
        waiter = Waiter(lambda done: self.teller.say(f"reaction {name}: {self._answer_text(done)}"))
        return self._turn_on(name, member_name, Asking(turns, reaction, waiter))

    @command("the program of OP at MEMBER says WITH")
    def program_says(self, name: str, member: str, answers: str) -> list[str]:
        """Of each message that it was asked about: one=delete, one=leave, one=move-r, one=update-other, one=crash."""
        if name not in self.asking:
            raise CommandError(f"nobody is asked by {name!r}; asked by: {', '.join(self.asking) or 'nobody'}")
        now, said = self.asking.pop(name), said_of(answers)
        for home in now.reaction.homes:
            assert home.asking is not None, "it asks"
            for found in home.asking.questions:
                assert found.message is not None, "it is asked about"
                asked = found.message.payload.decode().partition("/")[0]
                if asked not in said:
                    raise CommandError(f"nothing is said of {asked}")
                verb, _, what = said[asked].partition("-")
                if verb == "crash":
                    home.asking.failed[found.index] = verb
                else:
                    update = pb.ReactionUpdate(payload=f"{what}/1".encode()) if verb == "update" else None
                    effect = None if verb == "leave" else Effect(what if verb == "move" else "", update)
                    home.asking.effects[found.index] = effect
        return self._turn_on(name, member, now)

    def _turn_on(self, name: str, member_name: str, now: Asking) -> list[str]:
        member = self.member(member_name)
        self.note_ids()
        while not now.turns.turn(now.reaction, now.waiter, self.pair.wall_ms):
            member.dispatch(member.core)
            asked = [
                found.message.payload.decode().partition("/")[0]
                for home in now.reaction.homes
                if home.asking is not None
                for found in home.asking.questions
                if found.message is not None
            ]
            if asked:
                self.asking[name] = now
                return [*self._moved(), f"reaction {name}: the program is asked about {', '.join(asked)}"]
        member.dispatch(member.core)
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
        elif verb == "ask":
            wanted.custom.name = "program"
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
        every = (done.counts, *done.others)
        texts = [self._counts_text(each) for each in ((total_of(every), *every) if done.others else every)]
        homes = f" ({'; '.join(texts[1:])})" if done.others else ""
        return texts[0] + homes + (", as before" if done.duplicate else "")

    def _counts_text(self, counts: ReactionCounts) -> str:
        outcome = pb.ReactionOutcome.Name(outcome_of(counts)).removeprefix("REACTION_OUTCOME_")
        found = [f"{each} {getattr(counts, each)}" for each in COUNTED if getattr(counts, each)]
        return ", ".join([outcome, *found, *(["kept"] if counts.kept else [])])

    @command("look at what is kept at MEMBER")
    def look_at_kept(self, member: str) -> list[str]:
        """How many reactions wait for messages of q."""
        return [*self.said(), f"kept at {member}: {len(self._rows(self.member(member), KEPT))}"]

    @command("reactions are off at QUEUE")
    def turn_off(self, queue: str) -> list[str]:
        """An administrator sets reactions_enabled."""
        return self._update(queue, reactions_enabled=False)

    @command("reactions are on at QUEUE")
    def turn_on(self, queue: str) -> list[str]:
        """As above."""
        return self._update(queue, reactions_enabled=True)

    @command("QUEUE keeps a reaction for MS at most")
    def keep_for(self, queue: str, ms: str) -> list[str]:
        """An administrator sets max_sticky_ttl."""
        most = Duration()
        most.FromMilliseconds(int(ms))
        return self._update(queue, max_sticky_ttl=most)
