"""What is shown of the log of a process that died, asked of processes that do."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from chaos.cluster import LOG_TAIL_LINES, Child
from chaos.last_words import FATAL, NATIVE, last_words

BEGIN = """
import ctypes, faulthandler, threading
print('{"message": "witness serves"}', flush=True)
faulthandler.enable()
"""
IN_PYTHON = """
def deep(left):
    deep(left - 1) if left else ctypes.string_at(0)
deep(20)
"""
IN_A_THREAD_OF_ITS_OWN = """
library, thread = ctypes.CDLL(None), ctypes.c_ulong()
library.pthread_create(ctypes.byref(thread), None, ctypes.c_void_p(8), None)
threading.Event().wait()
"""


def died(log: Path, code: str) -> Child:
    child = Child("witness", [], log)
    with log.open("ab") as output:
        child.process = subprocess.Popen([sys.executable, "-c", BEGIN + code], stdout=output, stderr=output)
    child.process.wait()
    return child


@pytest.mark.slow
def test_of_a_death_in_python_its_place_is_shown(tmp_path: Path) -> None:
    child = died(tmp_path / "log", IN_PYTHON)
    assert child.ending == "signal 11"
    shown = child.tail().splitlines()
    assert shown[1:3] == [
        f"{FATAL}Segmentation fault",
        next(each for each in shown if each.startswith("Current thread")),
    ]
    assert "in string_at" in shown[3]
    assert len(shown) == 1 + LOG_TAIL_LINES


@pytest.mark.slow
def test_of_a_death_in_native_code_it_says_that_and_what_came_before(tmp_path: Path) -> None:
    child = died(tmp_path / "log", IN_A_THREAD_OF_ITS_OWN)
    assert child.ending == "signal 11"
    shown = child.tail().splitlines()
    assert shown[1:4] == ['{"message": "witness serves"}', f"{FATAL}Segmentation fault", NATIVE]
    assert [line.partition(":")[0] for line in shown[4:]] == ["Extension modules"] or not shown[4:]


def test_what_an_earlier_process_died_of_is_not_shown() -> None:
    lines = [f"{FATAL}Aborted", "Current thread 0x1 (most recent call first):", *['{"message": "next"}'] * 3]
    assert last_words(lines, 3) == ['{"message": "next"}'] * 3


def test_others_have_their_last_lines() -> None:
    assert last_words([str(number) for number in range(9)], 2) == ["7", "8"]
    assert last_words([], 2) == []
