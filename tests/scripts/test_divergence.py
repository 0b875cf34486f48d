"""Two histories: the stories of `tests.support.diverging`, and each of its rules taken out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import replica.following
import replica.sync_target
from replica.replication import Replication
from tests.support import diverging


@pytest.mark.parametrize("story", diverging.ALL, ids=lambda story: story.__name__)
def test_story_ends_well(story: Callable[[], None]) -> None:
    story()


def no_judge(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replica.following, "judge", lambda _shared, _begin: None)
    patch.setattr(replica.sync_target, "cut_above", lambda _shared, begin: begin.base_index)


def the_unknown_is_common(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("replica.divergence._as_far_as_not_alone", lambda _shared, end: end)


def no_memory(patch: pytest.MonkeyPatch) -> None:
    original = Replication.start

    def start(self: Replication, now_ms: int) -> None:
        self.shared.state.diverged = ""
        self.shared.state.solo_since = 0
        original(self, now_ms)

    patch.setattr(Replication, "start", start)


def no_copy(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(replica.sync_target, "salvage_above", lambda _shared, _common, _why: None)


def every_epoch_counts(patch: pytest.MonkeyPatch) -> None:
    def first_operation(log: Any, first: int, _held_from: int) -> int:
        return first if first <= log.last_index else 0

    patch.setattr("replica.divergence.first_operation", first_operation)


def answers_before_it_is_written(patch: pytest.MonkeyPatch) -> None:
    def record_solo(self: Replication, solo_since: int) -> None:
        self.shared.state.solo_since = solo_since
        self.shared.persist_state()

    patch.setattr(Replication, "_record_solo", record_solo)


def publish_before_it_is_written(patch: pytest.MonkeyPatch) -> None:
    original = Replication._publish

    def publish(self: Replication, register: Any) -> None:
        state, recording = self.shared.state, self.recording
        solo_since, state.solo_since, self.recording = state.solo_since, 0, 0
        original(self, register)
        state.solo_since, self.recording = solo_since, recording

    patch.setattr(Replication, "_publish", publish)


@pytest.mark.parametrize(
    ("story", "remove", "breaks"),
    [
        (diverging.old_master_returns, no_judge, "cut"),
        (diverging.meets_while_serving, no_judge, "took part"),
        (diverging.restarts_diverged, no_memory, "forget"),
        (diverging.ordinary_tail, no_copy, "vanished"),
        (diverging.full_transfer_wipes, no_copy, "vanished"),
        (diverging.dies_before_the_cut, no_copy, "copied first"),
        (diverging.epoch_without_entries, every_epoch_counts, "not a pair"),
        (diverging.one_number_twice_and_trimmed, the_unknown_is_common, "in silence"),
        (diverging.unanswered_tail_after_rejoin, publish_before_it_is_written, "and yet"),
        (diverging.died_before_it_was_written, answers_before_it_is_written, "nobody will know"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_story_fails_without_the_rule(
    story: Callable[[], None], remove: Callable[[pytest.MonkeyPatch], None], breaks: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        remove(patch)
        with pytest.raises(AssertionError, match=breaks):
            story()
