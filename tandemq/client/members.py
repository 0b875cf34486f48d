"""Decides nothing but keeps what a client knows: one channel an endpoint, and per domain the newest master and epoch.

Hints of older epochs are ignored. It opens channels when they are asked for and never retries a call.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from tandemq.channels import Kept, Open, Renewed, lasting, open_channel
from tandemq.client.connecting import explained
from tandemq.client.target import is_local
from tandemq.v1 import common_pb2

if TYPE_CHECKING:
    import grpc.aio

    from tandemq.client.whereabouts import Whereabouts
    from tandemq.errors import TandemqError

MESSAGE_BYTES_MAX = 16 << 20
DOMAINS_MAX = 1024  # remembered; the one that was learned of first is forgotten
QUEUES_MAX = 10_000  # whose domain is remembered
CHANNELS_LEARNED_MAX = 16  # endpoints beyond the ones that the user named

CHANNEL_OPTIONS = lasting(
    {"grpc.max_send_message_length": MESSAGE_BYTES_MAX, "grpc.max_receive_message_length": MESSAGE_BYTES_MAX}
)


class Masters:
    """Who is master of each domain, as far as replies have said. Pure; bounded."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, tuple[int, str]] = OrderedDict()
        self._domains: OrderedDict[str, str] = OrderedDict()

    def learn(self, domain: str, epoch: int, endpoint: str) -> None:
        """Takes a hint unless it is older than what is known; a newer epoch without an endpoint forgets the old one."""
        known_epoch, known = self._known.get(domain, (0, ""))
        if epoch < known_epoch or not domain:
            return
        if epoch == known_epoch and not endpoint:
            endpoint = known
        self._known[domain] = (epoch, endpoint)
        while len(self._known) > DOMAINS_MAX:
            self._known.popitem(last=False)

    def place(self, queue: str, domain: str) -> None:
        """A reply about `queue` came from `domain`."""
        if domain:
            self._domains[queue] = domain
            self._domains.move_to_end(queue)
            while len(self._domains) > QUEUES_MAX:
                self._domains.popitem(last=False)

    def domain_of(self, queue: str) -> str:
        """Empty until a reply has said."""
        return self._domains.get(queue, "")

    def forget_endpoints(self) -> None:
        """The manager has moved: whoever is master now is somewhere else. Epochs stay."""
        for domain, (epoch, _) in self._known.items():
            self._known[domain] = (epoch, "")

    def epoch(self, domain: str) -> int:
        """Highest seen; 0 when none."""
        return self._known.get(domain, (0, ""))[0]

    def endpoint(self, domain: str) -> str:
        """Empty when unknown."""
        return self._known.get(domain, (0, ""))[1]


class Members:
    """The channels of one client. Belongs to one event loop."""

    def __init__(
        self, endpoints: tuple[str, ...], *, follow_master: bool = True, open_channel: Open = open_channel
    ) -> None:
        self.named = endpoints  # empty until `located` has been called, when only a name is known
        self.whereabouts: Whereabouts | None = None  # set when only a name is known
        self._open_channel = open_channel
        self.masters = Masters()
        self._follow_master = follow_master and not (isinstance(open_channel, Renewed) and open_channel.keeps_to_named)
        self._channels: dict[str, Kept] = {}
        self._heard_s: dict[str, float] = {}
        """When a frame last came over a channel; kept as long as the channel is."""

    @property
    def _local(self) -> bool:
        """Who names a way without a network first wants to go there; the master's address is then for when it fails."""
        return bool(self.named) and is_local(self.named[0])

    async def located(self) -> tuple[str, ...]:
        """The named endpoints; looks them up first when only a name is known. Raises TandemqError."""
        if self.whereabouts is not None:
            found = await self.whereabouts.endpoints()
            if found != self.named:
                self.named = found
                self.masters.forget_endpoints()
        return self.named

    def learn(self, header: common_pb2.ResponseHeader, queue: str = "") -> None:
        """Takes what a reply's header says about its domain."""
        self.masters.learn(header.domain, header.epoch, header.master_endpoint)
        if queue:
            self.masters.place(queue, header.domain)

    def master(self, domain: str) -> str:
        """Where to go first for a domain; empty when unknown or when this client keeps to the named endpoints."""
        return self.masters.endpoint(domain) if self._follow_master and not self._local else ""

    def endpoints(self, domain: str) -> tuple[str, ...]:
        """Where to go in turn for a domain: the named ones, and its master if that is another."""
        master = self.masters.endpoint(domain) if self._local else self.master(domain)
        return self.named if not master or master in self.named else (*self.named, master)

    def channel(self, endpoint: str) -> grpc.aio.Channel:
        """The channel to an endpoint, opened on first use; asked for anew for each call and each stream."""
        kept = self._channels.get(endpoint)
        if kept is None:
            if len(self._channels) >= len(self.named) + CHANNELS_LEARNED_MAX:
                # Dropped, not closed: calls on it go on, and grpc closes it when the last one is done.
                dropped = next(name for name in self._channels if name not in self.named)
                del self._channels[dropped]
                self._heard_s.pop(dropped, None)
            kept = self._channels[endpoint] = Kept(endpoint, CHANNEL_OPTIONS, self._open_channel)
        return kept.get()

    def hear(self, endpoint: str, now_s: float) -> None:
        """A frame has come over the channel to an endpoint: a sign of life for each stream on it. A stream on a channel
        that was dropped speaks for itself alone.
        """
        if endpoint in self._channels:
            self._heard_s[endpoint] = now_s

    def heard_s(self, endpoint: str) -> float:
        """When that was last; 0: never."""
        return self._heard_s.get(endpoint, 0.0)

    async def explained(self, error: TandemqError, *, found_nobody: bool) -> TandemqError:
        """By which a call or a stream ends; `found_nobody`: an attempt before did not get a connection."""
        return await explained(error, self._open_channel, self.named, found_nobody=found_nobody)

    async def close(self) -> None:
        """Closes every channel; calls under way end in CANCELLED."""
        channels = list(self._channels.values())
        self._channels.clear()
        self._heard_s.clear()
        for channel in channels:
            await channel.close()
