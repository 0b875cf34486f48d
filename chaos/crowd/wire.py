"""As much of HTTP/2 as a hostile client needs: frames by hand on a plain socket, nothing of gRPC. Blocking."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
from collections.abc import Iterable
from enum import IntEnum
from types import TracebackType
from typing import Self

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
ACK = END_STREAM = 1
END_HEADERS = 4
CONNECT_S, BLOCKED_S = 10.0, 10.0
READ_BYTES = 1 << 16
HEAD_BYTES = 9


class Kind(IntEnum):
    """Frames."""

    DATA = 0
    HEADERS = 1
    RST_STREAM = 3
    SETTINGS = 4
    PING = 6
    GOAWAY = 7
    WINDOW_UPDATE = 8
    CONTINUATION = 9


def frame(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    """One frame as it goes over the wire."""
    return struct.pack(">I", len(payload))[1:] + bytes((kind, flags)) + struct.pack(">I", stream) + payload


def header(name: bytes, value: bytes) -> bytes:
    """A header as a literal that enters no table."""
    return b"\x00" + _text(name) + _text(value)


def call(path: bytes, *others: tuple[bytes, bytes]) -> bytes:
    """The headers that begin a gRPC call."""
    pairs: Iterable[tuple[bytes, bytes]] = (
        (b":method", b"POST"),
        (b":scheme", b"http"),
        (b":path", path),
        (b":authority", b"crowd"),
        (b"content-type", b"application/grpc"),
        (b"te", b"trailers"),
        *others,
    )
    return b"".join(header(name, value) for name, value in pairs)


def _connected(address: tuple[str, int], port: int) -> socket.socket:
    if port:
        made = socket.socket()
        made.settimeout(CONNECT_S)
    else:
        made = socket.create_connection(address, timeout=CONNECT_S)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # at both, or the second one cannot have the port
    if port:
        try:
            made.bind(("127.0.0.1", port))
            made.connect(address)
        except OSError:
            made.close()
            raise
    return made


def _text(text: bytes) -> bytes:
    left = len(text) - 127
    if left < 0:
        return bytes((len(text),)) + text
    size = [127]
    while left >= 128:
        size.append(left % 128 + 128)
        left //= 128
    return bytes((*size, left)) + text


class RawConnection:
    """A connection that says what it is given. `hello`: begin as HTTP/2 begins; `polite`: acknowledge what asks for it.

    `ended` says how the server ended it; empty: it lives. `goaway` is the error code it said first, if it said one.
    `port`: ours, at 127.0.0.1, which another of these may have for another address; 0: any. `tls`: with certificates.
    """

    def __init__(
        self,
        address: tuple[str, int],
        *,
        hello: bytes = b"",
        polite: bool = True,
        port: int = 0,
        tls: ssl.SSLContext | None = None,
    ) -> None:
        plain = _connected(address, port)
        self.socket = tls.wrap_socket(plain) if tls is not None else plain
        self.socket.sendall(hello)  # before anything is read: an acknowledgement must not come before the preface
        if tls is not None:
            self.socket.setblocking(False)  # what can be read there may be no word of anybody, but a ticket of TLS
        self.polite = polite
        self.ended = ""
        self.goaway: int | None = None
        self.resets: dict[int, int] = {}
        """How often each error code reset a stream."""
        self.settings = 0
        """SETTINGS that came: a server that takes clients sends one."""
        self._unread = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.socket.close()

    def send(self, data: bytes) -> bool:
        """All of it, reading meanwhile; False: the server has ended the connection, or takes nothing for 10 s."""
        rest = memoryview(data)
        while rest and not self.ended:
            readable, writable, _ = select.select([self.socket], [self.socket], [], BLOCKED_S)
            if readable:
                self.read()
            if not readable and not writable:
                self.ended = "it takes nothing any more"
            if writable and not self.ended:
                try:
                    rest = rest[self.socket.send(rest[:READ_BYTES]) :]
                except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                    continue
                except OSError as error:
                    self.ended = type(error).__name__
        return not self.ended

    def read(self, wait_s: float = 0.0) -> None:
        """Whatever is there, or comes within that time."""
        while not self.ended and select.select([self.socket], [], [], wait_s)[0]:
            wait_s = 0.0
            try:
                data = self.socket.recv(READ_BYTES)
            except (ssl.SSLWantReadError, ssl.SSLWantWriteError):
                continue
            except OSError as error:
                self.ended = type(error).__name__
                return
            if not data:
                self.ended = "closed"
                return
            self._take(data)

    def read_until_ended(self, within_s: float) -> bool:
        """Whether the server ends it in that time."""
        end = time.monotonic() + within_s
        while not self.ended and time.monotonic() < end:
            self.read(min(0.2, max(0.0, end - time.monotonic())))
        return bool(self.ended)

    def _take(self, data: bytes) -> None:
        unread = self._unread + data
        answers = []
        while len(unread) >= HEAD_BYTES and len(unread) >= (end := HEAD_BYTES + int.from_bytes(unread[:3], "big")):
            kind, flags, stream = unread[3], unread[4], int.from_bytes(unread[5:9], "big")
            payload, unread = unread[HEAD_BYTES:end], unread[end:]
            if kind == Kind.GOAWAY:
                self.goaway = int.from_bytes(payload[4:8], "big")
            elif kind == Kind.RST_STREAM and stream:
                code = int.from_bytes(payload, "big")
                self.resets[code] = self.resets.get(code, 0) + 1
            elif kind == Kind.SETTINGS and not flags & ACK:
                self.settings += 1
                answers.append(frame(Kind.SETTINGS, ACK))
            elif kind == Kind.PING and not flags & ACK:
                answers.append(frame(Kind.PING, ACK, 0, payload))
        self._unread = unread
        if self.polite and answers:
            try:
                self.socket.sendall(b"".join(answers))
            except OSError as error:
                self.ended = type(error).__name__
