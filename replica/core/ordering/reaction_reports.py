"""Makes the messages that tell of a reaction, and plans where they go, by the record of the reaction itself (V7, V14).

The report that the caller asked for must find room, or nothing is done. Those to the senders of cancelled messages go
where there is room: nobody's cancelling fails for a queue that somebody else has named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from replica.core.messages import copies
from replica.core.messages.bodies import batch_of
from replica.core.ordering.held_reaction import Addressed
from replica.core.ordering.reaction import outcome_of
from replica.machine import Refused, columns_of
from replica.machine.plan.dropping import NOTHING_LEAVES
from replica.machine.plan.react import plan_report
from replica.machine.plan.unit import QUEUES_MAX
from tandemq.v1 import reaction_service_pb2 as pb
from tandemq.v1.message_pb2 import Message
from tandemq.v1.queue_service_pb2 import EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.core.ordering.held_reaction import Beside
    from replica.core.ordering.reaction import Reaction
    from replica.machine.state.state import State
    from tandemq.peer.v1.record_pb2 import EnqueueOp, ReactionCounts

REPORT, OUTCOME = "tq_report", "tq_outcome"
COUNTS = ("applied", "locked", "inert", "dying", "refused", "unreported")
ASKED_COUNTS = ("left", "failed")


class Planned(NamedTuple):
    """What enters queues beside the reaction's own copies: an operation a queue, and all rows in that order."""

    ops: list[EnqueueOp]
    rows: list[Message]


def report_of(reaction: Reaction, counts: ReactionCounts) -> Message:
    """For who asked for the reaction."""
    message = Message(correlation_id=reaction.correlation_id)
    message.properties[REPORT].text = "reaction"
    message.properties[OUTCOME].text = pb.ReactionOutcome.Name(outcome_of(counts)).removeprefix("REACTION_OUTCOME_")
    message.properties[copies.ORIGIN_QUEUE].text = reaction.queue
    if reaction.goes_on is not None:
        message.properties[copies.ORIGIN_QUEUE].text = reaction.goes_on.full_name
    if reaction.report_as:
        message.properties[copies.TO].text = reaction.report_as
    names = COUNTS if reaction.asking is None else COUNTS + ASKED_COUNTS
    for name in (*names, "denied") if counts.denied else names:
        message.properties[f"tq_{name}"].integer = getattr(counts, name)
    return message


def exception_of(found: copies.FoundMessage, queue: str, content: pb.ExceptionReport) -> Addressed:
    """For the sender of a message that is cancelled."""
    gone = found.message
    assert gone is not None, "a report of what is not here"
    message = Message(correlation_id=gone.correlation_id, content_type=gone.content_type)
    if content == pb.EXCEPTION_REPORT_FULL:
        message.payload = gone.payload
    message.properties.MergeFrom(gone.properties)
    message.properties[REPORT].text = "reacted"
    message.properties[copies.ORIGIN_QUEUE].text = queue
    message.properties[copies.ORIGIN_ID].data = found.id
    return Addressed(gone.reply_to, message)


def plan(
    state: State,
    now_ms: int,
    reaction: Reaction,
    counts: ReactionCounts,
    exceptions: Sequence[Addressed],
    beside: Beside,
) -> Planned:
    """Counts what finds no room. Refused where the report of the caller does not. Reports to senders find no place in
    a queue that the record has an entry for already.
    """
    planned = Planned([], [])
    # Where it goes on, and has done nothing here, the report comes from there.
    reports = reaction.report_to and (counts.applied or not counts.forwarded)
    asker = state.named(reaction.report_to).queue_id if reports else 0
    for queue_id, rows in _by_queue(state, exceptions).items():
        if asker and queue_id == asker:
            continue  # with the report
        op = None
        elsewhere = queue_id not in (0, state.ids.get(reaction.queue)) and queue_id not in beside.taken
        if elsewhere and len(planned.ops) < QUEUES_MAX:
            try:
                op = _plan(state, now_ms, queue_id, rows, beside)
            except Refused:
                op = None  # closed, disabled, or not of its kind
        counts.unreported += len(op.refusals) if op is not None else len(rows)
        if op is not None and op.first_index:
            planned.ops.append(op)
            planned.rows.extend(rows)
    if asker:
        senders = [each.message for each in exceptions if state.ids.get(each.queue) == asker]
        _plan_report(state, now_ms, reaction, counts, senders, beside, planned)
    return planned


def _plan_report(
    state: State,
    now_ms: int,
    reaction: Reaction,
    counts: ReactionCounts,
    senders: list[Message],
    beside: Beside,
    planned: Planned,
) -> None:
    """`senders`: reports to senders in the same queue, which enter with it where there is room for all."""
    asker = state.named(reaction.report_to).queue_id
    rows = [*senders, report_of(reaction, counts)]
    op = _plan(state, now_ms, asker, rows, beside)
    if op.refusals and senders:
        counts.unreported += len(senders)
        rows = [report_of(reaction, counts)]
        op = _plan(state, now_ms, asker, rows, beside)
    if op.refusals:
        text = f"the report finds no room in queue {reaction.report_to}; nothing was done"
        raise Refused(op.refusals[0].reason, text, {"queue": reaction.report_to})
    planned.ops.append(op)
    planned.rows.extend(rows)


def _by_queue(state: State, reports: Sequence[Addressed]) -> dict[int, list[Message]]:
    """0: those whose queue is not in this domain."""
    found: dict[int, list[Message]] = {}
    for each in reports:
        found.setdefault(state.ids.get(each.queue, 0), []).append(each.message)
    return found


def _plan(state: State, now_ms: int, queue_id: int, rows: Sequence[Message], beside: Beside) -> EnqueueOp:
    queue = state.queues[queue_id]
    columns = columns_of(EnqueueBatch(messages=batch_of(rows)))
    leaving = beside.leaving.get(queue_id, NOTHING_LEAVES)
    return plan_report(state, now_ms, queue.name, columns, full=queue_id in beside.lines, leaving=leaving)
