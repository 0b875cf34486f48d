"""Which domain a queue is in, who is its master, and how to reach him: the member's address book. No protocol
decisions.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from failover.marks import Role
from replica.machine.state.system_names import is_side
from replica.node.attached import Attached
from replica.node.doubting import Doubting
from replica.node.pacing import Pace
from replica.node.standing import Streams
from tandemq.ambient import monotonic_s
from tandemq.channels import Kept, expecting, lasting
from tandemq.credentials import names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import grpc

    from replica.core.domain import Domain
    from replica.node.access import Access
    from replica.node.loop import Node
    from replica.node.network import Network
    from tandemq.finding.directory import Directory

MAIN = "main"
LOCAL = "local"
MESSAGE_BYTES_MAX = 16 << 20
HOP = "x-tandemq-hop"

_PROXY_OPTIONS = lasting(
    {
        "grpc.max_send_message_length": MESSAGE_BYTES_MAX,
        "grpc.max_receive_message_length": MESSAGE_BYTES_MAX,
        "grpc.initial_reconnect_backoff_ms": 50,
        "grpc.min_reconnect_backoff_ms": 50,
        "grpc.max_reconnect_backoff_ms": 500,
        "grpc.enable_retries": 0,
    }
)
PIPED_MAX = 500
"""Streams on one connection to the peer."""


@dataclass(slots=True, eq=False)
class Pipes:
    """One connection for streams that are carried to the peer."""

    to: str
    channel: Kept
    streams: int = 0


def domain_number(name: str) -> int:
    """Number of a domain on the wire and on disk: a hash of its name, so that both members agree without talking."""
    return int.from_bytes(hashlib.blake2b(name.encode(), digest_size=4).digest(), "big") or 1


class Members:
    """The member's own name and addresses, its peer's, and the domains between them."""

    def __init__(
        self,
        node: Node,
        network: Network,
        *,
        pair: str,
        member: str,
        endpoint: str,
        peer: str,
        peer_endpoint: str,
        park_ms: int,
        streams_max: int,
        is_late: Callable[[], bool],
        words_by_operators: bool = False,
    ) -> None:
        self.node = node
        self.network = network
        self.pair = pair
        self.member = member
        self.endpoint = endpoint
        self.peer = peer
        self.peer_endpoint = peer_endpoint
        self.by_name: dict[str, Domain] = {}
        self.changed = asyncio.Event()
        """Set and replaced at each change of a role."""
        self.words_by_operators = words_by_operators
        """Whether the authority takes an operator's word from none of its members."""
        self.park_ms = park_ms
        self.refused_later: Counter[str] = Counter()
        """By queue: messages that were accepted here for a ONE_WAY queue, and refused afterwards."""
        self.is_late = is_late
        """Whether this process has slept for so long that others may have decided without it."""
        self.open = network.opener()
        """Makes connections to other processes, as this member's machine does."""
        named = expecting(names.dns(names.member(pair, peer))) if pair else ()
        self._proxy_options = (*_PROXY_OPTIONS, *named)
        self._channel = Kept(peer_endpoint, self._proxy_options, self.open)
        self.streams = Streams(node, streams_max)
        """The Consume streams that are open here."""
        self._pipes: list[Pipes] = []
        self.attached = Attached()
        self.pace = Pace(monotonic_s)
        """Of all who look through messages at this member."""
        self.doubting = Doubting(node.store.doubts)
        node.on_tick.append(lambda _now: self.doubting.look(tuple(self.by_name.values())))
        self.directory: Directory | None = None
        """Where other managers are; None: nothing is sent on from here."""
        self.routes: dict[str, str] = {}
        """By manager: who sends on to it what is for it; all others are reached from here (X5)."""
        self.access: Access | None = None
        """What callers may do; None: everything, connections are plain."""
        self.looking = asyncio.Lock()
        """Held by the one who looks for all whose filter found nothing yet."""

    def reached_by(self, manager: str) -> str:
        """Who is given what is for it: itself, or who sends on to it."""
        return self.routes.get(manager, manager)

    def on_change(self) -> None:
        """A role has changed: whoever waits for a master looks again."""
        self.changed.set()
        self.changed = asyncio.Event()

    def add(self, domain: Domain) -> None:
        """A domain of this member."""
        self.by_name[domain.shared.name] = domain
        self.node.domains[domain.shared.domain] = domain

    def of_queue(self, queue: str) -> Domain:
        """The domain that a queue is in; main when no domain here knows it."""
        for domain in self.by_name.values():
            machine = domain.shared.machine
            if machine is not None and machine.knows(queue):
                if not domain.shared.peer and is_side(queue):
                    continue  # nobody calls it but the member itself
                return domain
        return self.by_name[MAIN]

    def home(self) -> Domain:
        """The pair's, or the member's own where it has no peer."""
        return self.by_name[MAIN if self.peer else LOCAL]

    def door_of(self, queue: str) -> str:
        """The domain whose streams are let in together with those of that queue: of one that has sides, the member's
        own, which waits for no master.
        """
        domain = self.of_queue(queue)
        machine = domain.shared.machine
        sided = machine is not None and machine.state.sided and machine.queue_id(queue) in machine.state.sided
        return LOCAL if sided else domain.shared.name

    def master_endpoint(self, domain: Domain) -> str:
        """Where the master serves clients; empty when it is not known."""
        if domain.shared.serving:
            return self.endpoint
        follows = domain.shared.role is Role.REPLICA and domain.shared.master == self.peer
        if follows or domain.mastership.following.waits_for_sync:
            return self.peer_endpoint
        return ""

    def channel(self) -> grpc.aio.Channel:
        """To the peer's client port, for calls that are proxied."""
        if self._channel.endpoint != self.peer_endpoint:
            self._channel = Kept(self.peer_endpoint, self._proxy_options, self.open)
        return self._channel.get()

    @contextmanager
    def pipe_channel(self) -> Iterator[grpc.aio.Channel]:
        """To the same, for a stream that is carried there while the block lasts. A connection takes 1,000 at a time:
        whatever came beyond that, calls too, would wait for one of them to end.
        """
        self._pipes = [pipes for pipes in self._pipes if pipes.streams or pipes.to == self.peer_endpoint]
        pipes = next((p for p in self._pipes if p.to == self.peer_endpoint and p.streams < PIPED_MAX), None)
        if pipes is None:
            pipes = Pipes(self.peer_endpoint, Kept(self.peer_endpoint, self._proxy_options, self.open))
            self._pipes.append(pipes)
        pipes.streams += 1
        try:
            yield pipes.channel.get()
        finally:
            pipes.streams -= 1

    async def close(self) -> None:
        """Let go of the proxy's channels, and of who knows other managers."""
        for pipes in self._pipes:
            await pipes.channel.close()
        if self.directory is not None:
            await self.directory.close()
        await self._channel.close()
