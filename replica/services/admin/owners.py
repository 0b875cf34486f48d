"""Says whose queue a new one is, and refuses what would make one somebody else's. Administrators alone may do that."""

from __future__ import annotations

from typing import TYPE_CHECKING

from replica.rpc.refusals import abort, refusal
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from replica.node.access import Access
    from replica.rpc.requests import Context
    from tandemq.v1.queue_admin_service_pb2 import QueueConfig

OWNER = "owner"


def owner_of_new(access: Access | None, config: QueueConfig, context: Context) -> str:
    """As an administrator says, else whoever makes it. Empty: nobody's, where nobody is asked who he is, and of what an
    administrator, a member or this host makes.
    """
    who = access.caller(context) if access is not None else ""
    if config.owner or access is None or access.stands_above(who):
        return config.owner
    return who


async def check_owner_of_new(access: Access | None, config: QueueConfig, context: Context) -> None:
    """Refuses (PERMISSION_DENIED) a client that makes a queue and names an owner other than itself."""
    if access is not None and config.owner and config.owner != access.caller(context):
        await _for_administrators(access, config.owner, context)


async def check_owner_stays(
    access: Access | None, config: QueueConfig, context: Context, mask: Sequence[str] = ()
) -> None:
    """Refuses (PERMISSION_DENIED) whoever names the owner of a queue that exists, itself too: who may administer it is
    not thereby who pays for it. `mask`: the attributes that are named; one that is empty there is taken away.
    """
    if access is not None and (config.owner or OWNER in mask):
        await _for_administrators(access, config.owner, context)


async def _for_administrators(access: Access, owner: str, context: Context) -> None:
    who = access.caller(context)
    if access.stands_above(who):
        return
    text = f"{who} cannot say whose queue it is, whose quotas it counts for: leave `owner` out, or ask an administrator"
    metadata = {"principal": who, "right": OWNER, "object": owner}
    await abort(context, refusal(Reason.REASON_PERMISSION_DENIED, text, metadata))
