"""A wheel that spark-submit was given by --py-files is refused by name, on the driver and where tasks run."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tandemq.errors import Refused
from tandemq.installed import check_installed

ROOT = Path(__file__).resolve().parents[2]
COMMAND = [sys.executable, "-P", str(ROOT / "pipeline" / "__main__.py"), "ingest", "--config", "pipeline.toml"]
TASK = [sys.executable, "-S", "-P", "-c", "import tandemq.spark.source"]
"""As an executor's Python unpickles a source, in an environment that has none of our packages (-S)."""


def zipped(folder: Path, name: str) -> Path:
    """The package as a wheel holds it."""
    wheel = folder / name
    with zipfile.ZipFile(wheel, "w") as archive:
        for file in sorted((ROOT / "tandemq").rglob("*.py")):
            archive.write(file, file.relative_to(ROOT))
    return wheel


def ended(command: list[str], wheel: Path) -> subprocess.CompletedProcess[str]:
    """With the wheel where spark-submit puts it."""
    environment = {**os.environ, "PYTHONPATH": str(wheel)}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


@pytest.mark.parametrize("name", ["tandemq-0.1.0a1-py3-none-any.whl", "tandemq.zip"])
def test_a_job_refuses_the_wheel_of_py_files(tmp_path: Path, name: str) -> None:
    wheel = zipped(tmp_path, name)
    told = ended(COMMAND, wheel)
    assert told.returncode == 1, told.stderr
    assert told.stderr.startswith("error: NOT_INSTALLED\n")
    assert f"out of {wheel} (--py-files)" in told.stderr
    assert "compiled parts" in told.stderr
    assert "--archives" in told.stderr
    assert "Traceback" not in told.stderr


def test_a_task_says_so_and_not_that_grpc_is_missing(tmp_path: Path) -> None:
    told = ended(TASK, zipped(tmp_path, "tandemq.zip"))
    assert told.returncode == 1
    assert "tandemq.errors.Refused: NOT_INSTALLED: tandemq would be imported out of" in told.stderr


def test_a_wheel_that_is_given_beside_an_installation_is_refused_too(tmp_path: Path) -> None:
    wheel = zipped(tmp_path, "tandemq-0.1.0a1-py3-none-any.whl")
    with pytest.raises(Refused, match="NOT_INSTALLED"):
        check_installed(places=["/usr/lib", str(wheel)])


def test_what_is_installed_is_taken(tmp_path: Path) -> None:
    unpacked = tmp_path / "tandemq.egg"
    unpacked.mkdir()
    check_installed(places=["", "/usr/lib/python311.zip", str(tmp_path), str(unpacked), "other-1.0-py3-none-any.whl"])
    check_installed(places=())
