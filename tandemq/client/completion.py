"""What became of sent messages: handles, levels, answers, and how a client asks. It decides nothing.

A handle is 16 bytes that outlive the client and a failover: keep `Handle.value`, and ask again with `client.handle`.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import timedelta
from enum import IntEnum
from typing import Protocol, Unpack

from tandemq.client.calls import QUEUE_SERVICE
from tandemq.client.completion_watch import HANDLES_PER_CALL, Watch
from tandemq.client.delivery import ReceivedMessage
from tandemq.client.identity import new_request_id
from tandemq.client.links import Linked, Links
from tandemq.client.outgoing import Attributes, to_message
from tandemq.client.parts import RowsPart
from tandemq.client.waits import FOREVER, Wait, to_wait
from tandemq.errors import ResourceExhausted, TandemqError, TimedOut, to_error
from tandemq.v1 import message_pb2, queue_service_pb2

WAIT_SLICE = timedelta(seconds=30)  # of one call: a member that went silent is left by then


class Reached(IntEnum):
    """How far a message has come. Values of tandemq.v1.Completion."""

    UNKNOWN = 0
    ACCEPTED = 1  # in memory of the member that took it
    STORED = 2  # ordered, and held by every member that must hold it
    RECEIVED = 3  # acknowledged by a consumer, or removed at delivery
    REPLIED = 4  # answered


class Final(IntEnum):
    """How a message has ended. Values of tandemq.v1.FinalState."""

    NONE = 0
    CONSUMED = 1
    REPLIED = 2
    REJECTED = 3
    EXPIRED = 4
    DEAD_LETTERED = 5
    PURGED = 6
    REPLY_TIMEOUT = 7
    DROPPED = 8
    LOST = 9
    REACTED = 10


@dataclass(frozen=True, slots=True)
class Completion:
    """What is known of one message."""

    handle: bytes
    reached: Reached = Reached.UNKNOWN
    final: Final = Final.NONE
    completed: bool = False  # nothing more is reported: it reached the level of its queue's type, or ended otherwise
    reply: ReceivedMessage | None = None  # TWO_WAY: the answer
    error: TandemqError | None = None  # the handle is not known, or no longer

    @property
    def succeeded(self) -> bool:
        """It is completed as its sender wished: not rejected, expired, purged, lost or left unanswered."""
        return self.completed and self.final in (Final.NONE, Final.CONSUMED, Final.REPLIED)


def completion_of(queue: str, status: queue_service_pb2.CompletionStatus) -> Completion:
    """From the wire."""
    reply = None
    if status.HasField("reply"):
        row = message_pb2.DeliveredMessage(queue=queue, message=status.reply)
        reply = ReceivedMessage(queue, RowsPart([row]), 0)
    return Completion(
        status.handle,
        Reached(status.completion) if status.completion in Reached._value2member_map_ else Reached.UNKNOWN,
        Final(status.final_state) if status.final_state in Final._value2member_map_ else Final.NONE,
        status.completed,
        reply,
        to_error(status.error) if status.HasField("error") else None,
    )


class Handle:
    """One sent message, to ask for later. `completion` is what was known when it was asked last."""

    __slots__ = ("_client", "completion", "id", "index", "queue", "value")

    def __init__(self, client: Linked, queue: str, value: bytes, index: int = 0, message_id: bytes = b"") -> None:
        self._client = client
        self.queue = queue
        self.value = value  # 16 bytes; empty when the message is only ACCEPTED
        self.index = index  # ordering index; 0 when it is not known
        self.id = message_id
        self.completion = Completion(value)

    async def check(self) -> Completion:
        """What is known now. Raises NotFound (INVALID_HANDLE) when it ended longer ago than completion_retention."""
        return await self.wait(0)

    async def wait(self, timeout: Wait | None = -1) -> Completion:
        """When it has ended, or what is known when the time is over; -1, the default, waits for ever."""
        if self.value and not self.completion.completed:
            (self.completion,) = await wait_completions(self._client, self.queue, [self.value], timeout)
        if self.completion.error is not None:
            raise self.completion.error
        return self.completion

    def __repr__(self) -> str:
        return f"Handle({self.queue!r}, {self.value.hex()}, {self.completion.reached.name})"


OnCompletion = Callable[[Handle, Completion], None]


class Callbacks:
    """The senders of one client who want to be called when their message has ended: one watch a queue."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._watches: dict[str, tuple[Watch, dict[bytes, list[tuple[Handle, OnCompletion]]], asyncio.Task[None]]] = {}

    def add(self, handle: Handle, notify: OnCompletion) -> None:
        """Calls it once, in the loop, when the message has ended."""
        if handle.completion.completed or not handle.value:
            asyncio.get_running_loop().call_soon(notify, handle, handle.completion)
            return
        known = self._watches.get(handle.queue)
        if known is None or known[2].done():
            watch = _watch(self._links, handle.queue, stays=True)
            known = self._watches[handle.queue] = (watch, {}, asyncio.ensure_future(self._run(watch, handle.queue)))
        known[1].setdefault(handle.value, []).append((handle, notify))
        known[0].add([handle.value])

    async def close(self) -> None:
        """Nobody is called any more."""
        tasks = [task for _, _, task in self._watches.values()]
        self._watches.clear()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, watch: Watch, queue: str) -> None:
        """Until it is closed, or the watch fails for good. The loop calls them: one that raises is reported there, and
        keeps nobody else from being called.
        """
        call_soon = asyncio.get_running_loop().call_soon
        task = asyncio.ensure_future(watch.run())
        try:
            async for status in watch.statuses(task):
                completion = completion_of(queue, status)
                for handle, notify in self._watches[queue][1].pop(status.handle, ()):
                    handle.completion = completion
                    call_soon(notify, handle, completion)
        except TandemqError as error:
            for value, waiting in self._watches[queue][1].items():
                for handle, notify in waiting:
                    call_soon(notify, handle, Completion(value, error=error))
            self._watches[queue][1].clear()
        finally:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)


class Sender(Linked, Protocol):
    """A client, as `send` sees it."""

    @property
    def callbacks(self) -> Callbacks: ...


def _watch(links: Links, queue: str, *, stays: bool = False) -> Watch:
    (_, caller), name = links.at(queue)
    return Watch(caller, name, stays=stays)


async def send(
    client: Sender,
    queue: str,
    payload: bytes,
    *,
    wait: Wait | None = None,
    on_completion: OnCompletion | None = None,
    min_copies: int = 0,
    request_id: bytes | None = None,
    **attributes: Unpack[Attributes],
) -> Handle:
    """Sends one message by one call; the handle tells what becomes of it.

    wait: how long to wait for room in a full queue, and then for the level that completes the queue's type
        (received, answered); seconds, -1 for ever, by default not at all. What is reached by then is in
        `Handle.completion`: an expired wait is no error. A queue of type ONE_WAY ignores it.
    on_completion: called once, in the client's loop, when the message has ended: with the handle and what it ended
        as, or with `Completion.error`. It must not block.
    Raises what the queue refuses it for.
    """
    waits = to_wait(wait)
    request = queue_service_pb2.EnqueueRequest(
        queue=queue,
        request_id=request_id or new_request_id(),
        messages=[to_message(payload, attributes)],
        min_copies=min_copies,
        epoch=client.links.epoch_of(queue),
    )
    if waits:
        request.wait.FromTimedelta(waits)
    reply = await client.links.own.caller.call(
        QUEUE_SERVICE + "Enqueue", request, queue_service_pb2.EnqueueResponse, queue=queue, wait=waits
    )
    (result,) = reply.results
    if result.HasField("error"):
        raise to_error(result.error)
    handle = Handle(client, queue, result.handle, result.index, result.id)
    status = queue_service_pb2.CompletionStatus(
        handle=result.handle,
        completion=result.completion,
        final_state=result.final_state,
        completed=result.completed,
    )
    if result.HasField("reply"):
        status.reply.CopyFrom(result.reply)
    handle.completion = completion_of(queue, status)
    if on_completion is not None:
        client.callbacks.add(handle, on_completion)
    return handle


async def call(
    client: Sender, queue: str, payload: bytes, timeout: Wait | None = 30.0, **attributes: Unpack[Attributes]
) -> ReceivedMessage:
    """Sends a request to a TWO_WAY queue and waits for its answer. Raises TimedOut when there is none in time, and
    ResourceExhausted, NotFound or another refusal as `send` does; a request that was rejected, has expired or was
    not answered in the queue's reply_timeout raises TimedOut as well, with the reason in its metadata.
    """
    handle = await send(client, queue, payload, wait=timeout, **attributes)
    found = handle.completion
    if found.reply is None and found.final is Final.REPLIED:  # it came a moment after the wait
        handle.completion = replace(found, completed=False)
        found = await handle.check()
    if found.reply is not None:
        return found.reply
    how = f"ended as {found.final.name}" if found.completed else "has no answer yet"
    raise TimedOut(
        "DEADLINE_EXCEEDED",
        f"request {handle.index} of {queue} {how}",
        {"final_state": found.final.name, "handle": handle.value.hex()},
    )


def handle(client: Linked, queue: str, value: bytes) -> Handle:
    """A handle that was kept: 16 bytes of `Handle.value`, from this client or another one."""
    return Handle(client, queue, value)


async def check_completions(client: Linked, queue: str, handles: Iterable[bytes]) -> list[Completion]:
    """What is known of messages now, one for each handle; unknown ones have an error."""
    return await wait_completions(client, queue, handles, 0)


async def wait_completions(
    client: Linked, queue: str, handles: Iterable[bytes], timeout: Wait | None = -1
) -> list[Completion]:
    """When all of them have ended, or what is known when the time is over; -1, the default, waits for ever."""
    wanted = list(dict.fromkeys(handles))
    loop = asyncio.get_running_loop()
    until = loop.time() + to_wait(timeout).total_seconds()
    found: dict[bytes, Completion] = {}
    while left := [handle for handle in wanted if _is_open(found.get(handle))]:
        wait = min(timedelta(seconds=max(0.0, until - loop.time())), WAIT_SLICE)
        for at in range(0, len(left), HANDLES_PER_CALL):
            for completion in await _ask(client, queue, left[at : at + HANDLES_PER_CALL], wait):
                found[completion.handle] = completion
        if loop.time() >= until and not any(_is_left_out(completion) for completion in found.values()):
            break
    return [found[handle] for handle in wanted]


async def _ask(client: Linked, queue: str, handles: Sequence[bytes], wait: timedelta) -> list[Completion]:
    request = queue_service_pb2.WaitCompletionRequest(queue=queue, handles=handles)
    request.wait.FromTimedelta(wait)
    reply = await client.links.own.caller.call(
        QUEUE_SERVICE + "WaitCompletion", request, queue_service_pb2.WaitCompletionResponse, queue=queue, wait=wait
    )
    return [completion_of(queue, status) for status in reply.statuses]


async def completions(client: Linked, queue: str, handles: Iterable[bytes | Handle]) -> AsyncIterator[Completion]:
    """Each message once, when it has ended, in the order of the ends. Goes on at another member."""
    watch = _watch(client.links, queue)
    watch.add(handle.value if isinstance(handle, Handle) else handle for handle in handles)
    task = asyncio.ensure_future(watch.run())
    try:
        async for status in watch.statuses(task):
            yield completion_of(queue, status)
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def reply(
    client: Linked,
    queue: str,
    lease_id: int,
    index: int,
    payload: bytes,
    *,
    request_id: bytes | None = None,
    **attributes: Unpack[Attributes],
) -> bool:
    """TWO_WAY: answers a request that was dequeued; a consumer has `reply` of its own. True: repeated."""
    request = queue_service_pb2.ReplyRequest(
        queue=queue,
        request_id=request_id or new_request_id(),
        lease_id=lease_id,
        index=index,
        message=to_message(payload, attributes),
        epoch=client.links.epoch_of(queue),
    )
    reply = await client.links.own.caller.call(
        QUEUE_SERVICE + "Reply", request, queue_service_pb2.ReplyResponse, queue=queue
    )
    return reply.duplicate


def _is_left_out(completion: Completion) -> bool:
    """Its answer did not fit into the frame."""
    return isinstance(completion.error, ResourceExhausted)


def _is_open(completion: Completion | None) -> bool:
    return completion is None or _is_left_out(completion) or not (completion.completed or completion.error)


__all__ = ["FOREVER", "Callbacks", "Completion", "Final", "Handle", "Reached", "completion_of"]
