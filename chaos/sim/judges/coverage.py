"""Counts what a run has met: pairs of a member's role and what arrived there, and points that have a name.

The named points are what every campaign must meet at least once: a run of thousands of seeds that never saw a tail cut
says nothing about the cutting of tails. They are read from what the product itself reports to its operator (its
events) and from what arrives at members; nothing in a run hangs on them. To add one, add a line to `POINTS`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from chaos.sim.judges.rows import NAMED
from chaos.sim.judges.trace_lines import class_of
from chaos.sim.kernel.wire import Packet

if TYPE_CHECKING:
    from collections.abc import Callable

    from google.protobuf.message import Message

    from chaos.sim.kernel.net import Pipe
    from chaos.sim.pair.members import Pair
    from failover.marks import Role


@dataclass(frozen=True, slots=True)
class Event:
    """An event of this kind whose text has the pattern, at any member."""

    kind: str
    pattern: str
    text: str
    """What it means."""


@dataclass(frozen=True, slots=True)
class Got:
    """A message of this kind that arrived at a member in this role."""

    role: str
    message: str
    text: str

    @property
    def pair(self) -> str:
        return f"{self.role} < {self.message}"


POINTS: Mapping[str, Event | Got] = MappingProxyType(
    {
        "takeover": Event(
            "ROLE", "^. is MASTER now: the peer is lost and", "a replica took over or a master went on alone"
        ),
        "peer back in time": Event(
            "ROLE", "MASTER now: the peer is back", "the peer came back before anything was decided"
        ),
        "restart as master": Event(
            "ROLE", "register names this member and it may", "a restarted master took a new epoch"
        ),
        "only copy": Event(
            "ROLE", "only this member holds everything", "the other member missed what was acknowledged"
        ),
        "fenced by the register": Event(
            "ROLE", "PROBE now: the register holds another", "a master learnt that it is none"
        ),
        "master stepped down": Event(
            "ROLE", "PROBE now: the master has stepped down", "a replica saw its master leave"
        ),
        "claim in doubt": Event(
            "ROLE", "PROBE now: claim of epoch .* was unknown", "nobody knew whether a claim was made"
        ),
        "claim refused": Event("AUTHORITY", "claim of .*: refused", "two claimed, one was late"),
        "claim unanswered": Event("AUTHORITY", "claim of .*: unknown", "the answer to a claim was lost"),
        "commit unanswered": Event("AUTHORITY", "commit of .*: unknown", "the answer to a commit was lost"),
        "addition unanswered": Event("AUTHORITY", "addition of .*: unknown", "the answer to an addition was lost"),
        "register away": Event("AUTHORITY", "the witness cannot be reached", "a member could not reach the register"),
        "register back": Event("AUTHORITY", "the witness answers again", "and later it could"),
        "delta transfer": Event("TRANSFER", "takes what follows", "a replica asked for what it had missed"),
        "full transfer": Event("TRANSFER", "takes everything from", "a replica asked for everything"),
        "tail cut": Event(
            "TRANSFER", "go to salvage: the master", "a replica held records that the new master has not"
        ),
        "older copy": Event("LINK", "copy is an older one", "a member with an old image of its disk was found out"),
        "port refused": Event("LINK", "counts as lost: its port refuses", "a process died and its machine said so"),
        "silent peer": Event("LINK", "silent for longer than the lost time", "nothing was heard for too long"),
        "connection replaced": Event(
            "LINK", "the peer has opened a new connection", "the peer connected before the old end"
        ),
        "full disk": Event("FAULT", "the store is full", "a commit found no room"),
        "failed sync": Event("FAULT", "this manager stops: A commit failed", "a failed fsync ended the process"),
        "stood still": Event("FAULT", "this process stood still", "a member noticed that it had been stopped"),
        "verdict to assume": Event("VERDICT", "ASSUME_MASTERSHIP .*: claim", "a classifier let a replica claim"),
        "verdict to continue": Event("VERDICT", "CONTINUE_AS_MASTER .*: claim", "a classifier let a master go on"),
        "verdict too late": Event(
            "VERDICT", ": drop: the answer is about an earlier", "an answer came after its question"
        ),
        "held request ordered": Got("MASTER", "Data hold", "a client's batch came through the replica"),
        "call at a replica": Got("REPLICA", "Produce open", "a client called the member that is not master"),
        "late hello": Got("MASTER", "Data hello", "a member introduced itself to a master"),
        "handoff offered": Got("REPLICA", "Data handoff_propose", "a master wanted to hand over"),
        "handoff accepted": Got("MASTER", "Data handoff_ready", "its replica agreed"),
        "handoff done": Got("REPLICA", "Data handoff_ack", "the role was ceded"),
    }
)
MEANINGS = {name: point.text for name, point in POINTS.items()} | NAMED

_EVENTS: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
_GOT: dict[str, str] = {}
for _name, _point in POINTS.items():
    if isinstance(_point, Event):
        _EVENTS.setdefault(_point.kind, []).append((_name, re.compile(_point.pattern)))
    else:
        _GOT[_point.pair] = _name


class Coverage:
    """What one run has met."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair

    def on_event(self, kind: str, text: str) -> None:
        """A member reported something to its operator."""
        for name, pattern in _EVENTS.get(kind, ()):
            if pattern.search(text):
                self._pair.run.sometimes(name)

    def on_arrived(self, pipe: Pipe, item: object) -> None:
        """A packet has arrived."""
        if not isinstance(item, Packet) or item.kind != "message":
            return
        member = self._pair.members.get(pipe.direction.target)
        if member is None:
            return
        domain, path = member.domain, item.path
        is_request = pipe is pipe.connection.pipes[0]
        parse, kind = _parser_with_kinds(path, is_request), ""
        if parse is not None:
            try:
                kind = parse(item.data).WhichOneof("frame") or "greeting"
            except DecodeError:
                kind = ""
        met = self._pair.run.outcome.coverage
        for point in _points(domain.shared.role if domain is not None else None, path, is_request, kind):
            met[point] = met.get(point, 0) + 1


@cache
def _points(role: Role | None, path: str, is_request: bool, kind: str) -> tuple[str, ...]:
    """What is met when such a message arrives: made up once, for there are a thousand messages in a run."""
    method = path.rpartition("/")[2]
    what = f"{method} {kind}" if kind else method if is_request else f"{method} answer"
    pair = f"{role.name if role is not None else 'STARTING'} < {what}"
    return (pair, _GOT[pair]) if pair in _GOT else (pair,)


@cache
def _parser_with_kinds(path: str, is_request: bool) -> Callable[[bytes], Message] | None:
    """Of what has to be parsed; None where the method alone says what kind of message it is."""
    made = class_of(path, is_request=is_request)
    return made.FromString if made is not None and "frame" in made.DESCRIPTOR.oneofs_by_name else None
