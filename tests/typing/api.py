"""The public surface as a user's file sees it; checked by mypy, never run."""

from __future__ import annotations

from concurrent.futures import Future
from datetime import timedelta
from typing import assert_type

import tandemq
from tandemq import aio
from tandemq.errors import InDoubt, TandemqError


def blocking() -> None:
    with tandemq.connect("a:7600,b:7610") as client:
        with client.producer("orders", min_copies=2) as producer:
            assert_type(producer.send(b"x", priority=9, ttl=timedelta(minutes=1)), tandemq.Receipt)
            assert_type(producer.send_nowait(b"x"), Future[tandemq.Receipt])
            receipts = producer.send_many([b"x", b"y"])
            assert_type(receipts[0].index, int)
            producer.send(b"x", priorty=9)  # type: ignore[call-arg]  # a misspelt attribute is found
        for delivery in client.consumer("orders", lease=timedelta(seconds=30)):
            assert_type(delivery.payload, bytes)
            delivery.ack()
        for batch in client.consumer("orders", mode="immediate").batches():
            assert_type(batch.payloads, list[bytes])
        client.consumer("orders", mode="eventually")  # type: ignore[arg-type]
        received = client.dequeue("orders", 10, wait=timedelta(seconds=1))
        received.ack()
        assert_type(client.get_queue("orders").length, int)
        assert_type(client.get_queue("orders").released_total, int)
        assert_type(client.manager_info().stats.client_counts.remote, int)
        assert_type(client.purge_queue("orders"), int)
        assert_type(client.move_messages("orders", "old", "year < 2020").moved, int)
        assert_type(client.redrive_queue("orders.dead", max_messages=5).left, int)
        assert_type(client.delete_messages("orders", tandemq.Where(group_id="g")).removed, int)
        client.delete_messages("orders")  # type: ignore[call-arg]  # purge_queue removes all
        client.enqueue("orders", [b"x", tandemq.Outgoing(b"y", {"priority": 1})])
        try:
            client.delete_queue("orders", if_empty=True)
        except InDoubt as error:
            assert_type(error.definite, bool)
        except TandemqError as error:
            assert_type(error.retry_after, timedelta | None)


async def asynchronous() -> None:
    async with aio.connect() as client:
        async with client.producer("orders", client_id="billing-1") as producer:
            assert_type(await producer.send(b"x", properties={"n": 1, "s": "t"}), aio.Receipt)
            assert_type(await producer.send_nowait(b"x"), aio.Receipt)
            assert_type(await producer.send_many([b"x"]), aio.Receipts)
            await producer.flush()
        consumer = client.consumer("orders")
        async for delivery in consumer:
            assert_type(delivery, aio.Delivery)
            delivery.release()
            await delivery.ack_async()
        async for batch in consumer.batches():
            assert_type(batch, aio.DeliveryBatch)
            batch.ack()
        await consumer.settled()
        for left in (await client.move_messages("orders", "old")).behind:
            assert_type(left.count, int)
        async for message in client.browse("orders", from_index=5):
            assert_type(message.index, int)
        for answer in await client.pair_status():
            assert_type(answer.error, TandemqError | None)
