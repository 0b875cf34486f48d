"""Where two twins meet: queues of the pair in which each says what it is, asks the other one, and is given orders.

`SYSTEM.TWIN/<name>` has a digest of the state each n inputs, `.../log` who began and ended, and what differed,
`.../<member>` what the twin of that member is asked for. Nothing of it is on the way of an input.
"""

from __future__ import annotations

import contextlib
import json
import logging
import os
import socket
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from tandemq.client import aio
from tandemq.client.outgoing import Outgoing, Value
from tandemq.errors import AlreadyExists, NotFound, TandemqError
from tandemq.twin.digests import MARKS_KEPT, shown
from tandemq.twin.handling import Output
from tandemq.v1.queue_admin_service_pb2 import OVERFLOW_DROP_HEAD, QueueConfig, QueueInfo

PREFIX, LOG = "SYSTEM.TWIN/", "/log"
LOG_KEPT = 200
SNAPSHOT_BYTES_MAX = 4_000_000
"""Of one that goes through a queue: a batch of a manager, with room for the rest (K10)."""
ASKED_FOR = timedelta(minutes=1)
"""After which a question or an order that nobody took is gone."""
log = logging.getLogger("tandemq.twin")


def marks_queue(name: str) -> str:
    return PREFIX + name


def log_queue(name: str) -> str:
    return f"{PREFIX}{name}{LOG}"


def asked_queue(name: str, member: str) -> str:
    """What the twin of that member is asked."""
    return f"{PREFIX}{name}/{member}"


def mark(name: str, index: int, state: int) -> Output:
    """The digest of a state, sent as the last output of the input that it is behind."""
    return Output(marks_queue(name), b'{"index":%d,"state":"%s"}' % (index, shown(state).encode()))


@dataclass(frozen=True, slots=True)
class Asked:
    """What one twin, or an operator, asks another one."""

    what: str
    """stop, restart, snapshot, or given: a snapshot, or why there is none."""
    sender: str
    """A member; empty: an operator."""
    index: int
    """Of a snapshot that is asked for: at least so far."""
    body: bytes
    """A snapshot, or why."""


class Meeting:
    """As one twin sees it."""

    def __init__(self, client: aio.Client, name: str, member: str) -> None:
        self.client, self.name, self.member = client, name, member

    async def prepare(self, inputs: QueueInfo) -> None:
        """Makes what is not there."""
        await self._make(marks_queue(self.name), QueueConfig(overflow=OVERFLOW_DROP_HEAD, max_length=MARKS_KEPT))
        kept = QueueConfig(overflow=OVERFLOW_DROP_HEAD, max_length=LOG_KEPT, labels={"inputs": inputs.name})
        await self._make(log_queue(self.name), kept)
        for member in inputs.open_members:
            await self._make(asked_queue(self.name, member), QueueConfig())

    async def forget_orders(self) -> None:
        """To who was here before."""
        await self.client.purge_queue(asked_queue(self.name, self.member))

    async def _make(self, queue: str, config: QueueConfig) -> None:
        try:
            await self.client.create_queue(queue, config)
        except AlreadyExists:
            return

    async def note(self, what: str, **facts: str | int) -> None:
        """For whoever looks at the twins."""
        said = {"what": what, "member": self.member, "host": socket.gethostname(), "pid": os.getpid(), **facts}
        await self.client.enqueue(log_queue(self.name), [json.dumps(said).encode()])

    async def ask(self, member: str, what: str, *, index: int = 0, body: bytes = b"") -> None:
        """Of the twin of that member."""
        await ask(self.client, self.name, member, Asked(what, self.member, index, body))

    async def asked(self) -> AsyncIterator[Asked]:
        """What this twin is asked, as it comes."""
        async with self.client.consumer(asked_queue(self.name, self.member)) as consumer:
            async for delivery in consumer:
                found = delivery.properties
                index = found.get("index", 0)
                delivery.ack()
                await consumer.settled()
                yield Asked(
                    str(found.get("what", "")),
                    str(found.get("sender", "")),
                    index if isinstance(index, int) else 0,
                    delivery.payload,
                )


@contextlib.contextmanager
def only_logged(what: str) -> Iterator[None]:
    """What a twin says beside its work: where the pair does not hear it, the work goes on."""
    try:
        yield
    except TandemqError as error:
        log.warning("nobody hears %s: %s", what, error)


async def ask(client: aio.Client, name: str, member: str, asked: Asked) -> None:
    """Raises NotFound: there are no such twins, or no such member."""
    properties: dict[str, Value] = {"what": asked.what, "sender": asked.sender, "index": asked.index}
    message = Outgoing(asked.body, {"ttl": ASKED_FOR, "properties": properties})
    await client.enqueue(asked_queue(name, member), [message])


async def logged(client: aio.Client, name: str) -> list[dict[str, Any]]:
    """What the twins have said of themselves, the latest last; each entry has `what`, `member`, and `at`, a time."""
    browsed = client.browse(log_queue(name))
    return [{**json.loads(message.payload), "at": message.enqueue_time} async for message in browsed]


async def marks(client: aio.Client, name: str) -> dict[int, str]:
    """By input: the digest of the state behind it, as the twin that came first had it."""
    found: dict[int, str] = {}
    try:
        async for message in client.browse(marks_queue(name)):
            said = json.loads(message.payload)
            found[said["index"]] = said["state"]
    except NotFound:
        return {}
    return found


def latest(log: list[dict[str, Any]], what: str) -> dict[str, dict[str, Any]]:
    """By member: its last entry of that kind."""
    return {each["member"]: each for each in log if each["what"] == what}
