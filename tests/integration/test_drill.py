"""`tandemq drill` against real pairs: verdict, reports, guards, and that nothing is left when it goes wrong."""

from __future__ import annotations

import json
import os
import re
import signal
import tomllib
from pathlib import Path

import pytest

from chaos.drill import plan
from tests.integration.home import Home, facts
from tests.support.toxiproxy import toxiproxy_program
from tests.support.until import until_sync

pytestmark = pytest.mark.process
ONE_KILL = """
name = "one-kill"
repeat = 1
[steady]
warm_up_s = 1
[[method]]
fault = "kill"
for_s = 1
"""


def test_what_cannot_be_played_is_refused_before_anything_runs(home: Home) -> None:
    assert "did you mean kill-master?" in home.run("drill", "run", "kill-mastr", "--fresh", code=2)
    wrong = home.drill(ONE_KILL.replace("repeat", "repaet"))
    assert "unknown key repaet; did you mean repeat?" in home.run("drill", "run", wrong, "--fresh", code=2)
    assert "no `tandemq dev` runs" in home.run("drill", "run", "kill-master", code=2)
    assert "is not on this machine" in home.run("drill", "run", "kill-master", "--target", "192.0.2.1:7600", code=2)
    (home.folder / "home").mkdir()
    nobody = "127.0.0.1:1"
    assert "nobody answers at 127.0.0.1:1" in home.run("drill", "run", "kill-master", "--target", nobody, code=2)
    context = home.folder / "home" / "context.toml"
    context.write_text('target = "127.0.0.1:1"\ndata_dir = "/nowhere"\nproduction = true\n')
    for more in ((), ("--target", nobody)):
        assert "production = true; nothing was hurt" in home.run("drill", "run", "kill-master", *more, code=2)
    meant = home.run("drill", "run", "kill-master", "--target", nobody, "--i-mean-it", code=2)
    assert "nobody answers at 127.0.0.1:1" in meant
    context.write_text("production = yes\n")
    assert "it may be production; nothing was hurt" in home.run("drill", "run", "kill-master", code=2)
    assert not (home.folder / "build").exists()


@pytest.mark.long
def test_the_network_of_a_pair_of_dev_is_hurt_and_healed(home: Home) -> None:
    toxiproxy_program()
    with home.dev("--chaos"):
        said = home.run("drill", "run", "partition-peer", "--repeat", "1", "--report-dir", "one")
        assert "PASS  drill partition-peer" in said
        home.run("drill", "run", "one-way", "--repeat", "1", "--report-dir", "two")
        assert home.queues() == []
    assert facts(home.folder / "one")["faults"] == {"cut": {"had_effect": 1, "made": 1}}
    assert "two drills" in home.run("drill", "compare", "one", "two", code=2)


@pytest.mark.long
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP])
def test_a_drill_that_is_stopped_heals_what_it_hurt(home: Home, number: signal.Signals) -> None:
    text = ONE_KILL.replace('"kill"', '"freeze"').replace("for_s = 1", "for_s = 600")
    with home.dev():
        process = home.start("drill", "run", home.drill(text), "--report-dir", "report")
        assert process.stdout is not None
        assert any(re.search("round 1 of 1", line) for line in process.stdout)
        process.send_signal(number)
        said, _ = process.communicate()
        assert process.returncode == 2, said
        assert "everything is healed" in said
        status = json.loads(home.run("pair", "status", "-o", "json", code=None))  # 1: not in sync again yet
        assert all(member["reachable"] for member in status["members"])
        assert home.queues() == []
    assert (home.folder / "report" / "journal.jsonl").stat().st_size > 0


@pytest.mark.long
def test_a_drill_of_its_own_leaves_nothing_when_it_is_killed(home: Home) -> None:
    toxiproxy_program()
    process = home.start("drill", "run", "flapping-link", "--fresh")
    assert process.stdout is not None
    assert any(re.search("round 1", line) for line in process.stdout)
    children = [int(path.parent.name) for path in Path("/proc").glob("[0-9]*/stat") if _parent(path) == process.pid]
    assert len(children) == 4, "two members, a witness and Toxiproxy"
    process.kill()
    process.communicate()
    until_sync(lambda: not any(_runs(pid) for pid in children), "no process of the drill outlives it")


@pytest.mark.long
def test_a_toxiproxy_that_dies_in_the_middle_is_told_and_nothing_is_left(home: Home) -> None:
    toxiproxy_program()
    text = ONE_KILL.replace('"kill"', '"flap"').replace("for_s = 1", "for_s = 600")
    text += "\n[rollback]\nwithin_s = 5\npause_s_max = 10\n"
    process = home.start("drill", "run", home.drill(text), "--fresh")
    assert process.stdout is not None
    assert any(re.search("round 1", line) for line in process.stdout)
    children = [path.parent for path in Path("/proc").glob("[0-9]*/stat") if _parent(path) == process.pid]
    [toxiproxy] = [path for path in children if b"toxiproxy" in (path / "cmdline").read_bytes().split(b"\0")[0]]
    os.kill(int(toxiproxy.name), signal.SIGKILL)
    said, _ = process.communicate()
    assert process.returncode == 3, said
    assert re.search("SERVER_GONE: Toxiproxy at 127.0.0.1:[0-9]+ does not answer", said)
    assert not [path for path in children if _runs(int(path.name))]


def _fields(path: Path) -> list[str]:
    try:
        return path.read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def _parent(path: Path) -> int:
    found = _fields(path)
    return int(found[1]) if found else 0


def _runs(pid: int) -> bool:
    found = _fields(Path(f"/proc/{pid}/stat"))
    return bool(found) and found[0] != "Z"


@pytest.mark.long
def test_a_drill_that_cannot_heal_says_what_is_left(home: Home) -> None:
    """The owner's command to start members does nothing: the pair stays half."""
    hooks = home.folder / "hooks.toml"
    hooks.write_text('kill = ["sh", "-c", "kill -9 $(cat {member}.pid)"]\nstart = ["true"]\n')
    with home.dev() as base:
        pids = tomllib.loads((home.folder / "pair" / "context.toml").read_text())["pids"]
        for name in ("a", "b"):
            (home.folder / f"{name}.pid").write_text(str(pids[name]))
        target = f"127.0.0.1:{base},127.0.0.1:{base + 10}"
        text = ONE_KILL + "\n[rollback]\nwithin_s = 5\n"
        said = home.run("drill", "run", home.drill(text), "--target", target, "--hooks", str(hooks), code=3)
        assert "NOT HEALED" in said
        assert "not whole after all was healed" in said


@pytest.mark.long
@pytest.mark.parametrize("name", plan.names())
def test_every_drill_of_the_library_holds(home: Home, name: str) -> None:
    toxiproxy_program()
    said = home.run("drill", "run", name, "--fresh", "--repeat", "1", "--report-dir", "report")
    assert f"PASS  drill {name}" in said
