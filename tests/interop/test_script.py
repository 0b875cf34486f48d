"""A line of a script that cannot be carried out is refused, with its place, before anything is done."""

from __future__ import annotations

import pytest

from tests.interop.script import ScriptError, Step, parse, read
from tests.interop.sessions import COPIES, SCRIPT, STREAMS, UNITS


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("sned queue=orders count=1", "unknown verb sned"),
        ("send queue=orders", "send needs count="),
        ("send queue=orders count=many", "count=many is not a number"),
        ("send queue=orders count=-1", "count=-1 is not a number"),
        ("send queue=orders count=1 colour=red", "send has no colour="),
        ("send queue=orders queue=calls count=1", "queue= is given twice"),
        ("send queue= count=1", "queue= is not key=value"),
        ("kill master", "master is not key=value"),
        ("create queue=orders type=three_way", "type=three_way is none of one_way_queued_ack, two_way"),
    ],
)
def test_a_wrong_line_is_refused(line: str, complaint: str) -> None:
    with pytest.raises(ScriptError) as refused:
        parse(f"# a comment, and a right line\nhandoff\n{line}\n", "wrong.txt")
    assert str(refused.value) == f"wrong.txt:3: {complaint}"


def test_a_right_line_is_read() -> None:
    [step] = parse("\n  stream batch=7 count=20 queue=orders  # no more\n", "right.txt")
    assert step == Step("right.txt:2", "stream", {"batch": "7", "count": "20", "queue": "orders"})


def test_the_scripts_are_right() -> None:
    for script in (SCRIPT, STREAMS, UNITS):
        assert {"kill", "handoff", "await"} <= {step.verb for step in read(script)}
    copies = read(COPIES)
    assert {"lose", "await"} <= {step.verb for step in copies}
    assert {"sent", "stored", "refused"} == {step.values["answer"] for step in copies if step.verb == "ask"}
