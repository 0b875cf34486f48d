"""docs/ONE_MESSAGE.md shows the committed figures, all of them and no others."""

from __future__ import annotations

import json
from pathlib import Path

from bench.guard.one_page import KINDS, NOW, P50, ROLES, SIDES, markdown
from bench.tables import placed

ROOT = Path(__file__).resolve().parents[3]


def test_the_page_shows_the_committed_figures() -> None:
    document = json.loads((ROOT / "bench/results/one_message.json").read_text())
    page = (ROOT / "docs/ONE_MESSAGE.md").read_text()
    assert placed(page, markdown(document), "one message", by="one-message") == page, "make one-message writes both"
    document["figures"][NOW]["master"][KINDS[0]] += 1
    assert placed(page, markdown(document), "one message", by="one-message") != page


def test_each_process_has_each_kind_on_each_side() -> None:
    document = json.loads((ROOT / "bench/results/one_message.json").read_text())
    for side in SIDES:
        found = document["figures"][side]
        assert {role: set(kinds) for role, kinds in found.items()} == {
            **{role: set(KINDS) for role in ROLES},
            "all": {*KINDS, P50},
        }
