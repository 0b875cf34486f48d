"""The demo of units of work, end to end on a part of its flights: two pairs, three kills, a link that is cut off, and
an account that says what became of each flight.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from chaos.fork_server import handed_on
from chaos.units.account import Totals

pytestmark = [pytest.mark.process, pytest.mark.slow]


def play(out: Path, *arguments: str) -> tuple[int, str, Totals]:
    command = [sys.executable, "-m", "chaos.units", "--seed", "1", "--out", str(out), *arguments]
    done = subprocess.run(command, env={**os.environ, **handed_on()}, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr, Totals(**json.loads((out / "units.json").read_text()))


def test_no_unit_is_half_done_whatever_dies_and_the_account_notices_what_is_planted(tmp_path: Path) -> None:
    code, printed, totals = play(tmp_path, "--rows", "1000")
    assert (code, totals.verdict) == (0, "PASS"), printed
    assert totals.inputs == totals.units_committed + totals.dead_letters + totals.cancelled == 1_000
    assert totals.legs == totals.ledger == totals.ledger_remote == totals.units_committed
    assert totals.dead_letters == totals.dead_letters_expected == 2
    assert totals.units_rolled_back >= 18
    assert totals.cancelled == totals.cancelled_expected > 136 // 2, "more than were sent when they were cancelled"
    assert totals.changed == totals.changed_expected > 0
    assert (totals.half_units, totals.lost, totals.duplicates, totals.order_breaks) == (0, 0, 0, 0)
    assert totals.kills == 3
    assert totals.takeovers >= 2
    assert ET.parse(tmp_path / "units.svg").getroot().tag.endswith("svg")


@pytest.mark.long
@pytest.mark.timeout(900)
def test_all_flights_and_a_planted_half_unit(tmp_path: Path) -> None:
    code, printed, totals = play(tmp_path, "--plant", "half-unit")
    assert (code, totals.verdict) == (1, "FAIL"), printed
    assert (totals.inputs, totals.half_units) == (27_004, 1), printed
