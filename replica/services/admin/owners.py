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


async def check_owner(access: Access | None, config: QueueConfig, context: Context, mask: Sequence[str] = ()) -> None:
    """Refuses (PERMISSION_DENIED) a client that names an owner other than itself, or takes one away."""
    if access is None or not (config.owner or OWNER in mask):
        return
    who = access.caller(context)
    if access.stands_above(who) or (config.owner == who and not mask):
        return
    text = f"{who} cannot say whose queue it is, which counts for the owner's quotas: ask an administrator"
    metadata = {"principal": who, "right": OWNER, "object": config.owner}
    await abort(context, refusal(Reason.REASON_PERMISSION_DENIED, text, metadata))
