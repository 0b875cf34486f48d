"""Runs the tests of a pytest session once for each mutant, in a forked child, and says which test saw it first.

The tests are collected once, in a process that runs none of them. One child runs all and says which of them come to
the changed statements, and how long each takes; every other one has one mutant put into its memory, and runs the tests
that come to its statement, the quickest first, until one fails. The same tests run without it, and one that fails there
too shows nothing. No file is changed.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from types import FunctionType
from typing import Any, NamedTuple

import pytest
from _pytest.runner import runtestprotocol

from tools.mutants.kinds import Mutant, code_of, watched_code_of

KILLED, ALIVE, UNREACHED, HUNG = "killed", "alive", "unreached", "hung"
SILENT_S = 120.0
"""A child in which no test ends for so long goes round in circles, which is seen too."""
CPU_S = 1_800
"""Of a child: one that goes round in circles ends by itself when nobody is left to end it."""
STRAY_NAME = "__mutants_entered__"
"""A global of each module that is looked at."""


Say = Callable[[object], None]
"""Tells the parent one thing, as JSON."""


class Verdict(NamedTuple):
    """What became of one mutant."""

    mutant: Mutant
    outcome: str
    by: str = ""
    """The test that failed, or hung, or in which the process ended; or the seed."""
    tests: int = 0
    """Those that come to its statement."""


class Reach(NamedTuple):
    """Which tests come to which mutant's statement."""

    tests: Mapping[str, list[str]]
    """By the mutant's key, the quickest first."""
    failing: list[str]
    """Those that fail without a mutant: they are asked nothing."""


def function_of(module: str, name: str) -> FunctionType | None:
    """The function of that name, under whatever wraps it; None where there is none at run time."""
    owner: Any = importlib.import_module(module)
    *path, last = name.split(".")
    for part in path:
        owner = vars(owner).get(part)
        if owner is None:
            return None
    found = vars(owner).get(last)
    if isinstance(found, property):
        found = found.fget
    elif isinstance(found, staticmethod | classmethod):
        found = found.__func__
    elif isinstance(found, cached_property):
        found = found.func
    found = getattr(found, "__wrapped__", found)
    return found if isinstance(found, FunctionType) else None


def in_child(work: Callable[[Say], None], silent_s: float | None) -> tuple[list[Any], bool]:
    """What a forked child says, and whether it was never silent for longer. What it prints goes nowhere."""
    reading, writing = os.pipe()
    sys.stdout.flush()
    pid = os.fork()
    if not pid:
        try:
            os.setpgid(0, 0)
            resource.setrlimit(resource.RLIMIT_CPU, (CPU_S, CPU_S))
            os.close(reading)
            nowhere = os.open(os.devnull, os.O_RDWR)
            for descriptor in (0, 1, 2):
                os.dup2(nowhere, descriptor)
            with os.fdopen(writing, "w", buffering=1) as out:
                work(lambda said: print(json.dumps(said), file=out, flush=True))
        finally:
            os._exit(0)
    with contextlib.suppress(OSError):
        os.setpgid(pid, pid)
    os.close(writing)
    lines, in_time = _lines(reading, silent_s)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return [json.loads(line) for line in lines], in_time


def _lines(descriptor: int, silent_s: float | None) -> tuple[list[str], bool]:
    data = b""
    with os.fdopen(descriptor, "rb", buffering=0) as source:
        while True:
            if not select.select([source], [], [], silent_s)[0]:
                return data.decode().splitlines(), False
            more = source.read(1 << 16)
            if not more:
                return data.decode().splitlines(), True
            data += more


def reach_of(items: Sequence[pytest.Item], mutants: Sequence[Mutant]) -> Reach:
    """Runs every test once, in a child. Raises RuntimeError where that ends before they do."""

    def work(say: Say) -> None:
        entered: set[str] = set()
        of_function: dict[tuple[str, str], list[Mutant]] = {}
        for mutant in mutants:
            of_function.setdefault((mutant.module, mutant.function), []).append(mutant)
        for each in of_function.values():
            _watch(each, entered)
        for at, item in enumerate(items):
            entered.clear()
            began = time.perf_counter()
            failed = _fails(item, items[at + 1] if at + 1 < len(items) else None)
            say([item.nodeid, failed, time.perf_counter() - began, sorted(entered)])

    said, _ = in_child(work, None)
    if len(said) < len(items):
        raise RuntimeError(f"without a mutant the process of the tests ended in {items[len(said)].nodeid}")
    found: dict[str, list[tuple[float, str]]] = {}
    for nodeid, failed, took_s, entered in said:
        for name in entered if not failed else ():
            found.setdefault(name, []).append((took_s, nodeid))
    quickest = {name: [nodeid for _, nodeid in sorted(tests)] for name, tests in found.items()}
    return Reach(quickest, [nodeid for nodeid, failed, _, _ in said if failed])


def _watch(mutants: Sequence[Mutant], entered: set[str]) -> None:
    """Has the function of all of them say to which of their statements it comes."""
    first = mutants[0]
    function = function_of(first.module, first.function)
    if function is None:
        return
    code = watched_code_of(Path(first.path).read_text(encoding="utf-8"), first.path, mutants, STRAY_NAME)
    if code.co_freevars == function.__code__.co_freevars:
        function.__globals__[STRAY_NAME] = entered.add
        function.__code__ = code


def _fails(item: pytest.Item, following: pytest.Item | None) -> bool:
    return any(report.failed for report in runtestprotocol(item, nextitem=following, log=False))


def put_in(mutant: Mutant) -> bool:
    """Into the memory of this process; whether there is such a function."""
    function = function_of(mutant.module, mutant.function)
    if function is None:
        return False
    code = code_of(Path(mutant.path).read_text(encoding="utf-8"), mutant.path, mutant)
    if code.co_freevars != function.__code__.co_freevars:
        return False
    function.__code__ = code
    return True


def asked(mutant: Mutant, items: Sequence[pytest.Item], silent_s: float = SILENT_S) -> Verdict:
    """The tests that come to its statement, until one fails, or none ends for so long."""
    if not items:
        return Verdict(mutant, UNREACHED)
    said, in_time = in_child(lambda say: _ask(say, items, partial(put_in, mutant)), silent_s)
    if said == [[UNREACHED, False]]:
        return Verdict(mutant, UNREACHED, tests=len(items))
    if len(said) == len(items) and not said[-1][1]:
        return Verdict(mutant, ALIVE, tests=len(items))
    if said and said[-1][1]:
        return Verdict(mutant, KILLED, said[-1][0], len(items))
    return Verdict(mutant, KILLED if in_time else HUNG, items[len(said)].nodeid, len(items))


def pass_without(items: Sequence[pytest.Item], silent_s: float = SILENT_S) -> bool:
    """Whether all of them pass in this order with no mutant: one that does not says nothing of any."""
    said, _ = in_child(lambda say: _ask(say, items, lambda: True), silent_s)
    return len(said) == len(items) and not said[-1][1]


def _ask(say: Say, items: Sequence[pytest.Item], prepare: Callable[[], bool]) -> None:
    """Until one fails."""
    if not prepare():
        say([UNREACHED, False])
        return
    for at, item in enumerate(items):
        failed = _fails(item, items[at + 1] if at + 1 < len(items) else None)
        say([item.nodeid, failed])
        if failed:
            return


def asked_of_seeds(mutant: Mutant, seeds: int) -> str:
    """The first run of the simulator that shows it, as profile and seed; empty: none did."""

    def work(say: Say) -> None:
        from chaos.sim.draw.profiles import PROFILES, draw
        from chaos.sim.tools.product import run

        profiles = list(PROFILES)
        if put_in(mutant):
            for seed in range(1, seeds + 1):
                profile = profiles[seed % len(profiles)]
                broken = bool(run(draw(profile, seed)).violations)
                say([f"{profile} {seed}", broken])
                if broken:
                    return
        say(["", False])

    said, in_time = in_child(work, SILENT_S)
    if not in_time:
        return "a run that did not end"
    if not said or (said[-1][0] and not said[-1][1]):
        return "a run that ended its process"
    return str(said[-1][0])
