"""Ranges of ports, chosen by several processes at the same time."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

pytestmark = [pytest.mark.slow]

ROUNDS = 100
CHOOSES = """
import os, sys
from pathlib import Path
from chaos.cluster import Cluster
first = int(sys.argv[1])
os.getpid = lambda: first  # all look at the same ranges in the same order
for line in sys.stdin:
    cluster = Cluster(Path("."))
    print(cluster.base_port, flush=True)
"""


@contextmanager
def chooser() -> Iterator[subprocess.Popen[str]]:
    """A process that lays out another cluster for each line, and holds it together with the one before."""
    command = [sys.executable, "-c", CHOOSES, str(os.getpid())]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        try:
            yield process
        finally:
            process.kill()


def chosen(*processes: subprocess.Popen[str]) -> list[int]:
    """By all of them at once."""
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n")
        process.stdin.flush()
    return [int(process.stdout.readline()) for process in processes if process.stdout is not None]


def test_processes_that_choose_at_the_same_time_never_have_the_same_range() -> None:
    with chooser() as one, chooser() as other:
        for _ in range(ROUNDS):
            first, second = chosen(one, other)
            assert first != second


def test_the_range_of_a_process_that_was_killed_is_free_at_once() -> None:
    with chooser() as other:
        with chooser() as one:
            held = chosen(one)
            assert chosen(other) != held
        assert chosen(other) == held
