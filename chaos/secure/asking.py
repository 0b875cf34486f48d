"""Asks a pair every call of the table, as everybody, about every queue; says what came of each, and judges nothing."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Collection, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import grpc
import grpc.aio
from google.protobuf import descriptor_pool, message_factory
from google.protobuf.descriptor import MethodDescriptor

from chaos.secure.calls import CALLS, IDENTITY, QUEUE, Call
from chaos.secure.rights import Answer
from tandemq.credentials.chosen import opener_of
from tandemq.credentials.files import TOKEN
from tandemq.errors import from_rpc_error

PACKAGE = "tandemq.v1."
AT_ONCE = 8
CALL_S, PATIENCE_S, AGAIN_S = 20.0, 60.0, 0.2
"""Bound of a call; how long one is repeated that nobody could answer, and the pause before it is."""


class Asked(NamedTuple):
    """One cell of the table."""

    place: str
    """Where it was asked: at the master, at the replica after a kill, ..."""
    principal: str
    call: str
    """Its name."""
    queue: str
    """Empty: the pair."""
    answer: Answer
    said: str
    """The reason, or OK."""


class Doors:
    """A channel to each member for each principal. Ends with `close`."""

    def __init__(self, credentials: Path, bearers: Mapping[str, str]) -> None:
        """`bearers`: by a member's endpoint that for clients with tokens; a directory says who is one."""
        self._credentials, self._bearers = credentials, bearers
        self._channels: dict[tuple[str, str], grpc.aio.Channel] = {}

    def channel(self, principal: str, endpoint: str) -> grpc.aio.Channel:
        """As that one, by its certificate or its token."""
        key = principal, endpoint
        if key not in self._channels:
            directory = self._credentials / principal
            dialled = self._bearers[endpoint] if (directory / TOKEN).exists() else endpoint
            self._channels[key] = opener_of(str(directory))(dialled, ())
        return self._channels[key]

    async def close(self) -> None:
        """All of them; the next are new ones."""
        for channel in self._channels.values():
            await channel.close()
        self._channels.clear()


class Question(NamedTuple):
    """Who asks what about which queue."""

    call: Call
    principal: str
    queue: str


def questions(principals: Collection[str], queues: Collection[str]) -> Iterator[Question]:
    """The whole table: principal x call x queue."""
    for principal in principals:
        for call in CALLS:
            for queue in queues if call.names_queue else ("",):
                yield Question(call, principal, queue)


async def ask_all(
    doors: Doors, place: str, endpoint: str, asked: Collection[Question], on_cell: Callable[[Asked], None]
) -> None:
    """Some at a time, all at one member."""
    rest = iter(asked)

    async def worker() -> None:
        for question in rest:
            channel = doors.channel(question.principal, endpoint)
            answer, said = await ask(channel, question.call, question.queue)
            on_cell(Asked(place, question.principal, question.call.name, question.queue, answer, said))

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(worker())


async def ask(channel: grpc.aio.Channel, call: Call, queue: str) -> tuple[Answer, str]:
    """What came of it, and the reason. One that nobody could answer is asked again: that is no decision."""
    deadline = asyncio.get_running_loop().time() + PATIENCE_S
    while True:
        said, text = await _once(channel, call, queue)
        answer = _answer(said, text, queue)
        if answer is not Answer.UNKNOWN or asyncio.get_running_loop().time() > deadline:
            return answer, said
        await asyncio.sleep(AGAIN_S)


UNANSWERED = frozenset(("UNAVAILABLE", "NOT_MASTER", "DEADLINE_EXCEEDED", "CANCELLED", "NO_MASTER"))


def _answer(said: str, text: str, queue: str) -> Answer:
    if said == "PERMISSION_DENIED":
        return Answer.DENIED
    if said == "QUEUE_NOT_FOUND" and text == f"there is no queue {queue!r}; create it first":
        return Answer.HIDDEN
    return Answer.UNKNOWN if said in UNANSWERED else Answer.ALLOWED


async def _once(channel: grpc.aio.Channel, call: Call, queue: str) -> tuple[str, str]:
    """OK or the reason, and the text beside it."""
    method = method_of(call.path)
    request = request_of(method, call.fields, queue)
    path = f"/{PACKAGE}{call.path}"
    try:
        if not method.server_streaming:
            unary: Any = channel.unary_unary(path)
            await unary(request, timeout=CALL_S)
            return "OK", ""
        many: Any = channel.stream_stream(path) if method.client_streaming else channel.unary_stream(path)
        stream = many(timeout=CALL_S) if method.client_streaming else many(request, timeout=CALL_S)
        if method.client_streaming:
            await stream.write(request)
        first = await stream.read()
        if first is grpc.aio.EOF and (code := await stream.code()) is not grpc.StatusCode.OK:
            error = grpc.aio.AioRpcError(
                code, await stream.initial_metadata(), await stream.trailing_metadata(), await stream.details()
            )
            raise error
        stream.cancel()
    except grpc.aio.AioRpcError as error:
        found = from_rpc_error(error)
        return found.reason or error.code().name, found.message
    return "OK", ""


def method_of(path: str) -> MethodDescriptor:
    """As the contract has it."""
    service, _, method = path.partition("/")
    found: MethodDescriptor = descriptor_pool.Default().FindServiceByName(PACKAGE + service).methods_by_name[method]
    return found


def request_of(method: MethodDescriptor, fields: Mapping[str, Any], queue: str) -> bytes:
    """The bytes of a request that is about this queue."""
    kind = message_factory.GetMessageClass(method.input_type)
    return bytes(kind(**_filled(fields, queue)).SerializeToString())


def _filled(part: Any, queue: str) -> Any:
    if isinstance(part, Mapping):
        return {name: _filled(each, queue) for name, each in part.items()}
    if isinstance(part, list):
        return [_filled(each, queue) for each in part]
    return queue if part == QUEUE else os.urandom(16) if part == IDENTITY else part
