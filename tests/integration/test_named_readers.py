"""Named readers of the journal over real gRPC and real disks: what is kept for them at both members, and how they lose
it.
"""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.cli import root
from tandemq.client.aio import JournalKind, JournalPosition, JournalReader, JournalRow
from tandemq.config import Limits, member_ports
from tandemq.errors import NotFound, Refused
from tandemq.v1 import journal_service_pb2 as pb
from tandemq.v1 import journal_service_pb2_grpc
from tandemq.v1 import pair_service_pb2 as pair_pb
from tests.integration.module_pair import module_client, module_pair
from tests.integration.support import http_get, new_id, new_name, raw_to, refused, roles
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

SMALL = Limits(journal_bytes=256 << 10, checkpoint_bytes=64 << 10, reader_bytes=1 << 30)
TIGHT = Limits(journal_bytes=128 << 10, checkpoint_bytes=64 << 10, reader_bytes=1 << 20)
BATCH, BODY = 20, bytes(10_000)


pair = module_pair(limits=SMALL)
client = module_client()


async def rows_of(client: aio.Client, *args: Any, **more: Any) -> tuple[list[JournalRow], JournalPosition]:
    rows: list[JournalRow] = []
    following = JournalPosition(0)
    async for page in client.read_journal(*args, **more):
        rows += page.rows()
        following = page.next
    return rows, following


async def churn(client: aio.Client, queue: str, batches: int) -> int:
    """Sends and consumes, so that nothing but the journal's readers want it; how many messages."""
    producer = client.producer(queue)
    for _ in range(batches):
        await producer.send_many([BODY] * BATCH)
        left = BATCH
        while left:
            got = await client.dequeue(queue, left)
            left -= len(got.payloads)
            await got.ack()
    return batches * BATCH


async def begins_at(cluster: Cluster) -> dict[str, int]:
    """Where the journal begins, at each member."""
    found = {}
    for endpoint in cluster.endpoints:
        async with aio.connect(endpoint, follow_master=False) as one:
            found[endpoint] = (await one.journal_head(this_member=True)).first.log_index
    return found


async def named(client: aio.Client, name: str) -> JournalReader:
    return next(each for each in await client.list_readers() if each.name == name)


@pytest.mark.promise
async def test_what_a_reader_has_not_read_outlives_its_retention_and_a_kill(tmp_path: Path) -> None:
    """It stands still while ten times the journal's size passes, and the master is killed; then it reads all of it."""
    cluster = patient(tmp_path, limits=SMALL)
    try:
        await cluster.start()
        async with aio.connect(cluster.target) as client:
            await client.create_queue("q")
            reader = await client.register_reader("lake", at_end=True)
            other = await client.register_reader("other")
            sent = await churn(client, "q", 8)
            await client.delete_reader("other")

            async def goes() -> bool:
                return min((await begins_at(cluster)).values()) > other.position.log_index

            await until(goes, "what nobody wants any more goes at both members")
            master, _ = await roles(cluster)
            cluster.kill(master)
            sent += await churn(client, "q", 4)
            await cluster.restart(master)
            assert max((await begins_at(cluster)).values()) <= reader.position.log_index

            async def heard() -> bool:
                return (await client.journal_head(["q"])).queues[0].next_index == sent + 1

            await until(heard, "the member that is asked knows of the last message")
            rows, place = await rows_of(client, ["q"], reader="lake", kinds=[JournalKind.ENQUEUED])
            assert [row.first for row in rows] == list(range(1, sent + 1))
            told = await client.advance_reader("lake", place)
            assert told.position == place

            async def gone() -> bool:
                await churn(client, "q", 1)
                return min((await begins_at(cluster)).values()) > reader.position.log_index

            await until(gone, "what it has read goes at both members")
            back = await client.advance_reader("lake", reader.position)
            assert back.position == place, "a place never goes back"
    finally:
        await cluster.stop()


async def test_who_is_too_far_behind_loses_its_place_loudly(tmp_path: Path) -> None:
    cluster = patient(tmp_path, limits=TIGHT)
    try:
        await cluster.start()
        async with aio.connect(cluster.target) as client:
            await client.create_queue("q")
            reader = await client.register_reader("lake", at_end=True)

            async def lost() -> JournalReader | None:
                await churn(client, "q", 1)
                told = await named(client, "lake")
                return told if told.lost_until_log_index else None

            told = await until(lost, "it has lost its place")
            assert told.position == reader.position
            assert told.lost_until_log_index > reader.position.log_index
            assert "limits.reader_bytes" in told.lost_because
            await until(
                lambda: both_say(cluster, 'tandemq_journal_readers_lost_total{domain="main"} 1.0'), "both know it"
            )
            for work in (
                client.advance_reader("lake", (await client.journal_head()).next),
                rows_of(client, ["q"], reader="lake"),
                rows_of(client, ["q"], (await client.journal_head()).next, reader="lake"),
                client.register_reader("lake"),
            ):
                with pytest.raises(Refused, match="READER_LOST") as refusal:
                    await work
                assert refusal.value.metadata["lost_from_log_index"] == str(reader.position.log_index)
                assert not refusal.value.retryable
            events = await told_events(cluster)
            assert any("reader lake of the journal has lost its place" in text for text in events)
            master, _ = await roles(cluster)
            assert await both_say(cluster, 'tandemq_journal_reader_lag{domain="main",reader="lake"}')
            cluster.kill(master)
            with pytest.raises(Refused, match="READER_LOST"):
                await client.advance_reader("lake")
            await cluster.restart(master)
            anew = await client.register_reader("lake", restart=True)
            assert (anew.lost_until_log_index, anew.lost_because) == (0, "")
            assert anew.position.log_index >= told.lost_until_log_index, "what was given up once is given to nobody"
            await rows_of(client, ["q"], reader="lake")
    finally:
        await cluster.stop()


async def both_say(cluster: Cluster, metric: str) -> bool:
    """The replica hears of a commit with what comes next: until then it reads on for one that was given up."""
    ports = [member_ports(cluster.base_port, ordinal).http for ordinal in range(2)]
    return all([metric in (await http_get(port, "/metrics"))[1] for port in ports])


async def told_events(cluster: Cluster) -> list[str]:
    found = []
    for name in "ab":
        async with raw_to(cluster.endpoint(name)) as (member,):
            listed = await member.pair.ListEvents(pair_pb.ListEventsRequest(limit=1_000), timeout=OUTER_S)
            found += [event.text for event in listed.events]
    return found


async def test_one_that_nobody_renews_expires(client: aio.Client) -> None:
    name = new_name("short")
    made = await client.register_reader(name, ttl=timedelta(seconds=1))
    assert made.expires_at > made.registered_at

    async def expired() -> bool:
        return name not in [each.name for each in await client.list_readers()]

    await until(expired, "it has expired")
    with pytest.raises(NotFound, match="READER_NOT_FOUND"):
        await client.advance_reader(name)
    with pytest.raises(NotFound, match="READER_NOT_FOUND"):
        await rows_of(client, reader=name)
    with pytest.raises(NotFound, match="READER_NOT_FOUND"):
        await client.delete_reader(name)


async def test_a_call_is_repeated_without_a_second_effect(pair: Cluster, client: aio.Client) -> None:
    """Through the replica, and with the same identity at both members."""
    name = new_name("again")
    request = pb.RegisterReaderRequest(request_id=new_id(), name=name, at_end=True)
    async with raw_to(*pair.endpoints) as members:
        stubs: list[Any] = [journal_service_pb2_grpc.JournalServiceStub(each.channel) for each in members]
        first, again = [await stub.RegisterReader(request, timeout=OUTER_S) for stub in stubs]
        assert (first.duplicate, again.duplicate) == (False, True)
        assert again.reader == first.reader
        move = pb.AdvanceReaderRequest(request_id=new_id(), name=name, position=first.reader.position)
        assert [(await stub.AdvanceReader(move, timeout=OUTER_S)).reader.position for stub in stubs] == [
            first.reader.position
        ] * 2
        gone = pb.DeleteReaderRequest(request_id=new_id(), name=name)
        assert [(await stub.DeleteReader(gone, timeout=OUTER_S)).duplicate for stub in stubs] == [False, True]


async def test_a_reader_that_follows_the_end_is_not_fed_by_itself(pair: Cluster, client: aio.Client) -> None:
    """Once it has read what others wrote, a round adds no record; each would, if it answered its own with another."""
    queue, name = new_name(), new_name("end")
    await client.create_queue(queue)
    await client.register_reader(name, at_end=True)
    await client.producer(queue).send(b"x")
    master, _ = await roles(pair)
    added = []
    # The end is asked of the master: the replica hears of a commit with what comes next, and its end grows later.
    async with aio.connect(pair.endpoint(master), follow_master=False) as there:
        for _ in range(5):
            end = (await there.journal_head(this_member=True)).next
            await client.advance_reader(name, end)
            added.append((await there.journal_head(this_member=True)).next.log_index - end.log_index)
    await client.delete_reader(name)
    assert added[0] >= 1, "the first one goes past the message, and is worth a record"
    assert 0 in added[1:], added  # not in every round: the master may have expired something of its own in one


async def test_bad_input_is_refused_by_name(pair: Cluster, client: aio.Client) -> None:
    invalid, name = grpc.StatusCode.INVALID_ARGUMENT, new_name("bad")
    async with raw_to(pair.endpoint("b")) as (member,):
        stub: Any = journal_service_pb2_grpc.JournalServiceStub(member.channel)

        async def register(**fields: Any) -> None:
            request = pb.RegisterReaderRequest(**{"request_id": new_id(), "name": name} | fields)
            await stub.RegisterReader(request, timeout=OUTER_S)

        with refused("BAD_NAME", invalid, "a/b"):
            await register(name="a/b")
        with refused("BAD_REQUEST", invalid, "30 days"):
            await register(ttl={"seconds": 86_400 * 31})
        with refused("BAD_REQUEST", invalid, "1 s to 30 days"):
            await register(ttl={"seconds": 1 << 40})
        with refused("BAD_REQUEST", invalid, "1 s to 30 days"):
            await register(ttl={"seconds": -1})
        with refused("BAD_REQUEST", invalid, "16 bytes"):
            await register(request_id=b"short")
        with refused("BAD_REQUEST", invalid, "no domain 'other'"):
            await register(domain="other")
        with refused("OUT_OF_RANGE", grpc.StatusCode.OUT_OF_RANGE, "is not committed"):
            await register(position={"log_index": 1 << 40})
        with refused("EPOCH_DIVERGED", grpc.StatusCode.FAILED_PRECONDITION, "given up"):
            await register(position={"log_index": 2, "epoch": 1_000})
        with refused("BAD_REQUEST", invalid, "RegisterReaderRequest"):
            await member.bytes_call("/tandemq.v1.JournalService/RegisterReader", b"\xff\xff")
        await register()
        with refused("OUT_OF_RANGE", grpc.StatusCode.OUT_OF_RANGE, "is not committed"):
            request = pb.AdvanceReaderRequest(request_id=new_id(), name=name, position={"log_index": 1 << 40})
            await stub.AdvanceReader(request, timeout=OUTER_S)
    await client.delete_reader(name)


async def test_the_commands_show_and_forget_them(pair: Cluster, client: aio.Client) -> None:
    name = new_name("shown")

    def run(*words: str) -> Any:
        return CliRunner().invoke(root, ["queue", "reader", *words, "--target", pair.target])

    made = await asyncio.to_thread(run, "register", name, "--at-end", "--ttl", "2h", "-o", "json")
    facts = json.loads(made.stdout)
    assert (made.exit_code, facts["name"], facts["ttl_seconds"]) == (0, name, 7200)
    listed = json.loads((await asyncio.to_thread(run, "list", "-o", "json")).stdout)["readers"]
    mine = next(each for each in listed if each["name"] == name)
    assert (mine["log_index"], mine["lost_until"]) == (facts["log_index"], 0)
    table = await asyncio.to_thread(run, "list", "-o", "table")
    assert (table.exit_code, name in table.stdout) == (0, True)
    assert (await asyncio.to_thread(run, "delete", name)).exit_code == 2, "without a terminal it wants --yes"
    assert (await asyncio.to_thread(run, "delete", name, "--yes")).exit_code == 0
    again = await asyncio.to_thread(run, "delete", name, "--yes")
    assert (again.exit_code, "READER_NOT_FOUND" in again.output, "reader list" in again.output) == (1, True, True)
    both = await asyncio.to_thread(run, "register", name, "--at-end", "--from-log-index", "3")
    assert both.exit_code == 2
