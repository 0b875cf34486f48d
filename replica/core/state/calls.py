"""What clients ask of a domain: calls that wait for an answer, and consumers with credit. Values; decides nothing."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple, Protocol

from replica.machine import (
    AckBatchCall,
    AdvanceCall,
    AliasCall,
    BatchCall,
    DefaultsCall,
    DeleteWeightsCall,
    ForgetCall,
    MacroCall,
    ProxyCall,
    PublishWeightsCall,
    QueueCall,
    RegisterCall,
    ReplyCall,
    RightCall,
    SettleCall,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.core.selection.selecting import Matcher
    from replica.core.state.outcomes import Answer, FarLease, LeaseDone
    from replica.machine import Columns, EnqueueCall, PublishCall, StageCall, UnitCall
    from tandemq.v1.message_pb2 import Message
    from tandemq.v1.queue_service_pb2 import Settlement


class Waiter(Protocol):
    """Whoever waits for an answer; the shell knows what is behind it. The core reads `cancelled` and calls nothing."""

    cancelled: bool

    def answer(self, result: Answer) -> None:
        """For the shell: the answer is here."""


class Taker(Waiter, Protocol):
    """A consumer's stream: may be handed messages again and again."""

    def deliver(self, done: LeaseDone | FarLease) -> None:
        """For the shell: messages are here."""


@dataclass(slots=True, eq=False)
class PendingEnqueue:
    """One batch for one queue, from a Produce stream (client id and sequence) or a unary call (request id)."""

    waiter: Waiter | None
    """None: it came from the peer, which answers its own client."""
    call: EnqueueCall
    """One with `left_out` is never parked or held: whoever made it begins again at the next master."""
    batch: bytes
    """Serialized EnqueueBatch, as it arrived."""
    min_copies: int = 0
    park_ms: int = 0
    """How long it is parked at a time, at most, before it is answered NO_MASTER; 0: as long as it takes."""
    parked_until_ms: int = 0
    """Monotonic; 0: not parked, or for as long as it takes."""
    full_until_ms: int = 0
    """By this member's clock (`Orders.now_ms`): until then it may wait for room in a full queue; 0: not at all."""
    named: bool = False
    """Held at the replica, and named by the master's record: that record was made from this call and no other one."""
    batch_crc: int | None = None
    """CRC32C of `batch`, where whoever received it has computed it."""

    @property
    def key(self) -> tuple[bytes, str, int]:
        """Names it on both members."""
        call = self.call
        return (call.request_id or call.client_id, call.queue, call.first_sequence)

    def park(self, until_ms: int = 0) -> None:
        """It waits for a master until then; 0: that is not counted yet."""
        self.parked_until_ms = until_ms

    def wait_for_room(self, until_ms: int) -> None:
        """By this member's clock."""
        self.full_until_ms = until_ms

    def on_named(self) -> None:
        """The master's record was made from it."""
        self.named = True


class SendReply(NamedTuple):
    """An answer to one request."""

    call: ReplyCall
    body: bytes
    """Serialized tandemq.v1.Message."""


class Transact(NamedTuple):
    """A unit of work, whole."""

    call: UnitCall
    body: bytes
    """Serialized EnqueueBatch with the messages of all its puts, in order, and its answers."""
    min_copies: int


class BeginUnit(NamedTuple):
    """Open a unit of work."""

    client_id: bytes
    timeout_ms: int
    who: str = ""
    """The principal whose it is."""


class PutInUnit(NamedTuple):
    """Messages for one queue, kept until the commit."""

    unit_id: bytes
    queue: str
    request_id: bytes
    request_hash: int
    columns: Columns
    request: bytes
    """Serialized EnqueueRequest, as it arrived."""
    member: str


class SettleInUnit(NamedTuple):
    """Settlements in one queue, done by the commit."""

    unit_id: bytes
    queue: str
    request_id: bytes
    request_hash: int
    settlements: Sequence[Settlement]


class ReplyInUnit(NamedTuple):
    """The answer to a request, given by the commit."""

    call: ReplyCall
    answer: bytes
    """Serialized tandemq.v1.Message."""

    @property
    def unit_id(self) -> bytes:
        return self.call.unit


class CommitUnit(NamedTuple):
    """Do all that a unit has, or say what came of it."""

    unit_id: bytes
    changes: int
    """Of the unit, when `columns` and `body` were made of its puts; -1: it was not open."""
    columns: Columns | None
    body: bytes
    """Serialized EnqueueBatch with the messages of all its puts, queue by queue, and its answers."""
    min_copies: int
    member: str
    rows: Sequence[Message] = ()
    """Of the body, where the unit has reactions: theirs are put between the puts and the answers."""
    digest: int = 0
    """Of the puts that came with it; 0: none, or it is not known."""


class RollbackUnit(NamedTuple):
    """Give back what a unit got, and forget the rest."""

    unit_id: bytes


OpenUnitCall = BeginUnit | PutInUnit | SettleInUnit | ReplyInUnit | CommitUnit | RollbackUnit
"""About units of work that are open."""


class ReadWeights(NamedTuple):
    """Look at routing weights; what is seen is answered when it is on every copy. Orders nothing."""

    table: str | None
    """None: all of them, without their weights."""


class ReadMacros(NamedTuple):
    """Look at macro queues; what is seen is answered when it is on every copy. Orders nothing."""

    name: str | None
    """None: a page of all of them."""
    after: str = ""
    """A page begins behind that name."""
    most: int = 1
    """Macro queues of a page."""


class StageRows(NamedTuple):
    """Keep a part aside."""

    part: StageCall
    body: bytes
    """Serialized EnqueueBatch."""


class Publish(NamedTuple):
    """Decide a batch, or find that it was decided before; answered when it is in its queues."""

    batch: PublishCall
    min_copies: int


class Unstage(NamedTuple):
    """Drop stages that nobody will publish."""

    stage_ids: Sequence[bytes]


class ReleaseWriter(NamedTuple):
    """Forget a writer."""

    writer: str


class AwaitOrdered(NamedTuple):
    """Answered when all that is ordered is committed: what is asked then is true on every copy."""


SideCall = (
    AliasCall
    | DefaultsCall
    | RegisterCall
    | AdvanceCall
    | ForgetCall
    | BatchCall
    | AckBatchCall
    | PublishWeightsCall
    | DeleteWeightsCall
    | MacroCall
    | ProxyCall
    | RightCall
)
"""About what stands beside the queues and their messages: at most one record."""
StagingCall = StageRows | Publish | Unstage | ReleaseWriter | AwaitOrdered
"""About staged rows and their writers."""


ReadCall = ReadWeights | ReadMacros
"""Of what stands beside the queues: no record."""
AnyCall = SettleCall | SendReply | Transact | OpenUnitCall | QueueCall | StagingCall | SideCall | ReadCall


@dataclass(slots=True, eq=False)
class PendingCall:
    """A call that somebody waits for; of a batch see PendingEnqueue."""

    waiter: Waiter
    call: AnyCall


@dataclass(slots=True, eq=False)
class Consumer:
    """Somebody with credit for one queue: a Consume stream, or one Dequeue call."""

    waiter: Taker
    queue: str
    client_id: bytes
    duration_ms: int
    """Lease duration; 0: the queue's."""
    immediate: bool | None = False
    """None: as the queue's default_settle says; settled when it attaches."""
    credit_messages: int = 0
    credit_bytes: int = 0
    one_shot: bool = False
    """A Dequeue: leaves after its first delivery."""
    request_id: bytes = b""
    request_hash: int = 0
    member: str = ""
    queue_id: int = 0
    number: int = 0
    """In the order of arrival."""
    attached: bool = field(default=False)
    wanted: Matcher | None = None
    """Only what it finds; None: everything."""
    unit: bytes = b""
    """The open unit of work that it gets them for."""
    connection: str = ""
    """Of its stream, as the member sees it; where that matters."""
    took: int = 0
    """Messages of its last delivery by another manager: as many as it may want next."""

    def attach(self, number: int, *, immediate: bool) -> None:
        """It waits in its queue's turn, in the order of arrival."""
        self.number, self.immediate, self.attached = number, immediate, True

    def resolve(self, queue: str) -> None:
        """The queue's own name, where it was called by an alias."""
        self.queue = queue

    def enter(self, queue_id: int) -> None:
        """It is let into that queue."""
        self.queue_id = queue_id

    def come_over(self, connection: str) -> None:
        """Whether another stream is of the same process may matter."""
        self.connection = connection

    def take_place_of(self, other: Consumer) -> None:
        """An older stream of the same client."""
        self.number = other.number

    def detach(self) -> None:
        """It is handed nothing more."""
        self.attached = False

    def charge(self, messages: int) -> None:
        """They are on their way to it."""
        self.credit_messages -= messages

    def took_from_afar(self, messages: int) -> None:
        """They are leased for it at another manager."""
        self.took = messages


Call = PendingEnqueue | PendingCall
