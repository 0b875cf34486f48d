"""Faults of a disk for failover.py: a member whose syncs hang, or of whose syncs one in a hundred is slow. It measures
what its messages say: how long nobody was answered, in which epoch and with how many copies, and what became of each.

The disk is one of a real process: a library that is loaded before libc holds its fsync and fdatasync up, in whichever
thread (`chaos.preload`). The two limits of the product, `stall_ms` and `slow_peer_ms`, are 10 s: a hang of 10 s is a
race with them, a longer one is over only when the pair has helped itself.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from bench.failover_traffic import Answer
from bench.peers.payloads import Ledger, Payloads
from chaos.preload import Preload

PAYLOAD_BYTES = 100
HANG_S = 15.0
SLOW_FOR_S = 10.0
SLOW_S, SLOW_EVERY = 0.05, 100
DRAIN_S = 60.0  # longer than a lease


@dataclass(frozen=True, slots=True)
class DiskFault:
    """Which member's disk, and what it does."""

    of_replica: bool = False
    hangs: bool = False

    def strike(self, preload: Preload, member: str) -> None:
        """In force at once."""
        if self.hangs:
            preload.hurt(member, hung=True)
        else:
            preload.hurt(member, fsync_s=SLOW_S, fsync_every=SLOW_EVERY)

    def lasts_s(self, hang_s: float) -> float:
        """hang_s: of a disk that hangs."""
        return hang_s if self.hangs else SLOW_FOR_S


DISKS: dict[str, DiskFault] = {
    "hung disk": DiskFault(hangs=True),
    "hung disk of the replica": DiskFault(of_replica=True, hangs=True),
    "slow disk": DiskFault(),
}


@dataclass(slots=True)
class Checked:
    """Every message of a run: what was sent, byte for byte, and at which index it came. One producer numbers them."""

    payloads: Payloads
    sent: int = 0
    doubled: int = 0
    ledger: Ledger = field(init=False)
    _came: asyncio.Event = field(default_factory=asyncio.Event)
    _index_of: dict[int, int] = field(default_factory=dict)  # number to the index at which it first came

    def __post_init__(self) -> None:
        self.ledger = Ledger(self.payloads)

    def next(self) -> list[bytes]:
        """The next message that is due."""
        made = self.payloads.make(self.sent, 1)
        self.sent += 1
        return made

    def take(self, came: Iterable[tuple[bytes, int]]) -> None:
        """Payloads with their indexes; one that comes again at its own was not settled, at another one it is there
        twice."""
        for payload, index in came:
            self.ledger.take((payload,))
            number = self.payloads.number_of(payload)
            if number is not None:
                self.doubled += self._index_of.setdefault(number, index) != index
        self._came.set()

    async def all_came(self) -> None:
        """Returns when all that was sent has come."""
        while self.ledger.received < self.sent:
            self._came.clear()
            await self._came.wait()

    def result(self) -> tuple[dict[str, int], list[str]]:
        """Once everything that was sent is acknowledged, and came or will not come: the account, and why it is bad
        where its figures do not say so."""
        return self.ledger.account(self.sent), [f"{self.doubled:,} messages doubled"] if self.doubled else []


def said_by(answers: Sequence[Answer], from_s: float) -> dict[str, Any]:
    """What the answers since a fault say: epochs that were begun, and how long and of how many messages there was one
    copy."""
    epochs = {answer.epoch for answer in answers}
    alone = [answer.at_s for answer in answers if answer.copies == 1 and answer.at_s >= from_s]
    return {
        "epochs": max(epochs) - min(epochs),
        "one_copy": len(alone),
        "one_copy_ms": round((max(alone) - min(alone)) * 1e3) if alone else 0,
    }
