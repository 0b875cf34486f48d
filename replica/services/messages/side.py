"""The Consume stream of a side of a queue with PRODUCER replication: served by the member that it is opened at, from
its own copy, whatever its role (K1, K2).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.core.state.outcomes import Failed
from replica.machine import Refused
from replica.machine.plan.sides import side_lost
from replica.node.members import LOCAL
from replica.rpc.refusals import abort, refusal
from replica.services.answers import header_of
from replica.services.checks import is_immediate
from replica.services.forward import came_over_a_hop, wait_for_master
from replica.services.messages.consume import ConsumeStream
from storage.errors import CorruptRecord
from tandemq.v1.common_pb2 import Reason, ResponseHeader
from tandemq.v1.queue_service_pb2 import ConsumeOpen

if TYPE_CHECKING:
    from collections.abc import Sequence

    import grpc

    from replica.core.domain import Domain
    from replica.core.state.shared import Shared
    from replica.machine import QueueState, SegmentSlice
    from replica.machine.state.lockstep import SideOf
    from replica.node.members import Members
    from replica.node.standing import OpeningStream


class SideSource:
    """The pair's queue, in this member's copy, whatever its role. Leases and settlements are those of the member's own
    domain; what is said of masters and epochs is the pair's, and of where it is served, nothing: it is served here.
    """

    def __init__(self, members: Members, pair: Domain, of: SideOf, queue: str) -> None:
        self._members, self._pair, self._of, self._queue = members, pair, of, queue

    def header(self) -> ResponseHeader:
        """The pair's, and no way to its master."""
        header = header_of(self._members, self._pair)
        header.master_endpoint = ""
        return header

    def place(self, queue: str, slices: Sequence[SegmentSlice]) -> tuple[str, Shared, Sequence[SegmentSlice]]:
        """Messages that a side hands out, by their indexes."""
        del queue
        found = self._members.node.sides.slices(self._of, slices)
        asked, there = (sum(part.count for part in each) for each in (slices, found))
        if there < asked:
            raise CorruptRecord(f"{asked - there} messages that a side was given are not there", self._queue)
        return self._queue, self._pair.shared, found

    def sound(self, slices: Sequence[SegmentSlice], corrupt: CorruptRecord) -> Sequence[SegmentSlice] | Failed:
        """What cannot be read ends the stream: a side that left it out would go another way than its twin."""
        del slices
        if (lost := self._members.node.sides.lost(self._of)) is not None:
            return Failed(lost.reason, lost.message, dict(lost.metadata))
        text = f"{corrupt}: nothing behind it is given here; hand off, and resync this member in full"
        return refusal(Reason.REASON_CORRUPT_STORE, text, {"member": self._members.member})


async def serve(
    members: Members,
    opening: ConsumeOpen,
    context: grpc.aio.ServicerContext,  # type: ignore[type-arg]  # serializers are bytes
    entry: OpeningStream,
) -> bool:
    """False: the queue has no sides, as far as this member knows. Its master refuses what comes over a hop."""
    found = _queue_of(members, opening.queue)
    if found is None:
        return False
    _, queue = found
    if (problem := _problem(members, opening, queue, context)) is not None:
        await abort(context, problem)
    own = await wait_for_master(members, lambda: members.by_name[LOCAL], context, entry.until_s)
    found = _queue_of(members, opening.queue)  # it may have been deleted while this member's own domain began
    if own is None or found is None:
        await abort(context, refusal(Reason.REASON_QUEUE_NOT_FOUND, f"queue {opening.queue!r} was deleted"))
    pair, queue = found
    if (problem := _problem(members, opening, queue, context)) is not None:  # it may have lost its place meanwhile
        await abort(context, problem)
    sides = members.node.sides
    own.orders.set_now(members.node.clock.now_ms())
    anew = not opening.HasField("last_lease_id")
    name = sides.open(pair, queue, anew=anew, client_id=opening.client_id, connection=context.peer())
    if name is None:
        await abort(context, Failed(*own.no_master()))
    if isinstance(name, Refused):
        await abort(context, Failed(name.reason, name.message, dict(name.metadata)))
    at_side = ConsumeOpen()
    at_side.CopyFrom(opening)
    at_side.queue = name
    source = SideSource(members, pair, sides.key(pair, queue), queue.name)
    stream = ConsumeStream(members, context, own, at_side, None, source)
    stream.consumer.come_over(context.peer())
    with members.streams.signed(context.peer(), stream):
        await stream.run(entry)
    return True


def _queue_of(members: Members, name: str) -> tuple[Domain, QueueState] | None:
    domain = members.of_queue(name)
    machine = domain.shared.machine
    queue_id = machine.queue_id(name) if machine is not None and machine.state.sided else None
    queue = machine.state.sided.get(queue_id) if machine is not None and queue_id is not None else None
    return (domain, queue) if queue is not None else None


def _problem(
    members: Members,
    opening: ConsumeOpen,
    queue: QueueState,
    context: grpc.aio.ServicerContext,  # type: ignore[type-arg]  # serializers are bytes
) -> Failed | None:
    """Why it is not served here."""
    if came_over_a_hop(context):
        text = f"{members.peer} does not know queue {queue.name} yet, and serves its own side of it; repeat the call"
        return Failed(Reason.REASON_NO_MASTER, text, {"queue": queue.name}, 200)
    if (lost := problem_of_place(members.of_queue(queue.name).shared, queue)) is not None:
        return lost
    one = f"queue {queue.name} has replication PRODUCER: each side is given everything, in one order"
    if opening.HasField("filter"):
        return refusal(Reason.REASON_CONFIG_ERROR, f"{one}; leave out the filter", {"queue": queue.name})
    if is_immediate(opening.settle_mode):
        text = f"{one}, and remembers by leases what was settled; use settle_mode LEASE"
        return refusal(Reason.REASON_CONFIG_ERROR, text, {"queue": queue.name})
    if members.member not in queue.open_members:
        text = f"queue {queue.name} is not open at {members.member}; open it there first"
        return refusal(Reason.REASON_INVALID_STATE, text, {"queue": queue.name})
    if not queue.config.dequeue_enabled:
        return refusal(Reason.REASON_DEQUEUE_DISABLED, f"queue {queue.name} does not allow receiving")
    return None


def problem_of_place(pair: Shared, queue: QueueState) -> Failed | None:
    """What a process hears whose side has lost its place. As long as that is not committed a takeover may take it back:
    it is to come again.
    """
    loss = queue.lost.get(pair.member)
    if loss is None:
        return None
    if loss.log_index > pair.progress.commit_index:
        text = f"whether the side of queue {queue.name} at {pair.member} has its place is being decided"
        return Failed(Reason.REASON_NO_MASTER, text, {"queue": queue.name}, 200)
    lost = side_lost(queue, pair.member)
    return Failed(lost.reason, lost.message, dict(lost.metadata))
