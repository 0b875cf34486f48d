"""Segments against a dict of messages: what they answer, whatever came, went or was read back, in any blocks."""

from __future__ import annotations

import random
from array import array
from dataclasses import dataclass

import pytest

from replica.machine.state import segments
from replica.machine.state.segments import Part, Segments, extra_of


@dataclass
class Record:
    """One segment as one would write it down."""

    log_index: int
    first: int
    ordinals: list[int]  # of the messages that entered
    priorities: list[int]
    expiries: list[int]  # one each
    groups: list[int]
    size: int
    live: set[int]  # indexes

    @property
    def count(self) -> int:
        return len(self.ordinals)


class World:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.made = Segments()
        self.records: list[Record] = []
        self.next_index, self.log_index = 1, 0

    def append(self) -> None:
        chance, count = self.chance, self.chance.randrange(1, 5)
        self.log_index += chance.randrange(1, 4)
        outside = chance.sample(range(count + 2), 2) if chance.random() < 0.4 else []
        ordinals = [at for at in range(count + 2) if at not in outside] if outside else list(range(count))
        priorities = [chance.randrange(10) for _ in ordinals] if chance.random() < 0.4 else []
        expiries = chance.choice(([0] * count, [700] * count, [chance.choice((0, 5, 6)) for _ in ordinals]))
        groups = [chance.randrange(3) for _ in ordinals] if chance.random() < 0.3 else []
        each = array("Q", expiries) if len(set(expiries)) > 1 else array("Q")
        extra = extra_of(array("H", ordinals if outside else []), bytes(priorities), each, array("Q", groups))
        size, live = chance.randrange(200), set(range(self.next_index, self.next_index + count))
        self.made.append(self.next_index, self.log_index, count, size, 0 if each else expiries[0], extra)
        record = Record(self.log_index, self.next_index, ordinals, priorities, expiries, groups, size, live)
        self.records.append(record)
        self.next_index += count

    def take(self) -> None:
        """A run of neighbours that are there, over the ends of records."""
        there = sorted(index for record in self.records for index in record.live)
        if not there:
            return
        start = self.chance.choice(there)
        end, most = start + 1, self.chance.randrange(1, 12)
        while end in there and end - start < most:
            end += 1
        freed: list[int] = []
        before = {record.log_index for record in self.live()}
        taken = 0
        for record in self.live():
            gone = record.live & set(range(start, end))
            share = record.size if gone == record.live else record.size * len(gone) // len(record.live)
            taken, record.size, record.live = taken + share, record.size - share, record.live - gone
        assert self.made.take(start, end, freed) == taken
        assert freed == sorted(before - {record.log_index for record in self.live()})

    def check_space(self) -> None:
        """Of each block but the one that grows half is live, at least."""
        for block in self.made._blocks[:-1]:
            assert block.dead * 2 <= len(block.logs), f"{block.dead} of {len(block.logs)} rows are dead"

    def live(self) -> list[Record]:
        return [record for record in self.records if record.live]

    def part(self, record: Record, start: int, end: int) -> tuple[int, int, int, int, int, int, int]:
        low, high = max(start, record.first), min(end, record.first + record.count)
        return record.log_index, low, high, low - record.first, record.count, len(record.live), record.size

    def check(self, made: Segments) -> None:
        live = self.live()
        assert made.rows == len(live)
        logs = [record.log_index for record in live]
        assert list(made.log_indexes()) == logs
        for log_index in range(self.log_index + 2):
            above = [record for record in live if record.log_index > log_index]
            assert made.next_record(log_index) == (above[0].log_index if above else None)
            assert made.after(log_index) == [(each.log_index, each.first, each.count) for each in above]
            known = next((record for record in live if record.log_index == log_index), None)
            assert made.live_of(log_index) == (len(known.live) if known else 0)
            for ordinal in range(7):
                at = known.ordinals.index(ordinal) if known and ordinal in known.ordinals else None
                wanted = known.first + at if known and at is not None else None
                assert made.index_of(log_index, ordinal) == wanted
        for record in self.records:
            for at, index in enumerate(range(record.first, record.first + record.count)):
                assert made.locate(index) == ((record.log_index, record.ordinals[at]) if record.live else None)
        for start in range(self.next_index + 1):
            end = self.chance.choice((start + 1, start + 4, 1 << 63))
            parts = list(made.parts(start, end))
            within = [each for each in live if each.first < end and each.first + each.count > start]
            assert [tuple(part[:7]) for part in parts] == [self.part(record, start, end) for record in within]
            for part, record in zip(parts, within, strict=True):
                check_extra(part, record)


def check_extra(part: Part, record: Record) -> None:
    """What stands aside is of the right message."""
    assert part.timed == any(record.expiries)
    assert list(part.extra.groups) == record.groups
    for index in range(part.start, part.end):
        at = index - record.first
        assert part.expiry(index) == record.expiries[at]
        assert record.expiries[at : part.expiry_run(index) - record.first] == [record.expiries[at]] * (
            part.expiry_run(index) - index
        )
        end = part.expiry_run(index) - record.first
        assert end == record.count or record.expiries[end] != record.expiries[at]
    priorities = list(part.extra.priorities)
    assert (priorities * record.count if len(priorities) == 1 else priorities) == record.priorities


@pytest.mark.parametrize("block_rows", [2, 3, 8])
@pytest.mark.parametrize("seed", range(6))
def test_they_answer_as_a_dict_of_messages(monkeypatch: pytest.MonkeyPatch, block_rows: int, seed: int) -> None:
    monkeypatch.setattr(segments, "BLOCK_ROWS", block_rows)
    world = World(seed)
    for _ in range(40):
        world.append()
        if world.chance.random() < 0.4:
            world.take()
        world.check_space()
        if world.chance.random() < 0.1:
            world.made = Segments.from_columns(*world.made.columns())
            world.check(world.made)
    world.check(world.made)
    columns, extras = world.made.columns()
    assert bool(columns[-1]) == any(each for each in columns[-1]), "nothing, where nothing expires at one time"
    again = Segments.from_columns(columns, extras)
    world.check(again)
    assert again.columns() == world.made.columns()
    while world.live():
        world.take()
        world.check_space()
    world.check(world.made)


@pytest.mark.parametrize("end", [3, 9])
def test_what_is_not_there_is_not_taken(end: int) -> None:
    made, freed = Segments(), list[int]()
    made.append(2, 5, 3, 10)
    made.take(3, 4, freed)
    with pytest.raises(AssertionError):
        made.take(1, end, freed)


def test_rows_share_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(segments, "BLOCK_ROWS", 4)
    made = Segments()
    for at in range(9):
        made.append(1 + at, 1 + at, 1, 10)
    for each in (made, Segments.from_columns(*made.columns())):
        assert [list(block.logs) for block in each._blocks] == [[1, 2, 3, 4], [5, 6, 7, 8], [9]]


def test_a_run_ends_where_it_ends_however_much_lies_behind_it() -> None:
    made = Segments()
    for at in range(3 * segments.BLOCK_ROWS):
        made.append(1 + 2 * at, 1 + at, 2, 10)

    class Looked(list[object]):
        at = 0

        def __getitem__(self, place: object) -> object:
            Looked.at += 1
            return super().__getitem__(place)  # type: ignore[index]  # by number, as every list

    made._blocks = Looked(made._blocks)  # type: ignore[assignment]  # a list of the same
    assert [(part.start, part.end) for part in made.parts(2, 4)] == [(2, 3), (3, 4)]
    assert Looked.at == 2, "the block, once to find the row and once to walk from there"
