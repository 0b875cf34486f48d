"""Looks once whether something answers at an address; it never decides what that means.

A probe that could not be made, because a name does not resolve or this host refuses to send, saw nothing: it is BLIND,
and must not be read as silence (MHA's lesson: a check that could not log in anywhere reported a healthy master as
dead).
"""

from __future__ import annotations

import asyncio
import errno
import socket
from dataclasses import dataclass
from enum import Enum
from typing import Any, Protocol

ANSWER_BYTES_MAX = 256
SILENT_ERRORS = frozenset(
    {errno.ECONNRESET, errno.ECONNABORTED, errno.EPIPE, errno.EHOSTUNREACH, errno.EHOSTDOWN, errno.ETIMEDOUT}
)
CUT_OFF_ERRORS = frozenset({errno.ENETUNREACH, errno.ENETDOWN})


class Sight(Enum):
    """What a probe saw."""

    ANSWERS = "answers"
    REFUSES = "refuses"  # the host answers, nobody listens
    SILENT = "silent"
    CUT_OFF = "cut off"  # this host has no network to send on
    BLIND = "blind"  # the probe could not be made


# Of several addresses of one name: the first of these that was seen anywhere is what the name shows.
_STRONGEST_FIRST = (Sight.ANSWERS, Sight.BLIND, Sight.REFUSES, Sight.SILENT, Sight.CUT_OFF)


@dataclass(frozen=True, slots=True)
class Seen:
    """One probe and what it saw, in words for an operator."""

    address: str
    sight: Sight
    text: str = ""

    def __str__(self) -> str:
        return f"{self.address} {self.sight.value}" + (f" ({self.text})" if self.text else "")


class Looking(Protocol):
    """What a classifier looks with: `look`, or the double of a network."""

    async def __call__(self, address: str, timeout_s: float, *, http: bool = False) -> Seen:
        """See `look`."""
        ...


async def look(address: str, timeout_s: float, *, http: bool = False) -> Seen:
    """Connects to host:port within the timeout; with `http` it also wants an answer to GET /livez, whatever its status.

    A connection alone shows that a kernel is there: a frozen process still has one. Only `http` shows that it runs.
    """
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    end_s = asyncio.get_running_loop().time() + timeout_s
    try:
        async with asyncio.timeout_at(end_s):
            infos = await asyncio.get_running_loop().getaddrinfo(host, int(port), type=socket.SOCK_STREAM)
    except TimeoutError:
        return Seen(address, Sight.BLIND, f"the name was not resolved within {timeout_s:g} s")
    except (OSError, ValueError) as error:
        return Seen(address, Sight.BLIND, f"{error}")
    found = await asyncio.gather(*(_look_at(info, end_s, address if http else "") for info in infos))
    for sight in _STRONGEST_FIRST:
        for seen, text in found:
            if seen is sight:
                return Seen(address, sight, text)
    return Seen(address, Sight.BLIND, "the name has no address")


async def _look_at(info: tuple[Any, ...], end_s: float, http_host: str) -> tuple[Sight, str]:
    family, kind, protocol, _, place = info
    loop = asyncio.get_running_loop()
    try:
        with socket.socket(family, kind, protocol) as probe:
            probe.setblocking(False)
            async with asyncio.timeout_at(end_s):
                await loop.sock_connect(probe, place)
                if not http_host:
                    return Sight.ANSWERS, ""
                await loop.sock_sendall(probe, f"GET /livez HTTP/1.0\r\nHost: {http_host}\r\n\r\n".encode())
                line = await _first_line(loop, probe)
    except TimeoutError:
        return Sight.SILENT, "no answer in time"
    except ConnectionRefusedError:
        return Sight.REFUSES, "nobody listens"
    except OSError as error:
        text = error.strerror or str(error)
        if error.errno in SILENT_ERRORS:
            return Sight.SILENT, text
        return (Sight.CUT_OFF if error.errno in CUT_OFF_ERRORS else Sight.BLIND), text
    return (Sight.ANSWERS, line) if line.startswith("HTTP/1.") else (Sight.SILENT, f"no HTTP: {line!r}")


async def _first_line(loop: asyncio.AbstractEventLoop, probe: socket.socket) -> str:
    data = b""
    while b"\n" not in data and len(data) < ANSWER_BYTES_MAX:
        part = await loop.sock_recv(probe, ANSWER_BYTES_MAX)
        if not part:
            break
        data += part
    return data.partition(b"\n")[0].decode("ascii", "replace").strip()
