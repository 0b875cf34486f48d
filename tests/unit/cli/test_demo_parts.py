"""The pure parts of the demo: which row a message is, and the picture of a run."""

from __future__ import annotations

import gzip
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from chaos.ledger import Ledger
from tandemq.cli.output import console
from tandemq.demo.record import GONE, KILL, TAKEOVER, Event, Record
from tandemq.demo.result import print_account, summary
from tandemq.demo.rows import Rows, flights, read
from tandemq.demo.timeline import draw


def test_the_flights_are_all_there_without_their_header() -> None:
    rows = flights()
    assert len(rows) == 27_004
    assert rows.texts[0].startswith(b"2013,1,1,517,")


def test_any_text_is_input(tmp_path: Path) -> None:
    (tmp_path / "plain.txt").write_bytes(b"one\ntwo\n\nfour")
    (tmp_path / "packed.gz").write_bytes(gzip.compress(b"one\ntwo\n\nfour\n"))
    assert read(tmp_path / "plain.txt").texts == read(tmp_path / "packed.gz").texts == [b"one", b"two", b"", b"four"]


def test_a_row_is_found_by_its_index_and_else_by_its_text() -> None:
    rows = Rows([b"a", b"b", b"a", b"c"])
    assert [rows.find(index, text) for index, text in ((1, b"a"), (3, b"a"), (4, b"c"))] == [0, 2, 3]
    assert rows.find(5, b"c") == 3  # one place too late
    assert rows.find(9, b"a") == 2
    assert rows.find(1, b"x") is None


def record_of_a_takeover() -> Record:
    record = Record(("a", "b"), ended_s=4.0)
    for at_s, a, b in ((0.0, ("MASTER", 1), ("REPLICA", 1)), (2.0, (GONE, 0), ("MASTER", 2))):
        record.saw("a", *a, at_s)
        record.saw("b", *b, at_s)
    record.saw("b", "MASTER", 2, 3.0)
    record.acks += [(0.5, 100), (1.5, 100), (3.0, 200)]
    record.events += [Event(2.0, KILL, "a", "kill -9 <a>"), Event(2.2, TAKEOVER, "b", "b is master")]
    return record


def test_only_changes_of_role_are_kept() -> None:
    assert [len(samples) for samples in record_of_a_takeover().samples.values()] == [2, 2]


def test_the_picture_is_a_document_with_roles_kills_and_pause() -> None:
    text = draw(record_of_a_takeover(), "a & b", (2.0, 2.25))
    root = ET.fromstring(text)
    assert root.tag.endswith("svg")
    words = " ".join("".join(node.itertext()) for node in root.iter() if node.tag.endswith(("text", "title")))
    for expected in ("a & b", "master, epoch 1", "master, epoch 2", "killed", "kill -9 <a>", "longest pause 250 ms"):
        assert expected in words
    numbers = [float(value) for value in re.findall(r'(?:x|x1|x2|y)="([-\d.]+)"', text)]
    assert all(0 <= value <= 1000 for value in numbers)


def test_the_account_prints_whatever_a_failure_says(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    origin = {"seed": 7, "data_dir": str(tmp_path)}
    facts = summary(Ledger(0), record_of_a_takeover(), ["[/tandemq.peer.v1.PeerService/Data] failed"], origin)
    print_account(console(), facts, tmp_path)
    printed = capsys.readouterr().out
    assert "[/tandemq.peer.v1.PeerService/Data] failed" in printed
    assert "FAIL  seed 7" in printed


def test_a_run_that_did_not_end_fails_whatever_the_ledger_says() -> None:
    ledger, record = Ledger(0), record_of_a_takeover()
    origin = {"seed": 7}
    assert summary(ledger, record, [], origin)["verdict"] == "pass"
    facts = summary(ledger, record, ["not finished"], origin)
    assert (facts["verdict"], facts["failures"], facts["seed"], facts["schema_version"]) == (
        "fail",
        ["not finished"],
        7,
        1,
    )
