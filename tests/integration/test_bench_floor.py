"""The floor says nothing when those who measured with it go, however they go."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import grpc.aio
import pytest

from bench.floor.wire import CONSUME, ECHO, NUMBER, PRODUCE
from tests.support.until import OUTER_S

ROOT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.process
SENDS = 200


async def leave(port: int, path: str, *, in_order: bool) -> None:
    """Opens a stream, is answered, keeps the floor busy and goes."""
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        call: Any = channel.stream_stream(path)()
        await call.write(NUMBER.pack(SENDS))
        if path == CONSUME:
            producer: Any = channel.stream_stream(PRODUCE)()
            await producer.write(b"x" * 1000)
            await asyncio.wait_for(producer.read(), OUTER_S)
        assert await asyncio.wait_for(call.read(), OUTER_S)
        for _ in range(SENDS):
            await call.write(NUMBER.pack(1))
        if in_order:
            await call.done_writing()
        else:
            call.cancel()


@pytest.mark.parametrize("in_order", [True, False])
def test_the_floor_shows_no_stack_when_a_client_goes(tmp_path: Path, in_order: bool) -> None:
    environment = {**os.environ, "PYTHONPATH": f"{ROOT / 'bench'}{os.pathsep}{ROOT}"}

    def start(name: str, *more: str) -> subprocess.Popen[str]:
        command = [sys.executable, str(ROOT / "bench/floor/server.py"), "--data-dir", str(tmp_path / name), *more]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        return subprocess.Popen(command, text=True, env=environment, **pipes)

    with start("second") as second:
        assert second.stdout
        with start("first", "--peer", second.stdout.readline().strip()) as first:
            assert first.stdout
            port = int(first.stdout.readline())
            for path in (PRODUCE, ECHO, CONSUME) * 3:
                asyncio.run(leave(port, path, in_order=in_order))
            said = first.communicate("", timeout=OUTER_S)[1]
        said += second.communicate("", timeout=OUTER_S)[1]
    assert said == ""
