"""gRPC with and without its event engine, alone: small frames to and fro on 1, 10, 50 and 1,000 streams, in turns.

Needs grpcio and nothing of Tandemq, so that others can run it: `python bench/levers/streams.py`. A server in a process
of its own answers each frame of 1 KiB with 8 bytes; each stream has one frame under way, and in one row fifty. Prints
microseconds of processor time a frame, of both processes together, and frames a second: medians and ranges of turns.

Example: python bench/levers/streams.py --turns 3 --seconds 1
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from typing import Any

import grpc
import grpc.aio

STREAMS = ((1, 1), (1, 50), (10, 1), (50, 1), (1_000, 1))
"""How many, and frames under way on each."""
PER_CHANNEL = 100
OFF = "-event_engine_client,-event_engine_listener"
MODES = {"with": "", "without": OFF}
METHOD = "/bench.Echo/Frames"


class Echo(grpc.GenericRpcHandler):
    """Answers each frame."""

    def service(self, handler_call_details: Any) -> grpc.RpcMethodHandler | None:
        """One method."""
        return grpc.stream_stream_rpc_method_handler(_echo) if handler_call_details.method == METHOD else None


async def _echo(frames: AsyncIterator[bytes], _: Any) -> AsyncIterator[bytes]:
    async for _frame in frames:
        yield b"answered"


async def serve() -> None:
    server = grpc.aio.server()
    server.add_generic_rpc_handlers((Echo(),))
    print(server.add_insecure_port("127.0.0.1:0"), flush=True)
    await server.start()
    await server.wait_for_termination()


async def load(port: int, count: int, under_way: int, seconds: float) -> tuple[int, float]:
    """Frames answered, and how long that took."""
    options = (("grpc.use_local_subchannel_pool", 1),)
    channels = [
        grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) for _ in range(-(-count // PER_CHANNEL))
    ]
    streams = [channels[number % len(channels)].stream_stream(METHOD)() for number in range(count)]
    frame = bytes(1024)
    for stream in streams:
        await stream.write(frame)
        await stream.read()
    began, answered = time.perf_counter(), 0

    async def write(stream: Any, room: asyncio.Semaphore) -> int:
        written = 0
        while time.perf_counter() < began + seconds:
            await room.acquire()
            await stream.write(frame)
            written += 1
        await stream.done_writing()
        return written

    async def lane(stream: Any) -> None:
        nonlocal answered
        room = asyncio.Semaphore(under_way)
        writing = asyncio.create_task(write(stream, room))
        while await stream.read() is not grpc.aio.EOF:
            answered += 1
            room.release()
        await writing

    await asyncio.gather(*(lane(stream) for stream in streams))
    took_s = time.perf_counter() - began
    for channel in channels:
        await channel.close()
    return answered, took_s


def used_us(pid: int) -> float:
    """User and system time of a process so far."""
    return time.clock_gettime_ns(((~pid) << 3) | 2) / 1e3


def turn(mode: str, count: int, under_way: int, seconds: float) -> tuple[float, float]:
    """Microseconds a frame, and frames a second."""
    environment = {**os.environ, "GRPC_EXPERIMENTS": MODES[mode]}
    command = [sys.executable, __file__]
    with subprocess.Popen([*command, "--serve"], env=environment, stdout=subprocess.PIPE, text=True) as server:
        try:
            assert server.stdout
            port = server.stdout.readline().strip()
            before = used_us(server.pid)
            words = ["--load", port, str(count), str(under_way), str(seconds)]
            done = subprocess.run([*command, *words], env=environment, stdout=subprocess.PIPE, text=True, check=True)
            found = json.loads(done.stdout)
            return (used_us(server.pid) - before) / found["frames"] + found["us"], found["a_second"]
        finally:
            server.kill()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=1.0)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--load", nargs=4, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        asyncio.run(serve())
    elif options.load:
        port, count, under_way, seconds = options.load
        began = time.process_time()
        frames, took_s = asyncio.run(load(int(port), int(count), int(under_way), float(seconds)))
        us = (time.process_time() - began) / frames * 1e6
        print(json.dumps({"frames": frames, "us": us, "a_second": frames / took_s}))
    else:
        print(f"grpcio {grpc.__version__}, Python {sys.version.split()[0]}; medians (ranges) of {options.turns} turns")
        for count, under_way in STREAMS:
            found: dict[str, list[tuple[float, float]]] = {mode: [] for mode in MODES}
            for number in range(options.turns):
                for mode in list(MODES)[:: -1 if number % 2 else 1]:
                    found[mode].append(turn(mode, count, under_way, options.seconds))
            for mode, runs in found.items():
                us, rates = ([run[place] for run in runs] for place in (0, 1))
                print(
                    f"{count:>5} x {under_way:<2} under way, {mode:<7} the event engine: "
                    f"{statistics.median(us):>6.0f} us a frame ({min(us):.0f} to {max(us):.0f}), "
                    f"{statistics.median(rates):>7,.0f} a second",
                    flush=True,
                )


if __name__ == "__main__":
    main()
