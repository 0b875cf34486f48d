"""Every kept schedule, for ever: it shows nothing on the product, and its violation where a planted bug is named."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from chaos.sim.pair.plan import Fault, Outcome, Plan
from chaos.sim.tools.replay import Kept, drawn_command, kept_command, load, problems, save, story
from tests.sim.stories import plan_of, run_by
from tests.sim.stories import story as told

KEPT = Kept(replace(plan_of(), bug="early_ack"), "lost acknowledged", "the master answered before the replica held it")


def test_what_is_kept_comes_back(tmp_path: Path) -> None:
    save(KEPT, tmp_path / "new" / "early.json")
    assert load(tmp_path / "new" / "early.json") == KEPT


def test_a_bare_plan_is_read_too(tmp_path: Path) -> None:
    (tmp_path / "plan.json").write_text(plan_of().to_json())
    assert load(tmp_path / "plan.json") == Kept(plan_of(), "", "")


@pytest.mark.parametrize(
    "text",
    ["", "[]", "7", "{}", '{"plan": 3}', '{"plan": {}, "expected": "x", "note": ""}', '{"seed": 1, "colour": 2}'],
)
def test_what_is_neither_is_refused_with_its_name(tmp_path: Path, text: str) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(ValueError, match=r"bad\.json is not a plan"):
        load(tmp_path / "bad.json")


def test_what_a_person_wrote_by_hand_may_leave_out_what_has_a_default(tmp_path: Path) -> None:
    raw = {"note": "n", "expected": "e", "plan": {"seed": 1, "profile": "p", "faults": [{"at_ms": 5, "kind": "crash"}]}}
    (tmp_path / "hand.json").write_text(json.dumps(raw))
    assert load(tmp_path / "hand.json").plan == Plan(1, "p", faults=(Fault(5, "crash"),))


def test_commands_name_all_that_they_need() -> None:
    assert drawn_command("fences", 7) == "python -m chaos.sim run --seed 7 --profile fences"
    assert drawn_command("fences", 7, "no_fence").endswith(" --bug no_fence")
    assert kept_command(Path("a b.json")) == "python -m chaos.sim run --plan 'a b.json'"


def with_bug_only(plan: Plan) -> list[str]:
    return ["lost acknowledged: 3"] if plan.bug else []


def test_a_kept_schedule_shows_its_bug_and_nothing_without() -> None:
    assert problems(KEPT, run_by(with_bug_only)) == []
    assert problems(replace(KEPT, plan=replace(KEPT.plan, bug="")), run_by(with_bug_only)) == []


def test_a_regression_a_bug_that_hides_and_another_violation_are_told() -> None:
    assert problems(KEPT, run_by(lambda _: [])) == [
        "with the planted bug 'early_ack' it should show 'lost acknowledged', it shows nothing"
    ]
    found = problems(KEPT, run_by(lambda _: ["stuck: 3"]))
    assert found[0] == "the product shows: stuck: 3"
    assert "it shows stuck: 3" in found[1]
    assert problems(replace(KEPT, plan=plan_of()), run_by(lambda _: ["stuck: 3"])) == ["the product shows: stuck: 3"]


def test_the_story_has_a_line_for_each_event() -> None:
    lines = story(Outcome(plan_of(), trace=told()))
    assert len(lines) == len(told())
    assert lines[0].split() == ["0.0", "a", "role", "MASTER", "1"]
    assert "-> register" in "\n".join(lines)
