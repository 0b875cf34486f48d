"""Both stores against a dict: any sequence of batches leaves them with the same content and the same answers."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from storage.disk import open_disk
from storage.memory import MemoryStore
from storage.store import RESERVED_META, Append, WriteBatch

DOMAINS = st.integers(0, 2)
INDEXES = st.integers(0, 12)
VALUES = st.binary(max_size=4) | st.integers(0, 9).map(lambda digit: b"%d" % digit * 5000)


@st.composite
def batches(draw):
    batch = WriteBatch(
        wipe=draw(st.sets(DOMAINS, max_size=1)),
        cut=draw(st.dictionaries(DOMAINS, INDEXES, max_size=1)),
        drops=draw(st.dictionaries(DOMAINS, st.lists(INDEXES, max_size=4), max_size=2)),
        inserts=draw(st.lists(st.builds(Append, DOMAINS, INDEXES, VALUES), max_size=3)),
        meta=draw(st.dictionaries(st.sampled_from("abc"), st.none() | VALUES, max_size=2)),
    )
    # Made to rise by the model, which knows what is there: domain, step above the highest, value.
    steps = draw(st.lists(st.tuples(DOMAINS, st.integers(1, 3), VALUES), max_size=4))
    return batch, steps


class Model:
    def __init__(self):
        self.logs = {domain: {} for domain in range(3)}
        self.meta = {}

    def commit(self, batch, steps):
        """Carries the batch out, and completes it with the appends that the steps stand for."""
        for domain in batch.wipe:
            self.logs[domain] = {}
        for domain, last in batch.cut.items():
            self.logs[domain] = {index: record for index, record in self.logs[domain].items() if index <= last}
        for domain, indexes in batch.drops.items():
            for index in indexes:
                self.logs[domain].pop(index, None)
        for entry in batch.inserts:
            self.logs[entry.domain][entry.log_index] = entry.record
        for domain, step, record in steps:
            index = max(self.logs[domain], default=-1) + step
            self.logs[domain][index] = record
            batch.appends.append(Append(domain, index, record))
        for key, value in batch.meta.items():
            self.meta[key] = value
        self.meta = {key: value for key, value in self.meta.items() if value is not None}

    def assert_same(self, store):
        for domain, log in self.logs.items():
            assert store.scan(domain, 0) == sorted(log.items())
            assert store.bounds(domain) == ((min(log), max(log)) if log else None)
            assert store.read_many(domain, range(20)) == [log.get(index) for index in range(20)]
            assert store.scan(domain, 5, limit_records=2) == sorted(log.items())[sum(index < 5 for index in log) :][:2]
        assert [item for item in store.meta_items("") if item[0] not in RESERVED_META] == sorted(self.meta.items())


@pytest.mark.slow
@settings(max_examples=40, deadline=None)
@given(st.lists(batches(), max_size=8))
def test_both_stores_do_what_a_dict_does(sequence):
    model, memory = Model(), MemoryStore()
    with tempfile.TemporaryDirectory() as directory:
        path = Path(directory)
        disk = open_disk(path, pair="p", member="a", ballast_bytes=0)
        for batch, steps in sequence:
            model.commit(batch, steps)
            disk.commit(batch)
            memory.commit(batch)
            model.assert_same(disk)
            model.assert_same(memory)
        disk.close()
        disk = open_disk(path, pair="p", member="a", ballast_bytes=0)
        model.assert_same(disk)
        model.assert_same(memory.crash())
        disk.close()
