"""The order of a run is drawn from its seed: every test once, files and parametrised fixtures of one together."""

from __future__ import annotations

import subprocess
import sys
from itertools import groupby
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
ROOT = Path(__file__).resolve().parents[2]
PLAIN = "def test_{n}(): pass\n"
OF_A_CLASS = "class TestIt:\n" + "".join(f"    def test_{n}(self): pass\n" for n in range(4))
PARAMETRISED = """
import pytest

@pytest.fixture(scope="module", params=["one", "two", "a::b"])
def dear(request):
    return request.param

def test_first(dear): pass
def test_second(dear): pass
def test_third(dear): pass
"""
TOLD = """
def pytest_runtest_setup(item):
    with open("ran", "a") as file:
        print(item.nodeid, file=file)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in "abc":
        (tmp_path / f"test_{name}.py").write_text("".join(PLAIN.format(n=n) for n in range(6)) + OF_A_CLASS)
    (tmp_path / "test_dear.py").write_text(PARAMETRISED)
    (tmp_path / "conftest.py").write_text(TOLD)
    return tmp_path


def ran(folder: Path, *arguments: str) -> list[str]:
    """The tests in their order; the page is in `page` of the folder."""
    (folder / "ran").unlink(missing_ok=True)
    command = [sys.executable, "-m", "pytest", "-p", "tests.support.shuffling", "-p", "no:cacheprovider", "-q", "-v"]
    command += ["-c", "/dev/null", "--rootdir", str(folder), *arguments]
    environment = {"PYTHONPATH": str(ROOT), "PATH": "/usr/bin:/bin"}
    ended = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    (folder / "page").write_text(ended.stdout)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return (folder / "ran").read_text().splitlines()


def files_of(tests: list[str]) -> list[str]:
    return [name for name, _ in groupby(test.partition("::")[0] for test in tests)]


def test_a_seed_gives_an_order_of_its_own_and_is_shown(folder: Path) -> None:
    written = ran(folder)
    assert "--shuffle" not in (folder / "page").read_text()
    first = ran(folder, "--shuffle", "1")
    assert "order: --shuffle 1" in (folder / "page").read_text()
    assert ran(folder, "--shuffle", "1") == first
    second = ran(folder, "--shuffle", "2")
    assert len({tuple(order) for order in (written, first, second)}) == 3
    assert sorted(written) == sorted(first) == sorted(second)
    assert len({tuple(files_of(order)) for order in (written, first, second)}) == 3


def test_files_classes_and_what_shares_a_dear_fixture_stay_together(folder: Path) -> None:
    for seed in "12":
        tests = ran(folder, "--shuffle", seed)
        assert len(files_of(tests)) == 4
        around = [name for name, _ in groupby(test.rpartition("::")[0] for test in tests if "dear" not in test)]
        assert len([name for name in around if name.endswith("TestIt")]) == 3
        dear = [name for name, _ in groupby(test.partition("[")[2] for test in tests if "dear" in test)]
        assert sorted(dear) == ["a::b]", "one]", "two]"]


def test_a_part_keeps_the_order_of_the_whole(folder: Path) -> None:
    whole = ran(folder, "--shuffle", "1")
    part = ran(folder, "--shuffle", "1", "-k", "test_1 or test_3 or test_4")
    assert len(part) == 3 * (3 + 2)
    assert part == [test for test in whole if test in part]


def test_workers_take_the_files_in_this_order_and_not_by_their_size(folder: Path) -> None:
    (folder / "test_large.py").write_text("".join(PLAIN.format(n=n) for n in range(40)))
    whole = files_of(ran(folder, "--shuffle", "5"))
    spread = files_of(ran(folder, "--shuffle", "5", "-p", "xdist", "-n", "1", "--dist", "loadfile"))
    assert whole == spread
    assert whole[0] != "test_large.py"
