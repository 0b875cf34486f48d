"""What `make bench-report` and `make bench-budget` take: a whole document that fits, or nothing and why."""

from __future__ import annotations

import copy
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from bench import shown
from bench.budget import tables as budget
from bench.peers import targets
from bench.shown import PEERS, Shown, placed

COMMITTED = json.loads(PEERS.results.read_text(encoding="utf-8"))
BUDGET = json.loads(budget.KEPT.read_text(encoding="utf-8"))


def changed(document: dict[str, Any], part: str, **more: Any) -> dict[str, Any]:
    found = copy.deepcopy(document)
    found[part] |= more
    return found


def without(document: dict[str, Any], part: str, name: str) -> dict[str, Any]:
    found = copy.deepcopy(document)
    del found[part][name]
    return found


def test_what_is_committed_fits() -> None:
    assert targets.unfit(COMMITTED) == []


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (changed(COMMITTED, "options", size=100), "payloads of 100 B"),
        (without(COMMITTED, "peers", "postgres"), "without postgres, which targets compare with"),
    ],
)
def test_a_document_that_says_nothing_of_the_targets_is_not_taken(document: dict[str, Any], said: str) -> None:
    assert any(said in reason for reason in targets.unfit(document))


@pytest.mark.parametrize("kind", [kind for kind in shown.KINDS if kind.results.exists()], ids=lambda kind: kind.name)
def test_a_page_shows_what_is_committed(kind: Shown) -> None:
    """A table that was changed by hand, or a document after its table, would show figures that nobody measured."""
    document = kind.read(kind.results.read_text(encoding="utf-8"))
    page = kind.page.read_text(encoding="utf-8")
    assert placed(page, kind.markdown(document), kind.marks) == page


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """What the command ends with."""
    monkeypatch.setattr("sys.argv", ["report", *arguments])
    with pytest.raises(SystemExit) as ended:
        shown.main()
    return str(ended.value.code)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"options": "none"}',
        json.dumps(COMMITTED)[:2000],
        json.dumps(without(COMMITTED, "about", "kernel")),
        json.dumps({**COMMITTED, "peers": {name: {} for name in COMMITTED["peers"]}}),
        "\N{SNOWMAN}",
        json.dumps(changed(COMMITTED, "options", seconds=float("nan"))),
    ],
    ids=[
        "empty",
        "a list",
        "other options",
        "cut off",
        "another version",
        "nothing of the peers",
        "no JSON",
        "no number",
    ],
)
def test_what_cannot_be_shown_takes_the_place_of_nothing(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, given = tmp_path / "peers.json", tmp_path / "given.json"
    kept.write_text("whole")
    given.write_text(text)
    monkeypatch.setattr(shown, "PEERS", replace(PEERS, results=kept))
    said = run(monkeypatch, "--take", str(given))
    assert "is no document of bench-peers" in said
    assert "measure again" in said
    assert kept.read_text() == "whole"


def test_a_result_that_is_not_whole_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "ROOT", tmp_path)
    monkeypatch.setattr(shown, "KINDS", (replace(PEERS, results=tmp_path / "peers.json"),))
    (tmp_path / "peers.json").write_text("{}")
    assert "peers.json is not whole: KeyError('" in run(monkeypatch)


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({**BUDGET, "commit": "abc-dirty"}, "in no commit"),
        ({**BUDGET, "commit": "unknown"}, "in no commit"),
        ({**BUDGET, "runs": 1}, "1 runs"),
        (without(BUDGET, "workloads", "enqueue"), "without enqueue"),
        ({}, "no document of bench-budget"),
        (None, "No such file or directory"),
    ],
)
def test_a_budget_that_does_not_fit_takes_the_place_of_nothing(
    document: dict[str, Any] | None, said: str, tmp_path: Path
) -> None:
    given, kept, page = (tmp_path / name for name in ("given", "kept", "page"))
    if document is not None:
        given.write_text(json.dumps(document))
    with pytest.raises(SystemExit, match=said):
        budget.take(given, kept, page)
    assert not kept.exists()


def test_a_budget_without_a_place_on_the_page_is_not_kept(tmp_path: Path) -> None:
    given, kept, page = (tmp_path / name for name in ("given", "kept", "page"))
    given.write_text(json.dumps(BUDGET))
    page.write_text("no place")
    with pytest.raises(SystemExit, match="the page needs the lines"):
        budget.take(given, kept, page)
    assert not kept.exists()
    page.write_text(budget.PAGE.read_text(encoding="utf-8"))
    budget.take(given, kept, page)
    assert page.read_text(encoding="utf-8") == budget.PAGE.read_text(encoding="utf-8")
