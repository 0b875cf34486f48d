"""Lets a call in, or refuses it, by the rights of whoever makes it: the one place where clients' calls are looked at.

The member that is called decides by what is committed there. What it would refuse it asks the master about first: a
right may be on its way. A call that goes to the master is asked about there as well.
"""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import grpc
from google.protobuf import descriptor_pool

from replica.core.state.outcomes import Failed
from replica.machine import Refused
from replica.machine.features.rights import right_name
from replica.machine.state.rights import ALL, OF_PAIR
from replica.rpc.handlers import WrappedService
from replica.rpc.refusals import Seeing, abort, refusal
from replica.rpc.skim import Skim, entries_at, is_set, names_at
from replica.services import forward
from replica.services.audited import ORDERS, line_of, ordered, outcome_of
from replica.services.elsewhere import onward_of
from replica.services.forward import came_over_a_hop
from replica.services.needs import ADMINISTRATOR, LINK, LINK_WRITERS, NEEDS, SEE, Need
from replica.services.right_answers import decision
from tandemq.v1 import rights_service_pb2 as pb
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterator, Sequence

    from replica.core.domain import Domain
    from replica.node.access import Access
    from replica.node.members import Members
    from replica.operations.audit import AuditLog
    from replica.services.answers import Answered
    from replica.services.quoted import Quoted

PACKAGE = "tandemq.v1."
WAITING = frozenset(("QueueService/Dequeue", "QueueService/WaitCompletion"))
"""Calls that wait for others, and give what they had not asked for if their right goes meanwhile: they end with it."""

ENTRIES_MAX = 1 << 15
"""Of what leads to names in one request: more than any call may have, and looked at in some 50 ms."""
NAMES_AT_ONCE = 500
"""Looked up before everybody else is served."""

log = logging.getLogger("tandemq.rights")


class RightWanted(NamedTuple):
    """One right that a call asks for."""

    right: int
    queue: str
    """Empty: the pair, or some queue."""
    makes: bool = False


class Row(NamedTuple):
    """A call, as the table has it."""

    path: str
    needs: tuple[Need, ...]
    skim: Skim


class Committed(NamedTuple):
    """Rights, as committed at some moment."""

    of: object
    """Another one after a transfer of the state."""
    version: int


@dataclass(slots=True, eq=False)
class Admitted:
    """A call that has been let in and goes on for as long as it has its rights."""

    who: str
    path: str
    wanted: Sequence[RightWanted]
    task: asyncio.Task[Any] | None
    looked: Committed
    """By what it was let in, where its rights are committed here."""
    since: int = 0
    """The master has said so by rights of this version: until they are committed here, nothing here says otherwise."""
    lost: RightWanted | None = None


class Guard:
    """Of one manager."""

    def __init__(self, members: Members, access: Access, audit: AuditLog | None = None) -> None:
        """`audit`: where refusals and orders are written down; None: nowhere."""
        self.members = members
        self.audit = audit
        self.access = access
        self.quoted: Quoted | None = None
        """Where quotas are counted; None: nobody has one."""
        self._admitted: set[Admitted] = set()
        self._rows: dict[str, Row] = {}
        self._seen = Committed(None, 0)
        """By what all that is let in was looked at."""

    def guarded(self, handler: grpc.ServiceRpcHandler) -> WrappedService:
        """The same service, for callers from a network."""
        return WrappedService(handler, lambda method, plain: _guarded(self, row_of(method), plain))

    def look(self, _now_ms: int) -> None:
        """Ends what has lost its right."""
        seen = self._now()
        if seen == self._seen:
            return
        self._seen = seen
        for call in self._admitted:
            lost = self._lost(call, seen)
            if lost is not None and call.lost is None and call.task is not None:
                call.lost = lost
                call.task.cancel()

    def _now(self) -> Committed:
        in_force = self.access.in_force
        return Committed(in_force, in_force.version)

    def _lost(self, call: Admitted, seen: Committed) -> RightWanted | None:
        """What it may no more."""
        if seen.version < call.since or seen == call.looked:
            return None
        return next((each for each in call.wanted if not self._has(call.who, each)), None)

    async def problem_of(self, context: Any, method: str, right: int, queue: str) -> Failed | None:
        """See Asker."""
        problem = await self._problem(self.access.caller(context), RightWanted(right, queue), context)
        if problem is not None:
            self._note(context, method, problem)
        return problem

    def wanted_of(self, method: str, request: bytes) -> list[tuple[int, str]]:
        """See Asker."""
        if method not in self._rows:
            self._rows[method] = row_of(f"/{PACKAGE}{method}")
        found = self._rows[method].skim.read(request)
        assert found is not None, "its handler has read it"
        return [(each.right, each.queue) for each in _wanted(self._rows[method].needs, found)]

    async def admit(self, row: Row, request: bytes, context: Any) -> Admitted:
        """Refuses the call, or says what it was let in for."""
        access, looked = self.access, self._now()
        who = access.caller(context)
        if claims := access.claims_of(context):
            text = f"only the other member of the pair may send the metadata {', '.join(claims)}"
            await self._refuse(context, row.path, _denied(text, who, "member", "metadata"), request)
        if access.stands_above(who):
            return Admitted(who, row.path, (), None, looked)
        if not who:
            text = "the certificate names nobody here: it needs one URI, tandemq:principal/NAME"
            await self._refuse(context, row.path, _denied(text, "", "", row.path), request)
        problem = await self.quoted.problem_of(who, context, len(request)) if self.quoted is not None else None
        if problem is not None:
            await self._refuse(context, row.path, problem, request)
        found = row.skim.read(request)
        if found is None:
            text = "the request is not what its method takes"
            await self._refuse(context, row.path, refusal(Reason.REASON_BAD_REQUEST, text), request)
        if (problem := _too_many(row, request, found)) is not None:
            await self._refuse(context, row.path, problem, request)
        admitted = Admitted(who, row.path, list(_wanted(row.needs, found)), asyncio.current_task(), looked)
        for place, each in enumerate(admitted.wanted, 1):
            if (problem := await self._problem(who, each, context, admitted)) is not None:
                await self._refuse(context, row.path, problem, request)
            if place % NAMES_AT_ONCE == 0:
                await asyncio.sleep(0)
        if self.quoted is not None:
            self.quoted.sent(who, context, row.path, found)
        return admitted

    async def carried_out(self, admitted: Admitted, handle: Any, request: Any, context: Any) -> Any:
        """Answers the call, and ends it when one of its rights goes."""
        self._admitted.add(admitted)
        try:
            await self.check_still(admitted, context)
            return await handle(request, context)
        except asyncio.CancelledError:
            if admitted.lost is None or context.code():
                raise  # with a code it was being refused when its right went, and no call is refused twice
            assert admitted.task is not None
            admitted.task.uncancel()
            await self._refuse(context, admitted.path, self._refusal(admitted.who, admitted.lost))
        finally:
            self._admitted.discard(admitted)

    async def streamed(self, work: Coroutine[Any, Any, Any], path: str, context: Any) -> Any:
        """A stream, which has a place for as long as it takes."""
        if self.quoted is None:
            return await work
        with self.quoted.stream(context) as problem:
            if problem is None:
                return await work
        work.close()
        return await self._refuse(context, path, problem)

    async def check_still(self, admitted: Admitted, context: Any) -> None:
        """Rights may have changed while others of the call were asked about, before anybody looked at it again."""
        lost = self._lost(admitted, self._now())
        if lost is not None:
            await self._refuse(context, admitted.path, self._refusal(admitted.who, lost))

    async def _problem(
        self, who: str, wanted: RightWanted, context: Any, admitted: Admitted | None = None
    ) -> Failed | None:
        if self._has(who, wanted):
            return None
        if wanted.right in (ADMINISTRATOR, LINK):
            return self._refusal(who, wanted)
        answer = await self._master_says(who, wanted, context)
        if admitted is not None:
            admitted.since = max(admitted.since, answer.version)
        if answer.visible if wanted.right == SEE else answer.allowed:
            return None
        return self._refusal(who, wanted, visible=answer.visible)

    def _has(self, who: str, wanted: RightWanted) -> bool:
        if wanted.right == LINK:
            return who.startswith(f"member/{_link_of(wanted.queue)}/")
        names = names_of(self.members, wanted.queue)
        return self.access.sees(who, *names) if wanted.right == SEE else self.access.may(who, wanted.right, *names)

    async def _master_says(self, who: str, wanted: RightWanted, context: Any) -> pb.TestRightResponse:
        asked = pb.TestRightRequest(principal=who, right=wanted.right, queue=wanted.queue)  # type: ignore[arg-type]  # number

        async def local(_domain: Domain) -> Answered:
            return decision(self.access, who, wanted.right, names_of(self.members, wanted.queue)).SerializeToString()

        home = self.access.home
        reply = await forward.unary(
            self.members, "RightsService/TestRight", asked.SerializeToString(), context, lambda: home, local
        )
        return pb.TestRightResponse.FromString(reply)

    def _refusal(self, who: str, wanted: RightWanted, *, visible: bool | None = None) -> Failed:
        """A queue on which somebody has no right at all is not there for him."""
        right, queue = wanted.right, wanted.queue
        if right == ADMINISTRATOR:
            return _denied(f"{who} is no administrator of this pair ([security] administrators)", who, "rights", "pair")
        if right == LINK:
            text = f"{who} is no member of {_link_of(queue)!r}, and cannot send as a link of it"
            return _denied(text, who, "link", queue)
        if queue and queue != ALL and not wanted.makes:
            there = self.access.sees(who, *names_of(self.members, queue)) if visible is None else visible
            if not there:
                text = f"there is no queue {queue!r}; create it first"
                return refusal(Reason.REASON_QUEUE_NOT_FOUND, text, {"queue": queue})
        verb = right_name(right)
        where = f"on {queue}" if queue else "on the pair" if right in OF_PAIR else "on any queue"
        text = f"{who} has not the right to {verb} {where}; an administrator grants it: `tandemq right grant`"
        return _denied(text, who, verb, queue or "pair")

    async def _refuse(self, context: Any, path: str, failed: Failed, request: bytes = b"") -> NoReturn:
        log.debug("%s is refused: %s", path, failed.message)
        self._note(context, path, failed, request)
        await abort(context, failed)

    def _note(self, context: Any, path: str, failed: Failed, request: bytes = b"") -> None:
        if self.audit is not None:
            about = failed.metadata.get("object") or failed.metadata.get("queue", "")
            who, outcome = self.access.caller(context), outcome_of(failed)
            self.audit.refused(line_of(path, request, who, context, outcome, [about]))

    def handler_of(self, path: str, handle: Any, context: Any) -> Any:
        """The same; of an order one that names no queue that its caller may not see, and that writes the order down, at
        the member that its client called.
        """
        if path not in ORDERS:
            return handle
        audit, who = self.audit, self.access.caller(context)

        def sees(name: str) -> bool:
            return self.access.sees(who, *names_of(self.members, name))

        async def seeing(request: bytes, context: Any) -> Any:
            return await handle(request, Seeing(context, sees))

        if audit is None or came_over_a_hop(context):
            return seeing

        async def written(request: bytes, context: Any) -> Any:
            return await ordered(audit, path, who, request, context, seeing)

        return written


class Opened:
    """The context of a stream whose first frame says what it is about: it is asked about when it is read."""

    def __init__(self, guard: Guard, row: Row, context: Any, admitted: Admitted) -> None:
        self._guard, self._row, self._context, self._admitted = guard, row, context, admitted
        self.write = context.write
        self.read = self._read_first

    async def _read_first(self) -> Any:
        frame = await self._context.read()
        if isinstance(frame, bytes):
            found = await self._guard.admit(self._row, frame, self._context)
            admitted = self._admitted
            admitted.who, admitted.wanted = found.who, found.wanted
            admitted.looked, admitted.since = found.looked, found.since
            await self._guard.check_still(admitted, self._context)
        self.read = self._context.read  # later frames go by
        return frame

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


def _guarded(guard: Guard, row: Row, plain: Any) -> Any:
    if plain.unary_unary is not None:
        handle, waits, orders = plain.unary_unary, row.path in WAITING, row.path in ORDERS

        async def unary(request: bytes, context: Any) -> Any:
            admitted = await guard.admit(row, request, context)
            if waits:
                return await guard.carried_out(admitted, handle, request, context)
            return await (guard.handler_of(row.path, handle, context) if orders else handle)(request, context)

        return grpc.unary_unary_rpc_method_handler(unary)
    if plain.unary_stream is not None:

        async def streamed(request: bytes, context: Any) -> Any:
            admitted = await guard.admit(row, request, context)
            handle = guard.handler_of(row.path, plain.unary_stream, context)
            return await guard.streamed(guard.carried_out(admitted, handle, request, context), row.path, context)

        return grpc.unary_stream_rpc_method_handler(streamed)

    async def both(requests: Any, context: Any) -> Any:
        admitted = Admitted("", row.path, (), asyncio.current_task(), Committed(None, 0))
        opened = Opened(guard, row, context, admitted)
        return await guard.streamed(
            guard.carried_out(admitted, plain.stream_stream, requests, opened), row.path, context
        )

    return grpc.stream_stream_rpc_method_handler(both)


def needs_of(path: str) -> tuple[Need, ...]:
    """A call that the table does not have is an administrator's."""
    return NEEDS.get(path, (Need(ADMINISTRATOR),))


def row_of(method: str) -> Row:
    """Of `/tandemq.v1.Service/Method`."""
    path = method.removeprefix(f"/{PACKAGE}")
    needs = needs_of(path)
    service, _, name = path.partition("/")
    kind = descriptor_pool.Default().FindServiceByName(PACKAGE + service).methods_by_name[name].input_type
    return Row(path, needs, Skim(kind, [each for need in needs for each in (need.path, need.when)]))


def names_of(members: Members, name: str) -> tuple[str, ...]:
    """Those by which rights on a queue may have been granted: the one it was called by, and of an alias the queue's."""
    try:
        where = onward_of(members, name)
    except Refused:
        return (name,)
    if not isinstance(where, str):
        return (where.full_name,)
    machine = members.of_queue(where).shared.machine
    queue_id = machine.queue_id(where) if machine is not None else None
    if machine is None or queue_id is None or not machine.has_queue(queue_id):
        return (where,)
    return tuple(dict.fromkeys((where, machine.queue(queue_id).name)))


def _wanted(needs: tuple[Need, ...], found: Any) -> Iterator[RightWanted]:
    for need in needs:
        if need.when and not is_set(found, need.when):
            continue
        if not need.path:
            yield RightWanted(need.right, ALL if need.or_all else "")
            continue
        names = dict.fromkeys(names_at(found, need.path))
        if need.optional:
            names.pop("", None)
        if need.or_all and "" in names:
            names[ALL] = names.pop("")
        if not names and need.or_all:
            names[ALL] = None
        for name in names:
            if name.startswith(need.begins):
                yield RightWanted(need.right, name, need.makes)


def _too_many(row: Row, request: bytes, found: Any) -> Failed | None:
    """An entry takes two bytes at least: a request that is shorter is not counted."""
    if len(request) <= 2 * ENTRIES_MAX:
        return None
    for path in {each for need in row.needs for each in (need.path, need.when) if each}:
        if entries_at(found, path, ENTRIES_MAX) > ENTRIES_MAX:
            text = f"a request with more than {ENTRIES_MAX} entries in {path}: make it smaller"
            return refusal(Reason.REASON_BAD_REQUEST, text, {"limit": str(ENTRIES_MAX)})
    return None


def _link_of(name: str) -> str:
    """The manager that sends: as it is named, or within the name of the link's writer."""
    return name.removeprefix(LINK_WRITERS).partition("/")[0]


def _denied(text: str, who: str, right: str, what: str) -> Failed:
    return refusal(Reason.REASON_PERMISSION_DENIED, text, {"principal": who, "right": right, "object": what})
