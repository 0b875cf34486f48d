"""Carries out administration: queues, the pair, the manager. It decides nothing; the master does.

Every change has a request id that is made once, so that its repetition has one effect.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import timedelta
from typing import NamedTuple, TypeVar

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from tandemq.client.calls import ADMIN_SERVICE, MANAGER_SERVICE, PAIR_SERVICE
from tandemq.client.filtering import Where, to_filter
from tandemq.client.identity import new_request_id
from tandemq.client.links import Linked
from tandemq.errors import TandemqError
from tandemq.v1 import manager_admin_service_pb2 as manager
from tandemq.v1 import pair_service_pb2 as pair
from tandemq.v1 import queue_admin_service_pb2 as admin

STATUS_TIMEOUT_S = 2.0
RESTORE_TIMEOUT_S = 600.0
HANDOFF_TIMEOUT_S = 15.0
MOVE_TIMEOUT_S = 600.0
PAGE_SIZE = 1000

Reply = TypeVar("Reply", bound=Message)
Handoff = pair.HandoffResponse


class MemberAnswer(NamedTuple):
    """What one endpoint said of the pair; exactly one of the two is set."""

    endpoint: str
    status: pair.GetPairStatusResponse | None
    error: TandemqError | None


async def create_queue(
    client: Linked, name: str, config: admin.QueueConfig | None = None, *, configuring: bool = False
) -> admin.QueueInfo:
    """Creates a queue and opens it on every member. Unset attributes take the manager's defaults.

    configuring: leave it in CONFIGURING; configure_queue and open_queue follow.
    """
    request = admin.CreateQueueRequest(name=name, request_id=new_request_id(), config=config, configuring=configuring)
    return (await queue_call(client, "CreateQueue", request, admin.CreateQueueResponse, name)).queue


async def create_replicated_queue(
    client: Linked, name: str, config: admin.QueueConfig | None = None
) -> admin.QueueInfo:
    """Creates a queue on both members of the pair; open_replicated_queue opens it."""
    request = admin.CreateReplicatedQueueRequest(name=name, request_id=new_request_id(), config=config)
    return (await queue_call(client, "CreateReplicatedQueue", request, admin.CreateReplicatedQueueResponse, name)).queue


async def open_replicated_queue(
    client: Linked, name: str, *, master_required: bool = False, options: admin.QueueConfig | None = None
) -> admin.QueueInfo:
    """Opens the instance of the member that is asked; returns when it is synchronised.

    With `master_required` refuses (E_MASTER_EXISTS) unless that member is master. The member that is asked is the
    first endpoint of this client: use a client for one endpoint, with follow_master=False.
    options: what that member takes the attributes to be. They become the queue's while it is open nowhere; else it
        refuses (CONFIG_MISMATCH) where they differ from those in force, but for address and remote_clients_allowed.
    """
    request = admin.OpenReplicatedQueueRequest(
        name=name, request_id=new_request_id(), master_required=master_required, options=options
    )
    return (await queue_call(client, "OpenReplicatedQueue", request, admin.OpenReplicatedQueueResponse, name)).queue


async def close_replicated_queue(client: Linked, name: str) -> admin.QueueInfo:
    """Closes the instance of the member that is asked; closing the last one drops the volatile messages."""
    request = admin.CloseReplicatedQueueRequest(name=name, request_id=new_request_id())
    return (await queue_call(client, "CloseReplicatedQueue", request, admin.CloseReplicatedQueueResponse, name)).queue


async def destroy_replicated_queue(client: Linked, name: str, *, both_members: bool = False) -> bool:
    """Destroys the instance of the member that is asked, or both; True when the queue is gone from the pair."""
    request = admin.DestroyReplicatedQueueRequest(name=name, request_id=new_request_id(), both_members=both_members)
    reply = admin.DestroyReplicatedQueueResponse
    return (await queue_call(client, "DestroyReplicatedQueue", request, reply, name)).deleted


async def restart_side(client: Linked, name: str, member: str, *, after: int | None = None) -> admin.QueueInfo:
    """Has the side of a PRODUCER queue at that member begin anew, which has lost its place (SIDE_LOST).

    It is given what has a higher index than `after`; None: everything that is still there. What it has lost is
    gone: give its process the state of its twin, and take that when this call has returned. Its member hears of it
    with the next heartbeat. Refuses (INVALID_STATE) when the side has its place, and (OUT_OF_RANGE) when `after` is
    not there.
    """
    request = admin.RestartSideRequest(name=name, member=member, request_id=new_request_id(), after=after)
    return (await queue_call(client, "RestartSide", request, admin.RestartSideResponse, name)).queue


async def get_queue(client: Linked, name: str, *, domain: str = "") -> admin.QueueInfo:
    """Describes one queue. `domain`: whose it is, of a transmission queue that several domains have."""
    request = admin.GetQueueRequest(name=name, domain=domain)
    return (await queue_call(client, "GetQueue", request, admin.GetQueueResponse, name)).queue


async def list_queues(client: Linked, prefix: str = "") -> list[admin.QueueInfo]:
    """Describes the queues whose names begin with `prefix`, by name. Pages are read one after another."""
    found: list[admin.QueueInfo] = []
    token = ""
    while True:
        request = admin.ListQueuesRequest(prefix=prefix, page_size=PAGE_SIZE, page_token=token)
        page = await queue_call(client, "ListQueues", request, admin.ListQueuesResponse, "")
        found.extend(page.queues)
        token = page.next_page_token
        if not token:
            return found


async def update_queue(
    client: Linked,
    name: str,
    config: admin.QueueConfig,
    fields: Sequence[str],
    *,
    expected_version: int = 0,
    domain: str = "",
) -> admin.QueueInfo:
    """Changes the attributes that `fields` names (names of QueueConfig's fields) to their values in `config`.

    A change of the persistence returns when the messages that are persistent by the new rule are on every disk that
    must have them; `saving` of get_queue tells that it is under way.

    With `expected_version` refuses (VERSION_MISMATCH) when the queue was changed since that version. `domain`: whose
    the queue is, of a transmission queue that several domains have (BAD_REQUEST without).
    """
    request = admin.UpdateQueueRequest(
        name=name,
        domain=domain,
        request_id=new_request_id(),
        config=config,
        update_mask=FieldMask(paths=fields),
        expected_version=expected_version,
    )
    return (await queue_call(client, "UpdateQueue", request, admin.UpdateQueueResponse, name)).queue


async def delete_queue(
    client: Linked, name: str, *, if_empty: bool = False, if_unused: bool = False, domain: str = ""
) -> int:
    """Deletes a queue; how many messages went with it. With `if_empty` refuses (NOT_EMPTY) when there are any.

    if_unused: refuse (INVALID_STATE) when clients are attached at either member. `domain`: as of update_queue.
    """
    request = admin.DeleteQueueRequest(
        name=name, request_id=new_request_id(), if_empty=if_empty, if_unused=if_unused, domain=domain
    )
    return (await queue_call(client, "DeleteQueue", request, admin.DeleteQueueResponse, name)).removed


async def purge_queue(client: Linked, name: str, *, domain: str = "") -> int:
    """Removes every message that is not leased; how many. `domain`: as of update_queue."""
    request = admin.PurgeQueueRequest(name=name, request_id=new_request_id(), domain=domain)
    return (await queue_call(client, "PurgeQueue", request, admin.PurgeQueueResponse, name)).removed


async def restore_queue(
    client: Linked, name: str, source: str = "", *, request_id: bytes = b"", timeout: float = RESTORE_TIMEOUT_S
) -> admin.RestoreQueueResponse:
    """Puts back what the queue held in `source`, a file in the backup directory of the master's machine.

    Refused (NOT_EMPTY) while the queue is open and holds messages. Without a source the member's own store is
    checked. A call that broke off is repeated with its request id: what it has put back does not enter again.
    """
    request = admin.RestoreQueueRequest(name=name, request_id=request_id or new_request_id(), source=source)
    wait = timedelta(seconds=timeout)
    return await queue_call(client, "RestoreQueue", request, admin.RestoreQueueResponse, name, wait)


async def configure_queue(client: Linked, name: str) -> admin.QueueInfo:
    """Ends the configuration phase: its type cannot be changed any more."""
    request = admin.ConfigureQueueRequest(name=name, request_id=new_request_id())
    return (await queue_call(client, "ConfigureQueue", request, admin.ConfigureQueueResponse, name)).queue


async def open_queue(client: Linked, name: str) -> admin.QueueInfo:
    """Opens a configured or closed queue on every member that holds it."""
    request = admin.OpenQueueRequest(name=name, request_id=new_request_id())
    return (await queue_call(client, "OpenQueue", request, admin.OpenQueueResponse, name)).queue


async def close_queue(client: Linked, name: str) -> admin.QueueInfo:
    """Sends its clients away on every member. Volatile messages go; persistent ones come back when it is opened."""
    request = admin.CloseQueueRequest(name=name, request_id=new_request_id())
    return (await queue_call(client, "CloseQueue", request, admin.CloseQueueResponse, name)).queue


async def create_alias(client: Linked, alias: str, name: str) -> admin.QueueInfo:
    """Gives queue `name` one more name."""
    request = admin.CreateAliasRequest(alias=alias, request_id=new_request_id(), name=name)
    return (await queue_call(client, "CreateAlias", request, admin.CreateAliasResponse, name)).queue


async def delete_alias(client: Linked, alias: str) -> None:
    """Takes such a name away; the queue stays."""
    request = admin.DeleteAliasRequest(alias=alias, request_id=new_request_id())
    await queue_call(client, "DeleteAlias", request, admin.DeleteAliasResponse, alias)


async def get_defaults(client: Linked, domain: str = "") -> admin.GetDefaultsResponse:
    """What a new queue of the domain gets for what its creator leaves unset."""
    request = admin.GetDefaultsRequest(domain=domain)
    return await queue_call(client, "GetDefaults", request, admin.GetDefaultsResponse, "")


async def update_defaults(
    client: Linked, config: admin.QueueConfig, fields: Sequence[str], *, domain: str = "", expected_version: int = 0
) -> admin.UpdateDefaultsResponse:
    """Changes that, for queues made from now on. A named field that is unset goes back to the profile's.

    With `expected_version` refuses (VERSION_MISMATCH) when they were changed since that version.
    """
    request = admin.UpdateDefaultsRequest(
        domain=domain,
        request_id=new_request_id(),
        config=config,
        update_mask=FieldMask(paths=fields),
        expected_version=expected_version,
    )
    return await queue_call(client, "UpdateDefaults", request, admin.UpdateDefaultsResponse, "")


# -- what goes through a queue: it may take long. What a call has done stays done when it breaks off; repeated with the
# same request id, by whomever and at either member, it goes on behind that, and answers with the totals of the whole.


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


# -- the manager and the pair ----------------------------------------------------------------------------------------


async def manager_info(client: Linked) -> manager.GetManagerResponse:
    """Versions, limits and totals of the first member that answers."""
    request = manager.GetManagerRequest()
    return await client.links.own.caller.call(MANAGER_SERVICE + "GetManager", request, manager.GetManagerResponse)


async def pair_status(client: Linked, *, timeout: float = STATUS_TIMEOUT_S) -> list[MemberAnswer]:
    """What every endpoint says of the pair, asked at once, each for itself and once, for at most `timeout` seconds.

    Members may disagree: that is what this call is for. Never raises for a member that does not answer.
    """
    members = client.links.own.members
    await members.located()
    endpoints = members.endpoints("main")
    answers = list(await asyncio.gather(*(_status_of(client, endpoint, timeout) for endpoint in endpoints)))
    asked = {*endpoints, *(answer.status.member.endpoint for answer in answers if answer.status is not None)}
    others = dict.fromkeys(
        answer.status.peer_endpoint
        for answer in answers
        if answer.status is not None and answer.status.peer_endpoint and answer.status.peer_endpoint not in asked
    )
    answers += await asyncio.gather(*(_status_of(client, endpoint, timeout) for endpoint in others))
    return answers


async def handoff(
    client: Linked, domain: str = "", *, to: str = "", dry_run: bool = False, reason: str = ""
) -> Handoff:
    """Asks the first member of this client to move the mastership of a domain (empty: main), without loss.

    to: the member that is to be master; empty: the one that is not. A refusal is an answer: `done` is false,
    `reasons` says why, and nothing was changed. Sent once: repeating it could move the mastership back.
    """
    members = client.links.own.members
    await members.located()
    request = pair.HandoffRequest(domain=domain, to=to, dry_run=dry_run, reason=reason)
    path = PAIR_SERVICE + "Handoff"
    return await client.links.own.caller.once(members.named[0], path, request, pair.HandoffResponse, HANDOFF_TIMEOUT_S)


async def _status_of(client: Linked, endpoint: str, timeout: float) -> MemberAnswer:
    request, reply = pair.GetPairStatusRequest(), pair.GetPairStatusResponse
    try:
        status = await client.links.own.caller.once(endpoint, PAIR_SERVICE + "GetPairStatus", request, reply, timeout)
    except TandemqError as error:
        return MemberAnswer(endpoint, None, error)
    client.links.own.members.learn(status.header)
    return MemberAnswer(endpoint, status, None)


async def queue_call(
    client: Linked, verb: str, request: Message, reply: type[Reply], queue: str, wait: timedelta | None = None
) -> Reply:
    """One call of the administration of queues, repeated by the client's policy."""
    return await client.links.own.caller.call(ADMIN_SERVICE + verb, request, reply, queue=queue, wait=wait)
