"""Tells, for each rule of the protocol, what notices that it is gone: renders the table of docs/PROTOCOL.md.

`python -m tests.support.rules_table` writes it there. A planted bug counts once a run has shown it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path

from chaos.sim.bugs import BUGS
from chaos.sim.model.rules import RULES as MODEL_RULES
from tests import test_handoff_rules, test_rules, test_way_rules

RULES = tuple(f"P{number}" for number in range(1, 23))
DOCUMENT = Path(__file__).resolve().parent.parent.parent / "docs/PROTOCOL.md"
HEAD = (
    "| rule | script that fails without it | planted bug that the simulator finds | taken out of the exhaustive model |"
)

OF_MODEL = {
    "ack waits for the peer's fsync": "ruling 1",
    "ack waits for the own fsync": "ruling 1",
    "solo only after the register": "P2",
    "only the committed set promotes": "P5",
    "require before publish": "P3",
    "unknown add stays required": "P2, P3",
    "serve after COMMIT is answered": "P6",
    "timeout is not success": "P1, P6",
    "lower epoch refused (SYNC)": "P13",
    "epoch above the register's": "P4",
    "tail cut before acks count": "P10",
    "new epoch at restart and digest": "P11",
    "replica answers by commit progress": "P14",
    "data mark checked before a claim": "P5",
    "ceded epoch promised durably": "P15",
}
"""Rules of the model whose names do not say which they are."""

OTHERS = {
    "P1": (("test_a_late_set_is_seen_where_the_whole_record_is_not_compared", "tests/sim/test_rows.py"),),
    "P18": (("test_two_faults_in_a_handoff_show_a_rule_that_is_gone", "tests/sim/test_steps.py"),),
}
"""Tests that take a rule out in a way of their own; they stand in the simulator's column."""


def numbers(text: str) -> list[str]:
    """The rules that a text names as "P5", or the name of a script's rule as `p5_`."""
    return [
        f"P{number}" for number in re.findall(r"(?:^|[^A-Za-z0-9])[Pp](\d+)(?![0-9A-Za-z])", text.replace("_", " "))
    ]


def of_model(name: str) -> list[str]:
    """The rules that a row of the model is about. KeyError: nobody has said."""
    return numbers(name) or numbers(OF_MODEL[name])


def rows() -> dict[str, tuple[list[str], list[str], list[str]]]:
    """By rule: scripts, planted bugs, rows of the model, as they stand in the table."""
    scripts: defaultdict[str, dict[str, None]] = defaultdict(dict)
    bugs: defaultdict[str, dict[str, None]] = defaultdict(dict)
    model: defaultdict[str, dict[str, None]] = defaultdict(dict)
    for each in (*test_rules.RULES, *test_handoff_rules.RULES, *test_way_rules.RULES):
        for rule in numbers(each.name):
            scripts[rule][f"[{each.script.partition('/')[2]}](../tests/scripts/{each.script}.txt)"] = None
    for bug in BUGS.values():
        for rule in numbers(bug.rule) if bug.first else ():
            bugs[rule][f"`{bug.name}`"] = None
    for rule, tests in OTHERS.items():
        for test, path in tests:
            bugs[rule][f"[{test}](../{path})"] = None
    for removed in MODEL_RULES:
        for rule in of_model(removed.name):
            model[rule][removed.name] = None
    return {rule: (list(scripts[rule]), list(bugs[rule]), list(model[rule])) for rule in RULES}


def render() -> str:
    """The table."""
    lines = [HEAD, "|---|---|---|---|"]
    lines += [" | ".join([f"| {rule}", *(_cell(each) for each in cells)]) + " |" for rule, cells in rows().items()]
    return "\n".join(lines) + "\n"


def _cell(entries: Iterable[str]) -> str:
    return ", ".join(entries) or "-"


def written(text: str) -> str:
    """The document with the table as it is now, in place of the one that it has."""
    before, _, rest = text.partition("| rule | script that")
    after = rest[rest.index("\n\n") + 1 :]
    return before + render() + after


if __name__ == "__main__":
    DOCUMENT.write_text(written(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")
