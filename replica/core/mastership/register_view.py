"""The register of one domain as this member knows it: read, set, and when it is read again. Never decides what it ought
to say.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

from failover.register import RegisterState
from replica.core.state.effects import GetRegister

if TYPE_CHECKING:
    from failover.register import Register
    from replica.core.state.shared import Shared

RETRY_MS = 150
"""Between two reads of an unreadable register: two tries inside the suspect time."""
WATCH_MS = 1000
"""A master reads its register this often: a left-over claim is found within it (P7)."""
NAME_MAX = 30
"""Bytes of a member's name in a nonce."""


class RegisterView:
    """What the register said last, and whether it answers."""

    def __init__(self, shared: Shared) -> None:
        self.shared = shared
        self.register: Register | None = None
        """As it was read or set last; kept while it does not answer."""
        self.readable = False
        """The last read was answered."""
        self.reading = False
        self.read_at_ms = -WATCH_MS
        self.young_since_ms: int | None = None
        """When the claim that the register holds was first read; None: it holds none."""

    @property
    def known(self) -> Register | None:
        """The register, while it answers."""
        return self.register if self.readable else None

    @property
    def in_sync_set(self) -> frozenset[str]:
        """Who holds everything acknowledged, as far as it is known here: the one answer, for reports and decisions.

        At a serving master that of its epoch, which the register may not have yet. Elsewhere as it was read; where it
        says nothing of that, the set that this member was in when it was written, empty at one that was never master.
        """
        register, written = self.register, frozenset(self.shared.state.in_sync_set)
        if self.shared.serving or register is None or register.vouches_for_nobody:
            return written
        return register.eligible_set

    def read(self, now_ms: int) -> None:
        """Ask for it, unless an answer is awaited."""
        if not self.reading and self.shared.peer:
            self.reading = True
            self.read_at_ms = now_ms
            self.shared.outbox.add(GetRegister())

    def read_when_due(self, now_ms: int, every_ms: int) -> None:
        """Ask for it if it was last asked so long ago."""
        if now_ms - self.read_at_ms >= every_ms:
            self.read(now_ms)

    def on_read(self, register: Register | None, now_ms: int) -> None:
        """The register as it is; None when it cannot be read now."""
        self.reading = False
        self.readable = register is not None
        if register is None:
            return
        if register != self.register:
            self.young_since_ms = now_ms if register.state is RegisterState.CLAIMED else None
        self.register = register

    def on_set(self, register: Register) -> None:
        """A compare-and-set has ended, and its answer says what the register holds."""
        self.register = register

    def owns(self, register: Register) -> bool:
        """Whether it is our own committed record of the epoch in force here (P7)."""
        own = register.holder == self.shared.member and register.epoch == self.shared.state.epoch
        return own and register.state is RegisterState.COMMITTED


def nonce_of(shared: Shared, number: int) -> bytes:
    """Unique without a random source: a member counts its starts, and within one start each epoch or version once."""
    return f"{short(shared.member)}/{shared.incarnation}/{number}".encode()


def short(member: str) -> str:
    """A member's name for a nonce: that has 64 bytes, and two numbers beside the name."""
    if len(member) <= NAME_MAX:
        return member
    return f"{member[: NAME_MAX - 17]}~{sha256(member.encode()).hexdigest()[:16]}"
