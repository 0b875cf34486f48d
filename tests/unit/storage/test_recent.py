"""What is pending, as a value: nothing that was taken changes, and a write under way is told from what it is not."""

from __future__ import annotations

from storage.recent import NOTHING, Published, Recent
from storage.store import Append


def added(recent: Recent, number: int, *log_indexes: int, **meta: bytes | None) -> Recent:
    return recent.add(number, [Append(1, index, b"%d" % index) for index in log_indexes], meta)


def rows(recent: Recent) -> list[int]:
    return [index for index, _ in recent.tails[1].rows(0)] if 1 in recent.tails else []


def test_a_value_that_was_taken_does_not_change() -> None:
    first = added(NOTHING, 1, 5, 6, a=b"1")
    second = added(first, 2, 9, a=None, b=b"2")
    assert (rows(first), rows(second)) == ([5, 6], [5, 6, 9])
    assert (first.tails[1].highest, second.tails[1].highest) == (6, 9)
    assert (first.tails[1].read(9), second.tails[1].read(9), second.tails[1].read(7)) == (None, b"9", None)
    assert dict(first.meta) == {"a": (1, b"1")}
    assert dict(second.meta) == {"a": (2, None), "b": (2, b"2")}
    assert [index for index, _ in second.tails[1].rows(6)] == [6, 9]
    assert (bool(NOTHING), bool(first)) == (False, True)


def test_what_came_since_has_lists_of_its_own() -> None:
    first = added(NOTHING, 1, 5, a=b"1", b=b"1")
    second = added(added(first, 2, 6, a=b"2"), 3, 7)
    rest = second.since(first)
    assert (rows(rest), dict(rest.meta), rest.last) == ([6, 7], {"a": (2, b"2")}, 3)
    third = added(rest, 4, 8)
    assert (rows(second), rows(rest), rows(third)) == ([5, 6, 7], [6, 7], [6, 7, 8])
    assert second.since(second) is NOTHING
    assert second.since(NOTHING).size == second.size == 3 + 3
    assert rest.size == 3


def test_a_read_sees_what_a_write_under_way_writes_exactly_once() -> None:
    pending = added(NOTHING, 1, 5, a=b"1")
    started = Published(pending).started(7)
    later = started._replace(now=added(started.now, 2, 6))
    assert (rows(later.over(6)), rows(later.over(7))) == ([5, 6], [6])
    ended = later.ended(done=True)
    assert (rows(ended.over(0)), ended.attempt) == ([6], 1)
    failed = later.ended(done=False)
    assert rows(failed.over(0)) == [5, 6]
    assert failed.started(7).attempt == 2
