"""The ways in which an application sends one message: by a stream or a call, alone or in a unit."""

from __future__ import annotations

from tandemq import aio


async def by_send(client: aio.Client, queue: str, body: bytes, given: aio.Attributes) -> None:
    async with client.producer(queue) as producer:
        await producer.send(body, **given)


async def by_send_nowait(client: aio.Client, queue: str, body: bytes, given: aio.Attributes) -> None:
    async with client.producer(queue) as producer:
        await producer.send_nowait(body, **given)


async def by_enqueue(client: aio.Client, queue: str, body: bytes, given: aio.Attributes) -> None:
    await client.enqueue(queue, [aio.Outgoing(body, given)])


async def by_transact(client: aio.Client, queue: str, body: bytes, given: aio.Attributes) -> None:
    await client.transact([], {queue: [aio.Outgoing(body, given)]})


async def by_unit(client: aio.Client, queue: str, body: bytes, given: aio.Attributes) -> None:
    async with client.unit() as unit:
        await unit.enqueue(queue, [aio.Outgoing(body, given)])


WAYS = (by_send, by_send_nowait, by_enqueue, by_transact, by_unit)
