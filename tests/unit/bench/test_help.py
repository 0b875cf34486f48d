"""Whoever asks a benchmark or the campaign of real faults for help is shown an example, on a line of its own."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
COMMAND = ROOT / "bench/turns/command.py"
"""Makes the parser of those that are a `Bench`."""


def programs() -> list[Path]:
    found = sorted((ROOT / "bench").rglob("*.py"))
    return [p for p in found if p != COMMAND and ("ArgumentParser(" in (text := p.read_text()) or "run(Bench(" in text)]


PROGRAMS = (ROOT / "chaos/campaign.py", *programs())


def test_programs_are_found() -> None:
    assert ROOT / "bench/run.py" in PROGRAMS
    assert ROOT / "bench/peers/run.py" in PROGRAMS
    assert ROOT / "bench/units/run.py" in PROGRAMS


@pytest.mark.parametrize("path", PROGRAMS, ids=lambda path: str(path.relative_to(ROOT)))
def test_help_shows_an_example(path: Path) -> None:
    text = path.read_text()
    shown = ast.get_docstring(ast.parse(text)) or ""
    assert any(line.startswith("Example: ") for line in shown.splitlines())
    if "run(Bench(" in text:
        assert ", __doc__, " in text
        text = COMMAND.read_text().replace("bench.description", "__doc__")
    assert "description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter" in text, "lines stay lines"
