"""The blocking client: the asyncio client on one background thread, with the same calls. It decides nothing.

with tandemq.connect("host:7600,host:7610") as client:
    with client.producer("orders") as producer:
        receipt = producer.send(b"...")
    for delivery in client.consumer("orders"):
        delivery.ack()
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from tandemq.client import aio
from tandemq.client.blocking_generated import Client
from tandemq.client.blocking_results import Handle, ReceivedBatch
from tandemq.client.blocking_streams import Consumer, Producer
from tandemq.finding.resolver import Resolver
from tandemq.finding.target import Target

__all__ = ["Client", "Consumer", "Handle", "Producer", "ReceivedBatch", "connect"]


def connect(
    target: str | Sequence[str] | Target | None = None,
    *,
    timeout: float = aio.TIMEOUT_S,
    attempt_timeout: float = 5.0,
    follow_master: bool = True,
    resolvers: Sequence[Resolver] = (),
    credentials: str | os.PathLike[str] | None = None,
) -> Client:
    """A blocking client; the arguments are those of tandemq.aio.connect. Close it, or use it in a `with` block."""
    inner = aio.connect(
        target,
        timeout=timeout,
        attempt_timeout=attempt_timeout,
        follow_master=follow_master,
        resolvers=resolvers,
        credentials=credentials,
    )
    return Client(inner)
