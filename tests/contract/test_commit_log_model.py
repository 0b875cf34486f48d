"""A disk store against the memory store: any mixture of small and large commits, folds, crashes and restarts."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule, run_state_machine_as_test

from storage.disk import SMALL_BYTES_MAX, DiskStore, open_disk
from storage.doubt import DoubtKind
from storage.memory import MemoryStore
from storage.store import RESERVED_META, Append, WriteBatch
from tests.support.commit_logs import killed

DOMAINS = st.integers(0, 2)
SIZES = st.sampled_from((0, 1, 30, 5000, 9000))
KEYS = st.sampled_from("abc")


class CommitLogMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.directory = Path(tempfile.mkdtemp())
        self.serial = 0
        self.memory = MemoryStore(pair="p", member="a")
        self.disk = self.opened(self.directory / "store")

    def opened(self, directory: Path) -> DiskStore:
        store = open_disk(directory, pair="p", member="a", ballast_bytes=0, map_bytes=64 << 20)
        store._folder.stop()  # a fold is a rule here
        return store

    def record(self, size: int) -> bytes:
        self.serial += 1
        return b"%d/" % self.serial + b"x" * size

    def commit(self, batch: WriteBatch) -> None:
        self.disk.commit(batch)
        self.memory.commit(batch)

    def above(self, domain: int, steps: list[int], sizes: int) -> list[Append]:
        bounds = self.memory.bounds(domain)
        top = bounds[1] if bounds else -1
        found = []
        for step in steps:
            top += step
            found.append(Append(domain, top, self.record(sizes)))
        return found

    @rule(domain=DOMAINS, steps=st.lists(st.integers(1, 3), min_size=1, max_size=4), size=SIZES, key=KEYS)
    def small(self, domain, steps, size, key):
        self.commit(WriteBatch(appends=self.above(domain, steps, size), meta={key: self.record(0)}))

    @rule(key=KEYS, gone=st.booleans())
    def small_meta(self, key, gone):
        self.commit(WriteBatch(meta={key: None if gone else self.record(3)}))

    @rule(domain=DOMAINS)
    def large(self, domain):
        self.commit(WriteBatch(appends=self.above(domain, [1], SMALL_BYTES_MAX)))

    @rule(domain=DOMAINS, last=st.integers(0, 20), steps=st.lists(st.integers(1, 2), max_size=2))
    def cut(self, domain, last, steps):
        top = self.memory.bounds(domain)
        after = min(last, top[1]) if top else -1
        appends = [Append(domain, after + 1 + at, self.record(9)) for at in range(len(steps))]
        self.commit(WriteBatch(cut={domain: last}, appends=appends))

    @rule(domain=DOMAINS)
    def wipe(self, domain):
        self.commit(WriteBatch(wipe={domain}))

    @rule(domain=DOMAINS, indexes=st.lists(st.integers(0, 20), max_size=4), key=KEYS)
    def drop(self, domain, indexes, key):
        self.commit(WriteBatch(drops={domain: indexes}, meta={key: self.record(1)}))

    @rule(domain=DOMAINS, index=st.integers(0, 20), size=SIZES)
    def insert(self, domain, index, size):
        self.commit(WriteBatch(inserts=[Append(domain, index, self.record(size))]))

    @rule()
    def fold(self):
        self.disk._fold()

    @rule()
    def kill(self):
        """Another process finds the files as they are."""
        self.disk = self.opened(killed(self.disk))
        assert {doubt.kind for doubt in self.disk.doubts} <= {DoubtKind.LAST_ENTRY}
        self.memory = self.memory.crash()

    @precondition(lambda self: self.disk._log is not None and self.disk._published.now)
    @rule(at=st.integers(0, 60))
    def kill_while_an_entry_is_written(self, at):
        """What follows the last whole entry is a part of another."""
        end = self.disk._log.end
        data = self.disk._log.prepare(_content(), empty=False)
        if data is not None:
            with (self.disk._directory / "commit.log").open("r+b") as file:
                file.seek(end)
                file.write(data[:at])
            self.kill()

    @rule()
    def restart(self):
        self.disk.close()
        self.disk = self.opened(self.disk._directory)
        assert not self.disk._published.now
        # An entry that was torn stays behind the last whole one until another takes its place.
        assert {doubt.kind for doubt in self.disk.doubts} <= {DoubtKind.LAST_ENTRY}

    @invariant()
    def holds_the_same(self):
        for domain in range(3):
            rows = self.memory.scan(domain, 0)
            assert self.disk.scan(domain, 0) == rows
            assert self.disk.bounds(domain) == self.memory.bounds(domain)
            indexes = range(25)
            assert self.disk.read_many(domain, indexes) == self.memory.read_many(domain, indexes)
            assert self.disk.scan(domain, 5, limit_records=2) == self.memory.scan(domain, 5, limit_records=2)
        assert _values(self.disk) == _values(self.memory)

    def teardown(self):
        self.disk.close()
        shutil.rmtree(self.directory)


def _content():
    from storage.log_format import Content

    return Content([Append(0, 10**6, b"never")], {"a": b"never", "b": None})


def _values(store):
    return [item for item in store.meta_items("") if item[0] not in RESERVED_META]


@pytest.mark.slow
def test_a_disk_store_does_what_the_memory_store_does_whenever_it_is_killed():
    run_state_machine_as_test(
        CommitLogMachine, settings=settings(max_examples=40, stateful_step_count=30, deadline=None)
    )
