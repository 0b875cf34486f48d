"""What clients ask of a domain: calls that wait for an answer, and consumers with credit. Values; decides nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.effects import Answer, LeaseDone
    from replica.machine import Columns
    from tandemq.peer.v1.record_pb2 import QueueAction
    from tandemq.v1.queue_admin_service_pb2 import QueueConfig
    from tandemq.v1.queue_service_pb2 import Settlement


class Waiter(Protocol):
    """Whoever waits for an answer; the shell knows what is behind it. The core reads `cancelled` and calls nothing."""

    cancelled: bool

    def answer(self, result: Answer) -> None:
        """For the shell: the answer is here."""


class Taker(Waiter, Protocol):
    """A consumer's stream: may be handed messages again and again."""

    def deliver(self, done: LeaseDone) -> None:
        """For the shell: messages are here."""


@dataclass(slots=True, eq=False)
class EnqueueCall:
    """One batch for one queue, from a Produce stream (client id and sequence) or a unary call (request id)."""

    waiter: Waiter | None
    """None: it came from the peer, which answers its own client."""
    queue: str
    client_id: bytes
    first_sequence: int
    columns: Columns
    batch: bytes
    """Serialized EnqueueBatch, as it arrived."""
    request_id: bytes = b""
    request_hash: int = 0
    min_copies: int = 0
    member: str = ""
    """Member that the client is attached to."""
    deadline_ms: int = 0
    """Monotonic; 0 = none. A parked call is answered NO_MASTER when it passes."""

    @property
    def key(self) -> tuple[bytes, str, int]:
        """Names it on both members."""
        return (self.request_id or self.client_id, self.queue, self.first_sequence)


@dataclass(slots=True, eq=False)
class SettleCall:
    """Settlements of one queue."""

    waiter: Waiter
    queue: str
    settlements: Sequence[Settlement]
    request_id: bytes = b""
    request_hash: int = 0
    deadline_ms: int = 0


@dataclass(slots=True, eq=False)
class QueueCall:
    """An administrator's action on a queue."""

    waiter: Waiter
    action: QueueAction
    queue: str
    config: QueueConfig | None = None
    mask: Sequence[str] = ()
    expected_version: int = 0
    member: str = ""
    members: Sequence[str] = ()
    open_members: Sequence[str] | None = None
    if_empty: bool = False
    request_id: bytes = b""
    request_hash: int = 0
    deadline_ms: int = 0


@dataclass(slots=True, eq=False)
class Consumer:
    """Somebody with credit for one queue: a Consume stream, or one Dequeue call."""

    waiter: Taker
    queue: str
    client_id: bytes
    duration_ms: int
    """Lease duration; 0: the queue's."""
    immediate: bool = False
    credit_messages: int = 0
    credit_bytes: int = 0
    one_shot: bool = False
    """A Dequeue: leaves after its first delivery."""
    request_id: bytes = b""
    request_hash: int = 0
    member: str = ""
    queue_id: int = 0
    attached: bool = field(default=False)


Call = EnqueueCall | SettleCall | QueueCall
