"""What strangers wrote, on a terminal, in a log and on a page: it is read, and obeyed by nothing."""

from __future__ import annotations

import contextlib
import io
import json
import logging
import re
import sys
import unicodedata
from collections.abc import Callable
from functools import partial
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from click.testing import CliRunner
from rich.console import Group
from rich.live import Live

from tandemq import escaping
from tandemq.cli import output, root
from tandemq.cli.explain import Happening
from tandemq.cli.failure import Failure
from tandemq.cli.logs import JsonFormatter, PlainFormatter, readable
from tandemq.cli.pair_history import event_table
from tandemq.cli.pair_table import show, status_table
from tandemq.cli.terminal import Column, Terminal, fitted, shared_out, styled
from tandemq.cli.view import DomainView, MemberView, PairView

MEAN = (
    "[/x]",
    "[link=http://stranger.example]here[/link]",
    "[bold red]ready[/]",
    ":skull:",
    "\x1b[2Jgone",
    "\x1b[31mred",
    "\x1b]0;title\x07",
    "\x1b]52;c;cm0gLXJm\x07",
    "\x9b31mred",
    "a\rb\nc\td\x00e\x7f",
    "\u202eksid eht ll\u202c",
    "nothing\u200bhere\ufeff",
    "caf\udce9",
    "\U000e0041\U000e0042",
    "a\u2028b",
)
OBEYED = {"Cc", "Cf", "Cs", "Zl", "Zp"}


def harmless(text: str) -> bool:
    """Nothing in it that a terminal obeys or hides, beside ends of lines and styles of ours."""
    bare = re.sub("\x1b\\[[0-9;?]*[a-zA-Z]", "", text).replace("\n", "")
    return not [letter for letter in bare if unicodedata.category(letter) in OBEYED]


class Tty(io.StringIO):
    """A terminal that keeps what it was sent. Rich colours what goes to one."""

    def isatty(self) -> bool:
        return True


@pytest.fixture(params=[True, False], ids=["terminal", "pipe"])
def shown(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Callable[[Callable[[], None]], str]:
    """What something prints; in plain letters, so that every escape in it is a stranger's."""
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setattr("tandemq.cli.terminal.WIDTH_ELSEWHERE", 300)

    def printed(work: Callable[[], None]) -> str:
        stream = Tty() if request.param else io.StringIO()
        with contextlib.redirect_stdout(stream):
            work()
        return stream.getvalue()

    return printed


def test_all_that_unicode_hides_or_obeys_is_escaped() -> None:
    hidden = [chr(number) for number in range(sys.maxunicode + 1) if unicodedata.category(chr(number)) in OBEYED]
    assert [letter for letter in hidden if not harmless(escaping.escaped(letter))] == []
    assert [letter for letter in hidden if not escaping.escaped(letter).isascii()] == []


@pytest.mark.parametrize("text", ["plain [words]", "Grüße, 日本語, Ελλάδα, हिन्दी", "tab\\t is two letters", "😀 é", ""])
def test_what_people_write_stays_as_it_is(text: str) -> None:
    assert escaping.escaped(text) == text
    assert escaping.escaped_lines(f"{text}\n\t{text}") == f"{text}\n\t{text}"


def test_escapes_are_those_that_programmers_know() -> None:
    assert escaping.escaped("a\nb\r\t\x1b[0m\x9b\u202e\U000e0041\udce9") == r"a\nb\r\t\x1b[0m\x9b\u202e\U000e0041\udce9"
    twice = escaping.escaped(escaping.escaped("\x1b\n"))
    assert twice == escaping.escaped("\x1b\n")


@pytest.mark.parametrize("text", MEAN)
@pytest.mark.parametrize("indent", [None, 2])
def test_json_is_the_same_data_and_nothing_obeys_it(text: str, indent: int | None) -> None:
    value = {"body": text, "properties": {text: [text, "ü", 1]}}
    shown = escaping.json_text(value, indent=indent)
    assert json.loads(shown) == value
    assert harmless(shown)
    assert "ü" in shown
    shown.encode()


def test_a_table_shows_it_and_obeys_nothing(shown: Callable[[Callable[[], None]], str]) -> None:
    for text in MEAN:
        rows = [{"index": 1, "queue": text, "body": text, "properties": [text]}]

        def work() -> None:
            output.print_rows(rows, "messages", "table", ("index", "queue", "body", "properties"))  # noqa: B023 - done at once
            output.print_facts({"body": text, "reason": text}, "table")  # noqa: B023 - done at once
            output.say(text, label=text)  # noqa: B023 - done at once

        said = shown(work)
        assert harmless(said)
        assert said.count(escaping.escaped(text)) == 7


def test_the_lines_stay_as_many_as_they_are(shown: Callable[[Callable[[], None]], str]) -> None:
    for text in MEAN:
        said = shown(partial(output.say, text))
        assert said == f"{escaping.escaped(text)}\n"


def _views(text: str) -> None:
    event = Happening(
        number=1, time_ms=1, member=text, kind="ROLE", domain=text, epoch=1, role="MASTER", text=text, facts={}
    )
    members = (
        MemberView(name=text, endpoint=text, problem=text),
        MemberView(name="b", endpoint="b:1", reachable=True, authority=text, classifier=text, waiting_event_id=text),
    )
    out = output.console()
    out.print(event_table([event]))
    show(PairView(pair=text, members=members), "table")
    with Live(console=out, auto_refresh=False) as live:
        live.update(Group(event_table([event]), text, styled(text, (text, "red"))), refresh=True)


def test_history_status_and_the_live_view_obey_nothing(shown: Callable[[Callable[[], None]], str]) -> None:
    for text in MEAN:
        said = shown(partial(_views, text))
        assert said.count(escaping.escaped(text)) >= 12
        mean = (
            "\x1b]",
            "\x9b",
            "\u202e",
            "\x1b[2Jgone",
            "\x1b[31m",
            "\udce9",
            "\u200b",
            "\x00",
            "\x7f",
            "\r\n",
            "\u2028",
        )
        assert [word for word in mean if word in said] == []


@pytest.mark.parametrize("text", MEAN)
def test_an_error_shows_what_a_server_said_and_obeys_nothing(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    Failure(text, text, text).show()
    said = capsys.readouterr().err
    assert harmless(said)
    assert said.count(escaping.escaped(text)) == 3
    assert said.count("\n") == 3


def test_an_error_of_click_that_quotes_a_file_is_escaped(tmp_path: Path) -> None:
    config = tmp_path / "a.toml"
    config.write_text('[manager]\n"\\u001b]0;x\\u0007\\u202e" = 1\n', encoding="utf-8")
    result = CliRunner().invoke(root, ["config", "check", "--config", str(config)])
    assert result.exit_code != 0
    assert "\\x1b]0;x\\x07\\u202e" in result.output
    assert harmless(result.output)


@pytest.mark.parametrize("text", MEAN)
def test_log_lines_of_both_forms_obey_nothing(text: str) -> None:
    record = logging.makeLogRecord({"msg": "%s said no", "args": (text,), "reason": text, "levelname": "ERROR"})
    try:
        raise ValueError(text)
    except ValueError:
        record.exc_info = sys.exc_info()
    as_data = JsonFormatter("a")
    line = as_data.format(record)
    assert harmless(line)
    assert "\n" not in line
    assert json.loads(line)["message"] == f"{text} said no"
    assert json.loads(line)["reason"] == text
    plain = PlainFormatter(as_data).format(record)
    assert harmless(plain.replace("\t", ""))
    assert escaping.escaped(text) in plain.split("\n")[0]
    assert harmless(readable(text))


@pytest.mark.parametrize("text", MEAN)
def test_pages_are_pages_and_hold_it_as_text(text: str) -> None:
    page = f"<p title='{escaping.in_html(text)}'>{escaping.in_html(f'<script>{text}</script>')}</p>"
    made = ET.fromstring(page)
    assert made.text == escaping.escaped(f"<script>{text}</script>")
    assert made.get("title") == escaping.escaped(text)


def test_markdown_makes_no_link_and_no_cell() -> None:
    said = escaping.in_markdown("a | [x](http://h) <img src=x> `b` @all\n# head")
    assert said == r"a \| \[x\](http\://h) \<img src=x\> \`b\` \@all\n# head".replace("\\n#", r"\\n\#")


def test_what_has_to_be_typed_is_never_cut() -> None:
    names = ["partition-witness", "x" * 30]
    stream = io.StringIO()
    out = Terminal(stream)
    out.width = 80
    rows = [[name, 3, "yes", "words " * 30] for name in names]
    columns = [Column("name", typed=True), Column("rounds", number=True), Column("needs toxiproxy"), Column("title")]
    out.print(fitted(out, columns, [[str(cell) for cell in row] for row in rows]))
    lines = stream.getvalue().splitlines()
    assert max(len(line.rstrip()) for line in lines) <= 80
    assert all(any(name in line for line in lines) for name in names)


@pytest.mark.parametrize(
    ("natural", "typed", "room", "widths"),
    [
        ((5, 5), (False, False), 20, [5, 5]),
        ((10, 90), (True, False), 60, [10, 50]),
        ((90, 10), (False, True), 60, [50, 10]),
        ((30, 30, 40), (True, False, False), 60, [30, 15, 15]),
        ((70, 40), (True, False), 40, [34, 6]),
        ((9, 9), (True, True), 2, [1, 1]),
        ((9, 9), (True, True), 0, [1, 1]),
    ],
)
def test_widths_are_given_by_what_may_be_cut(
    natural: tuple[int, ...], typed: tuple[bool, ...], room: int, widths: list[int]
) -> None:
    assert shared_out(natural, typed, room) == widths


def test_a_typed_drill_name_stands_whole_in_80_columns(monkeypatch: pytest.MonkeyPatch) -> None:
    names = [
        entry["name"]
        for entry in json.loads(CliRunner().invoke(root, ["drill", "list", "-o", "json"]).output)["drills"]
    ]
    monkeypatch.setenv("COLUMNS", "80")
    monkeypatch.setattr("tandemq.cli.terminal.WIDTH_ELSEWHERE", 80)
    shown = CliRunner().invoke(root, ["drill", "list", "-o", "table"]).output
    assert [name for name in names if f" {name} " not in shown] == []
    assert len(names) > 10


def test_a_first_command_that_was_mistyped_gets_its_suggestion() -> None:
    assert "Did you mean 'queue'?" in CliRunner().invoke(root, ["quue", "ls"]).output
    assert "Did you mean" not in CliRunner().invoke(root, ["zzz"]).output


def test_status_in_80_columns_cuts_nothing() -> None:
    states = {"durable_index": 1, "commit_index": 123_456, "applied_index": 1, "digest": "", "state_digest": ""}
    domain = DomainView(
        name="main", role="REPLICA", data_state="IN_SYNC", link_state="SYNC_SRC", epoch=9, log_index=123_456,
        in_sync_set=(), **states,
    )  # fmt: skip
    endpoint = "queue-one.site.example.org:17600"
    stream = io.StringIO()
    out = Terminal(stream)
    out.width = 80
    members = (MemberView(name="a", endpoint=endpoint, reachable=True, domains=(domain,)),)
    out.print(status_table(PairView(pair="p", members=members), out))
    said = stream.getvalue()
    assert "…" not in said
    assert all(word in said for word in ("REPLICA", "IN_SYNC", "SYNC_SRC", "123,456", "committed"))
