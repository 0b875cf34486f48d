"""Makes answers about rights, of what is committed here; decides nothing itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.machine.state.rights import OF_PAIR
from tandemq.v1 import rights_service_pb2 as pb

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.machine.state.rights import Grant
    from replica.node.access import Access


def decision(access: Access, who: str, right: int, names: Sequence[str]) -> pb.TestRightResponse:
    """Whether it may, and by which grant. Without a name: on the pair, or on some queue."""
    named = any(names)
    made = pb.TestRightResponse(
        allowed=bool(right) and access.may(who, right, *names),
        administrator=access.stands_above(who),
        visible=named and right not in OF_PAIR and access.sees(who, *names),
        version=access.in_force.version,
    )
    grants = (access.in_force.deciding(who, right, name) for name in names)
    grant = next((each for each in grants if each is not None), None)
    if grant is not None:
        made.grant.CopyFrom(grant_of(grant))
    return made


def grant_of(grant: Grant) -> pb.RightGrant:
    """As it goes over the wire."""
    key = grant.key
    made = pb.RightGrant(
        principal=key.principal,
        right=key.right,  # type: ignore[arg-type]  # number of the enum
        pattern=key.pattern,
        version=grant.version,
        granted_by=grant.by,
    )
    made.granted_at.FromMilliseconds(grant.granted_ms)
    return made
