"""The pytest plugin as its users meet it: suites of their own, run by a pytest of their own, good and bad."""

from __future__ import annotations

import importlib.metadata
import os
import re
import shlex
import signal
import subprocess

import pytest

from tests.integration.suites import check_nothing_left, facts_of, own_suite, said
from tests.support.toxiproxy import toxiproxy_program
from tests.support.until import OUTER_S

pytest_plugins = ("pytester",)
pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]  # several pairs each, on a machine that others use

_suite = own_suite()


# -- what needs no pair ------------------------------------------------------------------------------------------------


def test_a_suite_that_uses_nothing_of_it_is_left_alone(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is found by itself."""
    if not importlib.metadata.entry_points(group="pytest11", name="tandemq"):
        pytest.fail("the plugin's entry point is not installed: run `make venv`")
    monkeypatch.delenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD")
    pytester.plugins = []
    pytester.makeini("[pytest]\nasyncio_default_fixture_loop_scope = function")
    pytester.makepyfile(
        """
        import sys
        def test_nothing_is_imported():
            heads = ("tandemq", "grpc", "google", "chaos", "click")
            ours = {name for name in sys.modules if name.split(".")[0] in heads}
            assert "tandemq.testing.plugin" in ours
            assert ours <= {"tandemq", "tandemq.testing", "tandemq.testing.plugin"}
            assert not [place for place in sys.path if place.endswith("_server")]
        """
    )
    pytester.runpytest_subprocess("--strict-markers", "-W", "error").assert_outcomes(passed=1)


def test_a_marker_that_makes_no_sense_fails_its_test(pytester: pytest.Pytester) -> None:
    cases = {
        "7": "write its arguments by name, as in @pytest.mark.tandemq(seed=7)",
        "sede=7": "unknown argument sede; did you mean seed?",
        "seed='x'": "seed is 'x': give a whole number",
        "seed=-1": "seed is -1: give a whole number",
        "profile='clasic'": "profile is 'clasic': give one of safe, classic",
        "secure='no'": "secure is 'no': give True, or False",
        "ready_s=0": "ready_s is 0: give seconds",
        "config={'peer': {}}": "config has 'peer': give mappings for timers, limits, failover",
    }
    lines = "".join(
        f"@pytest.mark.tandemq({case})\ndef test_{number}():\n    pass\n" for number, case in enumerate(cases)
    )
    pytester.makepyfile("import pytest\n" + lines)
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(errors=len(cases))
    for complaint in cases.values():
        assert complaint in said(result)


def test_without_toxiproxy_a_test_of_faults_fails_or_is_skipped_loudly(
    pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(pytester.path))
    pytester.makepyfile("def test_it(tandemq_chaos):\n    raise AssertionError('it ran')")
    required = pytester.runpytest_subprocess()
    required.assert_outcomes(errors=1)
    assert "toxiproxy-server is missing: install tandemq[chaos]" in said(required)
    allowed = pytester.runpytest_subprocess("-rs", "-o", "tandemq_toxiproxy=skip")
    allowed.assert_outcomes(skipped=1)
    assert "CHAOS NOT TESTED: toxiproxy-server is missing" in said(allowed)


# -- a pair for each test ----------------------------------------------------------------------------------------------


def test_a_pair_is_there_may_be_hurt_and_is_gone_afterwards(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import sys
        from conftest import write_facts

        def test_it(tandemq_pair, tandemq_witness):
            write_facts(tandemq_pair, "facts.json")
            assert not {"grpc", "chaos", "replica"} & sys.modules.keys()
            client = tandemq_pair.client()
            client.create_queue("orders")
            assert client.enqueue("orders", [b"1"])[0].copies == 2
            assert tandemq_pair.master == "a"
            assert tandemq_pair.kill() == ["a"]
            assert not tandemq_pair.is_whole
            assert tandemq_pair.processes["a"].ending == "signal 9"
            assert client.enqueue("orders", [b"2"])[0].copies == 1
            assert tandemq_witness.register() == (2, "b", ("b",))
            tandemq_pair.start("a")
            assert tandemq_pair.wait_whole() == "b"
            assert tandemq_pair.handoff() == "a"
            assert tandemq_pair.wait_whole() == "a"
            tandemq_pair.freeze("replica")
            assert tandemq_pair.processes["b"].frozen
        """
    )
    pytester.runpytest_subprocess("-p", "no:cacheprovider").assert_outcomes(passed=1)
    check_nothing_left(facts_of(pytester, "facts.json"), at_once=True)


def test_the_pair_asks_who_somebody_is_and_what_he_may(pytester: pytest.Pytester) -> None:
    """The last test has the same pair as the first, kept: it knows nothing of what was granted before."""
    pytester.makepyfile(
        """
        import os, subprocess, sys
        import pytest
        import tandemq
        from tandemq.errors import Denied, NotFound, TandemqError, Unreachable

        def test_billing(tandemq_pair, tandemq_principal):
            tandemq_pair.client().create_queue("orders")
            billing = tandemq_principal("billing")
            with pytest.raises(NotFound):  # who has no right at all does not see it
                billing.client().enqueue("orders", [b"1"])
            billing.grant("produce", "orders")
            billing.client().enqueue("orders", [b"1"])
            with pytest.raises(Denied):
                billing.client().dequeue("orders")
            program = "import tandemq; tandemq.connect().enqueue('orders', [b'2'])"
            subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, **billing.environment})
            assert len(tandemq_pair.client().dequeue("orders", 10)) == 2
            with pytest.raises(Unreachable, match="wants a certificate"):
                tandemq.connect(tandemq_pair.target, timeout=1.0).list_queues()
            with pytest.raises(Exception, match="use up to 64 of"):
                tandemq_principal("a b")

        def test_again(tandemq_pair, tandemq_principal):
            tandemq_pair.client().create_queue("orders")
            with pytest.raises(NotFound):
                tandemq_principal("billing").client().enqueue("orders", [b"1"])

        @pytest.mark.tandemq(secure=False)
        def test_plain(tandemq_pair):
            assert tandemq_pair.credentials == ""
            tandemq.connect(tandemq_pair.target).create_queue("orders")
            with pytest.raises(Exception, match="has no certificates"):
                tandemq_pair.principal("billing")
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider", "--tandemq-keep-pair")
    result.assert_outcomes(passed=3)


def test_a_failure_tells_the_seed_its_command_and_the_logs_by_time(pytester: pytest.Pytester) -> None:
    program = toxiproxy_program()
    pytester.makepyfile(
        """
        def test_it(tandemq_pair, tandemq_chaos):
            tandemq_pair.kill("replica")
            raise AssertionError(f"drew {tandemq_chaos.random.random()}")
        """
    )
    first = pytester.runpytest_subprocess(f"--tandemq-toxiproxy={program}", "--tandemq-report=kept")
    first.assert_outcomes(failed=1)
    [command] = [line for line in first.outlines if line.startswith("python -m pytest ")]
    seed = int(command.rpartition("=")[2])
    assert f"seed {seed}" in first.outlines

    logged = [re.match(r" *(\w+) \| (\d\d:\d\d:\d\d\.\d{3}) ", line) for line in first.outlines]
    found = [(match[1], match[2]) for match in logged if match]
    assert {"a", "b", "witness", "chaos"} <= {name for name, _ in found}
    assert [time for _, time in found] == sorted(time for _, time in found)
    [kept] = (pytester.path / "kept").iterdir()
    assert {"merged.txt", "repeat.txt", "history.jsonl", "a.log", "b.log", "witness.log"} <= {
        path.name for path in kept.iterdir()
    }
    assert "kill -9 b" in (kept / "merged.txt").read_text()

    again = pytester.runpytest_subprocess(*shlex.split(command)[3:], f"--tandemq-toxiproxy={program}")
    [drawn] = set(re.findall(r"drew [\d.]+", said(first)))
    assert drawn in said(again)


def test_a_pair_that_cannot_start_and_a_member_that_died_fail_their_tests(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import os, signal, pytest
        from conftest import write_facts

        @pytest.mark.tandemq(ready_s=0.01)
        def test_too_slow(tandemq_pair):
            raise AssertionError("it ran")

        @pytest.mark.tandemq(config={"timers": {"lost_ms": 100}})
        def test_refused(tandemq_pair):
            raise AssertionError("it ran")

        @pytest.mark.tandemq(config={"timers": {"lots_ms": 100}})
        def test_unknown(tandemq_pair):
            raise AssertionError("it ran")

        def test_died(tandemq_pair):
            write_facts(tandemq_pair, "facts.json")
            os.kill(tandemq_pair.processes["b"].pid, signal.SIGTERM)
            while tandemq_pair.processes["b"].running:
                pass
        """
    )
    result = pytester.runpytest_subprocess()
    result.assert_outcomes(errors=4, passed=1)
    text = said(result)
    assert text.count("the pair did not start: ") >= 3
    assert "does not answer at" in text or "not a master and a replica in sync within 0.01 s" in text
    assert "must rise: 0 < heartbeat_ms < suspect_ms < lost_ms" in text
    assert "unknown key timers.lots_ms; did you mean lost_ms?" in text
    assert "b ended by itself with exit code 0" in text
    check_nothing_left(facts_of(pytester, "facts.json"), at_once=True)


def test_two_workers_have_pairs_of_their_own(pytester: pytest.Pytester) -> None:
    """Both run at the same time: each waits for what the other writes."""
    pytester.makepyfile(
        """
        import pathlib, time, pytest
        from conftest import write_facts

        @pytest.mark.parametrize("mine, other", [("one", "two"), ("two", "one")])
        def test_it(tandemq_pair, mine, other):
            client = tandemq_pair.client()
            client.create_queue("same-name")
            client.enqueue("same-name", [mine.encode()])
            write_facts(tandemq_pair, mine + ".json")
            while not pathlib.Path(other + ".json").exists():  # the test's time is the bound
                pass
            assert [each.payload for each in client.dequeue("same-name", 10)] == [mine.encode()]
        """
    )
    pytester.plugins = ["tandemq.testing.plugin", "xdist"]
    pytester.runpytest_subprocess("-n", "2").assert_outcomes(passed=2)
    one, two = facts_of(pytester, "one.json"), facts_of(pytester, "two.json")
    assert one["base_port"] != two["base_port"]
    assert one["directory"] != two["directory"]
    for facts in (one, two):
        check_nothing_left(facts, at_once=True)


@pytest.mark.long
def test_a_kept_pair_is_empty_and_whole_for_the_next_test(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        import pytest
        from conftest import write_facts

        def test_first(tandemq_pair):
            write_facts(tandemq_pair, "first.json")
            tandemq_pair.client().create_queue("orders")
            tandemq_pair.kill()

        def test_second(tandemq_pair):
            write_facts(tandemq_pair, "second.json")
            assert tandemq_pair.is_whole
            assert tandemq_pair.client().list_queues() == []

        @pytest.mark.tandemq(config={"limits": {"park_ms": 4000}})
        def test_another(tandemq_pair):
            write_facts(tandemq_pair, "third.json")
        """
    )
    pytester.runpytest_subprocess("--tandemq-keep-pair").assert_outcomes(passed=3)
    first, second, third = (facts_of(pytester, f"{name}.json") for name in ("first", "second", "third"))
    assert first["directory"] == second["directory"] != third["directory"]
    for facts in (first, second, third):
        check_nothing_left(facts, at_once=True)


# -- the end, whatever happens -----------------------------------------------------------------------------------------

HANGING = """
import os, signal, time
from conftest import write_facts

def test_it(tandemq_pair, tandemq_chaos):
    with tandemq_chaos.held("cut"):
        tandemq_pair.freeze("replica")
        if {fork}:
            if os.fork() == 0:  # holds every pipe of ours open
                time.sleep(60)
                os._exit(0)
        write_facts(tandemq_pair, "facts.json")
        os.kill({target}, signal.{signal})
        while True:
            time.sleep(1)
"""
WAYS = {
    "group": {"target": "-os.getpgid(0)", "signal": "SIGKILL", "fork": False},
    "forked": {"target": "os.getpid()", "signal": "SIGKILL", "fork": True},
    "keeper": {"target": "tandemq_pair._host.pid", "signal": "SIGKILL", "fork": False},
    "interrupt": {"target": "os.getpid()", "signal": "SIGINT", "fork": False},
}
QUICK = "group"


@pytest.mark.parametrize("way", [way if way == QUICK else pytest.param(way, marks=pytest.mark.long) for way in WAYS])
def test_nothing_is_left_however_a_test_ends(pytester: pytest.Pytester, way: str) -> None:
    """In the middle of a fault, with a member that is frozen and hears nothing."""
    text = HANGING.format(**WAYS[way])
    if way == "keeper":
        text = text.replace("while True:\n            time.sleep(1)", "tandemq_pair.status()")
    pytester.makepyfile(text)
    program = toxiproxy_program()
    command = [*pytester._getpytestargs(), "-p", "tandemq.testing.plugin", f"--tandemq-toxiproxy={program}"]
    with (pytester.path / "said").open("wb") as said_there:  # a pipe would be open as long as the child that it forks
        process = subprocess.Popen(command, process_group=0, cwd=pytester.path, stdout=said_there, stderr=said_there)
        try:
            process.wait(timeout=OUTER_S)
        finally:
            if process.returncode is None:
                os.killpg(process.pid, signal.SIGKILL)
    out = (pytester.path / "said").read_bytes()
    facts = facts_of(pytester, "facts.json")
    check_nothing_left(facts)
    if way == "keeper":
        assert "the process that keeps the pair is gone" in out.decode()
    assert process.returncode == {"interrupt": 2, "keeper": 1}.get(way, -9)
    if way == "forked":
        os.killpg(process.pid, signal.SIGKILL)  # the child that it left
