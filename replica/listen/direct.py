"""Calls from a client in the manager's own process and event loop: handlers are called with the request's bytes.

No socket is opened and nothing is sent anywhere. Callers see what grpc.aio shows them: statuses, trailers, deadlines,
cancellation, and a writer that waits while the other side does not read. Decides nothing about any call.

What a caller sees (`CallerSide`, `MultiCallables`) and how a handler is found and run (`Handlers`) are apart from how
a message comes to the other side: the simulator has a network between the two.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import grpc
import grpc.aio

WINDOW_BYTES = 1 << 20
"""Written and not read yet; beyond it the writer waits. One message may be larger than this."""
PEER = "inproc:direct"
"""What a handler gets as the place of its caller, unless somebody else is behind it: this process."""
LOCALLY = "Locally cancelled by application!"

Metadata = tuple[tuple[str, str | bytes], ...]


class Ending(NamedTuple):
    """How a call ended."""

    code: grpc.StatusCode
    details: str = ""
    trailers: Metadata = ()


STOPPED = Ending(grpc.StatusCode.UNAVAILABLE, "the manager has stopped")


class Pipe:
    """Messages in one direction of a call, in order, and behind them the end."""

    __slots__ = ("_getter", "_items", "_putter", "_used", "ended")

    def __init__(self) -> None:
        self._items: deque[bytes] = deque()
        self._used = 0
        self.ended = False
        """Nothing is put any more; what is there may be read."""
        self._getter: asyncio.Future[None] | None = None
        self._putter: asyncio.Future[None] | None = None

    async def put(self, data: bytes) -> None:
        """Waits for room; what comes after the end is dropped."""
        while self._used > WINDOW_BYTES and not self.ended:
            self._putter = asyncio.get_running_loop().create_future()
            await self._putter
        self.push(data)

    def push(self, data: bytes) -> None:
        """Without a look at how much room there is."""
        if not self.ended:
            self._items.append(data)
            self._used += len(data)
            _wake(self._getter)

    async def get(self) -> bytes | None:
        """The next message; None: there is none any more."""
        while not self._items:
            if self.ended:
                return None
            self._getter = asyncio.get_running_loop().create_future()
            await self._getter
        data = self._items.popleft()
        self._used -= len(data)
        if self._used <= WINDOW_BYTES:
            _wake(self._putter)
        return data

    def end(self, *, drop: bool = False) -> None:
        """`drop`: what was not read is gone."""
        self.ended = True
        if drop:
            self._items.clear()
        _wake(self._getter)
        _wake(self._putter)


def _wake(waiter: asyncio.Future[None] | None) -> None:
    if waiter is not None and not waiter.done():
        waiter.set_result(None)


class HandlerSide:
    """A handler's side of one call, in the shape of grpc.aio.ServicerContext."""

    def __init__(self, metadata: Metadata, deadline_s: float | None, peer: str) -> None:
        self._peer = peer
        self.requests, self.replies = Pipe(), Pipe()
        self.ending: Ending | None = None
        """What the handler said; its caller may have ended the call before."""
        self._metadata = metadata
        self._deadline_s = deadline_s

    async def read(self) -> Any:
        data = await self.requests.get()
        return grpc.aio.EOF if data is None else data

    async def write(self, message: bytes) -> None:
        await self.replies.put(message)

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()) -> None:
        self.ending = Ending(code, details, tuple(trailing_metadata))
        raise grpc.aio.AbortError("Locally aborted.")

    def code(self) -> int:
        """0: it was not refused."""
        return int(self.ending.code.value[0]) if self.ending is not None else 0

    def details(self) -> str:
        return self.ending.details if self.ending is not None else ""

    def invocation_metadata(self) -> Metadata:
        return self._metadata

    def time_remaining(self) -> float | None:
        if self._deadline_s is None:
            return None
        return max(0.0, self._deadline_s - asyncio.get_running_loop().time())

    def peer(self) -> str:
        return self._peer


class CallerSide(ABC):
    """A caller's side of one call, in the shape of grpc.aio.StreamStreamCall.

    put: hands a message on; waits for room. take: the next message; None: there is none any more.
    """

    def __init__(
        self,
        serialize: Callable[[Any], bytes] | None,
        parse: Callable[[bytes], Any] | None,
        put: Callable[[bytes], Awaitable[None]],
        take: Callable[[], Awaitable[bytes | None]],
    ) -> None:
        self._serialize, self._parse = serialize, parse
        self._put, self._take = put, take
        self._over: asyncio.Future[Ending] = asyncio.get_running_loop().create_future()
        """Known to this side, which may be before the messages in front of it are read."""
        self._half_closed = False
        self._timer: asyncio.TimerHandle | None = None

    @abstractmethod
    def give_up(self, ending: Ending) -> bool:
        """Over from this side: the handler is cancelled, and what was not read is gone. False: it was over before."""

    @abstractmethod
    def ask(self, request: Any) -> None:
        """The one request of a call that has no more; it waits for no room."""

    @abstractmethod
    async def done_writing(self) -> None:
        """No message follows."""

    def _limit(self, timeout_s: float | None) -> None:
        """It is given up when that time is over."""
        if timeout_s is not None and not self._over.done():
            late = Ending(grpc.StatusCode.DEADLINE_EXCEEDED, "Deadline Exceeded")
            self._timer = asyncio.get_running_loop().call_later(max(0.0, timeout_s), self.give_up, late)

    def done(self) -> bool:
        return self._over.done()

    def cancelled(self) -> bool:
        return self._over.done() and self._over.result().code is grpc.StatusCode.CANCELLED

    def cancel(self) -> bool:
        """The handler is cancelled; this side is over at once."""
        return self.give_up(Ending(grpc.StatusCode.CANCELLED, LOCALLY))

    async def write(self, message: Any) -> None:
        """Raises InvalidStateError when the call is over."""
        if self._over.done() or self._half_closed:
            raise asyncio.InvalidStateError("RPC already finished.")
        try:
            await self._put(self._serialize(message) if self._serialize is not None else message)
        except asyncio.CancelledError:
            self.cancel()
            raise
        if self._over.done():
            self._raise_for_status()

    async def read(self) -> Any:
        """The next message, or EOF; raises AioRpcError when the call failed."""
        try:
            data = await self._take()
        except asyncio.CancelledError:
            self.cancel()
            raise
        if data is None:
            await self._ended()
            self._raise_for_status()
            return grpc.aio.EOF
        return self._parse(data) if self._parse is not None else data

    async def reply(self) -> Any:
        """Of a call that has one."""
        message = await self.read()
        if message is grpc.aio.EOF:
            raise _error_of(Ending(grpc.StatusCode.INTERNAL, "no reply"))
        return message

    async def __aiter__(self) -> AsyncIterator[Any]:
        while (message := await self.read()) is not grpc.aio.EOF:
            yield message

    async def code(self) -> grpc.StatusCode:
        return (await self._ended()).code

    async def details(self) -> str:
        return (await self._ended()).details

    async def initial_metadata(self) -> grpc.aio.Metadata:
        return grpc.aio.Metadata()

    async def trailing_metadata(self) -> grpc.aio.Metadata:
        return grpc.aio.Metadata(*(await self._ended()).trailers)

    async def _ended(self) -> Ending:
        return await asyncio.shield(self._over)

    def _raise_for_status(self) -> None:
        ending = self._over.result()
        if ending.code is grpc.StatusCode.CANCELLED and ending.details == LOCALLY:
            raise asyncio.CancelledError
        if ending.code is not grpc.StatusCode.OK:
            raise _error_of(ending)


def _error_of(ending: Ending) -> grpc.aio.AioRpcError:
    trailers = grpc.aio.Metadata(*ending.trailers)
    return grpc.aio.AioRpcError(ending.code, grpc.aio.Metadata(), trailers, ending.details, ending.details)


Made = TypeVar("Made", bound=CallerSide)


class MultiCallables(ABC, Generic[Made]):
    """The calls of grpc.aio.Channel, each made by `_begin`."""

    @abstractmethod
    def _begin(
        self,
        path: str,
        serialize: Callable[[Any], bytes] | None,
        parse: Callable[[bytes], Any] | None,
        metadata: Metadata,
        timeout_s: float | None,
    ) -> Made:
        """A new call."""

    def stream_stream(
        self, path: str, request_serializer: Any = None, response_deserializer: Any = None, **_: object
    ) -> Callable[..., Made]:
        def call(_requests: object = None, *, metadata: Any = None, timeout: float | None = None) -> Made:
            return self._begin(path, request_serializer, response_deserializer, tuple(metadata or ()), timeout)

        return call

    def unary_stream(
        self, path: str, request_serializer: Any = None, response_deserializer: Any = None, **_: object
    ) -> Callable[..., Made]:
        def call(request: Any, *, metadata: Any = None, timeout: float | None = None) -> Made:
            made = self._begin(path, request_serializer, response_deserializer, tuple(metadata or ()), timeout)
            made.ask(request)
            return made

        return call

    def unary_unary(
        self, path: str, request_serializer: Any = None, response_deserializer: Any = None, **_: object
    ) -> Callable[..., Any]:
        streamed = self.unary_stream(path, request_serializer, response_deserializer)

        async def call(request: Any, *, metadata: Any = None, timeout: float | None = None) -> Any:
            made = streamed(request, metadata=metadata, timeout=timeout)
            try:
                return await made.reply()
            finally:
                made.cancel()

        return call


class Handlers:
    """Found by the path of a call."""

    def __init__(self, handlers: Sequence[grpc.GenericRpcHandler] = ()) -> None:
        self._handlers = list(handlers)
        self._known: dict[str, Any] = {}

    def extend(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        """Before the first call."""
        self._handlers.extend(handlers)

    def find(self, path: str) -> Any:
        """A grpc.RpcMethodHandler; None: there is none."""
        if path not in self._known:
            found = (handler.service(_CallDetails(path)) for handler in self._handlers)
            self._known[path] = next((handler for handler in found if handler is not None), None)
        return self._known[path]


async def handle(handler: Any, context: Any) -> None:
    """Runs it for one call; `context` reads, writes and aborts as a grpc.aio.ServicerContext does."""
    if handler.request_streaming:
        await handler.stream_stream(None, context)
    elif handler.response_streaming:
        await handler.unary_stream(await context.read(), context)
    else:
        await context.write(await handler.unary_unary(await context.read(), context))


class _CallDetails:
    """What a handler is found by."""

    def __init__(self, method: str) -> None:
        self.method = method
        self.invocation_metadata: Any = ()


class DirectCall(CallerSide):
    """One that goes straight to its handler."""

    def __init__(
        self,
        server: DirectServer,
        path: str,
        serialize: Callable[[Any], bytes] | None,
        parse: Callable[[bytes], Any] | None,
        metadata: Metadata,
        timeout_s: float | None,
        peer: str,
    ) -> None:
        deadline_s = None if timeout_s is None else asyncio.get_running_loop().time() + max(0.0, timeout_s)
        self._served = served = HandlerSide(metadata, deadline_s, peer)
        super().__init__(serialize, parse, served.requests.put, served.replies.get)
        self._handling = server.begin(served, path, self._on_end)
        self._limit(timeout_s)

    def give_up(self, ending: Ending) -> bool:
        if self._over.done():
            return False
        self._on_end(ending, drop=True)
        if self._handling is not None:
            self._handling.cancel()
        return True

    def _on_end(self, ending: Ending, *, drop: bool = False) -> None:
        if self._over.done():
            return
        if self._timer is not None:
            self._timer.cancel()
        self._over.set_result(ending)
        self._served.requests.end(drop=True)
        self._served.replies.end(drop=drop)

    def when_over(self, then: Callable[[DirectCall], object]) -> None:
        self._over.add_done_callback(lambda _: then(self))

    def ask(self, request: Any) -> None:
        self._served.requests.push(self._serialize(request) if self._serialize is not None else request)
        self._half_closed = True
        self._served.requests.end()

    async def done_writing(self) -> None:
        self._half_closed = True
        self._served.requests.end()


class DirectServer:
    """The handlers of one manager, as long as it serves."""

    def __init__(self, handlers: Sequence[grpc.GenericRpcHandler]) -> None:
        self._handlers = Handlers(handlers)
        self._loop = asyncio.get_running_loop()
        self._under_way: dict[asyncio.Task[None], Callable[..., None]] = {}
        self._open = True

    def channel(self, peer: str = PEER) -> DirectChannel:
        """A new channel; it outlives the manager and then answers UNAVAILABLE.

        peer: who calls, for an application that passes on the calls of others.
        """
        return DirectChannel(self, peer)

    def begin(self, served: HandlerSide, path: str, on_end: Callable[..., None]) -> asyncio.Task[None] | None:
        """Runs the handler; `on_end` is called with how it ended. None: there is nothing to run, and it was called."""
        if asyncio.get_running_loop() is not self._loop:
            raise RuntimeError("a client of an embedded manager belongs to the event loop that runs the manager")
        handler = self._handlers.find(path)
        if not self._open or handler is None:
            on_end(STOPPED if not self._open else Ending(grpc.StatusCode.UNIMPLEMENTED, f"no method {path}"))
            return None
        task = self._loop.create_task(handle(handler, served))
        self._under_way[task] = on_end
        task.add_done_callback(lambda done: self._ended(done, served))
        return task

    def _ended(self, task: asyncio.Task[None], served: HandlerSide) -> None:
        on_end = self._under_way.pop(task)
        error = None if task.cancelled() else task.exception()
        if task.cancelled():
            on_end(STOPPED, drop=True)
        elif error is None:
            on_end(Ending(grpc.StatusCode.OK))
        elif isinstance(error, grpc.aio.AbortError):
            assert served.ending is not None
            on_end(served.ending)
        else:
            on_end(Ending(grpc.StatusCode.UNKNOWN, f"Unexpected {type(error)}: {error}"))

    async def close(self, grace_s: float) -> None:
        """Calls under way may end within that time; then they end as with a broken connection: in doubt."""
        self._open = False
        if self._under_way:
            await asyncio.wait(list(self._under_way), timeout=grace_s)
        for task, on_end in list(self._under_way.items()):
            on_end(STOPPED, drop=True)
            task.cancel()
        await asyncio.gather(*self._under_way, return_exceptions=True)


class DirectChannel(MultiCallables[DirectCall]):
    """A client's way in, in the shape of grpc.aio.Channel. The client belongs to the manager's event loop."""

    def __init__(self, server: DirectServer, peer: str) -> None:
        self._server, self._peer = server, peer
        self._calls: set[DirectCall] = set()

    def _begin(
        self,
        path: str,
        serialize: Callable[[Any], bytes] | None,
        parse: Callable[[bytes], Any] | None,
        metadata: Metadata,
        timeout_s: float | None,
    ) -> DirectCall:
        call = DirectCall(self._server, path, serialize, parse, metadata, timeout_s, self._peer)
        self._calls.add(call)
        call.when_over(self._calls.discard)
        return call

    async def close(self, grace: float | None = None) -> None:  # noqa: ARG002  # grpc.aio's signature
        """Calls under way end in CANCELLED."""
        for call in list(self._calls):
            call.cancel()
