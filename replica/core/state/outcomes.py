"""What a call came to: what was done, why it was not, or that it is not known. Values; decides nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from replica.core.state.far_runs import count_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.core.state.far_runs import FarRun
    from replica.machine import MessageProgress, Placed, SegmentSlice, ShownMacro, TableAsOf
    from replica.machine.plan.unit_identity import RepeatedNumber
    from replica.machine.state.errors import Unseen
    from tandemq.peer.v1.record_pb2 import ReactionCounts
    from tandemq.v1.common_pb2 import Reason
    from tandemq.v1.queue_admin_service_pb2 import LeftBehind
    from tandemq.v1.queue_service_pb2 import SettleResult


class EnteredMember(NamedTuple):
    """Messages of a batch that have entered one member of a macro queue."""

    queue: str
    """Empty: it is gone."""
    queue_id: int
    first_index: int
    ordinals: Sequence[int]
    """Their places in the batch, rising; the indexes are dense."""
    handles: bytes
    """As in EnqueueDone."""


class EnqueueDone(NamedTuple):
    """An enqueue was executed, now or earlier."""

    first_sequence: int
    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here
    first_index: int
    log_index: int
    epoch: int
    copies: int
    duplicate: bool
    refusals: Sequence[tuple[int, int]]
    """(ordinal, reason)."""
    downgraded: bool
    volatile: bool
    queue_id: int = 0
    handles: bytes = b""
    """First half of the messages' handles, where the queue's type completes later than STORED."""
    doubles: Sequence[tuple[int, int]] = ()
    """(ordinal, index of the message that had its dedup id first)."""
    member_queue: str = ""
    """The queue that it entered, where it was sent to a macro queue."""
    members: Sequence[EnteredMember] = ()
    """The queues that it entered, where a macro queue has dealt it to several; no index of the batch's own then."""


class UnitDone(NamedTuple):
    """A unit of work was executed, now or earlier."""

    puts: Sequence[EnqueueDone]
    """One a queue, in the order of the call; empty where the unit is known by its number alone."""
    epoch: int
    """Of its record."""
    copies: int
    duplicate: bool
    volatile: bool
    """No message of it is persistent."""
    repeated: RepeatedNumber | None = None
    """Its number was used before, and by what."""
    names: Sequence[str] = ()
    """Of an open unit: the queues of `puts`."""


class UnitBegun(NamedTuple):
    """A unit of work is open."""

    unit_id: bytes
    timeout_ms: int


class UnitKept(NamedTuple):
    """A put or a settlement belongs to the unit from now on, or did before."""

    duplicate: bool


class UnitEnded(NamedTuple):
    """A unit was rolled back, now or before."""

    returned: int


class ReactionDone(NamedTuple):
    """A reaction was carried out, now or earlier."""

    counts: ReactionCounts
    """At its queue, the first one where there are several."""
    epoch: int
    """Of its record."""
    copies: int
    duplicate: bool
    others: tuple[ReactionCounts, ...] = ()
    """At the other queues, in the order of the call."""
    held: int = 0
    """Messages that it has locked for its unit of work, whose commit acts on them."""


class LeaseDone(NamedTuple):
    """Messages for a consumer; bodies are read by the shell."""

    queue_id: int
    queue: str
    lease_id: int
    slices: Sequence[SegmentSlice]
    duplicate: bool
    member_queue: str = ""
    """The queue that gave them, where a macro queue was asked."""


class FarLease(NamedTuple):
    """Messages of a queue of another manager, a member of a macro queue, for a consumer here."""

    macro_id: int
    proxy_id: int
    queue: str
    """The proxy of that queue."""
    lease_id: int
    """As it is delivered here (`tandemq.far_leases`)."""
    runs: Sequence[FarRun]
    """As that manager gave them."""
    duplicate: bool = False

    @property
    def size(self) -> int:
        """Messages."""
        return count_of(self.runs)


class SettleDone(NamedTuple):
    """Results of a settle call."""

    results: Sequence[SettleResult]
    duplicate: bool


class ReplyDone(NamedTuple):
    """An answer was taken, now or earlier."""

    duplicate: bool


class ProgressDone(NamedTuple):
    """How far messages have come; the shell reads the answers to requests."""

    handles: Sequence[bytes]
    progress: Sequence[MessageProgress]
    """One a handle."""


class Met(NamedTuple):
    """A queue has as many messages as somebody watches for."""

    place: int
    """Among the thresholds of the watch."""
    depth: int
    """What the queue has now."""


class DepthsMet(NamedTuple):
    """To whoever watches queues, again and again."""

    met: Sequence[Met]
    at_opening: bool = False
    """The first one: the watch is open, and this much was met by then."""


class QueueDone(NamedTuple):
    """A queue was created, changed or removed."""

    queue: str
    removed: int
    duplicate: bool


class MacrosDone(NamedTuple):
    """What was seen of macro queues is on every copy."""

    macros: Sequence[ShownMacro]
    following: str = ""
    """Of a page: the next one begins behind that name; empty: there is none."""


class WeightsDone(NamedTuple):
    """What was seen of routing weights is on every copy."""

    tables: Sequence[TableAsOf]


class SweepDone(NamedTuple):
    """What a sweep has done up to here is committed."""

    over: bool
    """It is the answer to the call; else one turn is done."""
    done: int = 0
    """Messages moved or removed."""
    leased: int = 0
    behind: Sequence[LeftBehind] = ()
    duplicate: bool = False


class StageDone(NamedTuple):
    """A part is kept aside, now or earlier; of its whole stage."""

    rows: int
    payload_bytes: int
    expires_at_ms: int
    duplicate: bool


class PublishDone(NamedTuple):
    """A batch is in its queues, now or earlier."""

    placed: Sequence[Placed]
    """Empty: it was not the last one of its writer."""
    duplicate: bool


class UnstageDone(NamedTuple):
    """Stages were dropped, or a writer was forgotten."""

    count: int  # type: ignore[assignment]  # hides tuple.count, which nobody needs here


class Failed(NamedTuple):
    """The call was refused; nothing was done."""

    reason: Reason
    message: str
    metadata: dict[str, str]
    retry_after_ms: int | None = None
    unseen: Unseen | None = None
    """As `Refused` has it."""


class Moved(NamedTuple):
    """The mastership went away while the call was under way: unknown outcome; repeat it with the same identity."""

    message: str


StagingDone = StageDone | PublishDone | UnstageDone
Answer = (
    EnqueueDone
    | UnitDone
    | ReactionDone
    | UnitBegun
    | UnitKept
    | UnitEnded
    | LeaseDone
    | FarLease
    | SettleDone
    | ReplyDone
    | ProgressDone
    | DepthsMet
    | QueueDone
    | WeightsDone
    | MacrosDone
    | SweepDone
    | StagingDone
    | Failed
    | Moved
)
