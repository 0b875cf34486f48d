"""Bugs of staged rows, numbered batches and named readers of the journal; plants them."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import replica.core.ordering.publishing
import replica.core.ordering.readers
import replica.machine.features.batches
import replica.machine.features.readers
import replica.machine.rows.snapshot
import replica.node.journal
import replica.node.seen_places
import replica.services.admin.journal
import replica.services.admin.readers
from chaos.sim.bugs.planting import Patch, bug
from replica.machine.plan.stage import plan_publish
from replica.machine.state.stages import Stages
from replica.machine.state.state import State
from replica.node.journal import Bounds

if TYPE_CHECKING:
    from replica.core.ordering.publishing import Publishing
    from replica.core.state.shared import Shared
    from replica.machine.plan.stage import PublishCall, PublishPlan
    from replica.machine.state.feature_rows import Reader

PUBLICATIONS, READERS, LATE, REBUILT = "publications", "readers", "late_readers", "rebuilt"


@bug(
    "publication-waits-for-who-decided",
    "W1",
    "Only the master that decided a batch carries it out.",
    PUBLICATIONS,
    first=29,
)
def only_who_decides_carries_out(patch: Patch) -> None:
    original, turn = (
        replica.core.ordering.publishing.Publishing.publish,
        replica.core.ordering.publishing.Publishing._turn,
    )
    deciding = set[int]()

    def publish(self: Publishing, waiter: Any, call: PublishCall, min_copies: int) -> None:
        before = self.orders.machine.state.stages.is_publishing(call.writer)
        if not before:
            deciding.add(id(self))
        original(self, waiter, call, min_copies)

    patch.setattr(replica.core.ordering.publishing.Publishing, "publish", publish)
    patch.setattr(
        replica.core.ordering.publishing.Publishing, "_turn", lambda self: turn(self) if id(self) in deciding else None
    )


@bug("publication-not-hidden", "W2", "Rows of a batch are seen as they enter.", PUBLICATIONS, first=3)
def nothing_is_hidden(patch: Patch) -> None:
    patch.setattr(Stages, "seen", lambda _self, _queue_id, last_index: last_index)
    patch.setattr(Stages, "show", lambda self, queue_id: self.reached.get(queue_id, 1 << 62))
    patch.setattr(State, "show_later", lambda _self, _log_index, _queue_id: None)


@bug("batch-not-remembered", "W3", "A batch that is published again enters again.", PUBLICATIONS)
def batches_are_not_remembered(patch: Patch) -> None:
    def plan(state: State, now_ms: int, call: PublishCall) -> PublishPlan:
        known = state.stages.writers.get(call.writer)
        again = known is not None and call.batch <= known.batch
        return plan_publish(
            state, now_ms, replace(call, batch=known.batch + 1) if known is not None and again else call
        )

    patch.setattr(replica.core.ordering.publishing, "plan_publish", plan)


@bug("dropped-stages-are-published", "W3", "Stages that were dropped can be published.", PUBLICATIONS)
def drops_are_ignored(patch: Patch) -> None:
    patch.setattr(replica.core.ordering.publishing, "plan_unstage", lambda _state, _now_ms, _stage_ids: None)


@bug("writer-of-any-query", "W3", "A writer's name serves whichever query names it.", PUBLICATIONS)
def names_belong_to_nobody(patch: Patch) -> None:
    def plan(state: State, now_ms: int, call: PublishCall) -> PublishPlan:
        known = state.stages.writers.get(call.writer)
        return plan_publish(state, now_ms, replace(call, query_id=known.query_id) if known is not None else call)

    patch.setattr(replica.core.ordering.publishing, "plan_publish", plan)


@bug("writer-goes-on-anywhere", "W4", "A batch enters whether its writer is known or not.", REBUILT)
def writers_go_on_anywhere(patch: Patch) -> None:
    def plan(state: State, now_ms: int, call: PublishCall) -> PublishPlan:
        return plan_publish(state, now_ms, replace(call, previous_batch=None))

    patch.setattr(replica.core.ordering.publishing, "plan_publish", plan)


@bug("any-history-goes-on", "J8", "A place is taken for one of this pair, whichever it is of.", REBUILT)
def any_history_goes_on(patch: Patch) -> None:
    for module in (
        replica.node.journal,
        replica.services.admin.journal,
        replica.services.admin.readers,
        replica.node.seen_places,
    ):
        patch.setattr(module, "problem_of_history", lambda *_: None)


@bug("numbers-forgotten", "J7", "Which batches were taken is not remembered.", PUBLICATIONS)
def numbers_are_forgotten(patch: Patch) -> None:
    original = replica.machine.features.batches.plan_batch

    def plan_batch(state: Any, now_ms: int, call: Any) -> Any:
        state.batches.clear()
        return original(state, now_ms, call)

    patch.setattr(replica.machine.features.batches, "plan_batch", plan_batch)


@bug(
    "numbers-forgotten-in-snapshots", "J7", "A snapshot does not say which batches were taken.", PUBLICATIONS, first=10
)
def numbers_are_in_no_snapshot(patch: Patch) -> None:
    patch.setattr(replica.machine.rows.snapshot, "batch_rows", lambda _state: [])


@bug("batch-is-what-is-left", "J7", "A batch of which a part is settled or back is read as the rest.", PUBLICATIONS)
def batches_shrink(patch: Patch) -> None:
    patch.setattr(replica.machine.features.batches, "holder", lambda queue, batch: queue.leases.get(batch.lease_id))


@bug("readers-hold-nothing", "J5", "The log is trimmed whatever named readers still want.", READERS)
def readers_hold_nothing(patch: Patch) -> None:
    patch.setattr(replica.core.ordering.readers.Hold, "lowest", lambda _self: replica.core.ordering.readers.NOBODY)


@bug("readers-lose-silently", "J6", "A reader that lost its place reads on where the log begins.", LATE, first=69)
def losses_are_silent(patch: Patch) -> None:
    original = replica.machine.features.readers.named_reader

    def named_reader(state: State, name: str) -> Reader:
        known = state.readers.get(name)
        return known if known is not None else original(state, name)

    patch.setattr(replica.machine.features.readers, "named_reader", named_reader)


@bug(
    "journal-beyond-the-disk",
    "J1",
    "A replica tells its journal up to the commit index, not its disk.",
    READERS,
    2_000,
    first=1069,
)
def the_journal_goes_beyond_the_disk(patch: Patch) -> None:
    def bounds_of(shared: Shared) -> Bounds:
        return Bounds(max(1, shared.state.kept_from), shared.progress.commit_index + 1, shared.progress.generation)

    patch.setattr(replica.node.journal, "bounds_of", bounds_of)
    patch.setattr(replica.services.admin.journal, "bounds_of", bounds_of)


@bug("trimmed-places-are-good", "J4", "Reading goes on behind what was trimmed, without a word.", LATE, first=26)
def trimmed_places_are_good(patch: Patch) -> None:
    original, records = replica.node.journal.bounds_of, replica.node.journal.records
    patch.setattr(replica.node.journal, "bounds_of", lambda shared: original(shared)._replace(first=1))

    def whatever_is_there(store: Any, domain: int, first: int, end: int) -> Any:
        found = store.scan(domain, first, limit_records=1, limit_bytes=1)
        return records(store, domain, found[0][0] if found else end, end)

    patch.setattr(replica.node.journal, "records", whatever_is_there)
