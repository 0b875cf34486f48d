"""Ports that answer, refuse, or never say a word."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def listener() -> Iterator[str]:
    """Accepts in the kernel and never says a word: a black hole to whoever wants an answer."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"127.0.0.1:{server.getsockname()[1]}"


@contextmanager
def full_listener() -> Iterator[str]:
    """Its queue is full: a further connection gets no answer at all, as from a host that is gone."""
    with socket.socket() as server:
        server.bind(("127.0.0.1", 0))
        server.listen(0)
        waiting = []
        for _ in range(2):
            each = socket.socket()
            each.setblocking(False)
            each.connect_ex(server.getsockname())
            waiting.append(each)
        yield f"127.0.0.1:{server.getsockname()[1]}"
        for each in waiting:
            each.close()


def refused() -> str:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"127.0.0.1:{server.getsockname()[1]}"
