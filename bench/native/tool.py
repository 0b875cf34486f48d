"""What a vendor's load tool is to the benchmark: a command for each workload, a reader of its output, and a question to
the servers of what they hold afterwards.
"""

from __future__ import annotations

import resource
import shutil
import subprocess
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from bench.native.outcome import Outcome
from bench.peers.contract import Peer
from bench.peers.figures import shares
from bench.peers.place import KILLED_WITH_US, POLL_S, BenchError, Place, usage

DEADLINE_S = 120.0
SHOWN = 3  # lines of a tool that failed


@dataclass(frozen=True, slots=True)
class Ran:
    """What tools that ran beside each other printed, by role, and the processor time of everybody meanwhile."""

    outputs: Mapping[str, str]
    used_us: Mapping[str, float]
    seconds: float

    def figures(self, messages: int) -> dict[str, Any]:
        """Per message and as shares of a core, over the tools' whole life."""
        return shares(self.used_us, self.seconds, messages, tuple(self.outputs))


class Tool(ABC):
    """One vendor's tool for one of `bench.peers.adapters`."""

    peer: ClassVar[str]
    name: ClassVar[str]  # of the tool, in tables
    flow: ClassVar[bool] = True  # it can consume too
    lacks: ClassVar[str] = ""  # what it cannot do, for readers
    copies: ClassVar[int | None] = (
        None  # synced before an answer, where its users wait for fewer than the peer's client
    )
    promise: ClassVar[str] = ""  # of such an answer; "": the peer's own
    slack = 0  # messages by which its rounded figures may be off

    def __init__(self, place: Place, peer: Peer) -> None:
        self.place, self._peer = place, peer

    @abstractmethod
    def programs(self) -> list[str]:
        """What must be there: on PATH, or a path."""

    @abstractmethod
    def version(self) -> str:
        """Of the tool."""

    def prepare(self, queue: str) -> None:  # noqa: B027 - most tools make it themselves
        """Makes the queue where the tool does not."""

    @abstractmethod
    def commands(self, workload: str, queue: str, size: int, seconds: float) -> dict[str, Sequence[str]]:
        """What runs at once, by role: `tool`, or `producer` and `consumer`."""

    @abstractmethod
    def read(self, workload: str, outputs: Mapping[str, str]) -> Outcome:
        """What it says; raises UnreadableError."""

    @abstractmethod
    def held(self, queue: str) -> int:
        """Messages that the servers say the queue has."""

    def prefix(self) -> Sequence[str]:
        """What is started with a command behind it, so that the tool is of the servers' version."""
        return ()

    def missing(self) -> list[str]:
        return [program for program in self.programs() if shutil.which(program) is None]

    def given(self) -> str:
        """What the tool reads from its standard input."""
        return ""


def run(tool: Tool, commands: Mapping[str, Sequence[str]]) -> Ran:
    """All at once; fails when one of them does, or tells nothing."""
    before, began = usage(tool.place.folder), time.perf_counter()
    files = {role: tool.place.role(role) / "out" for role in commands}
    processes = {}
    for role, command in commands.items():
        folder = tool.place.role(role)
        with files[role].open("wb") as out, (folder / "in").open("w+", encoding="utf-8") as into:
            into.write(tool.given())
            into.seek(0)
            processes[role] = subprocess.Popen(
                [*KILLED_WITH_US, *tool.prefix(), *command],
                cwd=folder,
                stdin=into,
                stdout=out,
                stderr=subprocess.STDOUT,
            )
    try:
        used = reaped(tool.place, tool.name, processes, files)
    finally:
        for role, process in processes.items():
            if process.returncode is None:  # one failed, or took too long
                tool.place.end(role)
                process.wait()
    seconds, after = time.perf_counter() - began, usage(tool.place.folder)
    outputs = {role: file.read_text(errors="replace") for role, file in files.items()}
    used |= {role: after[role] - before.get(role, 0.0) for role in after if role not in used}
    return Ran(outputs, used, seconds)


def reaped(
    place: Place, name: str, processes: Mapping[str, subprocess.Popen[bytes]], outputs: Mapping[str, Path]
) -> dict[str, float]:
    """Waits for all of them; the processor time of each. Fails with the first that does: the others may wait for it."""
    used: dict[str, float] = {}
    until = time.monotonic() + DEADLINE_S
    while len(used) < len(processes):
        for role in processes.keys() - used.keys():
            children = children_us()
            if (code := processes[role].poll()) is None:
                continue
            used[role] = children_us() - children
            if code:
                raise BenchError(f"{name}, {role}, failed ({code}): {last_lines(outputs[role])}")
        if gone := place.gone():
            raise BenchError(f"{gone} while {name} was at work")
        if time.monotonic() > until:
            raise BenchError(f"{name}: no end within {DEADLINE_S:.0f} s")
        time.sleep(POLL_S)
    return used


def last_lines(file: Path) -> str:
    return "; ".join(file.read_text(errors="replace").splitlines()[-SHOWN:])


def children_us() -> float:
    """Processor time of the processes that this one has waited for."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return (ended.ru_utime + ended.ru_stime) * 1e6
