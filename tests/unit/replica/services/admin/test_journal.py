"""Questions about the journal while something happens: a message comes while it is looked for, a disk is behind what
was heard, a replica becomes master.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, NoReturn

import grpc
import pytest

from replica.core.state.calls import PendingCall
from replica.listen.machine_access import MachineAccess
from replica.machine import ReaderPlace, RegisterCall
from replica.machine.features.readers import all_readers, plan_lose
from replica.node.members import Members
from replica.services.admin.journal import JournalHandlers
from tandemq.client.journal import JournalPage, JournalRow
from tandemq.v1.journal_service_pb2 import (
    GetJournalHeadRequest,
    GetJournalHeadResponse,
    JournalIndex,
    JournalPosition,
    JournalSelection,
    ReadJournalPageRequest,
    ReadJournalPageResponse,
)
from tests.support.clients import Producer, Waiter, create
from tests.support.pair import Member, Pair


class RefusedError(Exception):
    """The call was aborted."""


class Context:
    """A call from this host."""

    async def abort(self, status: grpc.StatusCode, text: str, _trailers: object) -> NoReturn:
        raise RefusedError(f"{status.name}: {text}")

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def time_remaining(self) -> float:
        return 5.0

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"


class Meanwhile:
    """A store; something happens once it has been looked at for the first time."""

    def __init__(self, store: Any, happens: Callable[[], None]) -> None:
        self._store, self._happens = store, [happens]

    def scan(self, *args: Any, **more: Any) -> Any:
        found = self._store.scan(*args, **more)
        while self._happens:
            self._happens.pop()()
        return found

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)


def handlers(member: Member, store: Any = None) -> JournalHandlers:
    node: Any = SimpleNamespace(store=store or member.store, on_tick=[])
    names = {"member": member.name, "endpoint": f"{member.name}:1"}
    peer = {"peer": member.peer_name, "peer_endpoint": f"{member.peer_name}:1"}
    members = Members(
        node, MachineAccess(), pair="p", park_ms=5000, streams_max=100, is_late=lambda: False, **names, **peer
    )
    members.by_name["main"] = member.core
    return JournalHandlers(members)


async def from_index(served: JournalHandlers, index: int, epoch: int = 0, **more: Any) -> list[JournalRow]:
    selection = JournalSelection(queues=["q"], index=JournalIndex(index=index, epoch=epoch), **more)
    return await page(served, selection)


async def page(served: JournalHandlers, selection: JournalSelection) -> list[JournalRow]:
    """And what follows it, as a reader goes on."""
    rows: list[JournalRow] = []
    for _ in range(2):
        request = ReadJournalPageRequest(selection=selection)
        answer = ReadJournalPageResponse.FromString(await served.page(request.SerializeToString(), Context()))
        rows += JournalPage(answer).rows()
        selection.position.CopyFrom(answer.next)
    return rows


def filled(count: int) -> tuple[Pair, Producer]:
    pair = Pair().start()
    create(pair)
    producer = Producer(pair, "x")
    assert pair.master is not None
    for _ in range(count):
        producer.send(pair.master)
    pair.settle(200)
    return pair, producer


@pytest.mark.parametrize("epoch", [0, 1])
@pytest.mark.parametrize("kept", [0, 3])
def test_a_message_that_comes_while_it_is_looked_for_is_read(kept: int, epoch: int) -> None:
    """1. A reader asks for the next message of a queue. 2. While the log is searched, it comes and is committed. 3. It
    is not in what was searched, and the queue is past it: he was sent on behind it, or told that it was trimmed.
    """
    pair, producer = filled(kept)
    master = pair.master
    assert master is not None

    def comes() -> None:
        producer.send(master)
        pair.settle(200)

    served = handlers(master, Meanwhile(master.store, comes))
    rows = asyncio.run(from_index(served, kept + 1, epoch if kept else 0))
    assert [row.first for row in rows] == [kept + 1]


def test_a_queue_begins_with_the_message_that_comes_while_its_beginning_is_looked_for() -> None:
    pair, producer = filled(0)
    master = pair.master
    assert master is not None

    def comes() -> None:
        producer.send(master)
        pair.settle(200)

    served = handlers(master, Meanwhile(master.store, comes))
    request = GetJournalHeadRequest(queues=["q"]).SerializeToString()
    (head,) = GetJournalHeadResponse.FromString(asyncio.run(served.head(request, Context()))).queues
    assert (head.first_index, head.next_index) == (1, 2)


def test_a_replica_tells_of_no_queue_what_its_disk_lacks() -> None:
    """It is in step and not required yet: the master commits alone, and the replica hears of that before its own disk
    has it. Its queues are then past the end of its journal.
    """
    pair, producer = filled(3)
    pair.crash(pair.b)
    pair.a.lost(refused=True)
    pair.quiesce()
    pair.b.start()
    pair.connect()
    while not pair.b.core.target.opened:
        assert pair.one()
    producer.send(pair.a)
    while pair.one(senders="a", disks="a", keep=("",)):
        pass
    pair.beat(pair.a)
    shared = pair.b.shared
    assert shared.progress.durable_index < shared.progress.commit_index
    served = handlers(pair.b)
    request = GetJournalHeadRequest(queues=["q"], this_member=True).SerializeToString()
    with pytest.raises(RefusedError, match="UNAVAILABLE: b has heard of commits"):
        asyncio.run(served.head(request, Context()))
    with pytest.raises(RefusedError, match="UNAVAILABLE: b has heard of commits"):
        asyncio.run(from_index(served, 4, this_member=True))
    pair.b.commit()
    (head,) = GetJournalHeadResponse.FromString(asyncio.run(served.head(request, Context()))).queues
    assert head.next_index == 5
    assert [row.first for row in asyncio.run(from_index(served, 4, this_member=True))] == [4]


@pytest.mark.parametrize("stays", [True, False])
def test_a_loss_is_told_once_no_takeover_can_take_it_back(stays: bool) -> None:
    """1. A master has ordered that a reader loses its place, and its peer does not have that order. 2. The reader is
    told, and begins anew. 3. The peer takes over: the place was kept all the time, and the reader has given it up.
    """
    pair, _ = filled(3)
    master = pair.master
    assert master is not None
    waiter = Waiter()
    call = RegisterCall("lake", ReaderPlace(2, 1), 0, restart=False, request_id=b"", request_hash=0)
    master.submit(PendingCall(waiter, call))
    pair.settle(200)
    if not stays:
        pair.cut()
    orders = master.core.orders
    orders.order(plan_lose(orders.machine.state, pair.wall_ms, "lake", 3, "he was late"))
    master.dispatch(master.core)
    served = handlers(master)
    asked = JournalSelection(reader="lake", this_member=True)

    async def story() -> None:
        reading = asyncio.create_task(page(served, asked))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not reading.done()
        if not stays:
            master.peer.notice()
            master.peer.lost(refused=True)
            pair.quiesce()
            assert not reading.done()
            pair.heal()
        pair.settle(200)
        await reading

    with pytest.raises(RefusedError, match="has lost its place" if stays else "UNAVAILABLE: .* repeat the call"):
        asyncio.run(story())
    assert all_readers(master.shared.machine.state)[0].lost_until == (3 if stays else 0)


def test_a_master_that_does_not_know_yet_what_was_committed_refuses_no_place() -> None:
    """1. A reader has read all that the master told him. 2. He asks the replica for more, and others are before him.
    3. The master dies, and the replica serves; it has not heard that the last record was committed. 4. His turn comes:
    that record was "not committed", and the place that he stands at out of range.
    """
    pair, producer = filled(3)
    producer.send(pair.a)
    pair.quiesce()
    last = pair.a.shared.progress.commit_index
    assert pair.b.shared.progress.durable_index == last > pair.b.shared.progress.commit_index
    served = handlers(pair.b)
    place = JournalPosition(log_index=last + 1, epoch=pair.a.shared.state.epoch)

    async def story() -> list[JournalRow]:
        async with served._reading:
            reading = asyncio.create_task(page(served, JournalSelection(position=place)))
            for _ in range(10):
                await asyncio.sleep(0)
            pair.crash(pair.a)
            pair.b.lost(refused=True)
            while not pair.b.serving:
                assert pair.one()
            assert not pair.b.core.mastership.commit.can_read
        for _ in range(3):
            await asyncio.sleep(0)
        pair.settle(200)
        return await reading

    rows = asyncio.run(story())
    assert [row.log_index for row in rows if row.log_index <= last] == []
