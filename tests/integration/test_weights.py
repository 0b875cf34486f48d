"""Tables of routing weights over real gRPC and real disks: they outlive kill -9 of the master, a backup carries them,
and what nobody could route by is refused by name.
"""

from __future__ import annotations

import asyncio
import json
import math
import shutil
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner

import tandemq
from chaos.cluster import Cluster
from replica.offline.restoring import restore
from tandemq import aio
from tandemq.cli import root
from tandemq.cli.view import PairView
from tandemq.client.backup import take_backup
from tandemq.errors import InvalidRequest, NotFound, Refused
from tandemq.v1 import weights_service_pb2 as pb
from tandemq.v1 import weights_service_pb2_grpc
from tests.integration.support import gone, new_id, new_name, raw_to, refused, roles
from tests.support.clusters import patient
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

HOUR = timedelta(hours=1)


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Any:
    cluster = patient(tmp_path_factory.mktemp("weights"))

    async def begin() -> None:
        await cluster.start()
        async with aio.connect(cluster.target) as client:
            for name in ("q", "r"):
                await client.create_queue(name)

    asyncio.run(begin())
    yield cluster
    asyncio.run(cluster.stop())


@pytest.fixture
async def client(pair: Cluster) -> AsyncIterator[aio.Client]:
    async with aio.connect(pair.target) as made:
        yield made


async def test_a_table_is_told_as_it_was_published_by_either_member(pair: Cluster, client: aio.Client) -> None:
    name, until_at = new_name("shares"), datetime.now(UTC).replace(microsecond=0) + HOUR
    window = datetime(2026, 1, 2, tzinfo=UTC), datetime(2026, 1, 2, 1, tzinfo=UTC)
    done = await client.publish_weights(
        name, {"r": 1, "q": 3}, valid_until=until_at, expected_version=0, published_by="stats",
        computed_from=window[0], computed_until=window[1],
    )  # fmt: skip
    assert done.valid_until == until_at
    for endpoint in pair.endpoints:
        async with aio.connect(endpoint, follow_master=False) as one:
            told = await one.get_weights(name)
            assert told._replace(valid_for=HOUR, published_at=until_at) == aio.WeightTable(
                name, done.version, {"q": 3.0, "r": 1.0}, until_at, HOUR, False, "stats", until_at, *window
            )
            assert timedelta() < told.valid_for <= HOUR
            listed = next(each for each in await one.list_weights() if each.name == name)
            assert (listed.version, listed.weights) == (done.version, {})
    assert told.shares(["q", "r"]) == {"q": 0.75, "r": 0.25}
    assert told.shares(["q", "unknown"]) == {"q": 1.0, "unknown": 0.0}
    assert told.shares(["unknown"]) is None
    assert told._replace(expired=True).shares(["q"]) is None


async def test_an_expired_table_is_told_as_expired(client: aio.Client) -> None:
    name = new_name("short")
    await client.publish_weights(name, {"q": 1}, valid_for=timedelta(milliseconds=1))

    async def expired() -> aio.WeightTable | None:
        told = await client.get_weights(name)
        return told if told.expired else None

    told = await until(expired, "it is expired")
    assert (told.valid_for, told.shares(["q"]), told.weights) == (timedelta(), None, {"q": 1.0})


async def test_a_stale_publisher_is_refused(client: aio.Client) -> None:
    name = new_name("stale")
    first = await client.publish_weights(name, {"q": 1}, valid_for=HOUR, expected_version=0)
    second = await client.publish_weights(name, {"q": 2}, valid_for=HOUR, expected_version=first.version)
    for stale in (0, first.version):
        with pytest.raises(Refused, match="VERSION_MISMATCH") as refusal:
            await client.publish_weights(name, {"q": 9}, valid_for=HOUR, expected_version=stale)
        assert refusal.value.metadata["version"] == str(second.version)
    with pytest.raises(Refused, match="VERSION_MISMATCH"):
        await client.delete_weights(name, expected_version=first.version)
    await client.delete_weights(name, expected_version=second.version)
    for work in (client.get_weights(name), client.delete_weights(name)):
        with pytest.raises(NotFound, match="WEIGHTS_NOT_FOUND"):
            await work
    third = await client.publish_weights(name, {"q": 1}, valid_for=HOUR, expected_version=0)
    assert third.version > second.version


async def test_a_call_is_repeated_without_a_second_effect(pair: Cluster) -> None:
    """Through the replica, and with the same identity at both members; a later table stays."""
    request = pb.PublishWeightsRequest(
        request_id=new_id(), name=new_name("again"), weights=[{"queue": "q", "weight": 1}], valid_for={"seconds": 60}
    )
    async with raw_to(*pair.endpoints) as members:
        stubs: list[Any] = [weights_service_pb2_grpc.WeightsServiceStub(each.channel) for each in members]
        first = await stubs[0].PublishWeights(request, timeout=OUTER_S)
        later = pb.PublishWeightsRequest()
        later.CopyFrom(request)
        later.request_id = new_id()
        second = await stubs[1].PublishWeights(later, timeout=OUTER_S)
        again = await stubs[1].PublishWeights(request, timeout=OUTER_S)
        assert (first.duplicate, again.duplicate) == (False, True)
        assert (again.version, again.valid_until) == (first.version, first.valid_until)
        told = await stubs[0].GetWeights(pb.GetWeightsRequest(name=request.name), timeout=OUTER_S)
        assert told.table.version == second.version
        gone = pb.DeleteWeightsRequest(request_id=new_id(), name=request.name)
        assert [(await stub.DeleteWeights(gone, timeout=OUTER_S)).duplicate for stub in stubs] == [False, True]


async def test_bad_input_is_refused_by_name(pair: Cluster) -> None:
    invalid = grpc.StatusCode.INVALID_ARGUMENT
    async with raw_to(pair.endpoint("b")) as (member,):
        stub: Any = weights_service_pb2_grpc.WeightsServiceStub(member.channel)

        async def publish(*weights: float, queue: str = "q", **fields: Any) -> None:
            each = [pb.QueueWeight(queue=queue, weight=weight) for weight in weights]
            given = {"request_id": new_id(), "name": "bad", "weights": each, "valid_for": {"seconds": 60}} | fields
            await stub.PublishWeights(pb.PublishWeightsRequest(**given), timeout=OUTER_S)

        for weight in (-1.0, math.nan, math.inf, -math.inf, 1e7):
            with refused("BAD_WEIGHTS", invalid, "weight of queue q"):
                await publish(weight)
        with refused("BAD_WEIGHTS", invalid, "it has 0 weights"):
            await publish()
        with refused("BAD_WEIGHTS", invalid, "it has 1001 weights"):
            await publish(*[1.0] * 1_001)
        with refused("BAD_WEIGHTS", invalid, "all weights are 0"):
            await publish(0.0)
        with refused("BAD_WEIGHTS", invalid, "twice"):
            await publish(1.0, 2.0)
        with refused("QUEUE_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "no queue 'gone'"):
            await publish(1.0, queue="gone")
        with refused("BAD_WEIGHTS", invalid, "7 days"):
            await publish(1.0, valid_for={"seconds": 8 * 86_400})
        with refused("BAD_WEIGHTS", invalid, "for how long"):
            await publish(1.0, valid_for={"seconds": -1})
        with refused("BAD_WEIGHTS", invalid, "ms ago"):
            await publish(1.0, valid_for=None, valid_until={"seconds": 1})
        with refused("BAD_WEIGHTS", invalid, "7 days"):
            await publish(1.0, valid_for=None, valid_until={"seconds": 1 << 40})
        with refused("BAD_WEIGHTS", invalid, "for how long"):
            await publish(1.0, valid_for=None)
        with refused("BAD_WEIGHTS", invalid, "give both"):
            await publish(1.0, computed_from={"seconds": 1})
        with refused("BAD_WEIGHTS", invalid, "window"):
            await publish(1.0, computed_from={"seconds": 1}, computed_until={"seconds": 1 << 62})
        with refused("BAD_WEIGHTS", invalid, "255 bytes"):
            await publish(1.0, published_by="x" * 256)
        with refused("BAD_NAME", invalid, "name of a table of weights"):
            await publish(1.0, name="a b")
        with refused("BAD_REQUEST", invalid, "16 bytes"):
            await publish(1.0, request_id=b"short")
        with refused("BAD_REQUEST", invalid, "no domain 'other'"):
            await publish(1.0, domain="other")
        with refused("BAD_REQUEST", invalid, "PublishWeightsRequest"):
            await member.bytes_call("/tandemq.v1.WeightsService/PublishWeights", b"\xff\xff")
        with refused("BAD_REQUEST", invalid, "1048576"):
            await publish(1.0, published_by="x" * (1 << 20))
        with refused("WEIGHTS_NOT_FOUND", grpc.StatusCode.NOT_FOUND, "'bad'"):
            await stub.GetWeights(pb.GetWeightsRequest(name="bad"), timeout=OUTER_S)


def test_the_blocking_client_has_the_same_calls(pair: Cluster) -> None:
    name = new_name("blocking")
    with tandemq.connect(pair.target) as client:
        with pytest.raises(ValueError, match="valid_until or valid_for"):
            client.publish_weights(name, {"q": 1})
        with pytest.raises(InvalidRequest, match="BAD_WEIGHTS"):
            client.publish_weights(name, {"q": -1}, valid_for=HOUR)
        done = client.publish_weights(name, {"q": 1}, valid_for=HOUR)
        assert client.get_weights(name).version == done.version
        assert name in [each.name for each in client.list_weights()]
        client.delete_weights(name, expected_version=done.version)
        assert name not in [each.name for each in client.list_weights()]


async def test_the_commands_show_publish_and_delete_them(pair: Cluster) -> None:
    name = new_name("shown")

    async def run(*words: str) -> Any:
        return await asyncio.to_thread(CliRunner().invoke, root, ["weights", *words, "--target", pair.target])

    words = ("publish", name, "q=3", "r=1", "--valid-for", "10m", "--by", "ops", "-o", "json")
    made = await run(*words, "--expected-version", "0")
    assert made.exit_code == 0, made.output
    version = json.loads(made.stdout)["version"]
    shown = json.loads((await run("show", name, "-o", "json")).stdout)
    assert (shown["version"], shown["expired"], shown["published_by"]) == (version, False, "ops")
    assert shown["weights"] == [
        {"queue": "q", "weight": 3.0, "share": 0.75},
        {"queue": "r", "weight": 1.0, "share": 0.25},
    ]
    lines = [json.loads(line) for line in (await run("show", name, "-o", "jsonl")).stdout.splitlines()]
    assert [(line["table"], line["queue"]) for line in lines] == [(name, "q"), (name, "r")]
    table = await run("show", name)
    assert (table.exit_code, "0.75" in table.stdout, "ops" in table.stdout) == (0, True, True)
    listed = json.loads((await run("show", "-o", "json")).stdout)["tables"]
    assert version in [each["version"] for each in listed if each["name"] == name]
    stale = await run(*words, "--expected-version", "0")
    assert (stale.exit_code, "VERSION_MISMATCH" in stale.output, "weights show" in stale.output) == (1, True, True)
    bad = await run("publish", name, "q=nan", "--valid-for", "10m")
    assert (bad.exit_code, "BAD_WEIGHTS" in bad.output, "weight of queue q is nan" in bad.output) == (1, True, True)
    for wrong in ("q", "=1", "q=much"):
        assert (await run("publish", name, wrong, "--valid-for", "10m")).exit_code == 2
    assert (await run("publish", name, "q=1", "q=2", "--valid-for", "10m")).exit_code == 2
    assert (await run("publish", name, "q=1")).exit_code == 2, "for how long is always said"
    assert (await run("delete", name)).exit_code == 2, "without a terminal it wants --yes"
    assert (await run("delete", name, "--yes", "--expected-version", str(version))).exit_code == 0
    gone = await run("show", name)
    assert (gone.exit_code, "WEIGHTS_NOT_FOUND" in gone.output, "weights show" in gone.output) == (1, True, True)


async def test_the_last_table_that_was_answered_outlives_every_kill_of_the_master(tmp_path: Path) -> None:
    """kill -9 as soon as it is answered: the other one tells it, to the replica's clients too, and both end equal."""
    version = 0
    async with patient(tmp_path).running() as cluster, aio.connect(cluster.target) as client:
        for name in ("q", "r"):
            await client.create_queue(name)
        for weight in (1.0, 2.0):
            master, _ = await roles(cluster)
            weights = {"q": weight, "r": 0.1}
            done = await client.publish_weights("shares", weights, valid_for=HOUR, expected_version=version)
            version = done.version
            cluster.kill(master)
            told = await client.get_weights("shares")
            assert (told.version, told.weights, told.valid_until) == (version, weights, done.valid_until)
            await cluster.restart(master)
            view = await cluster.wait_for(PairView.equal, "both members hold the same")
            assert len(view.members) == 2
        with pytest.raises(Refused, match="VERSION_MISMATCH"):
            await client.publish_weights("shares", {"q": 1}, valid_for=HOUR, expected_version=version - 1)


async def test_a_backup_carries_them(tmp_path: Path) -> None:
    file = tmp_path / "tandemq.tqb"
    async with patient(tmp_path / "c", members=("a",)).running() as cluster, aio.connect(cluster.target) as client:
        await client.create_queue("q")
        done = await client.publish_weights("shares", {"q": 1}, valid_for=HOUR)
        with file.open("wb") as out:
            await take_backup(cluster.endpoint("a"), out.write)
        await client.publish_weights("shares", {"q": 9}, valid_for=HOUR)
        await gone(cluster, "a")
        directory = Path(cluster.config("a").data_dir)
        shutil.rmtree(directory)
        await asyncio.to_thread(restore, file, directory)
        cluster.spawn("a")
        told = await client.get_weights("shares")
        assert (told.version, told.weights, told.valid_until) == (done.version, {"q": 1.0}, done.valid_until)
