"""The contract of a classifier command, from the manager's side: small real commands, each wrong in one way.

R127: input facts, output verdict, time limit. R130: what is unknown never promotes.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from failover.classifier import Answer, Event, Evidence, SafetyClass, Verdict
from failover.command import Command, answer_of
from failover.marks import Role
from failover.process import Ended, Process, Ran
from failover.reasons import REASON_CHARS_MAX, tidy
from tests.failover.support import COMMANDS, ECHO_ID, PYTHON, SHELL, WRONG, Wrong, event, is_alive, script
from tests.support.starvation import Stopwatch
from tests.support.until import OUTER_S, until

pytestmark = pytest.mark.process

SHORT_MS = 300
GRACE_S = 1.0
SLACK_S = 1.0


async def ask(path: str, limit_ms: int = 20_000, **changes: object) -> Answer:
    return await Command([path]).classify(event(decide_by_ms=limit_ms, **changes))


@pytest.mark.parametrize("wrong", WRONG.values(), ids=WRONG)
async def test_what_it_does_wrong_is_no_answer_with_a_reason(tmp_path: Path, wrong: Wrong) -> None:
    limit_ms = SHORT_MS if "no end" in wrong.reason else 20_000
    answer = await ask(script(tmp_path, wrong.text), limit_ms)
    assert answer.verdict is None
    assert wrong.reason in answer.reason
    assert (answer.event_id, answer.link_generation, answer.by) == ("e1", 3, "command")


@pytest.mark.parametrize("verdict", Verdict)
async def test_an_exit_code_is_a_verdict(tmp_path: Path, verdict: Verdict) -> None:
    answer = await ask(script(tmp_path, f"exit {verdict.value}\n"))
    assert (answer.verdict, answer.reason, answer.evidence) == (verdict, "", Evidence.NONE)


def test_every_code_but_five_is_no_verdict() -> None:
    codes = range(-64, 256)
    given = {code for code in codes if answer_of(event(), Ran(Ended.EXIT, code), "x", 0).verdict is not None}
    assert given == {20, 21, 22, 23, 24}


@pytest.mark.parametrize("ended", [ended for ended in Ended if ended is not Ended.EXIT])
def test_only_an_exit_has_a_code(ended: Ended) -> None:
    assert answer_of(event(), Ran(ended, 21, "because"), "x", 0) == Answer("e1", 3, None, "because", by="x")


@pytest.mark.parametrize("said", ['"PEER_ALIVE"', "24", "null"])
async def test_one_line_of_json_adds_to_the_verdict(tmp_path: Path, said: str) -> None:
    told = (
        f'{{"event_id":"e1","verdict":{said},"reason":"it\\u0007 answers\\nby the other path","evidence":"lease",'
        '"token":"t1","valid_for_ms":9000,"retry_ms":700,"of_a_later_version":[1]}'
    )
    (tmp_path / "told").write_text(told)
    answer = await ask(script(tmp_path, f"cat > /dev/null; cat {tmp_path}/told; echo; exit 24\n"))
    assert answer.verdict is Verdict.PEER_ALIVE
    assert answer.reason == "it answers by the other path"  # one line, printable: it goes into logs
    assert (answer.evidence, answer.token) == (Evidence.LEASE, "t1")
    assert (answer.valid_for_ms, answer.retry_ms) == (9000, 700)


async def test_it_reads_one_event_and_then_the_end_of_its_input(tmp_path: Path) -> None:
    answer = await ask(script(tmp_path, f"cat > {tmp_path}/seen; exit 23\n"), event_id='"\\\u2028 ü')
    seen = json.loads((tmp_path / "seen").read_text())
    assert answer.verdict is Verdict.WAIT
    assert (seen["schema_version"], seen["event_id"], seen["event"]) == (1, '"\\\u2028 ü', "PEER_LOST")
    assert seen["decide_by_ms"] == 20_000
    assert "\n" not in (tmp_path / "seen").read_text()


@pytest.mark.parametrize("name", ["decide.sh", "decide.py"])
async def test_the_examples_answer(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GATEWAY_CHECK", "true")
    assert (await ask(str(COMMANDS / name))).verdict is Verdict.ASSUME_MASTERSHIP
    was_master = replace(event().domains[0], role=Role.MASTER, peer_role="REPLICA")
    assert (await ask(str(COMMANDS / name), domains=(was_master,))).verdict is Verdict.CONTINUE_AS_MASTER


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("exec 0<&-\nexit 23\n", "closes stdin at once"),
        ("exit 23\n", "does not read stdin"),
        (f"{PYTHON}import sys, time\nwhile sys.stdin.buffer.raw.read(4096): pass\nsys.exit(23)\n", "reads slowly"),
    ],
)
async def test_how_it_reads_is_its_own_affair(tmp_path: Path, text: str, why: str) -> None:
    large = event().domains * 5_000  # more than a pipe holds
    assert (await ask(script(tmp_path, text), domains=large)).verdict is Verdict.WAIT, why


async def test_a_missing_or_useless_file_is_named(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    cases = {
        "/no/such/file": "not started: /no/such/file: not found; give its whole path",
        script(tmp_path, "exit 21\n", "plain", 0o644): "not executable; chmod +x it",
        str(folder): "not executable",
        script(tmp_path, "#!/no/such/interpreter\n", "orphan"): "not started",
        "a\0b": "not started",
        "": "not started: the command is empty",
    }
    (tmp_path / "data").write_bytes(b"\x7fELF nonsense")
    (tmp_path / "data").chmod(0o755)
    cases[str(tmp_path / "data")] = "not started"
    for path, reason in cases.items():
        answer = await ask(path)
        assert answer.verdict is None
        assert reason in answer.reason
    assert (await Command([]).classify(event())).reason == "not started: the command is empty"


async def test_preflight_says_what_a_call_would() -> None:
    assert await Command(["/no/such/file"]).preflight() == ["/no/such/file: not found; give its whole path"]
    assert await Command([sys.executable]).preflight() == []
    assert Command(["x"]).safety is SafetyClass.C


async def test_there_is_no_shell(tmp_path: Path) -> None:
    path = script(tmp_path, f'printf "%s" "$1" > {tmp_path}/seen; exit 23\n')
    await Command([path, "$(touch /tmp/x); *"]).classify(event())
    assert (tmp_path / "seen").read_text() == "$(touch /tmp/x); *"


@pytest.mark.clock
async def test_the_limit_ends_the_whole_group(tmp_path: Path) -> None:
    text = f"trap '' TERM\n(trap '' TERM; echo $$ > {tmp_path}/leader; sleep 600) &\necho $! > {tmp_path}/child\nwait\n"
    with Stopwatch() as watch:
        answer = await ask(script(tmp_path, text), SHORT_MS)
    assert answer.reason == "no end within 0.3 s, and SIGTERM did not end it"
    limit_s = SHORT_MS / 1000 + GRACE_S
    assert watch.took_s >= limit_s
    watch.judge("its end", limit_s + SLACK_S)
    await _gone(tmp_path / "leader", tmp_path / "child")


async def test_sigterm_reaches_the_children_too(tmp_path: Path) -> None:
    text = f"(trap 'echo told > {tmp_path}/told; exit' TERM; sleep 600) &\ntrap '' TERM\nwait\nwait\n"
    assert (await ask(script(tmp_path, text), SHORT_MS)).verdict is None
    assert _text(tmp_path / "told") == "told"


async def test_a_child_that_holds_the_pipe_is_not_waited_for_and_not_left(tmp_path: Path) -> None:
    text = f"sleep 600 &\necho $! > {tmp_path}/child\nexit 21\n"
    answer = await ask(script(tmp_path, text))
    assert answer.verdict is Verdict.ASSUME_MASTERSHIP
    await _gone(tmp_path / "child")


async def test_a_child_that_floods_after_the_end_is_not_waited_for(tmp_path: Path) -> None:
    text = f"(while :; do echo x; done) >&2 &\necho $! > {tmp_path}/child\nexit 22\n"
    assert (await ask(script(tmp_path, text))).verdict is Verdict.FAILED_INSTANCE
    await _gone(tmp_path / "child")


async def test_a_cancelled_call_kills_the_group(tmp_path: Path) -> None:
    text = f"trap '' TERM\nsleep 600 &\necho $! > {tmp_path}/child\nwait\n"
    call = asyncio.ensure_future(ask(script(tmp_path, text), limit_ms=600_000))  # it does not end by its limit
    await until(lambda: _written(tmp_path / "child"), "the child has started")
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    await _gone(tmp_path / "child")


def test_what_it_does_not_want_to_read_is_over_at_once() -> None:
    """Else its pipe is writable for ever, and whoever waits for its end spins."""
    process = Process(["sh", "-c", "exec 0<&-; sleep 0.1"], b"x" * (1 << 20), 600)
    assert process.run().ended is Ended.EXIT
    assert process._sent == len(process._stdin) < 1 << 20


def test_killed_before_it_starts_it_does_not_live() -> None:
    process = Process(["sleep", "600"], b"", 600)
    process.kill()
    assert process.run().ended is Ended.CANCELLED


async def test_one_that_ends_when_it_is_asked_to_is_not_said_to_have_ignored_that() -> None:
    ran = await asyncio.to_thread(Process(["sleep", "600"], b"", 0.05, grace_s=OUTER_S).run)
    assert (ran.ended, ran.why, ran.killed) == (Ended.LIMIT, "no end within 0.05 s", False)


@pytest.mark.slow
async def test_a_flood_fills_neither_memory_nor_time(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    ran = await asyncio.to_thread(Process(["sh", "-c", "head -c 100000000 /dev/zero; exit 21"], b"", 50).run)
    after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    assert (ran.ended, ran.code, len(ran.stdout), ran.stdout_cut) == (Ended.EXIT, 21, 65_536, True)
    assert after - before < 20_000  # KiB


async def test_a_flood_without_end_is_ended(tmp_path: Path) -> None:
    answer = await ask(script(tmp_path, "exec yes 'who lives?' >&2\n"), SHORT_MS)
    assert answer.verdict is None
    assert "no end within 0.3 s" in answer.reason


async def test_much_on_stderr_is_no_fault(tmp_path: Path) -> None:
    text = "head -c 1000000 /dev/zero | tr '\\0' 'x' >&2; exit 23\n"
    assert (await ask(script(tmp_path, text))).verdict is Verdict.WAIT


async def test_the_last_line_of_stderr_explains_a_failure(tmp_path: Path) -> None:
    text = "echo trying >&2; printf 'cannot reach \\033[31m10.0.0.1\\n' >&2; exit 1\n"
    assert (await ask(script(tmp_path, text))).reason.endswith("stderr ends: cannot reach [31m10.0.0.1")


def test_text_for_operators_is_bounded() -> None:
    assert len(tidy("x" * 10_000)) == REASON_CHARS_MAX
    assert tidy("a\nb\x1b[2Jc\u202e") == "a b [2Jc"


async def test_calls_do_not_hold_up_the_loop(tmp_path: Path) -> None:
    """A call costs the data path nothing: the loop goes on turning while a command floods."""
    call = asyncio.ensure_future(ask(script(tmp_path, "exec yes\n"), SHORT_MS))
    turns = 0
    while not call.done():
        await asyncio.sleep(0)
        turns += 1
    assert turns > 1_000


async def test_no_file_descriptor_is_left(tmp_path: Path) -> None:
    paths = [script(tmp_path, "sleep 600 & exit 21\n", "a"), "/no/such/file", script(tmp_path, "exit 0\n", "b")]
    await ask(paths[0])
    before = _open_files()
    for path in paths * 5:
        await ask(path)
    assert _open_files() <= before


def _open_files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


async def _written(path: Path) -> bool:
    return _text(path) != ""


def _text(path: Path) -> str:
    return path.read_text().strip() if path.exists() else ""


async def _gone(*pid_files: Path) -> None:
    async def gone() -> bool:
        return not any(is_alive(int(path.read_text())) for path in pid_files)

    await until(gone, "no process of the group is left")


def test_the_helpers_of_this_file_see_what_they_look_for(tmp_path: Path) -> None:
    assert is_alive(os.getpid())
    assert isinstance(event(), Event)
    assert script(tmp_path, ECHO_ID).startswith(str(tmp_path))
    assert Path(script(tmp_path, "exit 0")).read_text().startswith(SHELL)
