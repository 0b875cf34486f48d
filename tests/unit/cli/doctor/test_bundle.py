"""The archive of the doctor: what fits, what is cut, what is left out, and that it never replaces a file."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tandemq.cli.doctor import bundle
from tandemq.cli.doctor.bundle import BundleError, Outcome, Part

LIMIT = bundle.LIMIT_BYTES_MIN


def parts_of(path: Path) -> dict[str, bytes]:
    with tarfile.open(path) as archive:
        found = {}
        for entry in archive:
            file = archive.extractfile(entry)
            assert file is not None
            found[entry.name.partition("/")[2]] = file.read()
        return found


def test_what_fits_is_whole_and_the_manifest_names_everything(tmp_path: Path) -> None:
    path = tmp_path / "case.tar.gz"
    packed = bundle.pack(
        [bundle.json_part("a.json", {"x": 1}), bundle.lines_part("b.jsonl", ["1", "2"]), bundle.missing("c", "away")],
        LIMIT,
    )
    size = bundle.write(path, packed, {"outcome": "complete"})
    assert size == path.stat().st_size
    assert path.stat().st_mode & 0o777 == 0o600
    assert [each.name for each in tmp_path.iterdir()] == ["case.tar.gz"]
    found = parts_of(path)
    assert found["b.jsonl"] == b"1\n2\n"
    manifest = json.loads(found["manifest.json"])
    assert manifest["outcome"] == "complete"
    assert [(each["name"], each["outcome"], each["why"]) for each in manifest["files"]] == [
        ("a.json", "whole", ""),
        ("b.jsonl", "whole", ""),
        ("c", "missing", "away"),
    ]


def test_the_limit_cuts_lines_at_their_beginning_and_leaves_out_what_cannot_be_cut(tmp_path: Path) -> None:
    lines = [f"{number:09d}" for number in range(LIMIT // 10)]
    first, logs, document, last = bundle.pack(
        [
            Part("first", b"x" * 1000),
            bundle.lines_part("log", lines),
            Part("document", b"y" * LIMIT),
            bundle.lines_part("one-line", ["z" * LIMIT]),
        ],
        LIMIT,
    )
    assert (first.outcome, logs.outcome) == (Outcome.WHOLE, Outcome.TAIL)
    kept = logs.data.decode().splitlines()
    assert kept == lines[-len(kept) :]
    assert "newest" in logs.why
    assert (document.outcome, last.outcome) == (Outcome.LEFT_OUT, Outcome.LEFT_OUT)
    assert "size limit" in document.why
    path = tmp_path / "case.tar.gz"
    bundle.write(path, [first, logs, document, last], {})
    assert sum(map(len, parts_of(path).values())) <= LIMIT


def test_a_part_that_was_read_from_its_end_is_no_whole_one() -> None:
    [packed] = bundle.pack([Part("log", b"new\n", "the newest 4 of 9 bytes", by_lines=True)], LIMIT)
    assert packed.outcome is Outcome.TAIL


def test_it_never_replaces_a_file_and_says_where_it_cannot_write(tmp_path: Path) -> None:
    path = tmp_path / "case.tar.gz"
    path.write_text("mine")
    for attempt in (lambda: bundle.check_place(path), lambda: bundle.write(path, [], {})):
        with pytest.raises(BundleError, match="is there already; choose another name"):
            attempt()
    assert path.read_text() == "mine"
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(BundleError, match="is no directory; make it"):
        bundle.check_place(tmp_path / "none" / "case.tar.gz")
    with pytest.raises(BundleError, match="cannot be written"):
        bundle.write(tmp_path / "none" / "case.tar.gz", [], {})
