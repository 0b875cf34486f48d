"""The example project of docs/examples: its tests pass, and fail when the application breaks its promise.

With this environment's interpreter; `make example` uses a new one with nothing but the wheel in it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "docs" / "examples" / "redundant_processor"
SECONDS = 250.0

pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]  # a pair, and a pytest of its own


def run(project: Path, *arguments: str) -> tuple[int, str]:
    """The exit code of its tests and what they said."""
    path = os.pathsep.join([str(project), *sys.path])
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTEST_", "TANDEMQ_"))}
    done = subprocess.run(
        [sys.executable, "-P", "-m", "pytest", "-p", "no:cacheprovider", "-p", "no:asyncio", *arguments],
        cwd=project,
        env={**environment, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr


@pytest.fixture
def project(tmp_path: Path) -> Path:
    return Path(shutil.copytree(EXAMPLE, tmp_path / "project"))


def test_a_master_is_killed_under_the_example(project: Path) -> None:
    code, said = run(project, "-k", "kill_9_of_the_master")
    assert code == 0, said
    assert "1 passed" in said


@pytest.mark.long
def test_an_application_that_settles_before_it_is_done_fails_its_tests(project: Path) -> None:
    """It settles first and dies in between: the order is gone. No time passes there by itself: the test holds it."""
    program = project / "invoicing" / "__main__.py"
    good = program.read_text()
    late = good.replace("            await client.enqueue(invoices, made, wait=-1)\n", "")
    wrong = late.replace(
        "                await batch.ack_async()\n",
        "                await batch.ack_async()\n            await client.enqueue(invoices, made, wait=-1)\n",
    )
    assert wrong != late != good
    program.write_text(wrong)
    code, said = run(project, "-k", "kill_9_of_the_application")
    assert code == 1, said
    assert "BROKEN nothing_acknowledged_is_lost" in said
