"""Named readers over the wire, at the master of a pair in one process."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from replica.listen.machine_access import MachineAccess
from replica.machine.features.readers import all_readers
from replica.node.members import Members
from replica.services.admin.queues import AdminHandlers
from replica.services.admin.readers import ReaderHandlers
from tandemq.v1.journal_service_pb2 import RegisterReaderRequest, RegisterReaderResponse
from tests.support.clients import Producer, create
from tests.support.pair import Member, Pair


class Context:
    """A call from this host."""

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def time_remaining(self) -> float:
        return 5.0

    def peer(self) -> str:
        return "ipv4:127.0.0.1:1"


def handlers(member: Member) -> ReaderHandlers:
    clock = SimpleNamespace(now_ms=lambda: member.pair.wall_ms)
    node: Any = SimpleNamespace(store=member.store, on_tick=[], clock=clock, dispatch=member.dispatch, seconds_late=0.0)
    names = {"member": member.name, "endpoint": f"{member.name}:1"}
    peer = {"peer": member.peer_name, "peer_endpoint": f"{member.peer_name}:1"}
    settings: Any = {"park_ms": 1_000, "streams_max": 10, "is_late": lambda: False}
    members = Members(node, MachineAccess(), pair="p", **names, **peer, **settings)
    members.by_name["main"] = member.core
    return ReaderHandlers(AdminHandlers(members))


def test_a_place_is_judged_when_the_call_can_be_ordered() -> None:
    """1. A reader registers while the mastership is being handed over: a call would be parked. 2. The log is trimmed
    meanwhile. 3. The handoff comes to nothing: the reader begins where the log does now, not where it did.
    """
    pair = Pair().start()
    create(pair)
    master = pair.master
    assert master is not None
    producer = Producer(pair, "x")
    for _ in range(5):
        producer.send(master)
    pair.settle(200)
    shared = master.shared
    request = RegisterReaderRequest(name="lake", request_id=b"r" * 16)

    async def story() -> bytes:
        shared.draining = True
        registering = asyncio.create_task(handlers(master).register(request.SerializeToString(), Context()))
        for _ in range(10):
            await asyncio.sleep(0)
        assert not registering.done()
        assert not all_readers(shared.machine.state)
        shared.state.kept_from = 4
        shared.draining = False
        master.core.on_serving()  # as the handoff does; what is parked is ordered now
        master.dispatch(master.core)
        while not registering.done():
            await asyncio.sleep(0)
            pair.settle(20)
        return await registering

    answer = RegisterReaderResponse.FromString(asyncio.run(story()))
    assert not answer.duplicate
    assert answer.reader.position.log_index == 4
    assert [each.place.log_index for each in all_readers(shared.machine.state)] == [4]
