"""Another name for a queue: programs go on using it while the queue behind it is exchanged.

python docs/examples/alias.py 127.0.0.1:7600,127.0.0.1:7610
"""

import os
import sys
import uuid

import tandemq
from tandemq.errors import TandemqError


def main(servers: str) -> None:
    folder = f"example/alias-{uuid.uuid4().hex[:8]}"
    today, tomorrow, orders = f"{folder}/2026-11-22", f"{folder}/2026-11-23", f"{folder}/orders"
    with tandemq.connect(servers) as client:
        client.create_queue(today)
        print("other names:", [name.removeprefix(folder) for name in client.create_alias(orders, today).aliases])

        client.enqueue(orders, [b"sent by the alias"])
        received = client.dequeue(today)
        print("received by the queue's own name:", received[0].payload.decode())
        received.ack()
        print("the queue's name, asked by the alias:", client.get_queue(orders).name.removeprefix(folder))

        try:
            client.create_queue(orders)  # names and aliases share one table
        except TandemqError as error:
            print("a queue of that name:", error.reason)

        client.create_queue(tomorrow)
        client.delete_alias(orders)  # the queue and its messages stay
        client.create_alias(orders, tomorrow)
        client.enqueue(orders, [b"a new day"])
        print("the alias leads to", client.get_queue(orders).name.removeprefix(folder))
        for name in (today, tomorrow):
            print(f"{name.removeprefix(folder)} holds {client.get_queue(name).length}")

        client.delete_queue(tomorrow)
        try:
            client.get_queue(orders)
        except TandemqError as error:
            print("the alias went with its queue:", error.reason)
        client.delete_queue(today)


if __name__ == "__main__":
    addresses = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("TANDEMQ_TARGET", "")
    if not addresses:
        sys.exit("usage: alias.py HOST:PORT[,HOST:PORT], or set TANDEMQ_TARGET")
    main(addresses)
