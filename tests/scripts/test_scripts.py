"""Every text script of this folder, over the pair in one process; see README.md for the language."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support import script
from tests.support.asking import Story
from tests.support.pair import drive

FOLDERS = ("stories", "protocol", "units", "reactions", "sides", "handoff")


@pytest.mark.parametrize("path", script.scripts(*FOLDERS), ids=lambda path: f"{path.parent.name}/{path.stem}")
def test_script(path: Path) -> None:
    known = script.load(path)
    story = Story()
    printed = drive(script.play(known, story))
    story.finish()
    if script.is_rewriting():
        if script.rewrite(path, known, printed):
            pytest.skip("rewritten: read the difference before it is committed")
        return
    script.compare(known, printed)
