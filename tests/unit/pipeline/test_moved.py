"""What a run keeps of its micro-batches is bounded, and its sums are those of all of them."""

from __future__ import annotations

from pipeline.moved import POINTS_MAX, Moved, Movements


def test_a_run_that_never_ends_keeps_so_many_points_and_its_sums() -> None:
    movements, count = Movements(), 3 * POINTS_MAX + 1
    for number in range(count):
        movements.add(Moved(float(number), 2, 10, number + 1))
        assert len(movements.points) <= POINTS_MAX
    assert (movements.micro_batches, movements.rows, movements.bytes) == (count, 2 * count, 10 * count)
    assert movements.points[-1].end == count
    assert [each.end for each in movements.points] == sorted(each.end for each in movements.points)


def test_few_micro_batches_are_all_there() -> None:
    movements = Movements()
    assert (movements.points, movements.rows) == ([], 0)
    moved = [Moved(1.0, 3, 30, 4), Moved(2.0, 1, 10, 5)]
    for each in moved:
        movements.add(each)
    assert movements.points == moved
