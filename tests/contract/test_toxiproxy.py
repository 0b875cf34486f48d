"""The real Toxiproxy through its adapter: what toxics do, whose endpoint is whose, and how it goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pytest

from chaos.cluster import Cluster
from chaos.ports import ports_in_use
from chaos.toxics import Bandwidth, Latency, ResetPeer, Stream, Timeout, Toxic, ToxiproxyError, toxic_of
from chaos.toxiproxy import VERSION, Proxy, Toxiproxy, ToxiproxyServer, server_at
from tests.support.ports import free_port
from tests.support.starvation import Soon, Stopwatch
from tests.support.toxiproxy import toxiproxy_program
from tests.support.until import OUTER_S, until_sync

pytestmark = pytest.mark.process

HOLD_S = 0.3  # how long a test watches that nothing comes


@pytest.fixture
def program() -> Path:
    return toxiproxy_program()


@pytest.fixture
def toxiproxy(program: Path, tmp_path: Path) -> Iterator[Toxiproxy]:
    with server_at(program, f"127.0.0.1:{free_port()}", tmp_path / "toxiproxy.log") as api:
        yield api


@pytest.fixture
def proxy(toxiproxy: Toxiproxy, target: str) -> Proxy:
    return toxiproxy.create("a-to-b", "127.0.0.1:0", target)


class Caller:
    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader, self.writer = reader, writer

    async def says(self, data: bytes) -> float:
        """How long the answer took."""
        began = time.monotonic()
        self.writer.write(data)
        assert await asyncio.wait_for(self.reader.readexactly(len(data)), OUTER_S) == data.upper()
        return time.monotonic() - began

    async def hears_nothing(self, after: bytes) -> None:
        self.writer.write(after)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(self.reader.read(1), HOLD_S)

    async def is_cut_off(self) -> None:
        with contextlib.suppress(ConnectionError):
            assert await asyncio.wait_for(self.reader.read(), OUTER_S) == b""
        self.writer.close()


async def dial(proxy: Proxy) -> Caller:
    host, _, port = proxy.listen.rpartition(":")
    return Caller(*await asyncio.open_connection(host, int(port)))


async def test_a_proxy_carries_bytes_and_tells_its_port_and_version(proxy: Proxy, toxiproxy: Toxiproxy) -> None:
    assert not proxy.listen.endswith(":0")
    assert toxiproxy.names() == ["a-to-b"]
    assert toxiproxy.version() in (VERSION, "git")
    caller = await dial(proxy)
    await caller.says(b"hello")
    caller.writer.close()


@pytest.mark.parametrize("stream", Stream)
@pytest.mark.clock
async def test_a_latency_is_as_long_as_it_says(proxy: Proxy, stream: Stream) -> None:
    caller = await dial(proxy)
    proxy.add(Latency(300), stream)
    with Stopwatch() as watch:
        assert await caller.says(b"late") >= 0.3
    watch.judge("an answer that is 0.3 s late", 3)
    proxy.add(Latency(600), stream)  # takes the place of the first
    assert proxy.toxics() == [f"latency_{stream.value}"]
    assert await caller.says(b"later") >= 0.6
    proxy.heal()
    with Soon("an answer over a healed wire", 0.3):
        await caller.says(b"soon")
    caller.writer.close()


@pytest.mark.parametrize("stream", Stream)
async def test_a_cut_is_silent_and_ends_the_connection_when_it_is_healed(proxy: Proxy, stream: Stream) -> None:
    caller = await dial(proxy)
    await caller.says(b"before")
    proxy.add(Timeout(), stream)
    await caller.hears_nothing(b"lost")
    second = await dial(proxy)  # it still listens
    await second.hears_nothing(b"lost too")
    proxy.heal()
    await caller.is_cut_off()  # never a stream with a hole
    await second.is_cut_off()
    third = await dial(proxy)
    await third.says(b"after")
    third.writer.close()


async def test_a_reset_cuts_off_what_is_open_and_what_comes(proxy: Proxy) -> None:
    caller = await dial(proxy)
    await caller.says(b"before")
    proxy.add(ResetPeer(), Stream.UP)
    caller.writer.write(b"now")
    await caller.is_cut_off()
    second = await dial(proxy)
    second.writer.write(b"and now")
    await second.is_cut_off()
    proxy.heal()
    third = await dial(proxy)
    await third.says(b"after")
    third.writer.close()


async def test_a_proxy_that_is_disabled_refuses_until_it_is_healed(proxy: Proxy) -> None:
    caller = await dial(proxy)
    await caller.says(b"before")
    proxy.disable()
    await caller.is_cut_off()
    with pytest.raises(ConnectionRefusedError):
        await dial(proxy)
    proxy.heal()
    second = await dial(proxy)
    await second.says(b"after")
    second.writer.close()


async def test_each_instance_has_its_own_endpoint(program: Path, toxiproxy: Toxiproxy, tmp_path: Path) -> None:
    """The package keeps it in a class: the second instance would have taken the first one's calls."""
    with server_at(program, f"127.0.0.1:{free_port()}", tmp_path / "second.log") as second:
        toxiproxy.create("one", "127.0.0.1:0", "127.0.0.1:1")
        second.create("two", "127.0.0.1:0", "127.0.0.1:1")
        assert (toxiproxy.names(), second.names()) == (["one"], ["two"])
        assert toxiproxy.find("one").upstream == "127.0.0.1:1"
        with pytest.raises(ToxiproxyError, match=r"NOT_FOUND.*proxy one"):
            second.find("one")


# -- what goes wrong ---------------------------------------------------------------------------------------------------


def reason(error: pytest.ExceptionInfo[ToxiproxyError]) -> str:
    return error.value.reason


def test_an_unknown_toxic_is_named_with_what_was_meant() -> None:
    with pytest.raises(ToxiproxyError, match="did you mean latency") as error:
        toxic_of("latencey", latency_ms=3)
    assert reason(error) == "UNKNOWN_TOXIC"
    with pytest.raises(ToxiproxyError, match="latency_ms, jitter_ms"):
        toxic_of("latency", milliseconds=3)
    assert toxic_of("bandwidth", rate_kib=7) == Bandwidth(7)


def test_a_toxic_that_the_server_does_not_know_is_an_error(toxiproxy: Toxiproxy) -> None:
    class Unheard(Toxic):
        kind = "unheard_of"
        names: ClassVar = {}

    proxy = toxiproxy.create("a-to-b", "127.0.0.1:0", "127.0.0.1:1")
    with pytest.raises(ToxiproxyError, match="invalid toxic type") as error:
        proxy.add(Unheard(), Stream.UP)
    assert reason(error) == "UNKNOWN_TOXIC"


def test_a_port_in_use_is_named(toxiproxy: Toxiproxy) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        where = f"127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ToxiproxyError, match=f"{where}.*choose another port") as error:
            toxiproxy.create("a-to-b", where, "127.0.0.1:1")
    assert reason(error) == "PORT_IN_USE"
    assert toxiproxy.names() == []


def test_a_second_proxy_of_one_name_is_refused(toxiproxy: Toxiproxy) -> None:
    toxiproxy.create("a-to-b", "127.0.0.1:0", "127.0.0.1:1")
    with pytest.raises(ToxiproxyError) as error:
        toxiproxy.create("a-to-b", "127.0.0.1:0", "127.0.0.1:1")
    assert reason(error) == "EXISTS"


def test_a_server_does_not_start_where_another_listens(program: Path, toxiproxy: Toxiproxy, tmp_path: Path) -> None:
    """Toxiproxy itself would go on without its port, and the other one be taken for it."""
    second = ToxiproxyServer(program, toxiproxy.endpoint, tmp_path / "second.log")
    with pytest.raises(ToxiproxyError, match=toxiproxy.endpoint) as error:
        second.start()
    assert reason(error) == "PORT_IN_USE"
    assert not second.running


def test_a_program_that_is_not_toxiproxy_is_told(program: Path, tmp_path: Path) -> None:
    server = ToxiproxyServer(Path("/bin/false"), f"127.0.0.1:{free_port()}", tmp_path / "toxiproxy.log")
    with pytest.raises(ToxiproxyError, match="/bin/false ended at once"):
        server.start()


def test_a_server_that_dies_in_the_middle_is_told_and_leaves_nothing(program: Path, tmp_path: Path) -> None:
    port = free_port()
    server = ToxiproxyServer(program, f"127.0.0.1:{port}", tmp_path / "toxiproxy.log")
    server.start()
    proxy = server.api.create("a-to-b", "127.0.0.1:0", "127.0.0.1:1")
    os.kill(server.pid, signal.SIGKILL)
    with pytest.raises(ToxiproxyError, match=f"127.0.0.1:{port} does not answer") as error:
        proxy.add(Timeout(), Stream.UP)
    assert reason(error) == "SERVER_GONE"
    server.close()
    server.close()
    assert not server.running


def test_a_server_that_hangs_costs_the_time_limit_and_no_more(program: Path, tmp_path: Path) -> None:
    """The package would wait for ever."""
    server = ToxiproxyServer(program, f"127.0.0.1:{free_port()}", tmp_path / "toxiproxy.log")
    server.start()
    hasty = Toxiproxy(server.api.endpoint, timeout_s=0.3)
    os.kill(server.pid, signal.SIGSTOP)
    os.waitpid(server.pid, os.WUNTRACED)  # until each of its threads has stopped
    with pytest.raises(ToxiproxyError, match="Timeout"):
        hasty.names()
    hasty.close()
    server.close()


def test_the_server_goes_when_whoever_started_it_is_killed(program: Path, tmp_path: Path) -> None:
    port = free_port()
    lines = [
        "import os, signal",
        "from pathlib import Path",
        "from chaos.toxiproxy import ToxiproxyServer",
        f"server = ToxiproxyServer(Path({str(program)!r}), '127.0.0.1:{port}', Path({str(tmp_path / 't.log')!r}))",
        "server.start()",
        "print(server.pid, flush=True)",
        "os.kill(os.getpid(), signal.SIGKILL)",
    ]
    text = "\n".join(lines)
    ended = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert ended.returncode == -signal.SIGKILL, ended.stderr
    pid = int(ended.stdout)
    # Its first thread may be gone while another one still holds the port.
    until_sync(lambda: not _runs(pid) and _is_free(port), "the server is gone with whoever started it")


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _runs(pid: int) -> bool:
    """A zombie that nobody has waited for runs no more."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_pair_whose_toxiproxy_cannot_start_leaves_nothing(program: Path, tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, toxiproxy=Path("/bin/false"))
    with pytest.raises(ToxiproxyError, match="NOT_INSTALLED"):
        await cluster.start()
    assert not [child for child in cluster.children.values() if child.running]
    assert ports_in_use(cluster.base_port) == []
