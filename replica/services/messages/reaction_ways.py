"""Decides where a reaction acts: in a queue here, or on what waits here for a queue of another manager, behind which it
goes on (V17). Orders nothing.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from replica.core.ordering.reaction import Advice, Reaction, ToKeep
from replica.core.ordering.travelling import GoesOn, SourceIds, report_place
from replica.core.selection.filters import filter_of
from replica.machine import Refused, UnitIdentity, milliseconds
from replica.machine.plan.dead_letters import HOPS_MAX
from replica.machine.plan.entering import memberless
from replica.machine.plan.members import is_way
from replica.machine.plan.unit import QUEUES_MAX
from replica.rpc.requests import fingerprint
from replica.services.elsewhere import Onward, full_name_of, onward_of
from tandemq.finding.names import is_full
from tandemq.v1 import reaction_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from replica.machine.state.state import State
    from replica.node.members import Members


class ReactionWay(NamedTuple):
    """Of one reaction."""

    queue: str
    """That it acts on, here."""
    onward: Onward | None
    """Not None: that is a transmission queue, and the reaction is for a queue of that manager."""
    asked: pb.Reaction
    """As it is carried out here: its names are of this manager, but for a report that goes to another one."""
    report: Onward | None
    """Where that goes."""
    others: tuple[str, ...] = ()
    """Other queues here, on which it acts as well (V18)."""
    of_macro: bool = False
    """They were not named: they are the members of the macro queue that was."""

    @property
    def names(self) -> list[str]:
        """Of queues here."""
        to, report_to = self.asked.move.queue, report_place(self.asked.report_to)[0]
        return [name for name in (self.queue, *self.others, to, report_to) if name]


def way_of(members: Members, request: pb.ReactRequest) -> ReactionWay:
    """Raises Refused (BAD_NAME, BAD_REQUEST)."""
    asked, where = pb.Reaction(), onward_of(members, request.queue)
    asked.CopyFrom(request.reaction)
    report = onward_of(members, asked.report_to) if asked.report_to else ""
    if isinstance(report, str):
        asked.report_to = report
    if isinstance(where, str):
        if asked.HasField("move"):
            asked.move.queue = _here(members, asked.move.queue)
        others = tuple(_of_several(members, name) for name in request.more_queues)
        return ReactionWay(where, None, asked, None if isinstance(report, str) else report, others)
    if request.hops >= HOPS_MAX:
        text = f"the reaction has come through {request.hops} managers: their resolvers lead in a circle"
        raise Refused(Reason.REASON_LOOP_LIMIT, text)
    if request.unit_id:
        text = f"{request.queue} is a queue of another manager; in a unit of work a reaction is for queues of this one"
        raise Refused(Reason.REASON_BAD_REQUEST, text, {"queue": request.queue})
    if request.more_queues:
        raise _alone(request.queue)
    _check_goes_on(asked)
    if not isinstance(report, str) and report.through == where.through:
        asked.report_to, report = "", ""  # that part of it reports there
    return ReactionWay(where.through, where, asked, None if isinstance(report, str) else report)


def at_members(state: State, request: pb.ReactRequest, way: ReactionWay) -> ReactionWay:
    """By the name of a macro queue it acts on each of its members, as they are then (V18). Raises Refused."""
    macro = state.macros.by_name.get(way.queue) if way.onward is None else None
    if macro is None:
        return way
    if state.requests.find(request.request_id, _digest(request, request.reaction)) is not None:
        return way._replace(of_macro=True)  # what was done then is the answer, whoever is a member now
    named = {"queue": macro.name}
    if request.unit_id or way.others:
        what = "in a unit of work a reaction is for queues" if request.unit_id else "one call reacts to it alone"
        raise Refused(Reason.REASON_BAD_REQUEST, f"{macro.name} is a macro queue: {what}; name its members", named)
    if not macro.members:
        raise memberless(macro)
    names: list[str] = []
    for queue_id in macro.by_priority():
        queue = state.queues.get(queue_id)
        if queue is None or is_way(queue):
            shown = state.proxies.by_id[queue_id].name if queue is None else queue.name
            text = f"member {shown} of macro queue {macro.name} is a queue of another manager: react to each member"
            raise Refused(Reason.REASON_BAD_REQUEST, f"{text} by its own name", named | {"member": shown})
        names.append(queue.name)
    if len(names) > QUEUES_MAX:
        text = f"macro queue {macro.name} has {len(names)} members; a reaction acts on {QUEUES_MAX} queues at most"
        raise Refused(Reason.REASON_TXN_TOO_LARGE, text, named | {"limit": str(QUEUES_MAX)})
    return way._replace(queue=names[0], others=tuple(names[1:]), of_macro=True)


def _of_several(members: Members, name: str) -> str:
    where = onward_of(members, name)
    if not isinstance(where, str):
        raise _alone(name)
    return where


def _alone(name: str) -> Refused:
    text = f"{name} is a queue of another manager; one call reacts to it alone, and to several queues of this one"
    return Refused(Reason.REASON_BAD_REQUEST, text, {"queue": name})


def _here(members: Members, name: str) -> str:
    where = onward_of(members, name)
    if isinstance(where, str):
        return where
    text = f"reaction.move.queue is {name}, a queue of another manager; a reaction moves within one"
    raise Refused(Reason.REASON_BAD_REQUEST, text, {"queue": name})


def _check_goes_on(asked: pb.Reaction) -> None:
    """What does not go to another manager."""
    if asked.HasField("move") or asked.HasField("custom"):
        text = "a reaction for a queue of another manager deletes or updates; move and custom act here alone"
        raise Refused(Reason.REASON_BAD_REQUEST, text)
    if asked.HasField("update") and asked.scope == pb.REACTION_SCOPE_ALL:
        text = "a reaction for a queue of another manager updates the first message that fits, not all of them"
        raise Refused(Reason.REASON_BAD_REQUEST, text)


def reaction_of(members: Members, request: pb.ReactRequest, way: ReactionWay, who: str = "") -> Reaction:
    """As it is carried out here; `who` asks for it, empty where nobody is asked about him. Raises Refused
    (BAD_SELECTOR, BAD_REQUEST).
    """
    asked = way.asked
    target = filter_of(asked.target)
    assert target is not None, "an empty target was refused"
    named = None
    if request.source and target.places is not None:
        target, named = target._replace(places=None), SourceIds(request.source, frozenset(asked.target.ids))
    report_to, report_as = report_place(asked.report_to)
    made = Reaction(
        way.queue,
        target,
        asked.scope != pb.REACTION_SCOPE_ALL,
        request.request_id,
        _digest(request, request.reaction),
        to=asked.move.queue,
        update=asked.update if asked.HasField("update") else None,
        asking=_advice(asked),
        report_to=report_to,
        report_as=report_as,
        correlation_id=asked.correlation_id,
        exceptions=asked.exception_report,
        min_copies=request.min_copies,
        keep=_keep(asked, who) if way.onward is None else None,
        goes_on=_goes_on(members, request, way.onward) if way.onward is not None else None,
        named=named,
        identity=_identity(request) if request.writer else None,
        unit=request.unit_id,
    )
    made.others = [replace(made, queue=name, asking=_advice(asked)) for name in way.others]
    return made


def _digest(request: pb.ReactRequest, reaction: pb.Reaction) -> int:
    names = [name.encode() for name in (request.queue, *request.more_queues)]
    return fingerprint(b"React", *names, reaction.SerializeToString(deterministic=True))


def _advice(reaction: pb.Reaction) -> Advice | None:
    return Advice(reaction.custom.name) if reaction.HasField("custom") else None


def _keep(reaction: pb.Reaction, who: str) -> ToKeep | None:
    if not reaction.HasField("ttl"):
        return None
    ttl_ms = milliseconds(reaction.ttl) or int(reaction.ttl.nanos > 0)  # 0 is as long as it may
    return ToKeep(ttl_ms, reaction.SerializeToString(deterministic=True), who)


def _goes_on(members: Members, request: pb.ReactRequest, onward: Onward) -> GoesOn:
    going = pb.Reaction()
    going.CopyFrom(request.reaction)
    if going.report_to and not is_full(going.report_to):
        going.report_to = full_name_of(members, going.report_to)
    return GoesOn(onward.full_name, going.SerializeToString(deterministic=True), request.hops, request.source)


def _identity(request: pb.ReactRequest) -> UnitIdentity:
    lasting = pb.Reaction()
    lasting.CopyFrom(request.reaction)
    lasting.ClearField("ttl")  # what is left of it is never the same
    return UnitIdentity(request.writer, request.query_id, request.number, request.after, _digest(request, lasting))
