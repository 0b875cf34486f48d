"""The execution environment of the examples at a real pair: the head of a queue with priorities, and the script of its
kind, at both members the same (R137, R138).
"""

from __future__ import annotations

import asyncio
import importlib.util
from pathlib import Path
from typing import Any

import pytest

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.demo.rows import flights
from tandemq.twin import Twin, TwinOptions
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.integration.module_pair import module_client, module_pair
from tests.support.until import until

pytestmark = pytest.mark.process

BOARD = Path(__file__).resolve().parent.parent.parent / "docs/examples/execution_environment/board.py"
SELECTED = admin.QueueConfig(replication=admin.REPLICATION_PRODUCER, lockstep=admin.LOCKSTEP_SELECTED)
FLIGHTS = 20

pair = module_pair()
client = module_client()


def board() -> Any:
    spec = importlib.util.spec_from_file_location("board", BOARD)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.requirement("R138")
@pytest.mark.requirement("R104")
async def test_each_message_runs_its_script_at_both_in_the_order_of_priority(
    pair: Cluster, client: aio.Client, tmp_path: Path
) -> None:
    environment = board()
    await client.create_queue("flights", SELECTED)
    for queue in ("departures", "delays", "faults"):
        await client.create_queue(queue)
    rows = flights().texts[:FLIGHTS]
    airport = rows[0].decode().split(",")[12].encode()
    asked: list[aio.Outgoing] = [aio.Outgoing(row, {"priority": 4}) for row in rows]
    asked.append(aio.Outgoing(airport, {"priority": 1, "properties": {"kind": "show"}}))
    asked.append(aio.Outgoing(b"?", {"priority": 9, "properties": {"kind": "unheard-of"}}))
    await client.enqueue("flights", asked)
    twins = [
        Twin(
            "board",
            environment.handler,
            TwinOptions("flights", pair.endpoint(member), tmp_path / member, pair.target, snapshot_s=0.02),
            initial=environment.initial,
        )
        for member in ("a", "b")
    ]
    runs = [asyncio.create_task(twin.run()) for twin in twins]
    try:
        await until(lambda: all(twin.index >= len(asked) for twin in twins), "both have acted on everything")

        async def is_empty() -> bool:
            return (await client.get_queue("flights")).length == 0

        await until(is_empty, "both have settled everything")
    finally:
        for run in runs:
            run.cancel()
        await asyncio.gather(*runs, return_exceptions=True)
    assert twins[0].state == twins[1].state
    assert [message.payload async for message in client.browse("faults")] == [b"1: no script for unheard-of"]
    departures = [message.payload.decode() async for message in client.browse("departures")]
    numbers = [int(line.split(" ", 1)[0]) for line in departures]
    assert numbers[:FLIGHTS] == list(range(2, FLIGHTS + 2)), "flights behind the one of priority 9, in order, once"
    assert numbers[-1] == FLIGHTS + 2, "the board is shown behind them, as low as it is"
