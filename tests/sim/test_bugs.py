"""Every planted bug is found: by a violation that the same plans do not show without it.

`make sim-bugs` looks for each from seed 1 on, within its budget. Here the search begins shortly before a seed that is
known to find it: whoever changes what plans are drawn may have to look for another one, and the budget still holds.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import replace
from pathlib import Path

import pytest
from click.testing import CliRunner

from chaos.sim.bugs import BUGS, planted, shown
from chaos.sim.bugs.elsewhere import ELSEWHERE
from chaos.sim.bugs.planting import Planter
from chaos.sim.draw.profiles import draw
from chaos.sim.model.rules import RULES
from chaos.sim.pair.plan import Outcome, Plan
from chaos.sim.tools.cli import root
from chaos.sim.tools.product import of_product, run
from tandemq.client.outbox import Outbox

pytestmark = pytest.mark.wide
KERNEL = of_product()
ROOT = Path(__file__).parents[2]


class Base:
    """Something to change."""

    @staticmethod
    def word() -> str:
        return "before"

    @property
    def number(self) -> int:
        return 1


class Derived(Base):
    """Inherits what is changed."""


@pytest.mark.slow
@pytest.mark.parametrize("name", BUGS)
def test_a_planted_bug_is_found(name: str) -> None:
    bug = BUGS[name]
    for seed in range(bug.first, bug.first + bug.budget):
        outcome = run(replace(draw(bug.profile, seed), bug=name))
        if outcome.violations:
            return
    pytest.fail(f"{name} was not found in {bug.budget} seeds of {bug.profile} from {bug.first} on: {bug.text}")


def test_a_plant_that_fits_no_more_is_not_taken_for_a_bug_that_was_found() -> None:
    """It would be found for ever, whatever the judges see."""
    error = "process failed: a: TypeError('deliver() takes 3 positional arguments but 4 were given')"
    plan = replace(draw("tail", 1), bug="deliver-past-commit")
    with pytest.raises(AssertionError, match="deliver-past-commit is found by its own error"):
        shown(plan, lambda each: Outcome(each, [error] if each.bug else []))
    assert shown(plan, lambda each: Outcome(each, ["lost: 1"] if each.bug else [])).violations == ["lost: 1"]


@pytest.mark.slow
def test_a_campaign_with_a_planted_bug_ends_with_1() -> None:
    words = ("campaign", "--bug", "sdk-new-identity", "--profiles", "swarm", "--seeds", "40", "--jobs", "0")
    result = CliRunner().invoke(root, [*words, "--max-failures", "1"], obj=KERNEL)
    assert result.exit_code == 1, result.output
    assert "one_message_an_index" in result.output


@pytest.mark.slow
def test_the_hunt_says_after_how_many_seeds_and_ends_with_0() -> None:
    result = CliRunner().invoke(root, ["bugs", "--only", "sdk-new-identity", "--jobs", "0"], obj=KERNEL)
    assert result.exit_code == 0, result.output
    assert "1 of 1 planted bugs found" in result.output


def test_the_product_is_as_it_was_afterwards() -> None:
    before = vars(Outbox)["opened"]
    with planted("sdk-renumbers"):
        assert vars(Outbox)["opened"] is not before
    assert vars(Outbox)["opened"] is before
    with planted(""):
        assert vars(Outbox)["opened"] is before


@pytest.mark.parametrize("name", BUGS)
def test_what_a_bug_removes_is_there(name: str) -> None:
    with planted(name):
        pass


def test_what_is_seen_without_the_bug_too_does_not_count() -> None:
    def world(plan: Plan) -> Outcome:
        return Outcome(plan, ["old: 1", *(["new: 2"] if plan.bug else [])])

    plan = replace(draw("swarm", 1), bug="sdk-renumbers")
    assert shown(plan, world).violations == ["new: 2"]
    assert shown(replace(plan, bug=""), world).violations == ["old: 1"]


def test_a_planter_puts_back_what_it_changed() -> None:
    planter = Planter()
    planter.setattr(Base, "word", staticmethod(lambda: "planted"))
    planter.setattr(Base, "number", property(lambda _self: 2))
    planter.setattr(Derived, "word", staticmethod(lambda: "derived"))
    assert (Base.word(), Derived.word(), Base().number) == ("planted", "derived", 2)
    planter.undo()
    assert (Base.word(), Derived.word(), Base().number) == ("before", "before", 1)
    assert "word" not in vars(Derived)
    with pytest.raises(AttributeError):
        planter.setattr(pytest, "nothing", 1)


def test_a_rule_that_is_a_requirement_is_one() -> None:
    known = tomllib.loads((ROOT / "docs" / "requirements.toml").read_text(encoding="utf-8"))["R"]
    for bug in BUGS.values():
        assert all(number in known for number in re.findall(r"R\d+", bug.rule)), bug.name


def test_there_is_no_bug_of_another_name() -> None:
    with pytest.raises(KeyError), planted("nothing"):
        pass


def test_what_no_run_shows_names_a_test_that_there_is() -> None:
    for rule in ELSEWHERE:
        path, _, name = rule.test.partition("::")
        assert f"def {name}(" in (ROOT / path).read_text(encoding="utf-8"), rule.test
        assert rule.why, rule.text


def test_every_row_of_the_model_check_is_planted() -> None:
    """reference/protocol-check.md, section 3: the numbers of the rules in its 17 rows."""
    planted_rules = " ".join(f"{bug.rule}," for bug in BUGS.values())
    for number in ("P2", "P3", "P4", "P5", "P6", "P7", "P8", "P10", "P11", "P12", "P13", "P14", "P15", "ruling 1"):
        assert f"{number}," in planted_rules, number


def test_a_table_says_by_which_each_removed_rule_is_caught() -> None:
    text = (ROOT / "docs" / "decisions" / "0010-planted-bugs.md").read_text()
    lines = text[text.index("| by the model |") :].partition("\n\n")[0].splitlines()[2:]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    assert rows != []
    assert {by_model for by_model, _ in rows} == {rule.name for rule in RULES}, "it is in step with the model"
    planted_ones = {name for _, by_simulator in rows for name in re.findall(r"`([^`]+)`", by_simulator)}
    assert planted_ones <= set(BUGS), "it names bugs that there are"
    assert len(planted_ones) >= 20
