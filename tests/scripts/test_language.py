"""The language of the scripts: what is wrong is named, a difference is shown, and no rule holds by text alone."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support import script
from tests.support.asking import Story
from tests.support.grammar import Grammar
from tests.support.pair import drive
from tests.test_handoff_rules import RULES as HANDOFF_RULES
from tests.test_rules import RULES

README = script.SCRIPTS / "README.md"
TOLD = script.scripts("stories", "protocol", "units", "reactions", "sides")


def run(text: str) -> list[list[str]]:
    return drive(script.play(script.parse("x.txt", text), Story()))


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("crush a", r"x.txt:3: no command 'crush a'; known: .*crash MEMBER"),
        ("crash", r"x.txt:3: no command 'crash'; known: crash MEMBER; crash MEMBER after its write"),
        ("crash c", r"x.txt:3: 'c' in 'crash MEMBER' must be a or b"),
        ("wait long", r"x.txt:3: 'long' in 'wait MS' must be milliseconds: a number"),
        ("deliver a>c", r"x.txt:3: 'a>c' in 'deliver WAY' must be a>b or b>a"),
        ("deliver a>b up to SYNC", r"'SYNC' in 'deliver WAY up to FRAME' must be a frame: HELLO, .*SYNC_BEGIN"),
        ("deliver a>b", r"x.txt:3: no frame is on its way from a to b"),
        ("lose claim of a", r"x.txt:3: a has no claim under way; under way: nothing"),
        ("start a", r"x.txt:3: a is up already"),
        ("connect", r"x.txt:3: a, b has not noticed the end of the old connection"),
        ("repeat op9 to a", r"x.txt:3: nobody has sent 'op9'; sent: op0"),
        ("release adds", r"x.txt:3: adds are not held; held: nothing"),
        ("run until a is in TAKING", r"x.txt:3: a never comes to TAKING; its handoff is in MASTER"),
        ("put the image back for a", r"x.txt:3: no image of the disk of a was kept"),
    ],
)
def test_what_cannot_be_run_is_named(line: str, says: str) -> None:
    with pytest.raises(script.ScriptError, match=says):
        run(f"# one\ngiven a pair that holds op0\n{line}\n----\n")


def test_a_command_without_an_expectation_is_named() -> None:
    with pytest.raises(script.ScriptError, match=r"x.txt:2: ---- must follow the command 'given a pair'"):
        script.parse("x.txt", "# one\ngiven a pair\n")
    with pytest.raises(script.ScriptError, match=r"x.txt:1: ---- without a command"):
        script.parse("x.txt", "----\nok\n")


def test_a_script_that_prints_something_else_fails_with_the_difference() -> None:
    known = script.parse("x.txt", "given a pair\nsend op1 to a and wait\n----\nindex 9 epoch 1 copies 2\n")
    printed = drive(script.play(known, Story()))
    with pytest.raises(script.DifferentError, match=r"(?s)x.txt prints.*-index 9 epoch 1.*\+index 1 epoch 1"):
        script.compare(known, printed)


def test_what_is_rewritten_is_the_same_script_and_fits(tmp_path: Path) -> None:
    path = tmp_path / "x.txt"
    path.write_text("# prose stays\n\ngiven a pair\n----\n\n# so does this\nsend op1 to a and wait\n----\nold\n")
    known = script.parse("x.txt", path.read_text())
    printed = drive(script.play(known, Story()))
    assert script.rewrite(path, known, printed)
    text = path.read_text()
    assert text.startswith("# prose stays\n\ngiven a pair\n----\nok\n\n# so does this\n")
    again = script.parse("x.txt", text)
    script.compare(again, printed)
    assert not script.rewrite(path, again, printed)


@pytest.mark.parametrize(
    "wrong",
    [
        "op0 is unanswered",
        "op0 has copies 1",
        "a does not serve",
        "b serves",
        "a is REPLICA",
        "the copy of a is SOLE",
        "at most epoch 0",
        "the register names b",
    ],
)
def test_an_expectation_that_does_not_hold_fails_and_says_where(wrong: str) -> None:
    with pytest.raises(AssertionError) as caught:
        run(f"given a pair that holds op0\nexpect {wrong}\n----\n")
    assert f"at x.txt:2: expect {wrong}" in caught.value.__notes__[0]


def test_an_expectation_of_what_is_not_there_fails() -> None:
    with pytest.raises(AssertionError, match="not a pair"):
        run("given a pair\ncrash a\nexpect a pair\n----\n")
    with pytest.raises(AssertionError, match="op1 is not answered"):
        run("given a pair\nhold disk-b\nsend op1 to a\nrun\nexpect op1 is answered\n----\n")
    with pytest.raises(AssertionError, match="the operator at a heard nothing"):
        run("given a pair\nbegin a handoff at a\nexpect the operator at a is told done\n----\n")


def test_a_message_that_is_lost_fails_at_the_end_unless_an_operator_accepts_it() -> None:
    loses = (
        "given a pair that holds op0\ncrash b\na is refused by its peer\nwait 500\nsend op1 to a\nrun\ncrash a\n"
        "new disk for a\nstart b\nb is refused by its peer\nwait 500\nforce b\nwait 500\n"
    )
    with pytest.raises(AssertionError, match=r"acknowledged and lost.*op1"):
        run(loses + "heal\n----\n")
    run(loses + "accept the loss of op1\nheal\n----\n")


@pytest.mark.parametrize("path", TOLD, ids=lambda path: path.stem)
def test_every_script_says_its_story_what_goes_wrong_and_the_rule(path: Path) -> None:
    prose = script.load(path).prose
    text = "\n".join(prose)
    assert prose[0], "the first line is the name of the story"
    assert re.search(r"(?m)^Without: ", text), "say what goes wrong without the rule"
    rule = re.search(r"(?m)^Rule: (.*?)\. ", text)
    assert rule is not None, "name the rule"
    known = (script.ROOT / "docs/PROTOCOL.md").read_text() + (script.ROOT / "docs/requirements.toml").read_text()
    for name in re.findall(r"\b[PR]\d+\b", rule[1]):
        assert re.search(rf"\b{name}\b", known), f"{name} is no rule of docs/PROTOCOL.md or docs/requirements.toml"


@pytest.mark.parametrize("path", script.scripts("stories"), ids=lambda path: path.stem)
def test_every_step_of_a_story_is_told_in_prose(path: Path) -> None:
    told = False
    for part in script.load(path).parts:
        if isinstance(part, script.Step):
            line, text = part.commands[0]
            assert told or text in ("given a pair that holds op0", "heal"), f"{path}:{line}: say what happens here"
        told = isinstance(part, str) and part.startswith("#")


def test_each_of_the_thirteen_stories_fails_without_its_rule() -> None:
    """`tests/test_rules.py` and `tests/test_handoff_rules.py` show it; here that they leave none out."""
    stories = {f"stories/{path.stem}" for path in script.scripts("stories")}
    assert len(stories) == 13
    assert stories <= {rule.script for rule in (*RULES, *HANDOFF_RULES)}


def index() -> str:
    """Every script: where, what it is called, its rules."""
    lines = ["| script | story | rules |", "|---|---|---|"]
    for path in TOLD:
        prose = script.load(path).prose
        where = f"{path.parent.name}/{path.name}"
        rules = next(line for line in prose if line.startswith("Rule: ")).removeprefix("Rule: ").split(".")[0]
        lines.append(f"| [{where}]({where}) | {prose[0]} | {rules} |")
    return "\n".join(lines) + "\n"


@pytest.mark.parametrize(("mark", "made"), [("scripts", index), ("commands", lambda: Grammar(Story()).table())])
def test_the_readme_lists_every_script_and_every_command(mark: str, made: Callable[[], str]) -> None:
    begin, end = f"<!-- {mark} -->\n", f"<!-- end of {mark} -->"
    text = README.read_text()
    head, rest = text.split(begin)
    now = head + begin + made() + end + rest.split(end)[1]
    if script.is_rewriting() and now != text:
        README.write_text(now)
        pytest.skip("rewritten: read the difference before it is committed")
    assert text == now, "REWRITE=1 pytest tests/scripts/test_language.py writes it"
