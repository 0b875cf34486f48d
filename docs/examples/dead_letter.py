"""A poison message: the consumer can do nothing with it. It ends in the dead-letter queue, is looked at, and goes back.

    python docs/examples/dead_letter.py 127.0.0.1:7600,127.0.0.1:7610

The addresses of the members may also stand in TANDEMQ_TARGET.
"""

import os
import sys
import uuid
from collections.abc import Callable
from datetime import timedelta

import tandemq
from tandemq.v1.queue_admin_service_pb2 import QueueConfig

WAIT = timedelta(seconds=10)
LEASE = timedelta(milliseconds=500)


def consume(client: tandemq.Client, queue: str, deliveries: int, read: Callable[[str], int]) -> None:
    """Books orders. One that it cannot read is left alone: its lease ends, and it comes again."""
    for _ in range(deliveries):
        received = client.dequeue(queue, wait=WAIT, lease=LEASE)
        order = received[0].payload.decode()
        try:
            amount = read(order.removeprefix("order "))
        except ValueError:
            print(f"  {order!r}, delivery {received[0].delivery_count}: what amount is that?")
        else:
            received.ack()
            print(f"  {order!r}, delivery {received[0].delivery_count}: booked {amount}")


def main(servers: str) -> None:
    name = f"example/orders-{uuid.uuid4().hex[:8]}"
    dead = f"{name}.dead"  # would be made when first needed; here it is there from the beginning
    with tandemq.connect(servers) as client:
        client.create_queue(dead, QueueConfig(dead_letter_queue=""))
        client.create_queue(name, QueueConfig(max_deliveries=3))
        client.enqueue(name, [b"order 10", b"order 20", b"order ten"])
        print("a consumer of orders:")
        consume(client, name, 5, int)

        letters = client.dequeue(dead, wait=WAIT)
        for letter in letters:
            found = letter.properties
            print(f"dead letter {letter.payload.decode()!r}: {found['tq_dead_letter_reason']}")
            print(
                f"  from {str(found['tq_origin_queue']).partition('-')[0]}, after {found['tq_deliveries']} deliveries"
            )
        letters.release()

        print("the consumer learns to read, and dead letters go back:")
        print(f"  {client.redrive_queue(dead).moved} redriven")
        consume(client, name, 1, lambda amount: {"ten": 10}.get(amount) or int(amount))

        client.enqueue(name, [b"order ?"])
        client.dequeue(name, wait=WAIT).reject("no amount")
        [letter] = client.dequeue(dead, wait=WAIT)
        found = letter.properties
        print(f"dead letter {letter.payload.decode()!r}: {found['tq_dead_letter_reason']}, {found['tq_reject_reason']}")
        client.delete_queue(name)
        client.delete_queue(dead)


if __name__ == "__main__":
    addresses = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("TANDEMQ_TARGET", "")
    if not addresses:
        sys.exit("usage: dead_letter.py HOST:PORT[,HOST:PORT], or set TANDEMQ_TARGET")
    main(addresses)
