"""What `make bench-report` takes: a whole document that fits, or nothing and why; and that pages show what is kept."""

from __future__ import annotations

import copy
import json
import shutil
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest

from bench import shown
from bench.document import Document, read
from bench.shown import KINDS, RESULTS, Shown, take
from bench.tables import placed

every_kind = pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)


def committed(kind: Shown) -> Document:
    return read(kind.kept(RESULTS).read_text(encoding="utf-8"))


PEERS = asdict(committed(next(kind for kind in KINDS if kind.name == "peers")))


@every_kind
def test_a_page_shows_what_is_committed(kind: Shown) -> None:
    """A table that was changed by hand, or a document after its table, would show figures that nobody measured."""
    page = kind.page.read_text(encoding="utf-8")
    assert placed(page, kind.markdown(committed(kind)), kind.name) == page
    for name, drawing in kind.drawn(committed(kind)).items():
        assert (shown.IMAGES / name).read_text(encoding="utf-8") == drawing
        assert f"img/{name})" in page


@every_kind
def test_a_document_is_taken_and_shown(kind: Shown, tmp_path: Path) -> None:
    text = kind.kept(RESULTS).read_text(encoding="utf-8")
    take(text, tmp_path)
    assert kind.kept(tmp_path).read_text(encoding="utf-8") == text
    page = tmp_path / "page.md"
    shutil.copy(kind.page, page)
    page.write_text(placed(page.read_text(encoding="utf-8"), "old", kind.name), encoding="utf-8")
    assert kind.show(committed(kind), page, tmp_path)[0] == "page.md"
    assert page.read_text(encoding="utf-8") == kind.page.read_text(encoding="utf-8")
    dirty = {**asdict(committed(kind)), "about": {**committed(kind).about, "commit": "abc-dirty"}}
    with pytest.raises(SystemExit, match="not to be shown: it was measured on changes that are in no commit"):
        take(json.dumps(dirty), tmp_path)
    assert kind.kept(tmp_path).read_text(encoding="utf-8") == text


def test_a_page_keeps_what_stands_around_its_part() -> None:
    begin, end = "<!-- x: written by make bench-report -->", "<!-- x: end -->"
    once = placed(f"before\n{begin}\nold\n{end}\nafter\n", "new", "x")
    assert once == f"before\n{begin}\nnew\n{end}\nafter\n"
    assert placed(once, "new", "x") == once
    for page in ("no marks\n", f"{begin}\n", f"{end}\n"):
        with pytest.raises(SystemExit, match="the page has no"):
            placed(page, "new", "x")


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> str:
    """What the command ends with."""
    monkeypatch.setattr("sys.argv", ["report", *arguments])
    with pytest.raises(SystemExit) as ended:
        shown.main()
    return str(ended.value.code)


def lacking(part: str, name: str) -> dict[str, Any]:
    found = copy.deepcopy(PEERS)
    del found[part][name]
    return found


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        '{"options": "none"}',
        json.dumps(PEERS)[:2000],
        json.dumps(lacking("about", "kernel")),
        json.dumps({**PEERS, "peers": {name: {} for name in PEERS["peers"]}}),
        json.dumps({**PEERS, "benchmark": "spark"}),
        "\N{SNOWMAN}",
    ],
    ids=["empty", "a list", "other options", "cut off", "another version", "nothing of peers", "not shown", "no JSON"],
)
def test_what_cannot_be_shown_takes_the_place_of_nothing(
    text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept, given = tmp_path / "peers.json", tmp_path / "given.json"
    kept.write_text("whole")
    given.write_text(text)
    monkeypatch.setattr(shown, "RESULTS", tmp_path)
    said = run(monkeypatch, "--take", str(given))
    assert "is no document of a benchmark" in said
    assert "measure again" in said
    assert kept.read_text() == "whole"
    assert "measure first" in run(monkeypatch, "--take", str(tmp_path / "none.json"))


def test_a_result_that_is_not_whole_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shown, "RESULTS", tmp_path)
    assert "nothing is committed yet" in run(monkeypatch)
    (tmp_path / "peers.json").write_text("{}")
    assert "peers.json is not whole: TypeError(" in run(monkeypatch)
