"""The benchmarks that start their own pair: whoever stops one in the middle finds nothing of it left."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.support.until import POLL_S

ROOT = Path(__file__).resolve().parents[2]
JVM_S = 400.0
"""Spark starts in ten seconds on an idle machine, in minutes on a busy one."""
SPARK = ["-m", "bench.spark_read", "--rows", "1000", "--only"]
OF_SPARK = [
    pytest.mark.skipif(find_spec("pyspark") is None, reason="SPARK NOT TESTED: no pyspark (`make spark`)"),
    pytest.mark.timeout(2 * JVM_S),
]

pytestmark = [pytest.mark.process, pytest.mark.slow]


def session(leader: int) -> dict[int, str]:
    """State and command line of each living process of a session, by pid; who ended and was not waited for is none."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
                words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
            except OSError:
                continue
            if int(fields[3]) == leader and fields[0] != "Z":
                found[int(entry.name)] = f"{fields[0]} {words}"
    return found


@pytest.mark.parametrize(
    ("name", "arguments", "under_way", "number"),
    [
        ("bench", ["bench/run.py", "--seconds", "60", "--only", "frames of 500"], "bench/load.py", signal.SIGINT),
        ("scale", ["bench/scale.py", "--only", "deep"], "bench/scale_load.py", signal.SIGTERM),
        ("failover", ["bench/failover.py", "--only", "frozen"], "^T ", signal.SIGTERM),  # a member is stopped
        ("bench-budget", ["-m", "bench.budget.run", "--seconds", "60"], "bench/load.py", signal.SIGTERM),
        pytest.param(  # a pair is ended by the rows above, a JVM by the row below: both at once is for a campaign
            "bench-spark", [*SPARK, "read"], "tandemq serve", signal.SIGTERM, marks=[*OF_SPARK, pytest.mark.long]
        ),
        pytest.param("bench-spark", [*SPARK, "audit"], "--audit-one", signal.SIGHUP, marks=OF_SPARK),
    ],
    ids=["bench", "scale", "failover", "budget", "spark", "spark's audit"],
)
def test_what_a_benchmark_started_ends_before_it_does(
    name: str, arguments: list[str], under_way: str, number: signal.Signals, tmp_path: Path
) -> None:
    """Killed at once by SIGTERM it left its load at work for up to a minute, and a frozen member for ever."""
    environment = {**os.environ, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'bench'}", "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, *arguments],
        stderr=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        text=True,
        cwd=ROOT,
        env=environment,
        start_new_session=True,
    ) as command:
        try:
            while not any(re.search(under_way, text) for text in session(command.pid).values()):
                with suppress(subprocess.TimeoutExpired):
                    code = command.wait(POLL_S)
                    pytest.fail(f"it ended with {code} before its load began")
            command.send_signal(number)
            _, err = command.communicate()
            assert session(command.pid) == {}
        finally:
            for pid in session(command.pid):
                os.kill(pid, signal.SIGKILL)
    assert err.splitlines()[-1] == f"{name}: stopped, and what it had started is ended"
    assert command.returncode == 130
    assert list(tmp_path.iterdir()) == []
