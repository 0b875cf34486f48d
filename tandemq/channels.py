"""How every connection to another process is opened, and what becomes of one whose name moves; never what is called.

gRPC asks a name again after 30 s at the earliest, and one that could not be resolved after up to two minutes: measured,
a witness that came back under its name at another address was found after 29 s. Here a name is asked again after
`NAME_MS`, and a channel that failed for longer than `RENEW_S` is replaced by a new one, which asks at once: there is no
option for how gRPC waits after a name that is not there, as that of a pod which is being replaced.
"""

from __future__ import annotations

import ipaddress
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from types import MappingProxyType
from typing import Any, TypeAlias

import grpc
import grpc.aio

from tandemq.ambient import monotonic_s

Options: TypeAlias = tuple[tuple[str, Any], ...]
Open: TypeAlias = Callable[[str, Options], grpc.aio.Channel]

NAME_MS = 1_000
RENEW_S = 0.5
CONNECT_MS = 1_000  # for an attempt of a renewed channel: the short first ones of each new channel may all be too short

PLAIN = ("unix:", "unix-abstract:", "inproc:")  # what needs no network
PLACES = (*PLAIN, "ipv4:", "ipv6:")  # what needs no look-up

NAMES: Options = (("grpc.dns_min_time_between_resolutions_ms", NAME_MS),)
LASTING: Mapping[str, Any] = MappingProxyType(
    {
        "grpc.keepalive_time_ms": 1_000,
        "grpc.keepalive_timeout_ms": 500,
        # A frozen process is noticed after keepalive_time + ping_timeout. `keepalive_timeout_ms` alone never closed a
        # connection (measured with 1.71 to 1.85); the ping timeout does.
        "grpc.http2.ping_timeout_ms": 500,
        "grpc.keepalive_permit_without_calls": 1,
        "grpc.http2.max_pings_without_data": 0,  # no limit; a stream may be silent for days
        "grpc.initial_reconnect_backoff_ms": 100,
        "grpc.min_reconnect_backoff_ms": 100,  # also: how long an attempt may take at least
        "grpc.max_reconnect_backoff_ms": 1_000,
        # A channel's state is its own: channels of one process would share connections, their flow-control window, and
        # the wait after a failed attempt, which a renewed one is there to be rid of.
        "grpc.use_local_subchannel_pool": 1,
        **dict(NAMES),
    }
)
"""Of a connection that is meant to last."""


def lasting(changes: Mapping[str, Any] | None = None) -> Options:
    """`LASTING`, with what is different or comes on top."""
    return tuple({**LASTING, **(changes or {})}.items())


def expecting(name: str) -> Options:
    """Who answers must have this name in its certificate, whatever address was dialled. Says nothing without TLS."""
    return (("grpc.ssl_target_name_override", name),)


def open_channel(
    endpoint: str, options: Iterable[tuple[str, Any]] = (), credentials: grpc.ChannelCredentials | None = None
) -> grpc.aio.Channel:
    """A channel to host:port, or to a socket (unix:PATH); it connects when it is first used."""
    all_options = tuple({**dict(NAMES), **dict(options)}.items())
    if credentials is not None:
        return grpc.aio.secure_channel(endpoint, credentials, all_options)
    return grpc.aio.insecure_channel(endpoint, all_options)


def is_name(endpoint: str) -> bool:
    """Whether somebody has to be asked where that is: neither an address nor a socket."""
    if endpoint.startswith(PLACES):
        return False
    host, _, port = endpoint.rpartition("/")[2].rpartition(":")
    try:
        ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return bool(host) and port.isdecimal()
    return False


class Renewed(ABC):
    """Opens channels with something that may be exchanged: those of an older generation are replaced."""

    @property
    @abstractmethod
    def generation(self) -> int:
        """Grows with each exchange."""

    @property
    @abstractmethod
    def directory(self) -> str:
        """Where it is."""

    @property
    def keeps_to_named(self) -> bool:
        """Whether it is of use at the addresses alone that its user names, and not at those that members name."""
        return False

    @abstractmethod
    def __call__(self, endpoint: str, options: Iterable[tuple[str, Any]] = ()) -> grpc.aio.Channel:
        """As `open_channel`."""


class Kept:
    """The channel to one endpoint, for as long as somebody needs it. Belongs to one event loop."""

    def __init__(
        self,
        endpoint: str,
        options: Options,
        opener: Open = open_channel,
        now_s: Callable[[], float] = monotonic_s,
    ) -> None:
        self.endpoint = endpoint
        self._options, self._opener, self._now_s = options, opener, now_s
        self._named = is_name(endpoint)
        self._renewed = opener if isinstance(opener, Renewed) else None
        self._lasts = not self._named and self._renewed is None
        self._channel: grpc.aio.Channel | None = None
        self._opened_s = 0.0
        self._generation = 0

    def get(self) -> grpc.aio.Channel:
        """Take it anew for each call and each stream: one that fails is not the one of the next time."""
        if self._channel is None:
            self._open(self._options)
        elif self._lasts:
            pass
        # Dropped, not closed: what is under way on it ends by itself, and gRPC closes it then.
        elif self._renewed is not None and self._renewed.generation != self._generation:
            self._open(self._options)
        elif self._named and self._has_failed(self._channel):
            self._open(tuple({**dict(self._options), "grpc.min_reconnect_backoff_ms": CONNECT_MS}.items()))
        assert self._channel is not None
        return self._channel

    def _has_failed(self, channel: grpc.aio.Channel) -> bool:
        if channel.get_state() is not grpc.ChannelConnectivity.TRANSIENT_FAILURE:
            return False
        return self._now_s() - self._opened_s >= RENEW_S

    def _open(self, options: Options) -> None:
        if self._renewed is not None:
            self._generation = self._renewed.generation
        self._channel = self._opener(self.endpoint, options)
        self._opened_s = self._now_s()

    async def close(self) -> None:
        """Ends calls under way in CANCELLED; `get` opens it again."""
        channel, self._channel = self._channel, None
        if channel is not None:
            await channel.close()
