"""Traces what each scenario writes, builds the images, has them judged, and counts; says nothing to anybody meanwhile.

Each scenario is traced twice: as it is, and as a positive control with sync off. Images of the control that nobody
finds fault with would mean that this whole experiment cannot find any.
"""

from __future__ import annotations

import faulthandler
import itertools
import logging
import multiprocessing
import os
import random
import resource
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import warnings
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import NamedTuple

import lmdb
from google.protobuf.message import DecodeError

from chaos.sim.images.disk import Disk, write_image
from chaos.sim.images.driver import SCENARIOS
from chaos.sim.images.judges import INVALID, JUDGES, Finding, Judge
from chaos.sim.images.lying import LyingJudge
from chaos.sim.images.shots import Shot, choose, choose_lies, files_of_marks
from chaos.sim.images.story import read_story
from chaos.sim.images.trace import CALLS, Event, Named, Renamed, Resize, Synced, Write, read_trace
from storage.errors import StorageError

NAMES = tuple(SCENARIOS)
LYING = "lying"
_OF_A_FILE = (Named, Renamed, Resize, Synced, Write)
CHUNK = 50
LOOK_S = 200.0
LOOK_CPU_S = 5
"""Of processor time, for one image: damage can send LMDB round in circles."""
TRACE_S = 200
"""Two seconds where nothing else is at work; this is for one that hangs."""
_CONTROL_POOL = 600
"""Images of a control that those looked at are drawn from: of every kind of loss."""
_NOT_DATA = frozenset({"lock.mdb", "LOCK"})
"""Written through a map, or of no meaning after a crash: each process makes them anew."""
_STUMBLES = (
    *(StorageError, lmdb.Error, OSError, AssertionError, DecodeError, struct.error),
    *(ValueError, KeyError, IndexError, EOFError, TimeoutError, RuntimeError),
)


def without_mark(events: Sequence[Event]) -> list[Event]:
    """It is written after each commit and never synced: images that differ in it alone would be most of all. Always
    lost, which it may be; what it says where it is kept is for the scenario that needs it.
    """
    marks = files_of_marks(events)
    return [event for event in events if not isinstance(event, _OF_A_FILE) or event.file not in marks]


class CannotRunError(RuntimeError):
    """The experiment is not possible here; the text says what is missing."""


@dataclass(frozen=True, slots=True)
class Run:
    """One traced run, with its images chosen."""

    scenario: str
    control: bool
    events: list[Event]
    root: str
    shots: list[Shot]
    judge: Judge

    @property
    def name(self) -> str:
        return f"{self.scenario}{' (control)' if self.control else ''}"


class Look(NamedTuple):
    """What one image showed."""

    findings: list[Finding]
    seen: Counter[str]


@dataclass(slots=True)
class Count:
    """What was found in the images of a run."""

    images: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    """By the worst finding of an image."""
    examples: list[str] = field(default_factory=list)
    seen: Counter[str] = field(default_factory=Counter)
    """How often each of `judges.SOMETIMES` was met."""

    @property
    def bad(self) -> int:
        return sum(self.kinds.values())

    def add(self, run: Run, shot: Shot, seen: Look) -> None:
        """One image more."""
        self.images += 1
        self.seen += seen.seen
        if seen.findings:
            self.kinds[seen.findings[0].kind] += 1
            self.examples.append(f"{run.name}, after event {shot.at} ({shot.moment}): {seen.findings[0].text}")


def trace(scenario: str, directory: Path, *, control: bool, seed: int, images: int) -> Run:
    """Runs one scenario under strace. Raises CannotRunError where strace cannot be used."""
    strace = shutil.which("strace")
    if strace is None:
        raise CannotRunError("strace is not on PATH; on Debian or Ubuntu: apt-get install strace")
    root, said, story, output = (directory / name for name in ("root", "said", "story", "trace"))
    root.mkdir()
    driver = [sys.executable, "-m", "chaos.sim.images.driver", scenario, *map(str, (root, said, story, seed))]
    command = [
        strace,
        "-f",
        "--seccomp-bpf",
        "-xx",
        "-s",
        str(1 << 22),
        "-o",
        str(output),
        "-e",
        f"trace={','.join(CALLS)}",
    ]
    lies = scenario == LYING  # a device that does not honour a sync is no control of one that lies
    command += [*driver, *(["--no-sync"] if control and not lies else [])]
    here = str(Path(__file__).resolve().parents[3])
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((here, os.environ.get("PYTHONPATH", "")))}
    try:
        ended = subprocess.run(command, capture_output=True, text=True, timeout=TRACE_S, env=environment, check=False)
    except subprocess.TimeoutExpired as late:
        raise CannotRunError(f"scenario {scenario} did not end within {TRACE_S} s") from late
    if ended.returncode or not story.exists():
        last = "\n".join(ended.stderr.strip().splitlines()[-8:])
        hint = ""
        if "ptrace" in ended.stderr.lower():
            hint = "; strace may not trace its own children here (in a container it needs the capability SYS_PTRACE)"
        raise CannotRunError(f"scenario {scenario} ended with {ended.returncode}{hint}. It said:\n{last}")
    with output.open() as lines:
        events = read_trace(lines, str(root), str(said))
    if lies:
        shots = choose_lies(events, str(root), wanted=images, seed=seed, control=control)
        return Run(scenario, control, events, str(root), shots, LyingJudge(read_story(story)))
    events = without_mark(events)
    shots = choose(events, str(root), wanted=_CONTROL_POOL if control else images, seed=seed)
    if control:
        shots = sorted(random.Random(seed).sample(shots, min(images, len(shots))), key=lambda shot: shot.at)
    return Run(scenario, control, events, str(root), shots, JUDGES[scenario](read_story(story)))


def looks(run: Run, shots: Sequence[Shot], directory: Path) -> Iterator[Look]:
    """Builds and judges these images, which stand in the order of the trace, one after the other in this directory."""
    disk = Disk(run.root)
    events = iter(run.events)
    done = -1
    image = directory / "image"
    for shot in shots:
        while done < shot.at:
            disk.apply(next(events))
            done += 1
        shutil.rmtree(image, ignore_errors=True)
        image.mkdir(parents=True)
        write_image(disk.image(shot.kept), str(image), _NOT_DATA)
        run.judge.seen.clear()
        yield Look(judged(run.judge, image, shot), Counter(run.judge.seen))


def look(run: Run, shots: Sequence[Shot]) -> Count:
    """The same, in this process, counted."""
    count = Count()
    with tempfile.TemporaryDirectory(prefix="crash-image-", dir=scratch()) as directory:
        for shot, seen in zip(shots, looks(run, shots, Path(directory)), strict=True):
            count.add(run, shot, seen)
    return count


def judged(judge: Judge, directory: Path, shot: Shot) -> list[Finding]:
    """As the judge says; whatever the product stumbles over makes an image invalid too."""
    try:
        return judge.find(directory, shot.moment)
    except _STUMBLES as error:
        return [Finding(INVALID, f"opening it raised {error!r}")]


def scratch() -> str | None:
    """Where images are laid: in memory, where there is room for some; a fsync costs nothing there."""
    memory = Path("/dev/shm")
    return str(memory) if memory.is_dir() and shutil.disk_usage(memory).free > 64 << 20 else None


class _Worker:
    """A process that looks at some images, and may die of one."""

    def __init__(self, run: Run, shots: deque[Shot], directory: Path) -> None:
        self.run, self.shots = run, shots
        self.answers, answer = multiprocessing.Pipe(duplex=False)
        context = multiprocessing.get_context("fork")  # what is looked at is large, and inherited for nothing
        self.process = context.Process(target=_work, args=(run, list(shots), directory, answer), daemon=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", DeprecationWarning)  # of forking beside threads: no lock of theirs is used
            self.process.start()
        answer.close()

    def end(self) -> None:
        self.answers.close()
        self.process.join()


def _work(run: Run, shots: list[Shot], directory: Path, answer: Connection) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # an interrupt is for whoever started this
    faulthandler.disable()  # a death is counted; its stack says nothing of the image
    logging.disable(logging.CRITICAL)  # what recovery says of thousands of images is not read
    found = looks(run, shots, directory)
    for _ in shots:
        spent = resource.getrusage(resource.RUSAGE_SELF)
        limit = int(spent.ru_utime + spent.ru_stime) + LOOK_CPU_S + 1
        resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))  # then SIGXCPU ends this process
        answer.send(next(found))


def look_at_all(runs: Sequence[Run], jobs: int) -> Iterator[tuple[Run, Shot, Look]]:
    """Every image of every run, in parts, as they are done. An image that kills whoever opens it is invalid, as is one
    that takes longer than LOOK_S, or LOOK_CPU_S of processor time.
    """
    parts = deque(
        (run, deque(run.shots[first : first + CHUNK])) for run in runs for first in range(0, len(run.shots), CHUNK)
    )
    active: dict[Connection, _Worker] = {}
    with tempfile.TemporaryDirectory(prefix="crash-image-", dir=scratch()) as directory:
        try:
            for number in itertools.count():
                if parts and len(active) < jobs:
                    worker = _Worker(*parts.popleft(), Path(directory) / str(number))
                    active[worker.answers] = worker
                    continue
                if not active:
                    return
                ready = wait(list(active), timeout=LOOK_S)
                if not ready:
                    for worker in active.values():
                        worker.process.kill()
                for answers in ready:
                    worker = active[answers]  # type: ignore[index]  # only connections were waited for
                    try:
                        seen: Look = worker.answers.recv()
                    except EOFError:
                        del active[worker.answers]
                        worker.end()
                        if not worker.shots:
                            continue
                        why = f"looking at it ended the process with {worker.process.exitcode}"
                        seen = Look([Finding(INVALID, why)], Counter())
                        parts.appendleft((worker.run, deque(list(worker.shots)[1:])))
                    yield worker.run, worker.shots.popleft(), seen
        finally:
            for worker in active.values():
                worker.process.kill()
                worker.end()
