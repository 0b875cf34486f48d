"""The demo of macro queues, end to end on a part of its flights: a pair and a single manager, each killed, a member
destroyed and one added, and an account of every flight by the journals of all three.
"""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from chaos.macros.account import Totals

pytestmark = [pytest.mark.process, pytest.mark.slow]


def play(out: Path, *arguments: str) -> tuple[int, str, Totals]:
    command = [sys.executable, "-m", "chaos.macros", "--out", str(out), *arguments]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr, Totals(**json.loads((out / "macro.json").read_text()))


@pytest.mark.requirement("R071", "R072", "R094")
def test_each_flight_goes_by_its_policies_once_whatever_dies(tmp_path: Path) -> None:
    code, printed, totals = play(tmp_path, "--rows", "12000")
    assert (code, totals.verdict) == (0, "PASS"), printed
    assert totals.sent == totals.acknowledged == totals.received == totals.settled == 12_000
    assert (totals.lost, totals.duplicates, totals.order_breaks, totals.policy_breaks) == (0, 0, 0, 0)
    assert (totals.members, totals.remote_members, totals.kills) == (6, 3, 3)
    assert totals.reopened > 0
    assert sum(totals.choices.values()) > 0
    assert ET.parse(tmp_path / "macro.svg").getroot().tag.endswith("svg")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_all_flights_and_a_planted_loss(tmp_path: Path) -> None:
    code, printed, totals = play(tmp_path, "--plant", "lost-on-its-way")
    assert (code, totals.verdict) == (1, "FAIL"), printed
    assert (totals.rows, totals.lost) == (27_004, 1), printed
