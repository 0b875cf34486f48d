"""Carries out what concerns a queue's state, its other names and the manager's defaults; decides nothing."""

from __future__ import annotations

from collections.abc import Sequence

from google.protobuf.field_mask_pb2 import FieldMask

from tandemq.client.admin import queue_call
from tandemq.client.identity import new_request_id
from tandemq.client.links import Linked
from tandemq.v1 import queue_admin_service_pb2 as admin


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
