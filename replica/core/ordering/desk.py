"""What the parts of the ordering know of the whole: how a record is ordered and a call answered. Decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence, Sized

    from replica.core.ordering.divergences import Divergences
    from replica.core.ordering.steering import Steering
    from replica.core.state.calls import PendingEnqueue, Waiter
    from replica.core.state.outcomes import Answer
    from replica.core.state.shared import Shared
    from replica.machine import Machine, Narrower
    from tandemq.peer.v1.record_pb2 import EnqueueOp, RecordHeader, ReplyOp


class Deliveries(Protocol):
    """Who waits for messages."""

    def pump(self, queue_ids: Iterable[int], /) -> None:
        """These queues may have something for consumers."""

    def lease_ahead(self, op: EnqueueOp, log_index: int, /) -> None:
        """These messages are ordered by that record, the last one: who waits for them may be leased them behind it."""

    def on_queue(self, queue_id: int, /) -> None:
        """Its attributes or its state have changed."""

    def on_macro(self, name: str, /) -> None:
        """A macro queue has other members now, or is gone."""


class Endings(Protocol):
    """Who waits to hear how messages end."""

    @property
    def asked(self) -> Sized:
        """Empty: nobody does, and nothing is reported."""

    def on_applied(self, queue_ids: Sequence[int], /) -> None:
        """A record was ordered: messages of these queues may have ended by it."""


class Depths(Protocol):
    """Who is notified when messages gather in queues."""

    @property
    def watched(self) -> Sized:
        """Empty: nobody is, and nothing is reported."""

    def on_applied(self, queue_ids: Sequence[int], /) -> None:
        """A record about these queues was ordered."""

    def look(self) -> None:
        """The commit index has moved, and consumers have been served."""


class Parking(Protocol):
    """Where calls wait for a master."""

    def repark(self, pending: PendingEnqueue, /) -> None:
        """One that was ordered here and not committed."""


class Answering(Protocol):
    """Who orders answers to requests."""

    def address(self, op: ReplyOp, /) -> None:
        """Before it is ordered: where a copy of the answer is to go."""

    def on_ordered(self, op: ReplyOp, /) -> None:
        """It is in the log: a copy may be owed."""


class Unasked(Protocol):
    """What kept reactions have not looked at yet."""

    def on_ordered(self, header: RecordHeader, queue_ids: Sequence[int], /) -> None:
        """A record was ordered, and something is kept for a queue of the domain."""

    def on_kept(self, queue_id: int, bound: int, /) -> None:
        """A reaction is kept since the last record; it has looked at all up to that index."""

    def past(self, queue_id: int, wanted: Narrower | None, /) -> Narrower | None:
        """What consumers of that queue may be given: nothing that a kept reaction has not been asked about."""


class OrderParts(Protocol):
    """The domain, as far as the ordering reports to the other parts of it; they are built after it, as they need it."""

    @property
    def consumers(self) -> Deliveries: ...

    @property
    def completing(self) -> Endings: ...

    @property
    def watching(self) -> Depths: ...

    @property
    def holding(self) -> Parking: ...

    @property
    def kept(self) -> Unasked: ...


class Desk(Protocol):
    """The orders of one domain, as `replica.core.ordering.orders` keeps them."""

    shared: Shared
    now_ms: int
    """By this member's clock."""
    room_bytes: int
    """What may still be taken of the store."""
    is_full: bool
    touched: Sequence[int]
    """Queues that the last record was about."""
    parts: OrderParts
    steering: Steering
    divergences: Divergences

    @property
    def replying(self) -> Answering: ...

    @property
    def machine(self) -> Machine:
        """The queues' state; never asked for while it is being rebuilt."""

    @property
    def time_ms(self) -> int:
        """The domain's time."""

    @property
    def copies(self) -> int:
        """Members that hold what is committed now."""

    def order(
        self,
        header: RecordHeader,
        body: bytes = b"",
        *,
        volatile_body: bool = False,
        bodies: Sequence[tuple[int, bytes]] = (),
    ) -> int:
        """Append a record, apply it, have it written and sent; returns its log index."""

    def when_committed(self, log_index: int, answer: Callable[[], None], on_lost: Callable[[], None]) -> None:
        """Run `answer` once the record is committed, at once if it is; `on_lost` when another member orders first."""

    def reply(self, waiter: Waiter | None, result: Answer) -> None:
        """Answer whoever waits."""

    def moved(self, waiter: Waiter | None) -> Callable[[], None]:
        """Tells whoever waits that another member orders now."""

    def check_space(self, size: int, *, all_volatile: bool) -> None:
        """Refuse what the store, or the memory of volatile messages, has no place for."""
