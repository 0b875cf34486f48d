"""The blocking client: the same calls from threads, and names that stay."""

from __future__ import annotations

import asyncio
import inspect
import json
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

import tandemq
from tandemq.client import aio, blocking
from tandemq.client.loop_thread import LoopThread
from tandemq.errors import Closed, NotFound, ResourceExhausted
from tandemq.v1 import common_pb2 as common
from tandemq.v1 import manager_admin_service_pb2, pair_service_pb2, queue_admin_service_pb2, queue_service_pb2
from tandemq.v1 import queue_service_pb2 as pb
from tests.support.until import OUTER_S
from tests.unit.client.fake import FakeMember, FakeStream, Ledger, open_producer, serving
from tests.unit.client.test_consumer import confirm, deliver, next_settle, open_consumer, ranges, segment
from tools.gen_blocking import LEFT_OUT


@pytest.fixture
def member() -> Iterator[FakeMember]:
    """Runs on a loop of its own, as the test blocks its thread."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever)
    thread.start()

    async def start() -> FakeMember:
        return await FakeMember().__aenter__()

    try:
        started = asyncio.run_coroutine_threadsafe(start(), loop).result()
        yield started
        asyncio.run_coroutine_threadsafe(started.__aexit__(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


def test_sending_in_every_way_keeps_the_order(member: FakeMember) -> None:
    ledger = Ledger()
    member.produce = [serving(member, ledger)]
    with tandemq.connect(member.endpoint) as client:
        with client.producer("q", client_id="me") as producer:
            assert producer.send(b"0").index == 1
            futures = [producer.send_nowait(b"%d" % number) for number in range(1, 100)]
            producer.flush()
            assert [future.result().index for future in futures] == list(range(2, 101))
            assert producer.send_many([b"100", b"101"])[1].index == 102
            last = producer.send_nowait(b"102")
        assert last.result().index == 103
        with pytest.raises(Closed):
            producer.send(b"late")
    assert ledger.payloads == [b"%d" % number for number in range(103)]


def test_what_is_on_its_way_is_bounded(member: FakeMember) -> None:
    ledger, go = Ledger(), threading.Event()

    async def late(stream: FakeStream) -> None:
        client_id = await open_producer(member, stream, ledger)
        await asyncio.get_running_loop().run_in_executor(None, go.wait)
        while (request := await stream.read()) is not None:
            await stream.write(**ledger.execute(client_id, request.batch))

    member.produce = [late]
    with tandemq.connect(member.endpoint) as client, client.producer("q", max_pending_messages=2) as producer:
        futures = [producer.send_nowait(b"1"), producer.send_nowait(b"2")]
        with pytest.raises(ResourceExhausted):
            producer.send_nowait(b"3")
        go.set()
        assert [future.result().index for future in futures] == [1, 2]
        assert producer.send_nowait(b"3").result().index == 3


def test_receiving_and_settling_from_threads(member: FakeMember) -> None:
    settled: list[tuple[int, list[tuple[int, int]]]] = []

    async def script(stream: FakeStream) -> None:
        await open_consumer(member, stream)
        await deliver(stream, 7, segment(1, [b"a", b"b", b"c"]))
        await deliver(stream, 8, segment(4, [b"d", b"e"]))
        while True:
            settle = await next_settle(stream)
            settled.extend(ranges(settle))
            await confirm(stream, settle)

    member.consume = [script]
    with tandemq.connect(member.endpoint) as client, client.consumer("q") as consumer:
        got = [next(consumer) for _ in range(3)]
        threads = [threading.Thread(target=delivery.ack) for delivery in got]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        consumer.settled()
        batch = next(consumer.batches())
        assert batch.payloads == [b"d", b"e"]
        consumer.ack(batch)
    acked = sorted(index for _, runs in settled for first, count in runs for index in range(first, first + count))
    assert acked == [1, 2, 3, 4, 5]


def test_closing_gives_back_the_rest_of_a_batch(member: FakeMember) -> None:
    settled: list[pb.Settlement] = []

    async def script(stream: FakeStream) -> None:
        await open_consumer(member, stream)
        await deliver(stream, 7, segment(1, [b"a", b"b", b"c"]))
        while True:
            settle = await next_settle(stream)
            settled.extend(settle.settlements)
            await confirm(stream, settle)

    member.consume = [script]
    with tandemq.connect(member.endpoint) as client, client.consumer("q") as consumer:
        assert next(consumer).payload == b"a"
    assert [(each.outcome, each.ranges[0].first, each.ranges[0].count) for each in settled] == [
        (pb.OUTCOME_RELEASE, 2, 2)
    ]


def test_errors_are_the_same(member: FakeMember) -> None:
    async def no_queue(stream: FakeStream) -> None:
        await stream.read()
        await stream.refuse(common.REASON_QUEUE_NOT_FOUND)

    member.produce = [no_queue]
    member.consume = [no_queue]
    with tandemq.connect(member.endpoint) as client:
        with pytest.raises(NotFound):
            client.producer("q").send(b"x")
        with pytest.raises(NotFound):
            client.producer("q").send_nowait(b"x").result()
        with pytest.raises(NotFound):
            next(client.consumer("q"))


def test_a_callback_that_would_wait_for_itself_is_told(member: FakeMember) -> None:
    member.produce = [serving(member, Ledger())]
    told: list[BaseException | None] = []
    with tandemq.connect(member.endpoint) as client:
        producer = client.producer("q")

        def callback(_: object) -> None:
            try:
                producer.send(b"again")
            except RuntimeError as error:
                told.append(error)

        producer.send_nowait(b"x").add_done_callback(callback)
        producer.flush()
    assert len(told) == 1
    with pytest.raises(RuntimeError, match="closed"):
        client.get_queue("q")


def test_both_clients_have_the_same_calls() -> None:
    for ours, theirs in (
        (blocking.Client, aio.Client),
        (blocking.Producer, aio.Producer),
        (blocking.Consumer, aio.Consumer),
    ):
        names = {name for name in dir(theirs) if not name.startswith("_")}
        missing = names - set(dir(ours)) - {"abort", "reply_soon", "settle_now", "settle_soon"}
        assert missing == set(), theirs
    for name, function in inspect.getmembers(aio.Client, inspect.isfunction):
        if not name.startswith("_"):
            wanted = [each for each in parameters(function) if each[0] not in LEFT_OUT.get(name, ())]
            assert parameters(getattr(blocking.Client, name)) == wanted, name


def parameters(function: Callable[..., object]) -> list[tuple[str, object, object]]:
    """Without the client itself, which a function of another module calls otherwise than a method does."""
    found = list(inspect.signature(function).parameters.values())[1:]
    return [(parameter.name, parameter.kind, parameter.default) for parameter in found]


async def counted(given: list[int]) -> AsyncIterator[int]:
    for number in range(5):
        given.append(number)
        yield number


def test_so_many_items_cross_between_the_threads_together() -> None:
    thread, given = LoopThread("test"), list[int]()
    try:
        items = thread.each(counted(given), at_once=2)
        assert (next(items), given) == (0, [0, 1])
        assert (list(items), given) == ([1, 2, 3, 4], [0, 1, 2, 3, 4])
        items = thread.each(counted(given))
        assert (next(items), given[5:]) == (0, [0])
    finally:
        thread.close()


def test_a_function_is_called_on_the_loops_thread() -> None:
    thread = LoopThread("test")
    try:
        assert thread.apply(lambda name: (asyncio.get_running_loop() is thread.loop, name), name="a") == (True, "a")
    finally:
        thread.close()


def test_public_names_stay() -> None:
    assert set(tandemq.__all__) == {
        *(
            "Client",
            "Consumer",
            "Outgoing",
            "Producer",
            "Receipt",
            "Receipts",
            "TandemqError",
            "Where",
            "aio",
            "connect",
        ),
        "errors",
    }
    assert all(getattr(tandemq, name) is not None for name in tandemq.__all__)
    assert set(blocking.__all__) == {"Client", "Consumer", "Handle", "Producer", "ReceivedBatch", "connect"}
    assert all(hasattr(aio, name) for name in aio.__all__)
    with pytest.raises(AttributeError):
        _ = tandemq.nothing


def test_the_service_config_names_methods_that_exist() -> None:
    path = Path(tandemq.__file__).with_name("service_config.json")
    modules = (manager_admin_service_pb2, pair_service_pb2, queue_admin_service_pb2, queue_service_pb2)
    services = {
        service.full_name: set(service.methods_by_name)
        for module in modules
        for service in module.DESCRIPTOR.services_by_name.values()
    }
    config = json.loads(path.read_text())
    for entry in config["methodConfig"]:
        assert entry["retryPolicy"]["retryableStatusCodes"] == ["UNAVAILABLE"]
        assert entry["retryPolicy"]["maxAttempts"] <= 5
        for name in entry["name"]:
            assert name.get("method") in {None, *services[name["service"]]}
    assert "retryThrottling" in config


@pytest.mark.slow
def test_the_public_surface_type_checks_as_a_strangers_files() -> None:
    root = Path(tandemq.__file__).parent.parent
    command = [sys.executable, "-m", "mypy", "--strict", *map(str, sorted((root / "tests/typing").glob("*.py")))]
    done = subprocess.run(command, cwd=root, check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


def test_what_cannot_be_settled_any_more_is_raised_by_whoever_settles_next(member: FakeMember) -> None:
    """The consumer failed on its own thread's loop; the one who settles is on another."""

    async def delivers(stream: FakeStream) -> None:
        await open_consumer(member, stream)
        await deliver(stream, 7, segment(1, [b"a", b"b", b"c"]))
        await stream.read()
        await stream.write(goaway=pb.Goaway(error=common.Error(reason=common.REASON_QUEUE_NOT_FOUND)))
        await stream.over.wait()

    member.consume = [delivers]
    with tandemq.connect(member.endpoint) as client:
        consumer = client.consumer("q")
        batch = next(consumer.batches())
        with pytest.raises(NotFound):
            next(consumer.batches())
        batch[0].ack()
        with pytest.raises(NotFound):
            consumer.settled()
        with pytest.raises(NotFound):
            batch[1].ack()


def test_batches_end_with_the_consumer(member: FakeMember) -> None:
    async def delivers(stream: FakeStream) -> None:
        await open_consumer(member, stream)
        await deliver(stream, 0, segment(1, [b"a"]))
        while await stream.read() is not None:
            pass

    member.consume = [delivers]
    with tandemq.connect(member.endpoint) as client:
        consumer = client.consumer("q")
        batches = consumer.batches()
        assert next(batches).payloads == [b"a"]
        consumer.close()
        over = segment(0, [])
        assert next(batches, over) is over, "not None: a batch of nothing would pass for the end"
        assert next(consumer, over) is over


def test_one_message_alone_that_nobody_waits_for_leaves(member: FakeMember) -> None:
    member.produce = [serving(member, Ledger())]
    with tandemq.connect(member.endpoint) as client, client.producer("q") as producer:
        for number in (1, 2):  # the second one finds nothing that was handed over, as the first did
            assert producer.send_nowait(b"alone").result(OUTER_S).index == number


def test_answers_and_settlements_from_threads_leave_in_their_order(member: FakeMember) -> None:
    seen: list[tuple[str, int, bytes]] = []

    async def script(stream: FakeStream) -> None:
        await open_consumer(member, stream)
        await deliver(stream, 7, segment(1, [b"a", b"b", b"c", b"d"]))
        while (request := await stream.read()) is not None:
            kind = request.WhichOneof("frame")
            if kind == "reply":
                seen.append((kind, request.reply.index, request.reply.message.payload))
                confirmed = pb.ConsumeSettled(settle_id=request.reply.settle_id, results=[pb.SettleResult()])
                await stream.write(settled=confirmed)
            elif kind == "settle":
                seen.extend((kind, first, b"") for _, runs in ranges(request.settle) for first, _ in runs)
                await confirm(stream, request.settle)

    member.consume = [script]
    with tandemq.connect(member.endpoint) as client, client.consumer("q") as consumer:
        first, second, third, fourth = (next(consumer) for _ in range(4))
        first.reply(b"1", correlation_id="one")
        second.ack()
        third.reply(b"3")
        consumer.reply(fourth, b"4")
        consumer.settled()
    assert seen == [("reply", 1, b"1"), ("settle", 2, b""), ("reply", 3, b"3"), ("reply", 4, b"4")]
