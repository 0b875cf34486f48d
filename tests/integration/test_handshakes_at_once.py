"""A port with certificates stands many handshakes at once: as at the start of a pair, when all of it connects."""

from __future__ import annotations

import asyncio
import ssl
import sys
from asyncio.subprocess import PIPE
from pathlib import Path

import pytest

from tandemq.credentials.authority import create, issue

pytestmark = pytest.mark.process
AT_ONCE, HANDSHAKES = 16, 2_000
"""Before, one of a few hundred ended the process."""
SERVER = """
import asyncio, os, sys
from pathlib import Path
from tandemq.grpc_engine import as_server
with as_server(os.environ):
    import grpc.aio
from tandemq.credentials.channels import port_credentials
from tandemq.credentials.files import Credentials

async def main():
    server = grpc.aio.server()
    print(server.add_secure_port("127.0.0.1:0", port_credentials(Credentials(Path(sys.argv[1])))), flush=True)
    await server.start()
    await asyncio.to_thread(sys.stdin.read)
    await server.stop(0)

asyncio.run(main())
"""


async def test_a_port_outlives_handshakes_at_once(tmp_path: Path) -> None:
    folder = tmp_path / "a"
    issue(create(tmp_path / "authority").parent, "member/pair/a", folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(folder / "cert.pem", folder / "key.pem")
    context.set_alpn_protocols(["h2"])
    server = await asyncio.create_subprocess_exec(sys.executable, "-c", SERVER, str(folder), stdin=PIPE, stdout=PIPE)
    assert server.stdin is not None
    assert server.stdout is not None
    port, left = int(await server.stdout.readline()), list(range(HANDSHAKES))

    async def connects() -> None:
        while left:
            left.pop()
            _, writer = await asyncio.open_connection("127.0.0.1", port, ssl=context)
            writer.close()

    try:
        await asyncio.gather(*(connects() for _ in range(AT_ONCE)))
        server.stdin.close()
        assert await server.wait() == 0
    finally:
        if server.returncode is None:
            server.kill()
            await server.wait()
