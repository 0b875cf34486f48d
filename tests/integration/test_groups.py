"""A queue with group_mode ORDERED on a pair whose master is killed while consumers of both members are at work."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from pathlib import Path

import grpc
import pytest

from tandemq import aio
from tandemq.client.delivery import Delivery
from tandemq.errors import LeaseLost
from tandemq.v1 import queue_admin_service_pb2 as admin
from tests.integration.support import new_name, raw_to, refused, roles, sdk, stopped_at_end
from tests.support.clusters import patient
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process

GROUPS = 7
GOES_ON = 300
"""Messages that are settled between one kill and the next."""


class GroupLoad:
    """One that sends, and consumers that keep several messages in hand; says what of the order did not hold."""

    def __init__(self, queue: str) -> None:
        self.queue = queue
        self.sent = 0
        self.settled: set[int] = set()
        self.problems: list[str] = []
        self._at_work: dict[str, int] = {}
        self._first: defaultdict[str, list[int]] = defaultdict(list)
        self._seen: set[int] = set()
        self._changed = asyncio.Condition()
        self._stops = False

    async def send(self, client: aio.Client) -> None:
        async with client.producer(self.queue) as producer:
            while not self._stops:
                number, self.sent = self.sent, self.sent + 1
                await producer.send(b"%d" % number, group_id=f"g{number % GROUPS}", priority=number % 10)

    async def consume(self, client: aio.Client) -> None:
        in_hand: asyncio.Queue[Delivery] = asyncio.Queue()
        async with client.consumer(self.queue, credit_messages=GROUPS) as consumer, asyncio.TaskGroup() as tasks:
            tasks.create_task(self._work(in_hand))
            async for delivery in consumer:
                self._took(delivery)
                in_hand.put_nowait(delivery)

    def _took(self, delivery: Delivery) -> None:
        number, group = int(delivery.payload), delivery.attributes["group_id"]
        if self._at_work.setdefault(group, number) != number:
            self.problems.append(f"{number} of {group} came while {self._at_work[group]} was at work")
        if number not in self._seen:
            self._seen.add(number)
            if self._first[group] and self._first[group][-1] > number:
                self.problems.append(f"{number} of {group} came first after {self._first[group][-1]}")
            self._first[group].append(number)

    async def _work(self, in_hand: asyncio.Queue[Delivery]) -> None:
        while True:
            delivery = await in_hand.get()
            number, group = int(delivery.payload), delivery.attributes["group_id"]
            if self._at_work.get(group) == number:
                del self._at_work[group]  # done with, whether the other side hears of it or not
            try:
                await delivery.ack_async()
            except LeaseLost:
                continue
            self.settled.add(number)
            async with self._changed:
                self._changed.notify_all()

    async def goes_on(self) -> None:
        wanted = len(self.settled) + GOES_ON
        await self._until(lambda: len(self.settled) >= wanted)

    async def ends(self) -> None:
        """Nothing more is sent, and everything is settled."""
        self._stops = True
        await self._until(lambda: len(self.settled) == self.sent)

    async def _until(self, holds: object) -> None:
        assert callable(holds)
        async with asyncio.timeout(OUTER_S), self._changed:
            await self._changed.wait_for(holds)


@pytest.mark.promise
async def test_each_group_keeps_its_order_when_the_master_dies_under_consumers_of_both_members(tmp_path: Path) -> None:
    async with (
        stopped_at_end(patient(tmp_path)) as pair,
        sdk(pair, "a", "b") as client,
        sdk(pair, "a", "b", follow_master=False) as at_a,
        sdk(pair, "b", "a", follow_master=False) as at_b,
    ):
        await pair.start()
        name = new_name()
        config = admin.QueueConfig(group_mode=admin.GROUP_MODE_ORDERED, lease_duration={"seconds": 60})
        await client.create_queue(name, config)
        load = GroupLoad(name)
        async with asyncio.TaskGroup() as tasks:
            sender = tasks.create_task(load.send(client))
            consumers = [tasks.create_task(load.consume(each)) for each in (at_a, at_b, at_a)]
            await load.goes_on()
            for _ in range(2):  # each member once
                master, _ = await roles(pair)
                pair.kill(master)
                await load.goes_on()
                await pair.restart(master)
                await pair.wait_ready()
                await load.goes_on()
            await load.ends()
            await sender
            for each in consumers:
                each.cancel()
        assert load.problems == []
        info = await client.get_queue(name)
        assert (info.length, info.blocked, info.enqueued_total) == (0, 0, load.sent)


async def test_the_mode_of_a_queue_that_holds_messages_is_refused_with_what_to_do(tmp_path: Path) -> None:
    async with patient(tmp_path).running() as pair, raw_to(pair.endpoint("b")) as [replica]:
        name = new_name()
        await replica.create(name)
        await replica.send(name, b"here")
        config = admin.QueueConfig(group_mode=admin.GROUP_MODE_ORDERED)
        request = admin.UpdateQueueRequest(name=name, request_id=b"r" * 16, config=config)
        with refused("NOT_EMPTY", grpc.StatusCode.FAILED_PRECONDITION, "purge", name):
            await replica.admin.UpdateQueue(request, timeout=OUTER_S)
