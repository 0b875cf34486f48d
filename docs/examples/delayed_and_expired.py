"""A message that is delivered later than it was sent, and one that is worth nothing after its time.

    python docs/examples/delayed_and_expired.py 127.0.0.1:7600,127.0.0.1:7610

The master decides both, by its own clock: no client's clock takes part, and a takeover changes nothing.
"""

import os
import sys
import uuid
from datetime import timedelta

import tandemq
from tandemq.client.outgoing import Attributes

LONG = timedelta(seconds=30)


def main(servers: str) -> None:
    queue = f"example/timed-{uuid.uuid4().hex[:8]}"
    with tandemq.connect(servers) as client:
        client.create_queue(queue)

        later = tandemq.Outgoing(b"remind me", Attributes(delay=timedelta(seconds=3)))
        client.enqueue(queue, [later, b"do it now"])
        print(f"in the queue: {client.get_queue(queue).length}, of them delayed: {client.get_queue(queue).delayed}")
        both = client.dequeue(queue, 2)
        print("received at once:", [message.payload.decode() for message in both])
        both.ack()
        late = client.dequeue(queue, 2, wait=LONG)  # waits until there is something to receive
        print("received later:", [message.payload.decode() for message in late])
        late.ack()

        client.enqueue(queue, [tandemq.Outgoing(b"fresh milk", Attributes(ttl=timedelta(milliseconds=200)))])
        while client.get_queue(queue).length:  # nobody wants it
            pass
        print("received after its time:", [message.payload.decode() for message in client.dequeue(queue)])
        print("expired:", client.get_queue(queue).expired_total)

        # The time to live counts from sending, also for a message that waits to be delivered.
        hopeless = Attributes(ttl=timedelta(milliseconds=200), delay=timedelta(hours=1))
        client.enqueue(queue, [tandemq.Outgoing(b"never seen", hopeless)])
        while client.get_queue(queue).length:
            pass
        print("expired:", client.get_queue(queue).expired_total)
        client.delete_queue(queue)


if __name__ == "__main__":
    addresses = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("TANDEMQ_TARGET", "")
    if not addresses:
        sys.exit("usage: delayed_and_expired.py HOST:PORT[,HOST:PORT], or set TANDEMQ_TARGET")
    main(addresses)
