"""What is pending, as a value: nothing that was taken changes, and a write under way is told from what it is not."""

from __future__ import annotations

import random

import pytest

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


@pytest.mark.parametrize("seed", range(5))
def test_it_is_what_a_list_of_commits_would_be(seed: int) -> None:
    """Also what of it came since an earlier one; in sizes, in changes and in what is read."""
    chance = random.Random(seed)
    values, commits = [NOTHING], list[tuple[list[Append], dict[str, bytes | None]]]()
    tops = dict.fromkeys(range(3), 0)
    for number in range(1, 40):
        appends = []
        for _ in range(chance.randrange(3)):
            domain = chance.randrange(3)
            tops[domain] += chance.randrange(1, 4)
            appends.append(Append(domain, tops[domain], b"x" * chance.randrange(5)))
        meta = {chance.choice("ab"): chance.choice((None, b"", b"123"))} if chance.random() < 0.4 or not appends else {}
        commits.append((appends, meta))
        values.append(values[-1].add(number, appends, meta))
    for earlier in range(0, 40, 3):
        for later in range(earlier, 40):
            check(values[later].since(values[earlier]), commits[earlier:later], earlier)


def check(found: Recent, commits: list[tuple[list[Append], dict[str, bytes | None]]], earlier: int) -> None:
    appends = [each for made, _ in commits for each in made]
    meta: dict[str, tuple[int, bytes | None]] = {}
    for number, (_, values) in enumerate(commits, earlier + 1):
        meta |= {key: (number, value) for key, value in values.items()}
    assert dict(found.meta) == meta
    assert found.changes == len(appends) + sum(len(values) for _, values in commits)
    assert found.size == sum(len(each.record) for each in appends) + sum(
        len(value or b"") for _, values in commits for value in values.values()
    )
    assert (found.last, bool(found)) == ((earlier + len(commits), True) if commits else (0, False))
    for domain in range(3):
        rows = [(log_index, record) for its, log_index, record in appends if its == domain]
        tail = found.tails.get(domain)
        assert (tail is None) == (not rows)
        if tail is not None:
            assert list(tail.rows(0)) == rows
            assert (tail.lowest, tail.highest, tail.end) == (rows[0][0], rows[-1][0], len(rows))
            for first in range(rows[-1][0] + 2):
                assert list(tail.rows(first)) == [row for row in rows if row[0] >= first]
                assert tail.read(first) == dict(rows).get(first)


def test_a_value_is_added_to_once() -> None:
    first = added(NOTHING, 1, 5)
    added(first, 2, 6)
    with pytest.raises(AssertionError, match="not the newest"):
        added(first, 2, 6)


def test_a_write_that_ended_is_over() -> None:
    with pytest.raises(AssertionError):
        Published().ended(done=True)
    published = Published(added(NOTHING, 1, 5)).started(7)
    assert (published.attempt, published.transaction, published.writing) == (1, 7, published.now)
    assert published.over(8) is NOTHING
    ended = published.ended(done=True)
    assert (ended.now, ended.attempt, ended.writing) == (NOTHING, 1, None)
