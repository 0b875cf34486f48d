"""A forked process is the same as one that was started, and ends like one; only its imports are not made again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from chaos.fork_server import ForkedProcess, ForkFailed, ForkServer, in_use
from tests.support.clusters import patient
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def server() -> Iterator[ForkServer]:
    with ForkServer() as server:
        yield server


def output_of(process: ForkedProcess) -> bytes:
    assert process.stdout is not None
    with process.stdout, process.stdin:
        said = process.stdout.read()
        process.wait(OUTER_S)
    return said


def forked(server: ForkServer, *arguments: str, **more: str) -> ForkedProcess:
    return server.start(arguments, environment={**os.environ, **more})


def test_a_forked_process_is_in_what_a_started_one_is_in(server: ForkServer) -> None:
    arguments = ["tests.support.reflecting", "one", "two"]
    more = {"TANDEMQ_SHOWN": "yes"}
    started = subprocess.Popen(
        [sys.executable, "-P", "-m", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        process_group=0,
        env={**os.environ, **more},
    )
    wanted = json.loads(started.communicate(timeout=OUTER_S)[0])
    found = json.loads(output_of(forked(server, *arguments, **more)))
    own = {name: value for name, value in found["environment"].items() if name not in wanted["environment"]}
    assert all(name.startswith("GRPC_") for name in own), "what the product's imports set is set before they are made"
    found["environment"] = {name: value for name, value in found["environment"].items() if name not in own}
    assert found == wanted


def test_it_ends_as_a_started_one_does(server: ForkServer) -> None:
    done = forked(server, "tandemq", "version")
    assert b'"tandemq"' in output_of(done)
    assert done.returncode == 0
    refused = forked(server, "tandemq", "serve", "--config", "/nowhere/a.toml")
    assert b"CONFIG_ERROR" in output_of(refused)
    assert refused.returncode == 1
    unknown = forked(server, "tandemq.no_such_module")
    assert b"No module named tandemq.no_such_module" in output_of(unknown)
    assert unknown.returncode == 1


def test_a_kill_ends_one_alone_and_tells_the_signal(server: ForkServer, tmp_path: Path) -> None:
    both = [
        forked(server, "tandemq", "witness", "--listen", "127.0.0.1:0", "--data-dir", str(tmp_path / name))
        for name in "ab"
    ]
    assert all(each.poll() is None for each in both)
    with pytest.raises(subprocess.TimeoutExpired):
        both[0].wait(0.0)
    os.killpg(both[0].pid, signal.SIGKILL)
    assert both[0].wait(OUTER_S) == both[0].poll() == -signal.SIGKILL
    assert both[1].poll() is None
    os.killpg(both[1].pid, signal.SIGTERM)
    assert both[1].wait(OUTER_S) in (0, -signal.SIGTERM)  # its handler may not be there yet
    assert not Path(f"/proc/{both[0].pid}").exists(), "it was waited for"
    for each in both:
        output_of(each)


def test_what_was_forked_goes_on_without_the_server() -> None:
    with ForkServer() as server:
        process = server.start(["http.server", "0", "--bind", "127.0.0.1"], environment=os.environ)
    assert Path(f"/proc/{process.pid}").exists()
    with pytest.raises(ForkFailed, match="nobody knows"):
        process.wait(OUTER_S)
    os.kill(process.pid, signal.SIGKILL)
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        assert b"Traceback" not in process.stdout.read()
    with pytest.raises(ForkFailed, match="has gone"):
        forked(server, "tandemq", "version")


async def test_a_member_that_was_forked_serves_is_killed_and_comes_back(server: ForkServer, tmp_path: Path) -> None:
    """Both ways beside each other: `a` is forked, `b` has a limit of its own and is started."""
    cluster = patient(tmp_path)
    cluster.children["b"].descriptors = 1024
    with in_use(server):
        async with cluster.running():
            assert isinstance(cluster.children["a"].process, ForkedProcess)
            assert isinstance(cluster.children["b"].process, subprocess.Popen)
            cluster.kill("a")
            await cluster.restart("a")
            await cluster.wait_ready()
    assert cluster.children["a"].ending == "exit code 0"
