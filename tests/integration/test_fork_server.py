"""A forked process is the same as one that was started, and ends like one; only its imports are not made again."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from chaos.fork_server import COMMANDS, HANDED_ON, ForkedProcess, ForkFailed, ForkServer, handed_on, in_use
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


STARTS_A_PAIR = """
import asyncio, sys
from pathlib import Path
from tests.support.clusters import patient

async def main():
    cluster = patient(Path(sys.argv[1]))
    async with cluster.running():
        print(cluster.children["a"].pid, flush=True)
        sys.stdin.readline()

asyncio.run(main())
"""


@pytest.mark.parametrize("is_handed_on", [True, False])
def test_a_command_forks_its_members_from_the_server_that_it_was_handed(
    server: ForkServer, tmp_path: Path, *, is_handed_on: bool
) -> None:
    """And starts them where it was handed none."""
    with in_use(server):
        more = handed_on() if is_handed_on else {}
    command = subprocess.Popen(
        [sys.executable, "-c", STARTS_A_PAIR, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, **more},
    )
    with command:
        assert command.stdout is not None
        member = Path("/proc") / command.stdout.readline().decode().strip()
        is_forked = b"chaos.fork_server" in (member / "cmdline").read_bytes()
        given = (member / "stat").read_text(encoding="utf-8")
        parent = int(given.rpartition(")")[2].split()[1])
        command.communicate(b"\n")
    assert command.returncode == 0
    assert is_forked is is_handed_on
    assert (parent == command.pid) is not is_handed_on
    assert not member.exists(), "it ends with whoever asked for it"


def test_a_member_does_not_see_that_its_server_was_handed_on(server: ForkServer) -> None:
    with in_use(server):
        more = handed_on()
    assert more == {HANDED_ON: server.address}
    found = json.loads(output_of(forked(server, "tests.support.reflecting", **more)))
    assert HANDED_ON not in found["environment"]


@pytest.fixture(scope="module")
def commands() -> Iterator[ForkServer]:
    with ForkServer(COMMANDS) as server:
        yield server


def started(arguments: list[str], environment: dict[str, str], directory: Path, stdin: str) -> tuple[int, str, str]:
    """As a user starts it; its standard streams are files."""
    with TemporaryFile("w+") as given, TemporaryFile("w+") as out, TemporaryFile("w+") as err:
        given.write(stdin)
        given.seek(0)
        command = [sys.executable, "-P", "-m", *arguments]
        code = subprocess.run(
            command, stdin=given, stdout=out, stderr=err, env=environment, cwd=directory, process_group=0, check=False
        ).returncode
        for each in (out, err):
            each.seek(0)
        return code, out.read(), err.read()


def test_a_forked_command_is_in_what_a_started_one_is_in(commands: ForkServer, tmp_path: Path) -> None:
    environment = {**os.environ, "TANDEMQ_SHOWN": "yes"}
    _, said, _ = started(["tests.support.reflecting", "one"], environment, tmp_path, "")
    done = commands.run(["tests.support.reflecting", "one"], environment=environment, directory=tmp_path)
    wanted, found = json.loads(said), json.loads(done.stdout)
    for name in set(found["environment"]) - set(wanted["environment"]):
        assert name.startswith("GRPC_"), "what is set before gRPC is imported"
        del found["environment"][name]
    assert found == wanted


@pytest.mark.parametrize(
    ("arguments", "stdin", "code"),
    [
        (["tandemq", "version"], "", 0),
        (["tandemq", "queue", "--help"], "", 0),
        (["tandemq", "queue", "rm"], "", 2),
        (["tandemq", "nothing"], "", 2),
        (["tandemq", "serve", "--config", "/nowhere/a.toml"], "", 1),
        (["json.tool"], '{"a": 1}', 0),
        (["json.tool"], "{", 1),
    ],
    ids=lambda given: " ".join(given[:2]) if isinstance(given, list) else None,
)
def test_a_forked_command_says_what_a_started_one_says(
    commands: ForkServer, tmp_path: Path, arguments: list[str], stdin: str, code: int
) -> None:
    environment = {**os.environ, "NO_COLOR": "1", "TANDEMQ_CONFIG_HOME": str(tmp_path)}
    done = commands.run(arguments, environment=environment, stdin=stdin, directory=tmp_path)
    assert (done.returncode, done.stdout, done.stderr) == started(arguments, environment, tmp_path, stdin)
    assert done.returncode == code


@pytest.mark.parametrize("name", ["LC_ALL", "LANG", "PYTHONHASHSEED", "PYTHONUTF8", "TZ"])
def test_a_command_that_would_start_otherwise_is_not_forked(commands: ForkServer, name: str) -> None:
    environment = {**os.environ, name: "another"}
    with pytest.raises(ForkFailed, match=f"{name}: read when an interpreter starts"):
        commands.run(["tandemq", "version"], environment=environment)
    with pytest.raises(ForkFailed, match="gone"):
        ForkServer(COMMANDS, "/nowhere").run(["tandemq", "version"], environment=os.environ)


def test_a_forked_command_that_takes_too_long_is_killed_and_one_that_is_killed_says_so(commands: ForkServer) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        commands.run(["http.server", "0", "--bind", "127.0.0.1"], environment=os.environ, timeout=0.0)
    killed = commands.run(["tests.support.ending", str(int(signal.SIGKILL))], environment=os.environ)
    assert killed.returncode == -signal.SIGKILL
