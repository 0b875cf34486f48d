"""`make setup` says of each program that it cannot get what it is for, and fails where it must have it."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "install_packages.sh"


@pytest.fixture
def bare(tmp_path: Path) -> dict[str, str]:
    """The environment of a user who may install nothing, on a system that has a shell."""
    for name in ("bash", "env"):
        (tmp_path / name).symlink_to(shutil.which(name) or f"/bin/{name}")
    answer = tmp_path / "id"
    answer.write_text("#!/bin/sh\necho 1000\n")
    answer.chmod(0o755)
    return {**os.environ, "PATH": str(tmp_path)}


def installed(environment: dict[str, str], *names: str) -> tuple[int, list[str]]:
    ended = subprocess.run([SCRIPT, *names], env=environment, capture_output=True, text=True, check=False)
    assert ended.stdout == ""
    return ended.returncode, ended.stderr.splitlines()


def test_what_must_be_there_fails_and_each_is_named(bare: dict[str, str]) -> None:
    code, told = installed(bare, "etcd", "chromium?", "valgrind")
    assert (code, len(told)) == (1, 3)
    for line, name in zip(told, ("ETCD", "CHROMIUM", "VALGRIND"), strict=True):
        assert line.startswith(f"packages: NO {name}: only root on Debian or Ubuntu gets it from here; "), line


def test_what_may_be_missing_is_told_and_is_no_failure(bare: dict[str, str]) -> None:
    code, told = installed(bare, "chromium?", "valgrind?")
    assert (code, len(told)) == (0, 2)


def test_what_is_there_is_not_told(bare: dict[str, str]) -> None:
    for name in ("etcd", "etcdctl"):
        (Path(bare["PATH"]) / name).symlink_to("/bin/true")
    assert installed(bare, "etcd") == (0, [])
    (Path(bare["PATH"]) / "etcdctl").unlink()
    assert installed(bare, "etcd")[0] == 1, "both are needed"


def test_a_name_that_nobody_knows_is_refused(bare: dict[str, str]) -> None:
    for names in ((), ("etcd", "nosuch")):
        code, told = installed(bare, *names)
        assert (code, told[0].startswith("usage: install_packages.sh")) == (2, True)
