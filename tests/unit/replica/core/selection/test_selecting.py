"""A filter finds the messages that a walk over all of them would find, in the order of delivery, in bounded turns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from replica.core.selection import selecting
from replica.core.selection.filters import Read, filter_of
from replica.core.selection.selecting import LOOKS_MAX, NAMED_MAX, Exact, Matcher, find
from replica.machine import Refused
from replica.node.pacing import TURN_S, Pace
from tandemq.peer.v1 import record_pb2
from tandemq.v1 import common_pb2, message_pb2, queue_service_pb2
from tests.support import profiles
from tests.unit.replica.machine.driver import Driver, indexes_of

DOMAIN = 7


class World:
    """A queue whose messages have a colour, a correlation id and a group."""

    def __init__(self) -> None:
        self.driver = Driver()
        self.queue_id = self.driver.create()
        self.bodies: dict[int, Read] = {}
        self.colours: dict[int, str] = {}
        self.exact = Exact()
        self.reads = 0
        self.now_s = 0.0
        self.read_s = 0.0
        """What a read takes."""
        self.pace = Pace(lambda: self.now_s)

    def send(self, *colours: str, priority: int = 4) -> None:
        batch = queue_service_pb2.EnqueueBatch(
            queue="q",
            messages=message_pb2.MessageBatch(
                payloads=[b"x"] * len(colours),
                priorities=[priority],
                correlation_ids=[f"c-{colour}" for colour in colours],
                group_ids=["even" if len(colour) % 2 == 0 else "" for colour in colours],
                properties=[
                    message_pb2.Properties(entries={"colour": message_pb2.PropertyValue(text=colour)})
                    for colour in colours
                ],
            ),
        )
        op = self.driver.enqueue(batch)
        self.bodies[self.driver.log_index] = Read(batch.messages, self.driver.now_ms)
        self.colours |= {op.first_index + at: colour for at, colour in enumerate(colours)}

    def read(self, log_index: int) -> Read | None:
        self.reads += 1
        self.now_s += self.read_s
        return self.bodies.get(log_index)

    def matcher(self, **asked: object) -> Matcher:
        found = filter_of(message_pb2.MessageFilter(**asked))  # type: ignore[arg-type]  # fields by keyword
        assert found is not None
        return Matcher(found, self.read, self.exact, DOMAIN, self.pace)

    def take(self, matcher: Matcher, count: int = 10) -> list[int]:
        return self.driver.lease(count, wanted=matcher)[1]

    def message_id(self, index: int) -> bytes:
        log_index, ordinal = self.driver.master.locate(self.queue_id, index)
        return DOMAIN.to_bytes(4, "big") + bytes(4) + log_index.to_bytes(6, "big") + ordinal.to_bytes(2, "big")


@pytest.fixture
def world() -> World:
    return World()


def test_a_selector_takes_what_fits_by_priority_and_index(world: World) -> None:
    world.send("red", "blue", "red")
    world.send("red", priority=9)
    red = world.matcher(selector="colour = 'red'")
    assert world.take(red, 2) == [4, 1]
    assert world.take(red) == [3]
    assert world.take(red) == []
    assert world.driver.lease()[1] == [2]


def test_what_does_not_fit_is_looked_at_once(world: World) -> None:
    for _ in range(50):
        world.send(*["blue"] * 20)
    red = world.matcher(selector="colour = 'red'")
    assert world.take(red) == []
    reads = world.reads
    world.send("red")
    assert world.take(red) == [1001]
    assert world.reads - reads <= 2


def test_a_turn_is_bounded_and_says_that_there_is_more(world: World) -> None:
    for _ in range(LOOKS_MAX // 100 + 1):
        world.send(*["blue"] * 100)
    world.send("red")
    red = world.matcher(selector="colour = 'red'")
    assert world.take(red) == []
    assert red.looking
    assert world.take(red) == [LOOKS_MAX + 101]
    assert not red.looking


@pytest.mark.parametrize("asked", [{"selector": "colour = 'red'"}, {"correlation_id": "c-red"}])
def test_a_turn_ends_when_its_time_is_over_and_the_next_goes_on_after_a_rest(
    world: World, asked: dict[str, str]
) -> None:
    for _ in range(100):
        world.send(*["blue"] * 20)
    world.send("red")
    red, turns = world.matcher(**asked), 0
    world.read_s = TURN_S / 4
    while True:
        reads = world.reads
        taken = world.take(red)
        assert world.reads - reads <= 5
        if taken:
            break
        assert red.looking
        reads, turns = world.reads, turns + 1
        assert world.take(red) == []
        assert world.reads == reads, "no turn before everybody else has had as much time"
        assert world.pace.rest_s() >= TURN_S
        world.now_s += world.pace.rest_s()
        assert turns < 50
    assert taken == [2001]
    assert turns >= 20


def test_those_who_look_share_one_pace(world: World) -> None:
    for _ in range(20):
        world.send("blue")
    world.read_s = TURN_S
    first, second = (world.matcher(selector=f"colour = '{colour}'") for colour in ("red", "green"))
    world.take(first)
    reads = world.reads
    world.take(second)
    assert world.reads == reads
    assert second.looking


def test_a_page_ends_when_its_time_is_over_but_looks_at_something(world: World) -> None:
    world.send("blue", "red", "red")
    asked = filter_of(message_pb2.MessageFilter(selector="colour = 'red'"))
    assert asked is not None
    queue = world.driver.master.queue(world.queue_id)
    begin, found = 1, []
    for _ in range(3):
        page = find(queue, asked, world.read, DOMAIN, held=[(begin, 4)], most=10, looks=10, over=lambda: True)
        assert begin < 3 or page.next_index == 0
        begin, found = page.next_index, found + page.ranges
    assert found == [(2, 3), (3, 4)]


def test_an_id_that_very_many_have_is_looked_for_by_walking(world: World) -> None:
    for _ in range(NAMED_MAX // 100 + 1):
        world.send(*["red"] * 100)
    world.send("blue")
    queue = world.driver.master.queue(world.queue_id)
    red = world.matcher(correlation_id="c-red")
    assert world.take(red) == []
    assert red.looking
    assert world.exact.grow(queue, world.read, LOOKS_MAX) > 0
    assert world.exact.find(queue, red.asked) is None
    while taken := world.driver.lease(500, wanted=red):
        if not taken[1]:
            break
        world.driver.ack(taken[0], (taken[1][0], taken[1][-1]))
    assert world.exact.find(queue, red.asked) == []
    assert world.take(world.matcher(correlation_id="c-blue")) == [NAMED_MAX + 101]


def test_ids_and_correlation_and_group_ids_are_found_without_looking_at_the_rest(world: World) -> None:
    for _ in range(10):
        world.send("red", "blue", "green")
    wanted = [world.message_id(index) for index in (14, 5)]
    reads = world.reads
    assert world.take(world.matcher(ids=wanted)) == [5, 14]
    assert world.reads - reads <= 2
    assert world.take(world.matcher(correlation_id="c-green"), 2) == [3, 6]
    reads = world.reads
    assert world.take(world.matcher(correlation_id="c-green", group_id="even")) == []
    assert world.take(world.matcher(group_id="even"), 3) == [2, 8, 11]
    assert world.reads - reads <= 10  # the index was made once; only what is taken is read again
    with_both = world.matcher(correlation_id="c-blue", selector="colour = 'red'")
    assert world.take(with_both) == []


def test_what_left_the_queue_is_not_found_and_a_new_queue_begins_anew(world: World) -> None:
    world.send("red", "red")
    gone = world.message_id(1)
    assert world.driver.lease(1, immediate=True)[1] == [1]
    assert world.take(world.matcher(ids=[gone])) == []
    kept = world.matcher(correlation_id="c-red")
    assert world.take(kept) == [2]
    world.driver.queue(record_pb2.QUEUE_ACTION_DELETE)
    world.queue_id = world.driver.create()
    world.send("blue", "red")
    assert world.take(kept) == [2]
    assert world.take(world.matcher(selector="colour = 'blue'")) == [1]


def test_what_left_the_queue_is_forgotten_when_its_id_is_asked_for(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else a queue that lives for long is one day too large to be looked up in, with nothing in it."""
    monkeypatch.setattr(selecting, "ENTRIES_MAX", 8)
    queue = world.driver.master.queue(world.queue_id)
    for turn in range(6):
        world.send("red", "green", "red")  # five letters: in no group
        for colour, taken in (("red", 2), ("green", 1)):
            lease_id, indexes = world.driver.lease(10, wanted=world.matcher(correlation_id=f"c-{colour}"))
            assert len(indexes) == taken, turn
            world.driver.ack(lease_id, *((index, index) for index in indexes))
            assert world.exact.is_whole(queue), turn
            assert not world.exact.is_too_large, turn
    for colour in ("red", "green"):
        assert world.exact.find(queue, world.matcher(correlation_id=f"c-{colour}").asked) == []
    assert world.exact._entries == 0


@pytest.mark.parametrize(
    ("asked", "reason"),
    [
        ({"ids": [b"short"]}, common_pb2.REASON_BAD_REQUEST),
        ({"ids": [bytes(16)] * 10_001}, common_pb2.REASON_BAD_REQUEST),
        ({"selector": "a ="}, common_pb2.REASON_BAD_SELECTOR),
    ],
)
def test_a_filter_that_cannot_work_is_refused(asked: dict[str, object], reason: int) -> None:
    with pytest.raises(Refused) as info:
        filter_of(message_pb2.MessageFilter(**asked))  # type: ignore[arg-type]  # fields by keyword
    assert info.value.reason == reason


def test_an_empty_filter_limits_nothing() -> None:
    assert filter_of(message_pb2.MessageFilter()) is None
    assert filter_of(message_pb2.MessageFilter(selector="  ")) is None


colours = st.sampled_from(["red", "blue", "green"])


@profiles.of(150)
@given(
    st.lists(
        st.one_of(
            st.tuples(st.just("send"), st.lists(colours, min_size=1, max_size=5), st.integers(0, 9)),
            st.tuples(st.just("take"), colours, st.integers(1, 3)),
            st.tuples(st.just("anybody"), st.just("red"), st.integers(1, 3)),
        ),
        max_size=30,
    )
)
def test_filters_agree_with_a_walk(steps: list[tuple[str, list[str] | str, int]]) -> None:
    world = World()
    standing = {
        colour: (world.matcher(selector=f"colour = '{colour}'"), world.matcher(correlation_id=f"c-{colour}"))
        for colour in ("red", "blue", "green")
    }
    waiting: list[tuple[int, int]] = []  # priority falling, index
    for at, (kind, what, number) in enumerate(steps):
        if kind == "send":
            first = world.driver.master.queue(world.queue_id).next_index
            world.send(*what, priority=number)
            waiting += [(-number, first + place) for place in range(len(what))]
            waiting.sort()
            continue
        fitting = [row for row in waiting if kind == "anybody" or world.colours[row[1]] == what][:number]
        if kind == "anybody":
            got = world.driver.lease(number)[1]
        else:
            assert isinstance(what, str)
            got = world.take(standing[what][at % 2], number)
        assert got == [index for _, index in fitting]
        waiting = [row for row in waiting if row not in fitting]
    held = [(index, index + 1) for _, index in sorted(waiting, key=lambda row: row[1])]
    asked = standing["red"][0].asked
    queue = world.driver.master.queue(world.queue_id)
    assert list(_all(queue, asked, world, held)) == [low for low, _ in held if world.colours[low] == "red"]


def _all(queue: object, asked: object, world: World, held: list[tuple[int, int]]) -> Iterator[int]:
    """Page by page, two that fit and three looks each."""
    at = 0
    while True:
        left = [run for run in held if run[0] >= at]
        found = find(queue, asked, world.read, DOMAIN, held=left, most=2, looks=3)  # type: ignore[arg-type]  # as made
        yield from (index for low, high in found.ranges for index in range(low, high))
        if not found.next_index:
            return
        at = found.next_index


def test_the_place_of_a_message_in_the_log_gives_its_index(world: World) -> None:
    world.send("red", "blue")
    world.send("green")
    segments = world.driver.master.queue(world.queue_id).segments
    for index in (1, 2, 3):
        assert segments.index_of(*world.driver.master.locate(world.queue_id, index)) == index
    log_index, _ = world.driver.master.locate(world.queue_id, 3)
    assert segments.index_of(log_index, 1) is None
    assert segments.index_of(log_index + 1, 0) is None
    assert indexes_of(world.driver.master.browse(world.queue_id, 1, 0)) == [1, 2, 3]
