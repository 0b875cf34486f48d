"""Columns are the same bytes on machines of either byte order."""

from __future__ import annotations

import sys
from array import array

import pytest

from replica.machine.sets.packing import bytes_of, column_of

NUMBERS = (0, 1, 258, 1 << 40)


@pytest.mark.parametrize("order", ["little", "big"])
def test_a_column_comes_back_and_its_bytes_begin_with_the_lowest(order: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An array has its machine's order: what another machine would have in memory is this one's, swapped."""
    column = array("Q", NUMBERS)
    if order != sys.byteorder:
        column.byteswap()
    monkeypatch.setattr(sys, "byteorder", order)
    data = bytes_of(column)
    assert data == b"".join(number.to_bytes(8, "little") for number in NUMBERS)
    assert column_of("Q", data) == column, "and what was packed is as it was"
