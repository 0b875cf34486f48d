"""Watches the peer and this member's own disk, and tells the domains what it sees; decides nothing about mastership.

One per paired manager: the detector's light becomes `on_lost` and `suspect` (rulings.md 9), a write that hangs becomes
LOCAL_FAULT, and the classifier's questions of this manager are asked through `judge`.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Protocol

from failover.classifier import EventKind
from failover.detector import Light
from tandemq.ambient import monotonic_ms

if TYPE_CHECKING:
    from failover.detector import Detector
    from replica.node.loop import Node
    from replica.peer.beats import Beats
    from replica.peer.judge import Judge
    from replica.peer.link import PeerLink
    from replica.peer.session import Session
    from tandemq.config import ManagerConfig

log = logging.getLogger("tandemq.watch")

MOVE_AGAIN_MS = 60_000
"""Between two handoffs for want of room: two stores that fill up together must not play ball."""
ROOM_MIN_BYTES = 1 << 20
"""Less room than this at the peer is not worth a handoff."""


class WatchReports(Protocol):
    """Who hears of what is seen."""

    def on_link(self, text: str) -> None:
        """In a sentence, once for each absence of the peer: it begins to count as lost."""

    def on_fault(self, text: str) -> None:
        """In a sentence: this process has paused, or its disk hangs."""


class Watch:
    """The peer of one manager, as it is heard."""

    def __init__(
        self,
        node: Node,
        link: PeerLink,
        config: ManagerConfig,
        detector: Detector,
        beats: Beats,
        judge: Judge,
        reports: WatchReports,
    ) -> None:
        self.node = node
        self.link = link
        self.config = config
        self.detector = detector
        self.beats = beats
        self.judge = judge
        self._reports = reports
        self._session: Session | None = None
        self._lost = False
        self._hangs_since = 0
        """When the write began that was reported to hang; 0: none."""
        self._tick_ms = monotonic_ms()
        self._moved_ms = -MOVE_AGAIN_MS

    def look(self, now: int) -> None:
        """Called at each tick of the node."""
        self._look_at_link(now)
        self._look_at_disk(now)
        self._look_at_room(now)

    def _look_at_link(self, now: int) -> None:
        link, session = self.link, self.link.session
        if link.shut:
            self._tick_ms = now
            self.detector.on_tick(now)
            return  # this member has left: the peer is not missed
        if session is not self._session:
            if self._session is not None:
                self.detector.on_link_reset(now)
            if session is not None:
                self.detector.on_heard(now)
                self.judge.on_connected()
        self._session = session
        if session is None and (link.refused or link.left):
            self.detector.on_reconnect_refused(now)
        last_tick_ms, self._tick_ms = self._tick_ms, now
        reading = self.detector.on_tick(now)
        if reading.paused:
            self._reports.on_fault(
                f"this process stood still for {now - last_tick_ms} ms: it answers nobody until it has asked"
            )
        suspect = reading.paused or (session is not None and reading.light is not Light.GREEN)
        for domain in self.node.paired():
            domain.shared.set_suspect(suspect=suspect)
        if reading.light is not Light.RED:
            self._lost = self._lost and session is None
            return
        if not self._lost:
            self._lost = True
            how = "its port refuses connections" if link.refused else link.why_over or "it was never connected"
            how = "an operator took it out" if link.left else how
            self._reports.on_link(f"{link.peer.member} counts as lost: {how}")
        if session is not None:
            session.close("the peer is silent for longer than the lost time")
        for domain in self.node.paired():
            domain.on_lost(now, refused=link.refused or link.left, cause=link.why_over)
            self.node.dispatch(domain)

    def _look_at_disk(self, now: int) -> None:
        began = self.node.write_began_ms
        stalled = bool(began) and now - began >= self.config.failover.stall_ms
        self._report_disk(began if stalled else 0, now)
        for domain in self.node.paired():
            verdicts = domain.mastership.verdicts
            if not stalled:
                if verdicts.asked:
                    verdicts.forget(EventKind.LOCAL_FAULT)
            elif domain.shared.serving:
                verdicts.ask(EventKind.LOCAL_FAULT, now, f"a write has been under way for {now - began} ms")
                self.node.dispatch(domain)

    def _report_disk(self, hangs_since: int, now: int) -> None:
        """Once when a write hangs, and once when that one has ended. A master asks for a verdict beside it, and ends; a
        replica decides nothing: its master goes on without it.
        """
        before, self._hangs_since = self._hangs_since, hangs_since
        if before == hangs_since:
            return
        text = f"a write has been under way for {now - hangs_since} ms: this disk hangs, or is too slow"
        if not hangs_since:
            text = f"the write that hung has ended, after {now - before} ms"
        log.error("%s", text)
        self._reports.on_fault(text)

    def _look_at_room(self, now: int) -> None:
        """A full store at the master, room at the replica: the other one had better take what clients send."""
        beat = self.beats.last_beat
        if self.link.session is None or beat is None or beat.full or now < self._moved_ms + MOVE_AGAIN_MS:
            return
        for domain in self.node.paired():
            if not domain.shared.serving or not domain.orders.is_full:
                continue
            if beat.room_bytes > max(ROOM_MIN_BYTES, 2 * domain.orders.room_bytes) and domain.handoff.is_paired:
                self._moved_ms = now
                log.warning(
                    "domain %s: the store is full here and not at the peer: handing off",
                    domain.shared.name,
                    extra=domain.shared.tags,
                )
                why = "the store is full here, and the peer has room"
                domain.start_handoff(self.node.clock.now_ms(), why, automatic=True)
                self.node.dispatch(domain)


__all__ = ["Watch"]
