"""Keeps what the peer's heartbeats say of it, and of how it hears this member."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tandemq.ambient import monotonic_ms

if TYPE_CHECKING:
    from failover.detector import Detector
    from tandemq.peer.v1.peer_service_pb2 import HeartbeatFrame


class Beats:
    """Of any connection."""

    def __init__(self, detector: Detector) -> None:
        self.detector = detector
        self.heard_us_ms = 0
        """When the peer last said that it heard this member."""
        self.last_beat: HeartbeatFrame | None = None

    def on_beat(self, frame: HeartbeatFrame) -> None:
        """A heartbeat of the peer."""
        now = monotonic_ms()
        self.last_beat = frame
        self.heard_us_ms = max(self.heard_us_ms, now - frame.heard_ago_ms)
        self.detector.on_peer_report(now, frame.heard_ago_ms)
