"""A damaged record or checkpoint at the start: whichever bit it is, the copy is DAMAGED, never a newer version's."""

from __future__ import annotations

import pytest

from failover.marks import DataMark
from replica.core.state.durable import checkpoint_key, decode_checkpoint, encode_checkpoint, state_key
from replica.machine import Limits
from replica.node.recovery import open_shared, rebuild, recover
from storage.errors import CorruptRecord
from storage.memory import MemoryStore
from storage.records import build_head
from storage.store import Append, WriteBatch
from tandemq.peer.v1.record_pb2 import RecordHeader, RoleOp
from tests.unit.replica.node.test_salvage import DOMAIN, filled

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


async def with_checkpoint(peer: str = "b") -> MemoryStore:
    """A log of which everything but the last record is only in the checkpoint."""
    store = filled("role", "role", "role")
    shared = open_shared(store, DOMAIN, "main", "a", peer, 1, Limits())
    shared.mark(DataMark.SOLE)
    machine = await rebuild(store, shared, LAST - 1)
    shared.state.kept_from = LAST
    store.commit(
        WriteBatch(
            drops={DOMAIN: list(range(1, LAST))},
            meta={
                state_key(DOMAIN): shared.state.encode(),
                checkpoint_key(DOMAIN): encode_checkpoint(LAST - 1, machine.snapshot()),
            },
        )
    )
    return store


async def test_any_flipped_bit_of_the_checkpoint_makes_the_copy_damaged() -> None:
    """The queues' state is nowhere else: a count or an index that is silently another one would be served."""
    store = await with_checkpoint()
    good = store.get_meta(checkpoint_key(DOMAIN))
    assert good is not None
    shared = open_shared(store, DOMAIN, "main", "a", "b", 1, Limits())
    assert (await recover(store, shared)).applied_index == LAST
    assert (shared.state.data, shared.progress.checkpoint_index) == (DataMark.SOLE, LAST - 1)
    for bit in range(8 * len(good)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        store.commit(WriteBatch(meta={checkpoint_key(DOMAIN): bytes(bad)}))
        shared = open_shared(store, DOMAIN, "main", "a", "b", 1, Limits())
        await recover(store, shared)
        assert shared.state.data is DataMark.DAMAGED, bit


@pytest.mark.parametrize("length", [0, 7, 8, 15, 16, 40])
async def test_a_checkpoint_that_ends_too_soon_is_damage(length: int) -> None:
    store = await with_checkpoint()
    good = store.get_meta(checkpoint_key(DOMAIN))
    assert good is not None
    store.commit(WriteBatch(meta={checkpoint_key(DOMAIN): good[:length]}))
    shared = open_shared(store, DOMAIN, "main", "a", "b", 1, Limits())
    await recover(store, shared)
    assert shared.state.data is DataMark.DAMAGED


async def test_a_checkpoint_of_the_first_format_is_read() -> None:
    store = await with_checkpoint()
    good = store.get_meta(checkpoint_key(DOMAIN))
    assert good is not None
    index, snapshot = decode_checkpoint(good)
    store.commit(WriteBatch(meta={checkpoint_key(DOMAIN): index.to_bytes(8, "big") + snapshot}))
    shared = open_shared(store, DOMAIN, "main", "a", "b", 1, Limits())
    assert (await recover(store, shared)).applied_index == LAST
    assert shared.state.data is DataMark.SOLE


@pytest.mark.parametrize("log_index", [1, 2])
async def test_a_start_does_not_look_at_what_lies_below_its_checkpoint(log_index: int) -> None:
    """Nor to find where a later epoch began: the facts that are written with a checkpoint say it up to there."""
    store = filled("role", "role")
    shared = open_shared(store, DOMAIN, "main", "a", "b", 1, Limits())
    shared.mark(DataMark.SOLE)
    shared.state.history = [(3, 1)]
    machine = await rebuild(store, shared, 2)
    header = RecordHeader(role=RoleOp(owner="a")).SerializeToString()
    later, _ = build_head(
        flags=0, domain=DOMAIN, epoch=4, log_index=3, header=header, body=b"", previous_digest=shared.log.digest
    )
    facts = {
        state_key(DOMAIN): shared.state.encode(),
        checkpoint_key(DOMAIN): encode_checkpoint(2, machine.snapshot()),
    }
    store.commit(WriteBatch(appends=[Append(DOMAIN, 3, later)], meta=facts))
    good = store.read(DOMAIN, log_index)
    assert good is not None
    for at in range(len(good)):
        bad = bytearray(good)
        bad[at] ^= 0xFF
        store.commit(WriteBatch(inserts=[Append(DOMAIN, log_index, bytes(bad))]))
        shared = open_shared(store, DOMAIN, "main", "a", "b", 1, Limits())
        assert (await recover(store, shared)).applied_index == 3
        assert shared.state.data is DataMark.SOLE, at
        assert shared.log.history == [(3, 1), (4, 3)]
