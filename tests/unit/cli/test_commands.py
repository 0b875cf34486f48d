"""What the command line promises without a server: help, exit codes, messages, formats."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tandemq.cli import COMMANDS, root
from tandemq.cli.failure import Failure
from tandemq.cli.output import print_rows
from tandemq.cli.params import DURATION, PROPERTY, SIZE
from tandemq.cli.session import failure_of
from tandemq.errors import TimedOut, Unreachable, error_of

NOBODY = "127.0.0.1:9"  # the discard port: nobody listens


@pytest.fixture
def runner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> CliRunner:
    monkeypatch.setenv("TANDEMQ_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("TANDEMQ_TARGET", raising=False)
    monkeypatch.chdir(tmp_path)
    return CliRunner()


def leaves(command: click.Command, path: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    if isinstance(command, click.Group):
        with click.Context(command) as context:
            for name in command.list_commands(context):
                inner = command.get_command(context, name)
                assert inner is not None
                yield from leaves(inner, (*path, name))
        if command.invoke_without_command:
            yield path, command
    else:
        yield path, command


LEAVES = list(leaves(root))


@pytest.mark.parametrize("path", [path for path, _ in LEAVES], ids=" ".join)
def test_every_command_has_help_with_an_example(runner: CliRunner, path: tuple[str, ...]) -> None:
    result = runner.invoke(root, [*path, "--help"])
    assert result.exit_code == 0
    assert f"tandemq {path[0]}" in result.output.partition("Example:")[2]


def test_the_list_of_commands_loads_none_of_them() -> None:
    code = "import sys, tandemq.cli as c; c.root(['--help'], standalone_mode=False); print(sorted(sys.modules))"
    output = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    for name in COMMANDS:
        assert name in output
    loaded = output.splitlines()[-1]
    for module in ("grpc", "google.protobuf", "rich", "msgspec", "tandemq.cli.queue"):
        assert f"'{module}'" not in loaded


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["version"], 0),
        (["config", "check", "--config", "missing.toml"], 1),
        (["serve"], 1),
        (["witness", "--data-dir", "w", "--listen", "0.0.0.0:7620"], 1),
        (["nonsense"], 2),
        (["msg", "send", "orders"], 2),
        (["msg", "send", "orders", "text", "--lines", "-"], 2),
        (["msg", "send", "orders", "--lines", "missing.txt", "--target", NOBODY], 2),
        (["msg", "receive", "orders", "--wait", "5"], 2),
        (["msg", "receive", "orders", "--target", "::"], 2),
        (["queue", "rm", "orders"], 2),
        (["queue", "purge", "orders"], 2),
        (["queue", "update", "orders", "--target", NOBODY], 2),
        (["demo", "--input", "missing.txt"], 2),
        (["pair", "status"], 3),
        (["pair", "failover", "--target", NOBODY], 2),
        (["pair", "decide", "perhaps", "--reason", "x"], 2),
        (["pair", "decide", "assume"], 2),
        (["pair", "maintenance", "perhaps"], 2),
        (["pair", "resolve", "--reason", "x"], 2),
        (["pair", "history", "--limit", "0"], 2),
        (["pair", "handoff", "--hold", "5"], 2),
        (["pair", "verify", "--range", "0"], 2),
        *((["pair", *order, "--target", NOBODY], 3) for order in (["handoff"], ["pause"], ["why"], ["history"])),
        (["pair", "decide", "assume", "--reason", "x", "--yes", "--target", NOBODY], 3),
        (["pair", "failover", "--force", "--target", NOBODY], 3),
        (["witness"], 2),
        (["witness", "status", "--target", NOBODY], 3),
        (["witness", "status", "--target", "::"], 2),
        (["witness", "set-epoch", "--pair", "p", "--epoch", "0", "--holder", "a", "--reason", "x"], 2),
        (["witness", "set-epoch", "--pair", "p", "--epoch", "2", "--holder", "a"], 2),
        (["pair", "status", "--target", NOBODY], 3),
        (["queue", "ls", "--target", NOBODY, "--timeout", "100ms"], 3),
        (["dev", "--data-dir", "nowhere", "status"], 3),
    ],
    ids=str,
)
def test_exit_codes(runner: CliRunner, arguments: list[str], code: int) -> None:
    result = runner.invoke(root, arguments)
    assert result.exit_code == code, result.output
    if code in (1, 3):
        assert "error: " in result.stderr
        assert "cause: " in result.stderr


@pytest.mark.parametrize(
    ("reason", "code", "advice"),
    [("QUEUE_NOT_FOUND", 1, "tandemq queue create"), ("QUEUE_FULL", 1, "--max-length"), ("BAD_NAME", 1, "")],
)
def test_a_refusal_keeps_its_reason(reason: str, code: int, advice: str) -> None:
    failure = failure_of(error_of(reason, "what happened"), "a:1")
    assert (failure.reason, failure.exit_code, failure.message) == (reason, code, "what happened")
    assert advice in failure.next_step


def test_unreachable_and_timed_out_have_codes_of_their_own() -> None:
    assert failure_of(Unreachable("UNREACHABLE", "refused"), "a:1").exit_code == 3
    assert failure_of(TimedOut("DEADLINE_EXCEEDED", "late"), "a:1").exit_code == 4
    assert failure_of(TimedOut("NO_PROGRESS", "no answer for 1 s; last: UNREACHABLE: no"), "a:1").exit_code == 3


def test_a_failure_shows_reason_cause_and_next_step(capsys: pytest.CaptureFixture[str]) -> None:
    Failure("QUEUE_FULL", "orders holds 10", "receive some").show()
    assert capsys.readouterr().err == "error: QUEUE_FULL\n  cause: orders holds 10\n  next:  receive some\n"


@pytest.mark.parametrize(
    ("text", "expected"), [("500ms", 500), ("5s", 5000), ("1.5s", 1500), ("2m", 120_000), ("1h", 3_600_000), ("0", 0)]
)
def test_durations(text: str, expected: int) -> None:
    assert DURATION.convert(text, None, None) == expected


@pytest.mark.parametrize("text", ["5", "-1s", "s", "5 parsecs", ""])
def test_wrong_durations(text: str) -> None:
    with pytest.raises(click.BadParameter, match="write a number and a unit"):
        DURATION.convert(text, None, None)


def test_sizes_and_properties() -> None:
    assert [SIZE.convert(text, None, None) for text in ("512", "64KiB", "1m", "8GiB")] == [512, 65536, 1 << 20, 8 << 30]
    assert PROPERTY.convert("a=b=c", None, None) == ("a", "b=c")
    with pytest.raises(click.BadParameter):
        PROPERTY.convert("=b", None, None)


def test_json_has_a_schema_version_and_lines_are_objects(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": "a", "length": 1}, {"name": "b", "length": 2}]
    print_rows(rows, "queues", "json")
    assert json.loads(capsys.readouterr().out) == {"schema_version": 1, "queues": rows}
    print_rows(rows, "queues", "jsonl")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == rows
    print_rows(rows, "queues", "table")
    assert "length" in capsys.readouterr().out
