"""`tandemq classifier check` passes a command that keeps the contract and finds each thing that a wrong one does."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from failover.check import HANGS_MAX, Bench, cases
from failover.classifier import EventKind
from failover.marks import Role
from failover.rehearsal import REHEARSED, sample
from tandemq.cli import root
from tandemq.cli.classifier import KINDS
from tests.failover.support import COMMANDS, ECHO_ID, WRONG, Wrong, script
from tests.support.until import OUTER_S

pytestmark = pytest.mark.process

# Commands that no single good event shows up: each keeps the contract where it matters least.
SUBTLE: dict[str, Wrong] = {
    "assumes on any copy": Wrong(
        'case "$(cat)" in *\'"role":"REPLICA"\'*\'}\') exit 21 ;; *) exit 23 ;; esac\n', "", "does not assume on a copy"
    ),
    "assumes as master": Wrong(
        'case "$(cat)" in *\'"data":"STALE"\'*|*DAMAGED*|*SYNCING*) exit 23 ;; *\'}\') exit 21 ;; *) exit 23 ;; esac\n',
        "",
        "answers PEER_LOST as MASTER",
    ),
    "promotes without reading": Wrong("exit 20\n", "", "promotes nobody on empty input"),
    "promotes on half an event": Wrong(
        '[ "$(head -c 20 | wc -c)" = 20 ] && exit 20 || exit 23\n', "", "promotes nobody on input that is cut off"
    ),
    "knows only what it knows": Wrong(
        'case "$(cat)" in *of_a_later_version*) exit 1 ;; *) exit 23 ;; esac\n',
        "",
        "ignores fields that it does not know",
    ),
    "takes small events only": Wrong('[ "$(wc -c)" -lt 100000 ] && exit 23 || exit 1\n', "", "answers a large event"),
    "answers once": Wrong(
        'case "$(cat)" in *\'"attempt":1,\'*) exit 23 ;; *\'"attempt"\'*) exit 1 ;; *) exit 23 ;; esac\n',
        "",
        "answers another attempt",
    ),
    "says one id for all": Wrong(
        ECHO_ID + 'case "$id" in *\\\\*) exit 23 ;; *-*) ;; *) exit 23 ;; esac\n'
        'echo \'{"event_id": "rehearsal-1"}\'; exit 23\n',
        "",
        "answers PEER_LOST",
    ),
    "quotes badly": Wrong(
        ECHO_ID + 'echo "{\\"event_id\\":\\"$id\\"}"; exit 23\n', "", "repeats the event's own id, if it writes JSON"
    ),
    "ignores SIGTERM": Wrong("trap '' TERM\ncat > /dev/null\nexit 23\n", "", "ends at SIGTERM"),
    "leaves a child": Wrong("cat > /dev/null\nsleep 600 &\nexit 23\n", "", "leaves no process behind"),
}


def check(*command: str, limit: str = "10s") -> tuple[int, dict[str, dict[str, object]], Result]:
    """Exit code, and the cases by name."""
    result = CliRunner().invoke(root, ["classifier", "check", "--limit", limit, "-o", "json", "--", *command])
    cases = {case["case"]: case for case in json.loads(result.stdout)["cases"]}
    return result.exit_code, cases, result


@pytest.mark.slow
@pytest.mark.parametrize("name", ["decide.sh", "decide.py"])
def test_a_good_command_passes(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_CHECK", "true")
    code, cases, _ = check(str(COMMANDS / name))
    assert {case: row["detail"] for case, row in cases.items() if row["result"] != "pass"} == {}
    assert code == 0
    assert len(cases) > 20


@pytest.mark.parametrize("name", ["decide.sh", "decide.py"])
def test_the_examples_of_the_documentation_are_these(name: str) -> None:
    documented = (Path(__file__).parents[2] / "docs" / "OPERATIONS.md").read_text()
    assert f"\n{(COMMANDS / name).read_text()}```\n" in documented


def test_a_command_that_always_waits_passes(tmp_path: Path) -> None:
    code, cases, _ = check(script(tmp_path, "exit 23\n"))
    assert code == 0
    took = [row["ms"] for row in cases.values()]
    assert all(isinstance(ms, int) and 0 <= ms < 1000 * OUTER_S for ms in took), "how long it took, not when it was"


async def first_problem(path: str, limit_s: float, only: str = "") -> tuple[str, str]:
    """The first case that finds something, of those that begin so, and what: a command is not run for the others."""
    bench = Bench([path], limit_s)
    for name, work in cases():
        if name.startswith(only) and (problem := await work(bench)) is not None:
            return name, problem
    return "", ""


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_each_wrong_command_fails(tmp_path: Path, wrong: Wrong) -> None:
    case, problem = await first_problem(script(tmp_path, wrong.text), 0.3 if "no end" in wrong.reason else 20.0)
    assert case.startswith(wrong.case)
    assert problem


@pytest.mark.parametrize("wrong", SUBTLE.values(), ids=SUBTLE)
async def test_each_subtly_wrong_command_fails(tmp_path: Path, wrong: Wrong) -> None:
    path = script(tmp_path, wrong.text)
    assert await first_problem(path, 20.0, wrong.case) != ("", "")


@pytest.mark.slow
def test_what_a_case_finds_is_what_the_command_line_says(tmp_path: Path) -> None:
    """Of one that is wrong in some cases alone: each that finds something is there, with its words."""
    wrong = SUBTLE["quotes badly"]
    path = script(tmp_path, wrong.text)
    code, found, _ = check(path)
    failed = {case: row["detail"] for case, row in found.items() if row["result"] == "FAIL"}
    assert code == 1
    assert asyncio.run(first_problem(path, 20.0)) in failed.items()


def test_one_that_hangs_is_not_run_thirty_times(tmp_path: Path) -> None:
    code, cases, _ = check(script(tmp_path, "exec sleep 600\n"), limit="100ms")
    assert code == 1
    assert [row["result"] for row in cases.values()].count("FAIL") == HANGS_MAX
    assert [row["detail"] for row in cases.values()][-1] == "it hangs"


def test_one_that_cannot_start_is_run_never() -> None:
    code, cases, _ = check("/no/such/file")
    assert code == 1
    assert [(row["result"], row["detail"]) for row in cases.values()] == [
        ("FAIL", "/no/such/file: not found; give its whole path")
    ]


def test_people_get_a_table_and_a_sum(tmp_path: Path) -> None:
    arguments = ["classifier", "check", "-o", "table", "--limit", "10s", "--", script(tmp_path, "exit 1\n")]
    result = CliRunner().invoke(root, arguments)
    assert result.exit_code == 1
    assert "FAIL: answers PEER_LOST as REPLICA IN_SYNC: exit code 1: it failed" in result.stdout
    assert "cases pass" in result.stdout.splitlines()[-1]


def test_every_kind_of_event_is_rehearsed() -> None:
    assert set(REHEARSED) == set(EventKind)
    assert set(KINDS) == {kind.value for kind in EventKind}, "the command cannot try each"
    for kind in EventKind:
        event = sample(kind)
        assert event.kind is kind
        assert event.cause != ""
    assert sample(EventKind.PEER_LOST, Role.MASTER).is_master
