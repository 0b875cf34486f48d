"""The pytest plugin with a workload and faults, as its users meet it: verdicts that hold, and members that end."""

from __future__ import annotations

import re

import pytest

from tests.integration.suites import check_nothing_left, facts_of, own_suite, said
from tests.support.toxiproxy import toxiproxy_program

pytest_plugins = ("pytester",)
pytestmark = [pytest.mark.process, pytest.mark.timeout(300)]  # several pairs each, on a machine that others use

_suite = own_suite()


# -- the workload ------------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_the_verdict_is_the_tests(pytester: pytest.Pytester) -> None:
    """It holds over a kill; it does not when somebody steals a message, and nothing is proven by nothing."""
    pytester.makepyfile(
        """
        from datetime import timedelta
        from conftest import write_facts

        def test_held(tandemq_pair, tandemq_workload):
            tandemq_workload.start()
            tandemq_pair.kill()
            tandemq_workload.goes_on()
            verdict = tandemq_workload.verdict()
            assert verdict.acknowledged >= 50
            assert (verdict.lost, verdict.duplicates, verdict.order_breaks) == (0, 0, 0)
            write_facts(tandemq_pair, "facts.json")

        def test_stolen(tandemq_pair, tandemq_workload):
            tandemq_workload.start(rate=200)
            stolen = []
            while not stolen:
                stolen = tandemq_pair.client().dequeue("tandemq-workload", 1, wait=timedelta(seconds=5))
                stolen.ack()

        def test_never_started(tandemq_pair, tandemq_workload):
            pass
        """
    )
    result = pytester.runpytest_subprocess("--tandemq-keep-pair")
    result.assert_outcomes(passed=3, errors=2)
    text = said(result)
    assert "tandemq: broken" in text
    assert re.search(r"lost [1-9]", text)
    assert "BROKEN nothing_acknowledged_is_lost" in text
    assert "the workload was never started" in text
    check_nothing_left(facts_of(pytester, "facts.json"), at_once=True)


CARRIER = """
import threading
from datetime import timedelta

class Carrier:
    def __init__(self, pair, each):
        self.client, self.each, self.over = pair.client(), each, threading.Event()
        for name in ("incoming", "outgoing"):
            self.client.create_queue(name)
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        while not self.over.is_set():
            batch = self.client.dequeue("incoming", 100, wait=timedelta(seconds=0.2))
            payloads = self.each([bytes(message.payload) for message in batch])
            if payloads:
                self.client.enqueue("outgoing", payloads)
            if len(batch):
                batch.ack()

    def stop(self):
        self.over.set()
        self.thread.join()
"""


@pytest.mark.long
def test_an_application_that_loses_or_doubles_is_found(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(carrier=CARRIER)
    pytester.makepyfile(
        """
        import pytest
        from carrier import Carrier

        CASES = {
            "good": lambda payloads: payloads,
            "loses": lambda payloads: payloads[1:],
            "doubles": lambda payloads: payloads + payloads[:1],
            "invents": lambda payloads: payloads + [b"7:7:"] if payloads else [],
            "scribbles": lambda payloads: [b"?" for _ in payloads],
        }

        @pytest.mark.parametrize("case", CASES)
        def test_it(tandemq_pair, tandemq_workload, case):
            carrier = Carrier(tandemq_pair, CASES[case])
            try:
                tandemq_workload.start("incoming", take_from="outgoing", rate=100)
                tandemq_workload.goes_on(100)
                tandemq_workload.verdict()
            finally:
                carrier.stop()
        """
    )
    result = pytester.runpytest_subprocess("--tandemq-keep-pair", "-rA")
    result.assert_outcomes(passed=1, failed=4)
    text = said(result)
    assert "BROKEN nothing_acknowledged_is_lost" in text
    assert "BROKEN carried_once" in text
    assert "BROKEN nothing_comes_unasked" in text
    assert "nobody sent that" in text


@pytest.mark.long
def test_faults_that_make_no_sense_or_have_no_effect(pytester: pytest.Pytester) -> None:
    program = toxiproxy_program()
    pytester.makepyfile(
        """
        import pytest
        from tandemq.testing import TandemqTestError

        def refused(call, *arguments, **named):
            with pytest.raises(TandemqTestError) as caught:
                call(*arguments, **named)
            return str(caught.value)

        def test_nonsense(tandemq_pair, tandemq_chaos):
            assert "there are kill, freeze" in refused(tandemq_chaos.strike, "kil")
            assert "use strike" in refused(tandemq_chaos.held, "flap")
            assert "neither a member nor one of" in refused(tandemq_chaos.strike, "cut", on="c")
            assert "give at most 60 s" in refused(tandemq_chaos.strike, "cut", for_s=61)
            assert tandemq_chaos.strike("cut", for_s=0.2) == ["a"]

        @pytest.mark.tandemq(seed=7)
        def test_a_storm_is_the_seeds(tandemq_chaos):
            assert len(tandemq_chaos.storm(rounds=2, kinds=["cut", "freeze"], for_s=0.5)) == 2

        def test_no_effect(tandemq_chaos, tandemq_workload):
            tandemq_workload.start()
            tandemq_chaos.strike("handoffs", for_s=0)  # over before one is ordered
        """
    )
    result = pytester.runpytest_subprocess(f"--tandemq-toxiproxy={program}")
    result.assert_outcomes(passed=3, errors=1)
    assert "INVALID: no handoffs of 1 had an effect" in said(result)


TOXIPROXY_DIES = """
import os, signal, subprocess, pytest
from conftest import write_facts
from tandemq.testing import TandemqTestError

def end_toxiproxy(pair, name):
    write_facts(pair, name)
    def found():
        pattern = f"toxiproxy-server.*-port {pair.base_port + 25}"
        return [int(pid) for pid in subprocess.run(["pgrep", "-f", pattern], stdout=subprocess.PIPE).stdout.split()]
    pids = found()
    assert pids
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
    while found():
        pass

def test_before_a_fault(tandemq_pair, tandemq_chaos):
    end_toxiproxy(tandemq_pair, "before.json")
    with pytest.raises(TandemqTestError, match="strike: SERVER_GONE: Toxiproxy at .* does not answer"):
        tandemq_chaos.strike("cut", on="a", for_s=0.2)
    with pytest.raises(TandemqTestError, match="strike: (SERVER_GONE: )?Toxiproxy at .* (does not|ended by itself)"):
        tandemq_chaos.strike("cut")  # there may be no master any more
    with pytest.raises(TandemqTestError, match="Toxiproxy at .* ended by itself with signal 9; see .*toxiproxy.log"):
        while True:  # until the members have noticed
            tandemq_pair.wait_whole()

def test_in_a_fault(tandemq_pair, tandemq_chaos, tandemq_workload):
    tandemq_workload.start()
    with tandemq_chaos.held("cut"):
        tandemq_pair.freeze("replica")
        end_toxiproxy(tandemq_pair, "in.json")

def test_unseen(tandemq_pair, tandemq_chaos):
    end_toxiproxy(tandemq_pair, "unseen.json")

def test_next(tandemq_pair, tandemq_chaos):
    assert tandemq_pair.is_whole
"""


@pytest.mark.long
@pytest.mark.parametrize("keep", [(), ("--tandemq-keep-pair",)], ids=["own", "kept"])
def test_a_toxiproxy_that_dies_is_told(pytester: pytest.Pytester, keep: tuple[str, ...]) -> None:
    """By the test in which it did, also when it asked for no fault afterwards, and by no other."""
    pytester.makepyfile(TOXIPROXY_DIES)
    result = pytester.runpytest_subprocess("-rA", f"--tandemq-toxiproxy={toxiproxy_program()}", *keep)
    result.assert_outcomes(passed=3, failed=1, errors=3)
    text = said(result)
    assert "release: SERVER_GONE: Toxiproxy at " in text
    told = re.findall(r"^Toxiproxy at [\d.:]+ ended by itself with signal 9; see .*toxiproxy.log", text, re.MULTILINE)
    assert len(told) == 3
    for name in ("before", "in", "unseen"):
        check_nothing_left(facts_of(pytester, f"{name}.json"), at_once=True)


@pytest.mark.long
def test_a_member_that_ends_itself_after_a_freeze_is_started_again(pytester: pytest.Pytester) -> None:
    """What it does after a long one: here it is told to meanwhile. Another member that ends is told."""
    pytester.makepyfile(
        """
        import os, signal, pytest
        from conftest import write_facts

        def end_when_it_goes_on(pair, name):
            os.kill(pair.processes[name].pid, signal.SIGTERM)

        def test_held(tandemq_pair, tandemq_chaos, tandemq_workload):
            tandemq_workload.start()
            before = tandemq_pair.processes
            with tandemq_chaos.held("freeze") as [name]:
                end_when_it_goes_on(tandemq_pair, name)
                tandemq_workload.goes_on()
            assert tandemq_pair.is_whole
            assert tandemq_pair.processes[name].pid != before[name].pid

        def test_thawed(tandemq_pair):
            [name] = tandemq_pair.freeze("replica")
            end_when_it_goes_on(tandemq_pair, name)
            tandemq_pair.thaw(name)
            while tandemq_pair.processes[name].running:
                pass
            tandemq_pair.wait_whole()

        def test_left_as_it_is(tandemq_pair):
            [name] = tandemq_pair.freeze("replica")
            end_when_it_goes_on(tandemq_pair, name)
            tandemq_pair.thaw(name)
            while tandemq_pair.processes[name].running:
                pass

        def test_another_ends(tandemq_pair, tandemq_workload):
            tandemq_workload.start()
            tandemq_pair.freeze("replica")
            os.kill(tandemq_pair.processes["witness"].pid, signal.SIGTERM)
            while tandemq_pair.processes["witness"].running:
                pass
            tandemq_workload.verdict()  # heals: all of them run again
            write_facts(tandemq_pair, "facts.json")
        """
    )
    result = pytester.runpytest_subprocess(f"--tandemq-toxiproxy={toxiproxy_program()}")
    result.assert_outcomes(passed=4, errors=1)
    assert "witness ended by itself with exit code 0" in said(result)
    check_nothing_left(facts_of(pytester, "facts.json"), at_once=True)


@pytest.mark.long
def test_a_pair_is_whole_after_a_freeze_that_is_really_long(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(
        """
        def test_it(tandemq_chaos, tandemq_workload):
            tandemq_workload.start()
            with tandemq_chaos.held("freeze"):
                tandemq_workload.goes_on(6000, within_s=60)  # twelve seconds of them
        """
    )
    pytester.runpytest_subprocess(f"--tandemq-toxiproxy={toxiproxy_program()}").assert_outcomes(passed=1)
