"""What is delivered comes from the record as it is stored; one that is damaged is said to be damaged."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from replica.core.messages.bodies import is_whole, read_answer, read_stored
from replica.core.selection.filters import filter_of
from replica.core.selection.selecting import Exact
from replica.core.state.effects import Note
from replica.core.state.outcomes import ProgressDone
from replica.core.state.shared import Shared
from replica.machine import Limits, Machine
from replica.machine.state.handles import MessageProgress
from replica.node.recovery import open_shared
from replica.services.filters import matcher_of
from replica.services.messages.completion import statuses_of
from storage.errors import CorruptRecord
from storage.memory import MemoryStore
from storage.records import assemble, build_head, split
from storage.store import Append, Store, WriteBatch
from tandemq.peer.v1.record_pb2 import EnqueueOp, RecordHeader
from tandemq.v1.common_pb2 import Reason
from tandemq.v1.message_pb2 import Message, MessageFilter
from tests.unit.replica.node.test_salvage import DOMAIN, filled


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


@pytest.mark.parametrize("at", [0, 2, 5, 15, 23, 33, 37, 50, 57, -1])
@pytest.mark.parametrize("read", [read_stored, read_answer])
def test_a_flipped_bit_is_said_as_damage_wherever_it_is(
    store: MemoryStore, read: Callable[[Store, Shared, int], object], at: int
) -> None:
    record = bytearray(store.read(DOMAIN, 2) or b"")
    record[at] ^= 16
    store.commit(WriteBatch(inserts=[Append(DOMAIN, 2, bytes(record))]))
    shared = shared_of(store)
    for _ in range(2):
        with pytest.raises(CorruptRecord, match="record 2 of domain main, at a"):
            read(store, shared, 2)
    assert not is_whole(store, shared, 2)
    (note,) = shared.outbox.take()
    assert isinstance(note, Note)
    assert note.text.startswith("record 2 is damaged at a: it is kept")
    assert is_whole(store, shared, 1)


@pytest.mark.parametrize("read", [read_stored, read_answer])
def test_a_record_in_the_place_of_another_is_damage(
    store: MemoryStore, read: Callable[[Store, Shared, int], object]
) -> None:
    store.commit(WriteBatch(inserts=[Append(DOMAIN, 1, store.read(DOMAIN, 2) or b"")]))
    with pytest.raises(CorruptRecord, match="record 1 of domain main"):
        read(store, shared_of(store), 1)


def test_an_answer_that_is_damaged_is_said_and_the_others_are_told(store: MemoryStore) -> None:
    message = Message(payload=b"yes")
    header = RecordHeader(enqueue=EnqueueOp(queue_id=1, count=1, first_index=3)).SerializeToString()
    last = split(store.read(DOMAIN, 2) or b"")[0]
    body = message.SerializeToString()
    head, _ = build_head(
        flags=0, domain=DOMAIN, epoch=3, log_index=3, header=header, body=body, previous_digest=last.digest
    )
    store.commit(WriteBatch(appends=[Append(DOMAIN, 3, assemble(head, body))]))
    damaged = (store.read(DOMAIN, 2) or b"")[:-1] + b"?"
    store.commit(WriteBatch(inserts=[Append(DOMAIN, 2, damaged)]))
    members: Any = SimpleNamespace(node=SimpleNamespace(store=store))
    domain: Any = SimpleNamespace(shared=shared_of(store))
    done = ProgressDone([b"2", b"3"], [MessageProgress(known=True, answer=2), MessageProgress(known=True, answer=3)])
    first, second = statuses_of(members, domain, done)
    assert first.error.reason == Reason.REASON_CORRUPT_STORE
    assert not first.HasField("reply")
    assert second.reply == message


def test_what_is_damaged_fits_no_filter(store: MemoryStore) -> None:
    damaged = (store.read(DOMAIN, 2) or b"")[:-1] + b"?"
    store.commit(WriteBatch(inserts=[Append(DOMAIN, 2, damaged)]))
    asked = filter_of(MessageFilter(correlation_id="c"))
    exact = Exact()
    members: Any = SimpleNamespace(node=SimpleNamespace(store=store), pace=None)
    consumers = SimpleNamespace(exact_of=lambda _queue: exact)
    shared = shared_of(store)
    shared.machine = Machine(DOMAIN, ("a", "b"))
    domain: Any = SimpleNamespace(shared=shared, consumers=consumers)
    matcher = matcher_of(members, domain, "q", asked)
    assert matcher is not None
    assert matcher._read(2) is None
    assert shared.damaged == {2}
