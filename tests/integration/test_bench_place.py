"""The benchmark's own processes: nothing of a killed harness is left, and syncs are counted as they are made."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from bench.peers.adapters.tandemq import Tandemq
from bench.peers.place import BenchError, Place, processes_below, stoppable, usage
from bench.peers.run import Load
from bench.peers.syncs import counted

ROOT = Path(__file__).resolve().parents[2]
HARNESS = """
import sys
from pathlib import Path
from bench.peers.place import Place

with Place(Path(sys.argv[1])) as place:
    # The second is a fork of the first, as a server's would be: the kernel's signal does not reach it.
    child = place.spawn("server", ["sh", "-c", "setsid sleep 600 & exec sleep 600"])
    print(child.pid, flush=True)
    sys.stdin.read()
"""

pytestmark = pytest.mark.process


def test_nothing_of_a_killed_harness_is_left_after_the_next_start(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    harness = subprocess.Popen(
        [sys.executable, "-c", HARNESS, str(folder)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert harness.stdout
    assert harness.stdin
    child = int(harness.stdout.readline())
    with pytest.raises(BenchError, match="another run"), Place(folder):
        pass
    while len(list(processes_below(folder))) < 2:
        pass
    assert "server" in usage(folder)
    harness.send_signal(signal.SIGKILL)
    harness.wait()
    harness.stdin.close()
    harness.stdout.close()
    assert [pid for pid, _ in processes_below(folder) if pid != child], "the fork outlives its harness"
    with Place(folder) as place:
        assert list(processes_below(folder)) == []
        assert list(place.folder.iterdir()) == []


def test_a_load_does_not_outlive_the_server_that_it_needs(tmp_path: Path) -> None:
    """Killed in the middle, one of three servers is not missed by a majority; a client may wait for others."""
    with Place(tmp_path / "run") as place:
        peer = Tandemq(place)
        spec = {
            "client": "tandemq", "target": {"servers": "127.0.0.1:1"}, "queue": "q", "folder": str(place.folder),
            "progress": str(place.role("progress") / "q"), "seed": 1, "size": 100, "window": 1, "batch": 1,
            "warm_s": 0, "seconds": 1,
        }  # fmt: skip
        server = place.spawn("server", ["sleep", "600"])
        assert place.gone() == ""
        load = Load(place, "producer", peer, spec)
        server.kill()
        with pytest.raises(BenchError, match=r"server ended \(-9\) while the producer was at work"):
            load.ready()
        place.end("server")
        assert place.gone() == "", "what was ended here need not run"
        assert [where for _, where in processes_below(place.folder)] == []


STOPPED = """
import sys
from bench.peers.place import stoppable

with stoppable("test"):
    try:
        print("up", flush=True)
        sys.stdin.read()
    finally:
        print("ended", flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_command_that_is_stopped_ends_what_it_started_and_says_so(number: signal.Signals) -> None:
    command = subprocess.Popen(
        [sys.executable, "-c", STOPPED],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert command.stdout
    assert command.stdout.readline() == "up\n"
    command.send_signal(number)
    out, err = command.communicate()
    assert (out, err) == ("ended\n", "test: stopped, and what it had started is ended\n")
    assert command.returncode == 130


WRITER = """
import os, sys
file = os.open("file", os.O_CREAT | os.O_WRONLY)
print("up", flush=True)
for line in sys.stdin:
    for _ in range(int(line)):
        os.write(file, b"x")
        os.fdatasync(file)
    print("done", flush=True)
"""


@pytest.mark.skipif(shutil.which("strace") is None, reason="needs strace (make strace)")
def test_syncs_are_counted_by_process(tmp_path: Path) -> None:
    writers = {}
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        writers[name] = subprocess.Popen(
            [sys.executable, "-c", WRITER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=tmp_path / name,
        )

    def ask(name: str, count: int) -> None:
        stdin, stdout = writers[name].stdin, writers[name].stdout
        assert stdin
        assert stdout
        stdin.write(f"{count}\n")
        stdin.flush()
        assert stdout.readline() == "done\n"

    def work() -> None:
        ask("one", 7)
        ask("two", 3)

    try:
        for name, writer in writers.items():
            assert writer.stdout
            assert writer.stdout.readline() == "up\n"
            ask(name, 5)  # before anybody counts
        found = counted({name: [writer.pid] for name, writer in writers.items()}, tmp_path, work)
    finally:
        for writer in writers.values():
            writer.kill()
            writer.communicate()
    assert found == {"one": 7, "two": 3}


def test_what_could_be_stopped_leaves_the_handlers_of_before() -> None:
    """A child of a later test was to die of its SIGTERM, and raised KeyboardInterrupt."""
    numbers = (signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(each) for each in numbers]
    with stoppable("test"):
        assert signal.getsignal(signal.SIGTERM) != before[0]
    assert [signal.getsignal(each) for each in numbers] == before
