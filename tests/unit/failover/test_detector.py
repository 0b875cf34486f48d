"""The detector at every boundary: one below, on it, and for each event that could move it."""

from __future__ import annotations

import pytest

from failover.detector import HUNG_MS, LOST_MS, PAUSE_MS, SUSPECT_MS, Detector, Light, Reading

TICK_MS = 100


def heard(now_ms: int = 0) -> Detector:
    detector = Detector()
    detector.on_tick(now_ms)
    detector.on_heard(now_ms)
    return detector


def ticked(detector: Detector, from_ms: int, to_ms: int) -> Reading:
    """The reading at to_ms, with a tick at least every TICK_MS before it."""
    for now_ms in range(from_ms, to_ms, TICK_MS):
        detector.on_tick(now_ms)
    return detector.on_tick(to_ms)


@pytest.mark.parametrize(
    ("silent_ms", "light"),
    [
        (0, Light.GREEN),
        (SUSPECT_MS - 1, Light.GREEN),
        (SUSPECT_MS, Light.YELLOW),
        (LOST_MS, Light.YELLOW),  # connected: its loop may be busy
        (HUNG_MS - 1, Light.YELLOW),
        (HUNG_MS, Light.RED),
        (HUNG_MS * 10, Light.RED),
    ],
)
def test_lights_by_silence(silent_ms: int, light: Light) -> None:
    assert ticked(heard(), 0, silent_ms) == Reading(light, paused=False, silent_ms=silent_ms)


def test_a_frame_makes_it_green_again_from_red() -> None:
    detector = heard()
    assert ticked(detector, 0, 6_000).light is Light.RED
    detector.on_heard(6_000)
    assert detector.on_tick(6_000).light is Light.GREEN
    assert ticked(detector, 6_000, 6_000 + SUSPECT_MS).light is Light.YELLOW


@pytest.mark.parametrize(
    ("after_ms", "light"),
    [
        (SUSPECT_MS - 1, Light.GREEN),
        (SUSPECT_MS, Light.YELLOW),
        (HUNG_MS - 1, Light.YELLOW),
        (HUNG_MS, Light.RED),
    ],
)
def test_one_way_loss_counts_as_loss(after_ms: int, light: Light) -> None:
    """pair-protocol.md 4.11: the peer is heard all the time and says that it hears nothing since 0. Where that is the
    line's fault, and not that its loop is late, the connection ends first.
    """
    detector = heard()
    for now_ms in range(after_ms + 1):
        detector.on_peer_report(now_ms, heard_ago_ms=now_ms)
        if now_ms % TICK_MS == 0:
            detector.on_tick(now_ms)
    assert detector.on_tick(after_ms) == Reading(light, paused=False, silent_ms=after_ms)


def test_a_report_is_a_frame_and_an_overtaken_one_takes_nothing_back() -> None:
    detector = heard()
    ticked(detector, 0, 500)
    detector.on_peer_report(500, heard_ago_ms=10)
    detector.on_peer_report(510, heard_ago_ms=400)
    assert detector.on_tick(510).silent_ms == 20


def test_a_line_that_came_back_one_way_stays_red_until_the_peer_hears_us_again() -> None:
    detector = heard()
    detector.on_peer_report(0, heard_ago_ms=0)
    ticked(detector, 0, 6_000)
    detector.on_heard(6_000)
    assert detector.on_tick(6_000) == Reading(Light.RED, paused=False, silent_ms=6_000)
    detector.on_peer_report(6_050, heard_ago_ms=20)
    assert detector.on_tick(6_050) == Reading(Light.GREEN, paused=False, silent_ms=20)


def test_what_was_never_connected_is_yellow_and_then_red() -> None:
    """A cold start alone: lost once the timer has passed since the first tick, wherever the clock stands."""
    detector = Detector()
    assert detector.on_tick(70_000) == Reading(Light.YELLOW, paused=False, silent_ms=0)
    assert ticked(detector, 70_000, 70_000 + LOST_MS - 1).light is Light.YELLOW
    assert detector.on_tick(70_000 + LOST_MS).light is Light.RED


def test_a_reset_is_yellow_at_once_and_red_by_time_or_by_refusal() -> None:
    detector = heard()
    detector.on_link_reset(1)
    assert detector.on_tick(1).light is Light.YELLOW
    assert ticked(detector, 1, LOST_MS - 1).light is Light.YELLOW
    assert detector.on_tick(LOST_MS).light is Light.RED

    detector = heard()
    detector.on_link_reset(1)
    detector.on_reconnect_refused(2)
    assert detector.on_tick(2) == Reading(Light.RED, paused=False, silent_ms=2)
    detector.on_heard(3)
    assert detector.on_tick(3).light is Light.GREEN


def test_a_refusal_without_a_reset_says_nothing() -> None:
    detector = heard()
    detector.on_reconnect_refused(1)
    assert detector.on_tick(1).light is Light.GREEN
    detector.on_link_reset(2)
    assert detector.on_tick(2).light is Light.YELLOW


def test_a_new_connection_starts_both_directions_anew() -> None:
    detector = heard()
    detector.on_peer_report(0, heard_ago_ms=0)
    detector.on_link_reset(1)
    ticked(detector, 1, 5_000)
    detector.on_heard(5_000)
    assert detector.on_tick(5_000) == Reading(Light.GREEN, paused=False, silent_ms=0)


def test_a_late_tick_is_a_pause_reported_once_and_never_red() -> None:
    detector = heard()
    assert not detector.is_late(PAUSE_MS)
    assert detector.is_late(PAUSE_MS + 1)
    assert detector.on_tick(PAUSE_MS + 1) == Reading(Light.YELLOW, paused=True, silent_ms=SUSPECT_MS)
    assert not detector.is_late(PAUSE_MS + 1)
    after = detector.on_tick(PAUSE_MS + 1 + TICK_MS)
    assert after == Reading(Light.YELLOW, paused=False, silent_ms=SUSPECT_MS + TICK_MS)


def test_a_tick_on_the_boundary_is_no_pause() -> None:
    detector = heard()
    assert detector.on_tick(PAUSE_MS) == Reading(Light.YELLOW, paused=False, silent_ms=SUSPECT_MS)


def test_frames_read_after_a_pause_do_not_hide_it() -> None:
    """They lay in a buffer; the peer that sent them may be gone, or another may be master by now."""
    detector = heard()
    detector.on_heard(60_000)
    detector.on_peer_report(60_000, heard_ago_ms=0)
    assert detector.is_late(60_000)
    assert detector.on_tick(60_000) == Reading(Light.YELLOW, paused=True, silent_ms=SUSPECT_MS)
    detector.on_heard(60_010)
    detector.on_peer_report(60_010, heard_ago_ms=5)
    assert detector.on_tick(60_010).light is Light.GREEN


def test_after_a_pause_a_peer_that_stays_silent_is_lost_by_time() -> None:
    detector = heard()
    detector.on_tick(60_000)
    assert ticked(detector, 60_000, 60_000 + HUNG_MS - SUSPECT_MS - 1).light is Light.YELLOW
    assert detector.on_tick(60_000 + HUNG_MS - SUSPECT_MS).light is Light.RED


def test_a_refusal_from_before_a_pause_is_forgotten() -> None:
    detector = heard()
    detector.on_link_reset(1)
    detector.on_reconnect_refused(2)
    assert detector.on_tick(10_000).light is Light.YELLOW
    assert detector.on_tick(10_001).light is Light.YELLOW


def test_no_single_late_tick_turns_green_into_red() -> None:
    """A stall of our own below the pause is counted for suspect_ms at most; the next stall is counted again."""
    detector = heard()
    detector.on_link_reset(0)
    assert detector.on_tick(PAUSE_MS - 100) == Reading(Light.YELLOW, paused=False, silent_ms=SUSPECT_MS)
    assert detector.on_tick(2 * (PAUSE_MS - 100)) == Reading(Light.YELLOW, paused=False, silent_ms=2 * SUSPECT_MS)
    assert detector.on_tick(3 * (PAUSE_MS - 100)).light is Light.RED


def test_configured_limits_and_their_order() -> None:
    detector = Detector(suspect_ms=10, lost_ms=20, pause_ms=30, hung_ms=25)
    detector.on_tick(0)
    detector.on_heard(0)
    assert detector.on_tick(10).light is Light.YELLOW
    assert detector.on_tick(20).light is Light.YELLOW
    assert detector.on_tick(25).light is Light.RED
    assert detector.on_tick(56).paused
    assert Detector(lost_ms=10_000).hung_ms == 10_000  # what is connected is never lost sooner than what is not


def test_a_connection_that_ends_after_a_silence_counts_all_of_it() -> None:
    """It ends because its process answers no ping: that loop is not late, it is gone."""
    detector = heard()
    assert ticked(detector, 0, LOST_MS + 100).light is Light.YELLOW
    detector.on_link_reset(LOST_MS + 100)
    assert detector.on_tick(LOST_MS + 100).light is Light.RED


def test_suspect_comes_before_lost() -> None:
    for suspect_ms, lost_ms in ((0, 10), (10, 10), (20, 10)):
        with pytest.raises(AssertionError):
            Detector(suspect_ms=suspect_ms, lost_ms=lost_ms)


def test_a_clock_that_falls_is_a_broken_invariant() -> None:
    detector = heard(10)
    with pytest.raises(AssertionError):
        detector.on_tick(9)
