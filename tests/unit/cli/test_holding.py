"""Who holds a file is told, one at a time, and nobody does when the block has ended."""

from __future__ import annotations

from pathlib import Path

import pytest

from tandemq.cli import context
from tandemq.cli.holding import held, holder


def test_one_holds_it_and_says_what_for(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    assert holder(path) is None
    with held(path, "the first") as first, held(path, "the second") as second:
        assert (first, second, holder(path)) == (True, False, "the first")
    assert holder(path) is None
    with held(path, "next") as again:
        assert (again, holder(path)) == (True, "next")


def test_a_pair_that_is_being_started_is_known(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TANDEMQ_CONFIG_HOME", str(tmp_path / "home"))
    assert context.starting() is None
    with context.starting_in(tmp_path / "one"):
        assert context.starting() == str(tmp_path / "one")
        with context.starting_in(tmp_path / "two"):
            assert context.starting() == str(tmp_path / "one")
        assert context.starting() == str(tmp_path / "one")
    assert context.starting() is None
    assert list((tmp_path / "home").iterdir()) == []
