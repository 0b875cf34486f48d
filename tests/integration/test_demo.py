"""The demo, end to end: real processes, two kills of the master, every row accounted for."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

pytestmark = [pytest.mark.process, pytest.mark.slow]
COUNTS = ("rows", "sent", "acknowledged", "received", "settled", "lost", "duplicates", "redelivered", "order_breaks")
KEYS = (*COUNTS, "kills", "takeovers", "longest_pause_ms", "epochs", "verdict")


def test_no_row_is_lost_doubled_or_out_of_order_over_two_kills(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "tandemq", "demo", "--seed", "1", "--out", str(tmp_path / "out"), "-o", "json"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    facts = json.loads((tmp_path / "out" / "summary.json").read_text())
    assert json.loads(done.stdout) == facts
    assert set(KEYS) <= facts.keys()
    assert facts["rows"] == facts["sent"] == facts["acknowledged"] == facts["received"] == facts["settled"] == 27_004
    assert facts["lost"] == facts["duplicates"] == facts["order_breaks"] == 0
    assert (facts["kills"], facts["takeovers"], facts["verdict"]) == (2, 2, "pass")
    assert len(facts["epochs"]) >= 3
    assert facts["doctor"]["ok"] > 30
    assert facts["doctor"]["fail"] == 0, facts["doctor"]
    assert ET.parse(tmp_path / "out" / "timeline.svg").getroot().tag.endswith("svg")
    assert not Path(facts["data_dir"]).exists(), "a run that passed leaves nothing behind"


def test_any_text_can_be_the_input(tmp_path: Path) -> None:
    (tmp_path / "lines.txt").write_text("".join(f"line {number // 2}\n" for number in range(4000)))
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tandemq", "demo", "--input", str(tmp_path / "lines.txt"), "--kills", "1"),
            *("--data-dir", str(tmp_path / "data"), "--out", str(tmp_path / "out")),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "PASS" in done.stdout
    assert re.match(r"tandemq doctor: \d+ ok, \d+ warn, 0 fail, ", done.stdout.splitlines()[-1]), done.stdout
    assert json.loads((tmp_path / "out" / "summary.json").read_text())["settled"] == 4000
    assert (tmp_path / "data" / "logs" / "a.log").exists()
