"""Decides what the rows of the demo are and which row a received message is; it never sends or receives one."""

from __future__ import annotations

import gzip
import importlib.resources
from collections.abc import Sequence
from pathlib import Path

FLIGHTS = "flights-2013-01.csv.gz"


class Rows:
    """Lines of a text, in order. A row is known by its place; texts may repeat."""

    def __init__(self, texts: Sequence[bytes]) -> None:
        self.texts = texts
        self._places: dict[bytes, list[int]] | None = None

    def __len__(self) -> int:
        return len(self.texts)

    def find(self, index: int, payload: bytes) -> int | None:
        """The row that came at a queue's `index`; None when no row has this text.

        One producer sends the rows in order into an empty queue, so row n belongs at index n + 1. Anywhere else it is
        looked for by its text; of equal texts the nearest is meant.
        """
        expected = index - 1
        if 0 <= expected < len(self.texts) and self.texts[expected] == payload:
            return expected
        if self._places is None:
            self._places = {}
            for place, text in enumerate(self.texts):
                self._places.setdefault(text, []).append(place)
        return min(self._places.get(payload, ()), key=lambda place: abs(place - expected), default=None)


def flights() -> Rows:
    """The records that ship with the package, without their header."""
    packed = importlib.resources.files("tandemq").joinpath("data", FLIGHTS).read_bytes()
    return Rows(gzip.decompress(packed).splitlines()[1:])


def read(path: Path) -> Rows:
    """The lines of any text file; .gz is unpacked. Raises OSError."""
    data = path.read_bytes()
    return Rows((gzip.decompress(data) if path.suffix == ".gz" else data).splitlines())
