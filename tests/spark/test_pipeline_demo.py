"""The demo as a user starts it: the audit of a pair that lost its master is clean, planted faults are named."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.spark.striking import ROOT


@pytest.mark.long
@pytest.mark.timeout(1_800)  # eight audits, ingests and counts on a Spark of its own
def test_the_demo_comes_out_as_it_says(spark: Any, tmp_path: Path) -> None:
    command = [sys.executable, "-P", "-m", "tandemq", "pipeline", "demo", "--rows", "3000", "--out", str(tmp_path)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    ended = subprocess.run([*command, "-o", "json"], env=environment, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr[-3000:]
    facts = json.loads(ended.stdout)
    assert facts["verdict"] == "done"
    named = [step["came_to"] for step in facts["steps"] if step["step"].startswith("planted")]
    kinds = ("LOST", "DUPLICATE", "COPIES_DIFFER", "SETTLED_UNLEASED", "TIME_BACKWARDS", "COPIES_DIFFER")
    for kind, told in zip((*kinds, "BEFORE_ENTERED"), named, strict=True):
        assert kind in told
    assert facts["steps"][-1]["came_to"] == "ingest is refused: PAIR_CHANGED"
    page = Path(facts["report"]).read_text()
    assert page.count("<svg") == 8
    assert page.count(">kill -9 ") == 8, "marked on each plot"
    assert "Exception in thread" not in ended.stderr
    assert "Traceback" not in ended.stderr
