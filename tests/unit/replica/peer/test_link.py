"""What the peer port makes of streams that are no connection."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import grpc
import pytest

from replica.listen.machine_access import MachineAccess
from replica.peer.identity.starts import NUMBER_MAX, Start
from replica.peer.link import PeerInfo, PeerLink, PeerServicer, seen_start
from replica.peer.session import Current, Session
from tandemq.errors import DETAILS_KEY, Refused, from_rpc_error
from tandemq.peer.v1.peer_service_pb2 import DomainHello, HeartbeatFrame, Hello, PeerFrame, SyncBegin, TransferFrame


class Caller:
    """A stream that ends after one frame, or before it."""

    def __init__(self, first: object) -> None:
        self._first = first
        self.refused = ""
        self.code = grpc.StatusCode.OK
        self.details: bytes = b""

    async def read(self) -> object:
        return self._first

    async def abort(self, code: grpc.StatusCode, details: str, trailers: Any = ()) -> None:
        self.refused, self.code = details, code
        self.details = dict(trailers).get(DETAILS_KEY, b"")
        raise grpc.aio.AbortError


class Taken(Caller):
    """It may get an answer."""

    def __init__(self, first: object) -> None:
        super().__init__(first)
        self.taken: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    async def write(self, message: object) -> None:
        self.taken.set_result(message)


class Starts:
    """Which start of this member counts."""

    def __init__(self, *, counted: bool = False, counts_on: bool = False) -> None:
        self.counted, self.counts_on = counted, counts_on
        self.seen: list[Start] = []

    def on_refused(self, seen: Start | None) -> None:
        pass

    def on_seen(self, seen: Start) -> bool:
        self.seen.append(seen)
        return self.counts_on


def node_that(alone: Callable[[], bool] = lambda: False) -> Any:
    """A node of one paired domain, which may go on alone."""

    class Claims:
        @property
        def goes_alone(self) -> bool:
            return alone()

    return SimpleNamespace(paired=lambda: [SimpleNamespace(mastership=SimpleNamespace(claims=Claims()))])


def link_of(
    node: Any,
    member: str,
    peer: PeerInfo,
    hello: Callable[[], Hello],
    outside: Any = None,
    identity: Starts | None = None,
    kind: type[PeerLink] = PeerLink,
) -> PeerLink:
    network = MachineAccess() if outside is None else outside
    quiet: Any = SimpleNamespace(on_link=lambda _text: None)
    return kind(
        node, member, peer, hello, network, Current(), identity or Starts(), quiet, quiet, heartbeat_s=0.2, lost_ms=1500
    )


def servicer(identity: Starts | None = None) -> PeerServicer:
    return PeerServicer(link_of(None, "a", PeerInfo("b", "127.0.0.1:1"), Hello, identity=identity))


@pytest.mark.parametrize("stream", ["Heartbeat", "Transfer"])
async def test_a_stream_that_is_closed_before_its_first_frame_is_over(stream: str) -> None:
    caller = Caller(grpc.aio.EOF)
    await getattr(servicer(), stream)(None, caller)
    assert not caller.refused


async def test_only_the_peer_may_open_a_heartbeat() -> None:
    caller = Caller(HeartbeatFrame(member="x"))
    with pytest.raises(grpc.aio.AbortError):
        await servicer().Heartbeat(None, caller)
    assert caller.refused == "only b may open Heartbeat, the caller names itself 'x'"


async def test_a_start_that_was_here_already_is_refused_with_its_number() -> None:
    def hello(member: str, number: int) -> Hello:
        return Hello(
            pair="p",
            member=member,
            instance_id=member,
            incarnation=number,
            process_id=b"%d" % number,
            protocol_min=1,
            protocol_max=1,
        )

    peer = PeerInfo("b", "127.0.0.1:1", incarnation=5, process_id=b"5")
    link = link_of(None, "a", peer, lambda: hello("a", 1), identity=Starts(counted=True))
    caller = Caller(PeerFrame(hello=hello("b", 4)))
    with pytest.raises(grpc.aio.AbortError):
        await PeerServicer(link).Data(None, caller)
    assert caller.code is grpc.StatusCode.FAILED_PRECONDITION
    trailers = grpc.aio.Metadata((DETAILS_KEY, caller.details))
    error = from_rpc_error(grpc.aio.AioRpcError(caller.code, grpc.aio.Metadata(), trailers, caller.refused))
    assert (error.reason, seen_start(error)) == ("WRONG_PAIR", Start.of(5, b"5"))


@pytest.mark.parametrize(
    ("seen", "asked", "refused"), [(0, [], False), (4, [4], True), (6, [6], True), (NUMBER_MAX + 1, [], False)]
)
@pytest.mark.parametrize("counts_on", [True, False])
async def test_who_is_called_is_asked_whether_it_is_the_process_that_the_caller_knows(
    seen: int, asked: list[int], refused: bool, counts_on: bool
) -> None:
    """It alone can say whether it takes another number first."""

    def hello() -> Hello:
        facts = {"pair": "p", "member": "a", "instance_id": "a", "incarnation": 5, "process_id": b"a5"}
        return Hello(**facts, protocol_min=1, protocol_max=1)  # type: ignore[arg-type]  # by name

    identity = Starts(counted=True, counts_on=counts_on)
    link = link_of(None, "a", PeerInfo("b", "127.0.0.1:1"), hello, identity=identity)
    call = Hello(pair="p", member="b", instance_id="b", incarnation=1, process_id=b"b1", protocol_min=1, protocol_max=1)
    call.seen_incarnation, call.seen_process_id = seen, b"a1"
    caller = Taken(PeerFrame(hello=call))
    serving = asyncio.create_task(PeerServicer(link).Data(None, caller))
    await asyncio.wait({serving, caller.taken}, return_when=asyncio.FIRST_COMPLETED)
    assert identity.seen == [Start.of(number, b"a1") for number in asked]
    assert caller.taken.done() is not (refused and counts_on)
    if refused and counts_on:
        assert caller.code is grpc.StatusCode.FAILED_PRECONDITION
        assert f"start {seen} of a was there already" in caller.refused
    serving.cancel()
    await asyncio.gather(serving, return_exceptions=True)


@pytest.mark.parametrize(
    ("told", "start"),
    [
        ({}, None),
        ({"start": "7"}, Start(7)),
        ({"start": "7", "process": "6d65"}, Start.of(7, b"me")),
        ({"start": "7", "process": "none"}, Start(7)),
        ({"start": "0", "process": "6d65"}, None),
        ({"start": "-7"}, None),
        ({"start": "9" * 19}, None),
        ({"start": ""}, None),
    ],
)
def test_a_number_that_is_none_is_not_taken(told: dict[str, str], start: Start | None) -> None:
    assert seen_start(Refused("WRONG_PAIR", "", told)) == start


async def test_a_member_that_has_left_takes_no_connection_and_says_why() -> None:
    def hello(member: str, number: int) -> Hello:
        return Hello(pair="p", member=member, instance_id=member, incarnation=number, protocol_min=1, protocol_max=1)

    link = link_of(None, "a", PeerInfo("b", "127.0.0.1:1"), lambda: hello("a", 1))
    link.close("a is in maintenance; end it with `tandemq pair maintenance off`")
    caller = Caller(PeerFrame(hello=hello("b", 2)))
    with pytest.raises(grpc.aio.AbortError):
        await PeerServicer(link).Data(None, caller)
    assert caller.code is grpc.StatusCode.UNAVAILABLE
    assert b"DRAINING" in caller.details
    assert "maintenance off" in caller.refused


@pytest.mark.parametrize(
    ("counted", "number", "known"),
    [(True, 4, False), (True, 5, False), (True, 6, True), (False, 1, True), (False, 5, True)],
)
def test_the_peer_is_remembered_by_its_highest_number_where_somebody_counts(
    counted: bool, number: int, known: bool
) -> None:
    """Another process with that number, or one below, is told of the first as long as it has no number above it."""
    peer = PeerInfo("b", "127.0.0.1:1", instance_id="first", incarnation=5, process_id=b"first")
    link = link_of(None, "a", peer, Hello, identity=Starts(counted=counted))
    link._know(Hello(member="b", instance_id="other", incarnation=number, process_id=b"other"))
    told = link._greeting()
    assert (told.seen_incarnation, told.seen_process_id) == ((number, b"other") if known else (5, b"first"))
    assert peer.instance_id == ("other" if known else "first")


@pytest.mark.parametrize("moves", ["before the call", "after the answer", "and is done", "never"])
@pytest.mark.parametrize("counted", [True, False])
async def test_who_goes_alone_connects_with_nobody_meanwhile(counted: bool, moves: str) -> None:
    """Without a third voice the caller would go by what this member has told, and may take the same epoch."""
    now = [1]

    def hello(member: str = "a", epoch: int = 1) -> Hello:
        part = DomainHello(name="main", epoch=epoch)
        said = Hello(pair="p", member=member, instance_id=member, protocol_min=1, protocol_max=1, domains=[part])
        return Hello.FromString(said.SerializeToString())

    begun = asyncio.get_running_loop().create_future()

    class Begun(PeerLink):
        async def _run_session(self, session: Session, hello: Hello) -> None:  # noqa: ARG002
            begun.set_result(session)

    alone = [moves == "before the call"]
    peer, identity = PeerInfo("b", "127.0.0.1:1"), Starts(counted=counted)
    link = link_of(node_that(lambda: alone[0]), "a", peer, lambda: hello(epoch=now[0]), identity=identity, kind=Begun)
    caller = Taken(PeerFrame(hello=hello("b")))
    serving = asyncio.create_task(PeerServicer(link).Data(None, caller))
    await asyncio.wait({serving, caller.taken}, return_when=asyncio.FIRST_COMPLETED)
    assert caller.taken.done() is (counted or moves != "before the call")
    if moves == "after the answer":
        alone[0] = True
    elif moves == "and is done":
        now[0] = 2
    streams = [asyncio.create_task(link.lend(kind, Taken(None))) for kind in ("beat", "transfer")]
    await asyncio.gather(serving, return_exceptions=True)
    assert begun.done() is (counted or moves == "never")
    if not begun.done():
        assert caller.code is grpc.StatusCode.FAILED_PRECONDITION
        assert "a goes on alone at this moment" in caller.refused
    for stream in streams:
        stream.cancel()
    await asyncio.gather(*streams, return_exceptions=True)


@pytest.mark.parametrize("becomes", [1, 2])
async def test_a_peer_that_has_become_too_old_while_it_was_greeted_is_refused(becomes: int) -> None:
    """A record of protocol 2 was ordered between the HELLOs and the session: it would stop that peer for good."""
    oldest = [1]

    def hello(member: str = "a", newest: int = 2) -> Hello:
        facts = {"pair": "p", "member": member, "instance_id": member, "process_id": member.encode()}
        return Hello(**facts, protocol_min=oldest[0], protocol_max=newest)  # type: ignore[arg-type]  # by name

    begun = asyncio.get_running_loop().create_future()

    class Begun(PeerLink):
        async def _run_session(self, session: Session, hello: Hello) -> None:  # noqa: ARG002
            begun.set_result(session)

    link = link_of(node_that(), "a", PeerInfo("b", "127.0.0.1:1"), hello, kind=Begun)
    caller = Taken(PeerFrame(hello=hello("b", newest=1)))
    serving = asyncio.create_task(PeerServicer(link).Data(None, caller))
    await caller.taken
    oldest[0] = becomes
    streams = [asyncio.create_task(link.lend(kind, Taken(None))) for kind in ("beat", "transfer")]
    await asyncio.gather(serving, return_exceptions=True)
    assert begun.done() is (becomes == 1)
    if not begun.done():
        assert b"NEWER_FORMAT" in caller.details
        assert "upgrade the older one" in caller.refused
    for stream in streams:
        stream.cancel()
    await asyncio.gather(*streams, return_exceptions=True)


@pytest.mark.parametrize("moves", ["before", "while it connects", "beyond what the peer speaks", "never"])
async def test_who_has_moved_begins_nothing_that_it_has_called_for(monkeypatch: pytest.MonkeyPatch, moves: str) -> None:
    alone, begun, oldest = [moves == "before"], [], [1]

    def hello(member: str = "b") -> Hello:
        newest = 1 if member == "a" else 2
        return Hello(pair="p", member=member, instance_id=member, protocol_min=oldest[0], protocol_max=newest)

    class Called:
        async def read(self) -> object:
            return PeerFrame(hello=hello("a"))

        async def write(self, message: object) -> None:
            if isinstance(message, TransferFrame):
                alone[0] = alone[0] or moves == "while it connects"
                oldest[0] = 2 if moves == "beyond what the peer speaks" else 1

    class Stub:
        def __init__(self, _channel: object) -> None:
            self.Data = self.Heartbeat = self.Transfer = Called

    class Begun(PeerLink):
        async def _run_session(self, session: Session, hello: Hello) -> None:
            begun.append((session, hello))

    class Channel:
        async def close(self) -> None:
            pass

    monkeypatch.setattr("replica.peer.link.PeerStub", Stub)
    outside: Any = SimpleNamespace(channel=lambda _address, _options: Channel())
    link = link_of(node_that(lambda: alone[0]), "b", PeerInfo("a", "127.0.0.1:1"), hello, outside, kind=Begun)
    await link._dial()
    assert bool(begun) is (moves == "never")


@pytest.mark.parametrize(("number", "taken"), [(NUMBER_MAX - 1, True), (NUMBER_MAX, False), ((1 << 64) - 1, False)])
def test_a_number_that_no_member_can_count_on_from_is_nobodys(number: int, taken: bool) -> None:
    """Ids of transfers are made of it: they would not fit."""
    assert (seen_start(Refused("WRONG_PAIR", "", {"start": str(number)})) is not None) is taken
    assert SyncBegin(sync_id=NUMBER_MAX << 20).sync_id, "there is room for it"


async def test_a_caller_that_counts_itself_beyond_all_is_refused_and_not_remembered() -> None:
    """It would be remembered above every real start, which is refused then."""
    caller = Caller(PeerFrame(hello=Hello(member="b", instance_id="its", incarnation=NUMBER_MAX)))
    identity = Starts()
    port = servicer(identity)
    with pytest.raises(grpc.aio.AbortError):
        await port.Data(None, caller)
    assert "no member starts so often" in caller.refused
    identity.counted = True
    for number, kept in ((NUMBER_MAX, 0), (7, 7), ((1 << 64) - 1, 7)):
        port.link._know(Hello(member="b", incarnation=number, process_id=b"its process"))
        assert port.link.peer.incarnation == kept


async def test_a_peer_that_dies_before_it_lends_its_streams_leaves_no_error_behind() -> None:
    """A gathering of the two streams did: cancelled inside of a wait, it is "never retrieved"."""
    told: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, facts: told.append(facts))

    def hello(member: str) -> Hello:
        of = {"member": member, "instance_id": member, "process_id": member.encode()}
        return Hello(pair="p", incarnation=1, protocol_min=1, protocol_max=1, **of)  # type: ignore[arg-type]  # by name

    link = link_of(node_that(), "a", PeerInfo("b", "127.0.0.1:1"), lambda: hello("a"))
    caller = Taken(PeerFrame(hello=hello("b")))
    accepting = asyncio.ensure_future(link.accept(caller))  # type: ignore[arg-type]  # as much of a stream as it takes
    await asyncio.wait({accepting, caller.taken}, return_when=asyncio.FIRST_COMPLETED)
    assert not accepting.done()
    await asyncio.sleep(0)
    accepting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await accepting
    del accepting
    link._waiting.clear()
    for _ in range(3):
        gc.collect()
        await asyncio.sleep(0)
    assert told == []


async def test_a_dial_that_leads_nowhere_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    """As that to where a name has led before: the write waits for the connection, by gRPC's default up to 20 s, and who
    waits for it does not look at the name again.
    """

    class Called:
        async def write(self, _message: object) -> None:
            await asyncio.Event().wait()

    class Stub:
        def __init__(self, _channel: object) -> None:
            self.Data = Called

    class Channel:
        async def close(self) -> None:
            pass

    monkeypatch.setattr("replica.peer.link.PeerStub", Stub)
    monkeypatch.setattr("replica.peer.link.HELLO_TIMEOUT_S", 0.01)
    outside: Any = SimpleNamespace(channel=lambda _address, _options: Channel())
    link = link_of(None, "b", PeerInfo("a", "127.0.0.1:1"), Hello, outside)
    await link._dial()
    assert link.session is None
    assert link.last_refusal.startswith("no connection to")
