"""Floods: frames that cost a server something and mean nothing, as fast as one client can send them on one connection.

Each is to end its connection; `flood` says whether it did, and after how long.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from chaos.crowd.wire import ACK, END_HEADERS, PREFACE, Kind, RawConnection, call, frame, header

WATCH = b"/grpc.health.v1.Health/Watch"
HELLO = PREFACE + frame(Kind.SETTINGS)
CANCEL = struct.pack(">I", 8)
BIG = (b"x-big", b"y" * 15_000)
FLOOD_S = 60.0
"""A flood that lives for so long was not ended."""
FRAMES_AT_ONCE = 64

Make = Callable[[int], bytes]
"""The n-th frame, or frames, of a flood."""


@dataclass(frozen=True, slots=True)
class Ending:
    """What became of one flood."""

    name: str
    ended: bool
    after_s: float
    frames: int
    how: str
    """GOAWAY with its code, or how the connection ended."""


def _settings(number: int) -> bytes:
    return frame(Kind.SETTINGS, 0, 0, struct.pack(">HI", 4, 65_535 + number % 2))


def _ping(number: int) -> bytes:
    return frame(Kind.PING, 0, 0, struct.pack(">Q", number))


def _begin(number: int, *others: tuple[bytes, bytes]) -> bytes:
    return frame(Kind.HEADERS, END_HEADERS, 2 * number + 1, call(WATCH, *others))


def _reset(number: int) -> bytes:
    return _begin(number) + frame(Kind.RST_STREAM, 0, 2 * number + 1, CANCEL)


def _continuation(number: int) -> bytes:
    if number == 0:
        return frame(Kind.HEADERS, 0, 1, call(WATCH))
    return frame(Kind.CONTINUATION, 0, 1, header(b"x-%d" % number, b"y" * 1_000))


FLOODS: dict[str, Make] = {
    "ping": _ping,
    "settings": _settings,
    "settings_ack": lambda _number: frame(Kind.SETTINGS, ACK),
    "continuation": _continuation,
    "big_headers": lambda number: _begin(number, BIG),
    "rapid_reset": _reset,
    "streams": _begin,
}


def flood(address: tuple[str, int], name: str, within_s: float = FLOOD_S, tls: ssl.SSLContext | None = None) -> Ending:
    """On a connection of its own: sends until the server ends it, or the time is over. Blocking."""
    with RawConnection(address, hello=HELLO, tls=tls) as connection:
        connection.read(1.0)
        return flood_on(connection, name, within_s)


def flood_on(connection: RawConnection, name: str, within_s: float = FLOOD_S) -> Ending:
    """The same on a connection that has said HELLO. Blocking."""
    make = FLOODS[name]
    began = time.monotonic()
    frames = 0
    while time.monotonic() < began + within_s and connection.send(
        b"".join(make(frames + place) for place in range(FRAMES_AT_ONCE))
    ):
        frames += FRAMES_AT_ONCE
        connection.read()
    if connection.ended:
        connection.read()
    how = f"GOAWAY {connection.goaway}" if connection.goaway is not None else connection.ended
    return Ending(name, bool(connection.ended), round(time.monotonic() - began, 3), frames, how)


async def run_floods(address: tuple[str, int], within_s: float = FLOOD_S) -> list[Ending]:
    """All of them, one after the other."""
    return [await asyncio.to_thread(flood, address, name, within_s) for name in FLOODS]
