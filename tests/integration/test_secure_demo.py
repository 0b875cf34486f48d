"""The demo of rights, end to end on two queues: no cell is wrong, nobody gets in, nothing is lost; with a hole in the
members it fails, and the page says where.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from chaos.fork_server import handed_on
from tests.support import looking
from tests.support.browser import PICTURES, Browser, browser

pytestmark = [pytest.mark.process, pytest.mark.slow]


class Played(NamedTuple):
    """One run."""

    code: int
    printed: str
    summary: dict[str, Any]
    page: Path


def play(out: Path, *words: str) -> Played:
    command = [sys.executable, "-m", "chaos.secure", "--queues", "2", "--out", str(out), *words]
    done = subprocess.run(command, env={**os.environ, **handed_on()}, capture_output=True, text=True, check=False)
    summary = json.loads((out / "summary.json").read_text())
    return Played(done.returncode, done.stdout + done.stderr, summary, out / "matrix.html")


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return play(tmp_path_factory.mktemp("whole"))


@pytest.fixture(scope="module")
def holed(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return play(tmp_path_factory.mktemp("holed"), "--hole")


@pytest.fixture(scope="module")
def tab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    with browser(tmp_path_factory.mktemp("chromium")) as opened:
        yield opened


@pytest.mark.requirement("R004")
@pytest.mark.requirement("R005")
@pytest.mark.requirement("R006")
@pytest.mark.requirement("R140")
def test_each_call_is_decided_as_the_model_says_at_both_members_after_a_kill_and_a_handoff(whole: Played) -> None:
    summary = whole.summary
    assert (whole.code, summary["verdict"]) == (0, "PASS"), whole.printed
    assert (summary["places"], summary["principals"], summary["wrong"]) == (6, 5, 0)
    assert summary["cells"] >= 4_500
    assert min(summary["allowed"], summary["denied"], summary["hidden"]) > 100
    assert (summary["lost"], summary["duplicates"], summary["rotations"]) == (0, 0, 4)
    assert summary["sent"] == summary["acknowledged"] > 0
    assert summary["impostors"] == summary["impostors_refused"] >= 57
    assert summary["revoked"] == 6


def test_a_planted_hole_is_found(holed: Played) -> None:
    summary = holed.summary
    assert (holed.code, summary["verdict"]) == (1, "FAIL"), holed.printed
    assert summary["wrong"] > 0, "whoever sees a queue may browse it"
    let_in = [each for each in summary["problems"] if each.endswith("let in")]
    assert {each.split()[0] for each in let_in} == {"billing", "a"}, "whoever names another principal is believed"
    assert all("x-tandemq-" in each for each in let_in)


@pytest.mark.parametrize(("width", "scheme"), [(1280, "light"), (1280, "dark"), (360, "light")])
def test_the_matrix_is_good_to_look_at(whole: Played, tab: Browser, width: int, scheme: str) -> None:
    shown = tab.show(whole.page, width, scheme, PICTURES / f"matrix-{width}-{scheme}.png")
    assert looking.without_timeline(shown) == []
    assert shown.facts["verdict"]["text"] == "PASS"


def test_a_hole_is_seen_on_the_page(holed: Played, tab: Browser) -> None:
    shown = tab.show(holed.page, 1280, "light", PICTURES / "matrix-hole.png")
    assert looking.without_timeline(shown) == []
    assert shown.facts["verdict"]["text"] == "FAIL"
    assert any(each["text"].startswith("WRONG") for each in shown.facts["words"])
