"""What is delivered comes from the record as it is stored; one that is damaged is said to be damaged."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from replica.bodies import read_answer, read_stored
from replica.machine import Limits
from replica.recovery import open_shared
from replica.shared import Shared
from storage.errors import CorruptRecord
from storage.memory import MemoryStore
from storage.store import Append, Store, WriteBatch
from tests.unit.replica.test_salvage import DOMAIN, filled


@pytest.fixture
def store() -> MemoryStore:
    return filled("enqueue", "enqueue")


def shared_of(store: MemoryStore) -> Shared:
    return open_shared(store, DOMAIN, "main", "a", "b", 1, Limits())


def test_a_stored_body_is_read(store: MemoryStore) -> None:
    stored = read_stored(store, shared_of(store), 1)
    assert stored is not None
    assert (stored.body, stored.epoch, stored.count) == (b"body 1", 3, 1)


@pytest.mark.parametrize("read", [read_stored, read_answer])
def test_a_flipped_format_byte_is_said_as_damage(
    store: MemoryStore, read: Callable[[Store, Shared, int], object]
) -> None:
    """No later version wrote it: the directory's own format says so. Whoever is told to upgrade looks for nothing."""
    record = store.read(DOMAIN, 1)
    assert record is not None
    store.commit(WriteBatch(inserts=[Append(DOMAIN, 1, record[:2] + bytes([record[2] ^ 4]) + record[3:])]))
    with pytest.raises(CorruptRecord, match=r"format 5.*Do not use this copy"):
        read(store, shared_of(store), 1)
