"""A damaged record at the start: whichever byte it is, the copy is DAMAGED; it is never one of a newer version."""

from __future__ import annotations

import pytest

from failover.marks import DataMark
from replica.machine import Limits
from replica.recovery import open_shared, recover
from storage.errors import CorruptRecord
from storage.memory import MemoryStore
from storage.store import Append, WriteBatch
from tests.unit.replica.test_salvage import DOMAIN, filled

LAST = 3


def flipped(log_index: int, at: int) -> MemoryStore:
    store = filled("role", "enqueue", "enqueue")
    rows = dict(store.scan(DOMAIN, 1, limit_records=LAST))
    record = bytearray(rows[log_index])
    record[at] ^= 0xFF
    rows[log_index] = bytes(record)
    store.commit(WriteBatch(wipe={DOMAIN}))
    store.commit(WriteBatch(appends=[Append(DOMAIN, index, row) for index, row in rows.items()]))
    return store


@pytest.mark.parametrize("log_index", [2, LAST])
async def test_any_flipped_byte_makes_the_copy_damaged(log_index: int) -> None:
    record = filled("role", "enqueue", "enqueue").read(DOMAIN, log_index)
    assert record is not None
    for at in range(len(record)):
        store = flipped(log_index, at)
        shared = open_shared(store, DOMAIN, "main", "a", "b", 1, Limits())
        shared.mark(DataMark.SOLE)
        await recover(store, shared)
        assert shared.state.data is DataMark.DAMAGED, at
        assert shared.log.last_index == LAST


async def test_without_a_peer_a_flipped_format_byte_is_said_as_damage() -> None:
    store = flipped(2, 2)
    shared = open_shared(store, DOMAIN, "main", "a", "", 1, Limits())
    with pytest.raises(CorruptRecord, match="has format 254"):
        await recover(store, shared)
