"""Messages in order, group by group: one of a group is at work at a time, and the groups go in parallel.

    python docs/examples/groups.py 127.0.0.1:7600,127.0.0.1:7610

The addresses of the members may also stand in TANDEMQ_TARGET.
"""

import asyncio
import os
import sys
import uuid

import tandemq
from tandemq import Outgoing
from tandemq.client.aio import ReceivedBatch
from tandemq.v1.queue_admin_service_pb2 import GROUP_MODE_ORDERED, QueueConfig


def said(batch: ReceivedBatch) -> str:
    return ", ".join(f"{each.payload.decode()} ({each.attributes.get('group_id', 'no group')})" for each in batch)


async def main(servers: str) -> None:
    queue = f"example/groups-{uuid.uuid4().hex[:8]}"
    async with tandemq.aio.connect(servers) as client:
        await client.create_queue(queue, QueueConfig(group_mode=GROUP_MODE_ORDERED))
        red, blue = {"group_id": "red"}, {"group_id": "blue"}
        sent = [Outgoing(b"r1", red), Outgoing(b"r2", red), Outgoing(b"b1", blue), Outgoing(b"free", {})]
        await client.enqueue(queue, sent)

        first = await client.dequeue(queue, 10)
        print(f"at once: {said(first)}")
        info = await client.get_queue(queue)
        print(f"ready {info.ready}, at work {info.leased}, waiting behind another of their group {info.blocked}")
        print(f"while r1 is at work: {said(await client.dequeue(queue, 10)) or 'nothing'}")

        await first.release()
        again = await client.dequeue(queue, 10)
        print(f"given back, they come again first: {said(again)}")
        await again.ack()
        last = await client.dequeue(queue, 10)
        print(f"when they are settled: {said(last)}")
        await last.ack()
        await client.delete_queue(queue)


if __name__ == "__main__":
    addresses = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("TANDEMQ_TARGET", "")
    if not addresses:
        sys.exit("usage: groups.py HOST:PORT[,HOST:PORT], or set TANDEMQ_TARGET")
    asyncio.run(main(addresses))
