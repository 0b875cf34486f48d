"""Everything that the core of a domain can ask its shell to do. Values only; the loop in `replica.node.loop` carries
them out in order.
"""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple, Protocol, TypeAlias

if TYPE_CHECKING:
    from array import array
    from collections.abc import Mapping, Sequence

    from failover.classifier import DomainFacts, EventKind
    from failover.register import Change, Register
    from replica.core.state.calls import Consumer, Waiter
    from replica.core.state.log import Entry
    from replica.core.state.outcomes import Answer, LeaseDone
    from replica.core.state.write_tokens import WriteToken
    from tandemq.peer.v1.peer_service_pb2 import PeerFrame


class Persist(NamedTuple):
    """Write in one transaction, in this order: wipe, cut, appends, bodies, meta. The next group commit takes it."""

    appends: Sequence[Entry] = ()
    bodies: Sequence[tuple[int, bytes]] = ()
    """By log index, of records that were stored without."""
    cut: int | None = None
    wipe: bool = False
    meta: Mapping[str, bytes | None] = MappingProxyType({})
    token: WriteToken | None = None
    """Handed back by `on_persisted` when it is durable."""
    leased: int = 0
    """Of the records: leases that were ordered together with the messages before them."""
    unhurried: bool = False
    """Nobody waits for it: it can be written with what comes after it."""


class Send(NamedTuple):
    """A control frame for the Data stream; dropped when the link is down. Records are pulled by the sender, not sent by
    this.
    """

    frame: PeerFrame


class GetRegister(NamedTuple):
    """Read the register; answered by `on_register`."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a compare-and-set is for, and in which epoch: an answer to one of an earlier epoch may come at any time."""

    change: Change
    epoch: int

    def __str__(self) -> str:
        return f"{self.change}:{self.epoch}"


class SetRegister(NamedTuple):
    """Compare and set; answered by `on_set_result` with the purpose."""

    expected: Register
    desired: Register
    purpose: Purpose
    forced: str = ""
    """Not empty: replace it against the register's rules, by an operator's word; this is the word."""


class CheckTransfer(NamedTuple):
    """Look at every record that a full transfer would send now; answered by `Peer.on_checked` if all are whole.
    Otherwise the session ends.
    """

    sync_id: int
    queues: Mapping[int, array[int]]
    """Log indexes, rising, 8 bytes each."""


class StartTransfer(NamedTuple):
    """Send a full transfer: these queues' live records, then the state."""

    sync_id: int
    log_index: int
    log_digest: bytes
    state: bytes
    queues: list[QueueTransfer]


class QueueTransfer(NamedTuple):
    """One queue of a full transfer."""

    queue_id: int
    name: str
    messages: int
    last_index: int
    log_indexes: Sequence[int]


class StopTransfer(NamedTuple):
    """Give up a transfer that is being sent or received."""


class Rebuild(NamedTuple):
    """Make the queues' state anew from checkpoint and log up to this index; answered by `on_rebuilt`."""

    up_to: int


class Reply(NamedTuple):
    """Answer a call. Every record that the answer rests on is committed."""

    waiter: Waiter
    result: Answer


class FarShell(Protocol):
    """Speaks with other managers for the macro queues of one domain."""

    def wake(self) -> None:
        """Somebody waits at a macro queue with members there, or is to be given something of one."""


class AskFar(NamedTuple):
    """Queues of other managers have something to do for macro queues of this domain."""

    shell: FarShell


class Deliver(NamedTuple):
    """Hand messages to a consumer's stream."""

    consumer: Consumer
    done: LeaseDone


class AskVerdict(NamedTuple):
    """Ask the classifier about this domain; answered by `on_verdict`. The shell asks once for all domains that lost one
    link in one role, and drops the answer when the link generation has moved on.
    """

    kind: EventKind
    link_generation: int
    facts: DomainFacts
    cause: str


class Salvage(NamedTuple):
    """Copy records to a salvage file before the transaction that takes them away commits; precedes that Persist."""

    first: int
    last: int
    acknowledged_up_to: int
    """Records up to here were acknowledged for certain: this member knew them committed, or answered them alone."""
    why: str
    unacknowledged_from: int = 0
    """Records from here on were certainly not: this process ordered them, and answered none; 0: there are none such.
    What lies between may have been, by whoever was master: this copy does not know.
    """


class Note(NamedTuple):
    """Something an operator should be able to read later: for the event log, `pair why`, and whoever watches."""

    kind: int
    """PairEventKind."""
    text: str
    """One sentence, without the member's and the domain's name."""
    facts: Mapping[str, str] | None = None


class Fail(NamedTuple):
    """This process must not go on (verdict 22): end it; a restart begins at PROBE and a state transfer."""

    why: str


class RoleChanged(NamedTuple):
    """For log, metrics and watchers."""

    role: int
    epoch: int
    reason: str


Order: TypeAlias = (
    Send
    | GetRegister
    | SetRegister
    | CheckTransfer
    | StartTransfer
    | StopTransfer
    | Rebuild
    | Reply
    | Deliver
    | AskFar
    | RoleChanged
    | AskVerdict
    | Note
    | Fail
)
"""What a shell carries out at once; the rest is of a group commit."""
Effect: TypeAlias = Order | Persist | Salvage
