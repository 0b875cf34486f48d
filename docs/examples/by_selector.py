"""Receive and browse only what you want: by properties, by correlation id.

Run it against any manager: python docs/examples/by_selector.py 127.0.0.1:7600
"""

from __future__ import annotations

import os
import sys

import tandemq
from tandemq.client.outgoing import Attributes

server = sys.argv[1] if len(sys.argv) > 1 else os.environ["TANDEMQ_TARGET"]
with tandemq.connect(server) as client:
    client.create_queue("parcels")
    parcels = [
        tandemq.Outgoing(b"small", Attributes(properties={"weight": 1, "to": "Oslo"})),
        tandemq.Outgoing(b"large", Attributes(properties={"weight": 30, "to": "Oslo"})),
        tandemq.Outgoing(b"other", Attributes(properties={"weight": 30, "to": "Rome"}, correlation_id="order-7")),
    ]
    client.enqueue("parcels", parcels)

    heavy = client.dequeue("parcels", 10, where="weight > 10 AND to = 'Oslo'")
    print("heavy, to Oslo:", [message.payload for message in heavy])
    heavy.ack()

    found = list(client.browse("parcels", where=tandemq.Where(correlation_id="order-7")))
    print("of order 7:", [message.payload for message in found])

    try:
        client.dequeue("parcels", where="weight >")
    except tandemq.TandemqError as error:
        print(error)

    client.delete_queue("parcels")
