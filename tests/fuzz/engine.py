"""Runs one target under an engine for a number of seconds and says what happened; it never judges what is a crash.

Two engines. `hypothesis` is always there: random bytes and changed corpus files, in this process. `atheris` is Google's
coverage-guided fuzzer (libFuzzer): it sees which input reaches new code, so it goes deeper, and it needs its own
process, because it counts every branch of our modules and ends with its process.
"""

from __future__ import annotations

import hashlib
import importlib
import importlib.util
import logging
import os
import random
import re
import subprocess
import sys
import time
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st

from tests.fuzz.source import Source

HERE = Path(__file__).parent
ROOT = HERE.parent.parent
CORPUS = HERE / "corpus"
TARGETS = tuple(sorted(path.stem for path in (HERE / "targets").glob("*.py")))
INPUT_BYTES_MAX = 1024
LONG_COUNT, LONG_BYTES = 20, 400
ROUND = 200
"""Examples between two looks at the clock, and between two seeds."""
SHRINK_RUNS_MAX, SHRINK_S = 2_000, 8.0
BUSY_FACTOR = 8
"""How much longer than its budget a run may take where others need the processor too, or where a target waits."""
GRACE_S = 60.0
"""What an engine may take beyond its time: an import, the last input."""

One = Callable[[bytes], None]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of one target came to."""

    target: str
    engine: str
    executions: int
    seconds: float
    paths: int | None
    """Inputs that reached new code; None: this engine does not know."""
    crash: bytes | None = None
    error: str = ""


class CrashError(AssertionError):
    """An input that the target must not fail on; the cause is the failure."""

    def __init__(self, data: bytes) -> None:
        super().__init__(f"{len(data)} bytes: {data[:40].hex()}")
        self.data = data


def load(target: str) -> ModuleType:
    return importlib.import_module(f"tests.fuzz.targets.{target}")


def corpus(target: str) -> list[bytes]:
    """The files kept for a target: small inputs that reach far, and those that once crashed it."""
    return [path.read_bytes() for path in sorted((CORPUS / target).glob("*"))]


def has_atheris() -> bool:
    return importlib.util.find_spec("atheris") is not None


def inputs(kept: list[bytes]) -> st.SearchStrategy[bytes]:
    """Bytes of every length alike, and kept inputs with changes."""
    fresh = st.integers(0, INPUT_BYTES_MAX).flatmap(lambda size: st.binary(min_size=size, max_size=size))
    long = st.builds(lambda key, size: random.Random(key).randbytes(size), st.integers(0, 1 << 32), st.integers(0, 512))
    if not kept:
        return st.one_of(fresh, long, long)
    changed = st.builds(lambda data, how: Source(how).mutated(data), st.sampled_from(kept), st.binary(max_size=24))
    return st.one_of(fresh, long, long, changed)


def run_hypothesis(
    one: One, seconds: float, kept: list[bytes], *, first_seed: int | None = None, shrink: bool = True
) -> tuple[int, bytes | None, str]:
    """Until the budget is over or the first crash: executions, the crashing input made shorter, the traceback."""
    round_seed = random.SystemRandom().getrandbits(48) if first_seed is None else first_seed
    is_over = _budget(seconds)
    executions = 0

    def attempt(data: bytes) -> None:
        nonlocal executions
        if is_over():
            return
        executions += 1
        quiet = logging.root.manager.disable
        logging.disable(logging.CRITICAL)
        try:
            one(data)
        except Exception as error:
            raise CrashError(data) from error
        finally:
            logging.disable(quiet)

    while not is_over():
        given_bytes = given(inputs(kept))(attempt)
        run = seed(round_seed)(settings(_PROFILE, max_examples=ROUND)(given_bytes))
        round_seed += 1
        crashed: CrashError | None = None
        try:
            run()
        except CrashError as crash:
            crashed = crash
        if crashed is not None:
            data = shorter(one, crashed.data, until=time.monotonic() + SHRINK_S) if shrink else crashed.data
            return executions, data, _error_of(one, data) or "".join(traceback.format_exception(crashed.__cause__))
    return executions, None, ""


def _budget(seconds: float) -> Callable[[], bool]:
    """Seconds of this process's own time, so that a busy machine makes a run longer, not shallower; within bounds."""
    cpu_end, wall_end = time.process_time() + seconds, time.monotonic() + BUSY_FACTOR * seconds
    return lambda: time.process_time() >= cpu_end or time.monotonic() >= wall_end


_PROFILE = settings(
    deadline=None,
    database=None,
    phases=(Phase.generate,),  # our own shortening is of bytes, which is what is kept
    suppress_health_check=list(HealthCheck),
)


def shorter(one: One, data: bytes, *, until: float) -> bytes:
    """The input with every piece left out that the same kind of failure does not need, and zeros where they do."""
    kind = _kind(one, data)
    if kind is None:
        return data
    size = max(1, len(data) // 2)
    runs = 0
    while size:
        at = 0
        while at < len(data):
            for trial in (
                data[:at] + data[at + size :],
                data[:at] + bytes(min(size, len(data) - at)) + data[at + size :],
            ):
                runs += 1
                if time.monotonic() > until or runs > SHRINK_RUNS_MAX:
                    return data
                if trial != data and _kind(one, trial) == kind:
                    data = trial
                    break
            else:
                at += size
                continue
            if trial[at : at + size] == bytes(size):
                at += size
        size //= 2
    return data


def _kind(one: One, data: bytes) -> str | None:
    """Where it fails: the type of the failure and the line of ours that raised it."""
    try:
        one(data)
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        return f"{type(error).__name__} {frames[-1].filename}:{frames[-1].lineno}"
    return None


def _error_of(one: One, data: bytes) -> str:
    try:
        one(data)
    except Exception:
        return traceback.format_exc()
    return ""


def fuzz(target: str, seconds: float, engine: str, directory: Path) -> Outcome:
    """One run; a crashing input is left in `directory`."""
    began = time.monotonic()
    if engine == "atheris":
        executions, crash, error, paths = _run_atheris(target, seconds, directory)
    else:
        executions, crash, error = run_hypothesis(load(target).one, seconds, corpus(target))
        paths = None
    return Outcome(target, engine, executions, time.monotonic() - began, paths, crash, error)


def keep(directory: Path, target: str, data: bytes) -> Path:
    """A crashing input as a file."""
    path = directory / f"{target}-{hashlib.blake2b(data, digest_size=4).hexdigest()}"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


# -- atheris -----------------------------------------------------------------------------------------------------------


def _run_atheris(target: str, seconds: float, directory: Path) -> tuple[int, bytes | None, str, int | None]:
    found = directory / "corpus" / target
    found.mkdir(parents=True, exist_ok=True)
    (CORPUS / target).mkdir(parents=True, exist_ok=True)
    for number in range(LONG_COUNT):  # libFuzzer begins with what it is given, and grows it byte by byte
        (found / f"long-{number}").write_bytes(random.Random(number).randbytes(LONG_BYTES))
    artifact = directory / f"{target}-artifact-"
    for old in directory.glob(f"{artifact.name}*"):
        old.unlink()
    arguments = [
        *(sys.executable, "-m", "tests.fuzz.under_atheris", target),
        *(f"-max_total_time={max(1, round(seconds))}", f"-max_len={INPUT_BYTES_MAX}", "-len_control=0"),
        *(f"-artifact_prefix={artifact}", "-print_final_stats=1", "-timeout=30", "-rss_limit_mb=2048"),
        *(str(found), str(CORPUS / target)),
    ]
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), os.environ.get("PYTHONPATH", "")])}
    done = subprocess.run(
        arguments, cwd=ROOT, env=environ, capture_output=True, text=True, errors="replace", timeout=seconds + GRACE_S,
        check=False,
    )  # fmt: skip
    said = done.stdout + done.stderr
    executions = _stat(said, "number_of_executed_units") or 0
    crashed = next(iter(sorted(directory.glob(f"{artifact.name}*"))), None)
    if crashed is None:
        if done.returncode:
            raise RuntimeError(f"atheris ended with {done.returncode} and no input:\n{said[-2000:]}")
        return executions, None, "", _stat(said, "new_units_added")
    data = crashed.read_bytes()
    crashed.unlink()
    one: One = load(target).one
    data = shorter(one, data, until=time.monotonic() + SHRINK_S)
    return executions, data, _error_of(one, data) or said[-2000:], _stat(said, "new_units_added")


def _stat(said: str, name: str) -> int | None:
    match = re.search(rf"stat::{name}:\s*(\d+)", said)
    return int(match[1]) if match else None
