"""The blocking form of the calls that go through a queue; see `admin_moves`."""

from __future__ import annotations

from tandemq.client import aio
from tandemq.client.admin_moves import MOVE_TIMEOUT_S
from tandemq.client.filtering import Where
from tandemq.client.loop_thread import LoopThread
from tandemq.v1 import queue_admin_service_pb2 as admin


class Moves:
    """Part of the blocking client."""

    _inner: aio.Client
    _thread: LoopThread

    def move_messages(
        self,
        name: str,
        to: str,
        where: str | Where | None = None,
        *,
        max_messages: int = 0,
        request_id: bytes = b"",
        timeout: float = MOVE_TIMEOUT_S,
    ) -> admin.MoveMessagesResponse:
        """Moves what is in the queue now, or what fits, to another queue of the same domain, the oldest first."""
        call = self._inner.move_messages(
            name, to, where, max_messages=max_messages, request_id=request_id, timeout=timeout
        )
        return self._thread.run(call)

    def redrive_queue(
        self,
        name: str,
        to: str = "",
        where: str | Where | None = None,
        *,
        max_messages: int = 0,
        request_id: bytes = b"",
        timeout: float = MOVE_TIMEOUT_S,
    ) -> admin.RedriveQueueResponse:
        """Moves dead letters back to the queues that they came from, or all of them to `to`."""
        call = self._inner.redrive_queue(
            name, to, where, max_messages=max_messages, request_id=request_id, timeout=timeout
        )
        return self._thread.run(call)

    def delete_messages(
        self,
        name: str,
        where: str | Where,
        *,
        max_messages: int = 0,
        request_id: bytes = b"",
        timeout: float = MOVE_TIMEOUT_S,
    ) -> admin.DeleteMessagesResponse:
        """Removes what fits of what is in the queue now, the oldest first."""
        call = self._inner.delete_messages(
            name, where, max_messages=max_messages, request_id=request_id, timeout=timeout
        )
        return self._thread.run(call)
