"""Starts, stops, kills and pauses the processes of a pair and its witness, and cuts what connects them; never looks
inside one.

Every process is its own group, and holds the reading end of a pipe whose other end is here: when this process goes in
any way, theirs end. What they write goes to `<data-dir>/logs/<name>.log`. A `Cluster` belongs to one event loop.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import IO, Any, Protocol

import msgspec

from chaos import fork_server
from chaos.last_words import last_words
from chaos.network import AnyRelays, Network, Wire
from chaos.ports import (
    HOST,
    PEER_RELAY_OFFSET,
    TOXIPROXY_OFFSET,
    WITNESS_RELAY_OFFSET,
    NoRangeError,
    PortRange,
    ports_in_use,
)
from chaos.preload import Preload
from chaos.relay import Relays
from tandemq.channels import Open
from tandemq.cli.view import PairView, look
from tandemq.config import (
    Etcd,
    Failover,
    Limits,
    ManagerConfig,
    Timers,
    member_ports,
    to_toml,
    witness_port,
)
from tandemq.config_security import Security
from tandemq.credentials.chosen import opener_of

WITNESS = "witness"
CLIENT = "client"
STOPPED = "stopped"  # a child's state
POLL_S = 0.05
READY_DEADLINE_S = 60.0
STOP_DEADLINE_S = 8.0
LOG_TAIL_LINES, LOG_LINE_MAX = 8, 300  # of a log in an error message

LineSink = Callable[[str, str], None]


class ClusterError(RuntimeError):
    """A process did not do what it was asked to; the message ends with the last lines of its log."""


class PortTakenError(ClusterError):
    """Somebody else listens where a process of the cluster would; nothing was started or written."""


class Process(Protocol):
    """One that was started; `subprocess.Popen`, or one that was forked."""

    pid: int
    returncode: int | Any

    @property
    def stdin(self) -> IO[bytes] | None: ...

    @property
    def stdout(self) -> IO[bytes] | None: ...

    def poll(self) -> int | None: ...

    def wait(self, timeout: float | None = None) -> int: ...


@dataclass(slots=True)
class Child:
    """One process of the cluster; `process` is None before its first start."""

    name: str
    arguments: list[str]  # the module that is run, and its own
    log: Path
    process: Process | None = None
    environment: Mapping[str, str] = field(default_factory=dict)  # beside that of this process
    descriptors: int = 0  # that it may have open, hard limit and soft; 0: as many as this process
    starts: int = 0
    paused: bool = False

    @property
    def pid(self) -> int | None:
        return self.process.pid if self.process else None

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    @property
    def state(self) -> str:
        """For people: running, stopped (SIGSTOP; seen on Linux only), or how it ended."""
        return STOPPED if self.running and self.pid and is_stopped(self.pid) else self.ending

    @property
    def ending(self) -> str:
        """How the last process ended."""
        code = self.process.poll() if self.process else None
        if code is None:
            return "running"
        return f"signal {-code}" if code < 0 else f"exit code {code}"

    def spawn(self, on_line: LineSink | None) -> None:
        assert not self.running, f"{self.name} runs already"
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with self.log.open("ab") as log:
            self.process = self._start(None if on_line else log)
        self.starts += 1
        self.paused = False
        if on_line and self.process.stdout:
            pump = threading.Thread(target=self._pump, args=(self.process.stdout, on_line), daemon=True)
            pump.start()

    def _start(self, output: IO[bytes] | None) -> Process:
        """output: where it writes; None: a pipe."""
        arguments = [*self.arguments, "--until-stdin-closes"]
        server = fork_server.current()
        if server is not None and not self.descriptors and not self.environment:  # those need a program of its own
            return server.start(arguments, environment=os.environ, stdout=output)
        limit = ["prlimit", f"--nofile={self.descriptors}:{self.descriptors}"] if self.descriptors else []
        return subprocess.Popen(
            [*limit, sys.executable, "-P", "-m", *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE if output is None else output,
            stderr=subprocess.STDOUT,
            process_group=0,
            env={**os.environ, **self.environment},
        )

    def _pump(self, lines: IO[bytes], on_line: LineSink) -> None:
        with self.log.open("ab", buffering=0) as log:
            for line in lines:
                log.write(line)
                on_line(self.name, line.decode(errors="replace").rstrip("\n"))

    def signal(self, number: int) -> None:
        if self.running and self.process:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.process.pid, number)

    def tail(self) -> str:
        try:
            lines = last_words(self.log.read_text(errors="replace").splitlines(), LOG_TAIL_LINES)
            lines = [line if len(line) <= LOG_LINE_MAX else line[:LOG_LINE_MAX] + "..." for line in lines]
        except FileNotFoundError:
            lines = []
        return "\n".join([f"last lines of {self.log}:", *lines]) if lines else f"{self.log} is empty"


def is_stopped(pid: int) -> bool:
    """It got SIGSTOP, or another signal of that kind, and no signal to go on: every thread of it, for one of several
    can answer a while after the signal was sent. False where there is no /proc.
    """
    try:
        stats = [(task / "stat").read_text(encoding="utf-8") for task in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return False
    return all(stat.rpartition(")")[2].split()[0] == "T" for stat in stats)


def _relays(toxiproxy: Path | None, endpoint: str, log: Path) -> AnyRelays:
    if toxiproxy is None:
        return Relays()
    from chaos.toxic_relays import ToxicRelays

    return ToxicRelays(toxiproxy, endpoint, log)


@dataclass(slots=True)
class Cluster:
    """Two members and a witness, or a single unpaired member when `members` has one name.

    `async with cluster.running():` starts it and cleans up whatever happens. Data directories are kept.
    """

    data_dir: Path
    base_port: int = 0  # 0: that of a range which nobody else is given while this object is there
    host: str = HOST  # where all listen: an address of this machine
    members: Sequence[str] = ("a", "b")
    pair: str = "pair"
    timers: Timers = field(default_factory=Timers)
    limits: Limits = field(default_factory=Limits)
    failover: Failover = field(default_factory=Failover)
    settings: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict
    )  # by member: what its configuration differs in
    etcd: Sequence[str] = ()  # endpoints of an etcd, somebody else's process: there is no witness then
    witnessed: bool = True  # without: the members keep the register themselves, and a verdict decides
    relayed: bool = False  # the members reach each other and the witness through `network`, which can be hurt
    toxiproxy: Path | None = None  # the program of the server that makes the network; None: our own relays
    preload: Preload | None = None  # makes the members' disks and clocks such that they can be hurt
    bug: str = ""  # of chaos.sim.bugs: the members run without one rule of the product
    profile: str = "safe"
    operators: Sequence[str] = ()  # clients, by name: administrators, whose word the witness takes; with `secured`
    secured: Path | None = None  # holds a directory of credentials by the name of each process, and `client` for views
    ready_s: float = READY_DEADLINE_S  # bound of a start, and of a wait for a view
    on_line: LineSink | None = None
    children: dict[str, Child] = field(default_factory=dict)
    network: Network = field(init=False)
    _range: PortRange | None = field(init=False, default=None)
    _open: Open | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        assert 1 <= len(self.members) <= 2
        self.data_dir = self.data_dir.resolve()
        if not self.base_port:
            try:
                self._range = PortRange()
            except NoRangeError as error:
                raise ClusterError(str(error)) from error
            self.base_port = self._range.base_port
        if self.paired and self.witnessed and not self.etcd:
            listen = ["--listen", self._at(witness_port(self.base_port)), "--data-dir", str(self.data_dir / WITNESS)]
            exposed = ["--insecure-network"] if self.host != HOST else []
            shown = ["--credentials", str(self.secured / WITNESS)] if self.secured else []
            named = [word for name in self.operators for word in ("--operator", name)]
            self._add(WITNESS, ["witness", *listen, *exposed, *shown, *named])
        for name in self.members:
            self._add(name, ["serve", "--config", str(self.config_file(name))])
        self.relayed = self.relayed or self.toxiproxy is not None
        log = self.data_dir / "logs" / "toxiproxy.log"
        # Not of this object: its range of ports goes with the last that knows it, and waits for no collector.
        make = partial(_relays, self.toxiproxy, self.toxiproxy_endpoint, log)
        self.network = Network(self.routes() if self.relayed else {}, make)

    def _add(self, name: str, arguments: list[str]) -> None:
        program = ["chaos.sim.bugs", self.bug] if self.bug and name != WITNESS else ["tandemq"]
        environment = self.preload.environment(name) if self.preload and name != WITNESS else {}
        log = self.data_dir / "logs" / f"{name}.log"
        self.children[name] = Child(name, [*program, *arguments], log, environment=environment)

    def _at(self, port: int) -> str:
        return f"{self.host}:{port}"

    @property
    def paired(self) -> bool:
        return len(self.members) == 2

    def config_file(self, name: str) -> Path:
        return self.data_dir / f"{name}.toml"

    def endpoint(self, name: str) -> str:
        return self._at(member_ports(self.base_port, list(self.members).index(name)).client)

    @property
    def witness_endpoint(self) -> str:
        """Of the witness itself, past any relay."""
        return self._at(witness_port(self.base_port))

    @property
    def toxiproxy_endpoint(self) -> str:
        """Where the network's Toxiproxy takes orders, when there is one."""
        return self._at(self.base_port + TOXIPROXY_OFFSET)

    @property
    def endpoints(self) -> list[str]:
        return [self.endpoint(name) for name in self.members]

    @property
    def target(self) -> str:
        """What a client is given."""
        return ",".join(self.endpoints)

    def config(self, name: str) -> ManagerConfig:
        ordinal = list(self.members).index(name)
        client, peer, http = (self._at(port) for port in member_ports(self.base_port, ordinal))
        config = ManagerConfig(
            member=name,
            data_dir=str(self.data_dir / name),
            listen_client=client,
            listen_peer=peer,
            listen_http=http,
            profile=self.profile,
            timers=self.timers,
            limits=self.limits,
            failover=self.failover,
            insecure_network=self.host != HOST,
            security=self._security(name),
        )
        config = msgspec.structs.replace(config, **self.settings.get(name, {}))
        if not self.paired:
            return config
        other = self.members[1 - ordinal]
        ways = self.routes()
        side = 0 if self.relayed else 1
        return msgspec.structs.replace(
            config,
            pair=self.pair,
            peer_member=other,
            peer_address=ways[Wire(name, other)][side],
            peer_endpoint=self.endpoint(other),
            witness=ways[Wire(name, WITNESS)][side] if WITNESS in self.children else "",
            etcd=Etcd(endpoints=tuple(self.etcd)),
        )

    def routes(self) -> dict[Wire, tuple[str, str]]:
        """For each way from a member to another process where its relay listens, and where it leads."""
        if not self.paired:
            return {}
        routes = {}
        for ordinal, name in enumerate(self.members):
            own, other = member_ports(self.base_port, ordinal), member_ports(self.base_port, 1 - ordinal)
            to_peer, to_witness = own.client + PEER_RELAY_OFFSET, own.client + WITNESS_RELAY_OFFSET
            routes[Wire(name, self.members[1 - ordinal])] = (self._at(to_peer), self._at(other.peer))
            routes[Wire(name, WITNESS)] = (self._at(to_witness), self._at(witness_port(self.base_port)))
        return routes

    @contextlib.asynccontextmanager
    async def running(self, deadline_s: float | None = None) -> AsyncIterator[Cluster]:
        try:
            await self.start(deadline_s)
            yield self
        finally:
            await self.stop()

    async def start(self, deadline_s: float | None = None) -> None:
        """Starts everything; returns when the pair is whole. Raises ClusterError, having stopped everything, or
        PortTakenError, before anything was started."""
        self.check_ports()
        self.data_dir.mkdir(parents=True, exist_ok=True)
        for name in self.members:
            self.config_file(name).write_text(to_toml(self.config(name)), encoding="utf-8")
        async with contextlib.AsyncExitStack() as cleanup:  # also a cancelled start leaves no process behind
            cleanup.push_async_callback(self.stop)
            for name in self.children:
                self.spawn(name)
            await self.wait_ready(deadline_s)
            cleanup.pop_all()

    def check_ports(self) -> None:
        """Raises PortTakenError where somebody else listens."""
        if taken := ports_in_use(self.base_port, len(self.members)):
            raise PortTakenError(f"port {taken[0]} is in use; choose another --base-port (now {self.base_port})")

    def spawn(self, name: str) -> None:
        """Starts one process and does not wait for it; the network first, if there is one to be hurt."""
        self.network.start()
        self.children[name].spawn(self.on_line)

    def kill(self, name: str, number: int = signal.SIGKILL) -> int:
        """Sends a signal to the process and its children and returns its id at once; `restart` waits for its end."""
        child = self.children[name]
        assert child.process is not None, f"{name} was never started"
        child.signal(number)
        return child.process.pid

    def pause(self, name: str) -> None:
        self.children[name].signal(signal.SIGSTOP)
        self.children[name].paused = True

    def resume(self, name: str) -> None:
        self.children[name].signal(signal.SIGCONT)
        self.children[name].paused = False

    async def restart(self, name: str, deadline_s: float | None = None) -> None:
        """Starts a process that is gone, or ends it in order first; returns when it answers."""
        await self._end([self.children[name]])
        self.spawn(name)
        await self.wait_answers(name, deadline_s)

    async def stop(self) -> None:
        """Ends every process: in order first, by force after a time. May be repeated.

        The witness goes first: without it neither member goes on alone while the other is being stopped.
        """
        await self._end([child for name, child in self.children.items() if name == WITNESS])
        await self._end([child for name, child in self.children.items() if name != WITNESS])
        self.network.close()

    async def _end(self, children: list[Child]) -> None:
        for child in children:
            child.signal(signal.SIGTERM)
            child.signal(signal.SIGCONT)  # a paused process hears nothing before
        try:
            waits = [child.process.wait for child in children if child.process]
            await asyncio.gather(*(asyncio.to_thread(wait, STOP_DEADLINE_S) for wait in waits))
        except subprocess.TimeoutExpired:
            pass
        finally:
            for child in children:
                child.signal(signal.SIGKILL)
                if child.process:
                    child.process.wait()
                    if child.process.stdin:
                        child.process.stdin.close()

    def _security(self, name: str) -> Security:
        if self.secured is None:
            return Security()
        return Security(credentials=str(self.secured / name), administrators=tuple(self.operators))

    @property
    def credentials(self) -> str:
        """A client's, who looks at the pair; empty: it is plain."""
        return str(self.secured / CLIENT) if self.secured else ""

    async def status(self) -> PairView:
        if self._open is None:
            self._open = opener_of(self.credentials)
        return await look(self.endpoints, opener=self._open)

    async def wait_for(
        self, condition: Callable[[PairView], bool], what: str, deadline_s: float | None = None
    ) -> PairView:
        """The first view for which `condition` holds. Raises ClusterError at the deadline, saying what was seen."""
        deadline_s = deadline_s or self.ready_s
        deadline = time.monotonic() + deadline_s
        while True:
            view = await self.status()
            if condition(view):
                return view
            self.check_alive()
            if time.monotonic() > deadline:
                raise ClusterError(f"not {what} within {deadline_s:g} s; seen: {describe(view)}\n{self._tails()}")
            await asyncio.sleep(POLL_S)

    async def wait_ready(self, deadline_s: float | None = None) -> PairView:
        """Returns when the witness answers and the members are whole."""
        if self.paired:
            if WITNESS in self.children:
                await self.wait_answers(WITNESS, deadline_s)
            return await self.wait_for(PairView.whole, "a master and a replica in sync", deadline_s)
        return await self.wait_for(lambda view: bool(view.masters()), "serving", deadline_s)

    async def wait_answers(self, name: str, deadline_s: float | None = None) -> None:
        """Returns when the process accepts connections on its client port."""
        deadline_s = deadline_s or self.ready_s
        child, deadline = self.children[name], time.monotonic() + deadline_s
        endpoint = self.witness_endpoint if name == WITNESS else self.endpoint(name)
        host, port = endpoint.split(":")
        while True:
            try:
                _, writer = await asyncio.open_connection(host, int(port))
            except OSError:
                pass
            else:
                writer.close()
                return
            if not child.running:
                raise ClusterError(f"{name} ended with {child.ending} while starting; {child.tail()}")
            if time.monotonic() > deadline:
                raise ClusterError(f"{name} does not answer at {endpoint} within {deadline_s:g} s; {child.tail()}")
            await asyncio.sleep(POLL_S)

    def check_alive(self, may_end: Sequence[str] = ()) -> None:
        """Raises ClusterError when a process ended that nobody killed and that is not one of these."""
        if self.network.ended:
            raise ClusterError(self.network.ended)
        for name, child in self.children.items():
            if name not in may_end and child.process and child.process.poll() not in (None, -signal.SIGKILL):
                raise ClusterError(f"{name} ended with {child.ending}; {child.tail()}")

    def _tails(self) -> str:
        return "\n".join(child.tail() for child in self.children.values())


def describe(view: PairView) -> str:
    """One line a member, for error messages."""
    seen = []
    for member in view.members:
        states = [f"{d.name} {d.role} {d.data_state} epoch {d.epoch} log {d.log_index}" for d in member.domains]
        seen.append(f"{member.name or member.endpoint}: {', '.join(states) if member.reachable else 'no answer'}")
    return "; ".join(seen)
