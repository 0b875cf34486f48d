"""A full queue, and senders that wait for room at both members of a pair: they enter in the order in which they came.

    python docs/examples/full_queue.py 127.0.0.1:7600,127.0.0.1:7610

The addresses of the members may also stand in TANDEMQ_TARGET. One address works as well: all senders use that member.
"""

import asyncio
import os
import sys
import uuid

import tandemq
from tandemq.errors import ResourceExhausted, TandemqError
from tandemq.v1.queue_admin_service_pb2 import QueueConfig


async def waiting(client: tandemq.aio.Client, queue: str, count: int) -> None:
    """Returns when so many senders wait for room: the queue itself says how many do."""
    while (await client.get_queue(queue)).waiters != count:
        await asyncio.sleep(0)


async def main(servers: str) -> None:
    queue = f"example/full-{uuid.uuid4().hex[:8]}"
    first, *rest = servers.split(",")
    last = rest[-1] if rest else first
    # Each client keeps to one member, to show that it does not matter which; usually one client is given all of them.
    async with (
        tandemq.aio.connect(first, follow_master=False) as at_one,
        tandemq.aio.connect(last, follow_master=False) as at_other,
    ):
        await at_one.create_queue(queue, QueueConfig(max_length=2))
        await at_one.enqueue(queue, [b"one", b"two"])
        print("the queue holds 2 messages, which is all that it may")

        try:
            await at_one.enqueue(queue, [b"impatient"])
        except ResourceExhausted as error:
            print(f"a sender that does not wait is refused: {error.reason}")

        p1 = asyncio.create_task(at_other.enqueue(queue, [b"three"], wait=60))
        await waiting(at_one, queue, 1)
        p2 = asyncio.create_task(at_one.enqueue(queue, [b"four"], wait=60))
        await waiting(at_one, queue, 2)
        print("P1 waits at one member, P2 at the other one")

        for sender, name in ((p1, "P1"), (p2, "P2")):
            received = await at_one.dequeue(queue)
            await received.ack()
            [receipt] = await sender
            print(f"{received[0].payload.decode()!r} was acknowledged, and {name} entered at index {receipt.index}")

        p3 = asyncio.create_task(at_other.enqueue(queue, [b"five"], wait=60))
        await waiting(at_one, queue, 1)
        await at_one.update_queue(queue, QueueConfig(enqueue_enabled=False), ["enqueue_enabled"])
        try:
            await p3
        except TandemqError as error:
            print(f"sending was disabled, and P3, who waited, was told so: {error.reason}")

        left = [message.payload.decode() async for message in at_one.browse(queue)]
        print(f"left in the queue: {', '.join(left)}")
        await at_one.delete_queue(queue)


if __name__ == "__main__":
    addresses = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("TANDEMQ_TARGET", "")
    if not addresses:
        sys.exit("usage: full_queue.py HOST:PORT[,HOST:PORT], or set TANDEMQ_TARGET")
    asyncio.run(main(addresses))
