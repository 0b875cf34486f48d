"""Takes from one queue and puts into another, until SIGTERM: `python -m invoicing orders invoices`.

Run it twice, on two machines: each order goes to one of them, and to the other when the first one dies. An order is
settled after its invoice was acknowledged; while there is no room for the invoice, the process waits. One that is
killed between the two leaves an order that comes again; its invoice then carries the same `dedup_id` and is not stored
a second time. TANDEMQ_TARGET says where the pair is.
"""

import asyncio
import contextlib
import signal
import sys

import tandemq
from tandemq import Outgoing
from tandemq.errors import LeaseLost

BATCH_MAX = 100


async def main(orders: str, invoices: str) -> None:
    task = asyncio.current_task()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with tandemq.aio.connect() as client, client.consumer(orders, credit_messages=BATCH_MAX) as consumer:
        async for batch in consumer.batches():
            made = [Outgoing(invoice(each.payload), {"dedup_id": f"{orders}:{each.index}"}) for each in batch]
            await client.enqueue(invoices, made, wait=-1)
            with contextlib.suppress(LeaseLost):  # somebody else has the order by now; its invoice is there once
                await batch.ack_async()


def invoice(order: bytes) -> bytes:
    return bytes(order)  # yours does more


if __name__ == "__main__":
    if len(sys.argv) != 3:
        sys.exit("usage: python -m invoicing ORDERS INVOICES")
    with contextlib.suppress(asyncio.CancelledError):
        asyncio.run(main(*sys.argv[1:]))
