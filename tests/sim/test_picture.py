"""The picture is whole SVG, says what it must in words, and stays small however long the trace is."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ET
from dataclasses import replace

import pytest

from chaos.sim.pair.plan import Outcome, TraceEvent
from chaos.sim.tools.fold import ARRIVED, LOST, Arrow, Mark, fold
from chaos.sim.tools.picture import ITEMS_MAX, picture
from tests.sim.stories import exchange, plan_of, story

VIOLATION = "lost acknowledged: p1 enqueue 12 was acknowledged and is nowhere"
SVG = "{http://www.w3.org/2000/svg}"


def drawn(trace: list[TraceEvent], violations: list[str] | None = None) -> ET.Element:
    return ET.fromstring(picture(Outcome(plan_of(), violations or [], trace=trace)))


def words(root: ET.Element) -> list[str]:
    return ["".join(node.itertext()) for node in root.iter(f"{SVG}text")]


def test_seed_profile_violation_and_everybody_are_named() -> None:
    text = "\n".join(words(drawn(story(), [VIOLATION])))
    assert "seed 7, profile swarm" in text
    assert VIOLATION in text
    assert {"p1", "a", "b", "register"} <= set(text.split("\n"))
    assert "MASTER 2" in text
    assert "a>b cut_one_way" in text
    assert "1.5 s later" in text


def test_the_bug_is_named_and_nothing_is_called_nothing() -> None:
    root = ET.fromstring(picture(Outcome(replace(plan_of(), bug="early_ack"), trace=story(1))))
    assert any("planted bug early_ack" in text for text in words(root))
    assert any(text.endswith("no violation") for text in words(root))


def test_a_violation_found_when_all_was_over_is_drawn_last() -> None:
    shown = [text for text in words(drawn(story(), [VIOLATION, "stuck: b"])) if text.startswith("VIOLATION")]
    assert shown == [f"VIOLATION {VIOLATION}", "VIOLATION stuck: b"]


def test_what_was_lost_ends_in_a_cross_and_what_arrived_in_a_tip() -> None:
    root = drawn(story(1))
    assert len(root.findall(f"{SVG}path")) == 1
    arrows = [item for item in fold(story(1), ITEMS_MAX).items if isinstance(item, Arrow)]
    assert len(root.findall(f"{SVG}polygon")) == len(arrows) - 1


def test_everything_is_on_the_page_and_later_is_lower() -> None:
    root = drawn(story(), [VIOLATION])
    wide, high = float(root.get("width", "0")), float(root.get("height", "0"))
    for node in root.iter():
        for name, limit in (("x", wide), ("x1", wide), ("x2", wide), ("y", high), ("y1", high), ("y2", high)):
            assert 0 <= float(node.get(name, "0")) <= limit, ET.tostring(node)
    rows = [float(node.get("y", "0")) for node in root.iter(f"{SVG}text") if node.get("class") == "time"]
    assert rows == sorted(rows)


def test_names_that_would_break_the_document_do_not() -> None:
    trace = [TraceEvent(1, "<x&\"'>", "call", "<&>\"'", "a"), TraceEvent(2, "a", "fault", "</svg>")]
    assert any("</svg>" in text for text in words(drawn(trace, ["bad: <&>"])))


def test_a_run_without_a_trace_is_refused() -> None:
    with pytest.raises(ValueError, match="no trace"):
        picture(Outcome(plan_of()))


def test_ten_thousand_events_make_a_picture_that_can_be_read() -> None:
    trace = [event for number in range(1_500) for event in exchange(number * 10.0, number)]
    trace += [replace(event, at_ms=event.at_ms + 20_000) for event in story()]
    folded = fold(trace, ITEMS_MAX)
    assert len(folded.items) == ITEMS_MAX
    assert folded.left_out > 900
    assert [item.what for item in folded.items if isinstance(item, Mark)].count("violation") == 1
    assert float(drawn(trace).get("height", "0")) < ITEMS_MAX * 30
    assert any(re.search(r"the first [\d,]+ frames and calls are left out", text) for text in words(drawn(trace)))


def test_heartbeats_become_one_until_something_goes_wrong() -> None:
    arrows = [item for item in fold(story(), ITEMS_MAX).items if isinstance(item, Arrow) and item.heartbeat]
    assert [(arrow.who, arrow.count) for arrow in arrows] == [("b", 20), ("a", 20)]
    beat = [TraceEvent(1, "a", "sent", "Heartbeat 1", "b"), TraceEvent(2, "a", "arrived", "Heartbeat 1", "b")]
    later = [replace(event, at_ms=event.at_ms + 9) for event in beat]
    between = [TraceEvent(5, "a", "fault", "pause")]
    counts = [item.count for item in fold(beat + between + later, 9).items if isinstance(item, Arrow)]
    assert counts == [1, 1]
    assert [item.count for item in fold(beat + later, 9).items if isinstance(item, Arrow)] == [2]


def test_a_lost_heartbeat_is_not_hidden_among_those_that_arrived() -> None:
    trace = []
    for number in range(6):
        trace.append(TraceEvent(number * 10, "a", "sent", f"Heartbeat {number}", "b"))
        trace.append(TraceEvent(number * 10 + 1, "a", "lost" if number > 3 else "arrived", f"Heartbeat {number}", "b"))
    items = [item for item in fold(trace, 99).items if isinstance(item, Arrow)]
    assert [(item.fate, item.count) for item in items] == [(ARRIVED, 4), (LOST, 2)]


def test_runs_of_equal_frames_are_one_unless_something_else_passes_between_the_two() -> None:
    def sent(at_ms: float, who: str, text: str, to: str) -> list[TraceEvent]:
        return [TraceEvent(at_ms, who, "sent", text, to), TraceEvent(at_ms + 1, who, "arrived", text, to)]

    equal = sent(1, "a", "Record 1", "b") + sent(2, "a", "Record 2", "b") + sent(3, "a", "Record 3", "b")
    assert [item.count for item in fold(equal, 99).items if isinstance(item, Arrow)] == [3]
    elsewhere = equal[:2] + sent(1.5, "a", "Renew", "register") + equal[2:]
    assert len(fold(elsewhere, 99).items) == 2
    answered = equal[:2] + sent(1.5, "b", "Ack 1", "a") + equal[2:]
    assert len(fold(answered, 99).items) == 3


def test_a_call_and_its_answer_again_and_again_are_one_call_and_one_answer() -> None:
    def poll(number: int) -> list[TraceEvent]:
        return [
            TraceEvent(number * 10, "p1", "call", f"Poll {number}", "a"),
            TraceEvent(number * 10 + 1, "a", "answer", "nothing", "p1"),
        ]

    trace = [event for number in range(7) for event in poll(number)]
    assert [(item.what, item.count, item.last_ms) for item in fold(trace, 99).items] == [
        ("call", 7, 60),
        ("answer", 7, 61),
    ]
    refused = [*trace, TraceEvent(80, "p1", "call", "Poll 8", "a"), TraceEvent(81, "a", "answer", "refused", "p1")]
    assert [(item.text, item.count) for item in fold(refused, 99).items] == [
        ("Poll 0", 7),
        ("nothing", 7),
        ("Poll 8", 1),
        ("refused", 1),
    ]
    assert len(fold(trace[:4], 99).items) == 4, "twice is not yet again and again"


def test_a_duplicate_that_nobody_sent_is_drawn() -> None:
    trace = [*exchange(1, 1)[1:3], replace(exchange(1, 1)[2], at_ms=9)]
    assert [item.fate for item in fold(trace, 99).items if isinstance(item, Arrow)] == [ARRIVED]
    assert sum(item.count for item in fold(trace, 99).items if isinstance(item, Arrow)) == 2
