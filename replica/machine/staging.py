"""The part of a queue machine that those see who stage and publish; decides nothing itself."""

from __future__ import annotations

from collections.abc import Sequence

from replica.machine.plan.columns import Columns
from replica.machine.plan.stage import (
    PublishCall,
    PublishPlan,
    StageCall,
    plan_publish,
    plan_release,
    plan_stage,
    plan_staged,
    plan_unstage,
)
from replica.machine.state.stages import Publication, Stage, StageTotals, Writer
from replica.machine.state.state import State
from tandemq.peer.v1 import record_pb2


class Staging:
    """Of `Machine`, whose state it reads."""

    state: State

    def plan_stage(self, now_ms: int, call: StageCall) -> record_pb2.RecordHeader | None:
        """Its body is the batch as it arrived. None: the part is here already."""
        return plan_stage(self.state, now_ms, call)

    def plan_publish(self, now_ms: int, call: PublishCall) -> PublishPlan:
        """Once it is applied, `publication` is carried out by the records that `plan_staged` makes."""
        return plan_publish(self.state, now_ms, call)

    def plan_staged(self, now_ms: int, columns: Columns) -> record_pb2.RecordHeader:
        """The next part of the publication enters its queue."""
        return plan_staged(self.state, now_ms, columns)

    def plan_unstage(self, now_ms: int, stage_ids: Sequence[bytes]) -> record_pb2.RecordHeader | None:
        """None: none of them is there."""
        return plan_unstage(self.state, now_ms, stage_ids)

    def plan_release(self, now_ms: int, writer: str) -> record_pb2.RecordHeader | None:
        """None: nobody of that name is known."""
        return plan_release(self.state, now_ms, writer)

    def stage(self, stage_id: bytes) -> Stage | None:
        """To read only."""
        return self.state.stages.by_id.get(stage_id)

    def writer(self, name: str) -> Writer | None:
        """To read only."""
        return self.state.stages.writers.get(name)

    def publication(self) -> Publication | None:
        """The one that is being carried out, to read only; the others wait for it."""
        publications = self.state.stages.publications
        return publications[0] if publications else None

    def is_publishing(self, writer: str) -> bool:
        """A batch of this writer is decided and not all in its queues."""
        return any(each.writer == writer for each in self.state.stages.publications)

    def staged(self) -> tuple[int, int, int]:
        """Stages, and the rows and payload bytes that are in no queue."""
        stages = self.state.stages
        return len(stages.by_id), stages.rows, stages.payload_bytes

    def stage_totals(self) -> StageTotals:
        """Stages that ended, by how."""
        return self.state.stages.totals

    def unseen(self, queue_id: int) -> int:
        """Messages in a queue's length that belong to publications which are not over: to come, or there and hidden."""
        stages = self.state.stages
        begun = sum(each.begun[queue_id].rows for each in stages.publications if queue_id in each.begun)
        return stages.coming.get(queue_id, (0, 0))[0] + begun
