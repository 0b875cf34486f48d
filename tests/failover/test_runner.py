"""The runner: attempts, limits, cancellation and the journal, with classifiers that do what they should not."""

from __future__ import annotations

import asyncio
import logging
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path

import pytest

from failover.classifier import Answer, Event, Outcome, SafetyClass, Verdict
from failover.command import Command
from failover.journal import Journal, read
from failover.runner import CANCELLED, OVERRUN_S, Runner
from tests.failover.support import event, script
from tests.support import virtual_time
from tests.support.until import until

LONG_MS = 20_000


@dataclass
class Scripted:
    """A classifier that does the next thing on its list, the last one for ever."""

    does: list[object]
    name: str = "scripted"
    safety: SafetyClass = SafetyClass.C
    asked: list[Event] = field(default_factory=list)
    told: list[Outcome] = field(default_factory=list)
    closed: bool = False

    async def classify(self, asked: Event) -> Answer:
        self.asked.append(asked)
        thing = self.does.pop(0) if len(self.does) > 1 else self.does[0]
        if isinstance(thing, BaseException):
            raise thing
        if isinstance(thing, asyncio.Event):
            await thing.wait()
            thing = Verdict.WAIT
        if thing is None or isinstance(thing, Verdict):
            return Answer(asked.event_id, asked.link_generation, thing, "so")
        return thing  # type: ignore[return-value]

    async def preflight(self) -> list[str]:
        if isinstance(self.does[0], BaseException):
            raise self.does[0]
        return ["not today"]

    async def report(self, outcome: Outcome) -> None:
        self.told.append(outcome)
        if isinstance(self.does[0], BaseException):
            raise self.does[0]

    def close(self) -> None:
        self.closed = True


def runner(
    *does: object, journal: Journal | None = None, call_ms: int = LONG_MS, attempts: int = 3, total_ms: int = LONG_MS
) -> tuple[Runner, Scripted]:
    scripted = Scripted(list(does))
    return Runner(scripted, journal, call_ms, attempts, total_ms), scripted


@pytest.mark.parametrize("verdict", Verdict)
async def test_a_verdict_is_asked_for_once(verdict: Verdict) -> None:
    run, asked = runner(verdict)
    answer = await run.ask(event())
    assert (answer.verdict, answer.by, len(asked.asked)) == (verdict, "scripted", 1)
    assert asked.asked[0] == event(decide_by_ms=LONG_MS)
    assert run.calls == {verdict.name: 1}


def test_no_answer_is_asked_for_again_with_the_next_attempt(caplog: pytest.LogCaptureFixture) -> None:
    run, asked = runner(None, RuntimeError("no"), Verdict.WAIT)
    caplog.set_level("INFO")
    assert virtual_time.run(run.ask(event())).verdict is Verdict.WAIT
    assert [each.attempt for each in asked.asked] == [1, 2, 3]
    assert {each.event_id for each in asked.asked} == {"e1"}
    assert [each.decide_by_ms for each in asked.asked] == [20_000, 19_800, 19_400], "the total shrinks by each pause"
    assert run.calls == {"NO_ANSWER": 2, "WAIT": 1}
    levels = [record.levelname for record in caplog.records if record.getMessage().startswith("classifier scripted")]
    assert levels == ["WARNING", "WARNING", "INFO"]


def test_attempts_end() -> None:
    run, asked = runner(None, attempts=2)
    assert virtual_time.run(run.ask(event(attempt=4))).verdict is None
    assert [each.attempt for each in asked.asked] == [4, 5]


def test_the_total_ends_them_too() -> None:
    run, asked = runner(None, attempts=1_000, total_ms=400)
    assert virtual_time.run(run.ask(event())).verdict is None
    assert [each.decide_by_ms for each in asked.asked] == [400, 200]


def test_the_last_pause_ends_with_the_total() -> None:
    run, asked = runner(None, attempts=1_000, total_ms=700)

    async def asked_for() -> float:
        await run.ask(event())
        return asyncio.get_running_loop().time()

    ended = virtual_time.run(asked_for())
    assert [each.decide_by_ms for each in asked.asked] == [700, 500, 100]
    assert ended == pytest.approx(0.7), "not the whole next pause"


def test_the_pauses_between_attempts_are_doubled_up_to_a_bound() -> None:
    run, asked = runner(None, attempts=8, total_ms=3_600_000, call_ms=3_600_000)
    assert virtual_time.run(run.ask(event())).verdict is None
    left = [each.decide_by_ms for each in asked.asked]
    assert [before - after for before, after in pairwise(left)] == [200, 400, 800, 1_600, 2_000, 2_000, 2_000]


async def test_without_time_there_is_no_call() -> None:
    run, asked = runner(Verdict.ASSUME_MASTERSHIP, total_ms=0)
    assert (await run.ask(event())).reason == "no time for a call"
    assert asked.asked == []


@pytest.mark.parametrize(
    ("does", "reason"),
    [
        (RuntimeError("cannot\nreach"), "it raised RuntimeError: cannot reach"),
        (ZeroDivisionError(), "it raised ZeroDivisionError:"),
        ("21", "it returned str, which is no Answer with a Verdict"),
        (Answer("e1", 3, 21), "it returned Answer, which is no Answer with a Verdict"),  # type: ignore[arg-type]
        (Answer("e0", 3, Verdict.ASSUME_MASTERSHIP), "it answers 'e0', asked was 'e1' of link generation 3"),
        (Answer("e1", 2, Verdict.ASSUME_MASTERSHIP), "it answers 'e1', asked was 'e1' of link generation 3"),
        (asyncio.CancelledError(), "its call was cancelled, but not by us"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
async def test_what_breaks_the_contract_is_no_answer(does: object, reason: str) -> None:
    run, _ = runner(does, attempts=1)
    answer = await run.ask(event())
    assert (answer.verdict, answer.event_id, answer.link_generation) == (None, "e1", 3)
    assert answer.reason.startswith(reason)


def test_one_that_does_not_end_is_left_behind_and_not_asked_twice() -> None:
    async def story() -> None:
        go = asyncio.Event()
        run, asked = runner(go, call_ms=50, attempts=1)
        asked.classify = _stubborn(asked, go)  # type: ignore[method-assign]
        assert (await run.ask(event())).reason == "no end within 50 ms, and it could not be ended"
        assert asyncio.get_running_loop().time() == pytest.approx(0.05 + OVERRUN_S)
        assert (await run.ask(event())).reason == "an earlier call has not ended although it was asked to"
        assert len(asked.asked) == 1
        go.set()
        assert run._stuck is not None
        await asyncio.wait({run._stuck})
        assert (await run.ask(event())).verdict is Verdict.WAIT

    virtual_time.run(story())


def _stubborn(asked: Scripted, go: asyncio.Event):
    async def classify(each: Event) -> Answer:
        asked.asked.append(each)
        while not go.is_set():
            try:
                await go.wait()
            except asyncio.CancelledError:
                continue
        return Answer(each.event_id, each.link_generation, Verdict.WAIT)

    return classify


async def test_calls_come_one_at_a_time() -> None:
    go = asyncio.Event()
    run, asked = runner(go)
    calls = [asyncio.ensure_future(run.ask(event(event_id=name))) for name in ("e1", "e2")]
    await until(lambda: _count(asked, 1), "the first call has begun")
    await asyncio.sleep(0)
    assert len(asked.asked) == 1
    go.set()
    assert [answer.event_id for answer in await asyncio.gather(*calls)] == ["e1", "e2"]


async def _count(asked: Scripted, count: int) -> bool:
    return len(asked.asked) == count


async def test_a_cancelled_question_is_journalled_and_lets_the_next_in(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    run, asked = runner(asyncio.Event(), Verdict.WAIT, journal=journal)
    call = asyncio.ensure_future(run.ask(event()))
    await until(lambda: _count(asked, 1), "the call has begun")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert (await run.ask(event(event_id="e2"))).verdict is Verdict.WAIT
    journal.close()
    first, second = read(tmp_path).calls
    assert (first.event.event_id, first.answer.verdict, first.answer.reason) == ("e1", None, CANCELLED)
    assert second.answer.verdict is Verdict.WAIT


async def test_every_attempt_is_durable_before_the_answer_is_given(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    run, _ = runner(None, Verdict.PEER_ALIVE, journal=journal)
    answer = await run.ask(event())
    calls = read(tmp_path).calls
    assert [(call.event.attempt, call.answer.verdict) for call in calls] == [(1, None), (2, Verdict.PEER_ALIVE)]
    assert calls[1].answer == answer
    await run.report(Outcome("e1", "dropped", "the peer is back"))
    run.record(event(event_id="e2"), Answer("e2", 3, Verdict.CONTINUE_AS_MASTER, "the register decides", by="witness"))
    journal.close()
    calls = read(tmp_path).calls
    assert calls[1].outcomes == (Outcome("e1", "dropped", "the peer is back"),)
    assert calls[2].answer.by == "witness"


async def test_a_journal_that_cannot_be_written_takes_no_answer_away(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "not there")
    run, _ = runner(Verdict.ASSUME_MASTERSHIP, journal=journal)
    assert (await run.ask(event())).verdict is Verdict.ASSUME_MASTERSHIP
    journal.close()
    assert journal.lost_count == 1


@pytest.mark.parametrize("verdict", [*Verdict, None])
async def test_every_answer_is_counted_and_logged_whoever_gave_it(
    verdict: Verdict | None, caplog: pytest.LogCaptureFixture
) -> None:
    """Called for, or made on the spot; how long the last one took is what an operator sees."""
    caplog.set_level(logging.INFO)
    run, _ = runner(verdict, attempts=1)
    name = verdict.name if verdict is not None else "NO_ANSWER"
    await run.ask(event())
    assert run.calls == {name: 1}
    run.record(event(), Answer("e1", 1, verdict, "by hand", by="operator", duration_ms=37))
    assert (run.calls, run.last_ms) == ({name: 2}, 37)
    last = caplog.records[-1]
    assert last.levelno == (logging.WARNING if verdict is None else logging.INFO)
    assert f": {name} after 37 ms: by hand" in last.getMessage()


@pytest.mark.parametrize(("why", "text"), [("", "event e1: served"), ("so", "event e1: served: so")])
async def test_what_became_of_an_answer_is_logged_with_its_reason(
    why: str, text: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    run, asked = runner(Verdict.WAIT)
    run.record_outcome(Outcome("e1", "served", why))
    assert caplog.records[-1].getMessage() == text
    assert asked.told == []


async def test_reports_reach_the_classifier_and_cannot_hurt(caplog: pytest.LogCaptureFixture) -> None:
    run, asked = runner(ValueError("deaf"))
    await run.report(Outcome("e1", "served"))
    await until(lambda: _told(asked, run), "it was told")
    assert asked.told == [Outcome("e1", "served")]
    assert "raised in report: ValueError: deaf" in caplog.text
    await run.close()
    assert asked.closed


async def _told(asked: Scripted, run: Runner) -> bool:
    return bool(asked.told) and not run._reports


async def test_preflight_is_passed_on_and_cannot_hurt() -> None:
    assert await runner(Verdict.WAIT)[0].preflight() == ["not today"]
    assert await runner(OSError("gone"))[0].preflight() == ["scripted: preflight raised OSError: gone"]


@pytest.mark.process
async def test_a_command_learns_its_attempt_and_its_time(tmp_path: Path) -> None:
    text = (
        f'cat >> {tmp_path}/seen; echo >> {tmp_path}/seen\n[ "$(wc -l < {tmp_path}/seen)" -ge 2 ] && exit 23\nexit 1\n'
    )
    run = Runner(Command([script(tmp_path, text)]), None, 10_000, 3, LONG_MS)
    assert (await run.ask(event())).verdict is Verdict.WAIT
    seen = (tmp_path / "seen").read_text().splitlines()  # a small file of this test
    assert ['"attempt":1' in seen[0], '"attempt":2' in seen[1], len(seen)] == [True, True, 2]
    assert '"decide_by_ms":10000' in seen[0]


async def test_an_answer_keeps_what_it_said() -> None:
    said = Answer("e1", 3, Verdict.WAIT, "later", token="t", valid_for_ms=5, retry_ms=6, by="me")
    answer = await runner(said)[0].ask(event())
    assert replace(answer, duration_ms=0) == said
