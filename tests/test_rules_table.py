"""docs/PROTOCOL.md says for each rule what notices that it is gone; the table is the tests' own."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from chaos.sim.model.rules import RULES as MODEL_RULES
from tests.support import rules_table

ROOT = Path(__file__).resolve().parent.parent


def test_the_document_has_the_table_as_it_is() -> None:
    text = rules_table.DOCUMENT.read_text(encoding="utf-8")
    assert rules_table.written(text) == text, "write it anew: python -m tests.support.rules_table"


@pytest.mark.parametrize("rule", rules_table.RULES)
def test_something_notices_that_a_rule_is_gone(rule: str) -> None:
    scripts, bugs, model = rules_table.rows()[rule]
    assert scripts or bugs or model


def test_every_row_of_the_model_is_of_a_rule() -> None:
    assert all(rules_table.of_model(each.name) or each.name in rules_table.OF_MODEL for each in MODEL_RULES)


def test_every_link_leads_somewhere() -> None:
    for name, path in re.findall(r"\[(\w+)\]\(\.\./([\w/.]+)\)", rules_table.render()):
        file = ROOT / path
        assert file.is_file(), path
        assert path.endswith(".txt") or f"def {name}(" in file.read_text(encoding="utf-8"), name


def test_names_of_rules_are_found_in_whatever_way_they_are_said() -> None:
    assert rules_table.numbers("reliability4_p11_restart") == ["P11"]
    assert rules_table.numbers("p2_p3_unknown_add") == ["P2", "P3"]
    assert rules_table.numbers("P13, reliability 3") == ["P13"]
    assert rules_table.numbers("ruling 1") == []
