"""Copies compared in real members: equal ones, a flipped bit at either member, orders that do not fit."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest

from chaos.cluster import Cluster
from replica.manager import Manager
from replica.node.members import MAIN, domain_number
from storage.store import Append, WriteBatch
from tandemq import aio
from tandemq.config import Timers
from tandemq.embedded import open_manager
from tandemq.errors import from_rpc_error
from tandemq.v1 import pair_service_pb2 as pb
from tandemq.v1.queue_admin_service_pb2 import QueueConfig
from tests.integration.support import Raw, raw_to
from tests.support.clusters import PATIENT, patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

NUMBER = domain_number(MAIN)


def kill(cluster: Cluster, name: str) -> None:
    cluster.kill(name)
    process = cluster.children[name].process
    assert process is not None
    process.wait(OUTER_S)
    if process.stdin is not None:
        process.stdin.close()


@asynccontextmanager
async def pair_with(
    tmp_path: Path, inside: str, config: QueueConfig | None = None, timers: Timers = PATIENT
) -> AsyncIterator[tuple[Cluster, Manager, aio.Client]]:
    """A whole pair with 200 messages in it; one member runs in this process, so that its store can be reached."""
    async with patient(tmp_path / "c", timers=timers).running() as cluster, aio.connect(cluster.target) as client:
        await client.create_queue("q", config)
        kill(cluster, inside)
        async with open_manager(cluster.config(inside)) as manager:
            await until(lambda: whole(client), "the pair is whole")
            async with client.producer("q") as producer:
                for number in range(20):
                    await producer.send_many([b"%d" % number] * 10)
            yield cluster, manager, client


async def whole(client: aio.Client) -> bool:
    answers = await client.pair_status()
    mains = [answer.status.member.domains[0] for answer in answers if answer.status is not None]
    return len(mains) == 2 and all(main.link_state == 5 for main in mains)


async def flip(manager: Manager, log_index: int, byte: int = -1) -> None:
    """One bit of a stored record, of its body if no other byte is named, as a disk would."""
    store, node = manager._store, manager._node
    assert store is not None
    assert node is not None
    record = store.read(NUMBER, log_index)
    assert record is not None
    damaged = bytearray(record)
    damaged[byte] ^= 1

    def fill(batch: WriteBatch) -> None:
        batch.inserts.append(Append(NUMBER, log_index, bytes(damaged)))

    await node.write(fill)


async def compared(member: Raw, **fields: Any) -> list[pb.VerifyResponse]:
    return [answer async for answer in member.pair.Verify(pb.VerifyRequest(**fields), timeout=OUTER_S)]


async def refusal(call: Any) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return from_rpc_error(caught.value).reason


@pytest.mark.promise
async def test_a_flipped_bit_at_the_replica_is_found_and_its_copy_begins_anew(tmp_path: Path) -> None:
    async with pair_with(tmp_path, "b") as (cluster, manager, client):
        endpoints = [cluster.config(name).endpoint for name in ("a", "b")]
        async with raw_to(*endpoints) as (a, b):
            answers = await compared(a, range_records=7)
            assert [answer.equal for answer in answers] == [True] * len(answers)
            assert len(answers) > 3
            assert answers[-1].last
            assert answers[-1].end_index >= answers[-1].records > 20
            assert await refusal(compared(b)) == "INVALID_STATE"
            assert await refusal(compared(a, domain="none")) == "BAD_NAME"
            assert await refusal(compared(a, range_records=1 << 20)) == "BAD_REQUEST"

            await flip(manager, 12)
            answers = await compared(a, range_records=7)
            wrong = [answer for answer in answers if not answer.equal]
            assert wrong[0].first_index <= 12 <= wrong[0].last_index
            assert "damaged at b: 12" in wrong[0].difference
            assert wrong[-1].last

            async def repaired() -> bool:
                return await whole(client) and (await compared(a))[-1].equal

            await until(repaired, "b took everything anew")
            async with client.producer("q") as producer:
                assert {receipt.copies for receipt in await producer.send_many([b"x"] * 3)} == {2}

            async def said() -> bool:
                events = (await a.pair.ListEvents(pb.ListEventsRequest())).events
                return any(event.kind == pb.PAIR_EVENT_KIND_VERIFY and "damaged" in event.text for event in events)

            await until(said, "the damage is among the events")


@pytest.mark.parametrize("byte", [-1, 0, 23], ids=["body", "magic", "log index"])
async def test_a_flipped_bit_at_the_master_is_said_and_never_sent(tmp_path: Path, byte: int) -> None:
    async with pair_with(tmp_path, "b") as (cluster, manager, client):
        kill(cluster, "a")
        members = manager._members
        assert members is not None

        async def serves() -> bool:
            return members.by_name[MAIN].shared.serving

        await until(serves, "b has taken over")
        cluster.spawn("a")
        await until(lambda: whole(client), "the pair is whole")
        async with raw_to(cluster.config("b").endpoint) as (b,):
            await flip(manager, 12, byte)
            answers = await compared(b, range_records=1)
            assert answers[-1].last
            answers = await compared(b)
            assert not answers[-1].equal
            assert "damaged at b: 12" in answers[-1].difference
            assert await whole(client)  # the good copy was not thrown away

            async def said() -> bool:  # an event is shown once it is written
                events = (await b.pair.ListEvents(pb.ListEventsRequest())).events
                return any(event.kind == pb.PAIR_EVENT_KIND_FAULT and "hand off" in event.text for event in events)

            await until(said, "the way out is among the events")


async def test_a_replica_takes_everything_anew_when_it_is_told_to(tmp_path: Path) -> None:
    async with pair_with(tmp_path, "b") as (cluster, manager, client):
        members = manager._members
        assert members is not None
        shared = members.by_name[MAIN].shared
        async with raw_to(*(cluster.config(name).endpoint for name in ("a", "b"))) as (a, b):
            assert await refusal(a.pair.Resync(pb.ResyncRequest(full=True))) == "INVALID_STATE"
            generation = shared.progress.generation
            assert (await b.pair.Resync(pb.ResyncRequest(full=True, reason="test"))).done

            async def anew() -> bool:
                return shared.progress.generation > generation and await whole(client)

            await until(anew, "b took everything")
            assert (await compared(a))[-1].equal

            epoch = shared.state.epoch
            strange = await b.pair.Outdate(pb.OutdateRequest(by_member="z", epoch=epoch + 9, pair="pair"))
            stale = await b.pair.Outdate(pb.OutdateRequest(by_member="a", epoch=epoch - 1, pair="pair"))
            serving = await a.pair.Outdate(pb.OutdateRequest(by_member="b", epoch=epoch + 9, pair="pair"))
            assert [strange.done, stale.done, serving.done] == [False, False, False]
            assert await whole(client)
            assert (await b.pair.Outdate(pb.OutdateRequest(by_member="a", epoch=epoch, pair="pair"))).done
            await until(lambda: whole(client), "b was brought back by a transfer")
            assert (await compared(a))[-1].equal
