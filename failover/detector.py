"""Decides how silent the peer has been, green, yellow or red; it never decides what follows from that.

Intuition: two people on the phone. Hearing the other is half of it; the other must also say "I hear you", for a line
that is dead one way is dead (pair-protocol.md 4.11, one-way loss). And whoever wakes from a nap must not blame the
other for the silence: time in which this process did not run is not counted against the peer, and is reported as a
pause, so that the caller stops all output before it looks at anything else.

A frame proves the loop of its sender, which many clients may keep busy; the connection proves its process and the way
to it, and ends by itself when it is not answered, whatever the loop does (`replica.peer.keepalive`). So a peer that is
connected has until hung_ms, and one that is not until lost_ms.

Times are milliseconds of the boot-time clock, given by the caller, never falling. Clocks never decide what is true: a
wrong light costs a claim that the register judges.
"""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

SUSPECT_MS = 600  # three heartbeats of 200 ms (ruling 9)
LOST_MS = 1_500
HUNG_MS = 5_000  # connected and no frame: its loop stands still, and no load of clients explains that
PAUSE_MS = 1_700  # a tick this late: others may have decided without us (pair-protocol.md 4.11, pause)
assert SUSPECT_MS < LOST_MS < PAUSE_MS < HUNG_MS


class Light(Enum):
    """What the silence amounts to."""

    GREEN = 1  # heard, and heard by the peer, within suspect_ms
    YELLOW = 2  # suspect, or the link was reset
    RED = 3  # lost: a verdict may be asked for


class Reading(NamedTuple):
    """Answer to one tick. `paused` comes first: stop output until the peer or the register has confirmed the epoch."""

    light: Light
    paused: bool
    silent_ms: int  # the worse of the two directions, own pauses taken out


class Detector:
    """One per peer connection and member. Events in, a light at each tick; ticks come at least every suspect_ms / 2."""

    def __init__(
        self, suspect_ms: int = SUSPECT_MS, lost_ms: int = LOST_MS, pause_ms: int = PAUSE_MS, hung_ms: int = HUNG_MS
    ) -> None:
        assert 0 < suspect_ms < lost_ms
        assert pause_ms > 0
        self.suspect_ms, self.lost_ms, self.pause_ms = suspect_ms, lost_ms, pause_ms
        self.hung_ms = max(lost_ms, hung_ms)
        self._heard_ms: int | None = None  # when the peer was last heard; None until the first event
        self._heard_us_ms: int | None = None  # when the peer last heard us; None until it says so on this connection
        self._tick_ms: int | None = None
        self._now_ms = 0
        self._linked = False  # False: nothing can be green
        self._refused = False  # implies not _linked

    def on_heard(self, now_ms: int) -> None:
        """Any frame of the current connection. A frame of an older connection must not come here."""
        self._advance(now_ms)
        if not self._linked:
            self._heard_us_ms = None  # a new connection carries frames both ways until reports say otherwise
        self._heard_ms = now_ms
        self._linked, self._refused = True, False

    def on_peer_report(self, now_ms: int, heard_ago_ms: int) -> None:
        """A heartbeat that says how long ago the peer heard us. It is a frame too: on_heard is included."""
        assert heard_ago_ms >= 0
        self.on_heard(now_ms)
        # Reports may overtake each other between streams; the newest hearing stands.
        heard_us_ms = now_ms - heard_ago_ms
        self._heard_us_ms = heard_us_ms if self._heard_us_ms is None else max(self._heard_us_ms, heard_us_ms)

    def on_link_reset(self, now_ms: int) -> None:
        """The connection broke: yellow at once, red by time, or at once when the reconnect is refused."""
        self._advance(now_ms)
        self._linked = False

    def on_reconnect_refused(self, now_ms: int) -> None:
        """After a reset nobody listens at the peer's port any more: red at once (DESIGN.md section 6, takeover).

        Ignored without a reset: a refused second connection beside a live one says nothing about the peer.
        """
        self._advance(now_ms)
        self._refused = not self._linked

    def is_late(self, now_ms: int) -> bool:
        """Whether a tick now would report a pause. For a shell that is about to send before its tick came."""
        return self._tick_ms is not None and now_ms - self._tick_ms > self.pause_ms

    def on_tick(self, now_ms: int) -> Reading:
        """The light now. A pause is reported once, by the first tick after it, which is never green and never red."""
        self._advance(now_ms)
        gap_ms = 0 if self._tick_ms is None else now_ms - self._tick_ms
        paused = gap_ms > self.pause_ms
        self._tick_ms = now_ms
        if paused:
            # What was read since we woke may have lain in a buffer for as long as we slept: no sign of life either.
            self._heard_ms, self._heard_us_ms = now_ms - self.suspect_ms, None
            self._refused = False
            return Reading(Light.YELLOW, paused=True, silent_ms=self.suspect_ms)
        if gap_ms > self.suspect_ms:
            self._forgive(now_ms, gap_ms - self.suspect_ms)
        silent_ms = self._silent_ms(now_ms)
        if self._refused or silent_ms >= (self.hung_ms if self._linked else self.lost_ms):
            return Reading(Light.RED, paused=False, silent_ms=silent_ms)
        if not self._linked or silent_ms >= self.suspect_ms:
            return Reading(Light.YELLOW, paused=False, silent_ms=silent_ms)
        return Reading(Light.GREEN, paused=False, silent_ms=silent_ms)

    def _advance(self, now_ms: int) -> None:
        assert now_ms >= self._now_ms, "the boot-time clock never falls"
        self._now_ms = now_ms
        if self._heard_ms is None:  # silence is counted from the first event on
            self._heard_ms = now_ms

    def _forgive(self, now_ms: int, stalled_ms: int) -> None:
        """A stall of our own counts for suspect_ms at most, so that no single late tick turns green into red."""
        assert self._heard_ms is not None
        self._heard_ms = min(now_ms, self._heard_ms + stalled_ms)
        if self._heard_us_ms is not None:
            self._heard_us_ms = min(now_ms, self._heard_us_ms + stalled_ms)

    def _silent_ms(self, now_ms: int) -> int:
        assert self._heard_ms is not None
        return now_ms - min(self._heard_ms, self._heard_ms if self._heard_us_ms is None else self._heard_us_ms)
