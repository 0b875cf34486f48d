"""The simulator's command line: what it prints, what it writes, and how it ends."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from chaos.sim.pair.plan import Outcome, Plan
from chaos.sim.tools.cli import root
from chaos.sim.tools.product import Kernel
from chaos.sim.tools.replay import load
from tests.sim.stories import KERNEL, draw


def invoke(*words: str, kernel: Kernel = KERNEL) -> Result:
    return CliRunner().invoke(root, words, obj=kernel)


def document(result: Result) -> dict[str, object]:
    return json.loads(result.stdout)


def test_a_run_that_shows_nothing_ends_with_0_and_says_how_to_repeat_it() -> None:
    result = invoke("run", "--seed", "7", "--profile", "swarm")
    assert result.exit_code == 0
    assert "again: python -m chaos.sim run --seed 7 --profile swarm" in result.stdout


def test_a_violation_ends_with_1() -> None:
    result = invoke("run", "--seed", "10", "--profile", "swarm", "-o", "json")
    assert result.exit_code == 1
    assert document(result)["violations"] == ["lost acknowledged: one"]


def test_a_run_tells_its_story_and_draws_it(tmp_path: Path) -> None:
    svg = tmp_path / "new" / "story.svg"
    result = invoke("run", "--seed", "7", "--profile", "swarm", "--trace", "--svg", str(svg), "-o", "json")
    assert ET.parse(svg).getroot().tag.endswith("svg")
    assert "MASTER 2" in result.stderr
    assert document(result)["seed"] == 7, "the story does not stand in the way of the document"


def test_what_is_kept_can_be_run_and_shrunk_again(tmp_path: Path) -> None:
    whole, small = tmp_path / "whole.json", tmp_path / "small.json"
    invoke("run", "--seed", "10", "--profile", "swarm", "--keep", str(whole), "--note", "it was late")
    assert (load(whole).plan, load(whole).expected, load(whole).note) == (
        draw("swarm", 10),
        "lost acknowledged",
        "it was late",
    )
    result = invoke("shrink", "--plan", str(whole), "--out", str(small), "--svg", str(tmp_path / "small.svg"))
    assert result.exit_code == 0, result.output
    assert load(small).plan.faults == ()
    assert load(small).expected == "lost acknowledged"
    result = invoke("run", "--plan", str(small))
    assert result.exit_code == 1
    assert f"again: python -m chaos.sim run --plan {small}" in result.stdout


def test_a_kept_schedule_is_shrunk_to_what_it_was_kept_for(tmp_path: Path) -> None:
    whole, small = tmp_path / "whole.json", tmp_path / "small.json"
    invoke("run", "--seed", "10", "--profile", "swarm", "--keep", str(whole))

    def shown(plan: Plan) -> Outcome:
        return Outcome(plan, ["stuck: nobody serves", *KERNEL.run(plan).violations])

    result = invoke("shrink", "--plan", str(whole), "--out", str(small), kernel=replace(KERNEL, run=shown))
    assert result.exit_code == 0, result.output
    assert load(small).expected == "lost acknowledged"


def test_a_run_can_be_shrunk_at_once(tmp_path: Path) -> None:
    result = invoke("run", "--seed", "10", "--profile", "swarm", "--shrink", str(tmp_path / "x.json"))
    assert result.exit_code == 1
    assert load(tmp_path / "x.json").plan.faults == ()


def test_what_does_not_fail_is_not_shrunk(tmp_path: Path) -> None:
    result = invoke("shrink", "--seed", "7", "--profile", "swarm", "--out", str(tmp_path / "x.json"))
    assert result.exit_code == 1
    assert "nothing to shrink" in result.stderr
    assert not (tmp_path / "x.json").exists()


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (("run",), "name a plan: --seed N --profile P, or --plan FILE"),
        (("run", "--seed", "7"), "name a plan"),
        (("run", "--seed", "7", "--profile", "nosuch"), "there is no profile 'nosuch'; there are: swarm, fences"),
        (("run", "--seed", "7", "--profile", "all"), "one profile"),
        (("run", "--seed", "7", "--profile", "swarm", "--bug", "nosuch"), "there are: early_ack, late_ack"),
        (("run", "--seed", "7", "--plan", "x.json"), "leave out --seed and --profile"),
        (("run", "--plan", "nosuch.json"), "nosuch.json"),
        (("campaign", "--profiles", "swarm,nosuch"), "there is no profile 'nosuch'"),
        (("campaign", "--seeds", "0"), "--seeds"),
        (("bugs", "--only", "nosuch"), "there is no planted bug 'nosuch'"),
        (("bugs", "--only", ","), "there is no planted bug ''"),
    ],
)
def test_bad_usage_ends_with_2_and_says_what_there_is(words: tuple[str, ...], told: str) -> None:
    result = invoke(*words)
    assert result.exit_code == 2, result.output
    assert told in result.stderr


def test_a_campaign_prints_its_figures_and_how_to_repeat_each_failure() -> None:
    result = invoke("campaign", "--seeds", "60", "--jobs", "0")
    assert result.exit_code == 1
    assert "again: python -m chaos.sim run --seed 20 --profile fences" in result.stdout
    assert "1 of 2 met" in result.stdout
    assert "points missed" in result.stdout
    assert "6,000 (" in result.stdout


def test_a_campaign_without_violations_but_with_too_little_is_invalid() -> None:
    kernel = replace(KERNEL, run=quiet)
    result = invoke("campaign", "--seeds", "500", "--jobs", "0", "-o", "json", kernel=kernel)
    assert result.exit_code == 3
    told = document(result)
    assert told["violations"] == []
    assert "handoffs: 0 of at least 127 in 500 seeds" in told["shortfalls"]
    assert told["points"] == {"common": 500, "rare": 0}
    assert told["points_missed"] == ["rare"], "told, and asked for from 3,000 seeds on only"
    assert invoke("campaign", "--seeds", "499", "--jobs", "0", kernel=kernel).exit_code == 0


def quiet(plan: Plan):
    outcome = KERNEL.run(replace(plan, seed=1))
    outcome.plan = plan
    return outcome


def test_floors_are_not_asked_of_some_of_the_profiles() -> None:
    kernel = replace(KERNEL, run=quiet)
    result = invoke("campaign", "--seeds", "500", "--jobs", "0", "--profiles", "swarm", kernel=kernel)
    assert result.exit_code == 0
    assert "not asked for: floors, and points of other profiles: not all profiles" in result.stderr


def test_points_of_their_own_are_asked_of_some_of_the_profiles() -> None:
    """And of as many seeds as these profiles get among all."""
    many = (*KERNEL.profiles, *map(str, range(100 - len(KERNEL.profiles))))
    asked = replace(KERNEL, run=quiet, profiles=many, homes={"swarm": ("common", "rare"), "fences": ("other",)})
    share = 3_000 // 100
    words = ("campaign", "--jobs", "0", "--profiles", "swarm", "-o", "json", "--seeds")
    result = invoke(*words, str(share), kernel=asked)
    assert result.exit_code == 3
    facts = document(result)
    assert facts["points"] == {"common": share, "rare": 0}
    assert (facts["points_named"], facts["points_met"], facts["shortfalls"]) == (2, 1, ["never met: rare"])
    assert invoke(*words, str(share - 1), kernel=asked).exit_code == 0, "too few to say"
    assert invoke(*words, str(share), kernel=replace(asked, homes={"swarm": ("common",)})).exit_code == 0


def test_fewer_seeds_than_floors_are_asked_of_are_told() -> None:
    result = invoke("campaign", "--seeds", "40", "--jobs", "0", kernel=replace(KERNEL, run=quiet))
    assert result.exit_code == 0
    assert "not asked for: floors and points: fewer than 500 seeds" in result.stderr


def test_an_interrupted_campaign_without_violations_ends_with_3() -> None:
    def until_30(plan: Plan):
        if plan.seed == 30:
            raise KeyboardInterrupt
        return quiet(plan)

    kernel = replace(KERNEL, run=until_30)
    for command in ("campaign", "coverage"):
        result = invoke(command, "--seeds", "60", "--jobs", "0", kernel=kernel)
        assert result.exit_code == 3, command
        assert "interrupted after 20 of 60 seeds: too little was tried" in result.stderr
    result = invoke("campaign", "--seeds", "60", "--jobs", "0", "-o", "json", kernel=kernel)
    assert document(result)["shortfalls"] == ["interrupted after 20 of 60 seeds"]


def test_the_hunt_names_what_it_leaves_out() -> None:
    kernel = replace(KERNEL, elsewhere=(("R1: loses", "too rare", "tests/x.py::test_y"),), quarries=())
    for words in (("bugs", "--list"), ("bugs",)):
        told = invoke(*words, kernel=kernel).stdout
        assert "not planted  R1: loses\n    no run shows it: too rare; tests/x.py::test_y does" in told


def test_an_interrupted_campaign_prints_what_it_has() -> None:
    def until_30(plan: Plan):
        if plan.seed == 30:
            raise KeyboardInterrupt
        return KERNEL.run(plan)

    result = invoke("campaign", "--seeds", "60", "--jobs", "0", "-o", "json", kernel=replace(KERNEL, run=until_30))
    assert result.exit_code == 1
    assert document(result)["seeds"] == 20, "whole chunks"
    assert document(result)["stopped_early"]
    assert "interrupted after 20 of 60 seeds" in result.stderr


def test_coverage_names_what_was_met_and_ends_with_3_when_one_was_not() -> None:
    result = invoke("coverage", "--seeds", "100", "--jobs", "0", "-o", "json", kernel=without_violations())
    assert result.exit_code == 0
    assert document(result)["points"] == {"common": 100, "rare": 1}
    result = invoke("coverage", "--seeds", "20", "--jobs", "0", kernel=without_violations())
    assert result.exit_code == 3
    assert "met by one run in a hundred" in result.stdout


def without_violations() -> Kernel:
    """Its runs meet what they meet."""
    return replace(KERNEL, run=lambda plan: replace(KERNEL.run(plan), violations=[]))


def test_coverage_does_not_hide_a_violation() -> None:
    result = invoke("coverage", "--seeds", "100", "--jobs", "0", "--max-failures", "99")
    assert result.exit_code == 1
    assert "VIOLATION lost acknowledged: one" in result.stderr
    assert "again: python -m chaos.sim run --seed 20 --profile fences" in result.stderr


@pytest.mark.parametrize(
    "words",
    [
        ("run", "--seed", "10", "--profile", "swarm", "--svg"),
        ("run", "--seed", "10", "--profile", "swarm", "--keep"),
        ("run", "--seed", "10", "--profile", "swarm", "--shrink"),
        ("shrink", "--seed", "10", "--profile", "swarm", "--out"),
    ],
)
def test_what_cannot_be_written_is_refused_before_anything_runs(words: tuple[str, ...], tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    kernel = replace(KERNEL, run=refuse, traced=refuse)
    for path in (tmp_path, tmp_path / "file" / "x.json"):
        result = invoke(*words, str(path), kernel=kernel)
        assert result.exit_code == 2, result.output
        assert str(path) in result.stderr
    assert list(tmp_path.iterdir()) == [tmp_path / "file"]


def refuse(_plan: Plan) -> Outcome:
    raise AssertionError("it ran")


def test_planted_bugs_are_found_or_missed_within_their_budgets() -> None:
    result = invoke("bugs", "--jobs", "0", "-o", "json")
    assert result.exit_code == 1
    told = document(result)
    assert told["missed"] == ["late_ack"]
    assert [(bug["bug"], bug["found"], bug["seeds"]) for bug in told["bugs"]] == [
        ("early_ack", True, 23),
        ("late_ack", False, 20),
    ]
    assert told["bugs"][0]["again"] == "python -m chaos.sim run --seed 23 --profile swarm --bug early_ack"
    assert invoke("bugs", "--jobs", "0", "--only", "early_ack").exit_code == 0
    assert "late_ack" in invoke("bugs", "--list").stdout
    assert invoke("bugs", kernel=replace(KERNEL, quarries=())).exit_code == 3, "none at all is not a success"


@pytest.mark.slow
@pytest.mark.process
def test_the_number_of_processes_does_not_change_where_a_bug_is_found() -> None:
    found = [document(invoke("bugs", "--jobs", jobs, "-o", "json")) for jobs in ("0", "3")]
    assert found[0] == found[1]


@pytest.mark.parametrize("command", ["run", "shrink", "campaign", "coverage", "bugs"])
def test_every_command_shows_an_example(command: str) -> None:
    result = invoke(command, "--help")
    assert result.exit_code == 0
    assert f"Example: python -m chaos.sim {command}" in " ".join(result.stdout.split())
