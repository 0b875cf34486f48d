"""Each check of what simulated clients saw, with a violation planted into what they saw."""

from __future__ import annotations

import pytest

from chaos.history import Acked, Message
from chaos.sim.judges import ending
from chaos.sim.pair.books import Book, Received, Repetition, payload_of

ONE, TWO = Message(0, 0), Message(0, 1)
LEASE = 1 << 40 | 7


def book(kind: str = "plain") -> Book:
    """Two messages acknowledged, delivered and settled."""
    made = Book("q", kind)
    made.sent(Acked(0.1 * n, 0.1 * n + 0.05, Message(0, n), n + 1, 1, 2) for n in range(2))
    take(made, LEASE, ONE, TWO)
    made.settled(1.5, [1, 2])
    return made


def take(made: Book, lease_id: int, *messages: Message, count: int = 1, waited: bool = True, who: str = "c0") -> None:
    taken = [Received(message.number + 1, payload_of(message), count) for message in messages]
    made.took(1.0, who, taken, lease_id, waited=waited)


def broken(made: Book) -> list[str]:
    return [check.__name__ for check in ending.OF_BOOK if list(check(made))] + list(
        ending.checker.broken(made.history, ending.checks_of(made))
    )


@pytest.mark.parametrize("kind", ["plain", "two", "volatile", "conditional", "immediate", "ordered"])
def test_a_book_without_a_fault_passes(kind: str) -> None:
    assert broken(book(kind)) == []


def test_a_refused_message_that_appears() -> None:
    made = book()
    made.refused[TWO] = "STORAGE_FULL"
    assert broken(made) == ["refused_never_appears"]


def test_a_message_that_is_settled_twice() -> None:
    made = book()
    made.settled(1.6, [2])
    assert broken(made) == ["settled_once"]


def test_a_delivery_that_does_not_count_the_ones_before() -> None:
    made = book()
    take(made, LEASE + 1, TWO, count=1)
    assert broken(made) == ["counts_do_not_fall_behind"]


def test_what_was_given_back_or_left_before_both_members_knew_need_not_count() -> None:
    made = book()
    made.releases.update([2])
    take(made, LEASE + 1, TWO, count=1)
    assert broken(made) == []
    made = Book("q")
    take(made, LEASE, ONE, waited=False)
    take(made, LEASE + 1, ONE, count=1)
    assert broken(made) == []


def test_what_was_damaged_comes_late_and_all_else_in_order() -> None:
    made = Book("q")
    for number in (2, 0, 1):
        take(made, LEASE + number, Message(0, number))
    assert len(ending.out_of_order(made, ())) == 2
    (late,) = ending.out_of_order(made, {1})
    assert "at index 2" in late
    assert ending.out_of_order(made, {1, 2}) == []


def test_an_immediate_message_that_comes_twice() -> None:
    made = book("immediate")
    take(made, 0, TWO)
    assert broken(made) == ["immediate_is_at_most_once"]


def test_volatile_messages_that_go_uncounted() -> None:
    made = book("volatile")
    made.sent([Acked(2.0, 2.1, Message(0, 2), 3, 1, 2)])
    made.volatile.add(Message(0, 2))
    assert broken(made) == ["volatile_losses_are_counted"]
    made.volatile_lost = 1
    assert broken(made) == []


def test_a_persistent_message_of_a_conditional_queue_that_goes() -> None:
    made = book("conditional")
    made.sent([Acked(2.0, 2.1, Message(0, 2), 3, 1, 2)])
    made.volatile_lost = 1
    assert broken(made) == ["volatile_losses_are_counted"]


def test_order_is_asked_of_one_consumer_alone() -> None:
    made = Book("q")
    made.sent(Acked(0.1 * n, 0.1 * n + 0.05, Message(0, n), n + 1, 1, 2) for n in range(2))
    take(made, LEASE, TWO)
    take(made, LEASE + 1, ONE)
    assert broken(made) == ["first_deliveries_are_in_order"]
    take(made, LEASE + 2, ONE, count=2, who="c1")
    assert broken(made) == []


def test_one_copy_where_two_are_required() -> None:
    made = book("two")
    made.sent([Acked(0.3, 0.4, Message(0, 2), 3, 1, 1)])
    take(made, LEASE + 1, Message(0, 2))
    assert broken(made) == ["both_have_it_where_two_are_required"]


def test_a_repeated_dequeue_that_brings_less() -> None:
    made = book()
    made.repetitions.append(Repetition("c0", {1: ONE, 2: TWO}, frozenset([1, 2])))
    assert broken(made) == []
    made.repetitions.append(Repetition("c0", {1: ONE, 2: TWO}, frozenset([1])))
    assert broken(made) == ["a_repeated_dequeue_brings_the_same"]
    made.volatile.add(TWO)
    assert "a_repeated_dequeue_brings_the_same" not in broken(made)


def test_a_delivery_of_what_somebody_holds() -> None:
    made = book()
    index, payload = 3, payload_of(Message(0, 2))
    made.sent([Acked(0.3, 0.4, Message(0, 2), index, 1, 2)])
    made.took(1.0, "c0", [Received(index, payload, 1)], LEASE + 1, waited=True, until_s=3.0)
    made.took(1.1, "c0", [Received(index, payload, 1)], LEASE + 1, waited=True)  # its own again
    made.took(3.1, "c0", [Received(index, payload, 2)], LEASE + 2, waited=True)
    assert broken(made) == []
    made.took(2.9, "c0", [Received(index, payload, 3)], LEASE + 3, waited=False)
    assert broken(made) == ["a_lease_is_kept"]
    made.releases.update([index])
    assert "a_lease_is_kept" not in broken(made)


def grouped() -> Book:
    """Both messages are of one group; the second one came when the first one was done with."""
    made = Book("g", "ordered")
    made.sent(Acked(0.1 * n, 0.1 * n + 0.05, Message(0, n), n + 1, 1, 2) for n in range(2))
    made.groups |= {ONE: "red", TWO: "red"}
    take(made, LEASE, ONE)
    made.done_with(1.0, [1])
    take(made, LEASE + 2, TWO)
    made.settled(1.5, [1, 2])
    return made


def test_a_group_in_order_one_at_a_time() -> None:
    assert broken(grouped()) == []


def test_a_group_that_goes_back() -> None:
    made = grouped()
    take(made, LEASE + 3, ONE, count=2)
    assert broken(made) == ["a_group_never_goes_back"]
    made.groups[TWO] = "blue"
    assert broken(made) == [], "groups know nothing of each other"


def test_the_next_of_a_group_while_somebody_is_at_work_on_the_one_before() -> None:
    for done_s in (1.1, None):
        made = grouped()
        made.done.clear()
        if done_s:
            made.done_with(done_s, [1])
        assert broken(made) == ["one_of_a_group_at_a_time"]
