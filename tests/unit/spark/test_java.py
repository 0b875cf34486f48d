"""Java is looked for before Spark starts: what is missing is told, and what to do."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tandemq.errors import Refused
from tandemq.spark import java as checks
from tandemq.spark.java import check_java, check_python


def java(folder: Path, script: str) -> Path:
    """A program named java that answers as told."""
    program = folder / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return program


def saying(version: str) -> str:
    return f"echo 'openjdk version \"{version}\" 2025-04-15' >&2"


@pytest.mark.parametrize(("version", "major"), [("17.0.15", 17), ("21", 21), ("25-ea", 25)])
def test_java_is_found_on_the_path(tmp_path: Path, version: str, major: int) -> None:
    java(tmp_path, saying(version))
    assert check_java({"PATH": str(tmp_path / "bin")}) == major


def test_java_home_comes_before_the_path(tmp_path: Path) -> None:
    java(tmp_path / "old", saying("11.0.2"))
    java(tmp_path / "new", saying("21.0.1"))
    old, new = tmp_path / "old", tmp_path / "new"
    assert check_java({"PATH": f"{old}/bin", "JAVA_HOME": str(new)}) == 21
    with pytest.raises(Refused, match=r"NO_JAVA.*is version 11"):
        check_java({"PATH": f"{new}/bin", "JAVA_HOME": str(old)})


@pytest.mark.parametrize(
    ("script", "told"),
    [
        (saying("1.8.0_292"), "is version 8"),
        (saying("16.0.2"), "is version 16"),
        ("echo 'no java installed, requesting install' >&2; exit 1", "ended with 1 and said 'no java installed"),
        ("echo hello", "said 'hello'"),
    ],
)
def test_a_java_that_does_not_do_is_told(tmp_path: Path, script: str, told: str) -> None:
    java(tmp_path, script)
    with pytest.raises(Refused, match="NO_JAVA") as caught:
        check_java({"PATH": str(tmp_path / "bin")})
    assert caught.value.reason == "NO_JAVA"
    assert told in str(caught.value)
    assert "Java 17 or newer" in str(caught.value)


def test_no_java_is_told_with_where_it_was_looked_for(tmp_path: Path) -> None:
    with pytest.raises(Refused, match=r"NO_JAVA.*on the PATH.*JAVA_HOME is not set"):
        check_java({"PATH": str(tmp_path)})
    with pytest.raises(Refused, match=r"NO_JAVA.*JAVA_HOME is /nowhere"):
        check_java({"PATH": str(tmp_path), "JAVA_HOME": "/nowhere"})


def test_a_java_that_cannot_be_run_is_told(tmp_path: Path) -> None:
    java(tmp_path, "").write_bytes(b"\x7fELF broken")
    with pytest.raises(Refused, match=r"NO_JAVA.*cannot be run"):
        check_java({"PATH": str(tmp_path / "bin")})


def test_a_missing_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "PACKAGES", ("json", "nobody_made_this"))
    with pytest.raises(Refused, match=r"NO_SPARK: nobody_made_this cannot be imported.*tandemq\[spark\]"):
        checks.check_packages()


def test_the_python_of_executors_must_be_beside_the_driver_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    packed = tmp_path / "environment" / "bin" / "python"
    packed.parent.mkdir(parents=True)
    packed.symlink_to(sys.executable)
    monkeypatch.chdir(tmp_path)
    for program in ("./environment/bin/python", sys.executable):
        assert check_python(program) == program
    monkeypatch.chdir(packed.parent)
    with pytest.raises(Refused, match=r"NOT_INSTALLED: there is no \./environment/bin/python in /.*environment/bin,"):
        check_python("./environment/bin/python")
