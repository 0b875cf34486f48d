"""How samples become a budget: threads share what they used, the innermost named function gives the stage."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from bench.budget.flame import drawn
from bench.budget.sample import SampleError, read, weighed
from bench.budget.stages import LOOP, ORDER, RULES, budget, stage_of
from bench.budget.tables import BATCH, SIDES, markdown
from bench.document import Document
from bench.peers.place import machine_us, tree_us

RAW = """\
thread (7): MainThread;Runner.run (asyncio/runners.py);ProduceStream._read (replica/services/messages/produce.py) 30
thread (7): MainThread;Runner.run (asyncio/runners.py) 10
thread (9): tandemq-writer_0;_worker (concurrent/futures/thread.py);DiskStore.commit (storage/disk.py) 400
"""


def test_a_thread_that_waits_is_seen_often_and_gets_what_it_used() -> None:
    weights = weighed(read(RAW), {7: 800, 9: 100, 11: 100})
    by_thread = {stack[0]: 0.0 for stack in weights}
    for stack, weight in weights.items():
        by_thread[stack[0]] += weight
    assert by_thread == pytest.approx({"MainThread": 0.8, "tandemq-writer_0": 0.1, "threads of gRPC": 0.1})
    assert weights["MainThread", "Runner.run (asyncio/runners.py)"] == pytest.approx(0.2)


@pytest.mark.parametrize(
    ("stacks", "used"),
    [(read(RAW), {7: 0, 9: 0}), (Counter(), {7: 5}), (Counter({("MainThread", "f"): 1}), {7: 5})],
    ids=["nothing was used", "nothing was seen", "threads without numbers"],
)
def test_samples_that_say_nothing_are_refused(stacks: Counter[Any], used: dict[int, int]) -> None:
    with pytest.raises(SampleError):
        weighed(stacks, used)


@pytest.mark.parametrize(
    ("side", "role", "functions", "stage"),
    [
        (
            "ours",
            "master",
            ("Orders._enqueue (replica/core/ordering/orders.py)", "DomainLog.build (replica/core/state/log.py)"),
            "record",
        ),
        ("ours", "master", ("ProduceStream._submit (replica/services/messages/produce.py)",), "decode and check"),
        ("ours", "master", ("Orders.on_committed (replica/core/ordering/orders.py)",), "acknowledge"),
        ("ours", "replica", ("SyncTarget.on_op (replica/core/replication/sync_target.py)", "len (x.py)"), "apply"),
        ("ours", "client", ("Producer._write (tandemq/client/producer.py)",), "batch and send"),
        ("floor", "master", ("Handlers.produce (server.py)", "Log.append (server.py)"), "decode and check"),
        ("floor", "master", ("Log.forward.<locals>.acknowledged (server.py)",), "the peer's acknowledgements"),
        ("ours", "master", ("Runner.run (asyncio/runners.py)",), LOOP),
        ("ours", "master", ("LazyGroup.invoke (cli.py)", "Group.invoke (click/core.py)", "Runner.run (r.py)"), LOOP),
        ("ours", "client", ("main (load.py)", "Runner.run (r.py)"), LOOP),
        ("ours", "client", ("main (load.py)", "Runner.run (r.py)", "enqueue.<locals>.worker (load.py)"), "application"),
    ],
)
def test_the_innermost_named_function_gives_the_stage(
    side: str, role: str, functions: tuple[str, ...], stage: str
) -> None:
    assert stage_of(("main", *functions), RULES[side, role]) == stage


def test_every_stage_of_a_rule_has_a_row() -> None:
    assert {stage for rules in RULES.values() for stage, _ in rules} <= set(ORDER)


def test_a_budget_adds_up_to_what_the_process_used() -> None:
    weights = weighed(read(RAW), {7: 800, 9: 100, 11: 100})
    found = budget(weights, RULES["ours", "master"], 4.0)
    assert sum(found.values()) == pytest.approx(4.0)
    assert found["decode and check"] == pytest.approx(2.4)


def document(**more: float) -> Document:
    about = {"commit": "abc", "python": "3.11", "grpcio": "1", "lmdb": "3", "cpu": "a cpu", "cores": 2, "kernel": "6"}
    found = Document("budget", about, "2026-01-02", {"runs": 3})
    stages = {role: {"order": 1.0, LOOP: 2.0} for role in ("client", "master", "replica")}
    for run in range(3):
        for name in BATCH:
            for side in SIDES:
                figures = {"value": 8.0 + run, "cpu_us": dict.fromkeys(stages, 3.0), "stages_us": stages, **more}
                found.add((name, side), {"run": run, **figures})
    return found


def test_a_stage_has_a_row_with_what_a_batch_of_it_takes() -> None:
    text = markdown(document())
    assert "**enqueue**: ours 9 (8 to 10) msg/s, the floor 9 (8 to 10)." in text
    assert "| order | 1.00 / 1.00 | 1.00 / 1.00 | 1.00 / 1.00 | 300 |" in text
    assert "| **all** | **3.00 (3.00 to 3.00)** / 3.00 (3.00 to 3.00) | " in text


@pytest.mark.parametrize(("cores", "noisy"), [(0.02, False), (0.36, True)])
def test_a_busy_machine_is_named(cores: float, noisy: bool) -> None:
    """By what strangers used. A load average counts who is measured, and whoever waits for a disk."""
    assert ("**Noisy**: strangers used up to 0.36 cores" in markdown(document(foreign_cores=cores))) is noisy


def test_a_document_that_did_not_count_strangers_says_so() -> None:
    """Those of before have a load average, which says nothing."""
    text = markdown(document(load_average=5.3))
    assert "What others used of the machine was not counted." in text
    assert "Noisy" not in text


def test_what_this_process_and_its_children_use_is_no_strangers() -> None:
    """A child's time is counted while it runs, when it was killed, and when it was waited for."""
    busy = "import sys, time\nwhile time.process_time() < 0.3: pass\nprint(flush=True); sys.stdin.read()"
    before = tree_us(os.getpid())
    child = subprocess.Popen([sys.executable, "-c", busy], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert child.stdout
    child.stdout.readline()
    running = tree_us(os.getpid()) - before
    child.kill()
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
    killed = tree_us(os.getpid()) - before
    child.communicate()
    waited_for = tree_us(os.getpid()) - before
    assert 0.28e6 < running <= killed <= waited_for
    assert tree_us(os.getpid()) < machine_us()


def test_a_flame_graph_is_a_picture_of_the_shares() -> None:
    picture = drawn({("main", "f<x> (replica/a.py)"): 3.0, ("main", "g (b.py)"): 1.0}, "a & b")
    root = ET.fromstring(picture)
    titles = [each.text for each in root.iter("{http://www.w3.org/2000/svg}title")]
    assert titles == ["all, 100.0%", "main, 100.0%", "f<x> (replica/a.py), 75.0%", "g (b.py), 25.0%"]


def test_a_narrow_box_has_no_label() -> None:
    picture = drawn({("main", "wide (a.py)"): 199.0, ("main", "narrow (b.py)"): 1.0}, "t")
    labels = [each.text for each in ET.fromstring(picture).iter("{http://www.w3.org/2000/svg}text")]
    assert labels == ["t", "all", "main", "wide (a.py)"]
