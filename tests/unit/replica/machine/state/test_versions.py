"""Earlier ids of messages that reactions have changed (V3, V8)."""

from __future__ import annotations

from replica.machine.state.versions import IDS_KEPT, Versions


def test_every_earlier_id_finds_the_message_where_it_is_now() -> None:
    known = Versions()
    known.replace(1, 7, 0, 5)
    known.replace(5, 9, 3, 6)
    assert (known.find(7, 0), known.find(9, 3), known.find(9, 2)) == (6, 6, None)
    assert known.rows() == [(6, [7 << 16, 9 << 16 | 3])]


def test_the_first_id_and_the_newest_are_kept() -> None:
    known = Versions()
    for number in range(1, IDS_KEPT + 3):
        known.replace(number, number, 0, number + 1)
    assert known.find(1, 0) == IDS_KEPT + 3
    assert [known.find(number, 0) for number in (2, 3)] == [None, None]
    assert known.find(4, 0) == known.find(IDS_KEPT + 2, 0) == IDS_KEPT + 3
    assert len(known.rows()[0][1]) == IDS_KEPT


def test_what_has_left_is_forgotten_and_a_copy_is_the_same() -> None:
    known = Versions()
    for number in range(1, 6):
        known.replace(number, number, 0, 10 + number)
    known.forget(12, 14)
    assert [known.find(number, 0) for number in range(1, 6)] == [11, None, None, 14, 15]
    assert Versions(known.rows()).rows() == known.rows()
    known.forget(1, 1 << 62)
    assert (len(known), known.find(1, 0), known.rows()) == (0, None, [])
