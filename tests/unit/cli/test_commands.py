"""What the command line promises without a server: help, exit codes, messages, formats."""

from __future__ import annotations

import json
import re
import socket
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from tandemq.cli import COMMANDS, root
from tandemq.cli.failure import Failure
from tandemq.cli.msg import _bodies
from tandemq.cli.output import print_rows
from tandemq.cli.params import DURATION, MOMENT, PROPERTY, SIZE, TYPED_PROPERTY
from tandemq.cli.session import failure_of
from tandemq.errors import TimedOut, Unreachable, error_of
from tests.support.starvation import Timely

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
    examples = [each for each in re.split(r"\n *\n", result.output) if "Example:" in each]
    broken = [line for each in examples for line in each.splitlines() if "tandemq " not in line]
    assert not broken, "an example is a line each, to be copied"


@pytest.mark.parametrize("path", [path for path, _ in LEAVES], ids=" ".join)
def test_every_command_says_its_exit_codes(runner: CliRunner, path: tuple[str, ...]) -> None:
    said = " ".join(runner.invoke(root, [*path, "--help"]).output.split())
    assert said.count("Exit codes: 0 ") == 1
    codes = set(re.findall(r"\b\d\b", said.partition("Exit codes:")[2]))
    assert {"0", "1", "2"} <= codes
    assert ("5" in codes) == (path[0] in ("twin", "pipeline", "doctor"))


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
        (["msg", "send", "orders", "one", "two", "--dedup-id", "x", "--target", NOBODY], 2),
        (["msg", "send", "orders", "--lines", "-", "--dedup-id", "x", "--target", NOBODY], 2),
        (["msg", "send", "orders", "one", "--deliver-at", "tomorrow", "--target", NOBODY], 2),
        (["msg", "send", "orders", "one", "--property", "weight:=heavy", "--target", NOBODY], 2),
        (["msg", "receive", "orders", "--wait", "5"], 2),
        (["msg", "receive", "orders", "--target", "::"], 2),
        (["queue", "rm", "orders"], 2),
        (["queue", "rm", "orders", "--instance", "--yes"], 2),
        (["queue", "rm", "orders", "--instance", "--yes", "--target", f"{NOBODY},{NOBODY}"], 2),
        (["queue", "rm", "orders", "--instance", "--if-empty", "--yes", "--target", NOBODY], 2),
        (["queue", "purge", "orders"], 2),
        (["queue", "move", "orders"], 2),
        (["queue", "move", "orders", "old", "--max", "0"], 2),
        (["queue", "redrive", "orders.dead", "--request-id", "12", "--target", NOBODY], 2),
        (["queue", "delete-messages", "orders", "--yes"], 2),
        (["queue", "delete-messages", "orders", "--where", "a = 1"], 2),
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


@pytest.mark.clock
@pytest.mark.parametrize("arguments", [["queue", "move", "orders", "old"], ["queue", "ls"]], ids=str)
def test_what_tries_until_its_time_is_over_says_that_nobody_answers(runner: CliRunner, arguments: list[str]) -> None:
    with Timely(0.1):
        result = runner.invoke(root, [*arguments, "--target", NOBODY, "--timeout", "200ms"])
        assert result.exit_code == 3, result.output
    assert "error: " in result.stderr
    assert "cause: " in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        *(["msg", "send", "orders", "x", option, "a=\udcff"] for option in ("--property", "--dedup-id", "--reply-to")),
        ["msg", "receive", "orders", "--where", "a = '\udcff'"],
        ["msg", "browse", "orders\udcff"],
        ["msg", "reply", "prices", "\udcff"],
        ["queue", "create", "orders", "--label", "a=\udcff"],
    ],
    ids=str,
)
def test_an_argument_that_is_no_utf_8_is_refused_in_words(runner: CliRunner, arguments: list[str]) -> None:
    result = runner.invoke(root, [*arguments, "--target", NOBODY, "--timeout", "100ms"])
    assert result.exit_code == 2, result.output
    assert "is not UTF-8" in result.stderr


def test_a_body_may_be_any_bytes(runner: CliRunner) -> None:
    result = runner.invoke(root, ["msg", "send", "orders", "x\udcff", "--target", NOBODY, "--timeout", "100ms"])
    # Nobody answers: that was tried (3), or there was no time for it (4). Refused input would be 2.
    assert result.exit_code in (3, 4), result.stderr
    assert list(_bodies(("x\udcff",), None, whole=False)) == [b"x\xff"]


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


def test_dev_with_a_taken_port_names_it_and_no_logs_that_nobody_wrote(
    runner: CliRunner, tmp_path: Path, base_port: int
) -> None:
    with socket.create_server(("127.0.0.1", base_port + 2)) as taken:  # where member a has its HTTP port
        port = taken.getsockname()[1]
        result = runner.invoke(root, ["dev", "--data-dir", str(tmp_path / "pair"), "--base-port", str(port - 2)])
    assert result.exit_code == 1, result.output
    assert result.stderr.startswith(f"error: PORT_IN_USE\n  cause: port {port} is in use")
    assert "next:  stop what listens there" in result.stderr
    assert "logs" not in result.stderr
    assert not (tmp_path / "pair").exists()


def test_a_command_that_is_advised_can_be_typed_as_it_stands(runner: CliRunner, tmp_path: Path) -> None:
    directory = tmp_path / "my pair"
    directory.mkdir()
    result = runner.invoke(root, ["dev", "--data-dir", str(directory), "stop"])
    assert f"start it with `tandemq dev --data-dir '{directory}'`" in result.stderr


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


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("colour=red", ("colour", "red")),
        ("note=weight:=2", ("note", "weight:=2")),
        ("empty=", ("empty", "")),
        ("weight=2", ("weight", "2")),
        ("weight:=2", ("weight", 2)),
        ("weight:=-9223372036854775808", ("weight", -(1 << 63))),
        ("weight:=2.0", ("weight", 2.0)),
        ("weight:=1e3", ("weight", 1000.0)),
        ("fragile:=true", ("fragile", True)),
        ("fragile:=false", ("fragile", False)),
    ],
)
def test_a_property_has_the_type_that_is_written(text: str, expected: tuple[str, object]) -> None:
    found = TYPED_PROPERTY.convert(text, None, None)
    assert found == expected
    assert type(found[1]) is type(expected[1])


@pytest.mark.parametrize("text", ["=b", ":=2", "weight", "weight:"])
def test_a_property_needs_a_name_and_a_value(text: str) -> None:
    with pytest.raises(click.BadParameter, match="write colour=red for text, weight:=2 for a number"):
        TYPED_PROPERTY.convert(text, None, None)


@pytest.mark.parametrize("text", ["", "heavy", "True", "null", "NaN", "1e999", "9" * 19, "9" * 400, "0x10", "٣", '"a"'])
def test_a_typed_property_of_no_known_type_is_refused_with_examples(text: str) -> None:
    with pytest.raises(
        click.BadParameter, match=r"write weight:=2, weight:=2\.5, weight:=true .*; weight=VALUE for text"
    ):
        TYPED_PROPERTY.convert(f"weight:={text}", None, None)


@pytest.mark.parametrize(
    "text", ["2030-12-24T18:00:00+01:00", "2030-12-24T17:00:00Z", "2030-12-24t17:00:00.000z", " 2030-12-24 17:00:00Z"]
)
def test_moments(text: str) -> None:
    assert MOMENT.convert(text, None, None) == datetime(2030, 12, 24, 17, tzinfo=UTC)


@pytest.mark.parametrize(
    "text",
    [
        *("", "tomorrow", "1900000000", "2030-12-24", "2030-12-24T18:00:00"),
        *("2030-13-24T18:00:00Z", "2030-12-24T25:00:00Z", "2030-12-24T18:00:00+99:00"),
        *("1969-12-31T23:59:59Z", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-01:00"),
    ],
)
def test_a_wrong_moment_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(click.BadParameter, match=r"write 2030-12-24T18:00:00Z or"):
        MOMENT.convert(text, None, None)


def test_json_has_a_schema_version_and_lines_are_objects(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": "a", "length": 1}, {"name": "b", "length": 2}]
    print_rows(rows, "queues", "json")
    assert json.loads(capsys.readouterr().out) == {"schema_version": 1, "queues": rows}
    print_rows(rows, "queues", "jsonl")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == rows
    print_rows(rows, "queues", "table")
    assert "length" in capsys.readouterr().out


@pytest.mark.parametrize("kind", [DURATION, SIZE])
@pytest.mark.parametrize("text", ["9" * 400 + "s", "9" * 5000, "٣s", "999999999999999d", "9" * 19 + "g"])
def test_numbers_that_mean_nothing_are_refused_in_words(kind: click.ParamType, text: str) -> None:
    with pytest.raises(click.UsageError, match=r"is not a|is longer than 36500d|is more than 1073741824GiB"):
        kind.convert(text, None, None)
