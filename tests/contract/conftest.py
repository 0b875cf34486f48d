"""Fixtures of what several contracts are held to."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from failover.witness import WitnessServer
from tests.support.authorities import APART, World, local_world, name_of


@pytest.fixture(params=[*APART, local_world], ids=name_of)
async def world(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """Two members at an authority, of each kind."""
    async for each in request.param(tmp_path):
        yield each


@pytest.fixture(params=APART, ids=name_of)
async def apart(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[World]:
    """The same where the authority is a process of its own."""
    async for each in request.param(tmp_path):
        yield each


@pytest.fixture
async def witness(tmp_path: Path) -> AsyncIterator[WitnessServer]:
    server = WitnessServer("127.0.0.1:0", tmp_path)
    await server.start()
    yield server
    await server.stop()


@pytest.fixture
async def target() -> AsyncIterator[str]:
    """The endpoint of who answers each chunk with the same in capitals; it says goodbye by closing."""
    writers = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writers.append(writer)
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(1 << 16):
                writer.write(data.upper())
                await writer.drain()
        writer.close()

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    host, port = server.sockets[0].getsockname()
    yield f"{host}:{port}"
    server.close()
    for writer in writers:
        writer.close()
