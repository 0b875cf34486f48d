"""Suites of users, run by a pytest of their own: what they write down for us, and that nothing of them is left.

`_suite = own_suite()` is the fixture that prepares one.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.support.leftovers import wait_gone

# What a suite writes down for us: which processes, which ports.
WRITE_FACTS = """
import json, os, pathlib
def write_facts(pair, name):
    pids = [each.pid for each in pair.processes.values()]
    facts = {"pids": pids + [pair._host.pid], "base_port": pair.base_port, "directory": str(pair.directory)}
    path = pathlib.Path(name)
    path.with_suffix(".part").write_text(json.dumps(facts))
    path.with_suffix(".part").rename(path)
"""


def own_suite() -> Any:
    """The fixture `_suite`, for each test of a module."""

    @pytest.fixture(autouse=True)
    def _suite(pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch) -> None:
        """Other plugins are left out, they take their time."""
        pytester.makeconftest(WRITE_FACTS)
        monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
        pytester.plugins = ["tandemq.testing.plugin"]
        monkeypatch.setenv("TANDEMQ_LIMITS_PARK_MS", "no number")  # the pair is not to see what is the application's
        monkeypatch.delenv("PYTEST_ADDOPTS", raising=False)

    return _suite


def facts_of(pytester: pytest.Pytester, name: str) -> dict[str, object]:
    found: dict[str, object] = json.loads((pytester.path / name).read_text())
    return found


def check_nothing_left(facts: dict[str, object], *, at_once: bool = False) -> None:
    pids, base_port = facts["pids"], facts["base_port"]
    assert isinstance(pids, list)
    assert isinstance(base_port, int)
    wait_gone(pids, base_port, at_once=at_once)


def said(result: pytest.RunResult) -> str:
    return result.stdout.str() + result.stderr.str()
