"""Readers of the journal over real gRPC and real disks: at either member, over kill -9, past what is kept, from other
languages, and with bad input.
"""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner

from chaos.cluster import Cluster
from tandemq import aio
from tandemq.cli import root
from tandemq.client.aio import JournalKind, JournalPosition, JournalRow, JournalStart
from tandemq.config import Limits
from tandemq.errors import Refused, TandemqError
from tandemq.v1 import journal_service_pb2 as pb
from tandemq.v1 import journal_service_pb2_grpc
from tests.integration.module_pair import module_client, module_pair
from tests.integration.support import new_name, raw_to, refused, roles
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

SMALL = Limits(journal_bytes=256 << 10, checkpoint_bytes=64 << 10)
BATCH = 50


pair = module_pair()
client = module_client()


async def rows_of(client: aio.Client, *args: Any, **more: Any) -> tuple[list[JournalRow], JournalPosition, set[str]]:
    rows: list[JournalRow] = []
    members: set[str] = set()
    following = JournalPosition(0)
    async for page in client.read_journal(*args, **more):
        rows += page.rows()
        members.add(page.member)
        following = page.next
    return rows, following, members


async def heard(client: aio.Client, queue: str, next_index: int) -> None:
    """The replica learns of a commit with the next record or heartbeat."""

    async def has() -> bool:
        return (await client.journal_head([queue])).queues[0].next_index == next_index

    await until(has, f"the member that is asked knows of index {next_index - 1}")


async def test_rows_are_counted_as_they_are_given(client: aio.Client) -> None:
    """Up to the end of the record that has the last of them; pages say how many, and give none."""
    queue = new_name()
    await client.create_queue(queue)
    for _ in range(4):
        await client.enqueue(queue, [b"x"] * BATCH)
    await heard(client, queue, 4 * BATCH + 1)

    async def counted(most: int, **more: Any) -> tuple[int, JournalPosition]:
        pages = [page async for page in client.read_journal([queue], max_rows=most, rows=False, **more)]
        assert [list(page.rows()) for page in pages] == [[]] * len(pages)
        return sum(map(len, pages)), pages[-1].next

    rows, following, _ = await rows_of(client, [queue], kinds=[JournalKind.ENQUEUED])
    assert await counted(0, kinds=[JournalKind.ENQUEUED]) == (len(rows), following)
    second = [row.log_index for row in rows][BATCH]
    found = await counted(BATCH + 1, kinds=[JournalKind.ENQUEUED])
    assert (found[0], found[1].log_index, found[1].row) == (2 * BATCH, second + 1, 0)
    assert await counted(7, start=found[1]) == (BATCH, JournalPosition(second + 2, *found[1][1:]))


async def test_the_first_page_of_a_new_client_comes_from_the_replica(pair: Cluster, client: aio.Client) -> None:
    """It does not know yet who is master; each task of a query is a new client."""
    queue = new_name()
    await client.create_queue(queue)
    await client.enqueue(queue, [b"x"] * BATCH)
    await heard(client, queue, BATCH + 1)
    async with aio.connect(pair.target) as fresh:
        rows, _, members = await rows_of(fresh, [queue], JournalStart(1))
    assert (len(rows), members) == (BATCH, {"b"})


async def test_what_happened_to_a_message_is_told_by_the_replica(client: aio.Client) -> None:
    queue = new_name()
    await client.create_queue(queue)
    producer = client.producer(queue)
    receipts = await producer.send_many([f"m{at}".encode() for at in range(BATCH)])
    got = await client.dequeue(queue, 10)
    await got.ack()
    await heard(client, queue, BATCH + 1)

    async def all_there() -> list[JournalRow]:
        found = await rows_of(client, [queue], JournalStart(1))
        assert found[2] == {"b"}
        return found[0] if found[0][-1].kind is JournalKind.ACKED else []

    rows = await until(all_there, "the settlement is told")
    entered = [row for row in rows if row.kind is JournalKind.ENQUEUED]
    assert [row.payload for row in entered] == [f"m{at}".encode() for at in range(BATCH)]
    assert [row.first for row in entered] == list(range(1, BATCH + 1))
    assert [row.id for row in entered] == [receipt.id for receipt in receipts]
    assert {row.producer for row in entered} == {producer.client_id}
    assert [row.sequence for row in entered] == list(range(1, BATCH + 1))
    leased, acked = (next(row for row in rows if row.kind is kind) for kind in (JournalKind.LEASED, JournalKind.ACKED))
    assert (
        (leased.first, leased.messages, leased.lease_id)
        == (acked.first, acked.messages, acked.lease_id)
        == (
            1,
            10,
            got.lease_id,
        )
    )
    assert {row.queue for row in rows} == {queue}
    kinds = [JournalKind.ACKED, JournalKind.LEASED]
    only, _, _ = await rows_of(client, [queue], JournalStart(1), kinds=kinds)
    assert [row.kind for row in only] == [JournalKind.LEASED, JournalKind.ACKED]
    bare, _, _ = await rows_of(client, [queue], JournalStart(1), payloads=False)
    assert [row._replace(payload=None) for row in rows] == bare


async def test_any_place_in_a_queue_is_found_and_its_epoch_compared(client: aio.Client) -> None:
    queue = new_name()
    await client.create_queue(queue)
    await client.producer(queue).send_many([b"x"] * BATCH)
    await heard(client, queue, BATCH + 1)
    epoch = (await client.journal_head()).epoch
    for index in (1, 17, BATCH):
        rows, _, _ = await rows_of(client, [queue], JournalStart(index, epoch if index > 1 else 0), max_rows=2)
        assert rows[0].first == index
    rows, _, _ = await rows_of(client, [queue], JournalStart(BATCH + 1, epoch))
    assert rows == []
    with pytest.raises(Refused, match="EPOCH_DIVERGED") as diverged:
        await rows_of(client, [queue], JournalStart(17, epoch + 7))
    assert diverged.value.metadata["epoch"] == str(epoch)
    with pytest.raises(Refused, match="EPOCH_DIVERGED"):
        await rows_of(client, [queue], JournalPosition((await client.journal_head()).next.log_index - 1, epoch + 7))
    async with aio.connect(client.target, timeout=2) as hasty:
        with pytest.raises(TandemqError, match=r"OUT_OF_RANGE|SYNCING"):
            await rows_of(hasty, [queue], JournalStart(BATCH + 5))


async def test_the_stream_the_page_and_both_members_say_the_same(pair: Cluster, client: aio.Client) -> None:
    queue = new_name()
    await client.create_queue(queue)
    await client.producer(queue).send_many([bytes(2_000)] * 1_500)
    await heard(client, queue, 1_501)
    read = {}
    async with raw_to(*(pair.endpoint(name) for name in "ab")) as members:
        for name, member in zip("ab", members, strict=True):
            stub: Any = journal_service_pb2_grpc.JournalServiceStub(member.channel)
            selection = pb.JournalSelection(queues=[queue], index=pb.JournalIndex(index=1), this_member=True)
            frames = [
                frame async for frame in stub.ReadJournal(pb.ReadJournalRequest(selection=selection), timeout=OUTER_S)
            ]
            assert [frame.at_end for frame in frames] == [False] * (len(frames) - 1) + [True]
            assert len(frames) >= 3  # of 3 MB, in frames of 1 MiB
            assert all(frame.header.member == name and frame.ByteSize() < 2 << 20 for frame in frames)
            pages = []
            while not (pages and pages[-1].at_end):
                page = await stub.ReadJournalPage(pb.ReadJournalPageRequest(selection=selection), timeout=OUTER_S)
                selection.position.CopyFrom(page.next)
                pages.append(page)
            assert [page.columns for page in pages] == [frame.columns for frame in frames]
            read[name] = [page.columns for page in pages]
            few = pb.ReadJournalRequest(selection=selection, max_rows=7)
            few.selection.index.index = 100
            rows = [frame.columns.count async for frame in stub.ReadJournal(few, timeout=OUTER_S)]
            assert sum(rows) == 7
    assert read["a"] == read["b"]
    assert sum(columns.count for columns in read["a"]) == 1_500


async def test_bad_input_is_told(pair: Cluster) -> None:
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    async with raw_to(pair.endpoint("b")) as (member,):
        stub: Any = journal_service_pb2_grpc.JournalServiceStub(member.channel)
        here, own = new_name(), new_name()
        await member.create(here)
        await member.create(own, domain="local")

        async def page(**selection: Any) -> None:
            await stub.ReadJournalPage(pb.ReadJournalPageRequest(selection=selection), timeout=OUTER_S)

        with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "nobody-made-this"):
            await page(queues=["nobody-made-this"])
        with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "nobody-made-this"):
            await stub.GetJournalHead(pb.GetJournalHeadRequest(queues=["nobody-made-this"]), timeout=OUTER_S)
        with refused("BAD_REQUEST", invalid, "1001 queues", "1000"):
            await page(queues=[here] * 1_001)
        with refused("BAD_REQUEST", invalid, "one queue's", "2 queues"):
            await page(queues=[here, own], index={"index": 1})
        with refused("BAD_REQUEST", invalid, "begin at 1"):
            await page(queues=[here], index={"index": 0})
        with refused("BAD_REQUEST", invalid, "kind 99"):
            await page(kinds=[99])
        with refused("BAD_REQUEST", invalid, "no domain 'other'", "main"):
            await page(domain="other")
        with refused("BAD_REQUEST", invalid, "ReadJournalPageRequest"):
            await member.bytes_call("/tandemq.v1.JournalService/ReadJournalPage", b"\xff\xff")
        with refused("OUT_OF_RANGE", grpc.StatusCode.OUT_OF_RANGE, "is not committed"):
            await stub.ReadJournalPage(
                pb.ReadJournalPageRequest(selection={"domain": "local", "position": {"log_index": 1 << 40}}),
                timeout=OUTER_S,
            )
    async with raw_to(pair.endpoint("a")) as (member,):
        with refused("CROSS_DOMAIN", grpc.StatusCode.FAILED_PRECONDITION, own):
            stub = journal_service_pb2_grpc.JournalServiceStub(member.channel)
            await member.create(own, domain="local")
            selection = pb.JournalSelection(queues=[here, own])
            await stub.ReadJournalPage(pb.ReadJournalPageRequest(selection=selection), timeout=OUTER_S)


async def test_the_command_prints_it(pair: Cluster, client: aio.Client) -> None:
    queue = new_name()
    await client.create_queue(queue)
    await client.producer(queue).send_many([b"first", b"\xff"])
    await heard(client, queue, 3)

    def run(*words: str) -> Any:
        return CliRunner().invoke(root, ["queue", "journal", *words, "--target", pair.target])

    done = await asyncio.to_thread(run, queue, "--kind", "enqueued", "-o", "jsonl")
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert (done.exit_code, [row["index"] for row in rows]) == (0, [1, 2])
    assert (rows[0]["body"], rows[1]["body_base64"]) == ("first", "/w==")
    head = json.loads((await asyncio.to_thread(run, queue, "--head", "-o", "json")).stdout)
    assert head["queues"] == [{"queue": queue, "first_index": 1, "next_index": 3}]
    rest = await asyncio.to_thread(run, queue, "--from-log-index", head["from_here"], "-o", "jsonl")
    assert (rest.exit_code, rest.stdout) == (0, "")
    wrong = await asyncio.to_thread(run, queue, "--from-log-index", f"{head['next_log_index']}:99")
    assert (wrong.exit_code, "EPOCH_DIVERGED" in wrong.output or "STALE_EPOCH" in wrong.output) == (1, True)
    assert "pair history" in wrong.output
    place = head["from_here"]
    assert place == f"{head['next_log_index']}:{head['epoch']}:{head['history_id']}"
    found = json.loads((await asyncio.to_thread(run, queue, "--kind", "enqueued", "-o", "json")).stdout)
    assert ([row["index"] for row in found["rows"]], found["next"]) == ([1, 2], place)
    for option in ("--from-log-index", "--from-index"):
        other = await asyncio.to_thread(run, queue, option, f"2:1:{'ab' * 16}")
        assert (other.exit_code, "PAIR_CHANGED" in other.output, head["history_id"] in other.output) == (1, True, True)
        assert (await asyncio.to_thread(run, queue, option, "2:1:ab")).exit_code == 2
    for words in (("--from-index", "1"), (queue, "--from-index", "x"), (queue, "--from-index", "0")):
        assert (await asyncio.to_thread(run, *words)).exit_code == 2
    assert "Example:" in (await asyncio.to_thread(run, "--help")).output


@pytest.mark.promise
async def test_a_reader_goes_on_over_kill_9_of_the_master_and_finds_each_message_once(tmp_path: Path) -> None:
    """He reads all the while; the master is killed under load, twice, and comes back as the replica."""
    cluster = patient(tmp_path)
    read: list[tuple[int, int, bytes]] = []
    places: list[tuple[int, int]] = []
    done = asyncio.Event()

    async def follow(client: aio.Client) -> None:
        place: JournalPosition | None = None
        last = False
        while not last:
            last = done.is_set()
            async for page in client.read_journal(["q"], place, kinds=[JournalKind.ENQUEUED]):
                read.extend((row.first, row.epoch, row.payload or b"") for row in page.rows())
                place = page.next
                places.append((place.log_index, place.epoch))
            await asyncio.sleep(0)

    try:
        await cluster.start()
        async with aio.connect(cluster.target) as client, aio.connect(cluster.target) as reading:
            await client.create_queue("q")
            producer = client.producer("q")
            task = asyncio.create_task(follow(reading))
            receipts = []
            for at in range(3):
                for batch in range(20):
                    receipts += await producer.send_many([f"{at}/{batch}/{n}".encode() for n in range(BATCH)])
                if at < 2:
                    master, _ = await roles(cluster)
                    cluster.kill(master)
                    receipts += await producer.send_many([b"while it is away"] * BATCH)
                    await cluster.restart(master)
            await heard(reading, "q", receipts[-1].index + 1)
            done.set()
            await task
        assert [index for index, _, _ in read] == list(range(1, len(receipts) + 1))
        assert [(index, epoch) for index, epoch, _ in read] == [(each.index, each.epoch) for each in receipts]
        assert places == sorted(places)
        assert len({epoch for _, epoch, _ in read}) >= 3
    finally:
        done.set()
        await cluster.stop()


async def test_who_comes_too_late_is_told_so(tmp_path: Path) -> None:
    """What was consumed falls out of a small journal, at both members."""
    cluster = patient(tmp_path, limits=SMALL)
    try:
        await cluster.start()
        async with aio.connect(cluster.target) as client:
            await client.create_queue("q")
            producer = client.producer("q")
            await producer.send_many([b"first"] * 3)
            place = (await client.journal_head()).first
            consumer = client.consumer("q", credit_messages=BATCH)
            batches = consumer.batches()
            await producer.send_many([bytes(10_000)] * BATCH)
            taken = 0
            while taken < BATCH + 2:
                batch = await anext(batches)
                taken += len(batch.payloads)
                batch.ack()
            await consumer.close()
            for _ in range(6):
                await producer.send_many([bytes(10_000)] * BATCH)

            async def trimmed() -> int:
                heads = []
                for endpoint in cluster.endpoints:
                    async with aio.connect(endpoint, follow_master=False) as one:
                        heads.append((await one.journal_head(["q"], this_member=True)).queues[0].first_index)
                return min(heads) > 3 and min(heads)

            first = await until(trimmed, "both members have trimmed the first messages")
            with pytest.raises(Refused, match="OUT_OF_RANGE") as late:
                await rows_of(client, ["q"], place)
            assert int(late.value.metadata["first_log_index"]) > place.log_index
            with pytest.raises(Refused, match="OUT_OF_RANGE") as also:
                await rows_of(client, ["q"], JournalStart(1))
            assert int(also.value.metadata["first_index"]) >= first, "of the member that was asked last"
            with pytest.raises(Refused, match="cannot be compared"):
                await rows_of(client, ["q"], JournalStart(first, 1))
            rows, _, _ = await rows_of(client, ["q"], JournalStart(first), kinds=[JournalKind.ENQUEUED])
            assert rows[0].first == first
            assert [row.first for row in rows] == list(range(first, first + len(rows)))
    finally:
        await cluster.stop()
