"""The guard of system calls finds a hand-over that was planted, and says so where the kernel counts nothing."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from bench.guard import calls, counters
from bench.guard.calls import BASELINE, JUDGED, NOT_COUNTED, REQUIRED, about, main, measured
from bench.guard.compare import NOT_COMPARED, Verdict, compared
from bench.guard.counters import ALL, CannotCountError, counting, tracepoint


def needs_counters() -> None:
    try:
        tracepoint(ALL)
        with counting([os.getpid()], [ALL]):
            pass
    except CannotCountError as error:
        if os.environ.get(REQUIRED) == "1":
            raise
        pytest.skip(str(error))


@pytest.mark.process
@pytest.mark.slow
def test_one_more_hand_over_of_a_commit_is_found() -> None:
    needs_counters()
    surroundings = about()
    before, after = (
        {name: count for name, count in measured(plant).items() if name in JUDGED} for plant in ((), ("hand-over",))
    )
    lines = compared({"about": surroundings, "figures": before}, surroundings, after).lines
    worse = {line.name for line in lines if line.verdict is Verdict.WORSE}
    assert "one in flight, replica: wake-ups" in worse, lines  # one more for each message, where there are three


@pytest.mark.process
def test_a_counter_counts_the_calls_of_a_process_and_of_threads_that_it_starts() -> None:
    needs_counters()
    script = (
        "import os, sys, threading; sys.stdin.readline(); print(flush=True)\n"
        "def work(): [os.getppid() for _ in range(1000)]\n"
        "for _ in range(2): (t := threading.Thread(target=work)).start(); t.join()\n"
        "work(); print('x', flush=True); sys.stdin.readline()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdin
        assert child.stdout
        with counting([child.pid], ["getppid", ALL]) as (counted,):
            child.stdin.write("\n")
            child.stdin.flush()
            assert child.stdout.readline() == "\n"
            assert child.stdout.readline() == "x\n"
            found = counted.read()
        child.communicate("\n")
    assert found["getppid"] == 3000
    assert found[ALL] > 3000


def test_on_a_busy_machine_it_judges_nothing_and_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    class Busy:
        def cores(self) -> float:
            return 0.5

    monkeypatch.setattr(calls, "Strangers", Busy)
    monkeypatch.setattr(calls, "measured", lambda _plant: {})
    monkeypatch.setattr(sys, "argv", ["guard"])
    assert main() == NOT_COMPARED
    assert "NOT COMPARED: others used 0.50 cores" in capsys.readouterr().out


@pytest.mark.parametrize(("more", "required", "code"), [([], "", 4), (["--optional"], "", 0), (["--optional"], "1", 4)])
def test_where_the_kernel_counts_nothing_it_says_so_with_a_code_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
    more: list[str],
    required: str,
    code: int,
) -> None:
    assert NOT_COUNTED == 4
    monkeypatch.setattr(counters, "TRACEFS", tmp_path)
    monkeypatch.setattr(sys, "argv", ["guard", *more])
    monkeypatch.setenv(REQUIRED, required)
    assert main() == code
    assert "NOT COUNTED: system calls cannot be counted" in capsys.readouterr().out


def test_the_committed_baseline_has_every_figure_that_is_judged() -> None:
    committed = json.loads(BASELINE.read_text())
    assert set(committed["figures"]) == JUDGED
    assert all(count > 0 for count in committed["figures"].values())
