"""The tables in docs/PROTOCOL.md are the code's own, and the steps of a promotion leave nothing open."""

from __future__ import annotations

from failover.steps import DEADLINES, TABLE, Found, Step
from tools import protocol_tables


def test_the_page_says_what_the_code_does() -> None:
    page = protocol_tables.PAGE.read_text(encoding="utf-8")
    assert protocol_tables.written(page) == page, "python tools/protocol_tables.py write"


def test_every_step_that_waits_has_a_deadline_and_a_way_out() -> None:
    for step in Step:
        assert step.is_steady == (step not in DEADLINES), step
        exits = {TABLE[step, found][0] for found in Found if (step, found) in TABLE}
        assert Step.PROBE in exits, step


def test_only_a_done_commit_or_a_named_exception_opens_the_gate() -> None:
    """P6; P18 and an operator's word are the exceptions."""
    opens = {(step, found) for (step, found), (then, _) in TABLE.items() if then is Step.SERVING}
    assert opens == {
        (Step.COMMITTING, Found.DONE),
        (Step.COMMITTING, Found.UNKNOWN_CEDED),
        (Step.STORING, Found.DURABLE_UNRECORDED),
    }
