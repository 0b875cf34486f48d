"""What is written is what is read: records, a domain's facts, snapshots; and no flipped bit passes for the truth.

The last part is the whole way: one bit of one value that a member's disk holds is wrong, and the member starts.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from failover.marks import DataMark
from replica.core.state.durable import (
    DomainState,
    checkpoint_key,
    decode_checkpoint,
    decode_state,
    encode_checkpoint,
    state_key,
)
from replica.core.state.log import DomainLog
from replica.machine import Machine, Refused
from replica.node.recovery import StoreReader, open_shared, recover
from storage.errors import CorruptRecord, StorageError
from storage.memory import MemoryStore
from storage.records import (
    FLAG_VOLATILE_BODY,
    ZERO_DIGEST,
    assemble,
    build_head,
    read_prefix,
    split,
    verify,
    verify_stored,
)
from storage.store import Append, WriteBatch
from tandemq.peer.v1 import record_pb2
from tests.fuzz.source import Source
from tests.unit.replica.machine.driver import MEMBERS, Driver, batch_of

DOMAIN = 7
STEPS_MAX = 30


def one(data: bytes) -> None:
    source = Source(data)
    source.pick(PARTS)(source)


def flip(data: bytes, source: Source) -> bytes:
    """One bit is the other one."""
    damaged = bytearray(data)
    bit = source.number(0, len(data) * 8 - 1)
    damaged[bit // 8] ^= 1 << bit % 8
    return bytes(damaged)


# -- records -----------------------------------------------------------------------------------------------------------


def records(source: Source) -> None:
    header, body, previous = source.blob(60), source.blob(60), source.take(16)
    flags = FLAG_VOLATILE_BODY if source.flag() else 0
    facts = {"flags": flags, "domain": source.u64() & 0xFFFFFFFF, "epoch": source.u64(), "log_index": source.u64()}
    head, digest = build_head(**facts, header=header, body=body, previous_digest=previous)
    stored = body if source.flag() or not flags else b""
    record = assemble(head, stored)
    prefix = verify(record, previous_digest=previous)
    assert {name: getattr(prefix, name) for name in facts} == facts
    assert prefix.digest == digest
    found, its_header, its_body = split(record)
    assert (found, bytes(its_header), bytes(its_body)) == (prefix, header, stored)
    assert verify_stored(record) == read_prefix(record) == prefix
    _refused(flip(record, source), "a flipped bit")
    _refused(record[: source.number(0, len(record) - 1)], "a record cut short", but_for=head if flags else b"")


def _refused(record: bytes, what: str, but_for: bytes = b"") -> None:
    try:
        verify_stored(record)
    except CorruptRecord as corrupt:
        assert str(corrupt)
        return
    assert record == but_for, f"{what} passes"


def foreign(source: Source) -> None:
    """Bytes that no member wrote."""
    start = source.pick((b"", b"TQ", b"TQ\x01", b"TQ\x02\x00"))
    data = start + source.rest()
    for read in (verify, verify_stored, split, read_prefix):
        try:
            read(data)
        except StorageError as error:
            assert str(error)
    for read_value in (decode_state, decode_checkpoint):
        try:
            read_value(data)
        except CorruptRecord as corrupt:
            assert str(corrupt)


# -- facts and snapshots -----------------------------------------------------------------------------------------------


def facts(source: Source) -> None:
    state = DomainState(
        name=source.text(),
        epoch=source.u64(),
        owner=source.text(),
        promised_epoch=source.u64(),
        data=source.pick(tuple(DataMark)),
        in_sync_set=[source.text() for _ in range(source.number(0, 2))],
        history=[(source.u64(), source.u64()) for _ in range(source.number(0, 4))],
        base_index=source.u64(),
        base_digest=source.take(16),
        base_epoch=source.u64(),
        kept_from=source.u64(),
        solo_since=source.u64(),
        diverged=source.text(),
        salvaged=(source.u64(), source.u64()),
    )
    data = state.encode()
    assert decode_state(data) == state
    _refused_or_equal(decode_state, flip(data, source), state)
    _refused_or_equal(decode_state, data[: source.number(0, len(data) - 1)], state)
    value = encode_checkpoint(state.epoch, b"TQS" + source.blob(60))
    assert encode_checkpoint(*decode_checkpoint(value)) == value
    _refused_or_equal(decode_checkpoint, flip(value, source), decode_checkpoint(value))


def _refused_or_equal(read: Callable[[bytes], object], data: bytes, expected: object) -> None:
    try:
        found = read(data)
    except CorruptRecord as corrupt:
        assert str(corrupt)
        return
    assert found == expected, f"damage reads as {found}"


def drive(source: Source, *, steps: int = STEPS_MAX) -> Driver:
    """A queue machine after some operations, with the records of them."""
    driver = Driver()
    driver.create("q", persistence=source.number(0, 3))
    for _ in range(steps):
        if not source.more:
            break
        kind = source.byte() % 8
        try:
            if kind < 3:
                _send(driver, source)
            elif kind == 3:
                driver.lease(source.number(1, 5), name=source.pick(driver.master.names() or ["q"]))
            elif kind == 4:
                _settle(driver, source)
            elif kind == 5:
                driver.now_ms += source.pick((10, 1_000, 40_000))
                driver.expire()
            elif kind == 6:
                driver.create(source.pick(("r", "q/sub")), max_length=source.number(1, 20))
            else:
                action = source.pick((record_pb2.QUEUE_ACTION_PURGE, record_pb2.QUEUE_ACTION_DELETE))
                driver.queue(action, source.pick(("q", "r", "q/sub")))
        except Refused:
            continue
    return driver


def _send(driver: Driver, source: Source) -> None:
    count = source.number(1, 5)
    batch = batch_of(
        [source.number(0, 40) for _ in range(count)],
        priorities=[source.number(0, 9) for _ in range(source.pick((0, 1, count)))],
        ttls_ms=[source.pick((0, 50, 90_000)) for _ in range(source.pick((0, 0, count)))],
        queue=source.pick(("q", "q", "r", "q/sub")),
    )
    request_id = source.take(16) if source.rarely() else b""
    driver.enqueue(batch, client_id=source.pick((b"one", b"two")), request_id=request_id)


def _settle(driver: Driver, source: Source) -> None:
    lease_id = (driver.epoch << 40 | source.number(1, driver.log_index)) if source.flag() else source.u64()
    driver.outcome(source.number(1, 4), lease_id, (1, source.number(1, 9)))


def snapshots(source: Source) -> None:
    driver = drive(source)
    data = driver.master.snapshot()
    again = Machine.restore(data, MEMBERS, driver.limits)
    assert again.snapshot() == data
    assert again.digest() == driver.master.digest()


# -- a member's disk ---------------------------------------------------------------------------------------------------


def disks(source: Source) -> None:
    """The log is whole, or begins after a checkpoint; one bit of one value is wrong."""
    driver = drive(source, steps=12)
    store, whole = _store_of(driver, source)
    digest = driver.master.digest()
    assert asyncio.run(_start(store)) == (digest, DataMark.IN_SYNC), "an undamaged disk is not read as it was"
    damaged = _damage(store, source)
    try:
        found, mark = asyncio.run(_start(damaged))
    except StorageError as error:
        assert str(error)
        return
    assert mark is DataMark.DAMAGED or found == digest, f"a flipped bit goes unnoticed (whole log: {whole})"


def _store_of(driver: Driver, source: Source) -> tuple[MemoryStore, bool]:
    store = MemoryStore(member="a", instance=bytes(16))
    log = DomainLog(DOMAIN, base_index=0, base_digest=ZERO_DIGEST, base_epoch=0, reader=StoreReader(store, DOMAIN))
    for epoch, header in driver.headers:
        body = b"body" if header.HasField("enqueue") else b""
        log.build(header, body, epoch, volatile_body=False, held=None)
    entries = log.tail_from(1, 1 << 30)
    state = DomainState("main", epoch=1, owner="a", data=DataMark.IN_SYNC, in_sync_set=["a", "b"], history=[(1, 1)])
    checkpoint = source.number(0, len(entries) - 1)
    batch = WriteBatch()
    if checkpoint:
        machine = Machine(DOMAIN, MEMBERS, driver.limits)
        for entry in entries[:checkpoint]:
            machine.apply(entry.log_index, entry.epoch, driver.headers[entry.log_index - 1][1])
        machine.commit(checkpoint)
        batch.meta[checkpoint_key(DOMAIN)] = encode_checkpoint(checkpoint, machine.snapshot())
    trimmed = checkpoint if checkpoint and source.flag() else 0
    state.kept_from = trimmed + 1
    batch.appends = [Append(DOMAIN, entry.log_index, entry.stored) for entry in entries[trimmed:]]
    batch.meta[state_key(DOMAIN)] = state.encode()
    store.commit(batch)
    return store, not trimmed


def _damage(store: MemoryStore, source: Source) -> MemoryStore:
    rows = dict(store.scan(DOMAIN, 1, limit_records=1_000))
    values = dict(store.meta_items("domain/"))
    if source.flag() and rows:
        index = source.pick(sorted(rows))
        rows[index] = flip(rows[index], source)
    else:
        key = source.pick(sorted(values))
        values[key] = flip(values[key], source)
    damaged = MemoryStore(member="a", instance=bytes(16))
    appends = [Append(DOMAIN, index, row) for index, row in rows.items()]
    damaged.commit(WriteBatch(appends=appends, meta=dict(values)))
    return damaged


async def _start(store: MemoryStore) -> tuple[bytes, DataMark]:
    shared = open_shared(store, DOMAIN, "main", "a", "b", 1, Driver().limits)
    machine = await recover(store, shared)
    return machine.digest(), shared.state.data


PARTS: tuple[Callable[[Source], None], ...] = (records, foreign, facts, snapshots, disks, disks)
