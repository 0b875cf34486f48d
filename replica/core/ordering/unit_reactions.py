"""Makes the reactions of an open unit of work a part of its commit (V15); orders nothing.

What they are to act on is locked since they were asked for. Everything else is of the moment of the commit: names and
attributes of queues, room, times, reports.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from replica.core.messages import copies
from replica.core.ordering.held_reaction import Beside
from replica.machine import Refused
from replica.machine.plan.unit import leaving_by
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Sequence

    from replica.core.ordering.open_unit import OpenUnit
    from replica.machine import Machine, UnitCall
    from tandemq.v1.message_pb2 import Message

BYTES_MAX = 4 << 20
"""Of the record's body: what a frame holds."""


def check_enters(machine: Machine, unit: OpenUnit, queue_ids: Iterable[int], *, puts: bool = False) -> None:
    """A record has one entry a queue: what reactions put into one, and puts, are in different queues. `puts`: of calls
    that put into the same one there may be more.
    """
    taken = {number for each in unit.reactions.values() for number in each.enters}
    if not puts:
        taken |= unit.puts.keys()
    for queue_id in sorted(taken.intersection(queue_ids)):
        name = machine.queue(queue_id).name if machine.has_queue(queue_id) else f"{queue_id}, which is deleted,"
        text = (
            f"queue {name} is entered by another call of the unit of work: a reaction that changes its messages, moves "
            "some to it, reports to it or is kept for it is the only call of a unit that puts something there"
        )
        raise Refused(Reason.REASON_BAD_REQUEST, text, {"queue": name})


def with_reactions(
    machine: Machine, now_ms: int, unit: OpenUnit, asked: UnitCall, rows: Sequence[Message], lines: Collection[int]
) -> tuple[UnitCall, bytes]:
    """The call of the commit, and its body. `rows`: of the puts and of the answers. `lines`: queues for whose room
    others wait. Raises Refused: with what lasts before a want of room, as who finds none repeats it.
    """
    acting = [held for held in unit.reactions.values() if not held.does_nothing]
    targets = [(held.reaction.queue_id, held.making.targets) for held in acting if held.making.targets]
    leaving = leaving_by(machine.state, now_ms, asked, targets)
    calls, entering = [], []
    taken = {number for each in unit.reactions.values() for number in each.enters} | unit.puts.keys()
    # Reports of all of them for one queue are one entry of the record: they enter by the first that has any.
    exceptions = [report for held in unit.reactions.values() for report in held.making.exceptions]
    for held in acting:
        mine = exceptions if held.making.exceptions else []
        exceptions = [] if mine else exceptions
        call, own = held.call_of(held, mine, Beside(lines, taken - held.enters, leaving))
        taken.update(op.queue_id for op in call.reports)
        calls.append(call)
        entering += own
    puts = sum(put.columns.count for put in asked.puts)
    body = copies.body_of("", [*rows[:puts], *entering, *rows[puts:]])
    if len(body) > BYTES_MAX:
        text = f"the unit of work is too large: its messages, copies and reports have more than {BYTES_MAX} bytes"
        raise Refused(Reason.REASON_TXN_TOO_LARGE, text, {"limit": str(BYTES_MAX)})
    return replace(asked, reactions=calls), body
