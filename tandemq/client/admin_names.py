"""Carries out what concerns a queue's state, its other names and the manager's defaults; decides nothing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING, TypeVar

from google.protobuf.field_mask_pb2 import FieldMask
from google.protobuf.message import Message

from tandemq.client.identity import new_request_id
from tandemq.v1 import queue_admin_service_pb2 as admin

if TYPE_CHECKING:
    Reply = TypeVar("Reply", bound=Message)


class NamesAdmin(ABC):
    """Part of Admin; every call raises TandemqError."""

    @abstractmethod
    async def _queue_call(self, verb: str, request: Message, reply: type[Reply], queue: str) -> Reply:
        """One call, repeated by the client's policy."""

    async def configure_queue(self, name: str) -> admin.QueueInfo:
        """Ends the configuration phase: its type cannot be changed any more."""
        request = admin.ConfigureQueueRequest(name=name, request_id=new_request_id())
        return (await self._queue_call("ConfigureQueue", request, admin.ConfigureQueueResponse, name)).queue

    async def open_queue(self, name: str) -> admin.QueueInfo:
        """Opens a configured or closed queue on every member that holds it."""
        request = admin.OpenQueueRequest(name=name, request_id=new_request_id())
        return (await self._queue_call("OpenQueue", request, admin.OpenQueueResponse, name)).queue

    async def close_queue(self, name: str) -> admin.QueueInfo:
        """Sends its clients away on every member. Volatile messages go; persistent ones come back when it is opened."""
        request = admin.CloseQueueRequest(name=name, request_id=new_request_id())
        return (await self._queue_call("CloseQueue", request, admin.CloseQueueResponse, name)).queue

    async def create_alias(self, alias: str, name: str) -> admin.QueueInfo:
        """Gives queue `name` one more name."""
        request = admin.CreateAliasRequest(alias=alias, request_id=new_request_id(), name=name)
        return (await self._queue_call("CreateAlias", request, admin.CreateAliasResponse, name)).queue

    async def delete_alias(self, alias: str) -> None:
        """Takes such a name away; the queue stays."""
        request = admin.DeleteAliasRequest(alias=alias, request_id=new_request_id())
        await self._queue_call("DeleteAlias", request, admin.DeleteAliasResponse, alias)

    async def get_defaults(self, domain: str = "") -> admin.GetDefaultsResponse:
        """What a new queue of the domain gets for what its creator leaves unset."""
        request = admin.GetDefaultsRequest(domain=domain)
        return await self._queue_call("GetDefaults", request, admin.GetDefaultsResponse, "")

    async def update_defaults(
        self, config: admin.QueueConfig, fields: Sequence[str], *, domain: str = "", expected_version: int = 0
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
        return await self._queue_call("UpdateDefaults", request, admin.UpdateDefaultsResponse, "")
