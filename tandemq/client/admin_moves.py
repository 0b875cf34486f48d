"""Carries out the calls that go through a queue: moving, moving back and removing what a filter finds; decides nothing.

They may take long. What a call has done stays done when it breaks off; repeated with the same request id, by whomever
and at either member, it goes on behind that, and answers with the totals of the whole.
"""

from __future__ import annotations

from datetime import timedelta

from tandemq.client.admin import queue_call
from tandemq.client.filtering import Where, to_filter
from tandemq.client.identity import new_request_id
from tandemq.client.links import Linked
from tandemq.v1 import queue_admin_service_pb2 as admin

MOVE_TIMEOUT_S = 600.0


async def move_messages(
    client: Linked,
    name: str,
    to: str,
    where: str | Where | None = None,
    *,
    max_messages: int = 0,
    request_id: bytes = b"",
    timeout: float = MOVE_TIMEOUT_S,
) -> admin.MoveMessagesResponse:
    """Moves what is in the queue now, or what fits, to another queue of the same domain, the oldest first.

    Priority, properties, expiry and delay stay; index and id are new. What consumers hold stays (`leased`), so does
    what the other queue does not take any more (`left`, with the reasons in `behind`).
    """
    request = admin.MoveMessagesRequest(
        name=name,
        request_id=request_id or new_request_id(),
        filter=to_filter(where),
        to=to,
        max_messages=max_messages,
    )
    return await queue_call(
        client, "MoveMessages", request, admin.MoveMessagesResponse, name, timedelta(seconds=timeout)
    )


async def redrive_queue(
    client: Linked,
    name: str,
    to: str = "",
    where: str | Where | None = None,
    *,
    max_messages: int = 0,
    request_id: bytes = b"",
    timeout: float = MOVE_TIMEOUT_S,
) -> admin.RedriveQueueResponse:
    """Moves dead letters back to the queues that they came from, or all of them to `to`, as they were first sent.

    One whose queue is gone, full or closed stays (`left`, with the reasons in `behind`).
    """
    request = admin.RedriveQueueRequest(
        name=name,
        request_id=request_id or new_request_id(),
        filter=to_filter(where),
        to=to,
        max_messages=max_messages,
    )
    return await queue_call(
        client, "RedriveQueue", request, admin.RedriveQueueResponse, name, timedelta(seconds=timeout)
    )


async def delete_messages(
    client: Linked,
    name: str,
    where: str | Where,
    *,
    max_messages: int = 0,
    request_id: bytes = b"",
    timeout: float = MOVE_TIMEOUT_S,
) -> admin.DeleteMessagesResponse:
    """Removes what fits of what is in the queue now, the oldest first; what consumers hold stays (`leased`).

    A filter that names nothing is refused (BAD_REQUEST): `purge_queue` removes all.
    """
    request = admin.DeleteMessagesRequest(
        name=name, request_id=request_id or new_request_id(), filter=to_filter(where), max_messages=max_messages
    )
    return await queue_call(
        client, "DeleteMessages", request, admin.DeleteMessagesResponse, name, timedelta(seconds=timeout)
    )
