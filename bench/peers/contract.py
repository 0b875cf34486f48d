"""What a peer is to the benchmark: a promise, processes that keep it, settings that can be read back from them.

An adapter starts its servers with `Place.spawn`, each in a role's folder of its own, and one role holds one copy: so it
is known whose syncs and whose processor time is whose. The load goes through `bench.peers.clients.<client>`.
"""

from __future__ import annotations

import shutil
import subprocess
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.peers.place import VENV_PYTHON, BenchError, Place, processes_below, said

MEASURED_WITH = ("strace", "setpriv")
"""Programs that the benchmark needs, whoever is measured."""
WORKLOADS = ("enqueue", "drain", "flow", "single")
IN_FLIGHT_BYTES_MAX = 32 << 20
"""Of payload, sent and not answered, or lying between a producer and its consumer: 5,000 messages of 1 MiB would
measure memory. Payloads of up to 4 KiB are below it with every window that there is."""


def in_flight(messages: int, size: int) -> int:
    """So many messages, or as many as IN_FLIGHT_BYTES_MAX has room for: at least one."""
    return max(1, min(messages, IN_FLIGHT_BYTES_MAX // size))


@dataclass(frozen=True, slots=True)
class Setting:
    """One that the promise rests on: what the running process says that it is."""

    name: str
    wanted: str
    found: str

    @property
    def wrong(self) -> str:
        return "" if self.wanted == self.found else f"{self.name} is {self.found!r}, not {self.wanted!r}"


class Peer(ABC):
    """One system in one configuration. A subclass gives the constants and `start`; the rest may stay."""

    name: str  # in results and on the command line
    title: str  # in tables
    promise: str  # what an acknowledgement means here, one line
    copies: int  # that are synced before it, and that the syncs must bear out; 0 where none is promised
    client: str
    client_title: str
    interpreter: str = str(VENV_PYTHON)
    programs: tuple[str, ...] = ()  # must be on PATH
    window = 5000  # most messages sent and not answered
    batch = 1000  # most of them in one request, where there are requests of many
    frames: int | None = None  # of the consumer, when another batch serves it better
    warm_s = 0.0  # at least so long before a window begins; for a virtual machine that compiles while it runs
    roles: tuple[str, ...]  # one for each process that holds a copy
    open_loop = False  # its client sends what is due without waiting for answers, and tells since when
    verified = True  # False: there is no queue to count at
    workloads: tuple[str, ...] = WORKLOADS

    def __init__(self, place: Place) -> None:
        self.place = place

    def together(self, messages: int, size: int) -> int:
        """A batch for payloads of a size: as many batches are in flight as with small ones."""
        return max(1, messages * in_flight(self.window, size) // self.window)

    def missing(self) -> list[str]:
        """Of what `make bench-deps` obtains."""
        needed = (*MEASURED_WITH, *self.programs, self.interpreter)
        return [program for program in needed if shutil.which(program) is None]

    @abstractmethod
    def start(self) -> None:
        """Starts everything and returns when it serves."""

    @abstractmethod
    def target(self) -> dict[str, Any]:
        """What the client is given."""

    @abstractmethod
    def settings(self) -> list[Setting]:
        """Asked of the running processes, once `queue` exists."""

    @abstractmethod
    def versions(self) -> dict[str, str]:
        """Of the programs that run, by name."""

    def origin(self) -> str:
        """Whose programs these are, where there may be several versions; "" where there is one."""
        return ""

    def described(self) -> dict[str, Any]:
        """Further settings that a reader needs to repeat the run."""
        return {}

    def members(self) -> dict[str, list[int]]:
        """The processes of each copy."""
        return {role: [pid for pid, _ in processes_below(self.place.folder / role)] for role in self.roles}

    def stop(self) -> None:
        for role in self.roles:
            self.place.end(role)


def version_of(command: Sequence[str], word: int) -> str:
    """One word of the first line that a program prints about itself."""
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    words = (done.stdout or done.stderr).split()
    if len(words) <= word:
        raise BenchError(f"{command[0]} does not tell its version")
    return words[word].strip(",")


def client_versions(*names: str) -> dict[str, str]:
    """Of packages in the clients' environment."""
    code = "import sys, importlib.metadata as m; print(*(m.version(name) for name in sys.argv[1:]))"
    return dict(zip(names, said(str(VENV_PYTHON), "-c", code, *names).split(), strict=True))
