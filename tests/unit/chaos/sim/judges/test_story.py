"""What a log says of indexes, leases and settlements, with records that no machine would have written."""

from __future__ import annotations

from chaos.sim.judges.invariants import Name
from chaos.sim.judges.story import QueueStory, Story, not_as_asked
from chaos.sim.pair.books import Book, Lease
from replica.machine import LeaseCall, Machine, lease_id_of
from replica.machine.plan.lease import plan_lease
from tandemq.peer.v1.record_pb2 import EnqueueOp, LeaseOp, SettleEffect
from tandemq.v1.common_pb2 import IndexRange
from tandemq.v1.queue_admin_service_pb2 import GROUP_MODE_ORDERED
from tandemq.v1.queue_service_pb2 import OUTCOME_EXTEND
from tests.unit.replica.machine.driver import Driver, batch_of


def story() -> Story:
    made = Story(Machine(1, ["a", "b"]))
    made.queues[1] = QueueStory("q")
    made._enqueue(EnqueueOp(queue_id=1, count=5, first_index=1), Name(1, 1))
    return made


def ranges(first: int, count: int = 1) -> list[IndexRange]:
    return [IndexRange(first=first, count=count)]


def test_a_log_without_a_fault() -> None:
    made = story()
    made._enqueue(EnqueueOp(queue_id=1, count=1, first_index=6), Name(1, 2))
    made._lease(LeaseOp(queue_id=1, ranges=ranges(1, 2)), Name(1, 3))
    made._settle(made.queues[1], ranges(1), Name(1, 4))
    made._lease(LeaseOp(queue_id=1, ranges=ranges(3)), Name(1, 5))
    made._lease(LeaseOp(queue_id=1, ranges=ranges(2)), Name(1, 6))  # again
    assert made.problems == []


def test_an_index_that_is_left_out_or_given_again() -> None:
    for first in (5, 7):
        made = story()
        made._enqueue(EnqueueOp(queue_id=1, count=1, first_index=first), Name(1, 2))
        assert "where 6 is next" in made.problems[0]


def test_a_first_lease_out_of_order() -> None:
    made = story()
    made._lease(LeaseOp(queue_id=1, ranges=ranges(2)), Name(1, 2))
    made._lease(LeaseOp(queue_id=1, ranges=ranges(1)), Name(1, 3))
    assert "for the first time" in made.problems[0]


def test_a_first_lease_of_what_was_damaged_comes_late() -> None:
    made = story()
    made.damaged = {"q": {1}}
    for index in (3, 1, 2):
        made._lease(LeaseOp(queue_id=1, ranges=ranges(index)), Name(1, 2))
    (problem,) = made.problems
    assert "leases 2 of q for the first time" in problem


def test_a_lease_of_what_is_gone_and_a_second_settlement() -> None:
    made = story()
    made._lease(LeaseOp(queue_id=1, ranges=ranges(1), immediate=True), Name(1, 2))
    made._lease(LeaseOp(queue_id=1, ranges=ranges(1)), Name(1, 3))
    made._settle(made.queues[1], ranges(1), Name(1, 4))
    assert "settled by" in made.problems[0]
    assert "settles 1" in made.problems[1]


def test_a_lease_that_ends_too_early() -> None:
    lease_id = lease_id_of(1, 3)
    for change, ends_ms, early_ms in (("", 1_001, 1_000), ("extended", 3_001, 3_000), ("failover", 1_501, 1_500)):
        for time_ms in (ends_ms, early_ms):
            made = story()
            made.leases[lease_id] = 1_000, 1_000
            if change == "extended":
                extend = SettleEffect(lease_id=lease_id, outcome=OUTCOME_EXTEND, expires_at_ms=3_000, duration_ms=2_000)
                made._extend([extend])
            if change == "failover":
                made._restart_leases(500)
            made._end_leases([lease_id], time_ms, Name(1, 9))
            assert made.problems == (
                [] if time_ms == ends_ms else [f"{Name(1, 9)} ends the lease of {Name(1, 3)} 1 ms too early"]
            )


def leased(*indexes: int, priorities: tuple[int, ...] = (4,) * 5, ttls_ms: tuple[int, ...] = ()) -> list[str]:
    """What a lease of these breaks, of five that were leased before and came back; 90 ms after they were sent."""
    driver = Driver()
    driver.create()
    driver.enqueue(batch_of([1] * 5, priorities=priorities, ttls_ms=ttls_ms))
    made = Story(driver.master)
    made.queues[1] = QueueStory("q", first_leased=5, visible=5)
    op = LeaseOp(queue_id=1, ranges=[IndexRange(first=index, count=1) for index in indexes])
    made._check_turns(op, driver.now_ms + 90, Name(1, 9))
    return made.problems


def test_whose_turn_it_is() -> None:
    for right in ((1,), (1, 2), (1, 2, 3, 4, 5)):
        assert leased(*right) == []
    assert leased(2) == [f"{Name(1, 9)} leases 2 of q, and it is the turn of 1"]
    assert leased(1, 3) == [f"{Name(1, 9)} leases 3 of q, and it is the turn of 2"]
    assert leased(3, 4, priorities=(4, 4, 9, 9, 4)) == []
    assert leased(1, priorities=(4, 4, 9, 9, 4)) == [f"{Name(1, 9)} leases 1 of q, and it is the turn of 3"]
    assert leased(2, ttls_ms=(50, 500, 500, 500, 500)) == [], "whose time is over has no turn"


def test_what_was_never_leased_may_not_be_visible_yet() -> None:
    driver = Driver()
    driver.create()
    driver.enqueue(batch_of([1] * 2, priorities=[4, 9]))
    made = Story(driver.master)
    made.queues[1] = QueueStory("q")
    made._check_turns(LeaseOp(queue_id=1, ranges=ranges(1)), driver.now_ms, Name(1, 9))
    assert made.problems == []
    made.queues[1].visible = 2
    made._check_turns(LeaseOp(queue_id=1, ranges=ranges(1)), driver.now_ms, Name(1, 9))
    assert len(made.problems) == 1
    made.damaged = {"q": {2}}
    made._check_turns(LeaseOp(queue_id=1, ranges=ranges(1)), driver.now_ms, Name(1, 9))
    assert len(made.problems) == 1, "what is damaged has no turn"


def test_a_lease_that_is_not_as_asked() -> None:
    lease_id = lease_id_of(1, 3)
    for lasts_ms, extended_ms, count, wrong in (
        (700, 700, 2, ""),
        (1_400, 700, 2, "asked for were 700"),
        (700, 350, 2, "asked for were 700"),
        (700, 700, 3, "was given as delivery 3"),
    ):
        made = story()
        made.queues[1].unsettled[1] = 1
        made._begin_lease(lease_id, LeaseOp(queue_id=1, ranges=ranges(1), duration_ms=lasts_ms))
        made._extend([SettleEffect(lease_id=lease_id, outcome=OUTCOME_EXTEND, duration_ms=extended_ms)])
        book = Book("q")
        book.leases.append(Lease(lease_id, 1, count, waited=True, asked_ms=700))
        assert wrong in "".join(not_as_asked(made, book))
        assert bool(wrong) == bool(list(not_as_asked(made, book)))


def grouped() -> tuple[Story, Driver]:
    """Two messages of one group and one of none."""
    driver = Driver()
    driver.create(group_mode=GROUP_MODE_ORDERED)
    driver.enqueue(batch_of([1] * 3, group_ids=["red", "red", ""]))
    made = Story(driver.master)
    made.queues[1] = QueueStory("q", ordered=True)
    return made, driver


def test_two_of_one_group_that_are_leased() -> None:
    made, driver = grouped()
    driver.lease()
    made._check_groups(1, Name(1, 3))
    assert made.problems == []
    driver.master.queue(1).leave_lines(1, 2)
    header = plan_lease(driver.master.state, driver.now_ms, LeaseCall(1, 9, 9, b"c", 9, immediate=False))
    assert header is not None
    driver.master.apply(driver.log_index + 1, 1, header)
    made._check_groups(1, Name(1, 4))
    assert "1 and 2 of one group of q are leased" in made.problems[0]


def test_a_message_that_is_in_two_places_or_in_none() -> None:
    made, driver = grouped()
    driver.lease(1)
    made.check_places()
    assert made.problems == []
    driver.master.queue(1).ready[4].add(1, 2)
    made.check_places()
    assert made.problems == ["q holds 3 messages, and has 4 in some place"]
    driver.master.queue(1).take_ready(1, 2)
    driver.master.queue(1).take_blocked(2, 3)
    made.check_places()
    assert made.problems[1:] == ["q holds 3 messages, and has 2 in some place"]
