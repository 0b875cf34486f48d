"""Drills that are stopped, refused or killed: what they say is what is, and the next one heals what was left."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import time
import tomllib
from collections.abc import Iterator

import pytest

from tests.integration.home import FREEZE, Home, facts
from tests.support.toxiproxy import toxiproxy_program
from tests.support.until import until_sync

pytestmark = pytest.mark.process
KILL = FREEZE.replace("freeze", "kill")
LONG_FROZEN_S = 12.0  # after that a master that goes on learns from the register that it is none, and may end itself


def heard(process: subprocess.Popen[str], pattern: str) -> None:
    """Reads what it says up to a line like this; the test's time is the bound."""
    assert process.stdout is not None
    said = []
    for line in process.stdout:
        said.append(line)
        if re.search(pattern, line):
            return
    raise AssertionError(f"{pattern!r} was never said: {''.join(said)}")


def states(home: Home) -> dict[str, str]:
    told = home.run("dev", "--data-dir", str(home.folder / "pair"), "status", "-o", "json")
    return {each["name"]: each["state"] for each in json.loads(told)["processes"]}


def wait_for_state(home: Home, state: str) -> str:
    """Who has it."""
    return until_sync(lambda: [name for name, each in states(home).items() if each == state], f"somebody is {state}")[0]


def ended(process: subprocess.Popen[str], code: int) -> str:
    said, _ = process.communicate()
    assert process.returncode == code, said
    assert "Traceback" not in said
    return " ".join(said.split())


def test_a_drill_waits_for_dev_and_two_signals_do_not_end_its_healing(home: Home, base_port: int) -> None:
    """It is begun while the pair starts; who is frozen shows; and at --target it is refused before anything is sent."""
    dev = home.start("dev", "--data-dir", str(home.folder / "pair"), "--base-port", str(base_port), "--quiet")
    try:
        heard(dev, "starting a, b and witness")
        dev.send_signal(signal.SIGSTOP)  # so long that the drill meets it while it starts
        drill = home.start("drill", "run", home.drill(FREEZE), "--report-dir", "report")
        heard(drill, "`tandemq dev` is starting in .*: waiting")
        dev.send_signal(signal.SIGCONT)
        heard(drill, "round 1 of 1")
        assert wait_for_state(home, "stopped") in ("a", "b")
        assert "another drill plays" in home.run("drill", "run", "kill-master", code=2)
        drill.send_signal(signal.SIGTERM)
        heard(drill, "stopped by SIGTERM")
        drill.send_signal(signal.SIGINT)
        said = ended(drill, 2)
        assert "SIGINT: it is still healing" in said
        assert "INTERRUPTED cause: stopped by SIGTERM; everything is healed" in said
        assert set(states(home).values()) == {"running"}

        target = ("--target", f"127.0.0.1:{base_port},127.0.0.1:{base_port + 10}", "--report-dir", "none")
        hooks = home.folder / "hooks.toml"
        hooks.write_text('kill = ["true"]\n')
        for arguments, words in (
            (("kill-master", *target), "needs kill = "),
            (("kill-master", *target, "--hooks", str(hooks)), "needs start = "),
            (("freeze-master", *target, "--hooks", str(hooks)), "freeze cannot be done at --target"),
        ):
            said = home.run("drill", "run", *arguments, code=2)
            assert words in said
            assert "nothing was sent and nothing was hurt" in said
        assert not (home.folder / "none").exists()
        assert home.queues() == []
    finally:
        dev.send_signal(signal.SIGCONT)
        dev.send_signal(signal.SIGINT)
        dev.communicate()


def test_reports_that_say_nothing_of_each_other_have_an_exit_code(home: Home) -> None:
    line = {"name": "recovery p50", "value": 1.0, "unit": " ms"}
    report = {"schema_version": 1, "drill": "mine", "verdict": "pass", "origin": "here", "rounds": 2, "invalid": []}
    for name, changed in (
        ("good", {}),
        ("gone", {"lines": [{**line, "value": None}]}),
        ("nothing", {"verdict": "invalid", "invalid": ["no fault was struck"]}),
        ("five", {"rounds": 5}),
    ):
        (home.folder / name).mkdir()
        (home.folder / name / "result.json").write_text(json.dumps({**report, "lines": [line], **changed}))
    assert "before: PASS, 2 rounds of mine" in home.run("drill", "compare", "good", "good", "-o", "table")
    told = json.loads(home.run("drill", "compare", "good", "gone", "-o", "json", code=1))
    assert (told["worse"], told["after"]) == (True, {"verdict": "pass", "rounds": 2, "origin": "here"})
    for name, words in (("nothing", "proved nothing"), ("five", "2 rounds and 5")):
        assert words in home.run("drill", "compare", "good", name, code=2)


@pytest.mark.long
def test_what_a_killed_drill_has_left_is_healed_by_the_next(home: Home) -> None:
    """The master stays frozen so long that it ends itself when it goes on, and the witness cannot be reached by it."""
    toxiproxy_program()
    with home.dev("--chaos"):
        text = FREEZE + '[[method]]\nfault = "slow"\ndelay_ms = 20\nfor_s = 600\n'
        drill = home.start("drill", "run", home.drill(text), "--report-dir", "report")
        heard(drill, "round 1 of 1")
        frozen = wait_for_state(home, "stopped")
        drill.kill()
        drill.communicate()
        since = time.monotonic()
        while time.monotonic() < since + LONG_FROZEN_S:
            assert states(home)[frozen] == "stopped"
        [queue] = [str(each["name"]) for each in _queues(home)]
        home.run("queue", "rm", queue, "--yes")
        said = home.run("drill", "run", "kill-master", "--repeat", "1", "--report-dir", "next")
        assert f"left by an earlier drill: {frozen} was stopped (SIGSTOP): it goes on" in said
        assert re.search(r"left by an earlier drill: [ab]-to-[ab] was hurt in Toxiproxy \(latency_", said)
        assert facts(home.folder / "next")["verdict"] == "pass"
        assert set(states(home).values()) == {"running"}
        assert home.queues() == []


def _queues(home: Home) -> list[dict[str, object]]:
    found: list[dict[str, object]] = json.loads(home.run("queue", "ls", "-o", "json"))["queues"]
    return found


@pytest.mark.long
def test_a_member_that_ends_itself_after_a_long_freeze_is_started_again(home: Home) -> None:
    with home.dev():
        text = FREEZE.replace("for_s = 600", f"for_s = {LONG_FROZEN_S:g}")
        home.run("drill", "run", home.drill(text), "--report-dir", "report")
        assert set(states(home).values()) == {"running"}


@pytest.fixture
def target(home: Home) -> Iterator[list[str]]:
    """A drill on a pair whose owner's command to start a member does nothing."""
    hooks = home.folder / "hooks.toml"
    hooks.write_text('kill = ["sh", "-c", "kill -9 $(cat {member}.pid)"]\nstart = ["true"]\n')
    with home.dev() as base:
        pids = tomllib.loads((home.folder / "pair" / "context.toml").read_text())["pids"]
        for name in ("a", "b"):
            (home.folder / f"{name}.pid").write_text(str(pids[name]))
        yield ["--target", f"127.0.0.1:{base},127.0.0.1:{base + 10}", "--hooks", str(hooks)]


@pytest.mark.long
@pytest.mark.parametrize(("more", "words"), [(0, "not whole after all was healed"), (2, "healing was ended before")])
def test_a_stopped_drill_says_what_is_not_healed(home: Home, target: list[str], more: int, words: str) -> None:
    """By itself after a while, or at once by the third signal."""
    text = KILL + f"\n[rollback]\nwithin_s = {600 if more else 4}\n"
    drill = home.start("drill", "run", home.drill(text), *target)
    heard(drill, "round 1 of 1")
    wait_for_state(home, "signal 9")
    drill.send_signal(signal.SIGTERM)
    heard(drill, "stopped by SIGTERM")
    for pattern in ("SIGINT: it is still healing", "SIGINT: the healing is given up")[:more]:
        drill.send_signal(signal.SIGINT)
        heard(drill, pattern)
    said = ended(drill, 3)
    assert "NOT_HEALED cause: stopped by SIGTERM; NOT HEALED: " in said
    assert words in said
    assert "everything is healed" not in said
