"""What the docs say that the audit finds, and does not judge, is what the code says."""

from __future__ import annotations

from pathlib import Path

import pytest

from chaos.journal_kinds import tables
from tests.support import script

PAGE = Path(__file__).parents[3] / "docs" / "SPARK.md"
BEGIN, END = "<!-- audit -->\n", "<!-- end of audit -->"


def test_the_tables_in_the_docs_are_those_of_the_code() -> None:
    text = PAGE.read_text(encoding="utf-8")
    head, rest = text.split(BEGIN)
    now = head + BEGIN + tables() + END + rest.split(END)[1]
    if script.is_rewriting() and now != text:
        PAGE.write_text(now, encoding="utf-8")
        pytest.skip("rewritten: read the difference before it is committed")
    assert text == now, "REWRITE=1 pytest tests/unit/chaos/test_journal_kinds.py writes it"
