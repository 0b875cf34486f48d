"""A real etcd of one member, in a directory and on ports of its own, its disk synced as in production."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
from contextlib import suppress
from pathlib import Path

import pytest

from failover.etcd import EtcdAuthority
from failover.register import Register

READY_S = 20.0


def binary(name: str = "etcd") -> str:
    """Where it is. A test that needs it fails without it: a skipped test of an authority would look like a pass."""
    found = shutil.which(name)
    if found is None:
        pytest.fail(f"{name} is not on PATH: run tools/install_etcd.sh (Debian: packages etcd-server, etcd-client)")
    return found


def free_ports(count: int) -> list[int]:
    """Ports that nobody has now."""
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(count)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


class EtcdServer:
    """Start, kill, freeze; the same ports and directory each time."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port, self.peer_port = free_ports(2)
        self.endpoint = f"127.0.0.1:{self.port}"
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Until it answers a linearizable read."""
        client, peer = f"http://{self.endpoint}", f"http://127.0.0.1:{self.peer_port}"
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log").open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *(binary(), "--name", "only", "--data-dir", os.fspath(self.folder / "data")),
                *("--listen-client-urls", client, "--advertise-client-urls", client),
                *(
                    "--listen-peer-urls",
                    peer,
                    "--initial-advertise-peer-urls",
                    peer,
                    "--initial-cluster",
                    f"only={peer}",
                ),
                *("--heartbeat-interval", "20", "--election-timeout", "100"),  # alone: it elects itself this fast
                stdout=output,
                stderr=output,
            )
        await self._ready()

    async def _ready(self) -> None:
        assert self._process is not None
        probe = EtcdAuthority([self.endpoint], "/probe/", "probe", "probe")
        try:
            async with asyncio.timeout(READY_S):
                while not isinstance(await probe.get("main"), Register):
                    assert self._process.returncode is None, (self.folder / "log").read_text()[-2000:]
                    await asyncio.sleep(0)
        finally:
            await probe.close()

    async def kill(self) -> None:
        """As kill -9; returns when it is gone."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        self._process = None

    def freeze(self) -> None:
        """SIGSTOP: the kernel goes on accepting for it."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """SIGCONT."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    async def ctl(self, *arguments: str) -> bytes:
        """What an operator types; etcdctl's output."""
        process = await asyncio.create_subprocess_exec(
            *(binary("etcdctl"), "--endpoints", self.endpoint, *arguments),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "ETCDCTL_API": "3"},
        )
        output, _ = await process.communicate()
        assert process.returncode == 0, output
        return output
