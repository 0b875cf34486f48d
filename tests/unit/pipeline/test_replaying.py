"""How a replay is cut into batches, and when two replays are the same one."""

from __future__ import annotations

from pipeline.replay import Asked
from pipeline.replaying import RECORDS, Slice, Wanted, slices


def test_batches_have_at_most_so_many_rows_and_bytes_or_one_group() -> None:
    counted = [(0, 5, 10), (1, 5, 10), (3, 1, 10), (4, 20, 1), (5, 1, 100), (6, 1, 1)]
    found = slices(counted, rows_max=10, bytes_max=100)
    assert [(each.from_log_index // RECORDS, each.until_log_index // RECORDS, each.rows) for each in found] == [
        (0, 2, 10),
        (3, 4, 1),
        (4, 5, 20),
        (5, 6, 1),
        (6, 7, 1),
    ]


def test_what_comes_behind_changes_nothing_before_the_last_batch() -> None:
    counted = [(place, 4, 4) for place in range(20)]
    short, long = slices(counted[:11], 10, 100), slices(counted, 10, 100)
    assert short[:-1] == long[: len(short) - 1]
    assert slices([], 10, 100) == []
    assert slices([(2, 1, 1)], 10, 100) == [Slice(2 * RECORDS, 3 * RECORDS, 1)]


def test_who_asks_for_something_else_or_finds_something_else_is_another_query() -> None:
    """Batches are known by their numbers: a run that is repeated and cuts others would take what it has not sent for
    sent.
    """
    asked, parts = Asked(Wanted(("q",), 0, 100), writer="w"), slices([(0, 4, 4), (1, 4, 4)], 4, 100)
    assert asked.query_id(parts) == Asked(Wanted(("q",), 0, 100), writer="w", target="elsewhere").query_id(list(parts))
    others = [Asked(Wanted(("q",), 0, 101)), Asked(Wanted((), 0, 100)), Asked(asked.wanted, "to")]
    found = {asked.query_id(parts), *(each.query_id(parts) for each in others)}
    found.add(asked.query_id(parts[1:]))
    found.add(asked.query_id(slices([(0, 4, 4), (1, 3, 3)], 4, 100)))
    assert len(found) == 6
