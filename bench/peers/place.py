"""The benchmark's own place: a folder below which every process that it starts works, and by which it is known.

A process belongs to the benchmark when its working directory is below that folder: a name that forks inherit, that
needs no record of process ids, and that outlives the harness. So what a killed harness leaves is found and ended by
the next one, and the processor time of a role is the sum over what works in the role's folder. Uses the standard
library alone, as the load processes run it too, in an environment with nothing of ours.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import FrameType
from typing import IO, Any, Self

ROOT = Path(__file__).resolve().parents[2]
KEPT = ROOT / "build/bench"
VENV_PYTHON = KEPT / "venv/bin/python"
TICKS = os.sysconf("SC_CLK_TCK")
HOST = "127.0.0.1"
# Below the range that systems hand out to outgoing connections, above what chaos.cluster takes.
PORTS_FROM, PORTS_TO = 32000, 32700
STOP_S, POLL_S = 15.0, 0.05
# The kernel kills the command when the thread that started it ends; what it forks is left to `sweep`.
KILLED_WITH_US = ("setpriv", "--pdeathsig", "KILL", "--")


LOAD_ROLES = ("producer", "consumer")


class BenchError(RuntimeError):
    """The run cannot go on; the message says what to do."""


@contextlib.contextmanager
def stoppable(name: str) -> Iterator[None]:
    """Ctrl-C, SIGTERM and the end of its terminal end a command as an exception does, so that what it started ends too,
    and with one line. Under nohup it outlives its terminal.
    """
    before = {each: signal.getsignal(each) for each in (signal.SIGTERM, signal.SIGHUP)}
    for each in before if before[signal.SIGHUP] is not signal.SIG_IGN else (signal.SIGTERM,):
        signal.signal(each, _as_interrupt)
    try:
        yield
    except KeyboardInterrupt:
        print(f"{name}: stopped, and what it had started is ended", file=sys.stderr)
        raise SystemExit(128 + signal.SIGINT) from None
    finally:
        for each, handler in before.items():
            signal.signal(each, handler or signal.SIG_DFL)


def _as_interrupt(_: int, frame: FrameType | None) -> None:
    """As Ctrl-C is handled now: under asyncio that cancels the main task alone, which then closes what it has opened.

    An exception out of the loop would cancel all tasks at once, and a client that closes waits for its own for ever.
    """
    handler = signal.getsignal(signal.SIGINT)
    (handler if callable(handler) else signal.default_int_handler)(signal.SIGINT, frame)


def processes_below(folder: Path) -> Iterator[tuple[int, Path]]:
    """Each process that works below a folder, and where, relative to it."""
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        with contextlib.suppress(
            OSError, ValueError
        ):  # it ended meanwhile, or is not ours to look at, or works elsewhere
            # A directory that was removed under a process reads "/path (deleted)".
            where = Path(str((entry / "cwd").readlink()).removesuffix(" (deleted)"))
            yield int(entry.name), where.relative_to(folder)


def sweep(folder: Path) -> list[int]:
    """Ends every process that works below the folder but this one; those it found. Later forks end too."""
    ended: list[int] = []
    until = time.monotonic() + STOP_S
    while found := [pid for pid, _ in processes_below(folder) if pid != os.getpid() and state_of(pid) != "Z"]:
        if time.monotonic() > until:
            raise BenchError(f"processes {found} in {folder} do not end")
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        ended += [pid for pid in found if pid not in ended]
        time.sleep(POLL_S)
    return ended


def state_of(pid: int) -> str:
    """Of the kernel's letters; Z is a process that ended and was not waited for, also one that is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return "Z"


def cpu_us(pid: int) -> float:
    """User and system time that a process has used itself, and that children have which it waited for."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(int(field) for field in fields[11:15]) * 1e6 / TICKS


def usage(folder: Path) -> dict[str, float]:
    """Microseconds of processor time by role, the first part of the path of its processes; `machine`: of everybody."""
    found: dict[str, float] = {}
    for pid, where in processes_below(folder):
        role = where.parts[0] if where.parts else "harness"
        found[role] = found.get(role, 0.0) + cpu_us(pid)
    found["machine"] = machine_us()
    return found


def machine_us() -> float:
    """Microseconds of processor time that everybody has used."""
    fields = [int(field) for field in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]]
    idle_and_waiting = fields[3] + fields[4]
    return (sum(fields[:8]) - idle_and_waiting) * 1e6 / TICKS


def tree_of(leader: int) -> list[int]:
    """The process, those that it has started, those that they have."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):  # it ended meanwhile
                parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    tree = [leader]
    for pid in tree:
        tree += children.get(pid, [])
    return tree


def tree_us(leader: int) -> float:
    """Microseconds of processor time that a process has used and all that it has started, if it lives or was waited
    for."""
    return sum(map(cpu_us, tree_of(leader)))


def strangers_us() -> float:
    """Microseconds of processor time that everybody has used but this process and all that it has started, whether that
    runs, was killed, or was waited for: what a process below `usage`'s folder had used goes with it."""
    return machine_us() - tree_us(os.getpid())


class Strangers:
    """What others use of the machine from here on."""

    def __init__(self) -> None:
        self._before_us, self._began_s = strangers_us(), time.perf_counter()

    def cores(self) -> float:
        used_s = (strangers_us() - self._before_us) / 1e6
        return round(max(0.0, used_s / (time.perf_counter() - self._began_s)), 3)


@contextlib.contextmanager
def ending_all() -> Iterator[None]:
    """What this process has started and still runs ends with the block, whatever started what: it is asked to, so that
    it can tidy up, and killed when it does not.
    """
    try:
        yield
    finally:
        for number in (signal.SIGTERM, signal.SIGKILL):
            left = tree_of(os.getpid())[1:]
            for pid in left:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, number)
            until = time.monotonic() + STOP_S
            while any(state_of(pid) != "Z" for pid in left) and time.monotonic() < until:
                time.sleep(POLL_S)


class Place:
    """The folder, held by one harness at a time, with its ports."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder.resolve()
        self._lock: IO[str] | None = None
        self._next_port = PORTS_FROM
        self._watched: list[tuple[str, subprocess.Popen[Any]]] = []

    def __enter__(self) -> Self:
        self.folder.parent.mkdir(parents=True, exist_ok=True)
        self._lock = Path(f"{self.folder}.lock").open("w", encoding="utf-8")
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            self._lock.close()
            raise BenchError(f"another run holds {self._lock.name}; wait for it") from None
        if left := sweep(self.folder):
            print(f"peers: ended {len(left)} processes that an earlier run had left: {left}", file=sys.stderr)
        self._clear()
        return self

    def __exit__(self, *_: object) -> None:
        sweep(self.folder)
        self._clear()
        assert self._lock
        self._lock.close()

    def _clear(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True, exist_ok=True)

    def role(self, name: str) -> Path:
        folder = self.folder / name
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def end(self, name: str) -> None:
        """Ends what works in a role's folder, whatever it is, and removes the folder."""
        sweep(self.folder / name)
        for role, process in self._watched:
            if role == name:
                process.kill()
                process.wait()
        self._watched = [(role, process) for role, process in self._watched if role != name]
        shutil.rmtree(self.folder / name, ignore_errors=True)

    def watch(self, role: str, process: subprocess.Popen[Any]) -> None:
        """From here on until its role is ended, it must run."""
        self._watched.append((role, process))

    def gone(self) -> str:
        """The role of a process that must run and does not, and how it ended; or ""."""
        codes = ((role, process.poll()) for role, process in self._watched)
        return next((f"{role} ended ({code})" for role, code in codes if code is not None), "")

    def port(self) -> int:
        """A free one, given once in this run."""
        while self._next_port < PORTS_TO:
            self._next_port += 1
            with socket.socket() as probe, contextlib.suppress(OSError):
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((HOST, self._next_port))
                return self._next_port
        raise BenchError(f"no free port between {PORTS_FROM} and {PORTS_TO}")

    def spawn(
        self, role: str, command: Sequence[str], environment: dict[str, str] | None = None, log: str = "log"
    ) -> subprocess.Popen[bytes]:
        """A process that works in its role's folder and is killed with the thread that started it.

        setpriv asks the kernel for that before it becomes the command; what the command forks is left to `sweep`.
        """
        folder = self.role(role)
        with (folder / log).open("ab") as out:
            process = subprocess.Popen(
                [*KILLED_WITH_US, *command],
                cwd=folder,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
        self.watch(role, process)
        return process


def wait_for_port(port: int, process: subprocess.Popen[bytes], seconds: float = 60.0) -> None:
    """Until somebody listens there; fails when the process ends first."""
    until = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < until:
        with socket.socket() as probe:
            probe.settimeout(1.0)
            if probe.connect_ex((HOST, port)) == 0:
                return
        time.sleep(POLL_S)
    raise BenchError(f"nothing listens on {port}: {process.args!r} ended with {process.poll()}")


def said(
    *command: str,
    environment: dict[str, str] | None = None,
    where: Path | None = None,
    prefix: Sequence[str] = (),
) -> str:
    """What a command prints; fails when it does. `prefix` is started with the command behind it."""
    done = subprocess.run(
        [*prefix, *command],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, **(environment or {})},
        cwd=where,
    )
    if done.returncode:
        raise BenchError(f"{command[0]} {' '.join(command[1:3])}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout
