"""Consumers that wait for messages, in a process of their own: what `chaos.crowd.idle` puts on a pair.

Run as `python -m chaos.crowd.attendants TARGET QUEUE CONSUMERS CONNECTIONS`; writes a line with the number of
consumers whose stream is open each time it changes, until its standard input ends.
"""

from __future__ import annotations

import asyncio
import sys
from typing import TYPE_CHECKING

from tandemq import aio
from tandemq.cli.output import say

if TYPE_CHECKING:
    from tandemq.client.consumer import Consumer

LOOK_S = 0.1


async def attend(consumer: Consumer) -> None:
    """Takes and acknowledges whatever comes."""
    async for delivery in consumer:
        delivery.ack()


async def report(consumers: list[Consumer]) -> None:
    """The number, at each look: streams may end and be open again between two, and who waits for them to come back must
    hear that they did.
    """
    while True:
        say(f"{sum(consumer.connected for consumer in consumers)}")
        await asyncio.sleep(LOOK_S)


async def main(target: str, queue: str, count: int, connections: int) -> None:
    """Until standard input ends. Every client is one connection to each member that it uses."""
    clients = [aio.connect(target, timeout=120.0) for _ in range(connections)]
    consumers = [clients[number % connections].consumer(queue, credit_messages=10) for number in range(count)]
    work = [asyncio.create_task(attend(consumer)) for consumer in consumers]
    reporting = asyncio.create_task(report(consumers))
    ended = asyncio.create_task(asyncio.to_thread(sys.stdin.read))
    done, _ = await asyncio.wait([ended, reporting, *work], return_when=asyncio.FIRST_COMPLETED)
    for task in done - {ended}:
        task.result()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])))
