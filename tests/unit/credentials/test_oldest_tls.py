"""A port takes TLS 1.3 alone, or says in the log that it does not: gRPC hears of that when it is imported, and in an
application's process that may have been long ago.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tandemq.credentials.authority import create, issue
from tandemq.grpc_engine import NONE_OLDER, SUITES

PORT = """
import asyncio, logging, socket, ssl, sys
from pathlib import Path
logging.basicConfig(format="%(message)s", stream=sys.stdout)
{first}
import grpc.aio
from tandemq.credentials.channels import port_credentials
from tandemq.credentials.files import Credentials

def version(number):
    context = ssl.create_default_context(cafile=sys.argv[1] + "/ca.pem")
    context.check_hostname = False
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    try:
        with context.wrap_socket(socket.create_connection(("127.0.0.1", number))) as client:
            return client.version()
    except OSError:
        return "refused"

async def main():
    server = grpc.aio.server()
    credentials = port_credentials(Credentials(Path(sys.argv[1])), asks=False)
    number = server.add_secure_port("127.0.0.1:0", credentials)
    await server.start()
    print(await asyncio.to_thread(version, number))
    await server.stop(None)

asyncio.run(main())
"""
AS_A_SERVER = """
import os
from tandemq.grpc_engine import as_server
with as_server(os.environ):
    import grpc
"""


@pytest.mark.slow
@pytest.mark.parametrize(
    ("first", "said", "version", "warned"),
    [
        ("import grpc", None, "TLSv1.2", True),
        (f"import grpc{AS_A_SERVER}", None, "TLSv1.2", True),
        (AS_A_SERVER, None, "refused", False),
        ("import grpc", NONE_OLDER, "refused", False),
    ],
    ids=["an application's", "too late", "a server's", "an application's that was set"],
)
def test_a_port_that_takes_older_tls_says_so(
    first: str, said: str | None, version: str, warned: bool, tmp_path: Path
) -> None:
    create(tmp_path / "ca")
    issue(tmp_path / "ca", "member/orders/a", tmp_path / "a")
    environment = {name: value for name, value in os.environ.items() if name != SUITES}
    environment |= {SUITES: said} if said is not None else {}
    done = subprocess.run(
        [sys.executable, "-c", PORT.format(first=first), str(tmp_path / "a")],
        cwd=Path(__file__).resolve().parents[3],
        env=environment,
        capture_output=True,
        text=True,
        check=True,
    )
    lines = done.stdout.splitlines()
    assert lines[-1] == version
    assert [f"set {SUITES}={NONE_OLDER} before the application starts" in line for line in lines[:-1]] == [
        True
    ] * warned
