"""Bugs of the shells: the durability order, the connection, transfers, starts, pauses; plants them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import replica.core.replication.sync_target
import replica.peer.identity.incarnation
import replica.peer.identity.starts
import replica.peer.link
from chaos.sim.bugs.planting import Patch, bug
from replica.core.state.effects import Persist
from replica.node.loop import Node
from replica.node.steps import Steps
from replica.peer.session import Session
from storage.errors import StoreFailed, StoreFull
from tandemq.ambient import monotonic_ms

if TYPE_CHECKING:
    from failover.authority import Authority
    from replica.core.domain import Domain
    from replica.core.state.effects import Effect, Order
    from replica.node.steps import GroupCommit


def _commit_but(patch: Patch, *passed_over: type[Exception]) -> None:
    original = Node._commit

    async def commit(self: Node, group: GroupCommit) -> None:
        store_commit = self.store.commit

        def commit(batch: Any) -> None:
            try:
                store_commit(batch)
            except passed_over:
                if hasattr(self.store, "_failure"):
                    self.store._failure = None

        self.store.commit = commit  # type: ignore[method-assign]
        try:
            await original(self, group)
        finally:
            self.store.commit = store_commit  # type: ignore[method-assign]

    patch.setattr(Node, "_commit", commit)


@bug(
    "answered-before-commit",
    "DESIGN 2.2",
    "The node tells a core that records are durable before they are.",
    "tail",
    first=1,
)
def answered_before_commit(patch: Patch) -> None:
    original = Steps.on_effect

    def on_effect(self: Steps, domain: Domain, effect: Effect) -> Order | None:
        order = original(self, domain, effect)
        if isinstance(effect, Persist) and effect.appends:
            domain.on_persisted(domain.shared.progress.generation, effect.appends[-1].log_index, [])
        return order

    patch.setattr(Steps, "on_effect", on_effect)


@bug("full-store-is-success", "reliability 10", "A commit that found no room counts as durable.", "disk", first=1)
def full_store_is_success(patch: Patch) -> None:
    _commit_but(patch, StoreFull)


@bug(
    "failed-fsync-goes-on", "reliability 10", "A process whose fsync failed goes on as if it had not.", "disk", first=2
)
def failed_fsync_goes_on(patch: Patch) -> None:
    _commit_but(patch, StoreFailed)


@bug("session-reads-on", "P13", "A connection that is over is read on.", "newborn", first=73)
def session_reads_on(patch: Patch) -> None:
    def end(self: Session) -> None:
        node = self.node
        self.close("the peer's connection broke")
        node.disconnect()
        now = monotonic_ms()
        for domain in node.paired():
            domain.on_disconnected(now)
            node.dispatch(domain)
        self._tasks.clear()

    patch.setattr(Session, "_end", end)


@bug(
    "old-image-unseen",
    "reliability 6.11",
    "A directory that was put back from an old image counts as current.",
    "image",
    first=238,
)
def old_image_is_not_seen(patch: Patch) -> None:
    async def prove(_own: replica.peer.identity.incarnation.Own, _authority: Authority, _member: str) -> None:
        pass

    patch.setattr(replica.peer.identity.incarnation, "prove", prove)


@bug(
    "starts-by-number",
    "0032",
    "An older copy whose processes end before anybody has counted them catches up with the number of the original.",
    "image",
    budget=1000,
    first=865,
)
def starts_are_told_by_number(patch: Patch) -> None:
    patch.setattr(replica.peer.identity.starts.Starts, "is_others", lambda self, seen: seen.number >= self.number)


@bug(
    "seen-start-not-told",
    "reliability 6.11",
    "Whoever is refused as a copy is not told which start of it the peer has seen.",
    "swarm",
    budget=2000,
    first=330,
)
def seen_start_is_not_told(patch: Patch) -> None:
    patch.setattr(replica.peer.link, "seen_start", lambda _told: None)


@bug("salvage-skipped", "decision 0005", "What is cut from a log is not copied first.", "tail", first=15)
def salvage_is_skipped(patch: Patch) -> None:
    patch.setattr(replica.core.replication.sync_target, "salvage_above", lambda _shared, _common, _why: None)
