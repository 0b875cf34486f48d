"""What a claim of mastership is made of: the facts it rests on, its nonce, the pause after one that failed. Never makes
one itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from failover.log_end import UNKNOWN_END, LogEnd, log_end
from failover.marks import DataMark, Role
from failover.promotion import YOUNG_CLAIM_MS, Facts, claim_delay_ms, retry_delay_ms
from replica.convert_marks import data_of

if TYPE_CHECKING:
    from failover.register import Register
    from failover.steps import Step
    from replica.replication import Replication
    from replica.shared import Shared
    from tandemq.peer.v1.peer_service_pb2 import DomainHello

NAME_MAX = 30
"""Bytes of a member's name in a nonce."""


@dataclass(slots=True)
class ClaimUnderWay:
    """A claim of ours: `claiming` -> `storing` -> `committing`."""

    step: Step
    members: frozenset[str]
    epoch: int
    desired: Register | None
    """As it was asked for; None: an unrecorded epoch, which asks nobody."""
    reason: str
    forced: bool = False
    ceded: bool = False
    """The old master has given this epoch to us, durably: it may be served although the register does not answer."""


class Mastership(Protocol):
    """What becomes of clients' calls when the mastership comes or goes."""

    def on_epoch_begin(self, under_way: ClaimUnderWay) -> int:
        """Append an epoch's first record, with the domain's facts in the same transaction; returns its index."""
        ...

    def on_serving(self) -> None:
        """The gate is open: take what was parked."""
        ...

    def on_not_serving(self) -> None:
        """The mastership is gone: park or hand back what is unanswered."""
        ...

    def on_committed(self) -> None:
        """The commit index has moved."""
        ...


def facts_of(replication: Replication, now_ms: int) -> Facts:
    """What this member knows of the domain now, for the promotion table."""
    shared = replication.shared
    hello = replication.hello
    delay = claim_delay_ms(replication.was_master, replication.refused, replication.bias_ms)
    lost_at, young_since = replication.lost_at_ms, replication.young_since_ms
    return Facts(
        member=shared.member,
        peer=shared.peer,
        data=shared.state.data,
        peer_connected=replication.connected,
        peer_role_master=hello is not None and hello.role in (Role.MASTER.value, Role.MASTER_SUSPENDED.value),
        peer_data=_data_of_peer(hello) if hello is not None else None,
        register=replication.register if replication.readable else None,
        peer_lost=lost_at is not None and now_ms >= lost_at + delay,
        not_met=_may_still_come(replication, now_ms),
        verdict_lets=replication.ruling(now_ms).lets_claim,
        epoch=shared.state.epoch,
        peer_epoch=hello.epoch if hello is not None else 0,
        end=log_end(shared.log.history, shared.log.last_index, shared.log.digest),
        peer_end=_end_of_peer(hello) if hello is not None else UNKNOWN_END,
        young_claim=young_since is not None and now_ms < young_since + YOUNG_CLAIM_MS,
    )


def _may_still_come(replication: Replication, now_ms: int) -> bool:
    """Whether a peer that may serve too is awaited: neither has been heard of since this process started."""
    register, shared = replication.register, replication.shared
    if replication.verdicts.generation or now_ms >= replication.started_ms + replication.meet_ms:
        return False
    return register is not None and shared.peer in register.eligible_set and shared.state.data is DataMark.IN_SYNC


def _end_of_peer(hello: DomainHello) -> LogEnd:
    return log_end([(each.epoch, each.first_index) for each in hello.history], hello.last_index, hello.digest)


def _data_of_peer(hello: DomainHello) -> DataMark:
    """A copy that waits for an operator takes part in nothing, whatever it holds."""
    return DataMark.STALE if hello.role == Role.DIVERGED.value else data_of(hello.data_state)


def nonce_of(shared: Shared, number: int) -> bytes:
    """Unique without a random source: a member counts its starts, and within one start each epoch or version once."""
    return f"{short(shared.member)}/{shared.incarnation}/{number}".encode()


def short(member: str) -> str:
    """A member's name for a nonce: that has 64 bytes, and two numbers beside the name."""
    if len(member) <= NAME_MAX:
        return member
    return f"{member[: NAME_MAX - 17]}~{sha256(member.encode()).hexdigest()[:16]}"


def pause_after(failures: int, member: str, *, was_master: bool, bias_ms: int) -> int:
    """Milliseconds to wait after a claim that failed (P8); the name spreads two claimants apart without a random
    source.
    """
    jitter = (sum(member.encode()) * 37 + failures * 61) % 97 / 97
    return retry_delay_ms(failures, jitter, role_was_master=was_master, bias_ms=bias_ms)
