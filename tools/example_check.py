"""Runs the tests of an example project as its users would: a new environment with the wheel and pytest, nothing else.

example_check.py [arguments of pytest]

The checkout is not on the path. Toxiproxy must be there, on the PATH or where `make chaos-deps` builds it. Beside the
example's own tests it runs one whose modules have names that the server has too.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from wheel_check import ROOT, build, expect

EXAMPLE = ROOT / "docs" / "examples" / "redundant_processor"
BUILT_TOXIPROXY = ROOT / "build" / "chaos"
SECONDS_MAX = 600
SAME_NAMES = """
import chaos, storage


def test_names_that_the_server_has_too_are_the_users(tandemq_pair):
    assert (chaos.OWNER, storage.OWNER) == ("user", "user")
    assert tandemq_pair.is_whole
"""


def install(here: Path, wheel: Path) -> Path:
    python = here / "venv" / "bin" / "python"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(here / "venv")], check=True)
    wanted = [f"tandemq[chaos] @ {wheel.as_uri()}", "pytest"]
    pip = [sys.executable, "-m", "pip", "--python", str(python), "install", "--quiet"]
    subprocess.run([*pip, "-c", str(ROOT / "requirements.lock"), *wanted], check=True)
    return python


def main(arguments: list[str]) -> None:
    path = os.pathsep.join([os.environ.get("PATH", os.defpath), str(BUILT_TOXIPROXY)])
    expect(shutil.which("toxiproxy-server", path=path) is not None, "NO TOXIPROXY: run `make chaos-deps`")
    wheel, _ = build()
    with tempfile.TemporaryDirectory(prefix="tandemq-example-") as directory:
        here = Path(directory)
        python = install(here, wheel)
        project = here / EXAMPLE.name
        shutil.copytree(EXAMPLE, project, ignore=shutil.ignore_patterns("__pycache__"))
        for name in ("chaos", "storage"):
            (project / f"{name}.py").write_text('OWNER = "user"\n')
        (project / "tests" / "test_same_names.py").write_text(SAME_NAMES)
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "TANDEMQ_"))}
        environment |= {"PATH": path, "PYTHONPATH": str(project)}
        command = [str(python), "-m", "pytest", "-v", "--durations=3", *arguments]
        ended = subprocess.run(command, cwd=project, env=environment, timeout=SECONDS_MAX, check=False)
    expect(ended.returncode == 0, f"the tests of {EXAMPLE.name} ended with {ended.returncode}")
    print(f"example-check: {EXAMPLE.name} passes with nothing but {wheel.name}, pytest and Toxiproxy")


if __name__ == "__main__":
    main(sys.argv[1:])
