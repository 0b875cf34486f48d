"""Connections that say nothing, more than a member has descriptors, opened again as fast as the member ends them."""

from __future__ import annotations

import asyncio
import contextlib
import resource
from collections.abc import AsyncIterator
from dataclasses import dataclass

OWN_DESCRIPTORS = 200
"""Of this process, beside the crowd."""
AGAIN_S = 0.5
"""Between two attempts of a connection that was ended."""


@dataclass(slots=True)
class Crowd:
    """What a crowd met."""

    connections: int
    opened: int = 0
    open_now: int = 0
    ended: int = 0
    """Connections that the member ended."""
    most: int = 0
    """Open at once, as this side saw it."""


def take_descriptors(connections: int) -> None:
    """Raise this process's own limit. Raises RuntimeError where it may not have so many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + OWN_DESCRIPTORS
    if hard != resource.RLIM_INFINITY and wanted > hard:
        raise RuntimeError(f"{connections} connections need {wanted} descriptors, and the hard limit here is {hard}")
    if soft != resource.RLIM_INFINITY and wanted > soft:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


@contextlib.asynccontextmanager
async def crowding(address: tuple[str, int], connections: int, hello: bytes = b"") -> AsyncIterator[Crowd]:
    """So many connections until the block ends, each opened again when it is ended; the block begins once every one
    was opened. `hello`: what each says first.
    """
    take_descriptors(connections)
    crowd, complete = Crowd(connections), asyncio.Event()
    tasks = [asyncio.create_task(_stay(address, crowd, complete, hello)) for _ in range(connections)]
    try:
        await complete.wait()
        yield crowd
    finally:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


async def _stay(address: tuple[str, int], crowd: Crowd, complete: asyncio.Event, hello: bytes) -> None:
    while True:
        with contextlib.suppress(OSError):
            reader, writer = await asyncio.open_connection(*address)
            crowd.opened += 1
            crowd.open_now += 1
            if crowd.opened == crowd.connections:
                complete.set()
            crowd.most = max(crowd.most, crowd.open_now)
            try:
                writer.write(hello)
                while await reader.read(4096):
                    pass
                crowd.ended += 1
            finally:
                crowd.open_now -= 1
                writer.close()
        await asyncio.sleep(AGAIN_S)
