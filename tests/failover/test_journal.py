"""The classifier journal: what is written comes back, crashes cost one line, and a sick disk stops nobody."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from failover import journal as journal_module
from failover.classifier import Answer, Evidence, Outcome, Verdict
from failover.journal import FILE_NAME, WAIT_S, Journal, call_line, outcome_line, read
from tests.failover.support import event
from tests.support import virtual_time

ANSWER = Answer("e1", 3, Verdict.WAIT, "so", Evidence.LEASE, "t", 9, 8, 7, "command")


def answer(event_id: str = "e1", verdict: Verdict | None = Verdict.WAIT) -> Answer:
    return Answer(event_id, 3, verdict, "because", by="command")


async def write(journal: Journal, *ids: str) -> None:
    for event_id in ids:
        assert await journal.write(call_line(event(event_id=event_id), answer(event_id)))


async def test_a_call_comes_back_with_all_that_became_of_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    assert await journal.write(call_line(event(attempt=2), ANSWER))
    assert await journal.write(outcome_line(Outcome("e1", "claimed", "epoch 8")))
    assert await journal.write(
        outcome_line(Outcome("e1", "served")), call_line(event(event_id="e2"), answer("e2", None))
    )
    journal.close()
    first, second = read(tmp_path).calls
    assert (first.event, first.answer) == (event(attempt=2), ANSWER)
    assert first.outcomes == (Outcome("e1", "claimed", "epoch 8"), Outcome("e1", "served"))
    assert (second.answer.verdict, second.outcomes) == (None, ())
    assert first.time.endswith("+00:00")
    assert read(tmp_path / FILE_NAME).calls == [first, second]


async def test_nobody_else_may_read_it(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    await write(journal, "e1")
    journal.close()
    assert (tmp_path / FILE_NAME).stat().st_mode & 0o777 == 0o600


async def test_a_torn_last_line_costs_one_line(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    await write(journal, "e1", "e2")
    journal.close()
    path = tmp_path / FILE_NAME
    whole = path.read_bytes()
    second_bytes = len(whole) - whole.index(b"\n") - 1
    for cut in range(2, second_bytes, 7):
        path.write_bytes(whole[:-cut])
        history = read(tmp_path)
        assert history.calls[0].event.event_id == "e1"
        assert (len(history.calls), len(history.unreadable)) == (1, 1)
    path.write_bytes(whole[:-10])
    again = Journal(tmp_path)
    await write(again, "e3")
    again.close()
    history = read(tmp_path)
    assert [call.event.event_id for call in history.calls] == ["e1", "e3"]
    assert [line.split(": ")[0] for line in history.unreadable] == [f"{FILE_NAME}:2"]


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe",
        b"null",
        b"{}",
        b'{"kind":"call"}',
        b'{"kind":"outcome","event_id":"e1"}',
        b'{"kind":"call","event":{"schema_version":1}}',
        b"[" * 100_000,
    ],
    ids=lambda line: line[:20],
)
async def test_a_line_that_is_no_record_is_named_and_passed_over(tmp_path: Path, line: bytes) -> None:
    journal = Journal(tmp_path)
    await write(journal, "e1")
    with (tmp_path / FILE_NAME).open("ab") as file:
        file.write(line + b"\n")
    await write(journal, "e2")
    journal.close()
    history = read(tmp_path)
    assert [call.event.event_id for call in history.calls] == ["e1", "e2"]
    assert len(history.unreadable) == 1
    assert history.unreadable[0].startswith(f"{FILE_NAME}:2: ")


async def test_it_rotates_by_size_and_keeps_some(tmp_path: Path) -> None:
    size = len(json.dumps(call_line(event(event_id="e100"), answer("e100"))))
    journal = Journal(tmp_path, size_max=3 * size, kept_count=2)
    ids = [f"e{number}" for number in range(100, 111)]
    await write(journal, *ids)
    journal.close()
    assert sizes(tmp_path).keys() == {FILE_NAME, f"{FILE_NAME}.1", f"{FILE_NAME}.2"}
    assert max(sizes(tmp_path).values()) <= 3 * size
    kept = [call.event.event_id for call in read(tmp_path).calls]
    assert kept == ids[-len(kept) :]
    assert len(kept) >= 5


def sizes(folder: Path) -> dict[str, int]:
    return {path.name: path.stat().st_size for path in folder.iterdir()}


def test_without_a_journal_there_is_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        read(tmp_path)


async def test_a_disk_that_refuses_is_counted_and_stops_nobody(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    journal = Journal(tmp_path / "not there")
    assert await journal.write(call_line(event(), answer())) is False
    assert (journal.lost_count, journal.lost_why) == (1, "No such file or directory")
    assert "the answer counts all the same" in caplog.text
    (tmp_path / "not there").mkdir()
    await write(journal, "e2")
    journal.close()
    assert [call.event.event_id for call in read(tmp_path / "not there").calls] == ["e2"]


async def test_a_full_disk_is_named(tmp_path: Path) -> None:
    (tmp_path / FILE_NAME).symlink_to("/dev/full")
    full = Journal(tmp_path)
    assert await full.write(call_line(event(), answer())) is False
    full.close()
    assert full.lost_why == "No space left on device"


async def test_a_write_that_is_cut_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = Journal(tmp_path)
    await write(journal, "e1")
    before = (tmp_path / FILE_NAME).read_bytes()
    whole = os.write
    monkeypatch.setattr(journal_module.os, "write", lambda fd, data: whole(fd, data[:20]))
    assert await journal.write(call_line(event(event_id="e2"), answer("e2"))) is False
    monkeypatch.undo()
    assert (tmp_path / FILE_NAME).read_bytes() == before
    await write(journal, "e3")
    journal.close()
    assert [call.event.event_id for call in read(tmp_path).calls] == ["e1", "e3"]


async def test_a_line_that_is_not_synced_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fsync(_fd: int) -> None:
        raise OSError(5, "Input/output error")

    journal = Journal(tmp_path)
    monkeypatch.setattr(journal_module.os, "fsync", fsync)
    assert await journal.write(call_line(event(), answer())) is False
    assert (journal.lost_count, journal.lost_why) == (1, "Input/output error")
    journal.close()
    assert read(tmp_path).calls == []


def test_a_disk_that_hangs_is_waited_for_a_moment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The journal's thread is kept busy, as by a disk that does not come back."""
    monkeypatch.setattr(journal_module, "BACKLOG_MAX", few := 20)
    journal = Journal(tmp_path)
    freed = threading.Event()
    blocker = journal._writer.submit(freed.wait)

    async def story() -> float:
        loop = asyncio.get_running_loop()
        began = loop.time()
        assert await journal.write(call_line(event(), answer())) is False
        waited_s = loop.time() - began
        for _ in range(few + 5):
            journal.write_soon(outcome_line(Outcome("e1", "served")))
        return waited_s

    try:
        assert virtual_time.run(story()) == pytest.approx(WAIT_S)
        assert journal.lost_count == 6, "what waits is bounded: the line that was waited for is one of them"
    finally:
        freed.set()
    blocker.result()
    journal.close()
    assert len((tmp_path / FILE_NAME).read_text().splitlines()) == few


def test_a_line_says_what_it_is() -> None:
    line: dict[str, Any] = call_line(event(attempt=2), ANSWER)
    assert (line["journal"], line["kind"], line["verdict"], line["attempt"]) == (1, "call", "WAIT", 2)
    assert (line["reason"], line["evidence"], line["duration_ms"], line["by"]) == ("so", "lease", 7, "command")
    assert line["event"]["event"] == "PEER_LOST"
