"""Says whether this machine can run Spark with us at all, before anything of Spark is started."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tandemq.errors import Refused
from tandemq.installed import check_installed

JAVA_MAJOR_MIN = 17
"""What Spark 4 runs on."""
ANSWER_S = 30.0
PACKAGES = ("pyspark", "pyarrow")

_VERSION = re.compile(r'version "(?:1\.)?(\d+)')


def check_java(environment: Mapping[str, str] = os.environ) -> int:
    """Java's major version, found as Spark finds it: $JAVA_HOME, then the PATH.

    Raises Refused with reason NO_JAVA when there is none, it does not answer, or it is older than 17.
    """
    home = environment.get("JAVA_HOME")
    program = f"{home}/bin/java" if home else "java"
    found = shutil.which(program, path=environment.get("PATH"))
    where = f"$JAVA_HOME is {home}" if home else "$JAVA_HOME is not set"
    if found is None:
        raise _no_java(f"there is no {program}{'' if home else ' on the PATH'}; {where}")
    try:
        answer = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=ANSWER_S, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise _no_java(f"{found} cannot be run: {error}") from error
    said = answer.stderr + answer.stdout
    version = _VERSION.search(said)
    if answer.returncode or version is None:
        first = said.strip().partition("\n")[0]
        raise _no_java(f"{found} -version ended with {answer.returncode} and said {first!r}; {where}")
    major = int(version[1])
    if major < JAVA_MAJOR_MIN:
        raise _no_java(f"{found} is version {major}; {where}")
    return major


def check_packages() -> None:
    """Raises Refused with reason NO_SPARK when the extra is not installed, or NOT_INSTALLED (check_installed)."""
    check_installed()
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        text = f"{' and '.join(missing)} cannot be imported; install the extra: pip install 'tandemq[spark]'"
        raise Refused("NO_SPARK", text, definite=True)


def check_python(program: str) -> str:
    """The Python of executors, if it is here too: Spark plans and commits in workers beside the driver, by that name.

    Raises Refused with reason NOT_INSTALLED.
    """
    if shutil.which(program) is None:
        text = (
            f"there is no {program} in {Path.cwd()}, where the driver is, and Spark starts Python by that name here "
            "too: start the driver where it is there (for --archives X.tar.gz#environment the directory that has "
            "environment/), or name another one in PYSPARK_PYTHON"
        )
        raise Refused("NOT_INSTALLED", text, definite=True)
    return program


def _no_java(what: str) -> Refused:
    text = f"{what}. Spark needs Java {JAVA_MAJOR_MIN} or newer: install one (openjdk-17-jre-headless) or set JAVA_HOME"
    return Refused("NO_JAVA", text, definite=True)
