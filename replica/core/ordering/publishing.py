"""Stages rows, decides publications and carries them out, part by part, at the serving master. The machine says what
may be.

A publication is decided by one record. Each ENQUEUE record that follows puts the rows of one part into its queue; what
is left stands in the queues' state, so a new master goes on where the records end. Who published is answered when all
of it is in its queues and committed, or by the next master when he repeats the call there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, assert_never

from replica.core.messages import copies
from replica.core.ordering.enqueued import is_all_volatile, not_enough
from replica.core.state.calls import AwaitOrdered, Publish, ReleaseWriter, StageRows, Unstage
from replica.core.state.effects import Note
from replica.core.state.outcomes import Moved, PublishDone, StageDone, UnstageDone
from replica.machine import Refused, columns_of
from replica.machine.plan.stage import plan_publish, plan_release, plan_stage, plan_staged, plan_unstage
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.pair_service_pb2 import PairEventKind
from tandemq.v1.queue_service_pb2 import EnqueueBatch

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from replica.core.messages.bodies import Stored
    from replica.core.ordering.desk import Desk
    from replica.core.state.calls import StagingCall, Waiter
    from replica.core.state.outcomes import StagingDone
    from replica.machine import Columns, PublishCall, StageCall
    from replica.machine.state.stages import Stages

TURN_BYTES, TURN_PARTS = 4 << 20, 64
"""Of one turn: others share the group commit and the loop. The next one waits until it is committed."""
WAITING_MAX = 1_000


class WaitingForBatch(NamedTuple):
    """A caller that is answered when a batch is in its queues."""

    writer: str
    batch: int
    waiter: Waiter
    duplicate: bool


class Publishing:
    """One domain at one member."""

    def __init__(self, orders: Desk, read: Callable[[int], Stored | None]) -> None:
        self.orders = orders
        self.read = read
        """A record from the store, by log index."""
        self.turn_parts = TURN_PARTS
        self.last_part = 0
        """Log index of the last part that was put into its queue."""
        self.waiting: list[WaitingForBatch] = []
        self.held_back = ""
        """Why nothing is put into queues now: reported once."""

    @property
    def stages(self) -> Stages:
        """What is staged and on its way, to read only."""
        return self.orders.machine.state.stages

    # -- calls -----------------------------------------------------------------------------------------------------

    def execute(self, waiter: Waiter, call: StagingCall) -> None:
        """Raises Refused with nothing done."""
        match call:
            case StageRows(part, body):
                self._answer_committed(waiter, self._stage(part, body))
            case Publish(batch, min_copies):
                self.publish(waiter, batch, min_copies)
            case Unstage(stage_ids):
                self._answer_committed(waiter, self._unstage(stage_ids))
            case ReleaseWriter(writer):
                self._answer_committed(waiter, self._release_writer(writer))
            case AwaitOrdered():
                self._answer_committed(waiter, UnstageDone(0))
            case _:
                assert_never(call)

    def _answer_committed(self, waiter: Waiter, done: StagingDone) -> None:
        orders = self.orders
        orders.when_committed(orders.shared.log.last_index, lambda: orders.reply(waiter, done), orders.moved(waiter))

    def _stage(self, part: StageCall, body: bytes) -> StageDone:
        orders = self.orders
        header = plan_stage(orders.machine.state, orders.time_ms, part)
        if header is not None:
            self._check_copies(1, (header.stage.queue_id,))
            orders.check_space(len(body), all_volatile=False)
            orders.room_bytes -= len(body)
            orders.order(header, body)
        stage = self.stages.by_id.get(part.stage_id)
        assert stage is not None
        return StageDone(stage.rows, stage.payload_bytes, stage.expires_at_ms, duplicate=header is None)

    def publish(self, waiter: Waiter, batch: PublishCall, min_copies: int) -> None:
        """Answered when it is in its queues, which may be now."""
        orders = self.orders
        if len(self.waiting) >= WAITING_MAX:
            text = f"{WAITING_MAX} calls wait for their batches to be in the queues; repeat it later"
            raise Refused(Reason.REASON_TOO_MANY_WAITERS, text, {}, 1000)
        plan = plan_publish(orders.machine.state, orders.time_ms, batch)
        if not plan.duplicate:
            self._check_copies(min_copies, plan.queue_ids)
            orders.check_space(plan.payload_bytes, all_volatile=False)
        if plan.header is not None:
            orders.order(plan.header)
        self.waiting.append(WaitingForBatch(batch.writer, batch.batch, waiter, plan.duplicate))
        self.look()

    def _unstage(self, stage_ids: Sequence[bytes]) -> UnstageDone:
        orders = self.orders
        header = plan_unstage(orders.machine.state, orders.time_ms, stage_ids)
        if header is None:
            return UnstageDone(0)
        orders.order(header)
        return UnstageDone(len(header.unstage.stage_ids))

    def _release_writer(self, writer: str) -> UnstageDone:
        header = plan_release(self.orders.machine.state, self.orders.time_ms, writer)
        if header is None:
            return UnstageDone(0)
        self.orders.order(header)
        return UnstageDone(1)

    def _check_copies(self, min_copies: int, queue_ids: Sequence[int]) -> None:
        machine, copies_now = self.orders.machine, self.orders.copies
        two = any(machine.queue(queue_id).config.require_two for queue_id in queue_ids)
        wanted = max(min_copies, 2 if two else 1)
        if copies_now < wanted:
            raise Refused(*not_enough(copies_now, wanted))

    # -- carrying out ------------------------------------------------------------------------------------------------

    def on_following(self) -> None:
        """Another member orders now: it goes on, and answers whoever repeats the call there."""
        waiting, self.waiting = self.waiting, []
        self.last_part = 0
        for each in waiting:
            self.orders.moved(each.waiter)()

    def look(self) -> None:
        """Time passes, at the serving master, or a batch was decided: one turn, once the last one is committed."""
        orders = self.orders
        if self.stages.publication() is not None and self.last_part <= orders.shared.progress.commit_index:
            self._turn()
        if self.waiting:
            self._release()

    def _turn(self) -> None:
        size = parts = 0
        while (publication := self.stages.publication()) is not None:
            part = publication.parts[0]
            if parts and (size + part.payload_bytes > TURN_BYTES or parts >= self.turn_parts):
                return
            stored = copies.careful(self.read)(part.log_index)
            if stored is None:
                self._hold_back(publication.writer, publication.batch, part.log_index)
                return
            self._enter(columns_of(EnqueueBatch.FromString(stored.body)), stored.body)
            size += part.payload_bytes
            parts += 1
        self.held_back = ""

    def _enter(self, columns: Columns, body: bytes) -> None:
        orders = self.orders
        header = plan_staged(orders.machine.state, orders.time_ms, columns)
        orders.room_bytes -= len(body)
        self.last_part = orders.order(header, body, volatile_body=is_all_volatile(header.enqueue))

    def _hold_back(self, writer: str, batch: int, log_index: int) -> None:
        text = (
            f"batch {batch} of writer {writer} is decided and waits: its rows in record {log_index} cannot be read "
            "here; hand the mastership over to the member whose copy is good"
        )
        if self.held_back != text:
            self.held_back = text
            facts = {"writer": writer, "batch": str(batch), "log_index": str(log_index)}
            self.orders.shared.outbox.add(Note(PairEventKind.PAIR_EVENT_KIND_FAULT, text, facts))

    def report_expired(self, stage_ids: Sequence[bytes]) -> None:
        """Stages are about to be dropped because their time is over: nobody published them, and perhaps somebody meant
        to.
        """
        if not stage_ids:
            return
        rows = sum(stage.rows for stage in map(self.stages.by_id.get, stage_ids) if stage is not None)
        text = f"{len(stage_ids)} stages with {rows} rows are dropped: their time is over, and nobody published them"
        facts = {"stages": str(len(stage_ids)), "rows": str(rows), "first": stage_ids[0].hex()}
        self.orders.shared.outbox.add(Note(PairEventKind.PAIR_EVENT_KIND_FAULT, text, facts))

    def _release(self) -> None:
        """Answer those whose batch is in its queues, once that is committed."""
        left = [each for each in self.waiting if self.stages.is_publishing(each.writer)]
        over = [each for each in self.waiting if not self.stages.is_publishing(each.writer)]
        self.waiting = left
        for each in over:
            self._answer(each)

    def _answer(self, each: WaitingForBatch) -> None:
        orders = self.orders
        writer = self.stages.writers.get(each.writer)
        if writer is None:  # released meanwhile: what became of the batch is not known any more
            orders.reply(each.waiter, Moved(f"writer {each.writer} was released while its batch was published"))
            return
        placed = tuple(writer.placed) if writer.batch == each.batch else ()
        self._answer_committed(each.waiter, PublishDone(placed, each.duplicate))
