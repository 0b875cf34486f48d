"""The four types of queue: what a sender is told of his message, and when.

Run it against a pair or a single manager:  python four_types.py HOST:PORT[,HOST:PORT]
(or set TANDEMQ_TARGET; the default is 127.0.0.1:7600).
"""

from __future__ import annotations

import os
import sys
import threading
from datetime import timedelta

import tandemq
from tandemq.v1 import queue_admin_service_pb2 as admin

SERVER = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("TANDEMQ_TARGET", "127.0.0.1:7600")
WAIT = timedelta(seconds=10)


def make(client: tandemq.Client, name: str, kind: str) -> str:
    queue = f"examples/{name}-{os.urandom(4).hex()}"
    client.create_queue(queue, admin.QueueConfig(queue_type=admin.QueueType.Value(f"QUEUE_TYPE_{kind}")))
    return queue


def one_way(client: tandemq.Client) -> None:
    """The member that took the message answers at once; nobody waits for the pair."""
    queue = make(client, "one-way", "ONE_WAY")
    handle = client.send(queue, b"a line of a log")
    print(f"ONE_WAY: {handle.completion.reached.name}, index {handle.index}")
    client.dequeue(queue, wait=WAIT).ack()


def one_way_queued_ack(client: tandemq.Client) -> None:
    """The answer says that the message is stored, on both members of a pair: the default."""
    queue = make(client, "queued", "ONE_WAY_QUEUED_ACK")
    handle = client.send(queue, b"an order")
    print(f"ONE_WAY_QUEUED_ACK: {handle.completion.reached.name}, index {handle.index}")
    client.dequeue(queue, wait=WAIT).ack()


def one_way_ack(client: tandemq.Client) -> None:
    """The handle completes when a consumer has acknowledged the message. It is 16 bytes, and survives a failover."""
    queue = make(client, "ack", "ONE_WAY_ACK")
    told = threading.Event()
    handle = client.send(queue, b"an alarm", on_completion=lambda _handle, _completion: told.set())
    kept = handle.value  # write it down: any client may ask with it
    print(f"ONE_WAY_ACK: {handle.check().reached.name} at first")
    client.dequeue(queue, wait=WAIT).ack()
    completion = client.handle(queue, kept).wait(10)
    print(f"ONE_WAY_ACK: {completion.reached.name}, ended as {completion.final.name}")
    print(f"ONE_WAY_ACK: called back: {told.wait(10)}")

    rejected = client.send(queue, b"nonsense")
    client.dequeue(queue, wait=WAIT).reject("not understood")
    print(f"ONE_WAY_ACK: rejected, the sender is told: {rejected.wait(10).succeeded}")


def two_way(client: tandemq.Client) -> None:
    """Every message is answered; acknowledging and answering are one step."""
    queue = make(client, "two-way", "TWO_WAY")

    def serve() -> None:
        with client.consumer(queue) as consumer:
            for request in consumer:
                if request.payload == b"stop":
                    consumer.reply(request, b"bye")
                    return
                request.reply(request.payload.upper(), content_type="text/plain")

    server = threading.Thread(target=serve)
    server.start()
    answer = client.call(queue, b"hello", timeout=10)
    print(f"TWO_WAY: {answer.payload.decode()} ({answer.attributes['content_type']})")
    handles = [client.send(queue, text.encode()) for text in ("one", "two", "three")]
    answers = [found.reply.payload.decode() for found in client.completions(queue, handles) if found.reply]
    print(f"TWO_WAY: {', '.join(sorted(answers))}")
    print(f"TWO_WAY: {client.call(queue, b'stop', timeout=10).payload.decode()}")
    server.join()


with tandemq.connect(SERVER) as client:
    one_way(client)
    one_way_queued_ack(client)
    one_way_ack(client)
    two_way(client)
