"""A port and a client with credentials, over a real connection."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import grpc
import grpc.aio

from tandemq.credentials.caller import principal_of
from tandemq.credentials.channels import SecureOpen, port_credentials
from tandemq.credentials.files import Credentials
from tests.support.until import OUTER_S


async def who_is_seen(server: Path, client: Path, expected: str) -> str:
    """Whom a port takes the client for; raises AioRpcError where there is no connection."""

    class Handler(grpc.GenericRpcHandler):
        def service(self, _details: object) -> Any:
            async def answer(_request: bytes, context: Any) -> bytes:
                return principal_of(context).encode()

            return grpc.unary_unary_rpc_method_handler(answer)

    port = grpc.aio.server()
    port.add_generic_rpc_handlers([Handler()])
    try:
        number = port.add_secure_port("127.0.0.1:0", port_credentials(Credentials(server)))
        await port.start()
        options = [("grpc.use_local_subchannel_pool", 1), ("grpc.ssl_target_name_override", expected)]
        async with SecureOpen(Credentials(client))(f"127.0.0.1:{number}", options) as channel:
            return bytes(await channel.unary_unary("/a/b")(b"", timeout=OUTER_S)).decode()  # type: ignore[misc]
    finally:
        await port.stop(0)
