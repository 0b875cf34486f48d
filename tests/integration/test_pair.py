"""How a pair comes to be, loses a member, and gets it back: real processes, through the SDK and through raw calls."""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import grpc
import grpc.aio
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from chaos.cluster import WITNESS, Cluster
from tandemq import aio
from tandemq.cli.view import PairView
from tandemq.config import Limits, member_ports
from tandemq.v1 import queue_admin_service_pb2 as admin
from tandemq.v1 import queue_service_pb2 as service
from tests.integration.support import (
    configured,
    gone,
    http_get,
    member_view,
    new_id,
    new_name,
    raw_to,
    refused,
    roles,
    sdk,
    still_serves,
    stopped_at_end,
)
from tests.support.clusters import patient, quick
from tests.support.starvation import Soon, Stopwatch
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

AWAY, STATE = grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.FAILED_PRECONDITION
PROTO = Path(__file__).resolve().parents[2] / "proto/tandemq/v1"
SERVICE = re.compile(r"(?m)^service (\w+)")
TAKEOVER_S = 3.0
LEASE_S = 2


async def role_of(cluster: Cluster, name: str) -> str:
    member = await member_view(cluster, name)
    domain = member.domain("main") if member else None
    return domain.role if domain else ""


# -- coming to be ------------------------------------------------------------------------------------------------------


@pytest.mark.requirement("R096", "R108")
async def test_two_members_started_at_once_become_a_master_and_a_replica(pair: Cluster) -> None:
    assert await roles(pair) == ("a", "b"), "both empty: the lower name initialises"
    async with raw_to(*pair.endpoints) as members:
        name = new_name()
        await members[1].create(name)
        for member in members:
            header = (await member.send(name, b"x")).header
            assert (header.pair, header.domain, header.epoch, header.copies) == ("pair", "main", 1, 2)
            assert header.master_endpoint == pair.endpoint("a")
        assert await members[1].take(name, 10) == [b"x", b"x"]
    await pair.wait_for(PairView.equal, "equal members")


async def test_a_member_alone_serves_nobody_and_says_so(tmp_path: Path) -> None:
    cluster = configured(tmp_path, limits=Limits(park_ms=300))
    http = member_ports(cluster.base_port, 0).http
    async with stopped_at_end(cluster), raw_to(cluster.endpoint("a")) as [member]:
        for name in (WITNESS, "a"):
            cluster.spawn(name)
            await cluster.wait_answers(name)
        for call in (
            lambda: member.create("q"),
            lambda: member.send("q", b"x"),
            lambda: member.receive("q"),
            lambda: member.ack("q", service.DequeueResponse(lease_id=1)),
            lambda: member.queue.Consume(iter([service.ConsumeRequest(open={"queue": "q", "client_id": b"c"})])).read(),
        ):
            with refused("NO_MASTER", AWAY, "no master in domain main", "repeat the call") as caught:
                await call()
            assert caught.retry_info
        assert await role_of(cluster, "a") == "PROBE"
        assert (await http_get(http, "/livez"))[0] == 200
        status, body = await http_get(http, "/readyz")
        assert (status, '"role": "PROBE"' in body) == (503, True), body
        assert await health_of(cluster, "a") == {"": 1, "tandemq.v1.QueueService": 2, "tandemq.v1.readable": 2}
        parked = asyncio.ensure_future(until_done(lambda: member.create("q")))
        cluster.spawn("b")
        await parked  # the call is answered as soon as there is a master
        await cluster.wait_ready()
        assert (await http_get(http, "/readyz"))[0] == 200
        await still_serves(cluster)


async def until_done(call) -> None:
    """Repeats a call while nobody serves it."""

    async def done() -> bool:
        try:
            await call()
        except grpc.aio.AioRpcError as error:
            if error.code() is not AWAY:
                raise
            return False
        return True

    await until(done, "the call")


async def test_the_witness_may_come_last(tmp_path: Path) -> None:
    cluster = configured(tmp_path)
    async with stopped_at_end(cluster):
        for name in cluster.members:
            cluster.spawn(name)

        async def connected() -> bool:
            views = [await member_view(cluster, name) for name in cluster.members]
            return all(view is not None and view.peer_connected for view in views)

        await until(connected, "members that see each other")
        assert [await role_of(cluster, name) for name in cluster.members] == ["PROBE", "PROBE"]
        cluster.spawn(WITNESS)
        await cluster.wait_ready()
        await still_serves(cluster)


async def test_an_unpaired_manager_holds_no_replicated_queue(tmp_path: Path) -> None:
    async with stopped_at_end(patient(tmp_path, members=("a",))) as cluster:
        await cluster.start()
        async with raw_to(cluster.endpoint("a")) as [member]:
            name = new_name()
            with refused("CONFIG_ERROR", STATE, "unpaired", "configure a peer"):
                await member.create(name, replication=admin.REPLICATION_FULL)
            request = admin.CreateReplicatedQueueRequest(name=name, request_id=new_id())
            with refused("CONFIG_ERROR", STATE, "unpaired"):
                await member.admin.CreateReplicatedQueue(request, timeout=OUTER_S)
            await member.create(name)
            header = (await member.send(name, b"x")).header
            assert (header.pair, header.copies) == ("a", 1)
            with refused("NOT_ENOUGH_COPIES", AWAY, "2 are asked for"):
                await member.send(name, b"y", min_copies=2)
            await cluster.restart("a")
            assert await member.take(name, 10) == [b"x"]


# -- what it shows -----------------------------------------------------------------------------------------------------


async def health_of(cluster: Cluster, name: str) -> dict[str, int]:
    async with raw_to(cluster.endpoint(name)) as [member]:
        stub = health_pb2_grpc.HealthStub(member.channel)
        names = ("", "tandemq.v1.QueueService", "tandemq.v1.readable")
        requests = {each: health_pb2.HealthCheckRequest(service=each) for each in names}
        return {each: (await stub.Check(request, timeout=OUTER_S)).status for each, request in requests.items()}


async def test_health_reflection_and_http_say_what_each_member_is(pair: Cluster) -> None:
    serving, not_serving = health_pb2.HealthCheckResponse.SERVING, health_pb2.HealthCheckResponse.NOT_SERVING
    for name, writable in (("a", serving), ("b", not_serving)):
        expected = {"": serving, "tandemq.v1.QueueService": writable, "tandemq.v1.readable": serving}
        assert await health_of(pair, name) == expected
        async with raw_to(pair.endpoint(name)) as [member]:
            stub = reflection_pb2_grpc.ServerReflectionStub(member.channel)
            call = stub.ServerReflectionInfo(timeout=OUTER_S)
            await call.write(reflection_pb2.ServerReflectionRequest(list_services=""))
            services = {entry.name for entry in (await call.read()).list_services_response.service}
            contract = {name for path in PROTO.glob("*.proto") for name in SERVICE.findall(path.read_text("utf-8"))}
            assert services >= {f"tandemq.v1.{name}" for name in contract} | {"grpc.health.v1.Health"}
            assert len(contract) == 13
            await call.write(reflection_pb2.ServerReflectionRequest(file_containing_symbol="tandemq.v1.PairService"))
            assert (await call.read()).file_descriptor_response.file_descriptor_proto
            call.cancel()
        http = member_ports(pair.base_port, list(pair.members).index(name)).http
        assert (await http_get(http, "/livez"))[0] == 200
        assert (await http_get(http, "/readyz"))[0] == 200
        status, metrics = await http_get(http, "/metrics")
        assert status == 200
        assert f'tandemq_role{{domain="main",member="{name}"' in metrics or "tandemq_role" in metrics
        assert (await http_get(http, "/elsewhere"))[0] == 404


# -- losing the replica ------------------------------------------------------------------------------------------------


@pytest.mark.promise
async def test_a_master_goes_on_alone_and_never_in_silence(pair: Cluster) -> None:
    async with raw_to(pair.endpoint("a")) as [member]:
        careful, plain = new_name("careful"), new_name("plain")
        await member.create(careful, require_two=True)
        await member.create(plain)
        for name in (careful, plain):
            assert (await member.send(name, b"1", min_copies=2)).header.copies == 2
        pair.kill("b")
        header = (await member.send(plain, b"2")).header  # waits for the verdict, then is answered
        assert header.copies == 1
        assert (await member.send(plain, b"3")).header.epoch == 2
        with refused("NOT_ENOUGH_COPIES", AWAY, "1 member(s)", "2 are asked for", "ask for fewer") as caught:
            await member.send(plain, b"never", min_copies=2)
        assert caught.error.metadata == {"copies": "1", "min_copies": "2"}
        assert caught.retry_info
        with refused("NOT_ENOUGH_COPIES", AWAY, "1 member(s)"):
            await member.send(careful, b"never")
        call = member.queue.Produce(timeout=OUTER_S)
        await call.write(service.ProduceRequest(open={"client_id": b"p", "queue": careful, "min_copies": 2}))
        await call.read()
        await call.write(
            service.ProduceRequest(batch={"queue": careful, "first_sequence": 1, "messages": {"payloads": [b"never"]}})
        )
        assert (await call.read()).reject.error.metadata["copies"] == "1"
        call.cancel()

        await pair.restart("b")
        await pair.wait_for(PairView.equal, "equal members again")
        assert (await member.send(careful, b"2", min_copies=2)).header.copies == 2
    async with raw_to(pair.endpoint("b")) as [member]:
        assert await member.take(careful, 10) == [b"1", b"2"]
        assert await member.take(plain, 10) == [b"1", b"2", b"3"]
    await still_serves(pair)


# -- losing the master -------------------------------------------------------------------------------------------------


class Load:
    """One producer and one consumer of the SDK, until told to stop; what was acknowledged, received and settled."""

    def __init__(self, client: aio.Client, queue: str) -> None:
        self.client, self.queue = client, queue
        self.sent: list[int] = []
        self.received: list[int] = []
        self.firsts: list[int] = []
        self.slowest_s = 0.0
        self._over = asyncio.Event()
        self._goal = 0  # how many, once that is known

    async def _produce(self) -> None:
        async with self.client.producer(self.queue) as producer:
            while not self._over.is_set():
                await self._send(producer, len(self.sent))
            self._goal = len(self.sent)
            await self._send(producer, len(self.sent))  # wakes the consumer for its last look

    async def _send(self, producer: aio.Producer, number: int) -> None:
        began = time.monotonic()
        receipt = await producer.send(b"%d" % number)
        self.slowest_s = max(self.slowest_s, time.monotonic() - began)
        self.sent.append(number)
        assert receipt.index == len(self.sent), "an index for each, and no gap"

    async def _consume(self) -> None:
        async with self.client.consumer(self.queue) as consumer:
            async for batch in consumer.batches():
                for delivery in batch:
                    self.received.append(int(delivery.payload))
                    if not delivery.redelivered:
                        self.firsts.append(int(delivery.payload))
                batch.ack()
                if self._goal and set(range(self._goal)) <= set(self.received):
                    break
            await consumer.settled()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[Load]:
        tasks = [asyncio.create_task(self._produce()), asyncio.create_task(self._consume())]
        try:
            yield self
            self._over.set()
            await asyncio.wait_for(asyncio.gather(*tasks), OUTER_S)
        finally:
            for task in tasks:
                task.cancel()

    async def goes_on(self, count: int = 50) -> None:
        """Returns when so many more were acknowledged."""
        goal = len(self.sent) + count

        async def done() -> bool:
            return len(self.sent) >= goal

        await until(done, f"{count} more acknowledgements")

    def check(self) -> None:
        """Nothing lost; in order, but for what was on its way to the consumer and came again when its lease ended."""
        assert self._goal
        assert set(self.received) >= set(range(self._goal))
        assert self.firsts == sorted(self.firsts), "out of order"


@pytest.mark.promise
@pytest.mark.clock
@pytest.mark.parametrize("pair", [quick], indirect=True)
@pytest.mark.requirement("R105", "R110", "R122")
async def test_no_message_is_lost_or_doubled_when_the_master_dies_under_load(pair: Cluster) -> None:
    name = new_name()
    async with sdk(pair) as client:
        await client.create_queue(name, admin.QueueConfig(lease_duration={"seconds": LEASE_S}))
        load = Load(client, name)
        async with load.running():
            await load.goes_on()
            for _ in range(2):  # each member once
                master, replica = await roles(pair)
                with Stopwatch() as watch:
                    pair.kill(master)
                    await load.goes_on()
                    assert await role_of(pair, replica) == "MASTER"
                    await pair.restart(master)
                    await pair.wait_ready()
                    await load.goes_on()
                watch.judge("a message", TAKEOVER_S, load.slowest_s)
        load.check()
        info = await client.get_queue(name)
        assert info.length <= 1, "everything was settled but what woke the consumer"
        assert info.enqueued_total == len(load.sent), "each was ordered once"
    await pair.wait_for(PairView.equal, "equal members")


@pytest.mark.promise
@pytest.mark.clock
@pytest.mark.parametrize("pair", [quick], indirect=True)
async def test_a_frozen_master_is_replaced_and_never_serves_again(pair: Cluster) -> None:
    name = new_name()
    async with sdk(pair) as client, raw_to(*pair.endpoints) as (a, b):
        await client.create_queue(name, admin.QueueConfig(lease_duration={"seconds": LEASE_S}))
        load = Load(client, name)
        async with load.running():
            await load.goes_on()
            pair.pause("a")
            with Soon("the takeover", TAKEOVER_S):
                header = (await b.admin.GetQueue(admin.GetQueueRequest(name=name), timeout=OUTER_S)).header
            assert (header.member, header.epoch) == ("b", 2)
            await load.goes_on()
            pair.resume("a")
            while True:  # from its first breath on it forwards, or refuses; it never answers as master of epoch 1
                try:
                    answer = await a.admin.GetQueue(admin.GetQueueRequest(name=name), timeout=OUTER_S)
                except grpc.aio.AioRpcError as error:
                    if error.code() is not AWAY:
                        raise
                    continue
                assert (answer.header.member, answer.header.epoch) == ("b", 2)
                break
            await pair.wait_ready()
            await load.goes_on()
        load.check()
    assert await roles(pair) == ("b", "a")
    await pair.wait_for(PairView.equal, "equal members")


async def test_streams_opened_at_the_replica_live_through_the_death_of_the_master(pair: Cluster) -> None:
    """A Produce stream stays open and its batches are answered; a Consume stream is told to come again."""
    name = new_name()
    async with raw_to(pair.endpoint("b")) as [member]:
        await member.create(name)
        produce = member.queue.Produce(timeout=OUTER_S)
        await produce.write(service.ProduceRequest(open={"client_id": b"p", "queue": name}))
        assert (await produce.read()).HasField("opened")
        consume = member.queue.Consume(timeout=OUTER_S)
        await consume.write(service.ConsumeRequest(open={"queue": name, "client_id": b"c"}))
        assert (await consume.read()).HasField("opened")
        await consume.write(service.ConsumeRequest(credit={"messages": 1000, "bytes": 1 << 20}))

        first = await _produced(produce, name, 1)
        assert (first.first_index, first.epoch, first.copies) == (1, 1, 2)
        deliveries = await _next_deliveries(consume)
        assert [message.message.payload for message in deliveries.messages] == [b"1"]

        pair.kill("a")
        second = await _produced(produce, name, 2)
        assert (second.first_index, second.epoch, second.copies, second.duplicate) == (2, 2, 1, False)
        third = await _produced(produce, name, 3)
        assert third.first_index == 3

        with refused("NOT_MASTER", AWAY, "open it again") as caught:
            while await consume.read() is not grpc.aio.EOF:
                pass
            raise await _ending(consume)
        assert caught.retry_info
        again = member.queue.Consume(timeout=OUTER_S)
        await again.write(service.ConsumeRequest(open={"queue": name, "client_id": b"c"}))
        await again.write(service.ConsumeRequest(credit={"messages": 1000, "bytes": 1 << 20}))
        got: list[bytes] = []
        while len(got) < 2:
            got += [message.message.payload for message in (await _next_deliveries(again)).messages]
        assert got == [b"2", b"3"], "the first one is still leased"
        settle = {"lease_id": deliveries.lease_id, "ranges": [{"first": 1, "count": 1}], "outcome": 1}
        await again.write(service.ConsumeRequest(settle={"settle_id": 1, "settlements": [settle]}))
        while not (frame := await again.read()).HasField("settled"):
            pass
        assert [result.settled for result in frame.settled.results] == [1], "a lease lives through the takeover"
        produce.cancel()
        again.cancel()


async def _produced(call, queue: str, number: int) -> service.EnqueueAck:
    batch = {"queue": queue, "first_sequence": number, "messages": {"payloads": [b"%d" % number]}}
    await call.write(service.ProduceRequest(batch=batch))
    frame = await call.read()
    assert frame.HasField("ack"), frame
    return frame.ack


async def _next_deliveries(call) -> service.Deliveries:
    while not (frame := await call.read()).HasField("deliveries"):
        assert not frame.HasField("goaway"), frame
    return frame.deliveries


async def _ending(call) -> grpc.aio.AioRpcError:
    return grpc.aio.AioRpcError(
        await call.code(), await call.initial_metadata(), await call.trailing_metadata(), await call.details()
    )


async def test_a_pair_that_lost_both_members_comes_back_with_everything(pair: Cluster) -> None:
    name = new_name()
    async with sdk(pair) as client:
        await client.create_queue(name)
        async with client.producer(name) as producer:
            await producer.send_many([b"%d" % number for number in range(100)])
        await gone(pair, *pair.members)
        for member in pair.members:
            pair.spawn(member)
        await pair.wait_ready()
        batch = await client.dequeue(name, 1000)
        assert [bytes(payload) for payload in batch.payloads] == [b"%d" % number for number in range(100)]
        await batch.ack()
    await pair.wait_for(PairView.equal, "equal members")


@pytest.mark.promise
async def test_a_master_without_peer_and_witness_acknowledges_nothing(pair: Cluster) -> None:
    """Nobody can tell it that the other one is not master by now: it waits, and goes on when somebody can."""
    name = new_name()
    async with raw_to(pair.endpoint("a")) as [member]:
        await member.create(name)
        await gone(pair, WITNESS, "b")

        async def suspended() -> bool:
            return await role_of(pair, "a") in ("MASTER_SUSPENDED", "PROBE")

        await until(suspended, "a suspended master")
        request = service.EnqueueRequest(queue=name, request_id=new_id(), messages=[{"payload": b"x"}])
        with pytest.raises(grpc.aio.AioRpcError) as info:
            await member.queue.Enqueue(request, timeout=0.5)
        assert info.value.code() in (AWAY, grpc.StatusCode.DEADLINE_EXCEEDED)
        pair.spawn(WITNESS)
        await until_done(lambda: member.queue.Enqueue(request, timeout=OUTER_S))
        assert await member.take(name, 10) == [b"x"], "once, however often it was asked for"
        await pair.restart("b")
        await pair.wait_ready()
