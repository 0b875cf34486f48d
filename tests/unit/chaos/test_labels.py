"""Labels of moments that are close to each other can all be read."""

from __future__ import annotations

from chaos.labels import placed


def test_labels_cover_no_other_one() -> None:
    at_once = [(500.0, "twin killed a"), (500.0, "all killed"), (510.0, "twin back a"), (700.0, "handed over")]
    assert [place.row for place in placed(at_once, 10, 1_000)] == [0, 1, 2, 0]


def test_those_at_the_edge_end_there_and_count_as_where_they_are() -> None:
    at_the_edge = placed([(930.0, "drained"), (990.0, "drained")], 10, 1_000)
    assert [place.row for place in at_the_edge] == [0, 1]
    assert at_the_edge[1].left + 7 * 6.2 == 1_000
