"""A DNS server whose names move, and a network of its own to ask it in: what resolves names there asks this one.

The network is a name space of its own, with nothing but loopback, where port 53 is free and /etc/resolv.conf is ours.
"""

from __future__ import annotations

import asyncio
import os
import socket
import struct
import subprocess
import sys
from pathlib import Path
from types import TracebackType
from typing import Self

ROOT = Path(__file__).resolve().parents[2]
SERVER = "127.0.0.1"
PORT = 53
TTL_S = 3_600  # who believes it finds nobody
RUN_S = 240
A, IN, NO_SUCH_NAME, ANSWER = 1, 1, 3, 0x8580
SETUP = """
set -e
ip link set lo up
echo "nameserver $1" > "$2/resolv.conf"
echo "$1 localhost" > "$2/hosts"
mount --bind "$2/resolv.conf" /etc/resolv.conf
mount --bind "$2/hosts" /etc/hosts
shift 2
exec "$@"
"""


def why_not_inside() -> str:
    """Why this machine gives no such network; empty: it does."""
    try:
        done = subprocess.run([*_SPACES, "ip", "link", "set", "lo", "up"], capture_output=True, text=True, check=False)
    except FileNotFoundError as missing:
        return str(missing)
    return done.stderr.strip() if done.returncode else ""


def run_inside(folder: Path, *tests: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """pytest with these tests, in such a network."""
    command = [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", *tests]
    setup = ["sh", "-c", SETUP, "sh", SERVER, str(folder)]
    return subprocess.run(
        [*_SPACES, *setup, *command],
        cwd=ROOT,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        timeout=RUN_S,
        check=False,
    )


_SPACES = ("unshare", "--user", "--map-root-user", "--net", "--mount")


class Zone(asyncio.DatagramProtocol):
    """`async with Zone() as zone:`; what is not in `names` does not exist."""

    def __init__(self) -> None:
        self.names: dict[str, tuple[str, ...]] = {}
        self.missed: dict[str, int] = {}
        """How often a name was asked for that was not there."""
        self._changed = asyncio.Event()
        self._transport: asyncio.DatagramTransport | None = None

    async def __aenter__(self) -> Self:
        loop = asyncio.get_running_loop()
        self._transport, _ = await loop.create_datagram_endpoint(lambda: self, local_addr=(SERVER, PORT))
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None):
        assert self._transport is not None
        self._transport.close()

    async def take_away(self, name: str, misses: int) -> None:
        """Returns when it has been asked for so often since: whoever asks has learned that it is not there."""
        del self.names[name]
        self.missed[name] = 0
        while self.missed[name] < misses:
            self._changed.clear()
            await self._changed.wait()

    def datagram_received(self, data: bytes, address: tuple[str, int]) -> None:
        labels, at = [], 12
        while length := data[at]:
            labels.append(data[at + 1 : at + 1 + length].decode().lower())
            at += 1 + length
        (kind,) = struct.unpack_from(">H", data, at + 1)
        name, question = ".".join(labels), data[12 : at + 5]
        found = self.names.get(name)
        addresses = (found or ()) if kind == A else ()
        if found is None:
            self.missed[name] = self.missed.get(name, 0) + (kind == A)
            self._changed.set()
        flags = ANSWER | (NO_SUCH_NAME if found is None else 0)
        answers = (struct.pack(">HHHIH", 0xC00C, A, IN, TTL_S, 4) + socket.inet_aton(each) for each in addresses)
        reply = data[:2] + struct.pack(">HHHHH", flags, 1, len(addresses), 0, 0) + question + b"".join(answers)
        assert self._transport is not None
        self._transport.sendto(reply, address)


def silent(address: str, port: int) -> list[socket.socket]:
    """A listener whose queue is full: connections to it are neither taken nor refused. Close them all."""
    family = socket.AF_INET
    listener = socket.socket(family)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind((address, port))
    listener.listen(0)
    made = [listener]
    for _ in range(4):
        filler = socket.socket(family)
        filler.setblocking(False)
        filler.connect_ex((address, port))
        made.append(filler)
    return made
