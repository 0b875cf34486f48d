"""Rights of principals: granted, revoked, listed and tested. It decides nothing: the pair does."""

from __future__ import annotations

from datetime import UTC, datetime
from types import MappingProxyType
from typing import NamedTuple

from tandemq.client.calls import RIGHTS_SERVICE
from tandemq.client.identity import new_request_id
from tandemq.client.links import Linked
from tandemq.errors import error_of
from tandemq.v1 import rights_service_pb2 as pb

RIGHTS = MappingProxyType(
    {
        "produce": pb.RIGHT_PRODUCE,
        "consume": pb.RIGHT_CONSUME,
        "browse": pb.RIGHT_BROWSE,
        "administer": pb.RIGHT_ADMINISTER,
        "observe": pb.RIGHT_OBSERVE,
        "operate": pb.RIGHT_OPERATE,
    }
)


class Grant(NamedTuple):
    """A right that was granted."""

    principal: str
    """principal/NAME of a client, or member/PAIR/NAME of another pair."""
    right: str
    """One of RIGHTS."""
    pattern: str
    """Queues; empty for observe and operate, which are about the pair."""
    version: int
    """Of all rights of the pair, after it."""
    granted_by: str
    granted_at: datetime


class Rights(NamedTuple):
    """What was granted, as committed."""

    version: int
    grants: list[Grant]
    """By principal, right and pattern."""
    administrators: list[str]
    """Of the configuration; they need no grant. Empty for whoever is none of them."""


class Decision(NamedTuple):
    """Whether somebody may do something now, as `check_right` answers it."""

    allowed: bool
    administrator: bool
    """It may everything, by the members' configuration."""
    grant: Grant | None
    """That decides."""
    visible: bool
    """It has some right on that queue: the queue is there for it."""


async def grant_right(
    client: Linked, principal: str, right: str, pattern: str = "", *, expected_version: int | None = None
) -> int:
    """Gives a principal a right; the version of all rights after it. One that it has already changes nothing.

    principal: the name in a client's certificate. right: produce, consume, browse or administer on queues, observe or
    operate on the pair. pattern: orders, orders/*, orders/**, * or **. expected_version: only while the rights have
    it. Raises Denied for anybody but an administrator, Refused with reason VERSION_MISMATCH, InvalidRequest with reason
    BAD_NAME or BAD_REQUEST, ResourceExhausted with reason QUOTA_EXCEEDED. Repeated by itself until it is answered.
    """
    request = pb.GrantRightRequest(
        request_id=new_request_id(),
        principal=principal,
        right=_number(right),
        pattern=pattern,
        expected_version=expected_version,
    )
    path = RIGHTS_SERVICE + "GrantRight"
    return (await client.links.own.caller.call(path, request, pb.GrantRightResponse)).version


async def revoke_right(
    client: Linked, principal: str, right: str, pattern: str = "", *, expected_version: int | None = None
) -> int:
    """Takes a right away, as it was granted; the version after it. Streams that need it end within a second.

    Raises NotFound with reason RIGHT_NOT_FOUND, and what grant_right does.
    """
    request = pb.RevokeRightRequest(
        request_id=new_request_id(),
        principal=principal,
        right=_number(right),
        pattern=pattern,
        expected_version=expected_version,
    )
    path = RIGHTS_SERVICE + "RevokeRight"
    return (await client.links.own.caller.call(path, request, pb.RevokeRightResponse)).version


async def list_rights(client: Linked, principal: str = "") -> Rights:
    """What was granted to a principal, or to all; whoever is no administrator sees its own grants."""
    request = pb.ListRightsRequest(principal=principal)
    found = await client.links.own.caller.call(RIGHTS_SERVICE + "ListRights", request, pb.ListRightsResponse)
    return Rights(found.version, [_grant(each) for each in found.grants], list(found.administrators))


async def check_right(client: Linked, right: str, queue: str = "", *, principal: str = "") -> Decision:
    """Whether a principal may do something now, and which grant decides. Without a principal: this client. An
    administrator asks about anybody, others about themselves; else Denied is raised.
    """
    request = pb.TestRightRequest(principal=principal, right=_number(right), queue=queue)
    found = await client.links.own.caller.call(RIGHTS_SERVICE + "TestRight", request, pb.TestRightResponse)
    grant = _grant(found.grant) if found.HasField("grant") else None
    return Decision(found.allowed, found.administrator, grant, found.visible)


def _number(right: str) -> pb.Right:
    if right not in RIGHTS:
        raise error_of("BAD_REQUEST", f"there is no right {right!r}; there are {', '.join(RIGHTS)}")
    return RIGHTS[right]


def _grant(found: pb.RightGrant) -> Grant:
    return Grant(
        found.principal,
        pb.Right.Name(found.right).removeprefix("RIGHT_").lower(),
        found.pattern,
        found.version,
        found.granted_by,
        found.granted_at.ToDatetime(UTC),
    )
