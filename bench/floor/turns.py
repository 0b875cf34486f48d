"""One frame of one message in flight at the floor, for as long as a line on stdin says: `turns.py PORT`.

Each line is a number of seconds; the answer is JSON, how many were answered and the median of how long that took.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import sys
import time
from typing import Any

import grpc.aio
from client import frame_of
from loops import run
from wire import OPTIONS, PRODUCE


async def main() -> None:
    frame = frame_of({"size": 1024, "frame": 1})
    async with grpc.aio.insecure_channel(f"127.0.0.1:{sys.argv[1]}", options=OPTIONS) as channel:
        call: Any = channel.stream_stream(PRODUCE)()
        while line := await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline):
            took, until = list[float](), time.perf_counter() + float(line)
            while (began := time.perf_counter()) < until:
                await call.write(frame)
                await call.read()
                took.append(time.perf_counter() - began)
            print(json.dumps({"sent": len(took), "p50_ms": statistics.median(took) * 1e3}), flush=True)
        call.cancel()


if __name__ == "__main__":
    run(main())
