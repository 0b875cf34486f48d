"""What the guard counts: which work, in batches of which shape, and in which process of the pair.

Three shapes, so that each kind of cost has one that shows it: many small messages a batch (what is done for each
message), few large ones (what is done for each byte: copies, checksums), and one message alone (what a batch costs).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import Any

from bench.guard.pair import ROLES, Pair
from storage.disk import open_disk
from storage.records import assemble, build_head, split, verify
from storage.store import Append, WriteBatch
from tandemq import aio
from tandemq.v1.queue_admin_service_pb2 import QueueConfig

Toggle = Callable[[], object]
"""Called when what is counted begins, and when it ends."""
ZERO = bytes(16)


@dataclass(frozen=True, slots=True)
class Shape:
    """How batches look, and how many are counted."""

    messages: int
    size: int
    batches: int

    def payloads(self) -> list[bytes]:
        """Any byte may be in them: what looks at payloads must not find zeros alone. Made once, before it counts."""
        return _payloads(self.messages, self.size)


@cache
def _payloads(count: int, size: int) -> list[bytes]:
    return [b"%08d" % number + Random(number).randbytes(size - 8) for number in range(count)]


SHAPES = {"small": Shape(1000, 100, 3), "large": Shape(16, 16 << 10, 3), "single": Shape(1, 1024, 8)}


@dataclass(frozen=True, slots=True)
class Workload:
    """One figure of the guard."""

    kind: str
    shape: str
    role: str

    @property
    def name(self) -> str:
        return f"{self.kind} {self.shape}: {self.role}"


KINDS = ("enqueue", "receive")
ALL = (
    *(Workload(kind, shape, role) for kind in KINDS for shape in SHAPES for role in ROLES),
    *(Workload(kind, shape, "store") for kind in ("record", "commit") for shape in SHAPES),
)


class Runner:
    """Carries workloads out on one pair; every figure begins with the same number of messages queued: none."""

    def __init__(self, pair: Pair) -> None:
        self._pair = pair
        self._client = pair.client()
        self._producers: dict[str, aio.Producer] = {}
        self._log_index = 0
        self._store = open_disk(pair.directory / "alone", pair="", member="alone", map_bytes=1 << 30)

    def close(self) -> None:
        self._store.close()

    def prepare(self, shapes: set[str]) -> None:
        """Queues and producers; each way is gone once, so that nothing is made for the first time while it counts."""
        for shape in sorted(shapes):
            self._pair.do(self._open(shape))
            for kind in KINDS:
                self._run(Workload(kind, shape, "client"), None)
            self._alone(Workload("record", shape, "store"))
            self._alone(Workload("commit", shape, "store"))

    async def _open(self, shape: str) -> None:
        given = SHAPES[shape]
        await self._client.create_queue(shape, QueueConfig(max_bytes=1 << 40))
        self._producers[shape] = self._client.producer(
            shape, max_batch_messages=given.messages, max_unanswered_batches=4
        )

    def count(self, workload: Workload, toggle: Toggle) -> None:
        """Carries it out, whatever else must be done for that left out."""
        if workload.role == "store":
            work = self._work_alone(workload)
            toggle()
            work()
            toggle()
        else:
            self._run(workload, toggle)

    def _run(self, workload: Workload, toggle: Toggle | None) -> None:
        do = self._pair.do
        counted: dict[str, Any] = {"role": workload.role, "toggle": toggle}
        sending, receiving = self._send(workload.shape), self._receive(workload.shape)
        do(sending, **(counted if workload.kind == "enqueue" else {}))
        do(receiving, **(counted if workload.kind == "receive" else {}))

    async def _send(self, shape: str) -> None:
        """Pipelined; a single message waits for the answer to the one before."""
        given, producer = SHAPES[shape], self._producers[shape]
        payloads = given.payloads()
        if given.messages > 1:
            receipts = await producer.send_many(payloads * given.batches)
            assert len(receipts) == given.messages * given.batches
            return
        for _ in range(given.batches):
            await producer.send(payloads[0])

    async def _receive(self, shape: str) -> None:
        """All of it, acknowledged batch by batch and confirmed."""
        given = SHAPES[shape]
        left = given.messages * given.batches
        consumer = self._client.consumer(shape, credit_messages=2 * given.messages)
        async for batch in consumer.batches():
            left -= len(batch.payloads)
            batch.ack()
            if not left:
                break
        await consumer.settled()
        assert not consumer.lost
        await consumer.close()

    # -- the store alone -------------------------------------------------------------------------------------------

    def _alone(self, workload: Workload) -> None:
        self._work_alone(workload)()

    def _work_alone(self, workload: Workload) -> Callable[[], None]:
        given = SHAPES[workload.shape]
        body = b"".join(given.payloads())
        if workload.kind == "record":
            return lambda: [_record(body, number + 1) for number in range(given.batches)] and None
        batches = []
        for _ in range(given.batches):
            self._log_index += 1
            head, _ = build_head(
                flags=0, domain=7, epoch=1, log_index=self._log_index, header=b"h" * 40, body=body, previous_digest=ZERO
            )
            batches.append(WriteBatch(appends=[Append(7, self._log_index, assemble(head, body))]))
        return lambda: [self._store.commit(batch) for batch in batches] and None


def _record(body: bytes, log_index: int) -> None:
    """Made, proven and taken apart, as master and replica do."""
    head, _ = build_head(
        flags=0, domain=7, epoch=1, log_index=log_index, header=b"h" * 40, body=body, previous_digest=ZERO
    )
    record = assemble(head, body)
    verify(record, previous_digest=ZERO)
    split(record)
