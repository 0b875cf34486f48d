"""Looks at running processes, many times a second, and says in which functions they were, and what each thread used."""

from __future__ import annotations

import re
import subprocess
from collections import Counter
from pathlib import Path

from bench.peers.place import KILLED_WITH_US

RATE = 250
"""Samples a second. They stop nobody, so a few of them are of a stack that was changing."""
LATE_S = 30
PY_SPY = Path(__file__).resolve().parents[2] / "build/bench/py-spy/bin/py-spy"

Stack = tuple[str, ...]
"""Functions as `name (file)`, the outermost one first."""
_THREAD = re.compile(r"thread \((\d+)\)")


class SampleError(Exception):
    """The sampler could not do its work; says what to do."""


def used_ns(pid: int) -> dict[int, int]:
    """Processor time of each thread."""
    found: dict[int, int] = {}
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found[int(task.name)] = int((task / "schedstat").read_text().split()[0])
        except (FileNotFoundError, ProcessLookupError):
            continue  # it has just ended
    return found


class Sampler:
    """Samples one process for a while, beside whatever this process does."""

    def __init__(self, pid: int, seconds: float, out: Path) -> None:
        if not PY_SPY.exists():
            raise SampleError("py-spy is not there: tools/install_py_spy.sh")
        self._pid, self._out, self._seconds = pid, out, seconds
        command = [str(PY_SPY), "record", "--nonblocking", "--threads", "--nolineno", "--format", "raw"]
        self._before = used_ns(pid)
        self._process = subprocess.Popen(
            [
                *KILLED_WITH_US,
                *command,
                "--pid",
                str(pid),
                "--rate",
                str(RATE),
                "--duration",
                f"{seconds:.0f}",
                "--output",
                str(out),
            ],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def stop(self) -> None:
        """Whether it is done or not."""
        self._process.kill()
        self._process.wait()

    def weights(self) -> dict[Stack, float]:
        """Share of the process's time in each stack; its first name is the thread. Waits for the end.

        A thread's samples share what that thread used: one that waits for a disk is seen often and uses little.
        Raises SampleError.
        """
        try:
            said, _ = self._process.communicate(timeout=self._seconds + LATE_S)
        except subprocess.TimeoutExpired:
            self.stop()
            raise SampleError("py-spy did not end in time") from None
        after = used_ns(self._pid)
        if self._process.returncode or not self._out.exists():
            raise SampleError(f"py-spy failed; does this user have the right to trace?\n{said[-500:]}")
        used = {thread: count - self._before.get(thread, 0) for thread, count in after.items()}
        return weighed(read(self._out.read_text()), used)


def read(raw: str) -> Counter[Stack]:
    """Of py-spy's raw format."""
    found: Counter[Stack] = Counter()
    for line in raw.splitlines():
        stack, _, count = line.rpartition(" ")
        found[tuple(stack.split(";"))] += int(count)
    return found


def weighed(stacks: Counter[Stack], used: dict[int, int]) -> dict[Stack, float]:
    """See Sampler.weights. Threads that have no Python in them come as one stack, gRPC's."""
    total = sum(used.values())
    if not total or not stacks:
        raise SampleError("the process did nothing while it was looked at")
    threads: dict[int, list[tuple[Stack, int]]] = {}
    for stack, count in stacks.items():
        match = _THREAD.match(stack[0])
        if match is None:
            raise SampleError(f"py-spy names a thread {stack[0]!r}: another version than the one expected?")
        threads.setdefault(int(match[1]), []).append((stack, count))
    found: dict[Stack, float] = {}
    for thread, seen in threads.items():
        share = used.get(thread, 0) / total / sum(count for _, count in seen)
        for stack, count in seen:
            named = (stack[0].partition(": ")[2] or "main", *stack[1:])
            found[named] = found.get(named, 0.0) + share * count
    rest = sum(count for thread, count in used.items() if thread not in threads) / total
    if rest:
        found[("threads of gRPC",)] = rest
    return found
