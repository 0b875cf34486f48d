"""What kept reactions are found by, against a plain model: a dict of them, gone through for each question."""

from __future__ import annotations

import random

import pytest

from replica.machine.state.kept import KeptIndex, kept_hash, place_name
from tandemq.peer.v1.record_pb2 import KEPT_BY_CORRELATION, KEPT_BY_GROUP, KEPT_BY_ID, KEPT_BY_SELECTOR

BY_NAME = (KEPT_BY_ID, KEPT_BY_CORRELATION, KEPT_BY_GROUP)
NAMES = ("", "a", "b", "c", "d")
Kept = dict[int, tuple[int, tuple[str, ...]]]
"""By index: what one is found by, and its names."""


def found(kept: Kept, by: int, name: str) -> list[int]:
    return sorted(index for index, (known_by, names) in kept.items() if known_by == by and name in names)


def compare(index: KeptIndex, kept: Kept) -> None:
    assert len(index) == len(kept)
    assert all((at in index) == (at in kept) for at in range(60))
    assert index.hashes == sum(len(names) for _, names in kept.values())
    assert index.selectors == sorted(at for at, (by, _) in kept.items() if by == KEPT_BY_SELECTOR)
    assert {by for by in (*BY_NAME, KEPT_BY_SELECTOR) if index.has(by)} == {by for by, _ in kept.values()}
    for by in BY_NAME:
        lines = [found(kept, by, name) for name in NAMES]
        assert [list(index.find(by, name)) for name in NAMES] == lines
        assert index.known(by, NAMES) == [bool(line) for line in lines]
        for count in range(len(NAMES) + 1):
            most = index.most(by, map(kept_hash, NAMES[:count]))
            assert most == max(map(len, lines[:count]), default=0)
    rows = [(at, by, [kept_hash(name) for name in names]) for at, (by, names) in sorted(kept.items())]
    assert index.rows() == rows


@pytest.mark.parametrize("seed", range(8))
def test_it_finds_those_that_are_kept_and_forgets_those_that_have_left(seed: int) -> None:
    chance, index, kept, at = random.Random(seed), KeptIndex(1), Kept(), 0
    for _ in range(150):
        if chance.random() < 0.6 and at < 55:
            at += chance.randint(1, 2)
            by = chance.choice((*BY_NAME, KEPT_BY_SELECTOR))
            names = () if by == KEPT_BY_SELECTOR else tuple(chance.sample(NAMES, chance.randint(1, 3)))
            kept[at] = by, names
            index.put(at, by, map(kept_hash, names))
        elif kept:
            start = chance.choice([*kept, 0])
            end = chance.choice((start + 1, start + 4, 60))
            index.forget(start, end)
            kept = {each: row for each, row in kept.items() if not start <= each < end}
        compare(index, kept)
    compare(KeptIndex(1, index.rows()), kept)
    index.forget(0, 60)
    compare(index, {})


def test_hashes_are_the_same_at_every_member_and_in_every_version() -> None:
    """They stand in records, and what is found by them is looked up by whoever serves then."""
    place = place_name(0x01020304, 0x05060708090A, 0x0B0C)
    assert place == bytes(range(1, 13))
    assert kept_hash(place) == 0x32319331A9A63BA5
    assert kept_hash("order-17") == kept_hash(b"order-17") == 0x78E9AE0C8E445BB0
