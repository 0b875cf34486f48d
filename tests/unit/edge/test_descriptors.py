"""Descriptors: what is kept back, how the limit is raised, and when a process does not start."""

from __future__ import annotations

import resource
import subprocess
import sys

import pytest

from tandemq.edge.descriptors import KEPT, LIMIT_MIN, shares
from tests.support.until import OUTER_S

RAISE = "from tandemq.edge.descriptors import raise_limit; print(raise_limit())"


@pytest.mark.parametrize("limit", [LIMIT_MIN, 1_024, 4_096, 65_536])
def test_whatever_the_limit_so_many_are_kept(limit: int) -> None:
    found = shares(limit)
    assert limit - found.clients == KEPT
    assert found.peer + found.http < KEPT / 2
    assert found.clients >= KEPT


def test_an_application_with_few_of_them_keeps_half() -> None:
    assert shares(100).clients == 50


def run(soft: int, hard: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))

    return subprocess.run(
        [sys.executable, *arguments], preexec_fn=limit, capture_output=True, text=True, check=False, timeout=OUTER_S
    )


def test_the_soft_limit_is_raised_to_the_hard_one() -> None:
    assert run(300, 2_000, "-c", RAISE).stdout == "2000\n"


@pytest.mark.slow
@pytest.mark.process
@pytest.mark.parametrize("command", [("serve", "--member", "x", "--base-port", "1"), ("witness",)])
def test_a_member_or_witness_with_too_few_does_not_start(tmp_path: object, command: tuple[str, ...]) -> None:
    ended = run(400, LIMIT_MIN - 1, "-m", "tandemq", *command, "--data-dir", f"{tmp_path}/data")
    assert ended.returncode == 1
    assert "CONFIG_ERROR" in ended.stderr
    assert "511 descriptors" in ended.stderr
    assert "ulimit -n 65536" in ended.stderr
