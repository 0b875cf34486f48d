"""What a claim of mastership is made of: its values, its nonce, the pause after one that failed. Never makes one
itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Protocol

from failover.promotion import retry_delay_ms
from failover.register import Change
from failover.steps import Step
from replica.core.state.effects import Purpose

if TYPE_CHECKING:
    from failover.register import Register
    from replica.core.state.shared import Shared

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

    @property
    def purpose(self) -> Purpose | None:
        """Of the call to the register that this step waits for; None: it waits for none."""
        change = {Step.CLAIMING: Change.CLAIM, Step.COMMITTING: Change.COMMIT}.get(self.step)
        return Purpose(change, self.epoch) if change is not None else None


class ClientCalls(Protocol):
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
