"""Forks processes of the product from one interpreter that has imported it, for tests that start hundreds of them.

A forked process is what `python -P -m <module> <arguments>` would be: its own process group, descriptors, environment
and signals, and kill -9 ends it alone. Only the second of imports is not spent again. gRPC has not been started in the
interpreter that is forked: its threads would be missing in the child.

    with ForkServer() as server:
        process = server.start(["tandemq", "serve", ...], stdin=..., stdout=..., environment=...)

A test hands it on to a command that starts members itself (`handed_on`), and only where it says so.

`python -P -m chaos.fork_server ADDRESS KIND` is the other side; it ends when its standard input does.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import runpy
import select
import selectors
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from tandemq.grpc_engine import as_server, without_fork_support

HANDED_ON = "TANDEMQ_FORK_SERVER"
"""In the environment of a process whose clusters fork their members from another one's server: its address."""
MESSAGE_MAX = 1 << 20
"""Bytes of a request: arguments and an environment."""
STREAMS = 3
AT_START = re.compile(r"PYTHON|LC_|LANG|TZ$|MALLOC_|LD_")
"""Names of what an interpreter, or a library below it, reads once: a forked one has it as its server has."""
ADDRESS_MAX = 100
"""Bytes of a Unix socket's path."""
MEMBERS, COMMANDS = "members", "commands"
"""What a server forks: each has imported what those need, as they do it."""
IMPORTED = (
    *("replica.manager", "tandemq.cli.serve", "tandemq.cli.witness", "failover.witness"),
    # What members load when somebody asks (decision 0050), and in tests somebody does.
    *("h11", "prometheus_client.exposition", "replica.operations.metrics", "replica.operations.metrics_operator"),
    *("failover.alt_path", "failover.combine", "failover.command", "failover.etcd", "failover.peer_outdate"),
)


OF_COMMANDS = (
    *("tandemq.client.aio", "tandemq.cli.output", "tandemq.cli.view"),
    *(f"tandemq.cli.{name}" for name in ("queue", "msg", "pair", "right", "audit", "dev", "witness", "backup")),
)
"""Of `tandemq`, the commands that tests run most."""


class ForkFailed(RuntimeError):  # noqa: N818 - as the errors beside it are named
    """The server has gone, or could not start."""


class ForkedProcess:
    """A process that the server has forked; what `subprocess.Popen` says of its own child, said of that one."""

    def __init__(self, connection: socket.socket, pid: int, stdin: IO[bytes], stdout: IO[bytes] | None) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self.returncode: int | None = None
        self._connection = connection
        self._lock = threading.Lock()
        weakref.finalize(self, connection.close)

    def poll(self) -> int | None:
        """How it ended; None: it runs."""
        return self._receive(0)

    def wait(self, timeout: float | None = None) -> int:
        """How it ended. Raises subprocess.TimeoutExpired."""
        code = self._receive(timeout)
        if code is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(f"forked process {self.pid}", timeout)
        return code

    def _receive(self, timeout: float | None) -> int | None:
        """One thread may wait while others look: the server ends the connection behind its word, which wakes all."""
        if self.returncode is None:
            said = select.poll()
            said.register(self._connection, select.POLLIN)
            if not said.poll(None if timeout is None else timeout * 1000):
                return None
            with self._lock:
                if self.returncode is None:
                    self.returncode = self._code(self._connection.recv(MESSAGE_MAX))
        return self.returncode

    def _code(self, said: bytes) -> int:
        if not said:
            raise ForkFailed(f"the fork server ended, and nobody knows how process {self.pid} does")
        return int(json.loads(said)["code"])


class ForkServer:
    """Starts the server when it is entered, and ends it. What it has forked goes on.

    kind: MEMBERS or COMMANDS. address: of one that somebody else has started; it is not entered then.
    """

    def __init__(self, kind: str = MEMBERS, address: str = "") -> None:
        self._kind = kind
        self._folder: tempfile.TemporaryDirectory[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self.address = address

    def __enter__(self) -> Self:
        self._folder = tempfile.TemporaryDirectory(prefix="tq-fork-")
        self.address = str(Path(self._folder.name) / "s")
        assert len(self.address.encode()) < ADDRESS_MAX, (
            f"{self.address} is no address of a Unix socket: shorten TMPDIR"
        )
        command = [sys.executable, "-P", "-m", "chaos.fork_server", self.address, self._kind]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, process_group=0)
        assert self._process.stdout is not None
        if self._process.stdout.readline() != b"ready\n":
            self.__exit__(None, None, None)
            raise ForkFailed("the fork server did not start; its error is above")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            self._process.stdin.close()
            self._process.stdout.close()
            self._process.wait()
        if self._folder is not None:
            self._folder.cleanup()

    def start(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        stdout: IO[bytes] | None = None,
    ) -> ForkedProcess:
        """A module and its arguments, with a pipe as standard input. stdout, with errors: a file; None: a pipe.

        Raises ForkFailed where the server has gone.
        """
        with contextlib.ExitStack() as ends:
            stdin, to_stdin = os.pipe()
            ends.callback(os.close, stdin)
            source: int | None = None
            if stdout is None:
                source, sink = os.pipe()
                ends.callback(os.close, sink)
            else:
                sink = stdout.fileno()
            try:
                connection, pid = self._ask(arguments, environment, Path.cwd(), [stdin, sink, sink])
            except ForkFailed:
                for each in (to_stdin, source):
                    if each is not None:
                        os.close(each)
                raise
        opened = os.fdopen(source, "rb") if source is not None else None
        return ForkedProcess(connection, pid, os.fdopen(to_stdin, "wb", buffering=0), opened)

    def run(
        self,
        arguments: Sequence[str],
        *,
        environment: Mapping[str, str],
        stdin: str = "",
        directory: Path | None = None,
        timeout: float | None = None,
    ) -> subprocess.CompletedProcess[str]:
        """A module and its arguments, to its end; what `subprocess.run` says of one that it has started. Its standard
        streams are files. Raises ForkFailed, also where the environment has what is read when an interpreter starts
        (AT_START) otherwise than here, and subprocess.TimeoutExpired once it is killed.
        """
        other = sorted(name for name in {*environment, *os.environ} if _is_other(name, environment))
        if other:
            raise ForkFailed(f"{', '.join(other)}: read when an interpreter starts, so start this command")
        with contextlib.ExitStack() as opened:
            given, out, err = (opened.enter_context(tempfile.TemporaryFile()) for _ in range(3))
            given.write(stdin.encode())
            given.seek(0)
            streams = [each.fileno() for each in (given, out, err)]
            connection, pid = self._ask(arguments, environment, directory or Path.cwd(), streams)
            process = ForkedProcess(connection, pid, given, None)
            try:
                code = process.wait(timeout)
            finally:
                if process.returncode is None:
                    os.killpg(pid, signal.SIGKILL)
                    process.wait()
            said = []
            for each in (out, err):
                each.seek(0)
                said.append(each.read().decode())
        return subprocess.CompletedProcess(list(arguments), code, *said)

    def _ask(
        self, arguments: Sequence[str], environment: Mapping[str, str], directory: Path, streams: Sequence[int]
    ) -> tuple[socket.socket, int]:
        """streams: stdin, stdout, stderr. The connection that tells how it ended, and its id."""
        own = {name: value for name, value in environment.items() if name != HANDED_ON}
        said = {"arguments": list(arguments), "environment": own, "directory": str(directory)}
        connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            connection.connect(self.address)
            socket.send_fds(connection, [json.dumps(said).encode()], streams)
            answer = connection.recv(MESSAGE_MAX)
        except OSError as error:
            connection.close()
            raise ForkFailed("the fork server has gone") from error
        if not answer:
            connection.close()
            raise ForkFailed("the fork server has gone")
        return connection, int(json.loads(answer)["pid"])


def _is_other(name: str, environment: Mapping[str, str]) -> bool:
    return AT_START.match(name) is not None and environment.get(name) != os.environ.get(name)


_in_use: list[ForkServer] = []


@contextlib.contextmanager
def in_use(server: ForkServer) -> Iterator[None]:
    """Until the block ends, clusters of this process start their members so."""
    _in_use.append(server)
    try:
        yield
    finally:
        _in_use.remove(server)


def current() -> ForkServer | None:
    """The one that is in use, here or by whoever started this process and handed it on, if any."""
    if _in_use:
        return _in_use[-1]
    address = os.environ.get(HANDED_ON, "")
    return ForkServer(address=address) if address else None


def handed_on() -> dict[str, str]:
    """For the environment of a command that starts members: they are forked from the server that is in use here. It may
    not be one that shows how members start, nor one that changes what they read when they are imported or start.
    """
    return {HANDED_ON: _in_use[-1].address} if _in_use else {}


class _Server:
    """Forks on request, and says how each child ended to whoever asked for it."""

    def __init__(self, address: str, kind: str) -> None:
        before = set(os.environ)
        as_they_do = as_server if kind == MEMBERS else without_fork_support  # as in a process that serves, or asks one
        with as_they_do(os.environ):
            for name in IMPORTED if kind == MEMBERS else OF_COMMANDS:
                __import__(name)
        self._own = {name: os.environ[name] for name in set(os.environ) - before}
        """What imports put into the environment: a started process would have it too."""
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._listener.bind(address)
        self._listener.listen(64)
        self._selector = selectors.DefaultSelector()
        self._children: dict[int, tuple[int, socket.socket]] = {}
        """By the descriptor of each child: its id, and who asked for it."""

    def run(self) -> Callable[[], None] | None:
        """Until standard input ends; then None. In a child: what it has to run, once nothing of the server is left."""
        self._selector.register(0, selectors.EVENT_READ)
        self._selector.register(self._listener, selectors.EVENT_READ)
        os.write(1, b"ready\n")
        while True:
            for key, _ in self._selector.select():
                if key.fd == 0:
                    return None
                if key.fileobj is self._listener:
                    child = self._fork(self._listener.accept()[0])
                    if child is not None:
                        return child
                else:
                    self._on_end(key.fd)

    def _on_end(self, descriptor: int) -> None:
        pid, connection = self._children.pop(descriptor)
        self._selector.unregister(descriptor)
        code = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
        os.close(descriptor)
        with contextlib.suppress(OSError), connection:  # nobody waits for it
            connection.send(json.dumps({"code": code}).encode())

    def _fork(self, connection: socket.socket) -> Callable[[], None] | None:
        said, descriptors, _, _ = socket.recv_fds(connection, MESSAGE_MAX, STREAMS)
        if len(descriptors) != STREAMS:  # who asked has gone
            connection.close()
            return None
        pid = os.fork()
        if pid:
            with contextlib.suppress(OSError):
                os.setpgid(pid, pid)  # whoever hears of it may signal its group
            for each in descriptors:
                os.close(each)
            descriptor = os.pidfd_open(pid)
            self._children[descriptor] = (pid, connection)
            self._selector.register(descriptor, selectors.EVENT_READ)
            with contextlib.suppress(OSError):
                connection.send(json.dumps({"pid": pid}).encode())
            return None
        os.setpgid(0, 0)
        for stream, each in enumerate(descriptors):
            os.dup2(each, stream)
        for each in descriptors:
            os.close(each)
        connection.close()
        self._close()
        return _program(json.loads(said), self._own)

    def _close(self) -> None:
        """All that is the server's and not the child's."""
        self._selector.close()
        self._listener.close()
        for descriptor, (_, connection) in self._children.items():
            os.close(descriptor)
            connection.close()
        self._children.clear()


def _program(said: Mapping[str, Any], own: Mapping[str, str]) -> Callable[[], None]:
    """What the child runs, with the environment that it was given."""
    wanted: dict[str, str] = {**own, **said["environment"]}
    for name in set(os.environ) - set(wanted):
        del os.environ[name]
    os.environ.update(wanted)
    os.chdir(said["directory"])
    module, *arguments = said["arguments"]

    def run() -> None:
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)

    return run


def main() -> None:
    """Serves; in a child it returns what ends the interpreter in order."""
    program = _Server(*sys.argv[1:]).run()
    if program is not None:
        program()


if __name__ == "__main__":
    main()
