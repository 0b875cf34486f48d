"""What a test leaves behind in a module of the product is named, and fails the file that left it."""

from __future__ import annotations

import gc
import logging
import signal
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from types import MappingProxyType

import pytest

from tests.support.unchanged import Kept

ROOT = Path(__file__).resolve().parents[2]
SOURCE = """
from enum import Flag
from types import MappingProxyType

TABLE = {"one": 1, "two": 2}
NESTED = MappingProxyType({"rows": [{"a": 1}]})
ROW = (["x"], 2)
NAMES = {"a", "b"}
number = 1

class Base:
    limits = {"one": 1}
    def word(self): return "base"

class Bits(Flag):
    A = 1
    B = 2
"""


@pytest.fixture
def box(monkeypatch: pytest.MonkeyPatch) -> types.ModuleType:
    module = types.ModuleType("box.inside")
    exec(SOURCE, vars(module))
    monkeypatch.setitem(sys.modules, "box.inside", module)
    return module


def moved(box: types.ModuleType) -> None:
    """What refused a landing: a row is taken out of a table and put back, at its end."""
    box.TABLE["one"] = box.TABLE.pop("one")


LEFT: dict[str, tuple[Callable[[types.ModuleType], object], str]] = {
    "moved": (moved, "TABLE"),
    "value": (lambda box: box.TABLE.update(one=2), "TABLE"),
    "added": (lambda box: box.TABLE.update(three=3), "TABLE"),
    "nested": (lambda box: box.NESTED["rows"][0].update(a=2), "NESTED"),
    "in a row": (lambda box: box.ROW[0].append("y"), "ROW"),
    "set": (lambda box: box.NAMES.discard("a"), "NAMES"),
    "another table": (lambda box: setattr(box, "TABLE", {"two": 2}), "TABLE"),
    "number": (lambda box: setattr(box, "number", 2), "number"),
    "gone": (lambda box: delattr(box, "number"), "number"),
    "new": (lambda box: setattr(box, "other", 2), "other"),
    "method": (lambda box: setattr(box.Base, "word", lambda _self: "planted"), "Base.word"),
    "new method": (lambda box: setattr(box.Base, "other", lambda _self: "planted"), "Base.other"),
    "table of a class": (lambda box: box.Base.limits.clear(), "Base.limits"),
    "another class": (lambda box: setattr(box, "Base", type("Base", (), {"__module__": "box.inside"})), "Base"),
}


@pytest.mark.parametrize("case", LEFT)
def test_what_is_left_changed_is_named_once(box: types.ModuleType, case: str) -> None:
    change, name = LEFT[case]
    kept = Kept(("box",))
    assert kept.changes() == []
    change(box)
    assert f"box.inside.{name}" in kept.changes()
    assert kept.changes() == []


def test_a_module_that_was_imported_anew_is_named(box: types.ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(("box",))
    kept.changes()
    again = types.ModuleType("box.inside")
    vars(again).update(vars(box))
    monkeypatch.setitem(sys.modules, "box.inside", again)
    assert kept.changes() == ["box.inside"]


def put_back(box: types.ModuleType) -> Iterator[None]:
    table, word = box.TABLE, box.Base.word
    box.TABLE, box.Base.word = MappingProxyType({}), lambda _self: "planted"
    yield
    box.TABLE, box.Base.word = table, word


def test_what_is_put_back_what_is_imported_and_what_python_keeps_is_no_change(box: types.ModuleType) -> None:
    kept = Kept(("box",))
    kept.changes()
    assert [*put_back(box)] == [None]
    vars(box)["below"] = types.ModuleType("box.inside.below")
    box.Bits.A | box.Bits.B
    vars(box)["__warningregistry__"] = {}
    assert kept.changes() == []


SHARED: dict[str, Callable[[pytest.MonkeyPatch], object]] = {
    "environment": lambda patch: patch.setenv("TANDEMQ_PLANTED", "1"),
    "directory": lambda patch: patch.chdir("/"),
    "import path": lambda patch: patch.syspath_prepend("/planted"),
    "collector": lambda patch: patch.setattr(gc, "isenabled", lambda: None),
    "log": lambda patch: patch.setattr(logging.root, "level", logging.DEBUG - 1),
    "signals": lambda patch: patch.setattr(signal, "getsignal", lambda _number: print),
}


@pytest.mark.parametrize("name", SHARED)
def test_what_is_left_changed_of_the_process_is_named_once(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = Kept(())
    assert kept.changes() == []
    SHARED[name](monkeypatch)
    assert kept.changes() == [f"{name} of the process"]
    assert kept.changes() == []


OFFENDS = """
from failover import handoff

def test_leaves_the_rows_in_another_order():
    handoff.DEADLINES = dict(reversed(handoff.DEADLINES.items()))

def test_leaves_nothing():
    pass
"""


def test_a_file_that_leaves_a_table_changed_fails_and_the_next_one_does_not(tmp_path: Path) -> None:
    (tmp_path / "test_a.py").write_text(OFFENDS)
    (tmp_path / "test_b.py").write_text("def test_comes_after(): pass\n")
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.unchanged", "-p", "no:cacheprovider", "-q"]
    command += ["-c", "/dev/null", "--rootdir", str(tmp_path), "-o", f"pythonpath={ROOT}"]
    ended = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert ended.returncode == pytest.ExitCode.TESTS_FAILED, ended.stdout + ended.stderr
    assert "test_a.py left changed: failover.handoff.DEADLINES" in ended.stdout, ended.stdout
    assert "3 passed, 1 error" in ended.stdout


def test_the_suite_looks_at_it(request: pytest.FixtureRequest) -> None:
    assert request.config.pluginmanager.has_plugin("tests.support.unchanged")
