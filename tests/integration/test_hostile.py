"""Hostile inputs at a live pair with certificates, the short ones of `make hostile`: each is answered by name and takes
no memory; with a hole in the members the run fails, and says at which input.

How long others wait is for `make hostile` to judge, which needs a machine of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chaos.fork_server import handed_on

pytestmark = [pytest.mark.process, pytest.mark.slow]
SHORT = (
    "billing with x-tandemq-hop",
    "no message",
    "slashes",
    "codes in a message",
    "expired",
    "broken file",
    "token of alg none, with",
)
"""One of each sort: claims, frames, requests, what people see, certificates, a hand on the pair itself, tokens."""


def play(out: Path, *words: str) -> tuple[dict[str, dict[str, Any]], str]:
    """Rows by input, and the verdict."""
    command = [sys.executable, "-m", "chaos.hostile", "--untimed", "--out", str(out), *words]
    done = subprocess.run(command, env={**os.environ, **handed_on()}, capture_output=True, text=True, check=False)
    document = json.loads((out / "hostile.json").read_text())
    assert done.returncode == {"held": 0, "failed": 1, "INVALID": 3}[document["verdict"]], done.stdout + done.stderr
    return {row["input"]: row for row in document["rows"]}, document["verdict"]


def test_hostile_inputs_are_answered_by_name_and_harm_nobody(tmp_path: Path) -> None:
    rows, verdict = play(tmp_path, *(word for each in SHORT for word in ("--only", each)))
    assert len(rows) == len(SHORT)
    assert verdict == "held", rows
    assert all(row["sends"] > 0 for row in rows.values())


def test_a_planted_hole_is_found(tmp_path: Path) -> None:
    rows, verdict = play(tmp_path, "--hole", "--only", "billing with x-tandemq-principal", "--only", "no message")
    assert verdict == "failed"
    let_in = [name for name, row in rows.items() if row["held"] != "held"]
    assert let_in == ["billing with x-tandemq-principal"]
    assert rows[let_in[0]]["answer"].startswith("let in")
