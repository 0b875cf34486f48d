"""Says whose an open unit of work is, and asks at its commit once more about all that it has. Orders nothing.

The ids of units follow from each other, so that nobody may take one for a secret: to anybody but the principal that
began it a unit is not open.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.core.state.outcomes import Failed

COMMIT = "TransactionService/Commit"

if TYPE_CHECKING:
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
        if access is not None and access.asker is not None and unit is not None:
            unit.rights.update(access.asker.wanted_of(method, request))
        return None

    async def problem_at_commit(self, domain: Domain, unit_id: bytes, context: Context) -> Failed | None:
        """A right that was revoked since the unit was begun: its commit is refused, and the unit stays open."""
        if (problem := self.problem_of(domain, unit_id, context)) is not None:
            return problem
        access, unit = self.members.access, domain.orders.units.find(unit_id)
        if access is None or access.asker is None or unit is None:
            return None
        for right, queue in sorted(unit.rights):
            if (problem := await access.asker.problem_of(context, COMMIT, right, queue)) is not None:
                return problem
        return None

    def sees(self, context: Context, queue: str) -> bool:
        """Whether an answer may name that queue: of a unit that has ended nobody knows any more who began it."""
        access = self.members.access
        return access is None or access.sees(access.caller(context), queue)
