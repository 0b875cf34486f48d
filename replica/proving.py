"""Decides when a member's start is counted at the witness: as soon as it can be, and anew when a copy of its directory
may have taken its place. How that is done is told in `replica.incarnation`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from failover.local_authority import LocalAuthority
from replica import incarnation

if TYPE_CHECKING:
    from collections.abc import Callable

    from failover.authority import Authority
    from replica.node import Node


class Proving:
    """One for each process. `on_old`: see `prove`; `on_counted` is told the number of this start."""

    def __init__(
        self,
        node: Node,
        authority: Authority,
        member: str,
        on_old: Callable[[str], None],
        on_counted: Callable[[int], None],
    ) -> None:
        self._node, self._authority, self._member = node, authority, member
        self._on_old, self._on_counted = on_old, on_counted
        self._number = 0
        """Of this start, once it is counted."""
        self._seen = 0
        """The highest one of another process that the peer has told of."""
        self._proven = False

    @property
    def counted(self) -> bool:
        """Without a third voice nobody else knows how often a member has started."""
        return not isinstance(self._authority, LocalAuthority)

    async def run(self, number: int) -> None:
        """No claim before the witness has seen this start: a directory that was put back must not win."""
        if self.counted:
            number = await self._count(number)
        self._number = number
        for domain in self._node.paired():
            # What is named by this start (nonces, handoffs) must not be named as by an earlier one.
            domain.shared.incarnation = number
            domain.replication.may_claim = True
        self._proven = True
        self._on_counted(number)

    def on_refused(self, seen: int) -> None:
        """By the peer: another process may have this member's place. `seen`: the start that was there already; 0: the
        peer does not say.
        """
        self._seen = max(self._seen, seen)
        if self._proven and self.counted:
            self._proven = False  # one look at a time
            self._node.spawn(self._again())

    def on_seen(self, seen: int) -> bool:
        """The peer calls, and has seen start `seen` in another process. Whether it shall call again later: not while
        nobody has counted this one, for that may take long, and it has no vote.
        """
        self.on_refused(seen)
        return self.counted and 0 < self._number <= seen

    async def _again(self) -> None:
        number = self._number
        self._proven = self._seen < number and not await incarnation.is_replaced(self._authority, self._member, number)
        if self._proven:
            return
        incarnation.step_back(self._node)
        await self.run(number)

    async def _count(self, number: int) -> int:
        """The witness may have lost its count: what the peer has seen with its own eyes is enough to count on from."""
        counted = 0
        while counted <= self._seen:
            if number <= self._seen:
                number = await incarnation.give_way(self._node, number, self._seen, "the peer", self._on_old)
            counted = number = await incarnation.prove(self._node, self._authority, self._member, number, self._on_old)
        return counted
