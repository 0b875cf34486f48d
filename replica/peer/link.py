"""The connection to the peer: one channel, three streams, dialled by the member with the higher name. Carries frames;
decides nothing.

Data carries everything that must stay in order; Heartbeat is never behind it; Transfer is bulk. When any of them ends
the connection is over for all three, and nothing of it crosses into the next one (P13).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Any, Protocol

import grpc
from google.protobuf.message import DecodeError

from replica.peer.identity.certified import problem_of_caller
from replica.peer.identity.duplicates import (
    SEEN_PROCESS,
    SEEN_START,
    LastConnection,
    PeerInfo,
    PeerRefused,
    check_process,
    has_moved,
    other_start,
)
from replica.peer.identity.starts import NUMBER_MAX, Start
from replica.peer.keepalive import keepalive
from replica.peer.session import PeerStream, Session, check_hello
from replica.peer.wire import PeerStub
from replica.rpc.refusals import abort, refusal
from tandemq import refusing
from tandemq.ambient import monotonic_ms
from tandemq.channels import expecting, lasting
from tandemq.credentials import names
from tandemq.errors import from_rpc_error
from tandemq.peer.v1.peer_service_pb2 import HeartbeatFrame, Hello, PeerFrame, TransferFrame
from tandemq.peer.v1.peer_service_pb2_grpc import PeerServiceServicer
from tandemq.v1.common_pb2 import Reason

if TYPE_CHECKING:
    from collections.abc import Callable

    from replica.node.loop import Node
    from replica.node.network import Network
    from replica.peer.session import Current, SessionListener
    from tandemq.errors import TandemqError

log = logging.getLogger("tandemq.link")

REDIAL_S = 0.1
HELLO_TIMEOUT_S = 2.0
FRAME_BYTES_MAX = 32 << 20
"""A frame of records (2 MiB) plus one whole batch of the largest size, with room."""
DIGITS_MAX = len(str(NUMBER_MAX))

CHANNEL_OPTIONS = lasting(
    {
        "grpc.max_send_message_length": FRAME_BYTES_MAX,
        "grpc.max_receive_message_length": FRAME_BYTES_MAX,
        "grpc.min_reconnect_backoff_ms": int(HELLO_TIMEOUT_S * 1000),  # a channel is for one attempt
        "grpc.enable_retries": 0,
    }
)


def dials(member: str, peer: str) -> bool:
    """Whether that member calls the other one: one rule for both, so that two dials never cross."""
    return member > peer


class Identity(Protocol):
    """Which start of this member counts; see `replica.peer.identity.proving`."""

    @property
    def counted(self) -> bool:
        """A third voice counts the starts of both members."""

    def on_refused(self, seen: Start | None) -> None:
        """The peer takes this process for none of its pair: perhaps another start of this member has its place. `seen`:
        which one was there already; None: the peer does not say.
        """

    def on_seen(self, seen: Start) -> bool:
        """The peer was connected with another process of this member. Says whether this one must have another number
        before it connects.
        """


class LinkReports(Protocol):
    """Who hears of connections."""

    def on_link(self, text: str) -> None:
        """In a sentence: one begins, or ends."""


class PeerLink:
    """Keeps one session with the peer alive, and says when there is none."""

    def __init__(
        self,
        node: Node,
        member: str,
        peer: PeerInfo,
        hello: Callable[[], Hello],
        network: Network,
        current: Current,
        identity: Identity,
        listener: SessionListener,
        reports: LinkReports,
        *,
        heartbeat_s: float,
        lost_ms: int,
    ) -> None:
        self.node = node
        self.network = network
        self.member = member
        self.peer = peer
        self.hello = hello
        self.heartbeat_s, self.lost_ms = heartbeat_s, lost_ms
        self._current = current
        self._identity, self._listener, self._reports = identity, listener, reports
        self.refused = False
        """Nobody listens at the peer's port: with no session, the peer's process is gone."""
        self.last_refusal = ""
        self.heard_ms = 0
        """When the last session heard the peer; 0 = there was none."""
        self.why_over = ""
        """How the last session ended."""
        self.left = False
        """The last connection ended after the peer said that it goes away: it need not be waited for."""
        self.shut = ""
        """Why no connection is wanted; empty: one is."""
        self.begun = asyncio.Event()
        """Callers wait for it: the peer port opens before the others, and a domain that follows before it has begun
        would wait for ever then.
        """
        self.begun.set()
        self._waiting: dict[str, asyncio.Future[PeerStream]] = {}
        self._accepting = asyncio.Lock()
        self._over = asyncio.Event()

    @property
    def session(self) -> Session | None:
        """While there is one."""
        return self._current.session

    @property
    def dials(self) -> bool:
        """Whether this member does."""
        return dials(self.member, self.peer.member)

    async def run(self) -> None:
        """Dial, or watch the peer's port while there is no session."""
        while True:
            self._over.clear()
            if self.session is None:
                self.refused = await self.network.is_refused(self.peer.address)
                if not self.refused and self.dials and not self.shut:
                    await self._dial()
            # A connection that breaks is looked into at once: a refused redial may end in a takeover (rulings.md 9).
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(REDIAL_S if self.session is None else None):
                    await self._over.wait()

    def close(self, why: str) -> None:
        """End the connection and let none come up; with an empty reason: let them come up again."""
        self.shut = why
        if why:
            self._current.close(why)

    # -- dialling --------------------------------------------------------------------------------------------------

    async def _dial(self) -> None:
        greeting = self._greeting()
        named = expecting(names.dns(names.member(greeting.pair, self.peer.member)))
        channel = self.network.channel(
            self.peer.address, tuple(dict((*CHANNEL_OPTIONS, *keepalive(self.lost_ms), *named)).items())
        )
        try:
            stub = PeerStub(channel)
            data = stub.Data()
            async with asyncio.timeout(HELLO_TIMEOUT_S):  # the write waits for the connection: that may lead nowhere
                await data.write(PeerFrame(hello=greeting))
                first = await data.read()
            if not isinstance(first, PeerFrame):
                raise PeerRefused(Reason.REASON_BAD_REQUEST, "the peer closed the stream before its HELLO")
            check_hello(first, self.hello(), self.peer.member)
            self._check_own(first.hello)
            if self._is_moving(greeting):
                return
            beat = stub.Heartbeat()
            await beat.write(HeartbeatFrame(member=self.member))
            transfer = stub.Transfer()
            await transfer.write(TransferFrame(member=self.member))
            if self._is_moving(greeting):
                return
            check_hello(first, self.hello(), self.peer.member)  # a record since may be beyond what the peer speaks
            await self._run_session(self._session_on(data, beat, transfer), first.hello)
        except (grpc.aio.AioRpcError, grpc.aio.UsageError, asyncio.InvalidStateError, TimeoutError) as error:
            self._note(f"no connection to {self.peer.address}: {_text(error)}")
            if isinstance(error, grpc.aio.AioRpcError):
                told = from_rpc_error(error)
                if told.reason == "WRONG_PAIR":
                    self._identity.on_refused(seen_start(told))
        except PeerRefused as refused:
            self._note(str(refused))
            await asyncio.sleep(1)
        finally:
            await channel.close()

    def _greeting(self) -> Hello:
        """It says whom this member knows as the peer, for that one may be the only one who has forgotten it."""
        hello = self.hello()
        hello.seen_incarnation, hello.seen_process_id = self.peer.incarnation, self.peer.process_id
        return hello

    def _note(self, text: str) -> None:
        if text != self.last_refusal:
            self.last_refusal = text
            log.warning("%s", text)

    # -- accepting -------------------------------------------------------------------------------------------------

    async def accept(self, data: PeerStream) -> None:
        """A Data stream that the peer opened; returns when it is over."""
        first = await asyncio.wait_for(data.read(), HELLO_TIMEOUT_S)
        if not isinstance(first, PeerFrame):
            return
        try:
            await asyncio.wait_for(self.begun.wait(), HELLO_TIMEOUT_S)
        except TimeoutError:
            text = f"{self.member} is starting, call again"
            raise PeerRefused(Reason.REASON_INVALID_STATE, text) from None
        check_hello(first, self.hello(), self.peer.member)
        if self.shut:
            raise PeerRefused(Reason.REASON_DRAINING, self.shut)
        self._check_process(first.hello)
        self._check_own(first.hello)
        self._current.close("the peer has opened a new connection")
        async with self._accepting:  # the old session has said that it is over before the new one begins
            loop = asyncio.get_running_loop()
            self._waiting = {"beat": loop.create_future(), "transfer": loop.create_future()}
            greeting = self._greeting()
            self._check_seen(greeting)
            await data.write(PeerFrame(hello=greeting))
            waiting = self._waiting
            try:
                # No gathering: one that is cancelled here, as when the peer dies, is logged by asyncio as an error.
                async with asyncio.timeout(HELLO_TIMEOUT_S):
                    beat, transfer = await waiting["beat"], await waiting["transfer"]
            except TimeoutError:
                return
            finally:
                for stream in waiting.values():
                    stream.cancel()  # one that came stays
            self._check_seen(greeting)
            check_hello(first, self.hello(), self.peer.member)  # a record since may be beyond what the peer speaks
            await self._run_session(self._session_on(data, beat, transfer), first.hello)

    def _check_seen(self, greeting: Hello) -> None:
        if self._is_moving(greeting):
            raise PeerRefused(Reason.REASON_INVALID_STATE, f"{self.member} goes on alone at this moment, call again")

    def _is_moving(self, greeting: Hello) -> bool:
        """Without a third voice each member goes by what the other has told, and both may take one epoch where that is
        about to change.
        """
        return not self._identity.counted and (self._goes_alone() or has_moved(greeting, self.hello()))

    def _goes_alone(self) -> bool:
        """An epoch of this member alone is under way."""
        return any(domain.mastership.claims.goes_alone for domain in self.node.paired())

    def _check_process(self, hello: Hello) -> None:
        session = self.session
        heard_ms = session.heard_ms if session is not None else self.heard_ms
        signs = LastConnection(session is not None, monotonic_ms() - heard_ms, self.refused)
        check_process(self.peer, hello, signs, counted=self._identity.counted, lost_ms=self.lost_ms)

    def _check_own(self, hello: Hello) -> None:
        seen = other_start(self.hello(), hello)
        if seen is not None and seen.number < NUMBER_MAX and self._identity.on_seen(seen):
            text = f"start {seen.number} of {self.member} was there already; this process counts on from it first"
            raise PeerRefused(Reason.REASON_INVALID_STATE, text)

    async def lend(self, kind: str, stream: PeerStream) -> None:
        """A Heartbeat or Transfer stream of the connection that is being accepted; returns when the session is over."""
        waiting = self._waiting.get(kind)
        if waiting is None or waiting.done():
            return
        waiting.set_result(stream)
        while waiting is self._waiting.get(kind):
            session = self.session
            if session is None:
                await asyncio.sleep(REDIAL_S)
                if self.session is None and waiting is self._waiting.get(kind):
                    return
            else:
                await session.ended.wait()
                return

    # -- the session -----------------------------------------------------------------------------------------------

    def _session_on(self, data: PeerStream, beat: PeerStream, transfer: PeerStream) -> Session:
        return Session(self.node, data, beat, transfer, self._listener, self._know, heartbeat_s=self.heartbeat_s)

    async def _run_session(self, session: Session, hello: Hello) -> None:
        self.peer.endpoint = hello.endpoint or self.peer.endpoint
        self._know(hello)
        self._current.session = session
        self.left = False
        self.refused = False
        self.last_refusal = ""
        self.node.peer_protocol = hello.protocol_max
        log.info("connected to %s, incarnation %d", hello.member, hello.incarnation)
        self._reports.on_link(f"connected to {hello.member}, start {hello.incarnation} of it")
        try:
            await session.run(hello)
        finally:
            self._current.session = None
            self.node.peer_protocol = 0
            self.left = session.peer_left
            self.heard_ms, self.why_over = session.heard_ms, session.why
            self._over.set()
            log.info("connection to %s is over: %s", hello.member, session.why)
            self._reports.on_link(f"the connection to {hello.member} is over: {session.why}")

    def _know(self, hello: Hello) -> None:
        """Which process the peer is, also where it is given another number while it is connected.

        One that is below what was there already gets such a number as soon as there is somebody to count it; until
        then the other one is remembered.
        """
        peer = self.peer
        if hello.incarnation >= NUMBER_MAX:
            return  # it would be remembered above every real one
        if hello.process_id and not (self._identity.counted and hello.incarnation <= peer.incarnation):
            peer.instance_id, peer.incarnation = hello.instance_id, hello.incarnation
            peer.process_id = hello.process_id


class PeerServicer(PeerServiceServicer):
    """The peer port."""

    def __init__(self, link: PeerLink, certified: str = "") -> None:
        self.link = link
        self._certified = certified
        """Who every caller has to be by its certificate; empty: connections are plain."""

    async def Data(self, request_iterator: object, context: Any) -> None:  # type: ignore[override]  # noqa: N802, ARG002
        """Operations; see PeerService.Data."""
        await self._check_caller(context)
        try:
            await self.link.accept(context)
        except PeerRefused as refused:
            self.link._note(str(refused))  # noqa: SLF001  # same module
            await abort(context, refusal(refused.reason, str(refused), refused.metadata))
        except DecodeError:
            await abort(context, refusal(Reason.REASON_BAD_REQUEST, "the first frame of Data is not a PeerFrame"))
        except TimeoutError:
            await refusing.abort_bare(context, grpc.StatusCode.DEADLINE_EXCEEDED, "no HELLO came in time")

    async def Heartbeat(self, request_iterator: object, context: Any) -> None:  # type: ignore[override]  # noqa: N802, ARG002
        """Signs of life; see PeerService.Heartbeat."""
        await self._lend("beat", "Heartbeat", context)

    async def Transfer(self, request_iterator: object, context: Any) -> None:  # type: ignore[override]  # noqa: N802, ARG002
        """Full transfers; see PeerService.Transfer."""
        await self._lend("transfer", "Transfer", context)

    async def _check_caller(self, context: Any) -> None:
        if problem := problem_of_caller(context, self._certified):
            self.link._note(problem)  # noqa: SLF001  # same module
            await refusing.abort_bare(context, grpc.StatusCode.PERMISSION_DENIED, problem)

    async def _lend(self, kind: str, name: str, context: Any) -> None:
        await self._check_caller(context)
        try:
            first = await context.read()
        except DecodeError:
            text = f"the first frame of {name} is not a frame of that stream"
            await abort(context, refusal(Reason.REASON_BAD_REQUEST, text))
        if not isinstance(first, (HeartbeatFrame, TransferFrame)):
            return  # closed before it had said anything
        if first.member != self.link.peer.member:
            text = f"only {self.link.peer.member} may open {name}, the caller names itself {first.member!r}"
            await abort(context, refusal(Reason.REASON_WRONG_PAIR, text))
        await self.link.lend(kind, context)


def seen_start(told: TandemqError) -> Start | None:
    """Which start of this member the peer has seen before; None: it does not say, or one that nobody has counted."""
    number, process = told.metadata.get(SEEN_START, ""), told.metadata.get(SEEN_PROCESS, "")
    if not (number.isascii() and number.isdigit() and len(number) <= DIGITS_MAX and 0 < int(number) < NUMBER_MAX):
        return None
    try:
        return Start.of(int(number), bytes.fromhex(process))
    except ValueError:
        return Start(int(number))


def _text(error: BaseException) -> str:
    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return type(error).__name__


__all__ = ["CHANNEL_OPTIONS", "PeerInfo", "PeerLink", "PeerServicer"]
