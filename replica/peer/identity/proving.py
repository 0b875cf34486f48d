"""Decides when a member's start is counted at the witness: as soon as it can be, and anew when a copy of its directory
may have taken its place. How that is done is told in `replica.peer.identity.incarnation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.local_authority import LocalAuthority
from replica.peer.identity import incarnation

if TYPE_CHECKING:
    from collections.abc import Callable

    from failover.authority import Authority
    from replica.peer.identity.starts import Start


class Proving:
    """One for each process; `on_counted` is told the number of this start."""

    def __init__(
        self, own: incarnation.Own, authority: Authority, member: str, on_counted: Callable[[int], None]
    ) -> None:
        self._own, self._authority, self._member = own, authority, member
        self._on_counted = on_counted
        self._started = False
        """This start was counted at least once."""
        self._busy = True
        """Something is under way that ends with a start that is counted: `run`, or a look at whether it still is."""
        self._gives_way = False
        """It was counted, and must be once more: the peer has told of another one."""

    @property
    def counted(self) -> bool:
        """Without a third voice nobody else knows how often a member has started."""
        return not isinstance(self._authority, LocalAuthority)

    async def run(self) -> None:
        """No claim before the witness has seen this start: a directory that was put back must not win."""
        if self.counted:
            await incarnation.prove(self._own, self._authority, self._member)
        number = self._own.starts.number
        for domain in self._own.node.paired():
            # What is named by this start (nonces, handoffs) must not be named as by an earlier one.
            domain.shared.set_incarnation(number)
            domain.mastership.claims.let_claim(allowed=True)
        self._started, self._busy, self._gives_way = True, False, False
        self._on_counted(number)

    def on_refused(self, seen: Start | None) -> None:
        """By the peer: another process may have this member's place. `seen`: the start that was there already; None:
        the peer does not say.
        """
        if not self.counted:
            return
        if seen is not None and self._own.starts.is_others(seen):
            self._own.node.spawn(self._go_on_from(seen))
        elif not self._busy and self._own.is_durable:  # else a number would be counted before it is written
            self._busy = True
            self._own.node.spawn(self._look())

    def on_seen(self, seen: Start) -> bool:
        """The peer has seen that start of this member. Whether it shall be connected with later: once it is written
        down that this copy is an older one, and it has another number. Nobody need have counted that one if nobody had
        counted this one, for that may take long, and it has no vote.
        """
        if not self.counted:
            return False
        if self._own.starts.is_others(seen):
            self._own.node.spawn(self._go_on_from(seen))
            return True
        return self._gives_way or not self._own.is_durable

    async def _go_on_from(self, seen: Start) -> None:
        """What the peer has seen with its own eyes counts, also where the witness has lost its count."""
        if not self._own.starts.is_others(seen):
            return
        if self._started:
            self._gives_way = True
            incarnation.step_back(self._own.node)
        await self._own.give_way(seen, "the peer")
        if not self._busy:
            self._busy = True
            await self.run()

    async def _look(self) -> None:
        replaced = await incarnation.is_replaced(self._authority, self._member, self._own.starts.number)
        if replaced or self._gives_way:
            incarnation.step_back(self._own.node)
            await self.run()
        else:
            self._busy = False
