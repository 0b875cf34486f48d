"""A pair of two cores in one process whose callers have certificates: each member asks its guard, and carries what it
does not decide to the other one, over a hop that is no network. Nothing happens between two steps of the pair.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, TypeVar

import grpc

from replica.listen.direct import DirectServer as Server
from replica.listen.direct import HandlerSide
from replica.node.access import Access
from replica.node.members import Members
from replica.services.admin.queues import AdminHandlers
from replica.services.admin.rights import RightHandlers
from replica.services.guard import Guard
from replica.services.messages.custom import Customs
from replica.services.messages.queue import QueueHandlers
from replica.services.messages.react import ReactionHandlers
from replica.services.messages.transactions import TransactionHandlers
from tandemq.config_custom import Custom
from tandemq.credentials.authority import create, issue
from tandemq.credentials.caller import CERTIFICATE, URI
from tests.support.pair import Member, Pair

T = TypeVar("T")
FAR = "ipv4:192.0.2.7:4711"
MEMBERS = {"127.0.0.1:1": "a", "127.0.0.2:1": "b"}
TURNS_MAX = 500
PEOPLE = ("principal/ops", "principal/billing", "principal/shop", "member/p/a", "member/p/b", "member/west/a")


class Certificates:
    """Of everybody, as gRPC shows them to a handler."""

    def __init__(self, directory: Path) -> None:
        create(directory / "authority")
        self._shown: dict[str, dict[str, list[bytes]]] = {}
        for place, who in enumerate(PEOPLE):
            issue(directory / "authority", who, made := directory / str(place))
            self._shown[who] = {URI: [f"tandemq:{who}".encode()], CERTIFICATE: [(made / "cert.pem").read_bytes()]}

    def of(self, who: str) -> dict[str, list[bytes]]:
        """What a connection's `auth_context` is."""
        return self._shown[who]


class Door(Server):
    """The client port of one member, for whoever has this certificate."""

    def __init__(self, handlers: Sequence[grpc.GenericRpcHandler], shown: dict[str, list[bytes]]) -> None:
        super().__init__(handlers)
        self._shown = shown

    def begin(self, served: HandlerSide, path: str, on_end: Callable[..., None]) -> asyncio.Task[None] | None:
        """See DirectServer."""
        served.auth_context = lambda: self._shown  # type: ignore[attr-defined]  # as a connection over TLS has
        return super().begin(served, path, on_end)


class Wires:
    """Connections to the members' client ports, each by the certificate of whoever dials."""

    def __init__(self, pair: CertifiedPair, who: str) -> None:
        self._pair, self._who = pair, who

    def opener(self) -> Any:
        """See Network."""
        return lambda address, _options: self._pair.channel(self._who, MEMBERS[address])


class CertifiedPair:
    """Both members, with what lets calls in. Belongs to the event loop that it is made in."""

    def __init__(self, certificates: Certificates, pair: Pair) -> None:
        self.certificates, self.pair = certificates, pair
        self.members: dict[str, Members] = {}
        self.guards: dict[str, Guard] = {}
        self.handlers: dict[str, list[grpc.GenericRpcHandler]] = {}
        self.late = False
        """Nobody is answered for now: each call waits at its master."""
        for member in pair.members.values():
            self._add(member)

    def _add(self, member: Member) -> None:
        clock = SimpleNamespace(now_ms=lambda: self.pair.wall_ms)
        node: Any = SimpleNamespace(
            store=member.store,
            on_tick=[],
            clock=clock,
            dispatch=member.dispatch,
            seconds_late=0.0,
            peer_protocol=0,
            limits=member.core.shared.limits,
        )
        own, peer = member.name, member.peer_name
        places = {name: address for address, name in MEMBERS.items()}
        names = {"member": own, "endpoint": places[own], "peer": peer, "peer_endpoint": places[peer]}
        settings: Any = {"park_ms": 1_000, "streams_max": 10, "is_late": lambda: self.late}
        members = Members(node, Wires(self, f"member/p/{own}"), pair="p", **names, **settings)  # type: ignore[arg-type]  # what of it is used
        members.by_name["main"] = member.core
        access = Access(f"member/p/{own}", f"member/p/{peer}", ["principal/ops"], members.home)
        guard = Guard(members, access)
        members.access, access.asker = access, guard
        reactions = ReactionHandlers(members, Customs(Custom(), {}), enabled=True)
        no_proxies: Any = SimpleNamespace(settling=None, far={})
        inner = [
            RightHandlers(AdminHandlers(members), access).handler(),
            TransactionHandlers(members).handler(),
            QueueHandlers(members, reactions, no_proxies).handler(),
        ]
        self.members[own], self.guards[own] = members, guard
        self.handlers[own] = [guard.guarded(each) for each in inner]  # type: ignore[arg-type]  # services by name

    def channel(self, who: str, member: str) -> Any:
        """To that member, with that certificate."""
        return Door(self.handlers[member], self.certificates.of(who)).channel(FAR)

    def context(self, who: str) -> Any:
        """Of a call that comes in now, for whoever asks a guard himself."""
        context = HandlerSide((), None, FAR)
        context.auth_context = lambda: self.certificates.of(who)  # type: ignore[attr-defined]  # as over TLS
        return context

    async def call(self, who: str, member: str, path: str, request: Any, reply: type[T], **more: Any) -> T:
        """One call, while nothing else happens: the pair takes no step."""
        ask = self.channel(who, member).unary_unary(f"/tandemq.v1.{path}", None, reply.FromString)  # type: ignore[attr-defined]  # a message
        answer: T = await ask(request.SerializeToString(), timeout=60.0, **more)
        return answer

    async def while_stepping(self, work: Coroutine[Any, Any, T]) -> T:
        """The same while the pair takes steps, until the work has ended."""
        task = asyncio.ensure_future(work)
        for _ in range(TURNS_MAX):
            await asyncio.sleep(0)
            if task.done():
                break
            self.pair.settle(20)
            for members in self.members.values():
                members.on_change()
        return await task
