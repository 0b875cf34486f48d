"""What clients saw of dead letters, moves, delays and requests is judged without the log too: each rule can break."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chaos.history import Acked, Delivered, Message
from chaos.sim.draw.profiles import draw
from chaos.sim.judges import departures
from chaos.sim.judges.departures import Finding
from chaos.sim.pair.books import ANSWERS, MOVING, REQUESTS, Book
from chaos.sim.pair.plan import Fault, Plan
from chaos.sim.world.world import World

ONE, TWO = Message(0, 1), Message(0, 2)


def acked(message: Message, index: int, asked_s: float = 1.0) -> Acked:
    return Acked(asked_s, asked_s + 0.1, message, index, 1, 2)


def given(message: Message, index: int, at_s: float = 2.0) -> Delivered:
    return Delivered(at_s, message, index, 1, "somebody")


@pytest.fixture
def world() -> World:
    return World(Plan(1, "given"))


@pytest.fixture
def book() -> Book:
    """One message sent, delivered, and done with."""
    made = Book("l", MOVING)
    made.history.acked.append(acked(ONE, 1))
    made.history.delivered.append(given(ONE, 1))
    made.acknowledged.add(1)
    return made


def found(world: World, *books: Book) -> list[Finding]:
    return [finding for check in departures.OF_CLIENTS for finding in check(world.pair, list(books))]


def test_a_message_that_came_and_was_acknowledged_breaks_nothing(world: World, book: Book) -> None:
    assert found(world, book) == []


def test_an_index_of_two_messages_is_found(world: World, book: Book) -> None:
    book.history.delivered.append(given(TWO, 1))
    assert [rule for rule, _ in found(world, book)] == [departures.PLACE]


def test_a_message_that_is_acknowledged_in_two_queues_is_found(world: World, book: Book) -> None:
    letters = Book("l.dead", MOVING)
    letters.history.delivered.append(given(ONE, 1))
    assert found(world, book, letters) == [], "it was moved back"
    letters.acknowledged.add(1)
    assert [rule for rule, _ in found(world, book, letters)] == [departures.PLACE]


def test_an_acknowledged_message_that_never_came_is_found_unless_its_time_was_over(world: World, book: Book) -> None:
    book.history.acked.append(acked(TWO, 2))
    assert [rule for rule, _ in found(world, book)] == [departures.LOST]
    book.wishes.expiring.add(TWO)
    assert found(world, book) == []


def test_a_delay_that_is_not_kept_is_found_where_clocks_are_right(world: World, book: Book) -> None:
    book.wishes.delays_ms[ONE] = 1_000
    assert found(world, book) == []
    book.wishes.delays_ms[ONE] = 1_001
    assert [rule for rule, _ in found(world, book)] == [departures.WAITS]
    clock = Fault(1, "clock", "a", {"by_ms": 1})
    assert found(World(replace(world.plan, faults=(clock,))), book) == []


@pytest.mark.parametrize(
    ("tried", "ends", "count"),
    [
        ({b"7:1": True}, {("REPLIED", b"7:1")}, 0),
        ({b"7:1": False, b"7:2": False}, {("REPLIED", b"7:2")}, 0),
        ({b"7:1": False}, {("REPLY_TIMEOUT", b"")}, 0),
        ({b"7:1": True, b"7:2": False}, {("REPLIED", b"7:2")}, 1),
        ({b"7:1": True}, {("REPLY_TIMEOUT", b"")}, 1),
        ({b"7:1": True, b"7:2": True}, {("REPLIED", b"7:1")}, 1),
        ({b"7:1": False}, {("REPLIED", b"7:3")}, 1),
        ({b"7:1": False}, {("REPLIED", b"7:1"), ("REPLY_TIMEOUT", b"")}, 1),
    ],
)
def test_a_request_has_one_end_and_the_answer_that_was_confirmed(
    world: World, tried: dict[bytes, bool], ends: set[tuple[str, bytes]], count: int
) -> None:
    book = Book("r", REQUESTS)
    book.wishes.answers[1], book.wishes.ends[1] = tried, ends
    assert [rule for rule, _ in found(world, book)] == [departures.ANSWER] * count


@pytest.mark.parametrize(("copies", "count"), [([(7, 1)], 0), ([(7, 1), (7, 1)], 1), ([(7, 9)], 1)])
def test_a_copy_of_an_answer_comes_once(world: World, copies: list[tuple[int, int]], count: int) -> None:
    book, answers = Book("r", REQUESTS), Book("answers", ANSWERS)
    book.wishes.answers[1] = {b"7:1": True}
    for index, message in enumerate(copies, 1):
        answers.history.delivered.append(given(Message(*message), index))
    assert [rule for rule, _ in found(world, book, answers)] == [departures.ANSWER] * count


def test_queues_without_any_of_this_are_not_looked_at(world: World) -> None:
    world.pair.run.books["q"].history.acked.append(acked(ONE, 1))
    assert list(departures.broken(world.pair)) == []


@pytest.mark.parametrize("profile", ["letters", "requests"])
def test_what_is_drawn_is_drawn_again(profile: str) -> None:
    assert draw(profile, 7) == draw(profile, 7)
    assert draw(profile, 7) != draw(profile, 8)
