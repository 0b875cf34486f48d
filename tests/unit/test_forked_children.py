"""A child that is forked beside gRPC at work lives; so a test that counts deaths counts none of gRPC's."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tandemq.grpc_engine import FORKS

ROOT = Path(__file__).resolve().parents[2]
CHILDREN = 40

AT_WORK = f"""
import asyncio, os, warnings
import tests.support.forked_children
import grpc, grpc.aio

warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads

class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(self.echo)

    async def echo(self, request, context):
        return request

async def main():
    server = grpc.aio.server()
    server.add_generic_rpc_handlers([Echo()])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    end, kept = os.pipe()
    children = []
    async with grpc.aio.insecure_channel(f"127.0.0.1:{{port}}") as channel:
        call = channel.unary_unary("/any/any")
        for _ in range({CHILDREN}):
            calls = [asyncio.ensure_future(call(b"any").code()) for _ in range(8)]
            await asyncio.wait(calls, return_when=asyncio.FIRST_COMPLETED)
            children.append(os.fork())
            if not children[-1]:
                os.close(kept)
                os.read(end, 1)  # until the parent has forked all, and has worked on
                os._exit(0)
            await asyncio.gather(*calls)
        for _ in range(100):
            await call(b"any")
    os.close(kept)
    print([code for child in children if (code := os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))])
    await server.stop(None)

asyncio.run(main())
"""


def test_a_child_that_is_forked_beside_grpc_lives() -> None:
    environment = {name: said for name, said in os.environ.items() if name != FORKS}
    done = subprocess.run(
        [sys.executable, "-c", AT_WORK], cwd=ROOT, env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout == "[]\n", done.stderr


def test_what_a_test_starts_hears_nothing_of_it() -> None:
    assert "grpc" in sys.modules
    assert FORKS not in os.environ
