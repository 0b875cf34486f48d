"""A transfer of everything is taken whole or not at all, and nothing that is damaged is sent."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from replica.core.replication.sync_source import NeedRead
from replica.core.state.effects import Note, QueueTransfer, StartTransfer
from replica.machine import Limits
from replica.node.recovery import open_shared
from replica.peer.session import Session
from replica.peer.transfer import Receiver, frames_of
from storage.errors import CorruptRecord
from storage.memory import MemoryStore
from storage.store import Append, WriteBatch
from tandemq.peer.v1.peer_service_pb2 import TransferFrame
from tests.support.domains import domain_over
from tests.support.listening import quiet_node
from tests.unit.replica.node.test_salvage import DOMAIN, filled


class Member:
    """One member's node and domain, its writer running."""

    def __init__(self, store: MemoryStore) -> None:
        self.node = quiet_node(store)
        shared = open_shared(store, DOMAIN, "main", "a", "b", 1, Limits())
        self.domain = self.node.domains[DOMAIN] = domain_over(store, shared)
        self.node.start()


@pytest.fixture
async def sender() -> AsyncIterator[Member]:
    member = Member(filled("enqueue", "enqueue"))
    yield member
    await member.node.stop()


@pytest.fixture
async def receiver() -> AsyncIterator[Receiver]:
    member = Member(MemoryStore())
    yield Receiver(member.node, member.domain, 1)
    await member.node.stop()


async def frames(sender: Member) -> list[TransferFrame]:
    queues = [QueueTransfer(1, "q", 2, 2, [1, 2])]
    start = StartTransfer(1, 2, b"digest", b"the queues' state", queues)
    return [frame async for frame in frames_of(sender.node, sender.domain, start)]


def kept(_frame: TransferFrame) -> None:
    """Nothing is changed on the way."""


async def carry(sender: Member, receiver: Receiver, kind: str, change: Callable[[TransferFrame], None]) -> list[bool]:
    """Every frame of a transfer, those of one kind changed; what the receiver said to each."""
    done = []
    for frame in await frames(sender):
        if frame.WhichOneof("frame") == kind:
            change(frame)
        done.append(await receiver.on_frame(frame))
    return done


async def test_what_was_sent_is_taken(sender: Member, receiver: Receiver) -> None:
    done = await carry(sender, receiver, "", kept)
    assert done == [False] * (len(done) - 1) + [True]
    assert receiver.node.store.bounds(DOMAIN) == (1, 2)


def _other_digest(frame: TransferFrame) -> None:
    frame.queue_end.digest = bytes(16)


def _fewer_records(frame: TransferFrame) -> None:
    frame.queue_end.records -= 1


@pytest.mark.parametrize("change", [_other_digest, _fewer_records])
async def test_a_queue_that_arrived_differently_is_not_taken(
    sender: Member, receiver: Receiver, change: Callable[[TransferFrame], None]
) -> None:
    with pytest.raises(CorruptRecord, match="arrived, or differently"):
        await carry(sender, receiver, "queue_end", change)


def _other_state(frame: TransferFrame) -> None:
    frame.state.data += b"!"


def _more_queues(frame: TransferFrame) -> None:
    frame.end.queues += 1


@pytest.mark.parametrize(("kind", "change"), [("state", _other_state), ("end", _more_queues)])
async def test_a_state_that_arrived_differently_is_not_taken(
    sender: Member, receiver: Receiver, kind: str, change: Callable[[TransferFrame], None]
) -> None:
    with pytest.raises(CorruptRecord, match="differ from what was sent"):
        await carry(sender, receiver, kind, change)


@pytest.mark.parametrize("at", [0, 2, 15, -1], ids=["magic", "format", "epoch", "body"])
async def test_a_damaged_record_is_not_sent(sender: Member, at: int) -> None:
    """Whatever byte it is: in a directory of our own format no record is of a newer one."""
    store = sender.node.store
    record = bytearray(store.read(DOMAIN, 2) or b"")
    record[at] ^= 4
    store.commit(WriteBatch(inserts=[Append(DOMAIN, 2, bytes(record))]))
    with pytest.raises(CorruptRecord, match="record 2 is damaged here and is not sent"):
        await frames(sender)


def _damaged(frame: TransferFrame) -> None:
    record = frame.segments.records[1]
    frame.segments.records[1] = record[:-1] + bytes([record[-1] ^ 1])


async def test_a_damaged_record_is_not_taken(sender: Member, receiver: Receiver) -> None:
    with pytest.raises(CorruptRecord, match=r"CRC|checksum|digest"):
        await carry(sender, receiver, "segments", _damaged)


@pytest.mark.parametrize("at", [0, 2, 15, -1], ids=["magic", "format", "epoch", "body"])
async def test_a_damaged_record_is_not_sent_in_a_delta(sender: Member, at: int) -> None:
    """The receiver would refuse it, and the session start over for ever without a word about whose damage it is."""
    node, domain = sender.node, sender.domain
    session: Any = SimpleNamespace(node=node)
    assert await Session._read_stored(session, domain, NeedRead(1, 2)) == [], "nobody is being brought up to date"
    record = bytearray(node.store.read(DOMAIN, 2) or b"")
    record[at] ^= 4
    node.store.commit(WriteBatch(inserts=[Append(DOMAIN, 2, bytes(record))]))
    with pytest.raises(CorruptRecord, match="record 2 is damaged here and is not sent"):
        await Session._read_stored(session, domain, NeedRead(1, 2))
    (note,) = domain.shared.outbox.take()
    assert isinstance(note, Note)
    assert note.text.startswith("record 2 is damaged at a: it is kept, and given to nobody; hand off to b")
