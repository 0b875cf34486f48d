"""A verdict says what held, a report tells it in every form."""

from __future__ import annotations

import json
import re
import unicodedata
from html.parser import HTMLParser
from pathlib import Path
from xml.etree import ElementTree as ET

from chaos import account
from chaos.account import Span
from chaos.drill import plan, report
from chaos.drill.playing import Note, Outcome, Progress
from chaos.drill.verdict import FAIL, INVALID, PASS, lines, unseen, verdict
from chaos.history import OK, Acked, Answered, Delivered, History, Message, Operation, Recorded, Seen, Settled, Struck
from chaos.scenario import judged
from tandemq.escaping import escaped

KILL = plan.find("kill-master")


def seen(at_s: float, member: str, role: str, epoch: int, incarnation: int = 1) -> Seen:
    return Seen(at_s - 0.01, at_s, member, "disk", incarnation, role, "IN_SYNC", epoch, 4, "d", "s", 0)


def history(*, dead_s: float = 1.0) -> History:
    """a is killed at 2 s and back at 4 s; a hundred messages, none for `dead_s`."""
    found = History()
    for number in range(100):
        asked_s = 1.0 + number / 50 + (dead_s if number >= 50 else 0.0)
        message, at_s, epoch = Message(0, number), asked_s + 0.01, 1 if number < 50 else 2
        found.operations.append(Operation("producer 0", "enqueue", asked_s, at_s, OK, (message,)))
        found.acked.append(Acked(asked_s, at_s, message, number + 1, epoch, 3 - epoch))
        found.delivered.append(Delivered(at_s + 0.01, message, number + 1, 1))
        found.settled.append(Settled(at_s + 0.02, number + 1))
        found.answered.append(Answered(asked_s, at_s, "a" if epoch == 1 else "b", epoch))
    found.awake += [at / 20 for at in range(20, 220)]
    found.seen += [seen(1.0, "a", "MASTER", 1), seen(1.0, "b", "REPLICA", 1), seen(2.9, "b", "MASTER", 2)]
    found.seen += [seen(4.5, "a", "REPLICA", 2, incarnation=2), seen(4.5, "b", "MASTER", 2)]
    for version, (at_s, epoch, in_sync) in enumerate([(1.0, 1, ("a", "b")), (2.5, 2, ("b",)), (4.4, 2, ("a", "b"))]):
        found.recorded.append(Recorded(at_s - 0.01, at_s, version, epoch, "ab"[epoch - 1], in_sync, committed=True))
    return found


def outcome(found: History, *, kind: str = "kill") -> Outcome:
    struck = [Struck(kind, ("a",), 2.0, 4.0)]
    result = judged("kill-master", 0, 0.0, found, struck, [Span(2.0, 4.0)])
    judged_lines = lines(KILL, result.account, result.broken)
    progress = Progress(KILL, "a <pair> & its own", found, struck, [Note(2.0, "fault", "round 1: kill <master>")])
    return Outcome(KILL, result, judged_lines, verdict(judged_lines, result.invalid), progress, 12.0)


def line(out: Outcome, name: str) -> str:
    return next(each.text for each in out.lines if each.name == name)


def test_a_drill_that_held_passes() -> None:
    out = outcome(history())
    assert (out.verdict, out.result.broken, out.result.invalid) == (PASS, {}, [])
    assert line(out, "acknowledged and lost") == "0 (at most 0), 100 acknowledged"
    assert line(out, "recovery p99").startswith("1,010 ms (at most 5,000 ms)")
    assert line(out, "time degraded") == "1,900 ms, on one copy, by the register"
    assert line(out, "resync time") == "400 ms (at most 20,000 ms), the longest"


def test_a_lost_message_or_a_late_recovery_fails() -> None:
    lost = history()
    lost.delivered.pop(10)
    assert outcome(lost).verdict == FAIL
    late = outcome(history(dead_s=6.0))
    assert late.verdict == FAIL
    assert [each.name for each in late.lines if not each.held] == ["recovery p99"]


def test_a_fault_without_effect_proves_nothing() -> None:
    out = outcome(history(), kind="cut")
    assert (out.verdict, out.result.invalid) == (INVALID, ["no cut of 1 had an effect"])


def test_a_bound_on_time_that_nobody_looked_at_proves_nothing() -> None:
    drill = plan.find("partition-witness")
    found = history(dead_s=6.0)
    looked = account.take(found, [])
    assert unseen(drill, looked) == []
    assert [each.held for each in lines(drill, looked, {}) if each.name == "time without a master"] == [False]
    found.awake.clear()
    blind = account.take(found, [])
    [text] = [each.text for each in lines(drill, blind, {}) if each.name == "time without a master"]
    assert text == "0 ms (at most 2,000 ms), 6,020 ms were not looked at"
    [why] = unseen(drill, blind)
    assert verdict(lines(drill, blind, {}), [why]) == INVALID


def test_a_drill_that_was_held_up_itself_proves_nothing_of_recovery() -> None:
    """As by SIGSTOP: its clients sent nothing and heard nothing, which is no pause of the pair."""
    found = history(dead_s=6.0)
    found.awake = [at_s for at_s in found.awake if not 2.2 < at_s < 7.8]
    account_ = account.take(found, [Span(2.0, 4.0)])
    [text] = [each.text for each in lines(KILL, account_, {}) if each.name == "recovery p99"]
    assert text == "410 ms (at most 5,000 ms), of one round, 5,600 ms were not looked at"
    [why] = unseen(KILL, account_)
    assert why == "recovery p99: 5,600 ms were not looked at, and it may be at most 5,000 ms"
    assert unseen(KILL, account.take(history(), [Span(2.0, 4.0)])) == []
    assert unseen(KILL, account.take(history(dead_s=6.0), [Span(2.0, 4.0)])) == []  # it was looked at, and fails


class Page(HTMLParser):
    """Tags that are open, and what a page asks of others."""

    VOID = ("meta",)

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.foreign: list[str] = []
        self.tags: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.foreign += [f"{tag} {name}" for name, value in attrs if name in ("src", "href") and value]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in self.VOID:
            self.handle_endtag(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_a_report_is_written_in_every_form(tmp_path: Path) -> None:
    out = outcome(history())
    report.write(tmp_path, out)
    text = (tmp_path / "report.html").read_text()
    page = Page()
    page.feed(text)
    assert (page.open, page.foreign) == ([], [])
    assert "script" not in page.tags
    assert "On a &lt;pair&gt; &amp; its own" in text
    assert text.count('class="bar fault"') == text.count('class="band"') == 2  # wide and narrow
    picture = ET.fromstring(text[text.index("<svg") : text.index("</svg>") + 6])
    words = [each.text for each in picture.iter("text")]
    assert {"member a", "member b", "kill", "producer 0"} <= set(words)
    titles = [each.text or "" for each in picture.iter("title")]
    assert "no answer, 1.00 s to 4.50 s" in titles
    assert "kill a, 2.00 s to 4.00 s" in titles

    assert "# Drill kill-master: pass" in (tmp_path / "report.md").read_text()
    suite = ET.parse(tmp_path / "junit.xml").getroot()
    assert (suite.get("tests"), suite.get("failures")) == ("12", "0")
    journal = [json.loads(each) for each in (tmp_path / "journal.jsonl").read_text().splitlines()]
    assert {"invoke", "ok", "fault", "healed", "told"} <= {each["event"] for each in journal}


def test_what_did_not_hold_is_in_every_form(tmp_path: Path) -> None:
    lost = history()
    lost.delivered.pop(10)
    report.write(tmp_path, outcome(lost))
    suite = ET.parse(tmp_path / "junit.xml").getroot()
    failed = [case.get("name") for case in suite if case.find("failure") is not None]
    assert failed == ["acknowledged and lost", "broken invariants"]
    assert "**not held**" in (tmp_path / "report.md").read_text()
    assert "NOT HELD" in (tmp_path / "report.html").read_text()


def test_every_form_can_be_read_whatever_a_server_answered(tmp_path: Path) -> None:
    text = "<script> | [x](http://h)\x1b]0;x\x07\x00\x9b\u202e\u200b\udce9\nnext"
    lost = history()
    lost.delivered.pop(10)
    out = outcome(lost)
    out.result.broken["lost"] = [text]
    out.result.invalid.append(text)
    out.progress.notes.append(Note(3.0, "fault", text))
    out.progress.origin = text
    report.write(tmp_path, out)
    for name in report.FILES:
        said = (tmp_path / name).read_text(encoding="utf-8")
        assert [letter for letter in said if unicodedata.category(letter) in ("Cc", "Cf") and letter != "\n"] == []
        assert name in (report.RESULT, report.JOURNAL, "report.md") or "<script>" not in said
        assert name != "report.md" or re.search(r"[^\\]\]\(", said) is None
    cases = ET.parse(tmp_path / "junit.xml").getroot().iter("failure")
    assert [case.get("message") for case in cases][-1] == escaped(text)
