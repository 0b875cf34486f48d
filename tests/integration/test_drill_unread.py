"""Drills whose report cannot be written, whose reader has ended, whose terminal is gone: the pair is healed all the
same, and no earlier verdict is taken for theirs."""

from __future__ import annotations

import contextlib
import os
import pty
import re
import signal
import subprocess
import sys

import pytest

from tests.integration.home import FREEZE, Home

pytestmark = pytest.mark.process
ITS_TERMINAL = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.executable, [sys.executable, "-m", "tandemq", *sys.argv[1:]])
"""


def everybody_runs(home: Home) -> bool:
    told = home.run("dev", "--data-dir", str(home.folder / "pair"), "status", "-o", "json")
    return re.findall('"state": "([^"]+)"', told) == ["running"] * 3


def test_nobody_reads_what_a_drill_says_and_its_report_has_no_place(home: Home) -> None:
    """As in `drill run mine.toml 2>&1 | tee log`, where Ctrl-C ends the reader too."""
    report = home.folder / "report"
    report.mkdir()
    for name in ("junit.xml", "result.json", "report.html", "report.md"):
        (report / name).write_text("of a drill that passed last week")
    (home.folder / "file").write_text("")
    mine = home.drill(FREEZE)
    with home.dev():
        said = home.run("drill", "run", mine, "--report-dir", "file", code=2)
        assert "no report can be written to file, nothing was hurt" in said
        assert home.queues() == []

        drill = home.start("drill", "run", mine, "--report-dir", "report")
        assert drill.stdout is not None
        assert any(re.search("round 1 of 1", line) for line in drill.stdout)
        drill.stdout.close()
        drill.send_signal(signal.SIGINT)
        assert drill.wait() == 2
        assert everybody_runs(home)
        assert home.queues() == []
    assert [each.name for each in report.iterdir()] == ["journal.jsonl"]


@pytest.mark.long
def test_a_terminal_that_is_closed_ends_a_drill_in_order(home: Home) -> None:
    with home.dev():
        ours, theirs = pty.openpty()
        command = [sys.executable, "-c", ITS_TERMINAL, "drill", "run", home.drill(FREEZE), "--report-dir", "report"]
        drill = subprocess.Popen(
            command,
            env=home.environment,
            cwd=home.folder,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            start_new_session=True,
        )
        os.close(theirs)
        shown = b""
        while b"round 1 of 1" not in shown:
            shown += os.read(ours, 4096)
        with contextlib.suppress(OSError):
            os.close(ours)  # as the end of a connection of ssh does
        assert drill.wait() == 2
        assert everybody_runs(home)
        assert home.queues() == []
