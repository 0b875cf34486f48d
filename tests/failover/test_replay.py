"""`tandemq classifier replay` and `test`: what was asked can be asked again, and what was not, for a rehearsal."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from failover.classifier import Answer, Outcome, Verdict
from failover.journal import FILE_NAME, call_line, outcome_line
from failover.runner import CANCELLED
from tandemq.cli import root
from tests.failover.support import COMMANDS, event, script

pytestmark = pytest.mark.process


def invoke(*arguments: str) -> Result:
    return CliRunner().invoke(root, ["classifier", *arguments])


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    lines = [
        call_line(event(), Answer("e1", 3, None, "exit code 1: it failed", by="command")),
        call_line(event(attempt=2), Answer("e1", 3, Verdict.ASSUME_MASTERSHIP, by="command")),
        outcome_line(Outcome("e1", "served", "epoch 8")),
        call_line(event(event_id="e2"), Answer("e2", 3, None, CANCELLED, by="command")),
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines)
    (tmp_path / FILE_NAME).write_text(text + '{"kind": "call", "ev')
    return tmp_path


def rows(result: Result) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(result.stdout)["calls"]
    return found


def test_the_same_verdicts_again(tmp_path: Path, journal: Path) -> None:
    """A command that fails at the first attempt and assumes at the second."""
    path = script(tmp_path, 'case "$(cat)" in *\'"attempt":1,\'*) exit 1 ;; *) exit 21 ;; esac\n')
    result = invoke("replay", str(journal), "-o", "json", "--", path)
    assert result.exit_code == 0, result.output
    assert [(row["recorded"], row["now"], row["same"], row["effect"]) for row in rows(result)] == [
        ("NO_ANSWER", "NO_ANSWER", True, "served"),
        ("ASSUME_MASTERSHIP", "ASSUME_MASTERSHIP", True, "served"),
        ("NO_ANSWER", "NO_ANSWER", True, ""),
    ]
    assert f"passed over {FILE_NAME}:5" in result.stderr  # the torn last line
    text = (journal / FILE_NAME).read_text()
    assert text.count("\n") == 4, "replay writes nothing"


def test_other_verdicts_are_shown_and_fail(tmp_path: Path, journal: Path) -> None:
    path = script(tmp_path, "exit 23\n")
    result = invoke("replay", str(journal / FILE_NAME), "-o", "json", "--event-id", "e1", "--", path)
    assert result.exit_code == 1
    assert [(row["recorded"], row["now"], row["same"]) for row in rows(result)] == [
        ("NO_ANSWER", "WAIT", False),
        ("ASSUME_MASTERSHIP", "WAIT", False),
    ]
    table = invoke("replay", str(journal), "-o", "table", "--", path)
    assert table.stdout.splitlines()[-1] == "2 of 3 verdicts differ"  # the cancelled one had none


def test_what_cannot_be_replayed_is_said(tmp_path: Path, journal: Path) -> None:
    for arguments in (["/no/such/place"], [str(tmp_path), "--event-id", "e9"]):
        result = invoke("replay", *arguments, "--", "true")
        assert result.exit_code == 1
        assert "error: NOT_FOUND" in result.stderr


def test_the_configured_classifier_is_replayed(tmp_path: Path, journal: Path) -> None:
    config = configured(tmp_path, [str(COMMANDS / "decide.py")])
    result = invoke("replay", str(journal), "--event-id", "e1", "--config", config, "-o", "json")
    assert [row["now"] for row in rows(result)] == ["ASSUME_MASTERSHIP"] * 2


def configured(folder: Path, command: list[str], more: str = "") -> str:
    path = folder / "tandemq.toml"
    path.write_text(
        f'[manager]\nmember = "left"\ndata_dir = "{folder}/data"\npair = "pears"\n'
        '[peer]\nmember = "right"\naddress = "10.0.0.2:7601"\nendpoint = "10.0.0.2:7600"\n'
        f'[failover]\nclassifier = "command"\ncommand = {json.dumps(command)}\n{more}'
    )
    return str(path)


def test_a_rehearsal_shows_verdict_and_ruling(tmp_path: Path) -> None:
    path = script(tmp_path, "exit 21\n")
    result = invoke("test", "--event", "PEER_LOST", "--dry-run", "-o", "json", "--", path)
    facts = json.loads(result.stdout)
    assert result.exit_code == 0
    assert (facts["verdict"], facts["safety_class"], facts["would"]) == ("ASSUME_MASTERSHIP", "C", "wait")
    assert "an operator must confirm it" in facts["because"]
    assert facts["input"]["event"] == "PEER_LOST"


def test_a_rehearsal_of_the_configured_classifier(tmp_path: Path) -> None:
    file = configured(tmp_path, [script(tmp_path, f"cat > {tmp_path}/seen; exit 20\n")], "accept_unproven = true\n")
    result = invoke("test", "--event", "PEER_LOST", "--role", "master", "--config", file, "-o", "json")
    facts = json.loads(result.stdout)
    assert (facts["verdict"], facts["would"]) == ("CONTINUE_AS_MASTER", "claim")
    seen = json.loads((tmp_path / "seen").read_text())
    assert (seen["pair"], seen["self"]["member"], seen["peer"]["address"]) == ("pears", "left", "10.0.0.2:7601")
    refused = invoke("test", "--event", "PEER_LOST", "--data", "stale", "--config", file, "-o", "json")
    assert json.loads(refused.stdout)["would"] == "refuse"


def test_no_answer_fails_a_rehearsal(tmp_path: Path) -> None:
    result = invoke("test", "--event", "PREFLIGHT", "-o", "table", "--", script(tmp_path, "exit 1\n"))
    assert result.exit_code == 1
    assert "NO_ANSWER" in result.stdout
    assert "exit code 1: it failed" in result.stdout


def test_usage_is_told_apart_from_failure(tmp_path: Path) -> None:
    assert invoke("test", "--event", "PEER_ASLEEP", "--", "true").exit_code == 2
    assert invoke("test", "--", "true").exit_code == 2
    assert invoke("check").exit_code == 2
    assert invoke("schema", "nothing").exit_code == 2
    missing = invoke("test", "--event", "PEER_LOST", "--config", str(tmp_path / "none.toml"))
    assert (missing.exit_code, "error: CONFIG_ERROR" in missing.stderr) == (1, True)


@pytest.mark.parametrize("command", ["check", "test", "replay", "schema"])
def test_help_has_an_example(command: str) -> None:
    assert f"Example: tandemq classifier {command}" in invoke(command, "--help").stdout
