"""Says whose an open unit of work is, and asks at its commit once more about all that it has. Orders nothing.

The ids of units follow from each other, so that nobody may take one for a secret: to anybody but the principal that
began it a unit is not open.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from replica.core.ordering.open_units import UNITS_MAX
from replica.core.state.outcomes import Failed
from replica.rpc.refusals import refusal
from tandemq.v1.common_pb2 import Reason

COMMIT = "TransactionService/Commit"
RIGHTS_MAX = 20_000
"""That the calls of one unit need: of as many messages as it may have, each with a queue of its own for its answer."""
RIGHTS_AT_ONCE = 500
"""Asked about at the commit before everybody else is served."""

if TYPE_CHECKING:
    from collections.abc import Iterator

    from replica.core.domain import Domain
    from replica.node.members import Members
    from replica.rpc.requests import Context


class UnitOwners:
    """Of the units that are open at one member. Where nobody is asked about rights, all of them are everybody's."""

    def __init__(self, members: Members) -> None:
        self.members = members

    def who(self, context: Context) -> str:
        """Who makes the call; empty: nobody is asked about."""
        access = self.members.access
        return access.caller(context) if access is not None else ""

    def problem_of_one_more(self, who: str) -> Failed | None:
        """Why this principal begins no further unit here: by the quota that this member has for it."""
        access = self.members.access
        if access is None or access.asker is None or access.asker.quoted is None:
            return None
        return access.asker.quoted.problem_of_unit(who, self._open)

    def _open(self) -> Iterator[str]:
        """Whose the units are that are open at this member."""
        for domain in self.members.node.domains.values():
            yield from (unit.who for unit in domain.orders.units.oldest(UNITS_MAX))

    def problem_of(self, domain: Domain, unit_id: bytes, context: Context) -> Failed | None:
        """At the master, before anything is asked of the unit; the same words as for one that is not open."""
        units = domain.orders.units
        unit = units.find(unit_id)
        if unit is None or unit.who == self.who(context):
            return None
        aborted = units.aborted(unit_id)
        return Failed(aborted.reason, aborted.message, aborted.metadata, None)

    def problem_of_call(
        self, domain: Domain, unit_id: bytes, context: Context, method: str, request: bytes
    ) -> Failed | None:
        """The same, for a call whose rights the commit needs again: they are noted."""
        if (problem := self.problem_of(domain, unit_id, context)) is not None:
            return problem
        access, unit = self.members.access, domain.orders.units.find(unit_id)
        if access is None or access.asker is None or unit is None:
            return None
        wanted = {each for each in access.asker.wanted_of(method, request) if each not in unit.rights}
        if (needed := len(unit.rights) + len(wanted)) > RIGHTS_MAX:
            text = f"a unit of work that names {needed:,} queues, where it sends and where answers go; make it smaller"
            return refusal(Reason.REASON_TXN_TOO_LARGE, text, {"limit": str(RIGHTS_MAX)})
        unit.rights |= wanted
        return None

    async def problem_at_commit(self, domain: Domain, unit_id: bytes, context: Context) -> Failed | None:
        """A right that was revoked since the unit was begun: its commit is refused, and the unit stays open."""
        if (problem := self.problem_of(domain, unit_id, context)) is not None:
            return problem
        access, unit = self.members.access, domain.orders.units.find(unit_id)
        if access is None or access.asker is None or unit is None:
            return None
        for place, (right, queue) in enumerate(sorted(unit.rights), 1):
            if (problem := await access.asker.problem_of(context, COMMIT, right, queue)) is not None:
                return problem
            if place % RIGHTS_AT_ONCE == 0:
                await asyncio.sleep(0)
        return None

    def sees(self, context: Context, queue: str) -> bool:
        """Whether an answer may name that queue: of a unit that has ended nobody knows any more who began it."""
        access = self.members.access
        return access is None or access.sees(access.caller(context), queue)
