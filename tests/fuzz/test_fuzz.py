"""Every fuzz target for five seconds (rulings.md 33), every kept input, and planted bugs that the targets must find."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.fuzz import planted
from tests.fuzz.__main__ import FAILED, OK, main
from tests.fuzz.cost import assert_within
from tests.fuzz.engine import CORPUS, TARGETS, corpus, inputs, keep, load, run_hypothesis, shorter
from tests.fuzz.source import Source

pytestmark = pytest.mark.wide
SECONDS = 5.0
PLANTED_S = 150.0


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS)
def test_no_input_crashes(target: str, tmp_path: Path) -> None:
    executions, crash, error = run_hypothesis(load(target).one, SECONDS, corpus(target))
    if crash is not None:
        path = keep(tmp_path, target, crash)
        pytest.fail(f"{error}\nrepeat with: python -m tests.fuzz --repeat {target} {path}", pytrace=False)
    assert executions > 0


@pytest.mark.parametrize("path", sorted(CORPUS.glob("*/*")), ids=lambda path: f"{path.parent.name}/{path.name}")
def test_a_kept_input_passes(path: Path) -> None:
    load(path.parent.name).one(path.read_bytes())


def test_every_target_has_a_planted_bug() -> None:
    assert {target for target, _ in planted.BUGS} == set(TARGETS)


@pytest.mark.slow
@pytest.mark.timeout(400)  # it is found in a second or two, on a machine that does nothing else
@pytest.mark.parametrize(("target", "plant"), planted.BUGS, ids=lambda value: getattr(value, "__name__", value))
def test_a_planted_bug_is_found(
    target: str, plant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    executions, crash, _ = run_hypothesis(load(target).one, PLANTED_S, corpus(target), first_seed=1, shrink=False)
    assert crash is not None, f"{plant.__name__} was not found in {executions} executions"


def test_an_input_is_made_as_short_as_its_failure_allows() -> None:
    def one(data: bytes) -> None:
        assert b"\x07" not in data, "seven"

    long = bytes(range(200))
    assert shorter(one, long, until=1e12) == b"\x07"
    assert shorter(one, b"\x01\x02", until=1e12) == b"\x01\x02"


def test_choices_end_and_are_the_same_again() -> None:
    for data in (b"", b"\x00", bytes(range(256)) * 4):
        first, second = Source(data), Source(data)
        for source in (first, second):
            source.seen = [  # type: ignore[attr-defined]
                *(source.number(0, 9), source.u64(5), source.text(), source.blob(), source.flag(), source.rarely()),
                *(source.mutated(b"abcdef"), source.pick("xyz"), source.take(3), source.rest(), source.more),
            ]
        assert first.seen == second.seen  # type: ignore[attr-defined]
        assert not first.more
    assert inputs([b"x"]).example is not None


def test_the_command_says_what_it_did(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    common = ["--target", "config", "--engine", "hypothesis", "--seconds", "0.2", "--directory", str(tmp_path)]
    assert main([*common, "-o", "json"]) == OK
    (row,) = json.loads(capsys.readouterr().out)
    assert row["target"] == "config"
    assert row["executions"] > 0
    assert row["crash"] is None


def test_a_crash_is_kept_and_can_be_repeated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, plant = next(bug for bug in planted.BUGS if bug[0] == "codec")
    plant(monkeypatch)
    common = ["--target", "codec", "--engine", "hypothesis", "--seconds", "20", "--directory", str(tmp_path)]
    assert main(common) == FAILED
    said = capsys.readouterr()
    (kept,) = tmp_path.iterdir()
    assert f"--repeat codec {kept}" in said.err
    assert said.out.splitlines()[-1].split()[-1] == "1"
    with pytest.raises(AssertionError):
        main(["--repeat", "codec", str(kept)])
    monkeypatch.undo()
    assert main(["--repeat", "codec", str(kept)]) == OK


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["--seconds", "0"], "give a time above 0"),
        (["--repeat", "nothing", "x"], "there is no such target"),
        (["--repeat", "codec", "/no/such/file"], "is no file"),
        (["--target", "nothing"], "invalid choice"),
    ],
)
def test_wrong_use_is_refused_in_words(arguments: list[str], word: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(arguments)
    assert ended.value.code == 2
    assert word in capsys.readouterr().err


def test_work_that_is_slow_each_time_is_called_slow() -> None:
    with pytest.raises(AssertionError, match="took"):
        assert_within(0.001, lambda: sum(range(1_000_000)))


def test_work_that_was_slow_once_is_not() -> None:
    sizes = iter([1_000_000, 1, 1])
    assert_within(0.003, lambda: sum(range(next(sizes))))
    assert len(list(sizes)) == 1
