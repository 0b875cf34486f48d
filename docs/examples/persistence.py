"""The persistence of a queue that is in use, changed: what is in it becomes safe before the call returns.

    python docs/examples/persistence.py 127.0.0.1:7600,127.0.0.1:7610

Volatile messages are held in the memory of both members and survive one of them. Persistent ones are on both disks.
"""

import asyncio
import os
import sys
import uuid

from tandemq import aio
from tandemq.client.aio import Client
from tandemq.client.outgoing import Attributes, Outgoing
from tandemq.v1.queue_admin_service_pb2 import (
    PERSISTENCE_CONDITIONAL,
    PERSISTENCE_PERSISTENT,
    PERSISTENCE_VOLATILE,
    Persistence,
    QueueConfig,
)


async def change(client: Client, queue: str, persistence: Persistence) -> None:
    """Returns when every message that is persistent by the new rule is on each disk that must have it."""
    info = await client.update_queue(queue, QueueConfig(persistence=persistence), ["persistence"])
    name = Persistence.Name(info.config.persistence).removeprefix("PERSISTENCE_")
    print(f"{name}: {info.volatile_length} of {info.length} messages are volatile")


async def main(servers: str) -> None:
    queue = f"example/persistence-{uuid.uuid4().hex[:8]}"
    async with aio.connect(servers) as client:
        await client.create_queue(queue, QueueConfig(persistence=PERSISTENCE_VOLATILE))
        important = Outgoing(b"important", Attributes(persistent=True))
        [*_, warned] = await client.enqueue(queue, [b"one", b"two", important])
        print(f"sent to a volatile queue, with a warning: {warned.warning.name}")
        print(f"in memory only: {(await client.get_queue(queue)).volatile_length}")

        # Only those that their senders marked persistent are saved; new ones are treated alike.
        await change(client, queue, PERSISTENCE_CONDITIONAL)

        # Everything that is in it, what consumers hold at the moment too.
        held = await client.dequeue(queue)
        await change(client, queue, PERSISTENCE_PERSISTENT)
        await held.release()
        await client.enqueue(queue, [Outgoing(b"marked volatile", Attributes(persistent=False))])
        print(f"after one more message: {(await client.get_queue(queue)).volatile_length}")

        # The other way round nothing is taken back: what is stored stays stored until it is consumed.
        await change(client, queue, PERSISTENCE_VOLATILE)
        await client.enqueue(queue, [b"new"])
        print(f"after one more message: {(await client.get_queue(queue)).volatile_length}")
        await client.delete_queue(queue)


if __name__ == "__main__":
    addresses = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("TANDEMQ_TARGET", "")
    if not addresses:
        sys.exit("usage: persistence.py HOST:PORT[,HOST:PORT], or set TANDEMQ_TARGET")
    asyncio.run(main(addresses))
