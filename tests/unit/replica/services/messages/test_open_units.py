"""Calls of open units of work at the door of their master, in one process."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

from replica.listen.machine_access import MachineAccess
from replica.node.members import Members
from replica.services.messages.open_units import OpenUnitHandlers
from tandemq.v1 import transaction_service_pb2 as pb
from tests.support.clients import create
from tests.support.pair import Member, Pair
from tests.unit.replica.core.ordering.test_open_units import begun, new_id, payloads, put
from tests.unit.replica.services.admin.test_readers import Context


def handlers(member: Member) -> OpenUnitHandlers:
    clock = SimpleNamespace(now_ms=lambda: member.pair.wall_ms)
    node: Any = SimpleNamespace(
        store=member.store,
        on_tick=[],
        clock=clock,
        dispatch=member.dispatch,
        seconds_late=0.0,
        limits=member.core.shared.limits,
    )
    names = {"member": member.name, "endpoint": f"{member.name}:1"}
    peer = {"peer": member.peer_name, "peer_endpoint": f"{member.peer_name}:1"}
    settings: Any = {"park_ms": 1_000, "streams_max": 10, "is_late": lambda: False}
    members = Members(node, MachineAccess(), pair="p", **names, **peer, **settings)
    members.by_name["main"] = member.core
    return OpenUnitHandlers(members)


def test_u10_a_draining_master_takes_a_commit_and_begins_nothing() -> None:
    pair = Pair().start()
    create(pair)
    master = pair.master
    assert master is not None
    unit = begun(pair)
    put(pair, unit, "q", b"a")

    async def story() -> bytes:
        units = handlers(master)
        master.shared.drain(draining=True)
        begin = pb.BeginRequest(queue="q", request_id=new_id()).SerializeToString()
        beginning = asyncio.create_task(units.begin(begin, Context()))
        commit = pb.CommitRequest(unit_id=unit).SerializeToString()
        committing = asyncio.create_task(units.commit(commit, Context()))
        for _ in range(100):
            await asyncio.sleep(0)
            pair.settle(20)
            if committing.done():
                break
        assert not beginning.done()
        beginning.cancel()
        return await committing

    answer = pb.CommitResponse.FromString(asyncio.run(story()))
    assert [(each.queue, [entry.index for entry in each.results]) for each in answer.puts] == [("q", [1])]
    master.shared.drain(draining=False)
    assert payloads(pair) == [b"a"]
