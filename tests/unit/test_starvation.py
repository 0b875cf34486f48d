"""A time is judged by how long the product was at work; who is starved is run again, who is slow fails."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from pathlib import Path
from threading import Event

import pytest

from chaos.starved import TICK_S, family, others_s, stolen_s
from tests.support.starvation import RUNS, Soon, Stopwatch, Timely, judge
from tools.phases import used_s

ROOT = Path(__file__).resolve().parents[2]
HOGS = 4
SPINS = "import time\nprint('spins', flush=True)\nwhile time.process_time() < {}: pass"
SCHEDSTAT = pytest.mark.skipif(not Path("/proc/self/schedstat").exists(), reason="this system does not count it")
STARVED = """
import pytest
from tests.support.starvation import judge

@pytest.mark.clock
def test_is_starved_once(tmp_path_factory):
    count = tmp_path_factory.getbasetemp() / "runs"
    count.write_text(count.read_text() + "x" if count.exists() else "x")
    print("run", len(count.read_text()))
    judge("the first", 1.0 if len(count.read_text()) > 1 else 2.0, 1.5, 1.0)

RUNS = []

@pytest.mark.clock
def test_is_starved_always():
    RUNS.append(1)
    judge(f"run {len(RUNS)}", 2.0, 1.5, 1.0)

@pytest.mark.clock
def test_is_slow():
    RUNS.append(1)
    judge(f"in {len(RUNS)} runs it", 3.0, 1.5, 1.0)

def test_is_no_test_of_the_clock():
    RUNS.append(1)
    judge(f"in {len(RUNS)} runs it", 2.0, 1.5, 1.0)
"""


@pytest.mark.parametrize(
    ("took_s", "starved_s", "outcome"),
    [
        (3.0, 0.0, None),
        (2.9, 5.0, None),
        (3.1, 0.0, pytest.fail.Exception),
        (9.0, 5.9, pytest.fail.Exception),
        (3.1, 0.1, pytest.skip.Exception),
        (9.0, 6.1, pytest.skip.Exception),
    ],
)
def test_what_was_withheld_is_taken_out_and_excuses_no_more_than_itself(
    took_s: float, starved_s: float, outcome: type[BaseException] | None
) -> None:
    if outcome is None:
        judge("it", took_s, starved_s, 3.0)
        return
    with pytest.raises(outcome, match=f"it took {took_s:.2f} s, at most 3; the machine withheld up to"):
        judge("it", took_s, starved_s, 3.0)


def spun(seconds: float, processor: int) -> subprocess.Popen[bytes]:
    command = ["taskset", "-c", str(processor), sys.executable, "-c", SPINS.format(seconds)]
    return subprocess.Popen(command, stdout=subprocess.PIPE)


def stranger(processor: int) -> tuple[subprocess.Popen[bytes], int]:
    """Whoever started it is gone: it spins, and is of no family. With it what reads its words, and its number."""
    spin = shlex.join(["taskset", "-c", str(processor), sys.executable, "-c", SPINS.format(60)])
    reader = subprocess.Popen(["sh", "-c", f"{spin} & echo $!"], stdout=subprocess.PIPE)
    assert reader.stdout is not None
    words = {reader.stdout.readline().strip() for _ in range(2)}
    reader.wait()
    return reader, int((words - {b"spins"}).pop())


def starve(work_s: float) -> None:
    """This process works so long on a processor that it shares with four others."""
    allowed = os.sched_getaffinity(0)
    processor = min(allowed)
    hogs = [stranger(processor) for _ in range(HOGS)]
    try:
        os.sched_setaffinity(0, {processor})
        until_s = time.thread_time() + work_s
        while time.thread_time() < until_s:
            pass
    finally:
        os.sched_setaffinity(0, allowed)
        for reader, hog in hogs:
            os.kill(hog, signal.SIGKILL)
            reader.communicate()


@SCHEDSTAT
def test_a_process_that_shares_its_processor_with_others_is_starved() -> None:
    """Planted: it is at work for a fifth of the time at most."""
    with Stopwatch() as watch:
        starve(0.2)
    assert watch.starved_s > 0.3
    with pytest.raises(pytest.skip.Exception, match="INVALID: it took"):
        watch.judge("it", watch.took_s - 0.1)


@SCHEDSTAT
def test_who_waits_for_threads_of_its_own_is_slow_by_itself() -> None:
    """Planted: a product that burns processors keeps its own threads waiting, for longer than any bound."""
    allowed = os.sched_getaffinity(0)
    before_s, stolen_before_s = others_s(), stolen_s()
    with Stopwatch() as watch:
        hogs = [spun(0.3, min(allowed)) for _ in range(HOGS)]
        for hog in hogs:
            hog.communicate()
    taken_s = others_s() - before_s + TICK_S + stolen_s() - stolen_before_s
    assert watch.starved_s <= taken_s, "no more than others can have taken"


def test_what_the_family_works_is_not_of_others() -> None:
    """Also when it has ended by then."""
    machine_s, before_s = used_s(), others_s()
    with spun(1.0, min(os.sched_getaffinity(0))) as hog:
        hog.communicate()
    assert used_s() - machine_s - (others_s() - before_s) >= 0.9


def test_who_waits_for_nothing_is_slow_and_not_starved() -> None:
    """Planted: a product that stands still is ready for nothing, and no processor was kept from it."""
    with pytest.raises(pytest.fail.Exception, match="it took 1"), Soon("it", 0.1):
        Event().wait(1.0)


def test_a_block_that_fails_is_not_judged_beside_it() -> None:
    with pytest.raises(ValueError, match="its own"), Soon("it", 0.0):
        raise ValueError("its own")


def test_who_fails_without_having_been_starved_has_failed() -> None:
    with pytest.raises(AssertionError, match="wrong"), Timely(0.5):
        raise AssertionError("wrong")


@SCHEDSTAT
def test_who_fails_when_its_turns_did_not_come_shows_nothing() -> None:
    def failed() -> None:
        with Timely(0.1):
            starve(0.1)
            raise AssertionError("wrong")

    with pytest.raises(pytest.skip.Exception, match=r"INVALID: wrong; it needs turns within 0\.1 s"):
        failed()


def test_what_a_child_starts_is_of_the_family() -> None:
    text = "import subprocess, sys; p = subprocess.Popen(['sleep', '60']); print(p.pid, flush=True); p.wait()"
    with subprocess.Popen([sys.executable, "-c", text], stdout=subprocess.PIPE, process_group=0) as child:
        assert child.stdout is not None
        grandchild = int(child.stdout.readline())
        found = list(family())
        os.killpg(child.pid, 9)
    assert {os.getpid(), child.pid, grandchild} <= set(found)
    assert 1 not in found


def test_who_was_starved_is_run_again_and_ends_as_invalid_and_who_is_slow_fails_at_once(tmp_path: Path) -> None:
    (tmp_path / "test_them.py").write_text(STARVED)
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.starvation", "-p", "no:cacheprovider", "-rsP"]
    command += ["-c", str(ROOT / "pyproject.toml"), "--rootdir", str(tmp_path), str(tmp_path)]
    wide = {**os.environ, "COLUMNS": "400"}
    ended = subprocess.run(command, cwd=ROOT, env=wide, capture_output=True, text=True, check=False)
    assert "1 failed, 1 passed, 2 skipped" in ended.stdout, ended.stdout + ended.stderr
    assert "run 2\n" in ended.stdout
    assert f"INVALID: run {RUNS} took 2.00 s" in ended.stdout
    assert f"in {RUNS + 1} runs it took 3.00 s" in ended.stdout
    assert f"INVALID: in {RUNS + 2} runs it took 2.00 s" in ended.stdout
