"""A real etcd of one member or of several, in directories and on ports of its own, disks synced as in production."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path

import pytest

from chaos.cluster import is_stopped
from failover.etcd import EtcdAuthority
from failover.register import Register
from tandemq.credentials.chosen import opener_of
from tests.support.ports import free_ports
from tests.support.until import OUTER_S, until


def binary(name: str = "etcd") -> str:
    """Where it is. A test that needs it fails without it: a skipped test of an authority would look like a pass."""
    found = shutil.which(name)
    if found is None:
        pytest.fail(f"{name} is not on PATH: `make etcd` (Debian: packages etcd-server, etcd-client)")
    return found


class EtcdServer:
    """Start, kill, freeze; the same ports and directory each time."""

    def __init__(self, folder: Path, name: str = "only", secured: tuple[Path, Path] | None = None) -> None:
        """secured: its own directory of credentials, and a client's: it takes nobody without a certificate."""
        self.folder, self.name, self.secured = folder, name, secured
        port, peer_port = free_ports(2)
        self.endpoint, self.peer_url = f"127.0.0.1:{port}", f"http://127.0.0.1:{peer_port}"
        self.members = {name: self.peer_url}
        self._process: asyncio.subprocess.Process | None = None

    async def start(self) -> None:
        """Until it answers a linearizable read."""
        await self.spawn()
        await self._ready()

    async def spawn(self) -> None:
        """Does not wait for an answer: of a cluster most members must run before there is one."""
        client = f"{'https' if self.secured else 'http'}://{self.endpoint}"
        tls: list[str] = []
        if self.secured:
            own, _ = self.secured
            tls = ["--client-cert-auth", "--trusted-ca-file", os.fspath(own / "ca.pem")]
            tls += ["--cert-file", os.fspath(own / "cert.pem"), "--key-file", os.fspath(own / "key.pem")]
        self.folder.mkdir(parents=True, exist_ok=True)
        with (self.folder / "log").open("ab") as output:
            self._process = await asyncio.create_subprocess_exec(
                *(binary(), "--name", self.name, "--data-dir", os.fspath(self.folder / "data")),
                *("--listen-client-urls", client, "--advertise-client-urls", client),
                *("--listen-peer-urls", self.peer_url, "--initial-advertise-peer-urls", self.peer_url),
                *("--initial-cluster", ",".join(f"{name}={url}" for name, url in self.members.items())),
                *("--heartbeat-interval", "50", "--election-timeout", "250"),  # alone it elects itself this fast
                *tls,
                stdout=output,
                stderr=output,
            )

    async def _ready(self) -> None:
        assert self._process is not None
        opener = opener_of(os.fspath(self.secured[1]) if self.secured else "")
        probe = EtcdAuthority([self.endpoint], "/probe/", "probe", "probe", opener=opener)
        try:
            async with asyncio.timeout(OUTER_S):
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

    async def freeze(self) -> None:
        """SIGSTOP: the kernel goes on accepting for it. Until each of its threads has stopped."""
        assert self._process is not None
        pid = self._process.pid
        self._process.send_signal(signal.SIGSTOP)

        async def stopped() -> bool:
            return is_stopped(pid)

        await until(stopped, "etcd has stopped")

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


def cluster(folder: Path, count: int) -> list[EtcdServer]:
    """Members of one etcd, none of them started."""
    servers = [EtcdServer(folder / f"e{number}", f"e{number}") for number in range(count)]
    members = {server.name: server.peer_url for server in servers}
    for server in servers:
        server.members = members
    return servers
