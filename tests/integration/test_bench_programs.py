"""A program of a root is seen from outside as any other, and of what it mounts nothing is seen or left."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from bench.peers.place import Place, processes_below
from bench.peers.programs import Programs, refusal
from tests.support.until import until_sync

# The machine's own root: its /usr is laid over itself, for reading alone.
HERE = Programs(Path("/"))
TOUCHES = 'touch /usr/of-the-bench 2>touched || true; touch "$PWD/kept"; exec sleep 600'

pytestmark = [
    pytest.mark.process,
    pytest.mark.skipif(os.geteuid() != 0 or refusal(HERE) != "", reason="needs root that may mount"),
]


def mounts() -> list[str]:
    return Path("/proc/self/mountinfo").read_text().splitlines()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL])
def test_a_program_in_a_root_works_where_it_was_started_and_leaves_no_mount(
    number: signal.Signals, tmp_path: Path
) -> None:
    before = mounts()
    with Place(tmp_path / "run") as place:
        process = place.spawn("server", [*HERE.prefix, "sh", "-c", TOUCHES])
        folder = place.role("server")
        until_sync((folder / "kept").exists, "it did its work")
        assert (process.pid, Path("server")) in list(processes_below(place.folder)), "the process itself, by its folder"
        assert "Read-only" in (folder / "touched").read_text()
        assert mounts() == before, "what is mounted is seen by it alone"
        process.send_signal(number)
        assert process.wait() == -number
        place.end("server")
    assert mounts() == before
    assert not Path("/usr/of-the-bench").exists()
    assert not (tmp_path / "run/server").exists()
