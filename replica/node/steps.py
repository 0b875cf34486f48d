"""What a member does with the effects of its cores, in which order: the durability order, written once (DESIGN.md 2.2).
Pure: whoever owns the disk, the wires and the tasks carries out what comes out of here, and decides nothing about it.

The loop (`replica.node.loop`), the pair of the text scripts and the small model all go by it.
For every effect of a core, in the order in which the core asked:
  1. What must be persisted joins the pending group commit. It takes earlier parts of the same group back where it wipes
     or cuts them, and whatever it takes off the disk is named for salvage first.
  2. Everything else goes out at once: frames too, so that both members' fsyncs run in parallel.
  3. One group commit is written at a time (`begin`). One that fails is never retried: the process stops, and the peer
     or the next start decides what is true (reliability.md 3, rule 10). A store without room has not failed.
  4. Only when it is durable are the cores notified of it (`end`), and only then can an answer that rests on it exist.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from replica.core.state.effects import (
    Persist,
    Salvage,
)
from storage.store import Append, WriteBatch

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replica.core.domain import Domain
    from replica.core.state.effects import Effect, Order
    from replica.core.state.write_tokens import WriteToken

_WRITES = (Persist, Salvage)


class Durable(NamedTuple):
    """What a core is notified of by `on_persisted`."""

    generation: int
    """Of the log when the last record joined: a core does not believe it where the log was cut meanwhile."""
    last_index: int
    """0: no record was in the group."""
    tokens: list[WriteToken]


class GroupCommit:
    """What one transaction writes, for all domains."""

    __slots__ = ("_last", "_leased", "_tokens", "batch", "bytes", "empty", "hurried", "salvage")

    def __init__(self) -> None:
        self.batch = WriteBatch()
        self.salvage: list[tuple[Domain, Salvage]] = []
        """What this batch takes away, to be copied first."""
        self.bytes = 0
        self.empty = True
        """Nobody needs it on disk; a batch that was filled by hand counts only once somebody waits for it."""
        self.hurried = False
        """Somebody waits for it; else it may gather more (`Persist.unhurried`)."""
        self._last: dict[Domain, tuple[int, int]] = {}
        self._tokens: dict[Domain, list[WriteToken]] = {}
        self._leased = 0
        """Of the records: leases that were ordered together with the messages before them."""

    def add(self, domain: Domain, effect: Persist) -> int:
        """Join an effect; returns the bytes of its records. A wipe or a cut takes back what joined before it."""
        shared = domain.shared
        number = shared.domain
        batch = self.batch
        self.empty = False
        if not effect.unhurried:
            self.hurried = True
        if effect.wipe:
            batch.wipe.add(number)
            batch.cut.pop(number, None)
            batch.appends = [a for a in batch.appends if a.domain != number]
            batch.inserts = [a for a in batch.inserts if a.domain != number]
            batch.bodies = [a for a in batch.bodies if a.domain != number]
        if effect.cut is not None:
            cut = effect.cut
            batch.cut[number] = min(cut, batch.cut.get(number, cut))
            batch.appends = [a for a in batch.appends if a.domain != number or a.log_index <= cut]
            batch.bodies = [a for a in batch.bodies if a.domain != number or a.log_index <= cut]
        size = 0
        if effect.appends:
            for entry in effect.appends:
                batch.appends.append(Append(number, entry.log_index, entry.stored))
                size += len(entry.record)
            self.bytes += size
            self._leased += effect.leased
            self._last[domain] = (shared.progress.generation, effect.appends[-1].log_index)
        for log_index, body in effect.bodies:
            batch.bodies.append(Append(number, log_index, body))  # counted when it came
        batch.meta.update(effect.meta)
        if effect.token is not None:
            self._tokens.setdefault(domain, []).append(effect.token)
        return size

    def of_one_step(self) -> Domain | None:
        """The core whose record, perhaps with the lease ordered with it, is all that this appends, where it does
        nothing else but set values; else None.
        """
        batch = self.batch
        if (
            len(batch.appends) - self._leased != 1
            or len(self._last) != 1
            or batch.inserts
            or batch.bodies
            or batch.cut
            or batch.wipe
            or self.salvage
        ):
            return None
        (domain,) = self._last
        return domain

    def joined(self) -> Iterator[tuple[Domain, Durable]]:
        """Each core that waits for it, and what it is notified of."""
        for domain in {**self._last, **self._tokens}:
            yield domain, Durable(*self._last.get(domain, (0, 0)), self._tokens.get(domain, []))


class Steps:
    """Of one member."""

    def __init__(self) -> None:
        self.pending = GroupCommit()
        """The next one that is written."""
        self.writing: GroupCommit | None = None
        self.appended_bytes = 0
        """Of all records since the process started; only grows."""

    def on_effect(self, domain: Domain, effect: Effect) -> Order | None:
        """What goes out at once; None: it has joined the pending group commit."""
        if not isinstance(effect, _WRITES):
            return effect
        if isinstance(effect, Salvage):
            self.pending.salvage.append((domain, effect))
        elif size := self.pending.add(domain, effect):
            self.appended_bytes += size
            domain.orders.on_appended(size)
        return None

    @property
    def at_rest(self) -> bool:
        """Nothing waits for the disk."""
        return self.writing is None and self.pending.empty

    @property
    def unwritten_bytes(self) -> int:
        """Of records that are not durable yet."""
        return self.pending.bytes + (self.writing.bytes if self.writing is not None else 0)

    def require(self) -> None:
        """Somebody waits for the pending group commit, also where no effect has joined it."""
        self.pending.empty, self.pending.hurried = False, True

    def begin(self) -> GroupCommit | None:
        """The pending group commit, to be written now; None: nobody needs one."""
        assert self.writing is None, "one group commit is written at a time"
        if self.pending.empty:
            return None
        self.writing, self.pending = self.pending, GroupCommit()
        return self.writing

    def end(self) -> Iterator[tuple[Domain, Durable]]:
        """What was being written is durable: each core of it, and what it is notified of."""
        written, self.writing = self.writing, None
        assert written is not None, "nothing was being written"
        return written.joined()


__all__ = ["Durable", "GroupCommit", "Steps"]
