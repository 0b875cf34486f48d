"""Staged rows are in no queue until their batch is published; then all of them are, once, in order, for everybody."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from replica.machine import Limits, PublishCall, Refused, StageCall, columns_of
from replica.machine.plan.stage import plan_publish, plan_release, plan_stage, plan_staged, plan_unstage
from replica.machine.plan.time import next_due_ms
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2
from tandemq.v1 import queue_admin_service_pb2 as admin_pb2
from tests.unit.replica.machine.driver import Driver, batch_of, indexes_of

HOUR_MS = 3_600_000


def stage_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


class Staged(Driver):
    """Rows of known sizes, so that a queue's bytes tell which are in it."""

    def __init__(self, limits: Limits | None = None) -> None:
        super().__init__(limits)
        self.sizes: dict[int, Sequence[int]] = {}

    def stage(
        self,
        number: int,
        sizes: Sequence[int] = (10, 10),
        *,
        part: int = 1,
        name: str = "q",
        ttl_ms: int = 0,
        fingerprint: int = 0,
        **columns: Sequence[int] | Sequence[str],
    ) -> record_pb2.RecordHeader | None:
        made = columns_of(batch_of(sizes, queue=name, **columns))  # type: ignore[arg-type]  # columns by keyword
        call = StageCall(
            stage_id(number), part, name, made, ttl_ms, fingerprint or len(sizes), member="a"
        )  # fmt: skip
        header: record_pb2.RecordHeader | None = self.plan(lambda: plan_stage(self.master.state, self.now_ms, call))
        if header is not None:
            self.order(header)
            self.sizes[self.log_index] = sizes
        return header

    def decide(
        self,
        batch: int,
        *numbers: int,
        writer: str = "w",
        query_id: str = "query",
        previous: int | None = None,
        history_id: bytes = b"",
    ) -> bool:
        """Order the publication alone; says whether it was one before."""
        ids = [stage_id(each) for each in numbers]
        call = PublishCall(writer, query_id, batch, ids, "a", previous, history_id)
        plan = self.plan(lambda: plan_publish(self.master.state, self.now_ms, call))
        if plan.header is not None:
            self.order(plan.header)
        duplicate: bool = plan.duplicate
        return duplicate

    def enter(self, most: int = 1 << 30) -> int:
        """Put parts into their queues, at most so many; says how many."""
        done = 0
        while done < most and (publication := self.master.state.stages.publication()) is not None:
            columns = columns_of(batch_of(self.sizes[publication.parts[0].log_index]))
            header = self.plan(lambda columns=columns: plan_staged(self.master.state, self.now_ms, columns))
            self.order(header)
            done += 1
        return done

    def publish(self, batch: int, *numbers: int, **more: str) -> bool:
        duplicate = self.decide(batch, *numbers, **more)
        self.enter()
        return duplicate

    def size(self) -> tuple[int, int, int]:
        """Stages, and the rows and payload bytes that are in no queue."""
        stages = self.master.state.stages
        return len(stages.by_id), stages.rows, stages.payload_bytes

    def placed(self, writer: str = "w") -> list[tuple[str, int, int, int]]:
        known = self.master.state.stages.writers.get(writer)
        assert known is not None
        return [tuple(each) for each in known.placed]

    def reason(self, make: object) -> str:
        assert callable(make)
        return common_pb2.Reason.Name(self.refusal(make).reason).removeprefix("REASON_")


def made(**attributes: object) -> Staged:
    driver = Staged()
    driver.create(**attributes)
    return driver


def test_staged_rows_are_in_no_queue_and_published_ones_in_theirs() -> None:
    driver = made()
    driver.create("r")
    driver.stage(1, (1, 2))
    driver.stage(2, (3,), name="r")
    driver.stage(1, (4, 5, 6), part=2)
    assert (driver.info().length, driver.info("r").length, driver.browse()) == (0, 0, [])
    assert driver.size() == (2, 6, 21)

    assert driver.publish(7, 2, 1) is False

    assert driver.placed() == [("r", 1, 1, 1), ("q", 1, 5, 5)]
    assert (driver.browse(), driver.browse("r"), driver.info().bytes) == ([1, 2, 3, 4, 5], [1], 18)
    assert driver.info().highest_length == 5
    assert driver.size() == (0, 0, 0)
    assert driver.lease(10)[1] == [1, 2, 3, 4, 5]


def test_rows_enter_in_the_order_of_the_stages() -> None:
    driver = made()
    for number, size in ((1, 10), (2, 20), (3, 30)):
        driver.stage(number, (size,))
    driver.publish(0, 3, 1, 2)
    queue_id = driver.master.queue_id("q")
    assert queue_id is not None
    sizes = [part.payload_bytes for part in driver.master.queue(queue_id).segments.parts(1, 4)]
    assert sizes == [30, 10, 20]


def test_a_record_that_is_known_to_be_committed_is_seen_as_it_is_applied() -> None:
    """As a member does that reads its log again: it knows how far it was committed."""
    driver = made()
    driver.master.commit(driver.log_index + 3)
    driver.replica.commit(driver.log_index + 3)
    driver.commits = False
    driver.send(2)
    assert driver.browse() == [1, 2]
    assert not driver.master.state.pending


def test_a_batch_that_was_published_before_drops_the_stages_of_the_repetition() -> None:
    driver = made()
    driver.stage(1)
    driver.publish(5, 1)
    driver.stage(2)
    driver.stage(3)
    assert [driver.publish(5, 2), driver.publish(4, 3)] == [True, True]
    assert (driver.browse(), driver.size()[0], driver.master.state.stages.totals.aborted) == ([1, 2], 0, 2)
    assert driver.placed() == [("q", 1, 2, 2)], "the answer of the last batch stays"
    assert driver.publish(5, 1) is True, "its own stages are gone: nothing is left to do"
    driver.stage(4)
    assert driver.publish(9, 4) is False, "numbers may have gaps"
    assert driver.browse() == [1, 2, 3, 4]


def test_another_query_needs_the_name_released() -> None:
    driver = made()
    driver.stage(1)
    driver.publish(5, 1)
    driver.stage(2)
    call = PublishCall("w", "other", 0, [stage_id(2)], "a")
    refused = driver.refusal(lambda: driver.plan(lambda: plan_publish(driver.master.state, driver.now_ms, call)))
    assert (refused.reason, refused.metadata) == (
        common_pb2.REASON_WRITER_TAKEN,
        {"query_id": "query", "batch": "5"},
    )
    release = driver.plan(lambda: plan_release(driver.master.state, driver.now_ms, "w"))
    driver.order(release)
    assert plan_release(driver.master.state, driver.now_ms, "w") is None
    assert driver.publish(0, 2, query_id="other") is False
    assert driver.browse() == [1, 2, 3, 4]


def test_a_part_may_be_repeated_and_not_changed() -> None:
    driver = made()
    assert driver.stage(1, (1, 2)) is not None
    assert driver.stage(1, (1, 2)) is None
    assert driver.stage(1, (3,), part=2) is not None
    assert driver.stage(1, (1, 2)) is None
    assert driver.reason(lambda: driver.stage(1, (9,))) == "REQUEST_MISMATCH"
    assert driver.reason(lambda: driver.stage(1, part=4)) == "SEQUENCE_GAP"
    assert driver.reason(lambda: driver.stage(2, part=2)) == "STAGE_NOT_FOUND"
    assert driver.size() == (1, 3, 6)


def test_what_no_queue_could_take_is_refused_where_its_sender_still_has_it() -> None:
    driver = made(max_message_bytes=100)
    assert driver.reason(lambda: driver.stage(1, (101,))) == "MESSAGE_TOO_LARGE"
    assert driver.reason(lambda: driver.stage(1, name="nowhere")) == "QUEUE_NOT_FOUND"
    assert driver.reason(lambda: driver.stage(1, (1,), dedup_ids=("x",))) == "BAD_ATTRIBUTE"
    assert driver.reason(lambda: driver.stage(1, ())) == "BAD_REQUEST"
    config = admin_pb2.QueueConfig(enqueue_enabled=False)
    driver.queue(record_pb2.QUEUE_ACTION_UPDATE, config=config, mask=["enqueue_enabled"])
    assert driver.reason(lambda: driver.stage(1)) == "ENQUEUE_DISABLED"


def test_limits_of_what_is_staged() -> None:
    driver = Staged(Limits(stages_max=2, stage_rows_max=6, stage_bytes_max=100, writers_max=1))
    driver.create()
    driver.stage(1)
    driver.stage(2)
    assert driver.reason(lambda: driver.stage(3)) == "QUOTA_EXCEEDED"
    assert driver.reason(lambda: driver.stage(2, (1, 1, 1), part=2)) == "QUOTA_EXCEEDED", "rows"
    assert driver.reason(lambda: driver.stage(2, (61,), part=2)) == "QUOTA_EXCEEDED", "bytes"
    driver.publish(0, 1)
    assert driver.reason(lambda: driver.publish(0, 2, writer="another")) == "QUOTA_EXCEEDED"
    driver.stage(3, (60,))


def test_parts_are_bounded_however_small_they_are() -> None:
    """Each costs memory, and a publication looks at all of its parts in one turn of the loop."""
    driver = Staged(Limits(stage_parts_max=3))
    driver.create()
    driver.stage(1)
    driver.stage(1, part=2)
    driver.stage(2)
    assert driver.reason(lambda: driver.stage(2, part=2)) == "QUOTA_EXCEEDED"
    driver.decide(0, 1)
    assert driver.reason(lambda: driver.stage(2, part=2)) == "QUOTA_EXCEEDED", "they are not in their queue yet"
    driver.enter()
    driver.stage(2, part=2)


def test_a_publication_is_refused_as_a_whole_and_changes_nothing() -> None:
    driver = made(max_length=3)
    driver.create("r")
    driver.stage(1, (1,), name="r")
    driver.stage(2, (1, 2, 3, 4))
    assert driver.reason(lambda: driver.publish(0, 1, 2)) == "QUEUE_FULL"
    assert driver.reason(lambda: driver.publish(0, 1, 3)) == "STAGE_NOT_FOUND"
    assert driver.reason(lambda: driver.publish(0, 1, 1)) == "BAD_REQUEST"
    assert driver.reason(lambda: driver.publish(0, 1, writer="")) == "BAD_REQUEST"
    assert (driver.browse("r"), driver.master.state.stages.writers.get("w"), driver.size()[0]) == ([], None, 2)
    driver.publish(0, 1)
    assert driver.browse("r") == [1]


def test_what_is_promised_to_a_queue_counts_as_its_length() -> None:
    """Else others fill it in the middle of a publication, which then has no room."""
    driver = made(max_length=4)
    driver.stage(1, (1,))
    driver.stage(1, (2, 3), part=2)
    driver.decide(0, 1)
    driver.enter(1)
    assert (driver.info().length, driver.info().ready, driver.info().leased) == (3, 1, 0)
    refused = driver.send(2)
    assert [each.ordinal for each in refused.refusals] == [1]
    driver.enter()
    assert (driver.info().length, driver.browse(), driver.info().leased) == (4, [1, 2, 3, 4], 0)


def test_a_limit_that_falls_meanwhile_does_not_stop_a_publication() -> None:
    driver = made(max_length=4)
    driver.stage(1, (1, 2, 3))
    driver.decide(0, 1)
    config = admin_pb2.QueueConfig(max_length=1)
    driver.queue(record_pb2.QUEUE_ACTION_UPDATE, config=config, mask=["max_length"])
    driver.enter()
    assert driver.browse() == [1, 2, 3]


def test_nothing_of_a_publication_is_seen_before_all_of_it() -> None:
    driver = made()
    driver.create("r")
    driver.send(1)
    driver.stage(1, (1, 2))
    driver.stage(1, (3,), part=2, name="r")
    driver.stage(1, (4,), part=3)
    driver.decide(0, 1)
    for _ in range(2):
        driver.enter(1)
        driver.send(1)  # of others, behind it
        assert (driver.browse(), driver.browse("r")) == ([1], [])
    driver.commits = False
    driver.enter()
    assert (driver.browse(), driver.browse("r")) == ([1], []), "not before it is committed"
    driver.commit()
    assert (driver.browse(), driver.browse("r")) == ([1, 2, 3, 4, 5, 6], [1])
    assert driver.placed() == [("q", 2, 6, 3), ("r", 1, 1, 1)]


def test_a_second_publication_waits_for_the_first_and_is_hidden_after_it() -> None:
    driver = made()
    driver.stage(1, (1,))
    driver.stage(2, (2, 3))
    driver.decide(0, 1, writer="v")
    driver.decide(0, 2, writer="w")
    assert (driver.master.state.stages.is_publishing("v"), driver.master.state.stages.is_publishing("w")) == (
        True,
        True,
    )
    driver.commits = False
    driver.enter(1)
    first = driver.log_index
    driver.enter()
    driver.master.commit(first)
    assert driver.browse() == [1]
    driver.commit()
    assert driver.browse() == [1, 2, 3]
    assert (driver.placed("v"), driver.placed("w")) == ([("q", 1, 1, 1)], [("q", 2, 3, 2)])


@pytest.mark.parametrize("entered", [0, 1, 2])
def test_a_restart_in_the_middle_goes_on_where_the_records_end(entered: int) -> None:
    driver = made()
    driver.create("r")
    driver.send(1)
    driver.stage(1, (1, 2))
    driver.stage(1, (3,), part=2, name="r")
    driver.stage(1, (4,), part=3)
    driver.stage(9, (5,))
    driver.decide(3, 1)
    driver.enter(entered)
    digest = driver.master.digest()
    driver.master = driver.restored()
    assert driver.master.digest() == digest
    assert driver.browse() == [1]
    assert driver.size() == (1, 5 - [0, 2, 3][entered], 15 - [0, 3, 6][entered])
    driver.enter()
    assert (driver.browse(), driver.browse("r")) == ([1, 2, 3, 4], [1])
    assert driver.placed() == [("q", 2, 4, 3), ("r", 1, 1, 1)]
    assert driver.publish(3, 9) is True


def test_records_are_kept_until_their_rows_are_in_a_queue_or_dropped() -> None:
    driver = made()
    driver.stage(1)
    first = driver.log_index
    driver.stage(2)
    second = driver.log_index
    driver.send(1)
    queued = driver.log_index
    assert list(driver.master.live_log_indexes()) == [(1, first), (1, second), (1, queued)]
    assert [driver.master.live(each, 1) for each in (first, second, queued)] == [True, True, True]
    driver.decide(0, 1)
    assert driver.master.live(first, 1)
    driver.enter()
    assert not driver.master.live(first, 1)
    assert driver.freed[-1] == first
    header = driver.plan(lambda: plan_unstage(driver.master.state, driver.now_ms, [stage_id(2), stage_id(3)]))
    driver.order(header)
    assert (driver.master.live(second), driver.freed[-1], driver.size()) == (False, second, (0, 0, 0))


def test_an_abort_takes_nothing_back_that_was_published() -> None:
    driver = made()
    driver.stage(1)
    driver.decide(0, 1)
    assert driver.plan(lambda: plan_unstage(driver.master.state, driver.now_ms, [stage_id(1)])) is None
    driver.enter()
    assert driver.browse() == [1, 2]


def test_a_stage_is_dropped_when_its_time_is_over_and_that_is_counted() -> None:
    driver = made()
    driver.stage(1, ttl_ms=5_000)
    driver.now_ms += 4_000
    driver.stage(1, part=2, ttl_ms=5_000)
    driver.stage(2)
    driver.now_ms += 4_999
    assert driver.expire() == 0
    assert next_due_ms(driver.master.state) == driver.now_ms + 1
    driver.now_ms += 1
    assert driver.expire() == 1
    assert (driver.master.state.stages.by_id.get(stage_id(1)), driver.master.state.stages.totals.expired) == (None, 1)
    assert driver.reason(lambda: driver.publish(0, 1)) == "STAGE_NOT_FOUND"
    driver.master = driver.restored()
    driver.now_ms += HOUR_MS
    assert (driver.expire(), driver.size()) == (1, (0, 0, 0))


def test_a_queue_that_is_deleted_takes_its_rows_along() -> None:
    driver = made()
    driver.create("r")
    driver.stage(1)
    driver.stage(1, (1,), part=2, name="r")
    driver.stage(2, (1, 2, 3))
    driver.stage(3, (4,), name="r")
    driver.stage(4, (5,))
    driver.decide(0, 2, 3)
    driver.decide(0, 4, writer="v")
    driver.queue(record_pb2.QUEUE_ACTION_DELETE)
    assert (driver.master.state.stages.by_id.get(stage_id(1)), driver.master.state.stages.totals.lost) == (None, 1)
    assert not driver.master.state.stages.is_publishing("v")
    driver.enter()
    assert (driver.browse("r"), driver.placed(), driver.placed("v")) == ([1], [("r", 1, 1, 1)], [])
    assert driver.size() == (0, 0, 0)


def test_a_queue_that_is_deleted_in_the_middle_ends_what_it_had_begun() -> None:
    driver = made()
    driver.create("r")
    driver.stage(1, (1,), name="r")
    driver.stage(1, (2,), part=2)
    driver.decide(0, 1)
    driver.enter(1)
    assert driver.browse("r") == []
    driver.queue(record_pb2.QUEUE_ACTION_DELETE)
    assert (driver.browse("r"), driver.master.state.stages.publication()) == ([1], None)
    driver.send(1, queue="r")
    assert driver.browse("r") == [1, 2]


def test_what_an_idle_queue_is_promised_keeps_it() -> None:
    config = admin_pb2.QueueConfig()
    config.empty_idle_expiry.FromMilliseconds(1_000)
    driver = made(empty_idle_expiry=config.empty_idle_expiry)
    driver.stage(1)
    driver.now_ms += 10_000
    driver.expire()
    assert driver.publish(0, 1) is False


def test_a_queue_that_drops_its_head_makes_room() -> None:
    driver = made(max_length=3, overflow=admin_pb2.OVERFLOW_DROP_HEAD)
    driver.send(3)
    driver.stage(1, (1, 2))
    assert driver.publish(0, 1) is False
    assert (driver.browse(), driver.info().dropped_total) == ([3, 4, 5], 2)
    driver.stage(2, (1, 2, 3, 4))
    assert driver.reason(lambda: driver.publish(1, 2)) == "QUEUE_FULL"


def test_rows_keep_their_priorities() -> None:
    driver = made()
    driver.stage(1, (10, 10))
    driver.decide(0, 1)
    columns = columns_of(batch_of((10, 10), priorities=(1, 9)))
    driver.order(driver.plan(lambda: plan_staged(driver.master.state, driver.now_ms, columns)))
    header = driver.plan_lease(2)
    assert header is not None
    assert indexes_of(header.lease.ranges) == [2, 1]


def test_a_refusal_is_an_exception_of_its_own() -> None:
    driver = made()
    with pytest.raises(Refused):
        driver.decide(0, 1)


def test_a_batch_follows_the_one_that_its_writer_has_published_or_nothing_is_published() -> None:
    driver = made()
    for number in range(1, 4):
        driver.stage(number)
    assert driver.reason(lambda: driver.decide(58, 1, previous=57)) == "PAIR_CHANGED", "of which history, nobody says"
    assert driver.reason(lambda: driver.decide(58, 1, previous=57, history_id=b"h")) == "EPOCH_DIVERGED"
    driver.publish(40, 1)
    for known in ({"previous": 57}, {"previous": 57, "history_id": b"h"}):
        assert driver.reason(lambda known=known: driver.decide(58, 2, **known)) == "EPOCH_DIVERGED"
    assert not driver.decide(58, 2, previous=40)
    driver.enter()
    assert driver.decide(58, 3, previous=58), "a repetition, whose writer has written its number down"
    assert [rows for _, _, _, rows in driver.placed()] == [2]


@pytest.mark.parametrize(("sizes", "fits"), [((10, 10), True), ((10, 11), False), ((1, 1, 1), False)])
def test_a_queue_that_drops_its_head_takes_a_batch_as_large_as_itself(sizes: Sequence[int], fits: bool) -> None:
    driver = made(overflow=admin_pb2.OVERFLOW_DROP_HEAD, max_length=2, max_bytes=20, max_message_bytes=20)
    driver.send(2)
    driver.stage(1, sizes)
    if fits:
        driver.publish(1, 1)
        assert driver.browse() == [3, 4]
    else:
        assert driver.reason(lambda: driver.decide(1, 1)) == "QUEUE_FULL"
        assert driver.browse() == [1, 2]


def test_a_writer_is_told_how_far_it_is_known_here() -> None:
    driver = made()
    unknown = driver.refusal(lambda: driver.decide(5, previous=4))
    assert "it is not known here" in unknown.message
    assert unknown.metadata["batch"] == ""
    driver.stage(1)
    driver.publish(3, 1)
    for history_id in (b"", b"h" * 16):
        behind = driver.refusal(lambda history_id=history_id: driver.decide(5, previous=4, history_id=history_id))
        assert "its last batch here is 3" in behind.message
        assert (behind.reason, behind.metadata["batch"]) == (common_pb2.REASON_EPOCH_DIVERGED, "3")
    assert driver.decide(5, previous=3) is False
