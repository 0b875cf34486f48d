"""Packs an environment that has Tandemq as a user would, and as docs/SPARK.md says: a wheel, a venv, tar."""

from __future__ import annotations

import importlib.metadata
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

from tests.spark.cluster.lan import ROOT


class Packed(NamedTuple):
    """Where they are."""

    wheel: Path
    archive: Path


def pack(folder: Path) -> Packed:
    """The wheel of this checkout, and an archive of an environment with it and PyArrow.

    PySpark is left out: executors have that of the cluster.
    """
    dist, home, archive = folder / "dist", folder / "environment", folder / "environment.tar.gz"
    locked = ["--quiet", "-c", str(ROOT / "requirements.lock")]
    pip = [sys.executable, "-m", "pip"]
    _done([*pip, "wheel", *locked, "--no-deps", "--wheel-dir", str(dist), str(ROOT)])
    (wheel,) = dist.glob("*.whl")
    _done([sys.executable, "-m", "venv", "--without-pip", str(home)])
    arrow = f"pyarrow=={importlib.metadata.version('pyarrow')}"
    _done([*pip, "--python", str(home / "bin" / "python"), "install", *locked, str(wheel), arrow])
    _done(["tar", "--use-compress-program", "gzip -1", "-cf", str(archive), "-C", str(home), "."])
    return Packed(wheel, archive)


def _done(command: list[str]) -> None:
    subprocess.run(command, check=True)
