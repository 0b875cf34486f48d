"""Signs of life: every stream in its turn, every connection each second, and never more than the member gives."""

from __future__ import annotations

from collections import Counter

import pytest

from replica.core.delivery.signs import EVERY_MS, FRAMES_A_SECOND, Signs

TICK_MS = 20


class Open:
    """A stream that nothing else is sent to."""

    def __init__(self, connection: str) -> None:
        self.connection = connection
        self.spoke = False


def joined(connections: int, streams: int) -> tuple[Signs[Open], list[Open]]:
    signs: Signs[Open] = Signs()
    opened = [Open(f"c{number}") for number in range(connections) for _ in range(streams)]
    for stream in opened:
        signs.join(stream.connection, stream, 0)
    return signs, opened


def given(signs: Signs[Open], from_ms: int, to_ms: int) -> list[tuple[int, Open]]:
    return [(now_ms, stream) for now_ms in range(from_ms, to_ms, TICK_MS) for stream in signs.due(now_ms)]


@pytest.mark.parametrize(("connections", "streams"), [(1, 1), (1, 75), (10, 10), (100, 1)])
def test_where_there_is_room_each_stream_has_one_a_second(connections: int, streams: int) -> None:
    signs, opened = joined(connections, streams)
    began = EVERY_MS + TICK_MS
    given(signs, 0, began)
    seen = Counter(stream for _, stream in given(signs, began, began + 10 * EVERY_MS))
    assert len(seen) == len(opened)
    assert all(9 <= count <= 11 for count in seen.values()), seen.values()


@pytest.mark.parametrize(("connections", "streams"), [(20, 500), (1, 10_000), (300, 10)])
def test_no_more_than_a_member_gives_and_one_a_second_on_each_connection(connections: int, streams: int) -> None:
    signs, _ = joined(connections, streams)
    given(signs, 0, 2 * EVERY_MS)
    found = given(signs, 2 * EVERY_MS, 12 * EVERY_MS)
    assert len(found) <= 10 * max(connections, FRAMES_A_SECOND) * 1.05
    seen = Counter(stream.connection for _, stream in found)
    assert len(seen) == connections
    assert min(seen.values()) >= 9


def test_the_streams_of_a_connection_take_turns() -> None:
    signs, opened = joined(1, 1_000)
    given(signs, 0, EVERY_MS)
    found = [stream for _, stream in given(signs, EVERY_MS, EVERY_MS * 1_100 // FRAMES_A_SECOND + EVERY_MS)]
    assert found[:1_000] == opened


def test_a_stream_that_spoke_is_passed_over_once() -> None:
    signs, (first, second) = joined(1, 2)
    given(signs, 0, EVERY_MS)
    first.spoke = second.spoke = True
    assert given(signs, EVERY_MS, EVERY_MS + 2 * TICK_MS) == []
    assert not first.spoke
    assert not second.spoke
    assert {stream for _, stream in given(signs, EVERY_MS, 3 * EVERY_MS)} == {first, second}


def test_what_has_left_is_given_none() -> None:
    signs, opened = joined(2, 2)
    for stream in opened[:3]:
        signs.leave(stream.connection, stream)
    signs.leave("c7", opened[0])
    assert {stream for _, stream in given(signs, 0, 3 * EVERY_MS)} == {opened[3]}
    signs.leave("c1", opened[3])
    assert given(signs, 3 * EVERY_MS, 6 * EVERY_MS) == []


def test_a_late_look_makes_up_for_little() -> None:
    """A member that stood still for a minute has other things to do than a minute's signs."""
    signs, _ = joined(1, 1_000)
    given(signs, 0, 2 * EVERY_MS)
    assert len(signs.due(60 * EVERY_MS)) <= FRAMES_A_SECOND // 5
